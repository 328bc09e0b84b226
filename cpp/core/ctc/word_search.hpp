// Beam search over texts: prefix search (see ctc/prefix_search.hpp) with scores for words.
//
// A hypothesis is a text: a node of a tree (ctc/text_tree.hpp), with the masses alpha_- and alpha_* and
// a bonus for its words. Several boundaries in a row are the same text as one boundary.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ctc/prefix_search.hpp"
#include "ctc/text_tree.hpp"

namespace trellis {

struct CtcTranscript {
  std::vector<std::string> words;
  // The labels of the words, without word boundaries; one of the possible spellings.
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> sizes;  // (words): the number of labels of each word
  double acoustic, bonus;           // log p(text | frames), and the score of its words
  WordModel::State state;           // the state of the language model after the last word

  double score() const { return acoustic + bonus; }
};

class CtcWordSearch {
 public:
  // When the tree has more than `min_nodes` nodes, nodes that no hypothesis needs are removed.
  CtcWordSearch(const CtcWords& words, const CtcKernels& kernels, std::size_t min_nodes = 1 << 18)
      : words_(words), kernels_(kernels), tree_(words), min_nodes_before_collect_(min_nodes) {}

  // Prepares for the first frame. `model` may be null and must outlive the search. With `only_best`, the
  // search keeps only the best of several texts that have the same future scores
  // (CtcTextTree::future_hash).
  void begin(WordModel* model, bool only_best) {
    only_best_ = only_best;
    nodes_before_collect_ = min_nodes_before_collect_;
    frame_ = 0;
    tree_.begin(model);
    beam_.clear();
    beam_.push(CtcTextTree::kStart, 0.0, -kInfinity, 0.0);
  }

  // Processes a frame, whose log-probabilities are scores - norm. Returns false if no hypothesis
  // survives.
  template <class T>
  bool advance(const T* scores, double norm) {
    const CtcWordOptions& options = words_.options();
    const std::int64_t blank = options.blank;
    for (const double least : {options.least, -kInfinity}) {
      if (!tried_.choose(scores, words_.labels(), blank, least, kernels_.best<T>(), norm)) break;
      if (tried_.labels().empty()) {
        beam_.add_blank(tried_.score(blank));
        return true;
      }
      clear_candidates();
      extend_in_beam(blank);
      extend();
      if (select()) {
        if (tree_.size() > nodes_before_collect_) {
          tree_.collect(beam_.node);
          nodes_before_collect_ = std::max(min_nodes_before_collect_, 2 * tree_.size());
        }
        return true;
      }
      if (!words_.constrained()) break;
      // No label that was tried continues a word of the lexicon. The next iteration tries all labels.
    }
    return false;
  }

  // Return the text that all hypotheses begin with, and the best text so far.
  std::string stable() const { return tree_.common_text(beam_.node); }
  std::string best() const {
    std::size_t best = 0;
    for (std::size_t j = 1; j < beam_.size(); ++j) {
      if (score(j) > score(best)) best = j;
    }
    return tree_.text(beam_.node[best]);
  }

