// The settings of a CTC decoder of words: the text of each label, the list of words, and the scores of
// words.
//
//     score(text) = log p(text | frames) + sum over its words of
//                   alpha ln p(word | previous words) + beta + weight if it is a hot word
// plus alpha ln p(</s> | words) at the end of the text. For a word that is not in the vocabulary,
// `unknown` is added to log10 p. The score of an unfinished word depends only on the number of its
// letters, and on whether a word of the vocabulary, or a hot word, begins with them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.hpp"
#include "ctc/ngram.hpp"
#include "ctc/trie.hpp"

namespace trellis {

// The interface of language models for the search.
class WordModel {
 public:
  using State = std::uint32_t;
  struct Score {
    double log10;
    State next;
    bool known;
  };
  virtual ~WordModel() = default;
  virtual State begin() = 0;
  // `id` is the word's number in the decoder's vocabulary, or kNone.
  virtual Score score(State state, std::uint32_t id, std::string_view word) = 0;
  virtual double end(State state) = 0;  // log10 p(</s> | state)

  // Returns whether the model has its own score for unfinished words.
  virtual bool scores_beginnings() const { return false; }
  virtual double beginning(std::string_view) { return 0.0; }
};

class NgramWords : public WordModel {
 public:
  // The decoder passes words by their number in its vocabulary. `numbers` maps these numbers to those of
  // the model; null means that they are the same, empty that the decoder has no vocabulary. In these two
  // cases all words of the model are known, otherwise only those of the vocabulary. Texts begin with
  // state `start`, and end with </s> if `ends` is true.
  NgramWords(const NgramModel& model, State start, bool ends,
             const std::vector<std::uint32_t>* numbers = nullptr)
      : model_(model), start_(start), ends_(ends), numbers_(numbers) {}
  State begin() override { return start_; }
  Score score(State state, std::uint32_t id, std::string_view word) override {
    // The model may have a word that is not in the vocabulary.
    const std::uint32_t word_id = id == kNone           ? model_.find(word)
                                  : numbers_ == nullptr ? id
                                                        : (*numbers_)[id];
    const bool open = numbers_ == nullptr || numbers_->empty();
    const NgramModel::Score scored = model_.score(state, word_id);
    return {scored.log10, scored.next, (open || id != kNone) && !model_.is_unknown(word_id)};
  }
  double end(State state) override { return ends_ ? model_.score(state, model_.end()).log10 : 0.0; }

 private:
  const NgramModel& model_;
  const State start_;
  const bool ends_;
  const std::vector<std::uint32_t>* numbers_;
};

struct CtcWordOptions {
  double alpha, beta, unknown, hot_weight;
  double least;  // log-probability; labels below it are not tried, except the best one
  double prune;  // <= 0: hypotheses whose score is below best + prune are dropped
  std::int64_t width, blank, space;  // beam width, labels; space is -1 if labels mark word starts
};

// The text of a label.
struct CtcPiece {
  std::string text;
  bool starts = false, ends = false;  // the label always starts, or ends, a word
  int letters = 0;                    // the number of code points of the text
};

class CtcWords {
 public:
  static constexpr double kLetters = 6.0;  // longer unknown words get a proportionally larger penalty

  // `vocabulary` lists the words of the language model in the order of their numbers; it is empty if the
  // model has no list. If `closed` is true, other words are unknown, even if the list is empty.
  CtcWords(const CtcWordOptions& options, std::vector<CtcPiece> pieces, bool has_model,
           std::span<const std::string_view> vocabulary, std::span<const std::string_view> hot_words,
           bool closed = false)
      : options_(options),
        pieces_(std::move(pieces)),
        has_model_(has_model),
        closed_(closed || !vocabulary.empty()) {
    for (CtcPiece& piece : pieces_) piece.letters = static_cast<int>(utf8_count(piece.text));
    vocabulary_ = trie_of(vocabulary);
    hot_ = trie_of(hot_words);
    shortest_hot_ = hot_.nearest(
        [&](std::uint32_t w) { return static_cast<std::uint32_t>(utf8_count(hot_words[w])); });
  }

