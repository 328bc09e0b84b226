// Compares best paths and prefix search, with every instruction set that the CPU supports, with
// enumeration of all paths. If there are too many paths, a simple recursion is used instead.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "ctc/prefix_search.hpp"
#include "dispatch.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Labels = std::vector<std::int64_t>;

template <class T>
struct Case {
  std::int64_t frames, vocabulary, blank;
  std::vector<T> scores;

  CtcInput<T> input() const {
    return {.scores = scores.data(),
            .frame_stride = vocabulary,
            .length = frames,
            .vocabulary = vocabulary,
            .blank = blank};
  }
  double at(std::int64_t t, std::int64_t v) const { return scores[t * vocabulary + v]; }
};

template <class T>
Case<T> make_case(std::mt19937_64& random, std::int64_t frames, std::int64_t vocabulary, double scale,
                  double impossible = 0.0) {
  std::normal_distribution<double> normal(0.0, scale);
  std::bernoulli_distribution is_impossible(impossible);
  Case<T> c{frames, vocabulary, static_cast<std::int64_t>(random() % vocabulary), {}};
  for (std::int64_t i = 0; i < frames * vocabulary; ++i) {
    c.scores.push_back(is_impossible(random) ? static_cast<T>(-kInfinity)
                                             : static_cast<T>(normal(random)));
  }
  for (std::int64_t t = 0; t < frames; ++t) c.scores[t * vocabulary] = T(0);  // one label is possible
  return c;
}

Labels collapsed(const Labels& path, std::int64_t blank) {
  Labels labels;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  }
  return labels;
}

struct Truth {
  double total = -kInfinity, best = -kInfinity;  // sum over paths, and the best of them
};

template <class T>
std::map<Labels, Truth> enumerate(const Case<T>& c) {
  std::map<Labels, Truth> all;
  Labels path(static_cast<std::size_t>(c.frames), 0);
  for (bool more = true; more;) {
    double score = 0.0;
    for (std::int64_t t = 0; t < c.frames; ++t) score += c.at(t, path[t]);
    Truth& truth = all[collapsed(path, c.blank)];
    const double top = std::max(truth.total, score);
    if (top > -kInfinity)
      truth.total = top + std::log(std::exp(truth.total - top) + std::exp(score - top));
    truth.best = std::max(truth.best, score);
    more = false;
    for (std::size_t t = 0; t < path.size() && !more; ++t) {
      path[t] = (path[t] + 1) % c.vocabulary;
      more = path[t] != 0;
    }
  }
  return all;
}

struct Path {
  Labels labels, starts, ends;
  double score;
};

template <class T>
Path align(const Case<T>& c, const Labels& target) {
  Path p{Labels(static_cast<std::size_t>(c.frames), -1), Labels(target.size(), -1),
         Labels(target.size(), -1), 0.0};
  CtcAligner<T> aligner(kernels().ctc);
  p.score = aligner.align(c.input(), target.data(), static_cast<std::int64_t>(target.size()),
                          {p.labels.data(), p.starts.data(), p.ends.data()});
  return p;
}

// Checks that the path collapses to the target and has the reported score and frames.
template <class T>
void check_path(const Case<T>& c, const Labels& target, const Path& p) {
  CHECK(collapsed(p.labels, c.blank) == target);
  double score = 0.0;
  for (std::int64_t t = 0; t < c.frames; ++t) score += c.at(t, p.labels[t]);
  CHECK_CLOSE(p.score, score, 1e-12);
  for (std::size_t i = 0; i < target.size(); ++i) {
    CHECK(p.starts[i] < p.ends[i] && (i == 0 || p.ends[i - 1] <= p.starts[i]));
    for (std::int64_t t = p.starts[i]; t < p.ends[i]; ++t) CHECK(p.labels[t] == target[i]);
  }
}

template <class T>
void check_enumeration(const Case<T>& c) {
  const std::map<Labels, Truth> all = enumerate(c);
  std::size_t possible = 0;
  for (const auto& [target, truth] : all) {
    const Path p = align(c, target);
    CHECK_CLOSE(p.score, truth.best, 1e-12);
    possible += truth.best > -kInfinity;
    if (truth.best > -kInfinity) check_path(c, target, p);
  }
  CtcPrefixSearch<T> search(kernels().ctc, 1 << 30, -kInfinity);
  const std::vector<CtcHypothesis> hypotheses = search.search(c.input(), 1 << 30);
  CHECK(hypotheses.size() == possible);
  for (const CtcHypothesis& h : hypotheses) {
    const auto truth = all.find(h.labels);
    CHECK(truth != all.end());
    if (truth != all.end()) CHECK_CLOSE(h.log_prob, truth->second.total, 1e-10);
    CHECK(std::is_sorted(h.frames.begin(), h.frames.end()));
  }
  for (std::size_t i = 1; i < hypotheses.size(); ++i)
    CHECK(hypotheses[i - 1].log_prob >= hypotheses[i].log_prob);
}

