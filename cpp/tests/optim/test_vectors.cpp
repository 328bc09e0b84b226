// Tests the vector operations of the optimisers: sums must not depend on the number of threads. Tests
// L-BFGS.
#include <random>
#include <vector>

#include "optim/lbfgs.hpp"
#include "optim/owlqn.hpp"
#include "optim/vectors.hpp"
#include "tests/check.hpp"

using Vector = std::vector<double>;
using trellis::TRELLIS_ISA::LbfgsMemory;
namespace core = trellis::TRELLIS_ISA;

namespace {

constexpr std::int64_t kSizes[] = {1, 2, 7, 8, 511, 513, 8191, 8193, 30'001};
std::mt19937_64 generator(1);

Vector random(std::int64_t n, double zeros = 0.0) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Vector v(static_cast<std::size_t>(n));
  for (double& x : v) x = uniform(generator) < zeros ? 0.0 : normal(generator);
  return v;
}

double plain_dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector minus(const Vector& a, const Vector& b) {
  Vector out(a);
  for (std::size_t i = 0; i < a.size(); ++i) out[i] -= b[i];
  return out;
}

void test_dot_and_step() {
  for (const std::int64_t n : kSizes) {
    const Vector a = random(n), b = random(n);
    const double one = core::dot(a.data(), b.data(), n, 1);
    CHECK_CLOSE(one, plain_dot(a, b), 1e-11);
    for (const int threads : {2, 3, 8}) CHECK(core::dot(a.data(), b.data(), n, threads) == one);
    Vector out(a.size());
    core::step(a.data(), b.data(), -0.5, n, out.data(), 2);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK_CLOSE(out[i], a[i] - 0.5 * b[i], 1e-15);
  }
}

void test_orthants() {
  for (const std::int64_t n : kSizes) {
    const Vector w = random(n, 0.5), g = random(n), c(w.size(), 0.4);
    Vector pseudo(w.size()), d = random(n), out(w.size());
    core::pseudo_gradient(w.data(), g.data(), c.data(), n, pseudo.data(), 2);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double off_zero = g[i] + (w[i] > 0.0 ? 0.4 : -0.4);
      const double at_zero = std::copysign(std::max(0.0, std::fabs(g[i]) - 0.4), g[i]);
      const double expected = w[i] == 0.0 ? at_zero : off_zero;
      CHECK_CLOSE(pseudo[i], expected, 1e-15);
    }
    CHECK(core::project_direction(pseudo.data(), c.data(), n, d.data(), 2) <= 0.0);
    const auto result =
        core::orthant_step(w.data(), d.data(), 3.0, pseudo.data(), c.data(), n, out.data(), 2);
    CHECK(result.penalty >= 0.0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      CHECK(w[i] * out[i] >= 0.0);  // no weight changes its sign
      // A weight leaves 0 in the direction of descent.
      if (w[i] == 0.0 && out[i] != 0.0) CHECK((out[i] > 0) == (pseudo[i] < 0));
    }
  }
}

// Computes the direction with the two loops of L-BFGS on full vectors.
Vector two_loops(const std::vector<Vector>& s, const std::vector<Vector>& y, const Vector& q) {
  Vector r(q);
  for (double& x : r) x = -x;
  const auto add = [&](double a, const Vector& v) {
    for (std::size_t i = 0; i < r.size(); ++i) r[i] += a * v[i];
  };
  Vector alpha(s.size());
  for (std::size_t k = s.size(); k-- > 0;) {
    alpha[k] = plain_dot(s[k], r) / plain_dot(s[k], y[k]);
    add(-alpha[k], y[k]);
  }
  for (double& x : r) x *= plain_dot(s.back(), y.back()) / plain_dot(y.back(), y.back());
  for (std::size_t k = 0; k < s.size(); ++k) {
    add(alpha[k] - plain_dot(y[k], r) / plain_dot(s[k], y[k]), s[k]);
  }
  return r;
}

void test_memory() {
  for (const std::int64_t n : kSizes) {
    LbfgsMemory memory(n, 4), threaded(n, 4);
    std::vector<Vector> s, y;
    Vector w = random(n), g(w), d(w.size()), d_threaded(w.size());
    for (int k = 0; k < 7; ++k) {
      const Vector w_next = random(n);
      Vector g_next(w_next);
      for (std::size_t i = 0; i < g_next.size(); ++i) g_next[i] *= 1.0 + static_cast<double>(i % 5);
      if (k == 0) g = g_next;  // the first pair has no curvature: it must be dropped
      const bool kept =
          memory.push(w_next.data(), w.data(), g_next.data(), g.data(), g_next.data(), 1).kept;
      threaded.push(w_next.data(), w.data(), g_next.data(), g.data(), g_next.data(), 3);
      CHECK(kept == (k != 0));
      if (kept) {
        s.push_back(minus(w_next, w));
        y.push_back(minus(g_next, g));
      }
      if (s.size() > 4) {
        s.erase(s.begin());
        y.erase(y.begin());
      }
      w = w_next;
      g = g_next;
    }
    CHECK(memory.count() == 4);
    const double slope = memory.direction(g.data(), d.data(), 1);
    CHECK(slope < 0.0);
    CHECK(threaded.direction(g.data(), d_threaded.data(), 2) == slope);
    CHECK(d == d_threaded);
    const Vector want = two_loops(s, y, g);
    for (std::size_t i = 0; i < d.size(); ++i) CHECK_CLOSE(d[i], want[i], 1e-6);
  }
}

// A pair is kept if s · y is above eps |s| |y|: below, the product is rounding error.
void test_curvature_of_a_pair() {
  const double eps = std::numeric_limits<double>::epsilon();
  for (const double scale : {1e-100, 1.0, 1e100}) {
    for (const double curvature : {-1.0, 0.0, 0.9 * eps, 1.1 * eps, 1.0}) {
      LbfgsMemory memory(3, 2);
      const Vector zero{0.0, 0.0, 0.0}, s{scale, 0.0, 0.0}, y{curvature * scale, 0.0, scale};
      const auto norms = memory.push(s.data(), zero.data(), y.data(), zero.data(), y.data(), 1);
      CHECK(norms.kept == (curvature > eps));
      CHECK(memory.count() == (curvature > eps ? 1 : 0));
    }
  }
  LbfgsMemory memory(1, 2);
  const double one = 1.0, zero = 0.0, huge = 1e200;  // y · y overflows
  CHECK(!memory.push(&one, &zero, &huge, &zero, &one, 1).kept);
}

void test_append() {
  const std::int64_t n = 10'000;
  LbfgsMemory memory(n, 3), other(n, 3);
  Vector d(static_cast<std::size_t>(n)), d_other(d);
  for (int k = 0; k < 5; ++k) {
    const Vector s = random(n);
    Vector y(s);
    for (double& x : y) x *= 2.0 + x;
    memory.append(s.data(), y.data(), 2);
  }
  for (int i = 0; i < memory.count(); ++i) other.append(memory.s(i), memory.y(i), 1);
  const Vector q = random(n);
  memory.project(q.data(), 1);
  other.project(q.data(), 3);
  memory.direction(q.data(), d.data(), 1);
  other.direction(q.data(), d_other.data(), 2);
  CHECK(d == d_other);
  memory.clear();
  memory.direction(q.data(), d.data(), 1);
  for (std::size_t i = 0; i < d.size(); ++i) CHECK(d[i] == -q[i]);
}

}  // namespace

int main() {
  test_dot_and_step();
  test_orthants();
  test_memory();
  test_curvature_of_a_pair();
  test_append();
  return failures() != 0;
}
