// Compares the word search with enumeration of all paths: the text of each path, and the scores of its
// words from the language model.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ctc/word_decoder.hpp"
#include "dispatch.hpp"
#include "formats/arpa.hpp"
#include "tests/check.hpp"

using namespace trellis;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Text = std::vector<std::string>;

std::unique_ptr<NgramModel> tiny_model() {
  ArpaReader reader;
  reader.feed(
      "\\data\\\nngram 1=5\nngram 2=3\n\n\\1-grams:\n-99\t<s>\t-0.5\n-1\t</s>\n-0.25\ta\t-0.125\n"
      "-0.5\tb\t-0.25\n-0.75\tab\n\n\\2-grams:\n-0.75\t<s> a\n-0.2\ta b\n-0.1\tb </s>\n\n\\end\\\n");
  return reader.finish();
}

// Labels of a decoder: blank, boundary, a, b; or blank, pieces that begin a word, and other pieces.
struct Alphabet {
  std::vector<CtcPiece> pieces;
  std::int64_t space;
};
Alphabet characters() {
  return {.pieces = {{.text = ""}, {.text = " "}, {.text = "a"}, {.text = "b"}}, .space = 1};
}
Alphabet word_pieces() {
  return {.pieces = {{.text = ""},
                     {.text = "a", .starts = true},
                     {.text = "", .starts = true},
                     {.text = "b"},
                     {.text = "ab", .starts = true, .ends = true}},
          .space = -1};
}

// Returns the words of a labelling.
Text written(const Alphabet& alphabet, const std::vector<std::int64_t>& labels) {
  Text text;
  bool open = false;
  for (const std::int64_t label : labels) {
    const CtcPiece& piece = alphabet.pieces[label];
    if (label == alphabet.space || piece.starts) open = false;
    if (label == alphabet.space) continue;
    if (!open) text.emplace_back();
    text.back() += piece.text;
    open = !piece.ends;
  }
  std::erase(text, "");
  return text;
}

struct Setting {
  CtcWordOptions options;
  std::set<std::string> hot, lexicon;
  bool model;

  double score(const NgramModel& m, const Text& text) const {
    const double weight = options.alpha * std::log(10.0);
    double total = 0.0;
    NgramModel::State state = m.begin_state();
    for (const std::string& word : text) {
      if (hot.count(word) != 0) total += options.hot_weight;
      if (!model) continue;
      const std::uint32_t id = m.find(word);
      const NgramModel::Score s = m.score(state, id);
      total += weight * (s.log10 + (m.is_unknown(id) ? options.unknown : 0.0)) + options.beta;
      state = s.next;
    }
    return model ? total + weight * m.score(state, m.end()).log10 : total;
  }
  bool allows(const Text& text) const {
    return lexicon.empty() ||
           std::all_of(text.begin(), text.end(), [&](const auto& w) { return lexicon.count(w) != 0; });
  }
};

std::map<Text, double> enumerate(const Alphabet& alphabet, const std::vector<double>& x, std::size_t T) {
  const std::size_t V = alphabet.pieces.size();
  std::map<Text, double> mass;
  std::vector<std::size_t> path(T, 0);
  for (bool more = true; more;) {
    double score = 0.0;
    std::vector<std::int64_t> labels;
    for (std::size_t t = 0; t < T; ++t) {
      score += x[t * V + path[t]];
      if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) {
        labels.push_back(static_cast<std::int64_t>(path[t]));
      }
    }
    mass[written(alphabet, labels)] += std::exp(score);
    more = false;
    for (std::size_t t = 0; t < T && !more; ++t) {
      path[t] = (path[t] + 1) % V;
      more = path[t] != 0;
    }
  }
  return mass;
}

std::vector<std::string_view> views(const std::set<std::string>& words) {
  return {words.begin(), words.end()};
}

