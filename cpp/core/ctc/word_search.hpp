// Beam search over texts: prefix search (see ctc_prefix.hpp) with scores for words.
//
// A hypothesis is a text, a node of a tree (ctc/text_tree.hpp), with the masses alpha_- and alpha_* and
// a bonus for its words. A boundary behind a boundary leads nowhere new: a text does not say how many
// there were.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ctc/prefix.hpp"
#include "ctc/text_tree.hpp"

namespace trellis {

struct CtcTranscript {
  std::vector<std::string> words;
  std::vector<std::int32_t> labels;  // without boundaries: one way to write the words
  std::vector<std::int32_t> sizes;   // labels of each word
  double acoustic, bonus;            // log p(text | frames), and what its words add
  WordModel::State state;            // the language model's, behind the last word

  double score() const { return acoustic + bonus; }
};

class CtcWordSearch {
 public:
  CtcWordSearch(const CtcWords& words, const CtcKernels& kernels, std::size_t many_nodes = 1 << 18)
      : words_(words), kernels_(kernels), tree_(words), few_nodes_(many_nodes) {}

  // Before the first frame. `model` is null if there is none, and must live as long as it is in use.
  // With `only_best`, of texts that can only go on alike the best one is kept.
  void begin(WordModel* model, bool only_best) {
    only_best_ = only_best;
    many_nodes_ = few_nodes_;
    frame_ = 0;
    tree_.begin(model);
    beam_.clear();
    beam_.push(CtcTextTree::kStart, 0.0, -kNever, 0.0);
  }

  // The next frame, whose logarithms are scores - norm; false if no hypothesis survives it.
  template <class T>
  bool advance(const T* scores, double norm) {
    const CtcWordOptions& options = words_.options();
    const std::int64_t blank = options.blank;
    for (const double least : {options.least, -kNever}) {
      if (!tried_.choose(scores, words_.labels(), blank, least, kernels_.best<T>(), norm)) break;
      if (tried_.labels().empty()) {
        beam_.rest(tried_.score(blank));
        return true;
      }
      clear_candidates();
      stay(blank);
      extend();
      if (select()) {
        if (tree_.size() > many_nodes_) {
          tree_.collect(beam_.node);
          many_nodes_ = std::max(few_nodes_, 2 * tree_.size());
        }
        return true;
      }
      if (!words_.constrained()) break;
      // the few labels that were tried fit no word: try them all
    }
    return false;
  }

  // The text that all hypotheses begin with, and the best text so far.
  std::string stable() const { return tree_.common_text(beam_.node); }
  std::string best() const {
    std::size_t at = 0;
    for (std::size_t j = 1; j < beam_.size(); ++j) {
      if (score(j) > score(at)) at = j;
    }
    return tree_.text(beam_.node[at]);
  }

  // The k best, best first, with the words that have begun taken as they are.
  std::vector<CtcTranscript> finish(std::int64_t k) {
    std::vector<Final> found = finals(true);
    if (found.empty()) found = finals(false);  // no word of the lexicon is complete
    std::sort(found.begin(), found.end(), [](const Final& a, const Final& b) {
      return a.score() != b.score() ? a.score() > b.score() : a.history < b.history;
    });
    std::vector<CtcTranscript> out;
    for (const Final& f : found) {
      if (static_cast<std::int64_t>(out.size()) == k) break;
      if (f.score() < found[0].score() + words_.options().prune) break;
      const WordModel::State state = tree_.history(f.history).state;
      CtcTranscript best{tree_.words(f.history), {}, {}, f.acoustic, f.bonus, state};
      tree_.spell(f.node, &best.labels, &best.sizes);
      out.push_back(std::move(best));
    }
    return out;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Choice {
    double score;
    std::uint32_t candidate;
    bool operator<(const Choice& other) const {  // best first; a fixed order of equals
      return score != other.score ? score > other.score : candidate < other.candidate;
    }
  };

  struct Final {
    std::uint32_t history, node;
    double acoustic, bonus;
    double score() const { return acoustic + bonus; }
  };

  static double log_sum(double a, double b) {
    return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
  }
  double score(std::size_t j) const { return beam_.total[j] + tree_[beam_.node[j]].bonus; }

  // ---- one frame

  void clear_candidates() {
    ++frame_;
    first_new_ = static_cast<std::uint32_t>(tree_.size());
    node_.clear();
    source_.clear();
    for (std::vector<double>* masses : {&blank_, &star_, &entering_}) masses->clear();
  }

  std::uint32_t candidate(std::uint32_t node) {
    CtcTextTree::Node& n = tree_[node];
    if (n.frame != frame_) {
      n.frame = frame_;
      n.candidate = static_cast<std::uint32_t>(node_.size());
      node_.push_back(node);
      source_.push_back(kNone);
      for (std::vector<double>* masses : {&blank_, &star_, &entering_}) masses->push_back(-kNever);
    }
    return n.candidate;
  }

  void stay(std::int64_t blank) {
    const double p_blank = tried_.score(blank);
    double best = -kNever, worst = kNever;
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const std::uint32_t own = candidate(node);
      const CtcTextTree::Node& n = tree_[node];
      const double p = n.label < 0 ? -kNever : tried_.score(n.label);
      blank_[own] = beam_.total[j] + p_blank;
      // after a boundary, one more with or without a blank in between is none
      star_[own] = (CtcTextTree::is_root(n) ? beam_.total[j] : beam_.star[j]) + p;
      const double score = std::max(blank_[own], star_[own]) + n.bonus;
      best = std::max(best, score);
      worst = std::min(worst, score);
    }
    least_ = best + words_.options().prune;
    const bool full = static_cast<std::int64_t>(beam_.size()) >= words_.options().width;
    if (full && !only_best_) least_ = std::max(least_, worst);
  }

