// What the chain kernels take and give: plain pointers, no ownership, no instruction set.
//
// A path y through a trellis of T positions and L labels scores
//     start[y_0] + sum_t unary[t][y_t] + sum_{t>0} transition_t[y_{t-1}][y_t] + end[y_{T-1}].
// Rows that the kernels read or write in scratch memory have `stride` columns (L rounded up to a
// multiple of kPadding), so that whole vectors can be loaded; the user's arrays are never padded.
#pragma once

#include <cstdint>

#include "ctc/types.hpp"
#include "embedding/nearest_types.hpp"
#include "embedding/text_types.hpp"
#include "embedding/types.hpp"
#include "graph/grid_types.hpp"
#include "loglinear/types.hpp"
#include "nn/lstm_types.hpp"
#include "nn/network_types.hpp"

namespace trellis {

inline constexpr int kPadding = 8;
inline constexpr int kMostLabels = 1 << 15;  // so that an index into a matrix fits an int
// The widest range of scores, of a row or of the transitions, that scaled probabilities hold: e^-170 >
// 1e-75.
inline constexpr double kWidestScores = 170.0;
inline constexpr int kGroup = 4;  // sequences that go through a kernel side by side

inline constexpr int padded(int labels) { return (labels + kPadding - 1) / kPadding * kPadding; }

enum class Status : std::int64_t {
  ok = 0,
  infeasible = 1,       // no path is allowed; `position` is the first one that no path reaches
  bad_unary = 2,        // NaN or +inf in the unary scores
  bad_transition = 3,   // NaN or +inf in position-dependent transition scores
  bad_label = 4,        // a given label is not one of the labels
  needs_log_space = 5,  // scores too far apart for scaled probabilities: not an error
};

// Two integers, so that an array of outcomes is an (n, 2) array of int64.
struct Outcome {
  Status status = Status::ok;
  std::int64_t position = 0;
};

// Scores that all sequences of a batch share.
struct Shared {
  int labels;
  int stride;
  const double* edge[4];       // (stride), zero-padded: what is added to the unary scores of an inner
                               // position (0), the first (start), the last (end), the only one (both)
  const double* log;           // (labels, stride) transition scores, padded with -inf; null if they
                               // depend on the position
  const double* log_by_to;     // the same, transposed: [to][from]
  const double* weight;        // exp(log - shift), padded with 0
  const double* weight_by_to;  // the same, transposed
  double shift;                // the largest finite transition score
  bool dense;                  // no transition is forbidden
  bool scalable;               // finite transition scores lie within what scaled probabilities can hold
};

// The scores that are added to the unary ones at position t of a sequence.
inline const double* edge_of(const Shared& s, std::int64_t t, std::int64_t length) {
  return s.edge[(t == 0 ? 1 : 0) + (t == length - 1 ? 2 : 0)];
}

// One sequence.
template <class T>
struct Sequence {
  const T* unary;       // (length, labels)
  const T* transition;  // (length - 1, labels, labels), or null if shared
  std::int64_t length;
};

// One sequence on its way through the scaled kernels, with its scratch rows.
template <class T>
struct Lane {
  Sequence<T> sequence;
  double* alpha;  // (rows + 1, stride): scaled forward probabilities; row 0 is the row before the block
  double* emission;  // (rows + 1, stride): e, then w, then q
  double* beta;      // (stride): scaled backward probabilities of the row in hand
  T* out;            // (length, labels) unary marginals
  const T* next;     // of the sequence that will follow in this lane, or null: to be prefetched
  T* next_out;
  double log_z;  // log Z so far = log_z + log(product)
  double product;
  double inverse;    // 1 / the sum of the last alpha
  double reference;  // of the block in hand: the largest unary score, if it is plain
  bool plain;        // of the block in hand: nothing is forbidden, and all its scores lie close together
  double low_score[kPadding];  // the lowest finite unary score under its row's maximum, so far
  double low_alpha[kPadding];  // the lowest alpha above 0
  Outcome outcome;
};

template <class T>
std::int64_t length_of(const Sequence<T>& x) {
  return x.length;
}
template <class T>
std::int64_t length_of(const Lane<T>& lane) {
  return lane.sequence.length;
}

// The kernels of one instruction set, for scores of type T.
template <class T>
struct ChainKernels {
  // Scaled probabilities, up to kGroup sequences (longest first) at positions [begin, end).
  void (*scaled_forward)(const Shared&, Lane<T>*, int count, std::int64_t begin, std::int64_t end);
  void (*scaled_finish)(const Shared&, Lane<T>&);
  void (*scaled_backward)(const Shared&, Lane<T>*, int count, std::int64_t begin, std::int64_t end);
  // counts[a][b] += sum over rows r of alpha[r][a] * emission[r + 1][b]
  void (*outer_products)(const Shared&, const double* alpha, const double* emission, std::int64_t rows,
                         double* counts);
  void (*pairwise)(const Shared&, const double* alpha, const double* emission, std::int64_t rows,
                   T* out);

  // Log space, exact for any scores. `rows` is (length, stride); `scratch` is scratch_size() doubles.
  Outcome (*log_forward)(const Shared&, const Sequence<T>&, double* rows, double* scratch,
                         double* log_z);
  void (*log_backward)(const Shared&, const Sequence<T>&, const double* rows, double* scratch, T* out,
                       T* pairwise, double* counts);
  Outcome (*entropy)(const Shared&, const Sequence<T>&, double* scratch, double* entropy);
  void (*sample)(const Shared&, const Sequence<T>&, double* rows, double* scratch,
                 const double* uniforms, std::int64_t n, std::int64_t* labels);

  // Max-plus. `rows` is (length, stride) per sequence.
  void (*max_forward)(const Shared&, const Sequence<T>*, int count, const T* const* next,
                      double* const* rows, double* scratch, Outcome*);
  void (*best_paths)(const Shared&, const Sequence<T>*, int count, const double* const* rows,
                     double* scratch, std::int64_t* const* labels, double* score);
  void (*max_backward)(const Shared&, const Sequence<T>&, const double* rows, double* scratch, T* out);
};

// Doubles of scratch for one sequence outside the scaled kernels: an expanded transition matrix and
// a few rows.
inline constexpr std::int64_t scratch_size(int labels) {
  return static_cast<std::int64_t>(padded(labels)) * (labels + 8);
}

struct Kernels {
  const char* name;
  ChainKernels<float> chain_float;
  ChainKernels<double> chain_double;
  LoglinearKernels loglinear;
  CtcKernels ctc;
  GridKernels grid;
  EmbeddingKernels embedding;
  NearestKernels nearest;
  TextKernels text;
  LstmKernels lstm;
  NetworkKernels network;

  template <class T>
  const ChainKernels<T>& chain() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return chain_float;
    } else {
      return chain_double;
    }
  }
};

}  // namespace trellis
