// trellis._core: the compiled part of the library. Private: trellis.native and the engines call it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "dispatch.hpp"

namespace nb = nanobind;

namespace {

std::string public_name(const trellis::Kernels& kernels) {
  const std::string level = std::string(kernels.name).substr(4);  // without "isa_"
  return level == "generic" ? level : "x86-64-" + level;
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Native kernels of trellis.";
  nb::set_leak_warnings(false);  // nanobind would print warnings at exit
  m.def("isa", [] { return public_name(trellis::kernels()); });
  m.def("available_isas", [] {
    std::vector<std::string> names;
    for (const trellis::Kernels* k : trellis::available_kernels()) names.push_back(public_name(*k));
    return names;
  });
  m.def("use_isa", &trellis::use_kernels, nb::arg("name"));
  bind_errors(m);
  bind_arrays(m);
  bind_chain(m);
  bind_ctc(m);
  bind_ctc_decode(m);
  bind_embeddings(m);
  bind_embedding_training(m);
  bind_features(m);
  bind_graph(m);
  bind_grid(m);
  bind_layer(m);
  bind_vocabulary(m);
  bind_formats(m);
  bind_loglinear(m);
  bind_lstm(m);
  bind_ngram(m);
  bind_ctc_words(m);
  bind_nearest(m);
  bind_adam(m);
  bind_char_windows(m);
  bind_optim(m);
  bind_tagger(m);
  bind_text_predictor(m);
}
