// The arguments of the chain kernels: plain pointers, no ownership, independent of the instruction set.
//
// A path y through a trellis of T positions and L labels scores
//     start[y_0] + sum_t unary[t][y_t] + sum_{t>0} transition_t[y_{t-1}][y_t] + end[y_{T-1}].
// Rows in scratch memory have `stride` columns (L rounded up to a multiple of kPadding), so that full
// vectors can be loaded. The caller's arrays are never padded.
#pragma once

#include <cstdint>

namespace trellis {

inline constexpr int kPadding = 8;          // doubles: a multiple of every vector width
inline constexpr int kMaxLabels = 1 << 15;  // an index into a (labels, labels) matrix must fit an int
// The largest range of scores, within a row or among the transitions, for scaled probabilities:
// e^-170 > 1e-75, so the product of two such factors and kTinyAlpha is a normal number.
inline constexpr double kWidestScores = 170.0;
// The largest finite score. Larger scores are reported as an overflow: the sum of 10^7 scores within
// this limit, and the difference of two such sums, are finite.
inline constexpr double kLargestScore = 1e300;
// The sums of alpha are multiplied until the product leaves this range. Then its logarithm is added to
// log Z. This needs one logarithm for many positions instead of one for each.
inline constexpr double kLargestProduct = 1e100, kSmallestProduct = 1e-100;
// The number of sequences that a kernel processes at the same time. While one sequence waits for a
// result, the CPU works on the other sequences. More sequences would need more registers than there are.
inline constexpr int kGroup = 4;

// L rounded up to a multiple of kPadding.
inline constexpr int padded(int labels) { return (labels + kPadding - 1) / kPadding * kPadding; }

enum class Status : std::int64_t {
  ok = 0,
  infeasible = 1,       // every path is forbidden; no path reaches `position`
  bad_unary = 2,        // NaN or +inf in the unary scores, or a finite score beyond kLargestScore
  bad_transition = 3,   // the same in position-dependent transition scores
  bad_label = 4,        // a label is out of range
  needs_log_space = 5,  // scores too far apart for scaled probabilities; not an error
};

// The result status of one sequence. It has two integers, so that an array of outcomes is a NumPy array
// (n, 2) of int64.
struct Outcome {
  Status status = Status::ok;
  std::int64_t position = 0;
};

// Scores shared by all sequences of a batch.
struct SharedView {
  int labels;
  int stride;
  // (stride) each, zero-padded: the scores added to the unary scores. edge[0] is for an inner position
  // (zeros), edge[1] for the first (start), edge[2] for the last (end), edge[3] for the only one (start
  // + end).
  const double* edge[4];
  // (labels, stride): transition scores, padded with -inf. Null if they depend on the position.
  const double* log;
  const double* log_by_to;     // the transpose of log: [to][from]
  const double* weight;        // (labels, stride): exp(log - shift), padded with 0
  const double* weight_by_to;  // the transpose of weight
  double shift;                // the largest finite transition score
  bool dense;                  // no transition is forbidden
  bool scalable;               // the finite transition scores lie within kWidestScores
  bool in_range;               // no finite shared score is beyond kLargestScore
};

// Estimates the operations per position, for PollEvery; kRowCost is the part without label pairs.
inline constexpr std::int64_t kRowCost = 64;
inline constexpr std::int64_t row_cost(const SharedView& s) {
  return kRowCost + static_cast<std::int64_t>(s.labels) * s.stride;
}

// Returns the scores that are added to the unary scores at position t, (stride).
inline const double* edge_of(const SharedView& s, std::int64_t t, std::int64_t length) {
  return s.edge[(t == 0 ? 1 : 0) + (t == length - 1 ? 2 : 0)];
}

// The scores of one sequence.
template <class T>
struct Sequence {
  const T* unary;       // (length, labels)
  const T* transition;  // (length - 1, labels, labels), or null if they are shared
  std::int64_t length;
};

// One sequence while it goes through the scaled kernels, and its scratch rows. "The block" is the range
// of positions that a kernel call works on.
template <class T>
struct Lane {
  Sequence<T> sequence;
  double* alpha;  // (rows + 1, stride): scaled forward probabilities; row 0 is the one before the block
  double* emission;  // (rows + 1, stride): e, then w, then q (see scaled.hpp)
  double* beta;      // (stride): scaled backward probabilities of the current row
  T* out;            // (length, labels): unary marginals
  // The scores and results of the next sequence in this lane, which are prefetched; or null.
  const T* next;
  T* next_out;
  double log_z;      // log Z so far is log_z + log(product)
  double product;    // the product of the sums of alpha since the last logarithm
  double inverse;    // 1 / the sum of the last alpha
  double reference;  // the largest unary score of the block
  bool plain;        // in the block nothing is forbidden, and all scores lie within kWidestScores
  double low_score[kPadding];  // per SIMD lane: the lowest finite unary score minus its row's maximum
  double low_alpha[kPadding];  // per SIMD lane: the lowest alpha above 0
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

// The kernels of one instruction set for scores of type T.
template <class T>
struct ChainKernels {
  // Scaled probabilities: up to kGroup sequences, longest first, at positions [begin, end).
  void (*scaled_forward)(const SharedView&, Lane<T>*, int count, std::int64_t begin, std::int64_t end);
  void (*scaled_finish)(const SharedView&, Lane<T>&);
  void (*scaled_backward)(const SharedView&, Lane<T>*, int count, std::int64_t begin, std::int64_t end);
  // counts[a][b] += sum over rows r of alpha[r][a] * emission[r + 1][b]
  void (*outer_products)(const SharedView&, const double* alpha, const double* emission,
                         std::int64_t rows, double* counts);
  // out (rows, labels, labels): pairwise marginals of consecutive rows
  void (*pairwise)(const SharedView&, const double* alpha, const double* emission, std::int64_t rows,
                   T* out);

