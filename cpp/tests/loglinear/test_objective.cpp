// Compares loss and gradient of log-linear chain models, for every instruction set, with enumeration.
#include <map>
#include <random>
#include <vector>

#include "tests/check.hpp"
#include "tests/loglinear/loglinear_case.hpp"

using namespace trellis;

namespace {

constexpr double kInfinity = Case::kInfinity;

// -sum_i weight_i log p(y_i | x_i) and its gradient, by definition.
struct Truth {
  double loss = 0.0;
  std::int64_t infeasible = -1;  // the first sequence without an allowed labelling
  Vector log_likelihood, gradient;

  Truth(const Case& c, Normaliser normaliser) : gradient(c.w.size(), 0.0) {
    for (std::int64_t i = 0; i < c.y().sequences; ++i) {
      const double log_p = normaliser == Normaliser::sequence ? over_paths(c, i) : over_steps(c, i);
      log_likelihood.push_back(c.weight(i) * log_p);
      loss -= c.weight(i) * log_p;
      if (log_p == -kInfinity && infeasible < 0) infeasible = i;
    }
  }

 private:
  double over_paths(const Case& c, std::int64_t i) {
    const std::vector<Path> paths = c.paths(i);
    Vector scores, allowed, p, q;
    for (const Path& path : paths) {
      scores.push_back(c.score(i, path, c.w));
      allowed.push_back(c.consistent(i, path) ? scores.back() : -kInfinity);
    }
    const double log_z = normalise(scores, p), log_y = normalise(allowed, q);
    for (std::size_t k = 0; k < paths.size(); ++k) {
      c.features(i, paths[k], [&](std::int64_t feature, double value) {
        gradient[feature] += c.weight(i) * value * (p[k] - q[k]);
      });
    }
    return log_y == -kInfinity ? log_y : log_y - log_z;
  }

