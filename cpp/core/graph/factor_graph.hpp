// A factor graph of discrete variables as flat arrays, and the table traversal that its algorithms
// share.
//
// Factor f has the variables scope[begin[f] .. begin[f + 1]) and a table of log scores with one axis per
// variable, the last one contiguous. An index s into `scope` is a slot: one variable of one factor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/poll.hpp"

namespace trellis::graph {

using Index = std::int64_t;
using Indices = std::vector<Index>;

inline constexpr double kForbidden = -std::numeric_limits<double>::infinity();
// Entries of one table; a larger table would not fit in memory.
inline constexpr Index kMaxEntries = Index{1} << 40;
inline constexpr int kMaxOrder = 32;  // variables of one factor or clique

class Graph {
 public:
  Graph(Indices cardinality, Indices begin, Indices scope, Indices table)
      : cardinality(std::move(cardinality)),
        begin(std::move(begin)),
        scope(std::move(scope)),
        table(std::move(table)) {
    check();
    lay_out();
  }

  Index variables() const { return static_cast<Index>(cardinality.size()); }
  Index factors() const { return static_cast<Index>(table.size()); }
  Index slots() const { return static_cast<Index>(scope.size()); }
  int order(Index f) const { return static_cast<int>(begin[f + 1] - begin[f]); }
  Index size(Index f) const { return entries[f + 1] - entries[f]; }
  Index labels(Index slot) const { return cardinality[scope[slot]]; }

  Indices cardinality;  // (variables): number of labels
  Indices begin;        // (factors + 1): the first slot of each factor
  Indices scope;        // (slots): variables
  Indices table;        // (factors): where its table begins; factors may share a table
  // The following members are computed from those above.
  Index tables = 0;        // the number of scores that the tables must have
  Indices stride;          // (slots): stride of the variable's axis in the table
  Indices factor_of;       // (slots): the factor of each slot
  Indices entries;         // (factors + 1): where each factor's entries begin in arrays without sharing
  Indices first_label;     // (variables + 1): where each variable's labels begin
  Indices message;         // (slots + 1): where each slot's labels begin
  Indices incident;        // slots, sorted by variable
  Indices first_incident;  // (variables + 1): where each variable's slots begin in `incident`

 private:
  static void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
  }

  void check() const {
    require(begin.size() == table.size() + 1 && begin.front() == 0,
            "begin must have factors + 1 entries");
    require(begin.back() == slots(), "the last entry of begin must be the size of scope");
    for (const Index c : cardinality) require(c > 0, "cardinalities must be positive");
    for (const Index v : scope)
      require(v >= 0 && v < variables(), "a factor has a variable that does not exist");
    for (Index f = 0; f < factors(); ++f) {
      require(begin[f] < begin[f + 1] && begin[f + 1] - begin[f] <= kMaxOrder,
              "each factor must have 1 to 32 variables");
      require(table[f] >= 0 && table[f] < kMaxEntries, "the offset of a table is out of range");
      // The elimination order would list a repeated variable as its own neighbour.
      for (Index s = begin[f]; s < begin[f + 1]; ++s) {
        for (Index t = begin[f]; t < s; ++t)
          require(scope[s] != scope[t], "a factor has a variable twice");
      }
    }
  }

  void lay_out() {
    stride.resize(scope.size());
    factor_of.resize(scope.size());
    entries.assign(1, 0);
    message.assign(1, 0);
    first_label.assign(1, 0);
    for (const Index c : cardinality) {
      require(c < kMaxEntries - first_label.back(), "there are too many labels");
      first_label.push_back(first_label.back() + c);
    }
    for (Index s = 0; s < slots(); ++s) {
      require(labels(s) < kMaxEntries - message.back(), "the messages are too large");
      message.push_back(message.back() + labels(s));
    }
    for (Index f = 0; f < factors(); ++f) {
      Index size = 1;
      for (Index s = begin[f + 1]; s-- > begin[f];) {
        stride[s] = size;
        factor_of[s] = f;
        require(labels(s) <= kMaxEntries / size, "a table is too large");
        size *= labels(s);
      }
      entries.push_back(entries.back() + size);
      require(entries.back() < kMaxEntries, "the tables are too large");
      tables = std::max(tables, table[f] + size);
    }
    first_incident.assign(cardinality.size() + 1, 0);
    for (const Index v : scope) ++first_incident[v + 1];
    for (Index v = 0; v < variables(); ++v) first_incident[v + 1] += first_incident[v];
    incident.resize(scope.size());
    Indices next(first_incident.begin(), first_incident.end() - 1);
    for (Index s = 0; s < slots(); ++s) incident[next[scope[s]]++] = s;
  }
};

// One axis of a table, and the stride of the same axis in another table. The stride is 0 if the other
// table does not have this axis.
struct Axis {
  Index size, stride;
};

// Calls visit(i, j) for all entries i of a table in order; j is the corresponding entry of the other
// table.
template <class Visit>
void walk(const Axis* axes, int count, const Visit& visit) {
  if (count == 0) return visit(Index{0}, Index{0});
  Index index[kMaxOrder + 1] = {};
  const Axis inner = axes[count - 1];
  Index i = 0, j = 0;
  PollEvery poll(inner.size + 8);
  for (;;) {
    poll.step();
    for (Index k = 0; k < inner.size; ++k) visit(i++, j + k * inner.stride);
    int axis = count - 2;
    for (; axis >= 0; --axis) {
      j += axes[axis].stride;
      if (++index[axis] < axes[axis].size) break;
      j -= axes[axis].stride * axes[axis].size;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// Returns log sum exp of x[0], x[step], ...; -inf if all are -inf.
inline double log_sum_exp(const double* x, Index count, Index step = 1) {
  double top = kForbidden;
  for (Index k = 0; k < count; ++k) top = std::max(top, x[k * step]);
  if (top == kForbidden) return kForbidden;
  double sum = 0.0;
  for (Index k = 0; k < count; ++k) sum += std::exp(x[k * step] - top);
  return top + std::log(sum);
}

// Returns the index of the first maximum.
inline Index first_best(const double* x, Index count) { return std::max_element(x, x + count) - x; }

// Draws a label with probability proportional to exp(x), by inverting the cumulative sum; 0 <= u < 1.
inline Index draw(const double* x, Index count, double u) {
  const double top = *std::max_element(x, x + count);
  double total = 0.0;
  for (Index k = 0; k < count; ++k) total += std::exp(x[k] - top);
  double remaining = u * total;
  Index last = 0;
  for (Index k = 0; k < count; ++k) {
    if (x[k] == kForbidden) continue;
    last = k;
    remaining -= std::exp(x[k] - top);
    if (remaining < 0.0) break;
  }
  return last;
}

}  // namespace trellis::graph
