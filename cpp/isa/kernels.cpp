// The table of all kernels. CMakeLists.txt compiles this file once per instruction set, with TRELLIS_ISA
// set to a namespace and with the compiler flags of that instruction set.
//
// Nothing here, nor in the included files, may instantiate a standard container: see base/simd.hpp.
#include "chain/log.hpp"
#include "chain/max.hpp"
#include "chain/pairs.hpp"
#include "chain/scaled.hpp"
#include "chain/sparse.hpp"
#include "chain/tables.hpp"
#include "ctc/best_path.hpp"
#include "ctc/log.hpp"
#include "ctc/scaled.hpp"
#include "ctc/softmax.hpp"
#include "dispatch.hpp"
#include "embedding/nearest_coarse.hpp"
#include "embedding/nearest_kernels.hpp"
#include "embedding/sentence_training.hpp"
#include "embedding/text_predictor_kernels.hpp"
#include "embedding/text_training.hpp"
#include "graph/grid_lines.hpp"
#include "loglinear/row_kernels.hpp"
#include "nn/adam_kernels.hpp"
#include "nn/char_windows_kernels.hpp"
#include "nn/lstm_kernels.hpp"

#define TRELLIS_STRING_OF(x) #x
#define TRELLIS_STRING(x) TRELLIS_STRING_OF(x)

namespace trellis::TRELLIS_ISA {

template <class T>
constexpr ChainKernels<T> chain_kernels() {
  return {.scaled_forward = scaled_forward<T>,
          .scaled_finish = scaled_finish<T>,
          .scaled_backward = scaled_backward<T>,
          .outer_products = outer_products,
          .pairwise = pairwise<T>,
          .log_forward = log_forward<T>,
          .log_backward = log_backward<T>,
          .entropy = entropy<T>,
          .sample = sample<T>,
          .alpha_table = alpha_table<T>,
          .beta_table = beta_table<T>,
          .best_table = best_table<T>,
          .max_forward = max_forward<T>,
          .best_paths = best_paths<T>,
          .max_backward = max_backward<T>};
}

template <class T>
constexpr CtcScores<T> ctc_scores() {
  return {.log_norm = ctc::log_norm<T>,
          .softmax = ctc::softmax<T>,
          .emissions = ctc::emissions<T>,
          .gradient = ctc::gradient<T>};
}

constexpr CtcKernels ctc_kernels() {
  return {.scaled = {.in_log = false,
                     .forward = ctc::forward,
                     .finish = ctc::finish,
                     .backward = ctc::backward},
          .in_log = {.in_log = true,
                     .forward = ctc::log_forward,
                     .finish = ctc::log_finish,
                     .backward = ctc::log_backward},
          .scores_float = ctc_scores<float>(),
          .scores_double = ctc_scores<double>(),
          .best_float = {.forward = ctc::best_forward<float>, .argmax = ctc::argmax<float>},
          .best_double = {.forward = ctc::best_forward<double>, .argmax = ctc::argmax<double>},
          .log_add_masses = ctc::log_add_masses};
}

constexpr EmbeddingKernels embedding_kernels() {
  return {.sentence = embedding::sentence,
          .write_back_hot_rows = embedding::write_back_hot_rows,
          .text = embedding::text,
          .mean = embedding::mean,
          .fill = embedding::fill,
          .step = embedding::step};
}

constexpr NearestKernels nearest_kernels() {
  return {.lanes = kQueries,
          .pack = nearest_pack,
          .many = nearest_many,
          .few = nearest_few,
          .coarse = nearest_coarse,
          .coarsen = coarsen,
          .assign = assign_centroids};
}

extern const Kernels kernels;  // without extern, a const object would be local to this file
const Kernels kernels{.name = TRELLIS_STRING(TRELLIS_ISA),
                      .chain_float = chain_kernels<float>(),
                      .chain_double = chain_kernels<double>(),
                      .loglinear = {.score_rows = score_rows,
                                    .score_ids = score_ids,
                                    .add_rows = add_rows,
                                    .sparse_marginals = sparse_marginals,
                                    .pair_forward = pair_forward,
                                    .pair_backward = pair_backward,
                                    .softmax = softmax},
                      .ctc = ctc_kernels(),
                      .grid = {.sum_product = grid::sweep<false>, .max_product = grid::sweep<true>},
                      .embedding = embedding_kernels(),
                      .nearest = nearest_kernels(),
                      .text = {.add_rows = text::add_rows, .dots = text::dots},
                      .lstm = {.pack_forward = lstm::pack_forward,
                               .pack_backward = lstm::pack_backward,
                               .forward = lstm::forward,
                               .backward = lstm::backward},
                      .char_windows = {.largest = char_windows::largest},
                      .adam = {.update = adam::update}};

}  // namespace trellis::TRELLIS_ISA