  // Returns the sum of log p of each label given the previous label, where both are known.
  double over_steps(const Case& c, std::int64_t i) {
    const Path y = c.labels(i);
    double total = 0.0;
    for (std::size_t t = 0; t < y.size(); ++t) {
      const std::int32_t before = t == 0 ? 0 : y[t - 1];
      if (before < 0 || y[t] < 0) continue;
      Vector scores, p;
      const auto position = static_cast<std::int64_t>(t);
      for (std::int32_t b = 0; b < c.layout().labels; ++b)
        scores.push_back(c.score_at(i, position, before, b, c.w));
      const double log_z = normalise(scores, p);
      if (scores[y[t]] == -kInfinity) return -kInfinity;
      total += scores[y[t]] - log_z;
      for (std::int32_t b = 0; b < c.layout().labels; ++b) {
        c.features_at(i, position, before, b, [&](std::int64_t feature, double value) {
          gradient[feature] += c.weight(i) * value * (p[b] - (b == y[t] ? 1.0 : 0.0));
        });
      }
    }
    return total;
  }
};

struct Evaluated {
  double loss;
  Vector gradient;
  bool operator==(const Evaluated&) const = default;
};

Evaluated evaluate(Objective& objective, const Vector& w, double l2, int threads) {
  Evaluated out{0.0, Vector(w.size(), std::nan(""))};
  out.loss = objective.evaluate(w.data(), l2, threads, out.gradient.data());
  return out;
}

void check_case(const Case& c, Normaliser normaliser) {
  const Truth truth(c, normaliser);
  Objective objective(c.layout(), c.x(), c.edges(), c.y(), normaliser);
  CHECK(objective.size() == static_cast<std::int64_t>(c.w.size()));
  const double l2 = 0.3;
  const Evaluated one = evaluate(objective, c.w, l2, 1);
  CHECK(objective.infeasible() == truth.infeasible);
  if (truth.infeasible >= 0) {
    CHECK(one.loss == kInfinity);
    return;
  }
  double penalty = 0.0;
  for (const double x : c.w) penalty += l2 / 2 * x * x;
  CHECK_CLOSE(one.loss, truth.loss + penalty, 1e-10);
  for (std::size_t i = 0; i < truth.log_likelihood.size(); ++i) {
    CHECK_CLOSE(objective.log_likelihood()[i], truth.log_likelihood[i], 1e-9);
  }
  for (std::size_t k = 0; k < c.w.size(); ++k) {
    CHECK_CLOSE(one.gradient[k], truth.gradient[k] + l2 * c.w[k], 1e-9);
  }
  evaluate(objective, Vector(c.w.size(), 0.5), 0.0, 2);  // this evaluation must not change later ones
  for (const int threads : {1, 2, 3, 4}) CHECK(evaluate(objective, c.w, l2, threads) == one);
}

// Checks all settings. With many rows, attribute 0 gets dense weights; with many labels, there are long
// ranges of weights.
void check_small(std::mt19937_64& random) {
  for (int bits = 0; bits < 64; ++bits) {
    Settings s;
    s.values = (bits & 1) != 0;
    s.edges = (bits & 2) != 0;
    s.partial = (bits & 4) != 0;
    s.weights = (bits & 8) != 0;
    s.costs = (bits & 16) != 0;
    s.forbidden = (bits & 32) != 0 ? 0.15 : 0.0;
    for (const auto normaliser : {Normaliser::sequence, Normaliser::step}) {
      s.labels = 1 + bits % 4, s.sequences = 12, s.longest = 4, s.scale = 1.0;
      check_case(Case(random, s), normaliser);
      s.scale = 200.0;  // too wide for scaled probabilities
      check_case(Case(random, s), normaliser);
      s.labels = 10, s.sequences = 3, s.longest = 2, s.scale = 1.0;
      check_case(Case(random, s), normaliser);
    }
  }
}

// Checks models where few transitions have a weight, with more sequences than SIMD lanes and weights
// down to kLowestWeight.
void check_few_bigrams(std::mt19937_64& random) {
  for (int bits = 0; bits < 32; ++bits) {
    Settings s;
    s.values = (bits & 1) != 0;
    s.weights = (bits & 2) != 0;
    s.costs = (bits & 4) != 0;
    s.bigrams = 0.3, s.scale = bits % 8 < 4 ? 1.0 : 4.0;
    s.labels = 1 + bits % 5, s.sequences = 3 + bits, s.longest = 4;
    check_case(Case(random, s), Normaliser::sequence);
    s.labels = 10, s.longest = 2;
    check_case(Case(random, s), Normaliser::sequence);
  }
}

// Checks chains of second order: few and many trigrams, weights that need the exact kernels, and
// constraints under which only some lanes of a group need these kernels.
void check_trigrams(std::mt19937_64& random) {
  for (int bits = 0; bits < 64; ++bits) {
    Settings s;
    s.values = (bits & 1) != 0;
    s.partial = (bits & 2) != 0;
    s.weights = (bits & 4) != 0;
    s.costs = (bits & 8) != 0;
    s.forbidden = (bits & 16) != 0 ? 0.15 : 0.0;
    s.trigrams = (bits & 32) != 0 ? 0.1 : 0.7;
    s.labels = 1 + bits % 5, s.sequences = 12, s.longest = 4;
    for (const double scale : {1.0, 30.0, 80.0, 200.0}) {
      s.scale = scale;
      check_case(Case(random, s), Normaliser::sequence);
    }
    s.labels = 9, s.sequences = 20, s.longest = 3, s.scale = 1.0;
    check_case(Case(random, s), Normaliser::sequence);
  }
}

// Checks the dense kernels: start and end scores of 0 do not change the result, but prevent the sparse
// kernel.
void check_other_path(const Case& c, Normaliser normaliser, const Evaluated& one) {
  const Vector zero(static_cast<std::size_t>(c.layout().labels), 0.0);
  TrainingLabels y = c.y();
  y.start = y.end = zero.data();
  Objective objective(c.layout(), c.x(), c.edges(), y, normaliser);
  const Evaluated other = evaluate(objective, c.w, 0.0, 2);
  CHECK_CLOSE(one.loss, other.loss, 1e-10);
  for (std::size_t k = 0; k < c.w.size(); ++k) CHECK_CLOSE(one.gradient[k], other.gradient[k], 1e-9);
}

// Compares many chunks and slots with the sum of single sequences. The bits must be the same for any
// number of threads.
void check_large(std::mt19937_64& random, const Settings& settings, Normaliser normaliser) {
  const Case c(random, settings);
  Objective objective(c.layout(), c.x(), c.edges(), c.y(), normaliser);
  const Evaluated all = evaluate(objective, c.w, 0.0, 1);
  CHECK(std::isfinite(all.loss));
  for (const int threads : {2, 3, 4}) CHECK(evaluate(objective, c.w, 0.0, threads) == all);
  check_other_path(c, normaliser, all);
  Evaluated sum{0.0, Vector(c.w.size(), 0.0)};
  for (std::int64_t i = 0; i < c.y().sequences; ++i) {
    Objective single(c.layout(), c.x(), c.edges(), c.only(i), normaliser);
    const Evaluated one = evaluate(single, c.w, 0.0, 1);
    sum.loss += one.loss;
    for (std::size_t k = 0; k < c.w.size(); ++k) sum.gradient[k] += one.gradient[k];
  }
  CHECK_CLOSE(all.loss, sum.loss, 1e-10);
  for (std::size_t k = 0; k < c.w.size(); ++k) CHECK_CLOSE(all.gradient[k], sum.gradient[k], 1e-9);
}

void check_extremes(std::mt19937_64& random) {
  Settings s;
  s.sequences = 0;
  for (const auto normaliser : {Normaliser::sequence, Normaliser::step}) {
    Case nothing(random, s);
    Objective objective(nothing.layout(), nothing.x(), nothing.edges(), nothing.y(), normaliser);
    const Evaluated penalty = evaluate(objective, nothing.w, 2.0, 2);
    for (std::size_t k = 0; k < nothing.w.size(); ++k) CHECK(penalty.gradient[k] == 2.0 * nothing.w[k]);
    CHECK(objective.infeasible() == -1);
  }
  s.sequences = 20;
  for (const int bits : {0, 1, 2, 3, 4, 6}) {
    s.trigrams = (bits & 4) != 0 ? 0.5 : 0.0;
    const auto normaliser = (bits & 1) != 0 ? Normaliser::step : Normaliser::sequence;
    s.bigrams = (bits & 2) != 0 ? 0.0 : 0.8;
    Case c(random, s);
    Objective objective(c.layout(), c.x(), c.edges(), c.y(), normaliser);
    const Evaluated before = evaluate(objective, c.w, 0.1, 2);
    for (const double bad : {std::nan(""), kInfinity, -kInfinity, 1e308}) {
      Vector w(c.w);
      for (double& x : w) x = bad;
      CHECK(!(evaluate(objective, w, 0.0, 2).loss < kInfinity));
    }
    CHECK(evaluate(objective, c.w, 0.1, 2) == before);
  }
}

// Checks the scores of rows, for numbers of labels around every vector width and kWidest.
void check_scores(std::mt19937_64& random) {
  for (const int labels : {1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 1017, 1030}) {
    for (const bool values : {false, true}) {
      Settings s;
      s.labels = labels, s.sequences = 2, s.longest = 3, s.values = values;
      const Case c(random, s);
      const WeightLayout layout = c.layout();
      for (const bool dense : {false, true}) {
        const DenseAttributes attributes =
            dense ? DenseAttributes(layout, nullptr) : DenseAttributes::none(layout);
        const PlannedRows rows(layout, c.x(), attributes);
        Vector table(attributes.table_size() + kPadding), scores(c.x().rows * labels);
        attributes.expand(c.w.data(), table.data());
        kernels().loglinear.score_rows(rows.plan(), table.data(), c.w.data(), 0, c.x().rows,
                                       scores.data());
        std::int64_t row = 0;
        for (int i = 0; i < s.sequences; ++i) {
          for (std::int64_t t = 0; t < c.length(i); ++t, ++row) {
            for (int y = 0; y < labels; y += 1 + labels / 40) {
              double want = 0.0;
              c.features_at(i, t, -1, y, [&](std::int64_t k, double value) {
                if (k < layout.states()) want += c.w[k] * value;
              });
              CHECK_CLOSE(scores[row * labels + y], want, 1e-12);
            }
          }
        }
      }
    }
  }
}

// Checks more labels than a dense row can have. Sequences have one position, because all paths are
// enumerated.
void check_many_labels(std::mt19937_64& random) {
  Settings s;
  s.labels = 1030, s.sequences = 2, s.longest = 1;
  for (const auto normaliser : {Normaliser::sequence, Normaliser::step}) {
    check_case(Case(random, s), normaliser);
  }
}

void check_seen(std::mt19937_64& random) {
  for (int k = 0; k < 40; ++k) {
    const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
    constexpr int kRows = 30, kAttributes = 8, kCells = 5;
    RowsOfIds rows;
    std::vector<std::int32_t> cell;
    std::unique_ptr<bool[]> allowed(new bool[kRows * kCells]);
    Vector weight;
    for (int r = 0; r < kRows; ++r) {
      for (int n = below(4); n > 0; --n) rows.id.push_back(below(kAttributes));
      rows.begin.push_back(static_cast<std::int64_t>(rows.id.size()));
      cell.push_back(below(kCells + 1) - 1);
      weight.push_back(0.25 * below(5));
      for (int y = 0; y < kCells; ++y) allowed[r * kCells + y] = below(2) == 0;
    }
    for (std::size_t n = 0; k % 2 == 0 && n < rows.id.size(); ++n) rows.value.push_back(0.5 * below(4));
    const bool* possible = k % 3 == 0 ? nullptr : allowed.get();
    const double* weights = k % 5 == 0 ? nullptr : weight.data();
    const double least = 0.5 * (k % 4);
    const SparseRows x = rows.view();
    std::map<std::pair<int, int>, double> sums;
    for (int r = 0; r < kRows; ++r) {
      for (std::int64_t n = x.begin[r]; n < x.begin[r + 1]; ++n) {
        const double amount = (x.value ? x.value[n] : 1.0) * (weights ? weights[r] : 1.0);
        for (int y = 0; y < kCells; ++y) {
          if (cell[r] < 0 ? possible != nullptr && possible[r * kCells + y] : cell[r] == y)
            sums[{x.id[n], y}] += amount;
        }
      }
    }
    const SeenCells seen = seen_cells(
        x, kAttributes, {.cells = kCells, .cell = cell.data(), .allowed = possible, .weight = weights},
        least);
    CHECK(seen.begin.size() == kAttributes + 1);
    for (int a = 0; a < kAttributes; ++a) {
      std::vector<std::int32_t> want;
      for (const auto& [pair, sum] : sums) {
        if (pair.first == a && sum >= least) want.push_back(pair.second);
      }
      const std::vector<std::int32_t> got(seen.cell.begin() + seen.begin[a],
                                          seen.cell.begin() + seen.begin[a + 1]);
      CHECK(got == want);
    }
  }
}

}  // namespace

