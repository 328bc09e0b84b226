// Long vectors for the optimisers: sums, steps, and the memory of L-BFGS.
//
// A vector is cut into blocks of a fixed size, which threads share; each block has its own partial
// sums, and these are added in the order of the blocks. So results do not depend on the threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/simd.hpp"
#include "base/thread_pool.hpp"

namespace trellis::TRELLIS_ISA {

inline constexpr std::int64_t kBlock = 8192;  // numbers: a task for one thread
inline constexpr std::int64_t kTile = 512;    // numbers of a vector that are used while they are near

// body(begin, end, sums) for each block; `totals` receives the sums of all blocks, in their order.
template <class Body>
void sum_blocks(std::int64_t n, int threads, int count, double* totals, const Body& body) {
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<std::size_t>(blocks * count));
  parallel_for(blocks, threads, [&] {
    return [&](std::int64_t b) {
      body(b * kBlock, std::min(n, (b + 1) * kBlock), sums.data() + b * count);
    };
  });
  std::fill_n(totals, count, 0.0);
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (int i = 0; i < count; ++i) totals[i] += sums[b * count + i];
  }
}

// body(i, lanes) for i = begin, begin + kWidth, ...: the last may have fewer lanes than kWidth.
template <class Body>
TRELLIS_INLINE void each_vec(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t i = begin;
  for (; i + kWidth <= end; i += kWidth) body(i, kWidth);
  if (i < end) body(i, static_cast<int>(end - i));
}

TRELLIS_INLINE double sum(Vec v) { return sum_lanes(v)[0]; }
TRELLIS_INLINE Vec load_lanes(const double* p, int lanes) { return load_first(p, lanes, 0.0); }

// a · b
inline double dot(const double* a, const double* b, std::int64_t n, int threads) {
  double total;
  sum_blocks(n, threads, 1, &total, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec parts[4]{};
    std::int64_t i = begin;
    for (; i + 4 * kWidth <= end; i += 4 * kWidth) {
      for (int k = 0; k < 4; ++k) parts[k] += load(a + i + k * kWidth) * load(b + i + k * kWidth);
    }
    each_vec(i, end, [&](std::int64_t j, int lanes) __attribute__((always_inline)) {
      parts[0] += load_lanes(a + j, lanes) * load_lanes(b + j, lanes);
    });
    sums[0] = sum((parts[0] + parts[1]) + (parts[2] + parts[3]));
  });
  return total;
}

// out = w + t d
inline void step(const double* w, const double* d, double t, std::int64_t n, double* out, int threads) {
  sum_blocks(n, threads, 0, nullptr, [=](std::int64_t begin, std::int64_t end, double*) {
    each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      store_first(out + i, load_lanes(w + i, lanes) + t * load_lanes(d + i, lanes), lanes);
    });
  });
}

// --- OWL-QN: loss(w) + Σ c_i |w_i|
// ----------------------------------------------------------------------

// The steepest slope of the sum, where w_i = 0 that of the side on which it falls, else 0.
// Returns Σ c_i |w_i|.
inline double pseudo_gradient(const double* w, const double* gradient, const double* c, std::int64_t n,
                              double* out, int threads) {
  double total;
  sum_blocks(n, threads, 1, &total, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec penalty{};
    each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      const Vec x = load_lanes(w + i, lanes), g = load_lanes(gradient + i, lanes);
      const Vec l1 = load_lanes(c + i, lanes);
      const Vec at_zero = max(Vec{}, g - l1) + min(Vec{}, g + l1);  // in this order NaN stays NaN
      store_first(out + i, select(x > 0.0, g + l1, select(x < 0.0, g - l1, at_zero)), lanes);
      penalty += l1 * max(x, -x);
    });
    sums[0] = sum(penalty);
  });
  return total;
}

