// CTC in scaled probability space: the fast path.
//
//     alpha_-'(i) = e_- (alpha_-(i) + alpha_*(i))
//     alpha_*'(i) = e_i (alpha_*(i) + alpha_-(i-1) + skip_i alpha_*(i-1))
// for one frame, from the row of the frame before: alpha_-(i) is for the state "blank, after i labels",
// alpha_*(i) for "label y_i". The row before the first frame is 1 at "no label yet".
//
// States far from the right alignment have probabilities below any floating-point range, and one scale
// per row would lose them. So every position has its own exponent ("unit"). Mass that moves from one
// position to the next is multiplied by the ratio of their units, a power of two. Every kCtcBlock
// frames, or sooner, the row is rescaled (an "event"): the larger number of each position becomes about
// 1, and a check ensures that none can underflow before the next event.
// src/trellis/inference/ctc/README.md has the proof.
#pragma once

#include "ctc/neighbours.hpp"

namespace trellis::TRELLIS_ISA::ctc {

// At an event, the smaller number of a position must be at least this fraction of the larger one.
inline constexpr double kTiny = 1e-150;
inline constexpr double kRange = 300.0;  // nats: the most that a state can lose between two events
// The largest difference of neighbouring units, in powers of two. Together with kTiny and kRange all
// products stay within the range of doubles, 2^-1022 to 2^1023.
inline constexpr double kExponents = 600.0;

static_assert(kCtcBlock % kWidth == 0);

// The blocks of positions that a path can occupy at frame t: it can have reached them, and it can still
// reach the end from them. Before the first frame, the path is in block 0.
struct Band {
  int first, last;
  int least;  // the first position from which the end can be reached