int main() {
  for (const Kernels* k : available_kernels()) {
    CHECK(use_kernels(k->name));
    std::mt19937_64 random(13);
    check_small(random);
    check_few_bigrams(random);
    check_trigrams(random);
    check_extremes(random);
    check_scores(random);
  }
  std::mt19937_64 random(17);  // the following checks do not depend on the kernels
  check_many_labels(random);
  check_seen(random);
  for (const auto normaliser : {Normaliser::sequence, Normaliser::step}) {
    for (const bool partial : {false, true}) {
      Settings s;
      s.labels = 5, s.sequences = 150, s.longest = 30, s.values = true, s.weights = true;
      s.partial = partial;
      check_large(random, s, normaliser);
      s.labels = 30, s.sequences = 100, s.edges = true;  // transitions of 1,165 rows fill a chunk
      check_large(random, s, normaliser);
    }
  }
  for (const int longest : {30, 400}) {  // over 400 positions, products leave the range of a double
    Settings s;
    s.labels = 20, s.sequences = 6000 / longest, s.longest = longest, s.bigrams = 0.2;
    check_large(random, s, Normaliser::sequence);
    s.labels = 8, s.bigrams = 0.8, s.trigrams = 0.2, s.partial = longest == 30;
    check_large(random, s, Normaliser::sequence);
  }
  return failures() != 0;
}