// d_i = 0 where it does not descend along the pseudo-gradient; returns d · pseudo.
inline double project_direction(const double* pseudo, const double* c, std::int64_t n, double* d,
                                int threads) {
  double total;
  sum_blocks(n, threads, 1, &total, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec slope{};
    each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      const Vec p = load_lanes(pseudo + i, lanes), x = load_lanes(d + i, lanes);
      const Mask wrong = (x * p >= 0.0) & (load_lanes(c + i, lanes) > 0.0);
      const Vec kept = select(wrong, Vec{}, x);
      store_first(d + i, kept, lanes);
      slope += kept * p;
    });
    sums[0] = sum(slope);
  });
  return total;
}

struct OrthantStep {
  double penalty;  // Σ c_i |out_i|
  double slope;    // (out - w) · pseudo
};

// out = w + t d, but 0 where that would leave the orthant of w (of -pseudo where w_i = 0).
inline OrthantStep orthant_step(const double* w, const double* d, double t, const double* pseudo,
                                const double* c, std::int64_t n, double* out, int threads) {
  double totals[2];
  sum_blocks(n, threads, 2, totals, [=](std::int64_t begin, std::int64_t end, double* sums) {
    Vec penalty{}, slope{};
    each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      const Vec x = load_lanes(w + i, lanes), p = load_lanes(pseudo + i, lanes);
      const Vec l1 = load_lanes(c + i, lanes), free = x + t * load_lanes(d + i, lanes);
      const Vec side = select(x == 0.0, -p, x);
      const Mask inside = ((free > 0.0) & (side > 0.0)) | ((free < 0.0) & (side < 0.0)) | (l1 <= 0.0);
      const Vec kept = select(inside, free, Vec{});
      store_first(out + i, kept, lanes);
      penalty += l1 * max(kept, -kept);
      slope += (kept - x) * p;
    });
    sums[0] = sum(penalty);
    sums[1] = sum(slope);
  });
  return {totals[0], totals[1]};
}

// --- L-BFGS
// -----------------------------------------------------------------------------------------------

// Squared norms, and whether the newest pair curves upward and was kept.
struct Norms {
  double weights, slope;
  bool kept;
};

// The last pairs s = w - w_before, y = gradient - gradient_before, and d = -H q without a matrix.
//
// All inner products among the pairs and with q are taken in one pass over the memory when a pair comes.
// The two loops of Nocedal (1980) then run on these few numbers, d is a sum of s_i, y_i and q with known
// weights, and a second pass makes it. Looping over the vectors would read each of them twice as often.
class LbfgsMemory {
 public:
  LbfgsMemory(std::int64_t n, int capacity)
      : n_(n), capacity_(capacity), sy_(square()), yy_(square()), sq_(slots()), yq_(slots()) {}
  LbfgsMemory(const LbfgsMemory&) = delete;
  LbfgsMemory& operator=(const LbfgsMemory&) = delete;

  std::int64_t size() const { return n_; }
  int count() const { return static_cast<int>(order_.size()); }
  int capacity() const { return capacity_; }
  const double* s(int age) const { return s_[order_[age]].get(); }  // 0 is the oldest
  const double* y(int age) const { return y_[order_[age]].get(); }