  // Log space, exact for any scores. `rows` is (length, stride); `scratch` has scratch_size() doubles.
  Outcome (*log_forward)(const SharedView&, const Sequence<T>&, double* rows, double* scratch,
                         double* log_z);
  // out (length, labels); pairwise (length - 1, labels, labels) or null; counts (labels, stride) or null
  void (*log_backward)(const SharedView&, const Sequence<T>&, const double* rows, double* scratch,
                       T* out, T* pairwise, double* counts);
  Outcome (*entropy)(const SharedView&, const Sequence<T>&, double* scratch, double* entropy);
  // uniforms and labels are (n, length)
  void (*sample)(const SharedView&, const Sequence<T>&, double* rows, double* scratch,
                 const double* uniforms, std::int64_t n, std::int64_t* labels);

  // Tables for the caller. The last argument receives log Z or, in best_table, the score of the best
  // path. out and pointers are (length, labels).
  Outcome (*alpha_table)(const SharedView&, const Sequence<T>&, double* scratch, double* out, double*);
  Outcome (*beta_table)(const SharedView&, const Sequence<T>&, double* scratch, double* out, double*);
  Outcome (*best_table)(const SharedView&, const Sequence<T>&, double* scratch, double* out,
                        std::int64_t* pointers, double*);

  // Best paths. `rows` is (length, stride) for each sequence.
  void (*max_forward)(const SharedView&, const Sequence<T>*, int count, const T* const* next,
                      double* const* rows, double* scratch, Outcome*);
  void (*best_paths)(const SharedView&, const Sequence<T>*, int count, const double* const* rows,
                     double* scratch, std::int64_t* const* labels, double* score);
  void (*max_backward)(const SharedView&, const Sequence<T>&, const double* rows, double* scratch,
                       T* out);
};

// Returns the number of doubles of scratch memory that one sequence needs in the kernels with a
// `scratch` argument: a padded transition matrix and up to eight rows.
inline constexpr std::int64_t scratch_size(int labels) {
  return static_cast<std::int64_t>(padded(labels)) * (labels + 8);
}

// The number of sequences that the sparse kernel processes at the same time, one per SIMD lane. An
// AVX-512 vector has 8 doubles.
inline constexpr int kLanes = 8;

// Eight sequences, longest first. Most transitions score 0; see chain/sparse.hpp.
struct SparseChain {
  int labels;
  const std::int32_t*
      from_begin;           // (labels + 1): pairs (a, to[k]) for k in [from_begin[a], from_begin[a + 1])
  const std::uint16_t* to;  // (pairs)
  const double* value;      // (pairs): exp(score) - 1
  const std::int32_t* to_begin;  // (labels + 1): the same pairs, sorted by their second label
  const std::uint16_t* from;     // (pairs)
  const double* value_by_to;     // (pairs)
  std::int64_t length[kLanes];   // 0 for an empty lane
  const double* unary[kLanes];   // (length, labels)
  double* out[kLanes];           // (length, labels): weight * p(y_t)
  double weight[kLanes];
  double log_z[kLanes];
  double* counts;  // (pairs, kLanes): weight * p(y_{t-1} = a, y_t = b) / exp(score) is added
};

// Eight sequences of a chain of second order, longest first; see chain/pairs.hpp. A state stands for the
// last label, or for the last two labels if some trigram begins with this pair.
struct PairChain {
  int labels, states;
  const std::int32_t* state_begin;  // (labels + 1): the states of label c are [state_begin[c],
                                    // state_begin[c + 1]); the first one stands for c alone
  // The bigrams (b, c) that lead to each state, and their sources: the states of label b. If no trigram
  // ends with the bigram, it has no sources, and the sum over all states of b is used.
  const std::int32_t* bigram_begin;  // (states + 1)
  const std::uint16_t* before;       // (bigrams): b
  const double* bigram_value;        // (bigrams): exp(score), 0 if forbidden
  const std::int32_t* source_begin;  // (bigrams + 1)
  const std::int32_t* plain_begin;   // (bigrams): the first source that has no weight; these come last
  const std::int32_t* source;        // (sources)
  const double* source_value;        // (sources): exp(trigram weight), or 1
  const double* start;               // (labels), or null
  const double* end;                 // (labels), or null
  std::int64_t length[kLanes];       // 0 for an empty lane
  const double* unary[kLanes];       // (length, labels)
  double* out[kLanes];               // (length, labels): weight * p(y_t)
  double weight[kLanes];
  double log_z[kLanes];
  bool inexact[kLanes];  // numbers too small for scaled probabilities, or no path: use the exact kernels
  double* bigram_counts;  // (bigrams, kLanes): weight * p(y_{t-1}, y_t) is added
  // (sources, kLanes): weight * p(y_{t-2}, y_{t-1}, y_t) / source_value is added, if the source has
  // a trigram weight
  double* source_counts;
};

// Returns the number of doubles of scratch memory for sequences of up to `longest` positions.
inline constexpr std::int64_t pair_scratch_size(const PairChain& c, std::int64_t longest) {
  return ((longest + 2) * c.states + (2 * longest + 2) * c.labels) * kLanes;
}

}  // namespace trellis
