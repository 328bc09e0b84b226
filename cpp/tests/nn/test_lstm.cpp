// Compares the LSTM with a simple implementation in doubles, and its gradient with central differences.
// The number of threads must not change the result.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "nn/lstm.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

using Sizes = std::vector<std::int64_t>;

struct Case {
  std::int64_t hidden, tokens;
  Sizes sizes;
  std::vector<float> gates, u, weight;

  // Arrays end with the last element that is read, so that a sanitizer reports any access past it.
  Case(std::int64_t hidden_, std::vector<std::int64_t> lengths) : hidden(hidden_), tokens(0) {
    std::sort(lengths.rbegin(), lengths.rend());
    for (std::int64_t t = 0; t < lengths[0]; ++t) {
      sizes.push_back(std::count_if(lengths.begin(), lengths.end(), [&](auto n) { return n > t; }));
      tokens += sizes.back();
    }
    std::mt19937 random(static_cast<unsigned>(hidden + tokens));
    std::normal_distribution<float> normal;
    const float small = 1.0f / std::sqrt(static_cast<float>(hidden));
    gates.resize(static_cast<std::size_t>(tokens * 8 * hidden));
    u.resize(static_cast<std::size_t>(8 * hidden * hidden));
    weight.resize(static_cast<std::size_t>(tokens * 2 * hidden));
    for (float& x : gates) x = normal(random);
    for (float& x : u) x = normal(random) * small;
    for (float& x : weight) x = normal(random);
  }
  LstmSteps steps() const {
    return LstmSteps(sizes.data(), static_cast<std::int64_t>(sizes.size()), tokens);
  }
};

struct States {
  std::vector<float> gates, h, c, before, d_gates;
};

States run(const Case& a, const Kernels& kernels, int threads) {
  const std::vector<float> empty(a.weight.size(), NAN);
  States s{a.gates, empty, empty, empty, std::vector<float>(a.gates.size(), NAN)};
  lstm_forward(kernels.lstm, a.steps(), a.hidden, a.u.data(),
               {.gates = s.gates.data(), .h = s.h.data(), .c = s.c.data(), .before = s.before.data()},
               threads);
  lstm_backward(kernels.lstm, a.steps(), a.hidden, a.u.data(),
                {.d_h = a.weight.data(),
                 .activations = s.gates.data(),
                 .c = s.c.data(),
                 .d_gates = s.d_gates.data()},
                threads);
  return s;
}

double sigma(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Computes h of all tokens, one sequence at a time.
std::vector<double> plain(const Case& a, const std::vector<double>& gates) {
  const std::int64_t H = a.hidden, T = static_cast<std::int64_t>(a.sizes.size());
  std::vector<double> out(a.weight.size());
  for (std::int64_t direction = 0; direction < 2; ++direction) {
    for (std::int64_t b = 0; b < a.sizes[0]; ++b) {
      std::vector<std::int64_t> token;
      for (std::int64_t t = 0, begin = 0; t < T && a.sizes[t] > b; begin += a.sizes[t++])
        token.push_back(begin + b);
      if (direction == 1) std::reverse(token.begin(), token.end());
      std::vector<double> h(H, 0.0), c(H, 0.0);
      for (const std::int64_t n : token) {
        std::vector<double> x(4 * H);
        for (std::int64_t k = 0; k < 4 * H; ++k) {
          x[k] = gates[n * 8 * H + direction * 4 * H + k];
          for (std::int64_t m = 0; m < H; ++m)
            x[k] += static_cast<double>(a.u[(direction * 4 * H + k) * H + m]) * h[m];
        }
        for (std::int64_t j = 0; j < H; ++j) {
          c[j] = sigma(x[H + j]) * c[j] + sigma(x[j]) * std::tanh(x[2 * H + j]);
          h[j] = out[n * 2 * H + direction * H + j] = sigma(x[3 * H + j]) * std::tanh(c[j]);
        }
      }
    }
  }
  return out;
}

void test_values(const Kernels& kernels) {
  for (const std::int64_t hidden : {1, 3, 4, 15, 16, 17, 33, 70, 100}) {
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{1},
                                                     {5},
                                                     {4, 4, 4},
                                                     {7, 3, 3, 2, 1},
                                                     {3, 3, 2, 2, 2, 1, 1},
                                                     std::vector<std::int64_t>(37, 2)}) {
      const Case a(hidden, lengths);
      const States states = run(a, kernels, 1);
      const std::vector<double> want = plain(a, {a.gates.begin(), a.gates.end()});
      double worst = 0.0;
      for (std::size_t i = 0; i < want.size(); ++i)
        worst = std::fmax(worst, std::fabs(static_cast<double>(states.h[i]) - want[i]));
      CHECK(worst < 2e-6);
      CHECK(std::none_of(states.d_gates.begin(), states.d_gates.end(),
                         [](float x) { return std::isnan(x); }));
      std::int64_t begin = 0;
      for (std::size_t t = 0; t < a.sizes.size(); begin += a.sizes[t++]) {
        for (std::int64_t r = 0; r < a.sizes[t]; ++r) {
          const auto row = [&](std::int64_t n) { return states.h.data() + n * 2 * hidden; };
          const std::vector<float> zeros(static_cast<std::size_t>(hidden));
          const float* before = states.before.data() + (begin + r) * 2 * hidden;
          const bool has_next = t + 1 < a.sizes.size() && r < a.sizes[t + 1];
          const float* previous = t == 0 ? zeros.data() : row(begin - a.sizes[t - 1] + r);
          const float* back = has_next ? row(begin + a.sizes[t] + r) + hidden : zeros.data();
          CHECK(std::equal(previous, previous + hidden, before));
          CHECK(std::equal(back, back + hidden, before + hidden));
        }
      }
    }
  }
}