// Returns the best score, by the recursion over the extended target (with blanks between labels).
template <class T>
double plain_best(const Case<T>& c, const Labels& target) {
  Labels z{c.blank};
  for (const std::int64_t y : target) z.insert(z.end(), {y, c.blank});
  std::vector<double> row(z.size(), -kInfinity);
  for (std::int64_t t = 0; t < c.frames; ++t) {
    std::vector<double> next(z.size(), -kInfinity);
    for (std::size_t s = 0; s < z.size(); ++s) {
      double from = t == 0 ? (s < 2 ? 0.0 : -kInfinity) : row[s];
      if (t > 0 && s > 0) from = std::max(from, row[s - 1]);
      if (t > 0 && s > 1 && z[s] != c.blank && z[s] != z[s - 2]) from = std::max(from, row[s - 2]);
      next[s] = from + c.at(t, z[s]);
    }
    row = next;
  }
  return z.size() == 1 ? row[0] : std::max(row[z.size() - 1], row[z.size() - 2]);
}

template <class T>
void check_long(std::mt19937_64& random, std::int64_t frames, std::int64_t labels) {
  const Case<T> c = make_case<T>(random, frames, 12, 3.0);
  Labels target;
  for (std::int64_t i = 0; i < labels; ++i) {
    target.push_back((c.blank + 1 + static_cast<std::int64_t>(random() % 11)) % 12);
  }
  const Path p = align(c, target);
  const double best = plain_best(c, target);
  CHECK_CLOSE(p.score, best, 1e-12);
  if (best > -kInfinity) check_path(c, target, p);
}

// Checks a narrow beam: it can lose mass but must not add any, and each labelling must occur once.
template <class T>
void check_narrow(std::mt19937_64& random) {
  const Case<T> c = make_case<T>(random, 7, 3, 2.0);
  const std::map<Labels, Truth> all = enumerate(c);
  for (const std::int64_t width : {1, 2, 5}) {
    CtcPrefixSearch<T> search(kernels().ctc, width, -3.0);
    const std::vector<CtcHypothesis> hypotheses = search.search(c.input(), width);
    CHECK(!hypotheses.empty() && static_cast<std::int64_t>(hypotheses.size()) <= width);
    std::map<Labels, int> seen;
    for (const CtcHypothesis& h : hypotheses) {
      CHECK(++seen[h.labels] == 1);
      CHECK(h.log_prob <= all.at(h.labels).total + 1e-12);
    }
  }
}

template <class T>
void check_greedy(std::mt19937_64& random) {
  const Case<T> c = make_case<T>(random, 40, 9, 2.0);
  Labels path, symbols, frames;
  double score = 0.0;
  for (std::int64_t t = 0; t < c.frames; ++t) {
    const T* row = c.scores.data() + t * c.vocabulary;
    path.push_back(std::max_element(row, row + c.vocabulary) - row);
    score += row[path.back()];
  }
  CHECK_CLOSE(ctc_greedy(c.input(), kernels().ctc.best<T>(), &symbols, &frames), score, 1e-12);
  CHECK(symbols == collapsed(path, c.blank));
  CHECK(frames.size() == symbols.size() && std::is_sorted(frames.begin(), frames.end()));
}

template <class T>
void check_all() {
  std::mt19937_64 random(5);
  for (int i = 0; i < 12; ++i) {
    check_enumeration(make_case<T>(random, 5, 3, i % 2 ? 1.0 : 100.0));
    check_enumeration(make_case<T>(random, 4, 4, 3.0, 0.2));
    check_narrow<T>(random);
    check_greedy<T>(random);
  }
  check_enumeration(make_case<T>(random, 3, 1, 1.0));
  // numbers of labels around the sizes of blocks and segments, with and without extra frames
  for (const std::int64_t labels : {0, 1, 7, 8, 15, 16, 100, 127, 129}) {
    for (const std::int64_t spare : {0, 1, 5, 60, 300})
      check_long<T>(random, labels + spare + 1, labels);
  }
}

}  // namespace

int main() {
  for (const Kernels* k : available_kernels()) {
    CHECK(use_kernels(k->name));
    check_all<float>();
    check_all<double>();
  }
  Case<double> nothing{2, 2, 0, {0.0, 0.0, -kInfinity, -kInfinity}};
  CHECK(CtcPrefixSearch<double>(kernels().ctc, 10, -kInfinity).search(nothing.input(), 1).empty());
  return failures() != 0;
}
