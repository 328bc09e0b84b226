// Compares online learning with enumeration and with the published update rules.
#include <random>
#include <vector>

#include "loglinear/online.hpp"
#include "tests/check.hpp"
#include "tests/loglinear/loglinear_case.hpp"

using namespace trellis;

namespace {

constexpr double kInfinity = Case::kInfinity;

Settings plain_settings(int bits) {
  Settings s;
  s.labels = 1 + bits % 4, s.sequences = 8, s.longest = 4;
  s.values = (bits & 1) != 0;
  s.weights = (bits & 2) != 0;
  s.scale = (bits & 4) != 0 ? 200.0 : 1.0;
  s.trigrams = (bits & 16) != 0 ? 0.5 : 0.0;
  return s;
}

Path best_path(const Case& c, std::int64_t i, const Vector& w) {
  Path best;
  double top = -kInfinity;
  for (const Path& path : c.paths(i)) {
    const double score = c.score(i, path, w);
    if (score > top || best.empty()) best = path, top = score;
  }
  return best;
}

// Returns whether several labellings have the best score. Then any of them may be predicted.
bool tied(const Case& c, std::int64_t i, const Vector& w) {
  const double top = c.score(i, best_path(c, i, w), w);
  int best = 0;
  for (const Path& path : c.paths(i)) best += c.score(i, path, w) >= top - 1e-9;
  return best > 1;
}

// Returns phi(x, a) - phi(x, b) for all weights.
Vector difference(const Case& c, std::int64_t i, const Path& a, const Path& b) {
  Vector d(c.w.size(), 0.0);
  c.features(i, a, [&](std::int64_t k, double value) { d[k] += value; });
  c.features(i, b, [&](std::int64_t k, double value) { d[k] -= value; });
  return d;
}

// Returns whether the true labels are allowed. Otherwise the margin is infinite, and the sequence is
// skipped.
bool feasible(const Case& c, std::int64_t i) { return c.score(i, c.labels(i), c.w) > -kInfinity; }

void check_close(const Vector& got, const Vector& want, double tolerance) {
  CHECK(got.size() == want.size());
  for (std::size_t k = 0; k < want.size(); ++k) CHECK_CLOSE(got[k], want[k], tolerance);
}

// Computes the loss of one sequence at w, and its gradient.
double loss_of(const Case& c, std::int64_t i, const Vector& w, Vector& gradient) {
  gradient.resize(w.size());
  Objective one(c.layout(), c.x(), c.edges(), c.only(i), Normaliser::sequence);
  return one.evaluate(w.data(), 0.0, 1, gradient.data());
}

void check_descend(const Case& c) {
  OnlineLearner learner(c.layout(), c.x(), c.y());
  CHECK(learner.size() == static_cast<std::int64_t>(c.w.size()));
  for (std::int64_t i = 0; i < c.y().sequences; ++i) {
    if (!feasible(c, i)) continue;
    for (const double scale : {1.0, 0.5, 1e-6}) {
      Vector scaled(c.w), gradient, v(c.w);
      for (double& x : scaled) x *= scale;
      const double want = loss_of(c, i, scaled, gradient);
      CHECK_CLOSE(learner.descend(i, scale, 0.25, v.data()), want, 1e-9);
      for (std::size_t k = 0; k < v.size(); ++k) CHECK_CLOSE(v[k], c.w[k] - 0.25 * gradient[k], 1e-9);
    }
  }
}

void check_predict(const Case& c) {
  OnlineLearner learner(c.layout(), c.x(), c.y());
  for (std::int64_t i = 0; i < c.y().sequences; ++i) {
    if (!feasible(c, i)) continue;
    const Path y = c.labels(i), best = best_path(c, i, c.w);
    const auto mistake = learner.predict(i, c.w.data());
    CHECK_CLOSE(mistake.margin, c.score(i, best, c.w) - c.score(i, y, c.w), 1e-10);
    if (tied(c, i, c.w)) continue;
    std::int64_t errors = 0;
    for (std::size_t t = 0; t < y.size(); ++t) errors += best[t] != y[t];
    CHECK(mistake.errors == errors);
    Vector d(c.w.size(), 0.0);
    std::int64_t before = -1;
    for (const Change& change : learner.difference(i)) {
      CHECK(change.weight > before);  // each weight once, in ascending order
      before = change.weight;
      d[change.weight] = change.value;
    }
    check_close(d, difference(c, i, y, best), 1e-12);
  }
}

std::vector<std::int64_t> shuffled(std::mt19937_64& random, std::int64_t n) {
  std::vector<std::int64_t> order(2 * n);  // a sequence may occur twice in a pass
  for (auto& i : order) i = std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
  return order;
}

Order order_of(const std::vector<std::int64_t>& order) {
  return {.sequence = order.data(), .count = static_cast<std::int64_t>(order.size())};
}

// Checks w <- (1 - eta lambda) w, followed by a step of eta against the gradient. With t0 near 1, w
// shrinks to 0.
void check_sgd(std::mt19937_64& random, const Case& c) {
  const auto order = shuffled(random, c.y().sequences);
  const double lambda = 0.1;
  for (const double t0 : {100.0, 1.0 + 1e-12, 1.0}) {
    OnlineLearner learner(c.layout(), c.x(), c.y());
    Vector v(c.w), w(c.w), gradient;
    double scale = 1.0, loss = 0.0, want = 0.0;
    const std::size_t half = order.size() / 2;
    loss += sgd_epoch(learner, {.sequence = order.data(), .count = static_cast<std::int64_t>(half)},
                      {.lambda = lambda, .t0 = t0, .earlier_steps = 0}, v.data(), &scale);
    loss += sgd_epoch(
        learner,
        {.sequence = order.data() + half, .count = static_cast<std::int64_t>(order.size() - half)},
        {.lambda = lambda, .t0 = t0, .earlier_steps = static_cast<std::int64_t>(half)}, v.data(),
        &scale);
    for (std::size_t k = 0; k < order.size(); ++k) {
      const double eta = 1.0 / (lambda * (t0 + static_cast<double>(k)));
      for (double& x : w) x *= 1.0 - eta * lambda;
      want += loss_of(c, order[k], w, gradient);
      for (std::size_t n = 0; n < w.size(); ++n) w[n] -= eta * gradient[n];
    }
    for (double& x : v) x *= scale;
    CHECK_CLOSE(loss, want, 1e-7);
    check_close(v, w, 1e-7);
  }
}

// Checks rules that add weight * tau * (phi(x, y) - phi(x, best)) where the best labelling is wrong. The
// average of w over all steps is w - total / steps.
template <class Epoch, class Tau>
void check_additive(std::mt19937_64& random, const Case& c, const Epoch& epoch, const Tau& tau) {
  OnlineLearner learner(c.layout(), c.x(), c.y());
  const auto order = shuffled(random, c.y().sequences);
  Vector w(c.w), naive(c.w), total(w.size(), 0.0), sum(w.size(), 0.0);
  std::int64_t steps = 0;
  double want = 0.0;
  const double got = epoch(learner, order_of(order),
                           AveragedWeights{.w = w.data(), .total = total.data(), .steps = &steps});
  for (const std::int64_t i : order) {
    const Path y = c.labels(i), best = best_path(c, i, naive);
    std::int64_t errors = 0;
    for (std::size_t t = 0; t < y.size(); ++t) errors += best[t] != y[t];
    const Vector d = difference(c, i, y, best);
    double norm = 0.0;
    for (const double x : d) norm += x * x;
    const double margin = c.score(i, best, naive) - c.score(i, y, naive);
    const double step = errors == 0 ? 0.0 : c.weight(i) * tau(errors, margin, norm, want);
    for (std::size_t k = 0; k < naive.size() && norm > 0.0; ++k) naive[k] += step * d[k];
    for (std::size_t k = 0; k < naive.size(); ++k) sum[k] += naive[k];
  }
  CHECK(steps == static_cast<std::int64_t>(order.size()));
  CHECK_CLOSE(got, want, 1e-9);
  check_close(w, naive, 1e-9);
  const auto n = static_cast<double>(steps);
  for (std::size_t k = 0; k < w.size(); ++k) CHECK_CLOSE(w[k] - total[k] / n, sum[k] / n, 1e-9);
}

void check_perceptron(std::mt19937_64& random, const Case& c) {
  check_additive(
      random, c,
      [](OnlineLearner& learner, const Order& order, const AveragedWeights& weights) {
        return static_cast<double>(perceptron_epoch(learner, order, weights));
      },
      [](std::int64_t errors, double, double, double& result) {
        result += static_cast<double>(errors);
        return 1.0;
      });
}

void check_passive_aggressive(std::mt19937_64& random, const Case& c) {
  for (int variant = 0; variant < 3; ++variant) {
    for (const bool count_errors : {false, true}) {
      const double aggressiveness = 0.2;
      check_additive(
          random, c,
          [&](OnlineLearner& learner, const Order& order, const AveragedWeights& weights) {
            return passive_aggressive_epoch(
                learner, order,
                {.variant = variant, .aggressiveness = aggressiveness, .count_errors = count_errors},
                weights);
          },
          [&](std::int64_t errors, double margin, double norm, double& result) {
            const double hinge = margin + (count_errors ? std::sqrt(static_cast<double>(errors)) : 1.0);
            result += hinge;
            if (variant == 0) return hinge / norm;
            return variant == 1 ? std::min(aggressiveness, hinge / norm)
                                : hinge / (norm + 0.5 / aggressiveness);
          });
    }
  }
}

void check_arow(std::mt19937_64& random, const Case& c) {
  OnlineLearner learner(c.layout(), c.x(), c.y());
  const auto order = shuffled(random, c.y().sequences);
  const double gamma = 0.5;
  Vector w(c.w), naive(c.w), variance(w.size(), 1.0), spread(w.size(), 1.0);
  double want = 0.0;
  const double got = arow_epoch(learner, order_of(order), gamma, w.data(), variance.data());
  for (const std::int64_t i : order) {
    const Path y = c.labels(i), best = best_path(c, i, naive);
    double hinge = c.score(i, best, naive) - c.score(i, y, naive), total = gamma;
    std::int64_t errors = 0;
    for (std::size_t t = 0; t < y.size(); ++t) errors += best[t] != y[t];
    if (errors == 0) continue;
    hinge += static_cast<double>(errors);
    want += hinge;
    const Vector d = difference(c, i, y, best);
    for (std::size_t k = 0; k < d.size(); ++k) total += d[k] * d[k] * spread[k];
    for (std::size_t k = 0; k < d.size(); ++k) {
      naive[k] += c.weight(i) * hinge / total * spread[k] * d[k];
      spread[k] = 1.0 / (1.0 / spread[k] + d[k] * d[k] / gamma);
    }
  }
  CHECK_CLOSE(got, want, 1e-9);
  check_close(w, naive, 1e-9);
  check_close(variance, spread, 1e-12);
}

}  // namespace

int main() {
  for (const Kernels* k : available_kernels()) {
    CHECK(use_kernels(k->name));
    std::mt19937_64 random(19);
    for (int bits = 0; bits < 32; ++bits) {
      Settings s = plain_settings(bits);
      const Case c(random, s);
      check_descend(c);
      check_predict(c);
      s.forbidden = 0.1;
      const Case constrained(random, s);
      check_descend(constrained);
      check_predict(constrained);
      s.forbidden = 0.0, s.scale = 1.0, s.full = true;
      const Case narrow(random, s);
      check_sgd(random, narrow);
      check_perceptron(random, narrow);
      check_passive_aggressive(random, narrow);
      check_arow(random, narrow);
    }
  }
  return failures() != 0;
}
