// Tests the SIMD functions, which are compiled for one instruction set like the kernels.
#include <random>
#include <vector>

#include "base/simd.hpp"
#include "base/simd_float.hpp"
#include "tests/check.hpp"

using namespace trellis::TRELLIS_ISA;

namespace {

bool cpu_supports_isa() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

double exp_of(double x) { return exp(splat(x))[0]; }
double log_of(double x) { return log(splat(x))[kWidth - 1]; }

void test_exp() {
  CHECK(exp_of(0.0) == 1.0);
  CHECK(exp_of(-kInfinity) == 0.0);
  CHECK(exp_of(-1e300) == 0.0);
  CHECK(exp_of(-708.1) == 0.0);
  CHECK(std::isnan(exp_of(NAN)));
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-708.0, 0.0), narrow(-1.0, 1.0);
  double worst = 0.0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = i % 2 ? wide(random) : narrow(random);
    worst = std::fmax(worst, std::fabs(exp_of(x) / std::exp(x) - 1.0));
  }
  CHECK(worst < 4.5e-16);  // two units in the last place, including the error of std::exp
}

void test_log() {
  CHECK(log_of(0.0) == -kInfinity);
  CHECK(log_of(1.0) == 0.0);
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-300.0, 300.0), near(0.5, 2.0);
  double worst = 0.0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = i % 2 ? std::pow(10.0, exponent(random)) : near(random);
    const double want = std::log(x);
    worst = std::fmax(worst, std::fabs(log_of(x) - want) / std::fmax(std::fabs(want), 1e-3));
  }
  CHECK(worst < 1e-15);
}

// Partial loads and stores must not access memory past the last element. The arrays end there, so that a
// sanitizer reports such an access.
template <class T>
void test_partial() {
  for (int n = 0; n <= kWidth; ++n) {
    std::vector<T> from(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) from[static_cast<std::size_t>(i)] = static_cast<T>(i + 1);
    const Vec v = load_first(from.data(), n, -7.0);
    for (int i = 0; i < kWidth; ++i) CHECK(v[i] == (i < n ? i + 1 : -7.0));
    std::vector<T> to(static_cast<std::size_t>(n), T(0));
    store_first(to.data(), v, n);
    CHECK(to == from);
  }
}

// Returns the largest error of a function of floats, in units in the last place.
template <class Function, class Reference>
double worst_ulps(const Function& function, const Reference& reference, float bound) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<float> wide(-bound, bound), narrow(-1.0f, 1.0f), power(-30.0f, 0.0f);
  double worst = 0.0;
  for (int i = 0; i < 300'000; ++i) {
    const float x = i % 3 == 0   ? wide(random)
                    : i % 3 == 1 ? narrow(random)
                                 : std::pow(10.0f, power(random)) * narrow(random);
    const double want = reference(static_cast<double>(x)),
                 got = function(float_splat(x))[kFloatWidth - 1];
    const float size = std::fabs(static_cast<float>(want));
    const double ulp = std::nextafter(size, INFINITY) - size;
    worst = std::fmax(worst, std::fabs(got - want) / ulp);
  }
  return worst;
}

void test_sigmoid_and_tanh() {
  const auto vector_sigmoid = [](FloatVec x) { return sigmoid(x); };
  const auto vector_tanh = [](FloatVec x) { return tanh(x); };
  CHECK(worst_ulps(vector_sigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, 87.0f) < 3.0);
  CHECK(worst_ulps(vector_tanh, [](double x) { return std::tanh(x); }, 20.0f) < 3.0);
  for (const float x : {1e3f, INFINITY}) {
    CHECK(sigmoid(float_splat(x))[0] == 1.0f);
    CHECK(sigmoid(float_splat(-x))[0] < 1e-37f);
    CHECK(tanh(float_splat(x))[0] == 1.0f);
    CHECK(tanh(float_splat(-x))[0] == -1.0f);
  }
  CHECK(sigmoid(float_splat(0.0f))[0] == 0.5f);
  CHECK(tanh(float_splat(0.0f))[0] == 0.0f);
  CHECK(std::isnan(sigmoid(float_splat(NAN))[0]) && std::isnan(tanh(float_splat(NAN))[0]));
}

void test_partial_floats() {
  for (int n = 0; n <= kFloatWidth; ++n) {
    std::vector<float> from(static_cast<std::size_t>(n)), to(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) from[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
    const FloatVec v = float_load_first(from.data(), n);
    for (int i = 0; i < kFloatWidth; ++i) CHECK(v[i] == (i < n ? static_cast<float>(i + 1) : 0.0f));
    float_store_first(to.data(), v, n);
    CHECK(to == from);
  }
}

void test_reductions() {
  Vec v = splat(0.0);
  for (int i = 0; i < kWidth; ++i) v[i] = i == 1 ? 9.0 : -i;
  double sum = 0.0;
  for (int i = 0; i < kWidth; ++i) sum += v[i];
  for (int i = 0; i < kWidth; ++i) {
    CHECK(sum_lanes(v)[i] == sum);
    CHECK(max_lanes(v)[i] == 9.0);
  }
  CHECK(!any(v > 9.0));
  CHECK(any(v > 8.0));
}

}  // namespace

int main() {
  if (!cpu_supports_isa()) return 77;
  test_exp();
  test_log();
  test_partial<float>();
  test_partial<double>();
  test_partial_floats();
  test_sigmoid_and_tanh();
  test_reductions();
  return failures() != 0;
}
