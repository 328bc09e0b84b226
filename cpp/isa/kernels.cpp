// The hot kernels, compiled once for each instruction set (CMakeLists.txt sets TRELLIS_ISA and flags).
#include "chain/log.hpp"
#include "chain/max.hpp"
#include "chain/scaled.hpp"
#include "chain/sparse.hpp"
#include "ctc/best.hpp"
#include "ctc/log.hpp"
#include "ctc/scaled.hpp"
#include "ctc/scores.hpp"
#include "embedding/nearest_coarse.hpp"
#include "embedding/nearest_kernels.hpp"
#include "embedding/text.hpp"
#include "embedding/text_rows.hpp"
#include "embedding/walk.hpp"
#include "graph/grid_lines.hpp"
#include "loglinear/rows.hpp"
#include "nn/lstm_walk.hpp"
#include "nn/network_rows.hpp"

#define TRELLIS_STRING_OF(x) #x
#define TRELLIS_STRING(x) TRELLIS_STRING_OF(x)

namespace trellis::TRELLIS_ISA {

template <class T>
constexpr ChainKernels<T> chain_kernels() {
  return {scaled_forward<T>, scaled_finish<T>, scaled_backward<T>, outer_products,
          pairwise<T>,       log_forward<T>,   log_backward<T>,    entropy<T>,
          sample<T>,         max_forward<T>,   best_paths<T>,      max_backward<T>};
}

template <class T>
constexpr CtcScores<T> ctc_scores() {
  return {ctc::log_norm<T>, ctc::softmax<T>, ctc::emissions<T>, ctc::gradient<T>};
}

extern const Kernels kernels;
const Kernels kernels{
    TRELLIS_STRING(TRELLIS_ISA),
    chain_kernels<float>(),
    chain_kernels<double>(),
    {score_rows, score_ids, add_rows, sparse_marginals, softmax},
    {{false, ctc::forward, ctc::finish, ctc::backward},
     {true, ctc::log_forward, ctc::log_finish, ctc::log_backward},
     ctc_scores<float>(),
     ctc_scores<double>(),
     {ctc::best_forward<float>, ctc::argmax<float>},
     {ctc::best_forward<double>, ctc::argmax<double>},
     ctc::log_add_masses},
    {grid::sweep<false>, grid::sweep<true>},
    {embedding::sentence, embedding::cool, embedding::text, embedding::mean, embedding::fill,
     embedding::step},
    {kQueries, nearest_pack, nearest_many, nearest_few, nearest_coarse, coarsen, assign_centroids},
    {text::add_rows, text::dots},
    {lstm::pack_forward, lstm::pack_backward, lstm::forward, lstm::backward},
    {network::largest, network::adam}};

}  // namespace trellis::TRELLIS_ISA
