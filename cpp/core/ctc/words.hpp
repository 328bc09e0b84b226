// What a CTC decoder of words knows before it sees a frame: how labels are written, which words there
// are, and what a text is worth besides its sound.
//
//     score(text) = log p(text | frames) + sum over its words of
//                   alpha ln p(word | words before) + beta + hot words' weight
//
// and at the end alpha ln p(</s> | words). A word that is not in the vocabulary has `unknown` added to
// its log10 p. Of a word that has only begun, all that counts is whether some word, or some hot word,
// begins so.
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

// A language model as the search sees it.
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
  // `id` is the word's number in the vocabulary that the decoder was made with, or kNone.
  virtual Score score(State state, std::uint32_t id, std::string_view word) = 0;
  virtual double end(State state) = 0;  // log10 p(</s> | state)

  // A model may have a score of its own for a word that has only begun.
  virtual bool scores_beginnings() const { return false; }
  virtual double beginning(std::string_view) { return 0.0; }
};

class NgramWords : public WordModel {
 public:
  // Words come by their number in a vocabulary: `numbers` says which words of the model these are; if it
  // is null they are all words of the model, and if it is empty any of these is known. Texts begin with
  // `start`, and end with </s> if `ends`.
  NgramWords(const NgramModel& model, State start, bool ends,
             const std::vector<std::uint32_t>* numbers = nullptr)
      : model_(model), start_(start), ends_(ends), numbers_(numbers) {}
  State begin() override { return start_; }
  Score score(State state, std::uint32_t id, std::string_view word) override {
    // a word may be in the model and not in the vocabulary
    const std::uint32_t own = id == kNone           ? model_.find(word)
                              : numbers_ == nullptr ? id
                                                    : (*numbers_)[id];
    const bool open = numbers_ == nullptr || numbers_->empty();
    const NgramModel::Score found = model_.score(state, own);
    return {found.log10, found.next, (open || id != kNone) && !model_.is_unknown(own)};
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
  double least;  // labels below are not tried, but the best one is
  double prune;  // hypotheses that are worse than the best by more than this are dropped; <= 0
  std::int64_t width, blank, space;  // space is -1 where labels say themselves that a word begins
};

// How a label is written.
struct CtcPiece {
  std::string text;
  bool starts = false, ends = false;  // a word, whatever comes before or behind
  int letters = 0;
};

class CtcWords {
 public:
  static constexpr double kLetters = 6.0;  // an unknown word that is longer costs more

  // `vocabulary` are the words of the language model, by their number there; empty if it has no list,
  // unless it is `closed`: then there are no other words.
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

  // Only these words: as they are written, or word by word as a list of labels.
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

  // Where the letters of a word that has begun lead to in the three trees; kNone: nowhere.
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

  // What a word that has begun with so many letters is worth.
  double begun(const Place& place, int letters) const {
    if (letters == 0) return 0.0;
    if (place.hot != kNone) return options_.hot_weight * letters / shortest_hot_[place.hot];
    if (!has_model_ || !closed_ || place.vocabulary != kNone) return 0.0;
    return options_.unknown * (letters > kLetters ? letters / kLetters : 1.0);
  }

  std::span<const std::uint32_t> allowed(std::uint32_t lexicon) const {
    return by_label_ ? spelt_.words(lexicon) : written_.words(lexicon);
  }
  // The number in the vocabulary of the word that ends here, or kNone.
  std::uint32_t id(const Place& place) const { return first(vocabulary_.words(place.vocabulary)); }
  std::uint32_t id(std::string_view word) const {
    return first(vocabulary_.words(vocabulary_.walk(TextTrie::kRoot, word)));
  }
  bool is_hot(std::string_view word) const {
    return !hot_.words(hot_.walk(TextTrie::kRoot, word)).empty();
  }
  // The most that a label can add to a score.
  double most_gain() const {
    if (options_.alpha < 0.0 || options_.unknown > 0.0) return std::numeric_limits<double>::infinity();
    return (has_model_ ? std::max(0.0, options_.beta) : 0.0) +
           (hot_.empty() ? 0.0 : std::max(0.0, options_.hot_weight));
  }
  double word_score(double log10, bool known) const {
    constexpr double kLn10 = 2.302585092994045684;
    return options_.alpha * kLn10 * (log10 + (known ? 0.0 : options_.unknown)) + options_.beta;
  }
  double end_score(double log10) const { return options_.alpha * 2.302585092994045684 * log10; }

 private:
  static std::uint32_t first(std::span<const std::uint32_t> words) {
    return words.empty() ? kNone : words[0];
  }
  static TextTrie trie_of(std::span<const std::string_view> words) {
    return TextTrie(static_cast<std::uint32_t>(words.size()), [&](std::uint32_t w) {
      return std::span(reinterpret_cast<const std::uint8_t*>(words[w].data()), words[w].size());
    });
  }

  CtcWordOptions options_;
  std::vector<CtcPiece> pieces_;
  bool has_model_, closed_, constrained_ = false, by_label_ = false;
  TextTrie vocabulary_, hot_, written_;
  LabelTrie spelt_;
  std::vector<std::uint32_t> shortest_hot_;
  std::vector<std::string> lexicon_words_;
};

}  // namespace trellis