  TRELLIS_INLINE Band(const CtcTarget& y, const CtcFrames& x, std::int64_t t) {
    const std::int64_t frames_left = x.length - 1 - t, farthest = t + 1;
    least = frames_left < y.labels ? static_cast<int>(y.labels - frames_left) : 0;
    first = least / kCtcBlock;
    last = farthest < y.labels ? static_cast<int>(farthest) / kCtcBlock : y.labels / kCtcBlock;
  }
};

// Calls body(i) for all vectors of positions in a band.
template <class Body>
TRELLIS_INLINE void for_each_vector_of(Band band, const Body& body) {
  for (int i = band.first * kCtcBlock; i < (band.last + 1) * kCtcBlock; i += kWidth) body(i);
}

// Returns the binary exponents of normal numbers > 0, as doubles.
TRELLIS_INLINE Vec exponent_of(Vec normal) {
  const Mask biased = (reinterpret_cast<Mask>(normal) >> 52) + std::int64_t{0x4330000000000000};
  return reinterpret_cast<Vec>(biased) - (0x1p52 + 1023);
}
// 2^exponent, for integers from -1022 to 1023.
TRELLIS_INLINE Vec power_of_two(Vec exponent) {
  return reinterpret_cast<Vec>(reinterpret_cast<Mask>(exponent + (0x1.8p52 + 1023)) << 52);
}

// Performs an event: computes new units for a row whose paths are in `band`. Returns false if a number
// is too small relative to another.
inline bool rebase(const CtcTarget& y, Band band, double* row, double* unit, double* scale,
                   double* ratio) {
  constexpr double kIndex[] = {0, 1, 2, 3, 4, 5, 6, 7};
  double* labels = row + y.positions;
  for (int i = 0; i < y.positions; i += kWidth) {
    store(scale + i, splat(1.0));
    store(ratio + i, splat(1.0));
  }
  Mask is_valid = ~Mask{};
  Vec units_before{};
  for_each_vector_of(band, [&](int i) __attribute__((always_inline)) {
    const Vec position = load(kIndex) + i;
    const Mask is_useful = position >= band.least;  // other positions get no input and would underflow
    const Vec a = select(is_useful, load(row + i), Vec{}),
              b = select(is_useful, load(labels + i), Vec{});
    const Vec top = max(a, b);
    const Mask reached = top > 0.0;
    // These comparisons are false for NaN, so NaN is rejected.
    is_valid &= (top < 1e300) & ((a == 0.0) | (a >= kTiny * top)) & ((b == 0.0) | (b >= kTiny * top));
    const Vec shift = select(reached, exponent_of(top), Vec{});
    const Vec units = load(unit + i) + shift;
    const Vec unit_difference =
        select(reached & (position > band.least), from_left(units_before, units) - units, Vec{});
    is_valid &= (unit_difference <= kExponents) & (unit_difference >= -kExponents);
    const Vec factor = power_of_two(-shift);
    store(row + i, a * factor);
    store(labels + i, b * factor);
    store(unit + i, units);
    store(scale + i, factor);
    store(ratio + i, power_of_two(unit_difference));
    units_before = units;
  });
  return !any(~is_valid);
}

// Computes a row from the row `from`, whose paths are in band `before`. `to` may equal `from`.
inline void step(const CtcTarget& y, Band before, Band band, const double* from, double* to,
                 const double* e, const double* ratio) {
  const int positions = y.positions;
  const double* skip = y.skip;
  const std::int32_t* column = y.column;
  const Vec blank = splat(e[y.blank]);
  Vec blanks_before{}, labels_before{};
  if (before.first < band.first) {
    blanks_before = load(from + band.first * kCtcBlock - kWidth);
    labels_before = load(from + positions + band.first * kCtcBlock - kWidth);
  }
  for_each_vector_of(band, [&](int i) __attribute__((always_inline)) {
    const Vec blanks = load(from + i), labels = load(from + positions + i);
    const Vec entering =
        from_left(blanks_before, blanks) + load(skip + i) * from_left(labels_before, labels);
    store(to + i, blank * (blanks + labels));
    store(to + positions + i, look_up(e, column + i) * (labels + load(ratio + i) * entering));
    blanks_before = blanks;
    labels_before = labels;
  });
}

inline void clear(const CtcTarget& y, int block, double* row) {
  for (int i = block * kCtcBlock; i < (block + 1) * kCtcBlock; i += kWidth) {
    store(row + i, Vec{});
    store(row + y.positions + i, Vec{});
  }
}

inline bool forward(const CtcTarget& y, const CtcFrames& x) {
  double lost_nats = 0.0;  // nats that a state may have lost since the last event
  int event = -1, farthest = 0;
  while (farthest < y.labels && y.reach[farthest + 1] <= x.begin) ++farthest;
  Band before(y, x, x.begin - 1);
  for (int f = 0; f < x.count; ++f) {
    const std::int64_t t = x.begin + f;
    double* row = x.row + f * x.stride;
    const Band band(y, x, t);
    if (!(x.low[f] >= -kRange)) return false;
    if (t == 0) {
      clear(y, 0, row);
      row[0] = 1.0;
      for (int i = 0; i < y.positions; ++i) x.unit[i] = 0.0;
    }
    if (f == 0 || t % kCtcBlock == 0 || lost_nats - x.low[f] > kRange) {
      const std::int64_t at = ++event * x.event_stride;
      lost_nats = 0.0;
      if (!rebase(y, before, row, x.unit, x.scale + at, x.ratio + at)) return false;
    }
    if (band.last > before.last) clear(y, band.last, row);
    while (farthest < y.labels && y.reach[farthest + 1] <= t + 1) {
      ++farthest;
      x.unit[farthest] = x.unit[farthest - 1];
    }
    lost_nats -= x.low[f];
    x.event[f] = event;
    step(y, before, band, row, row + x.stride, x.e + f * y.stride(), x.ratio + event * x.event_stride);
    before = band;
  }
  return true;
}

inline double finish(const CtcTarget& y, const double* row, const double* unit, double* back) {
  constexpr double kLog2 = 0x1.62e42fefa39efp-1;
  const double sum = row[y.labels] + row[y.positions + y.labels];
  for (int i = 0; i < 2 * y.positions; ++i) back[i] = 0.0;
  back[y.labels] = back[y.positions + y.labels] = 1.0 / sum;
  return __builtin_log(sum) + unit[y.labels] * kLog2;
}

// Goes back by one frame: computes the occupations of its row from alpha and beta, then beta of the row
// before. `scale` is the factor by which an event after the frame multiplied alpha. Returns the
// occupation of the blank; the occupations of the labels are written to `gamma`.
inline double step_back(const CtcTarget& y, Band before, Band band, const double* alpha, double* beta,
                        const double* e, const double* scale, const double* ratio, double* gamma) {
  const int positions = y.positions;
  const double* skip = y.skip;
  const std::int32_t* column = y.column;
  const Vec blank = splat(e[y.blank]);
  Vec total{}, enter_after{}, skip_after{};
  for (int i = (band.last + 1) * kCtcBlock - kWidth; i >= band.first * kCtcBlock; i -= kWidth) {
    const Vec a_blank = load(alpha + i), a_label = load(alpha + positions + i);
    // Where alpha is 0, beta can grow without bound.
    const Vec b_blank = select(a_blank > 0.0, load(beta + i), Vec{});
    const Vec b_label = select(a_label > 0.0, load(beta + positions + i), Vec{});
    total += a_blank * b_blank;
    store(gamma + i, a_label * b_label);
    const Vec unit = load(scale + i);
    const Vec q_blank = blank * (unit * b_blank);
    const Vec q_label = look_up(e, column + i) * (unit * b_label);
    const Vec q_enter = load(ratio + i) * q_label;
    const Vec q_skip = load(skip + i) * q_enter;
    store(beta + i, q_blank + from_right(q_enter, enter_after));
    store(beta + positions + i, q_label + q_blank + from_right(q_skip, skip_after));
    enter_after = q_enter;
    skip_after = q_skip;
  }
  if (before.first < band.first) {  // positions left of the band, from which paths only enter it
    const int i = band.first * kCtcBlock - kWidth;
    clear(y, before.first, beta);
    store(beta + i, from_right(Vec{}, enter_after));
    store(beta + positions + i, from_right(Vec{}, skip_after));
  }
  return sum_lanes(total)[0];
}

inline void backward(const CtcTarget& y, const CtcFrames& x, double* beta, double* occupation,
                     double* gamma) {
  const std::int32_t* column = y.column;
  Band band(y, x, x.begin + x.count - 1);
  for (int f = x.count - 1; f >= 0; --f) {
    const Band before(y, x, x.begin + f - 1);
    const int event = x.event[f];
    const bool rescaled = f + 1 < x.count && x.event[f + 1] != event;
    const double* scale = rescaled ? x.scale + x.event[f + 1] * x.event_stride : x.ones;
    double* frame_occupation = occupation + static_cast<std::int64_t>(f) * y.symbols;
    for (int u = 0; u < y.symbols; ++u) frame_occupation[u] = 0.0;
    frame_occupation[y.blank] =
        step_back(y, before, band, x.row + (f + 1) * x.stride, beta, x.e + f * y.stride(), scale,
                  x.ratio + event * x.event_stride, gamma);
    const int first = band.first > 0 ? band.first * kCtcBlock : 1;
    const int end = (band.last + 1) * kCtcBlock;
    const int last = end - 1 < y.labels ? end - 1 : y.labels;
    for (int i = first; i <= last; ++i) frame_occupation[column[i]] += gamma[i];
    band = before;
  }
  for_each_vector_of(band, [&](int i) __attribute__((always_inline)) {
    const Vec factor = load(x.scale + i);  // the factor of the event before the first frame
    store(beta + i, load(beta + i) * factor);
    store(beta + y.positions + i, load(beta + y.positions + i) * factor);
  });
}

}  // namespace trellis::TRELLIS_ISA::ctc