std::vector<CtcTimedTranscript> decode(const Alphabet& alphabet, const Setting& setting,
                                       const NgramModel& m, const std::vector<double>& x, std::size_t T,
                                       std::size_t min_nodes, bool only_best) {
  std::vector<std::string_view> vocabulary;
  for (std::uint32_t w = 0; setting.model && w < m.vocabulary(); ++w) vocabulary.push_back(m.word(w));
  CtcWords words(setting.options, alphabet.pieces, setting.model, vocabulary, views(setting.hot));
  if (!setting.lexicon.empty()) words.allow({setting.lexicon.begin(), setting.lexicon.end()});
  NgramWords model(m, m.begin_state(), true);
  CtcWordSearch search(words, kernels().ctc, min_nodes);
  search.begin(setting.model ? &model : nullptr, only_best);
  CtcWordDecoder<double> decoder(words, search, kernels().ctc, false);
  const auto V = static_cast<std::int64_t>(alphabet.pieces.size());
  const CtcInput<double> input{.scores = x.data(),
                               .frame_stride = V,
                               .length = static_cast<std::int64_t>(T),
                               .vocabulary = V,
                               .blank = 0};
  std::string stable;
  for (std::int64_t t = 0; t < input.length; ++t) {  // one frame at a time, as in a stream
    const CtcInput<double> frame{
        .scores = input.frame(t), .frame_stride = V, .length = 1, .vocabulary = V, .blank = 0};
    CHECK(decoder.feed(frame));
    const std::string now = search.stable();
    CHECK(now.substr(0, stable.size()) == stable);
    stable = now;
  }
  auto transcripts = decoder.finish(1 << 20, &input);
  for (const CtcTimedTranscript& f : transcripts) {
    std::string text;
    for (const std::string& word : f.transcript.words) text += (text.empty() ? "" : " ") + word;
    CHECK(text.substr(0, stable.size()) == stable || !setting.lexicon.empty());
  }
  return transcripts;
}

void check_against_enumeration(const Alphabet& alphabet, const Setting& setting, const NgramModel& m,
                               std::mt19937_64& random) {
  const std::size_t T = 5, V = alphabet.pieces.size();
  std::normal_distribution<double> normal(0.0, 2.0);
  std::vector<double> x(T * V);
  for (double& score : x) score = normal(random);
  const std::map<Text, double> mass = enumerate(alphabet, x, T);
  std::size_t allowed = 0;
  for (const auto& [text, p] : mass) allowed += setting.allows(text);
  for (const std::size_t min_nodes : {std::size_t{1}, std::size_t{1} << 20}) {
    const auto transcripts = decode(alphabet, setting, m, x, T, min_nodes, false);
    CHECK(transcripts.size() == allowed);
    for (std::size_t i = 0; i < transcripts.size(); ++i) {
      const CtcTranscript& f = transcripts[i].transcript;
      CHECK(setting.allows(f.words) && mass.count(f.words) == 1);
      CHECK_CLOSE(f.acoustic, std::log(mass.at(f.words)), 1e-10);
      CHECK_CLOSE(f.bonus, setting.score(m, f.words), 1e-6);
      CHECK(i == 0 || transcripts[i - 1].transcript.score() >= f.score());
      CHECK(transcripts[i].starts.size() == f.words.size() &&
            transcripts[i].ends.size() == f.words.size());
      CHECK(f.sizes.size() == f.words.size());
      for (std::size_t w = 0; w < f.words.size(); ++w) {
        CHECK(transcripts[i].starts[w] < transcripts[i].ends[w]);
        CHECK(w == 0 || transcripts[i].ends[w - 1] <= transcripts[i].starts[w]);
      }
    }
  }
  CHECK(decode(alphabet, setting, m, x, T, 1 << 20, true).size() <= allowed);
}

// Checks labels that neither start nor end words, without a language model: each labelling is one word,
// so prefix search must find the same. Nodes have so many children that they are stored in the hash
// table.
void check_many_labels(std::mt19937_64& random, std::size_t min_nodes) {
  const std::int64_t T = 3, V = 40;
  std::vector<CtcPiece> pieces(1);
  for (std::int64_t v = 1; v < V; ++v)
    pieces.push_back({.text = std::string(1, static_cast<char>('!' + v))});
  const CtcWordOptions options{.alpha = 0.0,
                               .beta = 0.0,
                               .unknown = 0.0,
                               .hot_weight = 0.0,
                               .least = -kInfinity,
                               .prune = -kInfinity,
                               .width = 1 << 20,
                               .blank = 0,
                               .space = -1};
  CtcWords words(options, pieces, false, {}, {});
  std::normal_distribution<double> normal(0.0, 2.0);
  std::vector<double> x(static_cast<std::size_t>(T * V));
  for (double& score : x) score = normal(random);
  const CtcInput<double> input{
      .scores = x.data(), .frame_stride = V, .length = T, .vocabulary = V, .blank = 0};
  CtcWordSearch search(words, kernels().ctc, min_nodes);
  search.begin(nullptr, false);
  CtcWordDecoder<double> decoder(words, search, kernels().ctc, false);
  CHECK(decoder.feed(input));
  std::map<std::string, double> acoustic;
  for (const CtcTimedTranscript& f : decoder.finish(1 << 20, nullptr)) {
    acoustic[f.transcript.words.empty() ? "" : f.transcript.words[0]] = f.transcript.acoustic;
  }
  const auto want = CtcPrefixSearch<double>(kernels().ctc, 1 << 20, -kInfinity).search(input, 1 << 20);
  CHECK(acoustic.size() == want.size());
  for (const CtcHypothesis& h : want) {
    std::string text;
    for (const std::int64_t label : h.labels) text += pieces[label].text;
    CHECK(acoustic.count(text) == 1);
    CHECK_CLOSE(acoustic[text], h.log_prob, 1e-12);
  }
}

