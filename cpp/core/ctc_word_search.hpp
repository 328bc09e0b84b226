// Beam search over texts: prefix search (see ctc_prefix.hpp) with scores for words.
//
// A hypothesis is a text: complete words, a *history*, and the letters of a word that has begun. It has
// the masses alpha_- and alpha_*, and a bonus for its words. Texts are nodes of a tree. A word boundary
// leads to the root of the next history, which is one for all ways to write the same words; a second
// boundary leads nowhere new. Language model and word lists are asked once for each node, when it is
// made.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ctc_prefix.hpp"
#include "ctc_words.hpp"

namespace trellis {

struct CtcTranscript {
  std::vector<std::string> words;
  std::vector<std::int32_t> labels;  // without boundaries: one way to write the words
  std::vector<std::int32_t> sizes;   // labels of each word
  double acoustic, bonus;            // log p(text | frames), and what its words add

  double score() const { return acoustic + bonus; }
};

class CtcWordSearch {
 public:
  CtcWordSearch(const CtcWords& words, const CtcKernels& kernels, std::size_t many_nodes = 1 << 18)
      : words_(words), kernels_(kernels), few_nodes_(many_nodes) {}

  // Before the first frame. `model` is null if there is none, and must live as long as it is in use.
  // With `only_best`, of texts that can only go on alike the best one is kept.
  void begin(WordModel* model, bool only_best) {
    model_ = model;
    only_best_ = only_best;
    many_nodes_ = few_nodes_;
    frame_ = 0;
    nodes_.clear();
    histories_.clear();
    spoken_ = StringTable();
    extended_ = KeyTable(2);
    beam_.clear();
    spoken_.intern("");
    histories_.push_back({kNone, 0, kStart, 0, model_ == nullptr ? 0 : model_->begin(), 0.0});
    nodes_.push_back(root_of(0, kNone));
    beam_.push(kStart, 0.0, -kNever, 0.0);
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
        if (nodes_.size() > many_nodes_) collect();
        return true;
      }
      if (!words_.constrained()) break;
      // the few labels that were tried fit no word: try them all
    }
    return false;
  }

  // The text that all hypotheses begin with, and the best text so far.
  std::string stable() const {
    std::uint32_t history = nodes_[beam_.node[0]].history;
    for (const std::uint32_t node : beam_.node) history = common(history, nodes_[node].history);
    const std::size_t shared = joined(words(history)).size();
    std::string all = text(beam_.node[0]);
    for (const std::uint32_t node : beam_.node) {
      const std::string other = text(node);
      std::size_t size = std::min(shared, other.size());
      while (size < std::min(all.size(), other.size()) && all[size] == other[size]) ++size;
      // not in the middle of a code point
      while (size < all.size() && size > shared && (all[size] & 0xc0) == 0x80) --size;
      all.resize(std::min(all.size(), size));
    }
    if (!all.empty() && all.back() == ' ') all.pop_back();
    return all;
  }
  std::string best() const {
    std::size_t at = 0;
    for (std::size_t j = 1; j < beam_.size(); ++j) {
      if (score(j) > score(at)) at = j;
    }
    return text(beam_.node[at]);
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
      out.push_back(transcript(f));
    }
    return out;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::uint32_t kStart = 0;

  struct Node {
    std::uint32_t parent, child, sibling;  // within a history; a root has no parent
    std::uint32_t before;  // what it was first made from, maybe in the history before: a way to write it
    std::int32_t
        label;  // -1 if it is the root of a history, and labels say themselves that a word begins
    std::uint32_t history;
    CtcWords::Place place;
    std::uint32_t completed;  // the root of the history that its word leads to; kNone if not known yet
    std::int32_t letters;     // of the word that has begun
    std::uint32_t candidate;  // in this frame, if it is one at all
    std::int64_t frame;       // in which it was a candidate last
    std::uint64_t spelling;   // a hash of the letters
    double bonus;
  };

  struct History {
    std::uint32_t parent, word, root, depth;
    WordModel::State state;
    double bonus;
  };

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

  Node root_of(std::uint32_t history, std::uint32_t before) const {
    const auto label = static_cast<std::int32_t>(words_.options().space);
    return {
        kNone, kNone, kNone, before, label, history, {}, kNone, 0, 0, -1, 0, histories_[history].bonus};
  }

  static double log_sum(double a, double b) {
    return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
  }
  static bool is_root(const Node& node) { return node.spelling == 0; }
  double score(std::size_t j) const { return beam_.total[j] + nodes_[beam_.node[j]].bonus; }

  // ---- one frame

  void clear_candidates() {
    ++frame_;
    first_new_ = static_cast<std::uint32_t>(nodes_.size());
    node_.clear();
    source_.clear();
    for (std::vector<double>* masses : {&blank_, &star_, &entering_}) masses->clear();
  }

  std::uint32_t candidate(std::uint32_t node) {
    Node& n = nodes_[node];
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
      const Node& n = nodes_[node];
      const double p = n.label < 0 ? -kNever : tried_.score(n.label);
      blank_[own] = beam_.total[j] + p_blank;
      // after a boundary, one more with or without a blank in between is none
      star_[own] = (is_root(n) ? beam_.total[j] : beam_.star[j]) + p;
      const double score = std::max(blank_[own], star_[own]) + n.bonus;
      best = std::max(best, score);
      worst = std::min(worst, score);
    }
    least_ = best + words_.options().prune;
    const bool full = static_cast<std::int64_t>(beam_.size()) >= words_.options().width;
    if (full && !only_best_) least_ = std::max(least_, worst);
  }

  void extend() {
    const double gain = words_.most_gain();
    const auto space = static_cast<std::int32_t>(words_.options().space);
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const std::int32_t last = nodes_[node].label;
      const bool root = is_root(nodes_[node]);
      const double most = histories_[nodes_[node].history].bonus + gain;
      for (const CtcTried::Label& label : tried_.labels()) {
        if (root && label.id == space) continue;
        const double mass = (label.id == last ? beam_.blank[j] : beam_.total[j]) + label.score;
        if (mass == -kNever) continue;
        // what is too little to live by itself may still be a part of something
        const bool alone = mass + most >= least_;
        const std::uint32_t target = follow(node, label.id, space, alone);
        if (target != kNone && (alone || nodes_[target].frame == frame_)) offer(target, mass, node);
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
      const double score = total_[i] + nodes_[node_[i]].bonus;
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
      if (node >= first_new_ && source_[c.candidate] != kNone)
        nodes_[node].before = source_[c.candidate];
    }
    return true;
  }

  // Texts with the same last words, as far as the language model cares (without one, the last word), and
  // the same letters since.
  void drop_equals() {
    std::size_t slots = 64;
    while (slots < 2 * choices_.size()) slots *= 2;
    seen_.assign(slots, {0, kNone});
    for (std::uint32_t i = 0; i < choices_.size(); ++i) {
      const Node& n = nodes_[node_[choices_[i].candidate]];
      const History& h = histories_[n.history];
      const std::uint64_t context = model_ == nullptr ? h.word : h.state;
      const auto label = static_cast<std::uint32_t>(n.label);
      const std::uint64_t key = mix(mix(context ^ kMixA, kMixB) ^ n.spelling, kMixA ^ label);
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

  // ---- the tree of texts

  // Where a label leads; kNone if the lexicon has no such word, or it is not there and is not to be
  // made.
  std::uint32_t follow(std::uint32_t node, std::int32_t label, std::int32_t space, bool make) {
    if (label == space) return complete(node, make);
    const std::uint32_t from = node;
    const bool within = !is_root(nodes_[node]);
    if (space < 0 && within && (words_.piece(label).starts || words_.piece(nodes_[node].label).ends)) {
      node = complete(node, make);
      if (node == kNone) return kNone;
    }
    for (std::uint32_t n = nodes_[node].child; n != kNone; n = nodes_[n].sibling) {
      if (nodes_[n].label == label) return n;
    }
    return make ? add(node, label, from) : kNone;
  }

  std::uint32_t add(std::uint32_t parent, std::int32_t label, std::uint32_t from) {
    const Node above = nodes_[parent];
    const CtcPiece& piece = words_.piece(label);
    const CtcWords::Place place = words_.step(above.place, label);
    if (words_.constrained() && place.lexicon == kNone) return kNone;
    const int letters = above.letters + piece.letters;
    std::uint64_t spelling = above.spelling == 0 ? kMixA : above.spelling;
    for (const char c : piece.text) spelling = mix(spelling ^ static_cast<std::uint8_t>(c), kMixB);
    const double bonus = histories_[above.history].bonus + words_.begun(place, letters);
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({parent, kNone, above.child, from, label, above.history, place, kNone, letters, 0,
                      -1, spelling | 1, bonus});
    nodes_[parent].child = fresh;
    return fresh;
  }

  // The root of the history that a node's word leads to.
  std::uint32_t complete(std::uint32_t node, bool make) {
    if (nodes_[node].completed != kNone || !make) return nodes_[node].completed;
    if (nodes_[node].letters == 0) return histories_[nodes_[node].history].root;  // no word has begun
    if (words_.constrained() && words_.allowed(nodes_[node].place.lexicon).empty()) return kNone;
    const std::uint32_t history = extended(node);
    if (histories_[history].root == kNone) {
      histories_[history].root = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(root_of(history, node));
    }
    return nodes_[node].completed = histories_[history].root;
  }

  // The history with a node's word behind it.
  std::uint32_t extended(std::uint32_t node) {
    const Node n = nodes_[node];
    if (words_.by_label()) {
      std::uint32_t best = kNone;  // of words that are spelt alike, the best one here
      for (const std::uint32_t w : words_.allowed(n.place.lexicon)) {
        const std::string_view word = words_.lexicon_word(w);
        const std::uint32_t found = extended(n.history, word, words_.id(word));
        if (best == kNone || histories_[found].bonus > histories_[best].bonus) best = found;
      }
      if (best != kNone) return best;
    }
    return extended(n.history, begun(node), words_.id(n.place));
  }

  std::uint32_t extended(std::uint32_t history, std::string_view word, std::uint32_t id) {
    const std::uint32_t key[2] = {history, spoken_.intern(word)};
    const std::uint64_t hash = extended_.hash(key);
    const std::uint32_t known = extended_.find(key, hash);
    if (known != kNone) return known + 1;
    extended_.intern(key, hash);
    History next = histories_[history];
    next.parent = history;
    next.word = key[1];
    next.root = kNone;
    ++next.depth;
    if (model_ != nullptr) {
      const WordModel::Score scored = model_->score(next.state, id, word);
      next.bonus += words_.word_score(scored.log10, scored.known);
      next.state = scored.next;
    }
    if (words_.is_hot(word)) next.bonus += words_.options().hot_weight;
    histories_.push_back(next);
    return static_cast<std::uint32_t>(histories_.size() - 1);
  }

  // Drops the nodes that no hypothesis descends from. They are made once more if they are met again.
  void collect() {
    std::vector<std::uint32_t> place(nodes_.size(), kNone);
    std::vector<std::uint32_t> open(beam_.node);
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      if (node == kNone || place[node] != kNone) continue;
      place[node] = 0;
      open.insert(open.end(), {nodes_[node].parent, nodes_[node].before});
    }
    for (History& history : histories_) {
      if (history.root != kNone && place[history.root] == kNone) history.root = kNone;
    }
    std::uint32_t kept = 0;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      if (place[node] == kNone) continue;
      place[node] = kept;
      nodes_[kept++] = nodes_[node];
    }
    nodes_.resize(kept);
    const auto moved = [&](std::uint32_t node) { return node == kNone ? kNone : place[node]; };
    for (Node& n : nodes_) {
      n.parent = moved(n.parent);
      n.before = moved(n.before);
      n.completed = moved(n.completed);
      n.child = n.sibling = kNone;
    }
    for (std::uint32_t node = 0; node < kept; ++node) {
      if (is_root(nodes_[node])) continue;  // it is found through its history
      nodes_[node].sibling = nodes_[nodes_[node].parent].child;
      nodes_[nodes_[node].parent].child = node;
    }
    for (History& history : histories_) history.root = moved(history.root);
    for (std::uint32_t& node : beam_.node) node = moved(node);
    many_nodes_ = std::max(few_nodes_, std::size_t{2} * kept);
  }

  // ---- texts

  // The letters of the word that has begun.
  std::string begun(std::uint32_t node) const {
    std::vector<std::int32_t> labels;
    for (; !is_root(nodes_[node]); node = nodes_[node].parent) labels.push_back(nodes_[node].label);
    std::string letters;
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      letters += words_.piece(*label).text;
    }
    return letters;
  }

  std::vector<std::string> words(std::uint32_t history) const {
    std::vector<std::string> found;
    for (; histories_[history].parent != kNone; history = histories_[history].parent) {
      found.emplace_back(spoken_.string(histories_[history].word));
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  std::string text(std::uint32_t node) const {
    std::vector<std::string> all = words(nodes_[node].history);
    // labels may be written unlike the word they become
    if (nodes_[node].letters > 0 && !words_.by_label()) all.push_back(begun(node));
    return joined(all);
  }

  static std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
      if (!text.empty()) text += ' ';
      text += word;
    }
    return text;
  }

  // The longest history that both begin with.
  std::uint32_t common(std::uint32_t a, std::uint32_t b) const {
    while (a != b) {
      std::uint32_t& longer = histories_[a].depth >= histories_[b].depth ? a : b;
      longer = histories_[longer].parent;
    }
    return a;
  }

  // ---- the end

  // Each text once; with `strict` only those whose last word is in the lexicon.
  std::vector<Final> finals(bool strict) {
    std::vector<Final> all;
    for (std::size_t j = 0; j < beam_.size(); ++j) {
      const std::uint32_t node = beam_.node[j];
      const Node& n = nodes_[node];
      const bool legal = !words_.constrained() || !words_.allowed(n.place.lexicon).empty();
      if (n.letters > 0 && !legal && strict) continue;
      const std::uint32_t history = n.letters == 0 ? n.history : extended(node);
      all.push_back({history, node, beam_.total[j], final_bonus(history)});
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

  double final_bonus(std::uint32_t history) {
    const History& h = histories_[history];
    return h.bonus + (model_ == nullptr ? 0.0 : words_.end_score(model_->end(h.state)));
  }

  CtcTranscript transcript(const Final& f) const {
    CtcTranscript out{words(f.history), {}, {}, f.acoustic, f.bonus};
    std::int32_t size = 0, letters = 0;
    for (std::uint32_t n = f.node; n != kNone; n = nodes_[n].before) {
      const std::uint32_t before = nodes_[n].before;
      if (!is_root(nodes_[n])) {
        out.labels.push_back(nodes_[n].label);
        letters = std::max(letters, nodes_[n].letters);
        ++size;
      }
      if (before != kNone && nodes_[before].history == nodes_[n].history) continue;
      if (letters > 0) {
        out.sizes.push_back(size);
      } else {  // a mark that a word begins, and no word
        out.labels.resize(out.labels.size() - static_cast<std::size_t>(size));
      }
      size = letters = 0;
    }
    std::reverse(out.labels.begin(), out.labels.end());
    std::reverse(out.sizes.begin(), out.sizes.end());
    return out;
  }

  const CtcWords& words_;
  const CtcKernels& kernels_;
  WordModel* model_ = nullptr;
  bool only_best_ = false;
  const std::size_t few_nodes_;
  std::size_t many_nodes_ = 0;  // when the tree is so large, what no hypothesis needs is dropped
  CtcTried tried_;
  std::int64_t frame_ = 0;
  std::uint32_t first_new_ = 0;  // the first node that was made in this frame
  double least_ = 0.0;           // what is worse will not survive the frame
  std::vector<Node> nodes_;
  std::vector<History> histories_;
  StringTable spoken_;    // all words that were completed
  KeyTable extended_{2};  // (history, word): history i + 1
  CtcBeam beam_;
  std::vector<std::uint32_t> node_, source_;  // of the candidates
  std::vector<double> blank_, star_, entering_, total_;
  std::vector<Choice> choices_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> seen_;
};

}  // namespace trellis
