// Messages along the lines of a grid, one SIMD vector of lines at a time.
//
//   m'(b) = log sum over a of exp(x(a) + table(a, b)),   x = field + m
// m is the message into a position along the line, m' the message to the next position, and field the
// unary scores plus the messages of the crossing lines. In tree-reweighted propagation, the table is
// divided by the weight r of its edge, and x = field + r m
// - (1 - r) n, where n is the opposite message on the edge: the cavity subtracts all of n, but the
// belief contains only r n.
//
// With p = exp(x - max x) and psi = exp(table - max), the sum is log(p psi): L exponentials and
// logarithms instead of L². Terms that underflow are below 1e-300. If a sum is so small that such terms
// may be a relevant part of it, the vector is recomputed in log space. So the result is exact for scores
// of any size, and for -inf.
#pragma once

#include "base/poll.hpp"
#include "base/simd.hpp"
#include "graph/grid_types.hpp"

namespace trellis::TRELLIS_ISA::grid {

inline constexpr double kSmall = 1e-280;  // smaller sums may have lost terms to underflow
inline constexpr double kFar = 1e300;     // stands for a change from or to -inf

// One message from a position to the next in the kernel's direction, for the lanes from `lane` on.
struct Step {
  const GridLines& lines;
  std::int64_t from, to, lane;
  const double* old;       // messages into `from`, in this direction
  const double* opposite;  // messages in the other direction: from `to` into `from`
  double* out;             // messages into `to`
  bool back;               // the direction is backward: tables are transposed

  TRELLIS_INLINE std::int64_t at(std::int64_t position, int label) const {
    return (position * lines.labels + label) * lines.lanes + lane;
  }
  // Returns the score of label a at `from`, without the message from `to`.
  TRELLIS_INLINE Vec x(int a) const {
    const std::int64_t i = at(from, a);
    if (lines.weight == 1.0) return load(lines.field + i) + load(old + i);
    // A message of -inf is not subtracted: it means that this edge forbids the label, and this score
    // must not depend on this edge.
    const Vec message = load(opposite + i), finite = select(message > -kInfinity, message, Vec{});
    return load(lines.field + i) + lines.weight * load(old + i) - (1.0 - lines.weight) * finite;
  }
  TRELLIS_INLINE int cell(int a, int b) const {
    return back ? b * lines.labels + a : a * lines.labels + b;
  }
  TRELLIS_INLINE Vec score(int a, int b) const { return of_edge(lines.table, a, b); }
  TRELLIS_INLINE Vec psi(int a, int b) const { return of_edge(lines.psi, a, b); }

