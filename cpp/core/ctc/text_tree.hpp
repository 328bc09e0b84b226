// A tree of texts, for a search that builds them letter by letter.
//
// A text is a sequence of complete words, the *history*, plus the letters of an unfinished word. Its
// node is created once. It stores the scores of the text from the language model and the word lists. A
// word boundary leads to the root of the next history. If several label sequences spell the same words,
// they share that root.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ctc/words.hpp"

namespace trellis {

class CtcTextTree {
 public:
  static constexpr std::uint32_t kStart = 0;  // the node of the empty text

  struct Node {
    std::uint32_t parent, child, sibling;  // within a history; a root has no parent
    std::uint32_t children;                // their number
    // The node that was extended to create this one; it may belong to the previous history. Following
    // these links yields one of the possible label sequences of the text.
    std::uint32_t before;
    std::int32_t label;  // the last label; for a root, the word boundary or -1
    std::uint32_t history;
    CtcWords::Place place;
    std::uint32_t completed;  // the root after its word is complete; kNone if not known yet
    std::int32_t letters;     // the number of letters of the unfinished word
    std::uint32_t candidate;  // the search's candidate number of the node in frame `frame`
    std::int64_t frame;
    std::uint64_t spelling;  // a hash of the letters; 0 for a root
    double bonus;            // score of the words
  };

  struct History {
    std::uint32_t parent, word, root, depth;  // root may be kNone: not created yet
    WordModel::State state;
    double bonus;
  };

  explicit CtcTextTree(const CtcWords& words) : words_(words) {}

  // Resets to the empty text. `model` may be null and must outlive the search.
  void begin(WordModel* model) {
    model_ = model;
    nodes_.clear();
    histories_.clear();
    completed_words_ = StringTable();
    extended_ = KeyTable(2);
    large_children_ = KeyTable(2);
    large_child_.clear();
    completed_words_.intern("");
    histories_.push_back({.parent = kNone,
                          .word = 0,
                          .root = kStart,
                          .depth = 0,
                          .state = model_ == nullptr ? 0 : model_->begin(),
                          .bonus = 0.0});
    nodes_.push_back(root_of(0, kNone));
  }

  std::size_t size() const { return nodes_.size(); }
  Node& operator[](std::uint32_t node) { return nodes_[node]; }
  const Node& operator[](std::uint32_t node) const { return nodes_[node]; }
  const History& history(std::uint32_t history) const { return histories_[history]; }
  static bool is_root(const Node& node) { return node.spelling == 0; }

  // Returns a hash of everything that later scores depend on: the state of the language model (without a
  // model, the last word), the letters of the unfinished word, and the last label. Texts with equal
  // hashes will receive equal scores for equal labels.
  std::uint64_t future_hash(const Node& n) const {
    const History& h = histories_[n.history];
    const std::uint64_t context = model_ == nullptr ? h.word : h.state;
    const HashKeys& keys = process_hash_keys;
    return mix(mix(context ^ keys.left, keys.right) ^ n.spelling,
               keys.inner ^ static_cast<std::uint32_t>(n.label));
  }

  // Returns an upper bound of the score that one label can add.
  double most_gain() const {
    const bool is_bounded = model_ == nullptr || !model_->scores_beginnings();
    return is_bounded ? words_.most_gain() : std::numeric_limits<double>::infinity();
  }

  // Returns the node that a label leads to. Returns kNone if the lexicon has no such word, or if the
  // node does not exist and `make` is false.
  std::uint32_t follow(std::uint32_t node, std::int32_t label, std::int32_t space, bool make) {
    if (label == space) return complete(node, make);
    const std::uint32_t from = node;
    const bool in_word = !is_root(nodes_[node]);
    if (space < 0 && in_word && (words_.piece(label).starts || words_.piece(nodes_[node].label).ends)) {
      node = complete(node, make);
      if (node == kNone) return kNone;
    }
    const std::uint32_t next = child(node, label);
    return next == kNone && make ? add(node, label, from) : next;
  }

  // Returns the history extended by a node's word.
  std::uint32_t extended(std::uint32_t node) {
    const Node n = nodes_[node];
    if (words_.by_label()) {
      std::uint32_t best = kNone;  // among words with the same spelling, the best one here
      for (const std::uint32_t w : words_.allowed(n.place.lexicon)) {
        const std::string_view word = words_.lexicon_word(w);
        const std::uint32_t next = extended(n.history, word, words_.id(word));
        if (best == kNone || histories_[next].bonus > histories_[best].bonus) best = next;
      }
      if (best != kNone) return best;
    }
    return extended(n.history, begun(node), words_.id(n.place));
  }

  // Returns the score of a text's words, including the end of the text.
  double final_bonus(std::uint32_t history) {
    const History& h = histories_[history];
    return h.bonus + (model_ == nullptr ? 0.0 : words_.end_score(model_->end(h.state)));
  }

