// Compares the CTC loss, with every instruction set that the CPU supports, with enumeration of all paths
// and with central differences. Also compares scaled probabilities with log space.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ctc/loss.hpp"
#include "dispatch.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  std::int64_t frames, vocabulary, most_labels, blank;
  bool logits;
  std::vector<std::int64_t> targets, input_lengths, target_lengths;
  std::vector<double> input;  // (T, B, V)

  std::int64_t count() const { return static_cast<std::int64_t>(input_lengths.size()); }
  std::size_t index(std::int64_t t, std::int64_t b) const {
    return static_cast<std::size_t>((t * count() + b) * vocabulary);
  }
  CtcBatch<double> batch() const {
    return {.frames = frames,
            .count = count(),
            .vocabulary = vocabulary,
            .input = input.data(),
            .frame_stride = count() * vocabulary,
            .row_stride = vocabulary,
            .targets = targets.data(),
            .most_labels = most_labels,
            .input_lengths = input_lengths.data(),
            .target_lengths = target_lengths.data(),
            .blank = blank,
            .logits = logits};
  }
  std::vector<std::int64_t> target(std::int64_t b) const {
    const auto begin = targets.begin() + b * most_labels;
    return {begin, begin + target_lengths[b]};
  }
};

struct Sizes {
  std::int64_t rows, frames, vocabulary, labels;
};

Case make_case(std::mt19937_64& random, Sizes size, bool logits, double scale, double impossible) {
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::normal_distribution<double> normal(0.0, scale);
  std::bernoulli_distribution is_impossible(impossible);
  Case c{.frames = size.frames,
         .vocabulary = size.vocabulary,
         .most_labels = size.labels,
         .blank = between(0, size.vocabulary - 1),
         .logits = logits,
         .targets = {},
         .input_lengths = {},
         .target_lengths = {},
         .input = {}};
  for (std::int64_t b = 0; b < size.rows; ++b) {
    c.input_lengths.push_back(between(size.frames / 2, size.frames));
    c.target_lengths.push_back(between(0, size.labels));
    for (std::int64_t i = 0; i < size.labels; ++i) {
      c.targets.push_back((c.blank + between(1, size.vocabulary - 1)) % size.vocabulary);
    }
  }
  c.input.resize(static_cast<std::size_t>(size.frames * size.rows * size.vocabulary));
  for (double& x : c.input) x = is_impossible(random) ? -kInfinity : normal(random);
  return c;
}

struct Result {
  std::vector<double> loss, gradient;
};

Result run(const Case& c, const CtcKernels& kernels, int threads, double weight = 1.0) {
  const std::size_t rows = c.input_lengths.size();
  Result r{std::vector<double>(rows), std::vector<double>(c.input.size(), NAN)};
  std::vector<double> log_norm(static_cast<std::size_t>(c.frames) * rows);
  std::vector<double> stored(log_norm.size() * static_cast<std::size_t>(2 * c.most_labels + 1));
  const std::vector<double> weights(rows, weight);
  const Ctc<double> ctc(c.batch(), kernels, threads);
  ctc.forward(r.loss.data(), log_norm.data(), stored.data());
  ctc.backward(log_norm.data(), stored.data(), r.loss.data(), weights.data(), r.gradient.data(),
               c.count() * c.vocabulary, c.vocabulary);
  return r;
}

std::vector<std::int64_t> collapsed(const std::vector<std::int64_t>& path, std::int64_t blank) {
  std::vector<std::int64_t> labels;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  }
  return labels;
}

double log_sum(const std::vector<double>& terms) {
  double top = -kInfinity, total = 0.0;
  for (const double x : terms) top = std::max(top, x);
  if (top == -kInfinity) return top;
  for (const double x : terms) total += std::exp(x - top);
  return top + std::log(total);
}

// The expected -log p and occupations of one row, by enumeration of all paths that collapse to the
// target.
struct Truth {
  double loss;
  std::vector<double> occupation, softmax;