  void extend() {
    const double gain = tree_.most_gain();
    const auto space = static_cast<std::int32_t>(words_.options().space);
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const std::int32_t last = tree_[node].label;
      const bool root = CtcTextTree::is_root(tree_[node]);
      const double most = tree_.history(tree_[node].history).bonus + gain;
      for (const CtcTried::Label& label : tried_.labels()) {
        if (root && label.id == space) continue;
        const double mass = (label.id == last ? beam_.blank[j] : beam_.total[j]) + label.score;
        if (mass == -kNever) continue;
        // what is too little to live by itself may still be a part of something
        const bool alone = mass + most >= least_;
        const std::uint32_t target = tree_.follow(node, label.id, space, alone);
        if (target != kNone && (alone || tree_[target].frame == frame_)) offer(target, mass, node);
      }
    }
  }

  void offer(std::uint32_t target, double mass, std::uint32_t source) {
    const std::uint32_t own = candidate(target);
    double& entering = entering_[own];
    if (entering == -kNever) {
      entering = mass;
      source_[own] = source;
      return;
    }
    if (mass > entering) source_[own] = source;
    entering = log_sum(entering, mass);
  }

  bool select() {
    const std::size_t size = node_.size(), padded = (size + kCtcBlock - 1) / kCtcBlock * kCtcBlock;
    for (std::vector<double>* masses : {&blank_, &star_, &entering_}) masses->resize(padded, -kNever);
    total_.resize(padded);
    kernels_.log_add_masses(blank_.data(), entering_.data(), star_.data(), total_.data(),
                            static_cast<std::int64_t>(padded));
    choices_.clear();
    double top = -kNever;
    for (std::uint32_t i = 0; i < size; ++i) {
      const double score = total_[i] + tree_[node_[i]].bonus;
      top = std::max(top, score);
      if (score > -kNever) choices_.push_back({score, i});
    }
    if (choices_.empty()) return false;
    const double least = top + words_.options().prune;
    std::erase_if(choices_, [&](const Choice& c) { return c.score < least; });
    if (only_best_) drop_equals();
    const auto width = static_cast<std::size_t>(words_.options().width);
    if (choices_.size() > width) {
      std::nth_element(choices_.begin(), choices_.begin() + words_.options().width, choices_.end());
      choices_.resize(width);
    }
    beam_.clear();
    for (const Choice& c : choices_) {
      const std::uint32_t node = node_[c.candidate];
      beam_.push(node, blank_[c.candidate], star_[c.candidate], total_[c.candidate]);
      // of the ways that led to a new node in its first frame, the likeliest is shown
      if (node >= first_new_ && source_[c.candidate] != kNone) tree_[node].before = source_[c.candidate];
    }
    return true;
  }

  // Of texts that can only go on alike, the best one stays.
  void drop_equals() {
    std::size_t slots = 64;
    while (slots < 2 * choices_.size()) slots *= 2;
    seen_.assign(slots, {0, kNone});
    for (std::uint32_t i = 0; i < choices_.size(); ++i) {
      const std::uint64_t key = tree_.outlook(tree_[node_[choices_[i].candidate]]);
      std::size_t at = key & (slots - 1);
      while (seen_[at].second != kNone && seen_[at].first != key) at = (at + 1) & (slots - 1);
      if (seen_[at].second == kNone) {
        seen_[at] = {key, i};
        continue;
      }
      std::uint32_t& kept = seen_[at].second;
      const std::uint32_t worse = choices_[i] < choices_[kept] ? kept : i;
      if (worse == kept) kept = i;
      choices_[worse].candidate = kNone;
    }
    std::erase_if(choices_, [](const Choice& c) { return c.candidate == kNone; });
  }

  // ---- the end

  // Each text once; with `strict` only those whose last word is in the lexicon.
  std::vector<Final> finals(bool strict) {
    std::vector<Final> all;
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const CtcTextTree::Node& n = tree_[node];
      const bool legal = !words_.constrained() || !words_.allowed(n.place.lexicon).empty();
      if (n.letters > 0 && !legal && strict) continue;
      const std::uint32_t history = n.letters == 0 ? n.history : tree_.extended(node);
      all.push_back({history, node, beam_.total[j], tree_.final_bonus(history)});
    }
    std::sort(all.begin(), all.end(), [](const Final& a, const Final& b) {
      return a.history != b.history ? a.history < b.history : a.acoustic > b.acoustic;
    });
    std::vector<Final> found;
    for (const Final& f : all) {
      if (found.empty() || found.back().history != f.history) {
        found.push_back(f);
      } else {
        found.back().acoustic = log_sum(found.back().acoustic, f.acoustic);
      }
    }
    return found;
  }

  const CtcWords& words_;
  const CtcKernels& kernels_;
  CtcTextTree tree_;
  bool only_best_ = false;
  const std::size_t few_nodes_;
  std::size_t many_nodes_ = 0;  // when the tree is so large, what no hypothesis needs is dropped
  CtcTried tried_;
  std::int64_t frame_ = 0;
  std::uint32_t first_new_ = 0;  // the first node that was made in this frame
  double least_ = 0.0;           // what is worse will not survive the frame
  CtcBeam beam_;
  std::vector<std::uint32_t> node_, source_;  // of the candidates
  std::vector<double> blank_, star_, entering_, total_;
  std::vector<Choice> choices_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> seen_;
};

}  // namespace trellis
