// Compares all chain kernels, of every instruction set that the CPU supports, with enumeration of all
// paths.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "chain/batch.hpp"
#include "dispatch.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A batch of sequences of different lengths with random scores. With a large scale, the sequences need
// log space.
struct Case {
  int labels;
  std::vector<std::int64_t> starts, lengths;
  std::vector<double> unary, transition, transitions, start, end;
  std::vector<const double*> rows, matrices;  // (sequences): pointers into unary and transitions

  Case(std::mt19937_64& random, bool positional, double scale, double forbidden, int max_labels) {
    std::uniform_int_distribution<int> label_count(1, max_labels), length(1, 5);
    std::normal_distribution<double> normal(0.0, scale);
    std::bernoulli_distribution forbid(forbidden);
    const auto draw = [&] { return forbid(random) ? -kInfinity : normal(random); };
    labels = label_count(random);
    std::int64_t total = 0;
    for (int i = 0; i < 7; ++i) {
      lengths.push_back(length(random));
      starts.push_back(total);
      total += lengths.back();
    }
    const auto fill = [&](std::vector<double>& v, std::int64_t size) {
      v.resize(static_cast<std::size_t>(size));
      std::generate(v.begin(), v.end(), draw);
    };
    fill(unary, total * labels);
    fill(start, labels);
    fill(end, labels);
    const std::int64_t square = static_cast<std::int64_t>(labels) * labels;
    if (positional) {
      fill(transitions, total * square);
    } else {
      fill(transition, square);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      rows.push_back(unary.data() + starts[i] * labels);
      matrices.push_back(transitions.data() + starts[i] * square);
    }
  }

  Batch<double> batch() const {
    return {.count = static_cast<std::int64_t>(lengths.size()),
            .labels = labels,
            .unary = rows.data(),
            .starts = starts.data(),
            .lengths = lengths.data(),
            .transition = transition.empty() ? nullptr : transition.data(),
            .transitions = transitions.empty() ? nullptr : matrices.data(),
            .start = start.data(),
            .end = end.data()};
  }
};

std::vector<std::vector<int>> all_paths(std::int64_t length, int labels) {
  std::vector<std::vector<int>> paths(1);
  for (std::int64_t t = 0; t < length; ++t) {
    std::vector<std::vector<int>> longer;
    for (const auto& path : paths) {
      for (int y = 0; y < labels; ++y) {
        longer.push_back(path);
        longer.back().push_back(y);
      }
    }
    paths = std::move(longer);
  }
  return paths;
}

// The expected results of one sequence, by enumeration of all paths.
struct Truth {
  double log_z = -kInfinity, best = -kInfinity, entropy = 0.0;
  std::vector<double> unary, pairwise, max_marginals;
  std::vector<double> sorted;  // scores of all allowed paths, best first

  Truth(const Case& c, std::size_t sequence) {
    const int L = c.labels;
    const std::int64_t T = c.lengths[sequence];
    const std::vector<std::vector<int>> paths = all_paths(T, L);
    std::vector<double> scores;
    for (const auto& y : paths) {
      double score = c.start[y[0]] + c.end[y[T - 1]];
      for (std::int64_t t = 0; t < T; ++t) {
        score += c.rows[sequence][t * L + y[t]];
        if (t == 0) continue;
        score += c.transition.empty() ? c.matrices[sequence][((t - 1) * L + y[t - 1]) * L + y[t]]
                                      : c.transition[y[t - 1] * L + y[t]];
      }
      scores.push_back(score);
    }
    best = *std::max_element(scores.begin(), scores.end());
    unary.assign(T * L, 0.0);
    pairwise.assign((T - 1) * L * L, 0.0);
    max_marginals.assign(T * L, -kInfinity);
    if (best == -kInfinity) return;
    double total = 0.0;
    for (const double s : scores) total += std::exp(s - best);
    log_z = best + std::log(total);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const double p = std::exp(scores[i] - log_z);
      if (p > 0.0) entropy -= p * (scores[i] - log_z);
      if (scores[i] > -kInfinity) sorted.push_back(scores[i]);
      for (std::int64_t t = 0; t < T; ++t) {
        const auto& y = paths[i];
        unary[t * L + y[t]] += p;
        max_marginals[t * L + y[t]] = std::max(max_marginals[t * L + y[t]], scores[i]);
        if (t > 0) pairwise[((t - 1) * L + y[t - 1]) * L + y[t]] += p;
      }
    }
    std::sort(sorted.rbegin(), sorted.rend());
  }
};