  // Returns the k best transcripts, best first; unfinished words are treated as complete.
  std::vector<CtcTranscript> finish(std::int64_t k) {
    std::vector<Final> candidates = complete_texts(true);
    if (candidates.empty()) candidates = complete_texts(false);  // no word of the lexicon is complete
    std::sort(candidates.begin(), candidates.end(), [](const Final& a, const Final& b) {
      return a.score() != b.score() ? a.score() > b.score() : a.history < b.history;
    });
    std::vector<CtcTranscript> out;
    for (const Final& f : candidates) {
      if (static_cast<std::int64_t>(out.size()) == k) break;
      if (f.score() < candidates[0].score() + words_.options().prune) break;
      const WordModel::State state = tree_.history(f.history).state;
      CtcTranscript best{.words = tree_.words(f.history),
                         .labels = {},
                         .sizes = {},
                         .acoustic = f.acoustic,
                         .bonus = f.bonus,
                         .state = state};
      tree_.spell(f.node, &best.labels, &best.sizes);
      out.push_back(std::move(best));
    }
    return out;
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  struct Choice {
    double score;
    std::uint32_t candidate;
    bool operator<(const Choice& other) const {  // best first; ties are broken in a fixed order
      return score != other.score ? score > other.score : candidate < other.candidate;
    }
  };

  // A complete text.
  struct Final {
    std::uint32_t history, node;
    double acoustic, bonus;
    double score() const { return acoustic + bonus; }
  };

  // log(e^a + e^b)
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

  // Returns the candidate number of a node in this frame; adds a candidate if there is none.
  std::uint32_t candidate(std::uint32_t node) {
    CtcTextTree::Node& n = tree_[node];
    if (n.frame != frame_) {
      n.frame = frame_;
      n.candidate = static_cast<std::uint32_t>(node_.size());
      node_.push_back(node);
      source_.push_back(kNone);
      for (std::vector<double>* masses : {&blank_, &star_, &entering_}) masses->push_back(-kInfinity);
    }
    return n.candidate;
  }

  // Computes the new masses of the hypotheses in the beam, and the score that a candidate needs to
  // survive.
  void extend_in_beam(std::int64_t blank) {
    const double p_blank = tried_.score(blank);
    double best = -kInfinity, lowest = kInfinity;
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const std::uint32_t index = candidate(node);
      const CtcTextTree::Node& n = tree_[node];
      const double p = n.label < 0 ? -kInfinity : tried_.score(n.label);
      blank_[index] = beam_.total[j] + p_blank;
      // After a boundary, another boundary does not change the text, with or without a blank in between.
      star_[index] = (CtcTextTree::is_root(n) ? beam_.total[j] : beam_.star[j]) + p;
      const double score = std::max(blank_[index], star_[index]) + n.bonus;
      best = std::max(best, score);
      lowest = std::min(lowest, score);
    }
    least_ = best + words_.options().prune;
    const bool beam_is_full = static_cast<std::int64_t>(beam_.size()) >= words_.options().width;
    if (beam_is_full && !only_best_) least_ = std::max(least_, lowest);
  }

  // Adds the extensions of all hypotheses as candidates.
  void extend() {
    const double gain = tree_.most_gain();
    const auto space = static_cast<std::int32_t>(words_.options().space);
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const std::int32_t last = tree_[node].label;
      const bool root = CtcTextTree::is_root(tree_[node]);
      const double max_bonus = tree_.history(tree_[node].history).bonus + gain;
      for (const CtcTried::Label& label : tried_.labels()) {
        if (root && label.id == space) continue;
        const double mass = (label.id == last ? beam_.blank[j] : beam_.total[j]) + label.score;
        if (mass == -kInfinity) continue;
        // An extension that is too weak for a new candidate may still add mass to an existing one.
        const bool can_survive = mass + max_bonus >= least_;
        const std::uint32_t target = tree_.follow(node, label.id, space, can_survive);
        if (target != kNone && (can_survive || tree_[target].frame == frame_))
          add_mass(target, mass, node);
      }
    }
  }

  // Adds mass to a candidate.
  void add_mass(std::uint32_t target, double mass, std::uint32_t source) {
    const std::uint32_t index = candidate(target);
    double& entering = entering_[index];
    if (entering == -kInfinity) {
      entering = mass;
      source_[index] = source;
      return;
    }
    if (mass > entering) source_[index] = source;
    entering = log_sum(entering, mass);
  }