  TRELLIS_INLINE Vec of_edge(const double* tables, int a, int b) const {
    if (lines.shared) return splat(tables[cell(a, b)]);
    const std::int64_t edge = back ? to : from;
    const std::int64_t cells = static_cast<std::int64_t>(lines.labels) * lines.labels;
    return load(tables + (edge * cells + cell(a, b)) * lines.lanes + lane);
  }
};

TRELLIS_INLINE Vec finite_or_zero(Vec top) { return select(top > -kInfinity, top, Vec{}); }

// Computes one message for scores of any size, with L² exponentials.
template <bool kMax>
inline void step_in_log(const Step& s, double* scratch) {
  const int labels = s.lines.labels;
  for (int a = 0; a < labels; ++a) store(scratch + a * kGridBlock, s.x(a));
  for (int b = 0; b < labels; ++b) {
    Vec top = splat(-kInfinity);
    for (int a = 0; a < labels; ++a) top = max(top, load(scratch + a * kGridBlock) + s.score(a, b));
    if constexpr (!kMax) {
      const Vec shift = finite_or_zero(top);
      Vec sum{};
      for (int a = 0; a < labels; ++a) {
        sum += exp(load(scratch + a * kGridBlock) + s.score(a, b) - shift);
      }
      top = shift + log(sum);
    }
    store(s.out + s.at(s.to, b), top);
  }
}

// Computes one message as a vector-matrix product. Returns false if a sum is too small to be exact.
TRELLIS_INLINE bool step_scaled(const Step& s, double* scratch) {
  const int labels = s.lines.labels;
  Vec top = splat(-kInfinity);
  for (int a = 0; a < labels; ++a) {
    const Vec x = s.x(a);
    store(scratch + a * kGridBlock, x);
    top = max(top, x);
  }
  const Vec shift = finite_or_zero(top);
  for (int a = 0; a < labels; ++a) {
    store(scratch + a * kGridBlock, exp(load(scratch + a * kGridBlock) - shift));
  }
  Mask small{};
  for (int b = 0; b < labels; ++b) {
    Vec sum{};
    for (int a = 0; a < labels; ++a) sum += load(scratch + a * kGridBlock) * s.psi(a, b);
    small |= ~(sum >= kSmall);
    store(s.out + s.at(s.to, b), log(sum));
  }
  return !any(small);
}

// Returns |a - b|; a change from or to -inf counts as kFar.
TRELLIS_INLINE Vec difference(Vec a, Vec b) {
  const Vec d = a - b;
  return select(a == b, Vec{}, min(select(d > 0.0, d, -d), splat(kFar)));
}

// Makes the largest entry of each lane 0 and applies damping; returns the largest change of each lane.
TRELLIS_INLINE Vec normalise_messages(const Step& s, const double* before) {
  const int labels = s.lines.labels;
  const double damping = s.lines.damping;
  Vec top = splat(-kInfinity), change{};
  for (int b = 0; b < labels; ++b) top = max(top, load(s.out + s.at(s.to, b)));
  top = finite_or_zero(top);
  for (int b = 0; b < labels; ++b) {
    double* m = s.out + s.at(s.to, b);
    const Vec old = load(before + b * kGridBlock);
    Vec new_value = load(m) - top;
    if (damping > 0.0) new_value = (1.0 - damping) * new_value + damping * old;
    store(m, new_value);
    change = max(change, difference(new_value, old));
  }
  return change;
}

// Computes one message, exact for any scores; returns its change.
template <bool kMax>
TRELLIS_INLINE Vec step(const Step& s, double* scratch) {
  const int labels = s.lines.labels;
  double* before = scratch + labels * kGridBlock;
  for (int b = 0; b < labels; ++b) store(before + b * kGridBlock, load(s.out + s.at(s.to, b)));
  bool done = false;
  if constexpr (!kMax) {
    done = step_scaled(s, scratch);
  }
  if (!done) step_in_log<kMax>(s, scratch);
  return normalise_messages(s, before);
}

// field = unary + the messages that cross the lines, transposed from the layout of the crossing lines.
inline void fill_field(const GridLines& g, std::int64_t begin, std::int64_t end) {
  const std::int64_t plane = g.crossed * g.labels * g.crossing;
  for (std::int64_t i0 = 0; i0 < g.positions; i0 += kGridBlock) {
    const std::int64_t i1 = i0 + kGridBlock < g.positions ? i0 + kGridBlock : g.positions;
    for (int l = 0; l < g.labels; ++l) {
      for (std::int64_t j0 = begin; j0 < end; j0 += kGridBlock) {
        double sum[kGridBlock][kGridBlock] = {};  // [position][lane]
        for (std::int64_t j = j0; j < j0 + kGridBlock && j < g.crossed; ++j) {
          const double* m = g.across + (j * g.labels + l) * g.crossing + i0;
          for (std::int64_t i = 0; i < kGridBlock; ++i) sum[i][j - j0] = m[i] + m[plane + i];
        }
        for (std::int64_t i = i0; i < i1; ++i) {
          const std::int64_t at = (i * g.labels + l) * g.lanes + j0;
          for (std::int64_t j = 0; j < kGridBlock; ++j)
            g.field[at + j] = g.unary[at + j] + g.crossing_weight * sum[i - i0][j];
        }
      }
    }
  }
}

// Messages of two labels as log odds, for finite tables within kGridSpan. Each message takes one
// exponential and one logarithm. If the log odds of the sender are beyond +-700, the log odds of the
// message are constant.
struct Two {
  Vec same0, up, down, same1;  // psi from a to b: 0 0, 0 1, 1 0, 1 1

  TRELLIS_INLINE static Two shared(const double* psi) {
    return {splat(psi[0]), splat(psi[1]), splat(psi[2]), splat(psi[3])};
  }
  TRELLIS_INLINE static Two of_edge(const double* psi, std::int64_t lanes) {
    return {load(psi), load(psi + lanes), load(psi + 2 * lanes), load(psi + 3 * lanes)};
  }
  TRELLIS_INLINE Two turned() const { return {same0, down, up, same1}; }