void test_gradient(const Kernels& kernels) {
  for (const std::int64_t hidden : {1, 2, 5, 18}) {
    const Case a(hidden, {4, 2, 2, 1});
    const States states = run(a, kernels, 2);
    std::vector<double> gates(a.gates.begin(), a.gates.end());
    const auto loss = [&] {
      const std::vector<double> h = plain(a, gates);
      double sum = 0.0;
      for (std::size_t i = 0; i < h.size(); ++i) sum += h[i] * static_cast<double>(a.weight[i]);
      return sum;
    };
    for (std::size_t i = 0; i < gates.size(); i += hidden > 5 ? 7 : 1) {
      const double x = gates[i];
      gates[i] = x + 1e-5;
      const double above = loss();
      gates[i] = x - 1e-5;
      const double below = loss();
      gates[i] = x;
      CHECK_CLOSE(static_cast<double>(states.d_gates[i]), (above - below) / 2e-5, 2e-6);
    }
  }
}

void test_threads(const Kernels& kernels) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 53; ++i) lengths.push_back(1 + i % 11);
  const Case a(20, lengths);
  const States one = run(a, kernels, 1);
  for (const int threads : {2, 3, 8}) {
    const States many = run(a, kernels, threads);
    CHECK(many.h == one.h && many.c == one.c && many.before == one.before);
    CHECK(many.gates == one.gates && many.d_gates == one.d_gates);
  }
}

std::string refused(const Sizes& sizes, std::int64_t tokens) {
  try {
    const LstmSteps steps(sizes.data(), static_cast<std::int64_t>(sizes.size()), tokens);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

void test_sizes() {
  CHECK(refused({3, 2, 2}, 7).empty());
  CHECK(refused({}, 0).empty());
  CHECK(refused({}, 1) == "sizes has 0 tokens, but the arrays have 1");
  CHECK(refused({3, 2}, 7) == "sizes has 5 tokens, but the arrays have 7");
  CHECK(refused({3, 3}, 5) == "sizes[1] is 3: more than the 5 tokens");
  CHECK(refused({2, 3}, 5) == "sizes[1] is 3: must be from 1 to 2");
  CHECK(refused({2, 0}, 2) == "sizes[1] is 0: must be from 1 to 2");
  CHECK(refused({-1}, 2) == "sizes[0] is -1: must be from 1 to 2");
  CHECK(!refused({INT64_MAX, INT64_MAX, 2}, 0).empty());
}

}  // namespace

int main() {
  for (const Kernels* kernels : available_kernels()) {
    test_values(*kernels);
    test_gradient(*kernels);
    test_threads(*kernels);
  }
  test_sizes();
  return failures() != 0;
}