void check_rows(const double* got, const std::vector<double>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) CHECK_CLOSE(got[i], want[i], 1e-10);
}

// The results of ChainBatch for a case.
struct Results {
  std::vector<Outcome> outcomes, max_outcomes, entropy_outcomes, sample_outcomes, score_outcomes;
  std::vector<double> log_z, z_again, score, entropy, path_score;  // (sequences)
  std::vector<double> unary, pairwise, counts, highest;            // see MarginalsOut
  std::vector<std::int64_t> labels, path_counts, sampled, kbest;
  std::vector<double> kbest_scores;  // (sequences, 4)
  // The tables of chain/tables.hpp, and their totals.
  std::vector<double> alpha, beta, best, alpha_z, beta_z, best_score;
  std::vector<std::int64_t> pointers;
  std::vector<Outcome> table_outcomes;

  Results(const Case& c, int threads) {
    const std::size_t n = c.lengths.size(), total = c.unary.size() / c.labels, L = c.labels;
    for (auto* v : {&outcomes, &max_outcomes, &entropy_outcomes, &sample_outcomes, &score_outcomes})
      v->resize(n);
    for (auto* v : {&log_z, &z_again, &score, &entropy, &path_score}) v->resize(n);
    unary.resize(total * L), pairwise.resize(total * L * L), counts.resize(L * L);
    highest.resize(total * L), labels.resize(total), path_counts.resize(n), sampled.resize(3 * total);
    kbest.resize(4 * total), kbest_scores.resize(4 * n);
    const std::vector<double> uniforms(3 * total, 0.5);
    const Batch<double> batch = c.batch();
    const ChainBatch<double> chain(batch, kernels().chain<double>(), threads, Purpose::probabilities);
    chain.log_partition(z_again.data(), outcomes.data());
    chain.marginals({.unary = unary.data(),
                     .pairwise = pairwise.data(),
                     .pairwise_starts = c.starts.data(),
                     .counts = c.transition.empty() ? nullptr : counts.data(),
                     .log_z = log_z.data(),
                     .outcomes = outcomes.data()});
    chain.viterbi(labels.data(), score.data(), max_outcomes.data());
    chain.max_marginals(highest.data(), max_outcomes.data());
    chain.entropy(entropy.data(), entropy_outcomes.data());
    chain.sample(3, c.starts.data(), uniforms.data(), sampled.data(), sample_outcomes.data());
    chain.kbest(4, c.starts.data(), kbest.data(), kbest_scores.data(), path_counts.data());
    chain.score(labels.data(), path_score.data(), score_outcomes.data());
    for (auto* v : {&alpha, &beta, &best}) v->resize(total * L);
    for (auto* v : {&alpha_z, &beta_z, &best_score}) v->resize(n);
    pointers.resize(total * L), table_outcomes.resize(n);
    chain.alpha_table(alpha.data(), alpha_z.data(), table_outcomes.data());
    chain.beta_table(beta.data(), beta_z.data(), table_outcomes.data());
    chain.best_table(best.data(), pointers.data(), best_score.data(), table_outcomes.data());
  }

  // Checks the tables of a feasible sequence: alpha and beta give the marginals, and the back pointers
  // lead along a path with the score of the best one.
  void check_tables(const Case& c, std::size_t i, const Truth& truth) const {
    const std::int64_t T = c.lengths[i], L = c.labels, at = c.starts[i] * L;
    CHECK(table_outcomes[i].status == Status::ok);
    for (const double z : {alpha_z[i], beta_z[i]}) CHECK_CLOSE(z, truth.log_z, 1e-10);
    CHECK_CLOSE(best_score[i], truth.best, 1e-10);
    for (std::int64_t k = 0; k < T * L; ++k) {
      CHECK_CLOSE(std::exp(alpha[at + k] + beta[at + k] - truth.log_z), truth.unary[k], 1e-9);
    }
    const double* last = best.data() + at + (T - 1) * L;
    std::int64_t label = std::max_element(last, last + L) - last;
    for (std::int64_t t = T - 1; t > 0; --t) {
      CHECK_CLOSE(truth.max_marginals[t * L + label], truth.best, 1e-10);
      label = pointers[at + t * L + label];
      CHECK(0 <= label && label < L);
    }
    CHECK_CLOSE(truth.max_marginals[label], truth.best, 1e-10);
    for (std::int64_t b = 0; b < L; ++b) CHECK(pointers[at + b] == -1);
  }
};

