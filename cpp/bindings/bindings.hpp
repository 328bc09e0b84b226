// Declares one function per source file of bindings.
#pragma once

#include <nanobind/nanobind.h>

void bind_adam(nanobind::module_& m);
void bind_arrays(nanobind::module_& m);
void bind_chain(nanobind::module_& m);
void bind_char_windows(nanobind::module_& m);
void bind_ctc(nanobind::module_& m);
void bind_ctc_decode(nanobind::module_& m);
void bind_ctc_words(nanobind::module_& m);
void bind_embedding_training(nanobind::module_& m);
void bind_embeddings(nanobind::module_& m);
void bind_errors(nanobind::module_& m);
void bind_faults(nanobind::module_& m);  // cpp/faults; only in builds with TRELLIS_FAULTS
void bind_features(nanobind::module_& m);
void bind_formats(nanobind::module_& m);
void bind_graph(nanobind::module_& m);
void bind_grid(nanobind::module_& m);
void bind_layer(nanobind::module_& m);
void bind_loglinear(nanobind::module_& m);
void bind_lstm(nanobind::module_& m);
void bind_nearest(nanobind::module_& m);
void bind_ngram(nanobind::module_& m);
void bind_ngram_training(nanobind::module_& m);
void bind_optim(nanobind::module_& m);
void bind_tables(nanobind::module_& m);
void bind_tagger(nanobind::module_& m);
void bind_text_predictor(nanobind::module_& m);
void bind_vocabulary(nanobind::module_& m);
void bind_words(nanobind::module_& m);