  Truth(const Case& c, std::int64_t b) {
    const std::int64_t length = c.input_lengths[b], V = c.vocabulary;
    std::vector<double> scores(static_cast<std::size_t>(length * V)), sums;
    softmax.assign(scores.size(), 0.0);
    for (std::int64_t t = 0; t < length; ++t) {
      const double* row = c.input.data() + c.index(t, b);
      const double norm = c.logits ? log_sum({row, row + V}) : 0.0;
      for (std::int64_t v = 0; v < V; ++v) {
        scores[t * V + v] = row[v] == -kInfinity ? row[v] : row[v] - norm;
        softmax[t * V + v] = std::exp(scores[t * V + v]);
      }
    }
    std::vector<std::vector<std::int64_t>> paths;
    std::vector<std::int64_t> path(static_cast<std::size_t>(length), 0);
    for (bool more = true; more;) {
      if (collapsed(path, c.blank) == c.target(b)) {
        double sum = 0.0;
        for (std::int64_t t = 0; t < length; ++t) sum += scores[t * V + path[t]];
        paths.push_back(path);
        sums.push_back(sum);
      }
      more = false;
      for (std::size_t t = 0; t < path.size() && !more; ++t) {
        path[t] = (path[t] + 1) % V;
        more = path[t] != 0;
      }
    }
    loss = -log_sum(sums);
    occupation.assign(scores.size(), 0.0);
    for (std::size_t i = 0; i < paths.size() && loss < kInfinity; ++i) {
      for (std::int64_t t = 0; t < length; ++t) {
        occupation[t * V + paths[i][t]] += std::exp(sums[i] + loss);
      }
    }
  }
};

void check_enumeration(const Case& c, int threads) {
  const double weight = 0.75;
  const Result got = run(c, kernels().ctc, threads, weight);
  for (std::int64_t b = 0; b < c.count(); ++b) {
    const Truth want(c, b);
    CHECK_CLOSE(got.loss[b], want.loss, 1e-10);
    for (std::int64_t t = 0; t < c.frames; ++t) {
      for (std::int64_t v = 0; v < c.vocabulary; ++v) {
        double slope = 0.0;
        if (t < c.input_lengths[b] && want.loss < kInfinity) {
          const std::int64_t i = t * c.vocabulary + v;
          slope = weight * ((c.logits ? want.softmax[i] : 0.0) - want.occupation[i]);
        }
        CHECK_CLOSE(got.gradient[c.index(t, b) + v], slope, 1e-10);
      }
    }
  }
}

void check_differences(Case c) {
  const double step = 1e-5;
  const Result center = run(c, kernels().ctc, 1);
  for (std::size_t i = 0; i < c.input.size(); i += 7) {
    const auto b = static_cast<std::int64_t>(i) / c.vocabulary % c.count();
    if (!std::isfinite(center.loss[b])) continue;
    const double x = c.input[i];
    c.input[i] = x + step;
    const double up = run(c, kernels().ctc, 1).loss[b];
    c.input[i] = x - step;
    const double down = run(c, kernels().ctc, 1).loss[b];
    c.input[i] = x;
    CHECK_CLOSE(center.gradient[i], (up - down) / (2 * step), 1e-7);
  }
}

// Compares scaled probabilities with log space, for inputs of several segments.
void check_against_log_space(const Case& c) {
  CtcKernels only_log = kernels().ctc;
  only_log.scaled = only_log.in_log;
  const Result scaled = run(c, kernels().ctc, 2), in_log = run(c, only_log, 2);
  for (std::size_t b = 0; b < scaled.loss.size(); ++b) {
    CHECK_CLOSE(scaled.loss[b], in_log.loss[b], 1e-12);
  }
  for (std::size_t i = 0; i < scaled.gradient.size(); ++i) {
    CHECK_CLOSE(scaled.gradient[i], in_log.gradient[i], 1e-9);
  }
}

bool no_walk(const CtcTarget&, const CtcFrames&) {
  CHECK(!"log space was used");
  return true;
}