  // Returns the log odds of a message, from the log odds d of the sender.
  TRELLIS_INLINE Vec odds(Vec d) const {
    constexpr double kMaxOdds = 700.0;
    const Vec e = exp_in_range(min(max(d, splat(-kMaxOdds)), splat(kMaxOdds)));
    return log((up + e * same1) / (same0 + e * down));
  }
};

// Passes messages one step along all lanes of [begin, end); returns the largest change.
template <bool kReweighted, bool kShared>
TRELLIS_INLINE Vec step_of_two(const GridLines& g, const Two& all, std::int64_t from, std::int64_t to,
                               std::int64_t begin, std::int64_t end, double* m, const double* opposite) {
  const std::int64_t i = from * g.lanes, o = to * g.lanes;
  Vec change{};
  for (std::int64_t lane = begin; lane < end; lane += kWidth) {
    Two two = all;
    if constexpr (!kShared) {
      two = Two::of_edge(g.psi + 4 * (from < to ? from : to) * g.lanes + lane, g.lanes);
      if (to < from) two = two.turned();
    }
    Vec x = load(g.field + i + lane);
    if constexpr (kReweighted) {
      x += g.weight * load(m + i + lane) - (1.0 - g.weight) * load(opposite + i + lane);
    } else {
      x += load(m + i + lane);
    }
    Vec now = two.odds(x);
    const Vec old = load(m + o + lane);
    if (g.damping > 0.0) now = (1.0 - g.damping) * now + g.damping * old;
    store(m + o + lane, now);
    const Vec d = now - old;
    change = max(change, max(d, -d));
  }
  return change;
}

// Passes messages forward, then backward, along the lanes [begin, end).
template <bool kReweighted, bool kShared>
inline double sweep_of_two(const GridLines& g, std::int64_t begin, std::int64_t end) {
  const Two forward = kShared ? Two::shared(g.psi) : Two{};
  const Two back = forward.turned();
  Vec change{};
  PollEvery poll((end - begin) * g.labels * g.labels * 4);
  for (std::int64_t i = 1; i < g.positions; ++i) {
    poll.step();
    change = max(change, step_of_two<kReweighted, kShared>(g, forward, i - 1, i, begin, end, g.forward,
                                                           g.backward));
  }
  for (std::int64_t i = g.positions - 1; i > 0; --i) {
    poll.step();
    change = max(
        change, step_of_two<kReweighted, kShared>(g, back, i, i - 1, begin, end, g.backward, g.forward));
  }
  return max_lanes(change)[0];
}

// The kernel: see GridKernels.
template <bool kMax>
inline double sweep(const GridLines& g, std::int64_t begin, std::int64_t end, double* scratch) {
  fill_field(g, begin, end);
  if (!kMax && g.odds) {
    const bool plain = g.weight == 1.0;
    if (g.shared) {
      return plain ? sweep_of_two<false, true>(g, begin, end) : sweep_of_two<true, true>(g, begin, end);
    }
    return plain ? sweep_of_two<false, false>(g, begin, end) : sweep_of_two<true, false>(g, begin, end);
  }
  Vec change{};
  PollEvery poll((end - begin) * g.labels * g.labels * 4);
  for (std::int64_t i = 1; i < g.positions; ++i) {
    poll.step();
    for (std::int64_t lane = begin; lane < end; lane += kWidth) {
      const Step s{.lines = g,
                   .from = i - 1,
                   .to = i,
                   .lane = lane,
                   .old = g.forward,
                   .opposite = g.backward,
                   .out = g.forward,
                   .back = false};
      change = max(change, step<kMax>(s, scratch));
    }
  }
  for (std::int64_t i = g.positions - 1; i > 0; --i) {
    poll.step();
    for (std::int64_t lane = begin; lane < end; lane += kWidth) {
      const Step s{.lines = g,
                   .from = i,
                   .to = i - 1,
                   .lane = lane,
                   .old = g.backward,
                   .opposite = g.forward,
                   .out = g.backward,
                   .back = true};
      change = max(change, step<kMax>(s, scratch));
    }
  }
  return max_lanes(change)[0];
}

}  // namespace trellis::TRELLIS_ISA::grid
