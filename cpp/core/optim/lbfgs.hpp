// The memory of L-BFGS, and the search direction that follows from it. The optimiser is in
// src/trellis/optim/lbfgs.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/simd.hpp"
#include "optim/vectors.hpp"

namespace trellis::TRELLIS_ISA {

// The squared norms of the weights and of q, and whether the new pair was stored.
struct Norms {
  double weights, slope;
  bool kept;
};

// The last pairs s = w - w_before, y = gradient - gradient_before, and the product d = -H q, where H is
// the approximate inverse Hessian and q the gradient, or with L1 the pseudo-gradient.
//
// When a pair is added, all inner products among the pairs and with q are computed in one pass over the
// memory. The two loops of Nocedal (1980) then run on these few numbers. d is a sum of s_i, y_i and q
// with known coefficients, which a second pass computes. Running the loops on the vectors would read
// each of them twice as often.
class LbfgsMemory {
 public:
  LbfgsMemory(std::int64_t n, int capacity)
      : n_(n), capacity_(capacity), sy_(square()), yy_(square()), sq_(slots()), yq_(slots()) {}
  LbfgsMemory(const LbfgsMemory&) = delete;
  LbfgsMemory& operator=(const LbfgsMemory&) = delete;

  std::int64_t size() const { return n_; }
  int count() const { return static_cast<int>(order_.size()); }
  int capacity() const { return capacity_; }
  const double* s(int age) const { return s_[order_[age]].get(); }  // (size); age 0 is the oldest pair
  const double* y(int age) const { return y_[order_[age]].get(); }

  // Adds the pair of the last step, and computes the products of all pairs with q for direction(). A
  // pair without positive curvature is dropped.
  Norms push(const double* w, const double* w_before, const double* g, const double* g_before,
             const double* q, int threads) {
    const auto fill = [=](std::int64_t begin, std::int64_t end, double* s, double* y, double* sums) {
      Vec weights{}, slope{}, move{};
      for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
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
    add_pair(q, threads, totals, fill);
    const int newest = order_.back();
    const double ys = sy_[newest * capacity_ + newest], yy = yy_[newest * capacity_ + newest];
    // If s · y is below the rounding error, its value is unreliable.
    const double min_curvature =
        std::numeric_limits<double>::epsilon() * std::sqrt(totals[2]) * std::sqrt(yy);
    const bool kept = ys > min_curvature && std::isfinite(yy);
    if (!kept) order_.pop_back();
    return {totals[0], totals[1], kept};
  }

  // Adds a pair of an earlier run. The products have the same bits as after push() of the same pair.
  void append(const double* s, const double* y, int threads) {
    double unused[3];
    add_pair(y, threads, unused,
             [=](std::int64_t begin, std::int64_t end, double* s_out, double* y_out, double*) {
               std::copy(s + begin, s + end, s_out + begin);
               std::copy(y + begin, y + end, y_out + begin);
             });
  }

  // Computes the products of all pairs with q, as push() does.
  void project(const double* q, int threads) {
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

  // Removes all pairs.
  void clear() { order_.clear(); }

  // Computes d = -H q for the q of the last push() or project(); returns d · q.
  double direction(const double* q, double* d, int threads) const {
    std::vector<double> s_factor(static_cast<std::size_t>(count())), y_factor(s_factor);
    const double q_factor = two_loops(s_factor.data(), y_factor.data());
    double slope;
    sum_blocks(n_, threads, 1, &slope, [&](std::int64_t begin, std::int64_t end, double* sums) {
      for (std::int64_t t = begin; t < end; t += kTile) {
        combine(t, std::min(end, t + kTile), q, q_factor, s_factor.data(), y_factor.data(), d);
        sums[0] += slope_of(t, std::min(end, t + kTile), d, q);
      }
    });
    return slope;
  }

 private:
  static constexpr int kProducts = 5;  // s·q, y·q, s·y_new, s_new·y, y·y_new

  std::size_t slots() const { return static_cast<std::size_t>(capacity_); }
  std::size_t square() const { return slots() * slots(); }

  // Takes a slot for a new pair, calls fill(begin, end, s, y, sums) for each tile, and computes all
  // products of the pair.
  template <class Fill>
  void add_pair(const double* q, int threads, double* totals, const Fill& fill) {
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

  // Returns the slot for a new pair, which becomes the newest. If all slots are used, the oldest pair is
  // dropped.
  int make_room() {
    int slot = count();
    if (count() == capacity_) {
      slot = order_.front();
      order_.erase(order_.begin());
    } else {
      for (slot = 0; std::find(order_.begin(), order_.end(), slot) != order_.end();) ++slot;
    }
    if (slot == static_cast<int>(s_.size())) {
      AlignedDoubles s = aligned_doubles(n_), y = aligned_doubles(n_);
      s_.reserve(s_.size() + 1);  // the push_back() calls cannot fail, so both vectors keep one size
      y_.reserve(y_.size() + 1);
      s_.push_back(std::move(s));
      y_.push_back(std::move(y));
    }
    order_.push_back(slot);
    return slot;
  }

  // Adds the products of one tile of an old pair to `sums`, (kProducts).
  static void add_products(std::int64_t begin, std::int64_t end, const double* s, const double* y,
                           const double* q, const double* s_new, const double* y_new, double* sums) {
    Vec sq{}, yq{}, sy{}, ys{}, yy{};
    for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
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

  // Computes the factors of d = q_factor q + Σ s_factor[i] s_i + y_factor[i] y_i. The two loops are
  // the loops of Nocedal's paper, but the vector that they change is stored as its factors: r = -q - Σ
  // α_i y_i, then γ r + Σ (α_i - β_i) s_i.
  double two_loops(double* s_factor, double* y_factor) const {
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
      for (int j = 0; j < i; ++j) yr += s_factor[j] * sy(j, i);
      s_factor[i] = alpha[i] - yr / sy(i, i);
      y_factor[i] = -gamma * alpha[i];
    }
    return -gamma;
  }

  // Computes a tile of d. All pairs are added to one tile before the next tile.
  void combine(std::int64_t begin, std::int64_t end, const double* q, double q_factor,
               const double* s_factor, const double* y_factor, double* d) const {
    for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      store_first(d + i, q_factor * load_lanes(q + i, lanes), lanes);
    });
    for (int k = 0; k < count(); ++k) {
      const double *sk = s(k), *yk = y(k);
      const double a = s_factor[k], b = y_factor[k];
      for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
        const Vec pair = a * load_lanes(sk + i, lanes) + b * load_lanes(yk + i, lanes);
        store_first(d + i, load_lanes(d + i, lanes) + pair, lanes);
      });
    }
  }

  static double slope_of(std::int64_t begin, std::int64_t end, const double* d, const double* q) {
    Vec slope{};
    for_each_vec(begin, end, [&](std::int64_t i, int lanes) __attribute__((always_inline)) {
      slope += load_lanes(d + i, lanes) * load_lanes(q + i, lanes);
    });
    return sum(slope);
  }

  std::int64_t n_;
  int capacity_;
  std::vector<AlignedDoubles> s_, y_;  // (slots, size)
  std::vector<int> order_;             // the slots in use, the oldest pair first
  std::vector<double> sy_, yy_;        // (slots, slots): s_i · y_j and y_i · y_j
  std::vector<double> sq_, yq_;        // (slots): s_i · q and y_i · q
};

}  // namespace trellis::TRELLIS_ISA