  // Collects garbage: keeps the nodes in use and all nodes before them, removes the others, and
  // renumbers the nodes that are kept. A removed node is created again if the search needs it later.
  void collect(std::vector<std::uint32_t>& in_use) {
    std::vector<std::uint32_t> new_index(nodes_.size(), kNone);
    std::vector<std::uint32_t> open(in_use);
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      if (node == kNone || new_index[node] != kNone) continue;
      new_index[node] = 0;
      open.insert(open.end(), {nodes_[node].parent, nodes_[node].before});
    }
    for (History& history : histories_) {
      if (history.root != kNone && new_index[history.root] == kNone) history.root = kNone;
    }
    std::uint32_t count = 0;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      if (new_index[node] == kNone) continue;
      new_index[node] = count;
      nodes_[count++] = nodes_[node];
    }
    nodes_.resize(count);
    const auto new_number = [&](std::uint32_t node) { return node == kNone ? kNone : new_index[node]; };
    for (Node& n : nodes_) {
      n.parent = new_number(n.parent);
      n.before = new_number(n.before);
      n.completed = new_number(n.completed);
      n.child = n.sibling = kNone;
      n.children = 0;
    }
    large_children_ = KeyTable(2);
    large_child_.clear();
    for (std::uint32_t node = 0; node < count; ++node) {
      if (!is_root(nodes_[node])) link(node);  // a root is not a child; it belongs to a history
    }
    for (History& history : histories_) history.root = new_number(history.root);
    for (std::uint32_t& node : in_use) node = new_number(node);
  }

  std::vector<std::string> words(std::uint32_t history) const {
    std::vector<std::string> words;
    for (; histories_[history].parent != kNone; history = histories_[history].parent) {
      words.emplace_back(completed_words_.string(histories_[history].word));
    }
    std::reverse(words.begin(), words.end());
    return words;
  }

  std::string text(std::uint32_t node) const {
    std::vector<std::string> all = words(nodes_[node].history);
    // If the lexicon spells words in labels, the labels of an unfinished word need not be letters of the
    // word, so they are left out.
    if (nodes_[node].letters > 0 && !words_.by_label()) all.push_back(begun(node));
    return joined(all);
  }

  // Returns the longest text that the texts of all nodes begin with.
  std::string common_text(const std::vector<std::uint32_t>& nodes) const {
    std::uint32_t history = nodes_[nodes[0]].history;
    for (const std::uint32_t node : nodes) history = common_history(history, nodes_[node].history);
    const std::size_t shared = joined(words(history)).size();
    std::string all = text(nodes[0]);
    for (const std::uint32_t node : nodes) {
      const std::string next = text(node);
      std::size_t size = std::min(shared, next.size());
      while (size < std::min(all.size(), next.size()) && all[size] == next[size]) ++size;
      // The text must not end inside a code point.
      while (size < all.size() && size > shared && (all[size] & 0xc0) == 0x80) --size;
      all.resize(std::min(all.size(), size));
    }
    if (!all.empty() && all.back() == ' ') all.pop_back();
    return all;
  }
  // Writes one of the possible spellings of a text: its labels, and the number of labels of each word.
  void spell(std::uint32_t node, std::vector<std::int32_t>* labels,
             std::vector<std::int32_t>* sizes) const {
    std::int32_t size = 0, letters = 0;
    for (std::uint32_t n = node; n != kNone; n = nodes_[n].before) {
      const std::uint32_t before = nodes_[n].before;
      if (!is_root(nodes_[n])) {
        labels->push_back(nodes_[n].label);
        letters = std::max(letters, nodes_[n].letters);
        ++size;
      }
      if (before != kNone && nodes_[before].history == nodes_[n].history) continue;
      if (letters > 0) {
        sizes->push_back(size);
      } else {  // a word-start marker without a word
        labels->resize(labels->size() - static_cast<std::size_t>(size));
      }
      size = letters = 0;
    }
    std::reverse(labels->begin(), labels->end());
    std::reverse(sizes->begin(), sizes->end());
  }

 private:
  // Children are searched linearly up to this number; more are put into a hash table.
  static constexpr std::uint32_t kFewChildren = 16;

  Node root_of(std::uint32_t history, std::uint32_t before) const {
    const auto label = static_cast<std::int32_t>(words_.options().space);
    return {.parent = kNone,
            .child = kNone,
            .sibling = kNone,
            .children = 0,
            .before = before,
            .label = label,
            .history = history,
            .place = {},
            .completed = kNone,
            .letters = 0,
            .candidate = 0,
            .frame = -1,
            .spelling = 0,
            .bonus = histories_[history].bonus};
  }

  // Returns the child for a label, or kNone. A node with few children has a linked list of them; a node
  // with more children has them in large_children_.
  std::uint32_t child(std::uint32_t parent, std::int32_t label) const {
    if (nodes_[parent].children > kFewChildren) {
      const std::uint32_t key[2] = {parent, static_cast<std::uint32_t>(label)};
      const std::uint32_t entry = large_children_.find(key, large_children_.hash(key));
      return entry == kNone ? kNone : large_child_[entry];
    }
    std::uint32_t n = nodes_[parent].child;
    while (n != kNone && nodes_[n].label != label) n = nodes_[n].sibling;
    return n;
  }

  // Adds a node to its parent's children.
  void link(std::uint32_t node) {
    const std::uint32_t parent = nodes_[node].parent;
    nodes_[node].sibling = nodes_[parent].child;
    nodes_[parent].child = node;
    if (++nodes_[parent].children <= kFewChildren) return;
    // When the list becomes too long, all its nodes are moved to the table.
    const bool first = nodes_[parent].children == kFewChildren + 1;
    for (std::uint32_t n = node; n != kNone; n = first ? nodes_[n].sibling : kNone) {
      const std::uint32_t key[2] = {parent, static_cast<std::uint32_t>(nodes_[n].label)};
      large_children_.intern(key, large_children_.hash(key));
      large_child_.push_back(n);
    }
  }

  // Creates the child of `parent` for a label; returns kNone if the lexicon has no such word. `from` is
  // the node that was extended: the parent, or a node of the previous history if the label starts a
  // word.
  std::uint32_t add(std::uint32_t parent, std::int32_t label, std::uint32_t from) {
    const Node parent_node = nodes_[parent];
    const CtcPiece& piece = words_.piece(label);
    const CtcWords::Place place = words_.step(parent_node.place, label);
    if (words_.constrained() && place.lexicon == kNone) return kNone;
    const int letters = parent_node.letters + piece.letters;
    const HashKeys& keys = process_hash_keys;
    std::uint64_t spelling = parent_node.spelling == 0 ? keys.left : parent_node.spelling;
    for (const char c : piece.text) spelling = mix(spelling ^ static_cast<std::uint8_t>(c), keys.outer);
    const double bonus = histories_[parent_node.history].bonus + words_.begun(place, letters);
    const auto child = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({.parent = parent,
                      .child = kNone,
                      .sibling = kNone,
                      .children = 0,
                      .before = from,
                      .label = label,
                      .history = parent_node.history,
                      .place = place,
                      .completed = kNone,
                      .letters = letters,
                      .candidate = 0,
                      .frame = -1,
                      .spelling = spelling | 1,  // 0 marks a root
                      .bonus = bonus});
    if (model_ != nullptr && model_->scores_beginnings() && letters > 0 && place.hot == kNone)
      nodes_[child].bonus = histories_[parent_node.history].bonus + model_->beginning(begun(child));
    link(child);
    return child;
  }

  // Returns the root of the history that ends with a node's word. Returns kNone if the lexicon has no
  // such word, or if the root does not exist and `make` is false.
  std::uint32_t complete(std::uint32_t node, bool make) {
    if (nodes_[node].letters == 0) return histories_[nodes_[node].history].root;  // no word has begun
    if (nodes_[node].completed != kNone || !make) return nodes_[node].completed;
    if (words_.constrained() && words_.allowed(nodes_[node].place.lexicon).empty()) return kNone;
    const std::uint32_t history = extended(node);
    if (histories_[history].root == kNone) {
      histories_[history].root = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(root_of(history, node));
    }
    return nodes_[node].completed = histories_[history].root;
  }

  std::uint32_t extended(std::uint32_t history, std::string_view word, std::uint32_t id) {
    const std::uint32_t key[2] = {history, completed_words_.intern(word)};
    const std::uint64_t hash = extended_.hash(key);
    const std::uint32_t entry = extended_.find(key, hash);
    if (entry != kNone) return entry + 1;
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

  // Returns the letters of the unfinished word.
  std::string begun(std::uint32_t node) const {
    std::vector<std::int32_t> labels;
    for (; !is_root(nodes_[node]); node = nodes_[node].parent) labels.push_back(nodes_[node].label);
    std::string letters;
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      letters += words_.piece(*label).text;
    }
    return letters;
  }

  static std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
      if (!text.empty()) text += ' ';
      text += word;
    }
    return text;
  }

  // Returns the longest history that a and b both extend.
  std::uint32_t common_history(std::uint32_t a, std::uint32_t b) const {
    while (a != b) {
      std::uint32_t& longer = histories_[a].depth >= histories_[b].depth ? a : b;
      longer = histories_[longer].parent;
    }
    return a;
  }

  const CtcWords& words_;
  WordModel* model_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<History> histories_;
  StringTable completed_words_;             // all completed words
  KeyTable extended_{2};                    // (history, word): entry i is history i + 1
  KeyTable large_children_{2};              // (parent, label) of the children of nodes that have many
  std::vector<std::uint32_t> large_child_;  // (large_children_): the child
};

}  // namespace trellis