void check_case(const Case& c, int threads) {
  const Results r(c, threads);
  const std::size_t n = c.lengths.size(), L = c.labels;
  std::vector<double> summed(L * L, 0.0);
  bool all_feasible = true;
  for (std::size_t i = 0; i < n; ++i) {
    const Truth truth(c, i);
    const Status want = truth.best == -kInfinity ? Status::infeasible : Status::ok;
    for (const auto& o :
         {r.outcomes[i], r.max_outcomes[i], r.entropy_outcomes[i], r.sample_outcomes[i]}) {
      CHECK(o.status == want);
    }
    CHECK(r.path_counts[i] == static_cast<std::int64_t>(std::min<std::size_t>(4, truth.sorted.size())));
    for (std::int64_t rank = 0; rank < r.path_counts[i]; ++rank) {
      CHECK_CLOSE(r.kbest_scores[i * 4 + rank], truth.sorted[rank], 1e-10);
    }
    if (want == Status::infeasible) {
      all_feasible = false;
      continue;
    }
    r.check_tables(c, i, truth);
    CHECK_CLOSE(r.log_z[i], truth.log_z, 1e-10);
    CHECK_CLOSE(r.z_again[i], truth.log_z, 1e-10);
    CHECK_CLOSE(r.score[i], truth.best, 1e-10);
    CHECK_CLOSE(r.entropy[i], truth.entropy, 1e-10);
    check_rows(r.unary.data() + c.starts[i] * L, truth.unary);
    check_rows(r.pairwise.data() + c.starts[i] * L * L, truth.pairwise);
    check_rows(r.highest.data() + c.starts[i] * L, truth.max_marginals);
    for (std::size_t k = 0; k < truth.pairwise.size(); ++k) summed[k % (L * L)] += truth.pairwise[k];
  }
  if (!all_feasible) return;
  for (std::size_t i = 0; i < n; ++i) CHECK_CLOSE(r.path_score[i], r.score[i], 1e-10);
  if (!c.transition.empty()) check_rows(r.counts.data(), summed);
}

// Checks a sequence of several blocks. Its forward rows are computed twice, from one checkpoint per
// block.
void check_long() {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const std::int64_t length = 5000;
  const int labels = 3;
  std::vector<double> unary(length * labels), transition(labels * labels);
  for (double& x : unary) x = normal(random);
  for (double& x : transition) x = normal(random);
  const double* rows = unary.data();
  const std::int64_t start = 0;
  const Batch<double> batch{.count = 1,
                            .labels = labels,
                            .unary = &rows,
                            .starts = &start,
                            .lengths = &length,
                            .transition = transition.data(),
                            .transitions = nullptr,
                            .start = nullptr,
                            .end = nullptr};
  std::vector<double> marginals(unary.size()), in_log(unary.size()), counts(9), scratch(64 * 16);
  double log_z = 0.0, log_again = 0.0;
  Outcome outcome;
  ChainBatch<double>(batch, kernels().chain<double>(), 1, Purpose::probabilities)
      .marginals({.unary = marginals.data(),
                  .pairwise = nullptr,
                  .pairwise_starts = nullptr,
                  .counts = counts.data(),
                  .log_z = &log_z,
                  .outcomes = &outcome});
  const SharedScores shared(batch, false);
  std::vector<double> memory(length * 8);
  const auto& k = kernels().chain<double>();
  k.log_forward(shared.view(), batch.sequence(0), memory.data(), scratch.data(), &log_again);
  k.log_backward(shared.view(), batch.sequence(0), memory.data(), scratch.data(), in_log.data(), nullptr,
                 nullptr);
  CHECK_CLOSE(log_z, log_again, 1e-12);
  check_rows(marginals.data(), in_log);
  CHECK_CLOSE(std::accumulate(counts.begin(), counts.end(), 0.0), length - 1.0, 1e-11);
}

}  // namespace

int main() {
  for (const Kernels* k : available_kernels()) {
    CHECK(use_kernels(k->name));
    std::mt19937_64 random(3);
    for (int i = 0; i < 60; ++i) {
      for (const bool positional : {false, true}) {
        check_case(Case(random, positional, 2.0, 0.0, 4), 1);
        check_case(Case(random, positional, 2.0, 0.3, 4), 2);
        check_case(Case(random, positional, 400.0, 0.1, 4), 2);
      }
    }
    for (int i = 0; i < 3; ++i) check_case(Case(random, false, 1.0, 0.05, 9), 2);
    check_long();
  }
  CHECK(!use_kernels("no such kernels"));
  return failures() != 0;
}