  // Remembers the last step; q, whose products with the pairs are kept, is where direction() starts.
  Norms push(const double* w, const double* w_before, const double* g, const double* g_before,
             const double* q, int threads) {
    const auto fill = [=](std::int64_t begin, std::int64_t end, double* s, double* y, double* sums) {
      Vec weights{}, slope{}, move{};
      each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
        const Vec x = load_lanes(w + i, lanes), p = load_lanes(q + i, lanes);
        const Vec difference = x - load_lanes(w_before + i, lanes);
        store_first(s + i, difference, lanes);
        store_first(y + i, load_lanes(g + i, lanes) - load_lanes(g_before + i, lanes), lanes);
        weights += x * x;
        slope += p * p;
        move += difference * difference;
      });
      sums[0] += sum(weights);
      sums[1] += sum(slope);
      sums[2] += sum(move);
    };
    double totals[3];
    take(q, threads, totals, fill);
    const int newest = order_.back();
    const double ys = sy_[newest * capacity_ + newest], yy = yy_[newest * capacity_ + newest];
    const double least = std::numeric_limits<double>::epsilon() * std::sqrt(totals[2]) * std::sqrt(yy);
    const bool kept = ys > least && std::isfinite(yy);
    if (!kept) order_.pop_back();
    return {totals[0], totals[1], kept};
  }

  // Takes a pair over from an earlier run: the same products, to the last bit, as push() took.
  void append(const double* s, const double* y, int threads) {
    double unused[3];
    take(y, threads, unused,
         [=](std::int64_t begin, std::int64_t end, double* s_out, double* y_out, double*) {
           std::copy(s + begin, s + end, s_out + begin);
           std::copy(y + begin, y + end, y_out + begin);
         });
  }

  // Takes the products of q with all pairs, as push() does.
  void look_from(const double* q, int threads) {
    std::vector<double> totals(static_cast<std::size_t>(kProducts * count()));
    sum_blocks(n_, threads, kProducts * count(), totals.data(),
               [&](std::int64_t begin, std::int64_t end, double* sums) {
                 for (std::int64_t t = begin; t < end; t += kTile) {
                   for (int i = 0; i < count(); ++i) {
                     add_products(t, std::min(end, t + kTile), s(i), y(i), q, s(i), y(i),
                                  sums + kProducts * i);
                   }
                 }
               });
    for (int i = 0; i < count(); ++i) {
      sq_[order_[i]] = totals[kProducts * i];
      yq_[order_[i]] = totals[kProducts * i + 1];
    }
  }

  void forget() { order_.clear(); }

  // d = -H q for the q of the last push() or look_from(); returns d · q.
  double direction(const double* q, double* d, int threads) const {
    std::vector<double> of_s(static_cast<std::size_t>(count())), of_y(of_s);
    const double of_q = two_loops(of_s.data(), of_y.data());
    double slope;
    sum_blocks(n_, threads, 1, &slope, [&](std::int64_t begin, std::int64_t end, double* sums) {
      for (std::int64_t t = begin; t < end; t += kTile) {
        combine(t, std::min(end, t + kTile), q, of_q, of_s.data(), of_y.data(), d);
        sums[0] += slope_of(t, std::min(end, t + kTile), d, q);
      }
    });
    return slope;
  }

 private:
  static constexpr int kProducts = 5;  // s·q, y·q, s·y_new, s_new·y, y·y_new

  std::size_t slots() const { return static_cast<std::size_t>(capacity_); }
  std::size_t square() const { return slots() * slots(); }

  // Makes room, calls fill(begin, end, s, y, sums) for each tile, and takes all products of the new
  // pair.
  template <class Fill>
  void take(const double* q, int threads, double* totals, const Fill& fill) {
    const int slot = make_room();
    double *s_new = s_[slot].get(), *y_new = y_[slot].get();
    const int sums_needed = 3 + kProducts * count();
    std::vector<double> all(static_cast<std::size_t>(sums_needed));
    sum_blocks(n_, threads, sums_needed, all.data(),
               [&](std::int64_t begin, std::int64_t end, double* sums) {
                 for (std::int64_t t = begin; t < end; t += kTile) {
                   const std::int64_t stop = std::min(end, t + kTile);
                   fill(t, stop, s_new, y_new, sums);
                   for (int i = 0; i < count(); ++i) {
                     add_products(t, stop, s(i), y(i), q, s_new, y_new, sums + 3 + kProducts * i);
                   }
                 }
               });
    std::copy_n(all.data(), 3, totals);
    for (int i = 0; i < count(); ++i) keep_products(order_[i], slot, &all[3 + kProducts * i]);
  }

  // The slot for a new pair, which is the newest from now on; the oldest goes when all are taken.
  int make_room() {
    int slot = count();
    if (count() == capacity_) {
      slot = order_.front();
      order_.erase(order_.begin());
    } else {
      for (slot = 0; std::find(order_.begin(), order_.end(), slot) != order_.end();) ++slot;
    }
    if (slot == static_cast<int>(s_.size())) {
      s_.push_back(aligned_doubles(n_));
      y_.push_back(aligned_doubles(n_));
    }
    order_.push_back(slot);
    return slot;
  }

  static void add_products(std::int64_t begin, std::int64_t end, const double* s, const double* y,
                           const double* q, const double* s_new, const double* y_new, double* sums) {
    Vec sq{}, yq{}, sy{}, ys{}, yy{};
    each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      const Vec si = load_lanes(s + i, lanes), yi = load_lanes(y + i, lanes);
      const Vec qi = load_lanes(q + i, lanes), y_last = load_lanes(y_new + i, lanes);
      sq += si * qi;
      yq += yi * qi;
      sy += si * y_last;
      ys += yi * load_lanes(s_new + i, lanes);
      yy += yi * y_last;
    });
    sums[0] += sum(sq);
    sums[1] += sum(yq);
    sums[2] += sum(sy);
    sums[3] += sum(ys);
    sums[4] += sum(yy);
  }

  void keep_products(int slot, int newest, const double* sums) {
    sq_[slot] = sums[0];
    yq_[slot] = sums[1];
    sy_[slot * capacity_ + newest] = sums[2];
    sy_[newest * capacity_ + slot] = sums[3];
    yy_[slot * capacity_ + newest] = yy_[newest * capacity_ + slot] = sums[4];
  }

  // d = of_q q + Σ of_s[i] s_i + of_y[i] y_i. Written as in the paper, with the vector that both loops
  // change kept as its weights: r = -q - Σ α_i y_i, then γ r + Σ (α_i - β_i) s_i.
  double two_loops(double* of_s, double* of_y) const {
    if (count() == 0) return -1.0;
    const auto sy = [&](int i, int j) { return sy_[order_[i] * capacity_ + order_[j]]; };
    const auto yy = [&](int i, int j) { return yy_[order_[i] * capacity_ + order_[j]]; };
    const int last = count() - 1;
    std::vector<double> alpha(static_cast<std::size_t>(count()));
    for (int i = last; i >= 0; --i) {
      double sr = -sq_[order_[i]];
      for (int j = i + 1; j <= last; ++j) sr -= alpha[j] * sy(i, j);
      alpha[i] = sr / sy(i, i);
    }
    const double gamma = sy(last, last) / yy(last, last);
    for (int i = 0; i <= last; ++i) {
      double yr = -yq_[order_[i]];
      for (int j = 0; j <= last; ++j) yr -= alpha[j] * yy(i, j);
      yr *= gamma;
      for (int j = 0; j < i; ++j) yr += of_s[j] * sy(j, i);
      of_s[i] = alpha[i] - yr / sy(i, i);
      of_y[i] = -gamma * alpha[i];
    }
    return -gamma;
  }

  // A tile of d stays in the nearest cache while the pairs are added to it.
  void combine(std::int64_t begin, std::int64_t end, const double* q, double of_q, const double* of_s,
               const double* of_y, double* d) const {
    each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      store_first(d + i, of_q * load_lanes(q + i, lanes), lanes);
    });
    for (int k = 0; k < count(); ++k) {
      const double *sk = s(k), *yk = y(k);
      const double a = of_s[k], b = of_y[k];
      each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
        const Vec pair = a * load_lanes(sk + i, lanes) + b * load_lanes(yk + i, lanes);
        store_first(d + i, load_lanes(d + i, lanes) + pair, lanes);
      });
    }
  }

  static double slope_of(std::int64_t begin, std::int64_t end, const double* d, const double* q) {
    Vec slope{};
    each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      slope += load_lanes(d + i, lanes) * load_lanes(q + i, lanes);
    });
    return sum(slope);
  }

  std::int64_t n_;
  int capacity_;
  std::vector<AlignedDoubles> s_, y_;  // by slot
  std::vector<int> order_;             // slots, the oldest pair first
  std::vector<double> sy_, yy_;        // s_i · y_j and y_i · y_j, by slots
  std::vector<double> sq_, yq_;
};

}  // namespace trellis::TRELLIS_ISA