// Checks an input like the output of a trained network: one symbol per frame has a probability near 1,
// all other symbols are `nats` below it. States far from the alignment have probabilities that a double
// cannot represent. Log space must not be needed.
void check_peaky(double nats) {
  std::mt19937_64 random(9);
  const std::int64_t labels = 120, frames = 5 * labels, V = 40;
  std::vector<std::int64_t> target;
  std::vector<double> input(static_cast<std::size_t>(frames * V), -nats);
  for (std::int64_t i = 0; i < labels; ++i) {
    target.push_back(1 + static_cast<std::int64_t>(random() % (V - 1)));
    for (std::int64_t t = 5 * i; t < 5 * i + 5; ++t) {
      input[t * V + (t == 5 * i + 2 ? target.back() : 0)] = 0.0;
    }
  }
  const Case c{.frames = frames,
               .vocabulary = V,
               .most_labels = labels,
               .blank = 0,
               .logits = true,
               .targets = target,
               .input_lengths = {frames},
               .target_lengths = {labels},
               .input = input};
  CtcKernels no_log = kernels().ctc;
  no_log.in_log.forward = no_walk;
  const Result got = run(c, no_log, 1);
  CHECK(std::fabs(got.loss[0]) < frames * V * std::exp(-nats) + 1e-12);
  check_against_log_space(c);
}

template <class Break>
void check_refused(const Break& break_it, const std::string& expected) {
  std::mt19937_64 random(4);
  Case c = make_case(random, {3, 8, 5, 3}, true, 1.0, 0.0);
  c.blank = 0;
  c.target_lengths = {3, 3, 3};
  c.targets.assign(9, 1);
  break_it(c);
  std::string message;
  try {
    run(c, kernels().ctc, 1);
  } catch (const std::invalid_argument& error) {
    message = error.what();
  }
  if (message != expected) std::printf("message: %s\n", message.c_str());
  CHECK(message == expected);
}

void check_bad_input() {
  check_refused([](Case& c) { c.targets[4] = 5; },
                "target of batch row 1, position 1 is 5: must be 0 to 4");
  check_refused([](Case& c) { c.targets[6] = -1; },
                "target of batch row 2, position 0 is -1: must be 0 to 4");
  check_refused([](Case& c) { c.targets[3] = 0; }, "target of batch row 1, position 0 is the blank, 0");
  check_refused([](Case& c) { c.input_lengths[2] = 9; },
                "input length of batch row 2 is 9: must be 0 to 8");
  check_refused([](Case& c) { c.target_lengths[1] = 4; },
                "target length of batch row 1 is 4: must be 0 to 3");
  check_refused([](Case& c) { c.blank = 5; }, "blank is 5: must be 0 to 4");
}

}  // namespace

int main() {
  for (const Kernels* k : available_kernels()) {
    CHECK(use_kernels(k->name));
    std::mt19937_64 random(3);
    for (int i = 0; i < 15; ++i) {
      for (const bool logits : {false, true}) {
        for (const double scale : {1.0, 30.0, 1000.0}) {
          // first with the whole vocabulary as symbols, then with only the symbols that occur
          check_enumeration(make_case(random, {4, 6, 3, 3}, logits, scale, 0.0), 2);
          check_enumeration(make_case(random, {3, 5, 5, 1}, logits, scale, 0.0), 1);
          check_enumeration(make_case(random, {4, 6, 3, 3}, logits, scale, 0.1), 1);
        }
      }
    }
    for (const bool logits : {false, true}) {
      check_differences(make_case(random, {2, 30, 9, 12}, logits, 1.0, 0.0));
      check_differences(make_case(random, {2, 30, 40, 12}, logits, 1.0, 0.0));
      check_against_log_space(make_case(random, {2, 1500, 30, 300}, logits, 3.0, 0.0));
      check_against_log_space(make_case(random, {2, 900, 130, 60}, logits, 10.0, 0.0));
    }
    check_peaky(15.0);
    check_peaky(60.0);
  }
  check_bad_input();
  return failures() != 0;
}