  // Restricts texts to these words. The words are given as text, or as one list of labels per word.
  void allow(std::vector<std::string> words) {
    lexicon_words_ = std::move(words);
    const std::vector<std::string_view> views(lexicon_words_.begin(), lexicon_words_.end());
    written_ = trie_of(views);
    constrained_ = true;
  }
  void allow(std::vector<std::string> words, const std::vector<std::vector<std::int32_t>>& spellings) {
    lexicon_words_ = std::move(words);
    spelt_ = LabelTrie(static_cast<std::uint32_t>(lexicon_words_.size()),
                       [&](std::uint32_t w) { return std::span(spellings[w]); });
    constrained_ = by_label_ = true;
  }

  const CtcWordOptions& options() const { return options_; }
  const CtcPiece& piece(std::int32_t label) const { return pieces_[label]; }
  std::int64_t labels() const { return static_cast<std::int64_t>(pieces_.size()); }
  bool has_model() const { return has_model_; }
  bool constrained() const { return constrained_; }
  bool by_label() const { return by_label_; }
  std::string_view lexicon_word(std::uint32_t w) const { return lexicon_words_[w]; }

  // The nodes of the unfinished word's letters in the three tries; kNone if no word begins with them.
  struct Place {
    std::uint32_t vocabulary = 0, hot = 0, lexicon = 0;
  };
  Place step(Place from, std::int32_t label) const {
    const std::string& text = pieces_[label].text;
    from.vocabulary = vocabulary_.walk(from.vocabulary, text);
    from.hot = hot_.walk(from.hot, text);
    if (by_label_) {
      from.lexicon = spelt_.child(from.lexicon, label);
    } else if (constrained_) {
      from.lexicon = written_.walk(from.lexicon, text);
    }
    return from;
  }

  // Returns the score of an unfinished word with `letters` letters.
  double begun(const Place& place, int letters) const {
    if (letters == 0) return 0.0;
    if (place.hot != kNone) return options_.hot_weight * letters / shortest_hot_[place.hot];
    if (!has_model_ || !closed_ || place.vocabulary != kNone) return 0.0;
    return options_.unknown * (letters > kLetters ? letters / kLetters : 1.0);
  }

  std::span<const std::uint32_t> allowed(std::uint32_t lexicon) const {
    return by_label_ ? spelt_.words(lexicon) : written_.words(lexicon);
  }
  // Returns the vocabulary number of the word that ends here, or kNone.
  std::uint32_t id(const Place& place) const {
    return first_or_none(vocabulary_.words(place.vocabulary));
  }
  std::uint32_t id(std::string_view word) const {
    return first_or_none(vocabulary_.words(vocabulary_.walk(TextTrie::kRoot, word)));
  }
  bool is_hot(std::string_view word) const {
    return !hot_.words(hot_.walk(TextTrie::kRoot, word)).empty();
  }
  // Returns an upper bound of the score that one label can add.
  double most_gain() const {
    if (options_.alpha < 0.0 || options_.unknown > 0.0) return std::numeric_limits<double>::infinity();
    return (has_model_ ? std::max(0.0, options_.beta) : 0.0) +
           (hot_.empty() ? 0.0 : std::max(0.0, options_.hot_weight));
  }
  double word_score(double log10, bool known) const {
    return options_.alpha * kLn10 * (log10 + (known ? 0.0 : options_.unknown)) + options_.beta;
  }
  double end_score(double log10) const { return options_.alpha * kLn10 * log10; }

 private:
  static constexpr double kLn10 = 2.302585092994045684;

  static std::uint32_t first_or_none(std::span<const std::uint32_t> words) {
    return words.empty() ? kNone : words[0];
  }
  static TextTrie trie_of(std::span<const std::string_view> words) {
    return TextTrie(static_cast<std::uint32_t>(words.size()), [&](std::uint32_t w) {
      return std::span(reinterpret_cast<const std::uint8_t*>(words[w].data()), words[w].size());
    });
  }

  CtcWordOptions options_;
  std::vector<CtcPiece> pieces_;  // (labels)
  bool has_model_, closed_, constrained_ = false, by_label_ = false;
  TextTrie vocabulary_, hot_, written_;
  LabelTrie spelt_;
  std::vector<std::uint32_t> shortest_hot_;  // (nodes of hot_): letters of the shortest hot word
  std::vector<std::string> lexicon_words_;
};

}  // namespace trellis
