// Back-off n-gram language models.
//
//     log p(w | w1 .. wn) = log p(w1 .. wn w)                        if the model has that n-gram,
//                           backoff(w1 .. wn) + log p(w | w2 .. wn)  if not
//
// N-grams are the nodes of a tree: the node of w1 .. wn is the child of the node of w1 .. wn-1 by word
// wn. Children are looked up by the exact key (node, word), so two n-grams are never confused. Each node
// stores the longest suffix w2 .. wn, w3 .. wn, ... that is in the tree: the context to use after a
// back-off. Logarithms are to base 10, as in the files.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/tables.hpp"

namespace trellis {

class NgramModel {
 public:
  using State = std::uint32_t;                // a node: the words that still influence later ones
  static constexpr State kNoContext = kNone;  // the empty context
  static constexpr int kMaxOrder = 32;

  struct Score {
    double log10;
    int length;  // the length of the longest matching n-gram
    State next;
  };

  int order() const { return static_cast<int>(counts_.size()); }
  const std::vector<std::int64_t>& counts() const { return counts_; }
  std::uint32_t vocabulary() const { return words_.size(); }
  std::size_t longest_run() const { return std::max(words_.longest_run(), keys_.longest_run()); }
  std::string_view word(std::uint32_t id) const { return words_.string(id); }

  std::uint32_t find(std::string_view word) const { return words_.find(word); }
  bool is_state(State state) const { return state == kNoContext || state < log10_.size(); }
  std::uint32_t unknown() const { return unknown_; }
  bool is_unknown(std::uint32_t word) const { return word == kNone || word == unknown_; }
  std::uint32_t end() const { return end_; }
  State begin_state() const { return begin_; }

  // Returns log10 p(word | state); a word that is not in the vocabulary may be passed as kNone.
  Score score(State state, std::uint32_t word) const {
    if (word == kNone) word = unknown_;
    double backoff = 0.0;
    State next = kNone;  // the longest matching node, even if it is not an n-gram of the model
    for (State context = state; context != kNoContext; context = suffix_[context]) {
      const std::uint32_t node = child(context, word);
      if (node != kNone) {
        if (next == kNone) next = node;
        if (is_ngram(node)) return {log10_[node] + backoff, length_[next], shorten(next)};
      }
      backoff += backoff_[context];
    }
    if (next == kNone) next = word;
    return {log10_[word] + backoff, length_[next], shorten(next)};
  }

  // Adds an n-gram; returns false if the model already has it. A reader adds all unigrams, calls
  // end_unigrams(), adds the other n-grams by length, and calls finish().
  bool add(const std::uint32_t* words, int length, float log10, float backoff) {
    std::uint32_t node = kNone;
    for (int i = 0; i < length; ++i) {
      const std::uint32_t next = child(node, words[i]);
      node = next != kNone ? next : insert(node, words[i], i + 1);
    }
    if (is_ngram(node)) return false;
    log10_[node] = log10;
    backoff_[node] = backoff;
    while (static_cast<int>(counts_.size()) < length) counts_.push_back(0);
    ++counts_[length - 1];
    return true;
  }
  std::uint32_t add_word(std::string_view word) { return words_.intern(word); }

  void end_unigrams() {
    unknown_ = find("<unk>");
    if (unknown_ == kNone) unknown_ = find("<UNK>");
    if (unknown_ == kNone) {  // as in KenLM: 10^-100, not included in the counts
      unknown_ = add_word("<unk>");
      log10_[insert(kNoContext, unknown_, 1)] = -100.0f;
    }
    begin_ = find("<s>");
    end_ = find("</s>");
  }

  void finish() {
    for (std::vector<float>* values : {&log10_, &backoff_}) values->shrink_to_fit();
    suffix_.shrink_to_fit();
    length_.shrink_to_fit();
  }

 private:
  // Returns whether a node is an n-gram of the model. Other nodes exist only because a longer n-gram
  // begins or ends with them.
  bool is_ngram(std::uint32_t node) const { return !std::isnan(log10_[node]); }

  // Returns the node of context + word, or kNone. A unigram's node has the number of its word.
  std::uint32_t child(State context, std::uint32_t word) const {
    if (context == kNoContext) return word < unigrams_ ? word : kNone;
    const std::uint32_t key[2] = {context, word};
    const std::uint32_t node = keys_.find(key, keys_.hash(key));
    return node == kNone ? kNone : node + unigrams_;
  }

  // Inserts a node and its missing suffixes, because score() follows the suffixes of a context.
  std::uint32_t insert(State context, std::uint32_t word, int length) {
    std::uint32_t ending = kNoContext;
    if (context == kNoContext) {
      if (word != unigrams_ || keys_.size() > 0) throw std::logic_error("unigrams come first, in order");
      ++unigrams_;
    } else {
      ending = child(suffix_[context], word);
      if (ending == kNone) ending = insert(suffix_[context], word, length - 1);
      const std::uint32_t key[2] = {context, word};
      keys_.intern(key, keys_.hash(key));
    }
    log10_.push_back(std::numeric_limits<float>::quiet_NaN());
    backoff_.push_back(0.0f);
    length_.push_back(static_cast<std::uint8_t>(length));
    suffix_.push_back(ending);
    return static_cast<std::uint32_t>(log10_.size() - 1);
  }

  // Returns the state after a node. An n-gram of full order cannot be extended, so it is replaced by its
  // suffix.
  State shorten(State node) const { return length_[node] < order() ? node : suffix_[node]; }

  StringTable words_;
  KeyTable keys_{2};  // (context, word) of all nodes except unigrams
  std::uint32_t unigrams_ = 0;
  std::vector<float> log10_, backoff_;  // (nodes); log10_ is NaN if the node is not an n-gram
  std::vector<std::uint8_t> length_;    // (nodes)
  std::vector<State> suffix_;           // (nodes): the longest suffix in the tree
  std::vector<std::int64_t> counts_;    // (order): n-grams of each length
  std::uint32_t unknown_ = kNone, end_ = kNone;
  State begin_ = kNoContext;
};

}  // namespace trellis