  // Keeps the best candidates as the next beam; returns false if there are none.
  bool select() {
    const std::size_t size = node_.size(), padded = (size + kCtcBlock - 1) / kCtcBlock * kCtcBlock;
    for (std::vector<double>* masses : {&blank_, &star_, &entering_}) masses->resize(padded, -kInfinity);
    total_.resize(padded);
    kernels_.log_add_masses(blank_.data(), entering_.data(), star_.data(), total_.data(),
                            static_cast<std::int64_t>(padded));
    choices_.clear();
    double top = -kInfinity;
    for (std::uint32_t i = 0; i < size; ++i) {
      const double score = total_[i] + tree_[node_[i]].bonus;
      top = std::max(top, score);
      if (score > -kInfinity) choices_.push_back({score, i});
    }
    if (choices_.empty()) return false;
    const double least = top + words_.options().prune;
    std::erase_if(choices_, [&](const Choice& c) { return c.score < least; });
    if (only_best_) merge_futures();
    const auto width = static_cast<std::size_t>(words_.options().width);
    if (choices_.size() > width) {
      std::nth_element(choices_.begin(), choices_.begin() + words_.options().width, choices_.end());
      choices_.resize(width);
    }
    beam_.clear();
    for (const Choice& c : choices_) {
      const std::uint32_t node = node_[c.candidate];
      beam_.push(node, blank_[c.candidate], star_[c.candidate], total_[c.candidate]);
      // A new node may be reached from several nodes in its first frame. Its spelling follows the most
      // likely one.
      if (node >= first_new_ && source_[c.candidate] != kNone) tree_[node].before = source_[c.candidate];
    }
    return true;
  }

  // Keeps only the best of several texts that have the same future scores.
  void merge_futures() {
    std::size_t slots = 64;
    while (slots < 2 * choices_.size()) slots *= 2;
    seen_.assign(slots, {0, kNone});
    for (std::uint32_t i = 0; i < choices_.size(); ++i) {
      const std::uint64_t key = tree_.future_hash(tree_[node_[choices_[i].candidate]]);
      std::size_t slot = key & (slots - 1);
      while (seen_[slot].second != kNone && seen_[slot].first != key) slot = (slot + 1) & (slots - 1);
      if (seen_[slot].second == kNone) {
        seen_[slot] = {key, i};
        continue;
      }
      std::uint32_t& best = seen_[slot].second;
      const std::uint32_t worse = choices_[i] < choices_[best] ? best : i;
      if (worse == best) best = i;
      choices_[worse].candidate = kNone;
    }
    std::erase_if(choices_, [](const Choice& c) { return c.candidate == kNone; });
  }

  // ---- after the last frame

  // Returns the complete texts, each once. With `strict`, only texts whose last word is in the lexicon.
  std::vector<Final> complete_texts(bool strict) {
    std::vector<Final> all;
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const CtcTextTree::Node& n = tree_[node];
      const bool is_in_lexicon = !words_.constrained() || !words_.allowed(n.place.lexicon).empty();
      if (n.letters > 0 && !is_in_lexicon && strict) continue;
      const std::uint32_t history = n.letters == 0 ? n.history : tree_.extended(node);
      all.push_back({history, node, beam_.total[j], tree_.final_bonus(history)});
    }
    std::sort(all.begin(), all.end(), [](const Final& a, const Final& b) {
      return a.history != b.history ? a.history < b.history : a.acoustic > b.acoustic;
    });
    std::vector<Final> merged;
    for (const Final& f : all) {
      if (merged.empty() || merged.back().history != f.history) {
        merged.push_back(f);
      } else {
        merged.back().acoustic = log_sum(merged.back().acoustic, f.acoustic);
      }
    }
    return merged;
  }

  const CtcWords& words_;
  const CtcKernels& kernels_;
  CtcTextTree tree_;
  bool only_best_ = false;
  const std::size_t min_nodes_before_collect_;
  std::size_t nodes_before_collect_ = 0;  // unused nodes are removed when the tree is larger
  CtcTried tried_;
  std::int64_t frame_ = 0;
  std::uint32_t first_new_ = 0;  // the first node that was created in this frame
  double least_ = 0.0;           // candidates with a lower score do not survive the frame
  CtcBeam beam_;
  std::vector<std::uint32_t> node_, source_;             // (candidates)
  std::vector<double> blank_, star_, entering_, total_;  // (candidates, padded): masses
  std::vector<Choice> choices_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> seen_;
};

}  // namespace trellis