// Checks words with the same spelling: the language model decides between them.
void check_spellings(const NgramModel& m) {
  const Alphabet alphabet = characters();
  const CtcWordOptions options{.alpha = 1.0,
                               .beta = 0.0,
                               .unknown = -10.0,
                               .hot_weight = 0.0,
                               .least = -kInfinity,
                               .prune = -kInfinity,
                               .width = 100,
                               .blank = 0,
                               .space = 1};
  std::vector<std::string_view> vocabulary;
  for (std::uint32_t w = 0; w < m.vocabulary(); ++w) vocabulary.push_back(m.word(w));
  CtcWords words(options, alphabet.pieces, true, vocabulary, {});
  words.allow({"b", "a", "ab"}, {{2}, {2}, {3, 2}});
  NgramWords model(m, m.begin_state(), true);
  CtcWordSearch search(words, kernels().ctc);
  search.begin(&model, false);
  CtcWordDecoder<double> decoder(words, search, kernels().ctc, true);
  const std::vector<double> x{0, 0, 9, 0, 0, 9, 0, 0, 0, 0, 9, 0};  // label 2, boundary, label 2
  CHECK(decoder.feed({.scores = x.data(), .frame_stride = 4, .length = 3, .vocabulary = 4, .blank = 0}));
  const auto best = decoder.finish(1, nullptr);
  // "<s> a" and "a b" are bigrams of the model
  CHECK(best.size() == 1 && best[0].transcript.words == (Text{"a", "b"}));
}

void check_trie() {
  const std::vector<std::string> words{"b", "", "abc", "ab", "abd", "b"};
  const TextTrie trie(6, [&](std::uint32_t w) {
    return std::span(reinterpret_cast<const std::uint8_t*>(words[w].data()), words[w].size());
  });
  CHECK(trie.size() == 6);
  CHECK(trie.words(TextTrie::kRoot).size() == 1 && trie.words(TextTrie::kRoot)[0] == 1);
  const std::uint32_t ab = trie.walk(TextTrie::kRoot, std::string("ab"));
  CHECK(ab != kNone && trie.words(ab).size() == 1 && trie.words(ab)[0] == 3);
  CHECK(trie.walk(ab, std::string("c")) != kNone && trie.walk(ab, std::string("x")) == kNone);
  CHECK(trie.walk(ab, std::string("xc")) == kNone);
  CHECK(trie.words(trie.walk(0, std::string("b"))).size() == 2);
  CHECK(trie.words(kNone).empty() && TextTrie().child(0, 'a') == kNone);
  const auto nearest =
      trie.nearest([&](std::uint32_t w) { return static_cast<std::uint32_t>(words[w].size()); });
  CHECK(nearest[trie.walk(0, std::string("a"))] == 2 && nearest[trie.walk(ab, std::string("d"))] == 3);
}

}  // namespace

int main() {
  const std::unique_ptr<NgramModel> m = tiny_model();
  std::mt19937_64 random(11);
  for (const Kernels* k : available_kernels()) {
    CHECK(use_kernels(k->name));
    for (const Alphabet& alphabet : {characters(), word_pieces()}) {
      const CtcWordOptions options{.alpha = 0.7,
                                   .beta = 1.5,
                                   .unknown = -10.0,
                                   .hot_weight = 3.0,
                                   .least = -kInfinity,
                                   .prune = -kInfinity,
                                   .width = 1 << 20,
                                   .blank = 0,
                                   .space = alphabet.space};
      for (int i = 0; i < 3; ++i) {
        for (const bool model : {false, true}) {
          check_against_enumeration(alphabet, {options, {}, {}, model}, *m, random);
          check_against_enumeration(alphabet, {options, {"b", "ab"}, {}, model}, *m, random);
          check_against_enumeration(alphabet, {options, {}, {"a", "ab", "abb"}, model}, *m, random);
        }
      }
    }
  }
  for (const std::size_t min_nodes : {1, 1 << 20}) check_many_labels(random, min_nodes);
  check_spellings(*m);
  check_trie();
  return failures() != 0;
}
