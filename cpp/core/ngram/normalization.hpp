// The parts of the interpolated probability of an n-gram with context h = w1 .. wn-1:
//
//     p(w | h) = base + weight(h) p(w | w2 .. wn-1)
//     base = (a(h w) - D(a(h w))) / S(h)        S(h) = sum of a(h v) over all v
//     weight(h) = (sum of D(a(h v)) over the v that are kept + sum of a(h v) over the pruned v) / S(h)
//
// The weight of a context is also its back-off weight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/poll.hpp"
#include "ngram/discounts.hpp"
#include "ngram/row_sorter.hpp"
#include "ngram/spool.hpp"

namespace trellis {

inline constexpr std::uint64_t kPruned = ~std::uint64_t{0};  // the number of an n-gram that is pruned

// The two parts of each n-gram of one length. They are set in any order and read in the order of the
// numbers of the n-grams.
class ProbabilityParts {
 public:
  struct Parts {
    double base, weight;
  };

  ProbabilityParts(std::int64_t ngrams, std::size_t memory, int threads, const std::string& folder)
      : memory_(memory) {
    const auto size = static_cast<std::size_t>(ngrams);
    if (size * sizeof(Parts) <= memory) {
      parts_.resize(size);
    } else {
      rows_ = std::make_unique<RowSorter>(RowLayout{2, 4, false}, memory, threads, folder);
    }
  }

  void set(std::uint64_t number, const Parts& parts) {
    if (!rows_) {
      parts_[number] = parts;
      return;
    }
    std::uint32_t row[6] = {static_cast<std::uint32_t>(number >> 32),
                            static_cast<std::uint32_t>(number)};
    std::memcpy(row + 2, &parts, sizeof parts);
    rows_->add(row);
  }

  void finish() {
    if (rows_) rows_->finish(memory_);
  }

  // Returns the parts of the next n-gram.
  Parts next() {
    if (!rows_) return parts_[next_++];
    Parts parts;
    std::memcpy(&parts, rows_->next() + 2, sizeof parts);
    return parts;
  }

 private:
  std::size_t memory_, next_ = 0;
  std::vector<Parts> parts_;
  std::unique_ptr<RowSorter> rows_;  // if the parts do not fit in memory
};

// Computes the parts of all n-grams of one length. `rows` are the n-grams sorted by their context, which
// is the key; the payload is the number of the n-gram and its adjusted count. Writes each context that
// has a kept n-gram, and its weight, to `weights`.
class ContextNormalizer {
 public:
  ContextNormalizer(int key, const Discounts& discounts, Spool& weights, ProbabilityParts& parts)
      : discounts_(discounts),
        weights_(weights),
        parts_(parts),
        context_(static_cast<std::size_t>(key)) {}

  void run(RowSorter& rows) {
    while (const std::uint32_t* row = rows.next()) {
      if (!members_.empty() && !std::equal(context_.begin(), context_.end(), row)) close();
      if (members_.empty()) std::copy_n(row, context_.size(), context_.begin());
      const std::uint32_t* payload = row + context_.size();
      members_.push_back({read_wide(payload), read_wide(payload + 2)});
    }
    if (!members_.empty()) close();
  }

 private:
  struct Member {
    std::uint64_t number, count;
  };

  // Completes a context. Sums are of integers, so they do not depend on the order of the members.
  void close() {
    std::uint64_t sum = 0, pruned = 0, with_count[4] = {0, 0, 0, 0};
    for (const Member& member : members_) {
      sum += member.count;
      if (member.number == kPruned) {
        pruned += member.count;
      } else {
        ++with_count[std::min(member.count, std::uint64_t{3})];
      }
    }
    auto removed = static_cast<double>(pruned);
    for (std::uint64_t k = 1; k <= 3; ++k)
      removed += discounts_.of(k) * static_cast<double>(with_count[k]);
    const double weight = removed / static_cast<double>(sum);
    bool kept = false;
    for (const Member& member : members_) {
      if (member.number == kPruned) continue;
      kept = true;
      const double count = static_cast<double>(member.count) - discounts_.of(member.count);
      parts_.set(member.number, {count / static_cast<double>(sum), weight});
    }
    members_.clear();
    if (!kept) return;
    weights_.append(context_.data(), 4 * context_.size());
    weights_.append(&weight, sizeof weight);
  }

  const Discounts& discounts_;
  Spool& weights_;
  ProbabilityParts& parts_;
  std::vector<std::uint32_t> context_;
  std::vector<Member> members_;  // of the current context: at most one per word of the vocabulary
};

}  // namespace trellis
