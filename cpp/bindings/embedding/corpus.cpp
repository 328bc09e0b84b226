// Binds the text side of embeddings, subwords and the corpus: checks arguments, and releases the GIL.
#include "embedding/corpus.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/base/arrays.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/python_text.hpp"
#include "bindings/bindings.hpp"
#include "embedding/subwords.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// Returns the UTF-8 bytes of a str, or bytes unchanged.
std::string_view word_of(PyObject* object, Py_ssize_t i) {
  std::string_view text;
  if (PyBytes_Check(object))
    return {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
  if (!text_of(object, &text)) {
    throw std::invalid_argument("word " + std::to_string(i) + " must be a str or bytes, not " +
                                type_name(object));
  }
  return text;
}

// Returns the items of a list of words.
Items words_of(nb::handle words) {
  Items items(words.ptr());
  require(items.valid(), "words must be a list");
  return items;
}

// Returns (begin, bucket): the character n-grams of word i have the buckets bucket[begin[i] .. begin[i +
// 1]).
std::pair<Numpy<std::int64_t>, Numpy<std::int32_t>> subword_ids(nb::handle words, int shortest,
                                                                int longest, std::int64_t buckets) {
  require(buckets > 0 && buckets <= std::numeric_limits<std::int32_t>::max(), "bucket must be positive");
  const Items items = words_of(words);
  const HeldGil held;
  PollEvery poll(32);  // per n-gram: a word can have millions
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> bucket;
  std::string scratch;
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    poll.step();
    for_each_subword(word_of(items[i], i), shortest, longest, scratch, [&](std::string_view gram) {
      poll.step();
      bucket.push_back(
          static_cast<std::int32_t>(subword_hash(gram) % static_cast<std::uint64_t>(buckets)));
    });
    begin.push_back(static_cast<std::int64_t>(bucket.size()));
  }
  return {to_array(std::move(begin)), to_array(std::move(bucket))};
}

// Returns the character n-grams of a word as text, in the order of subword_ids.
nb::list subwords(nb::handle word, int shortest, int longest) {
  const HeldGil held;
  PollEvery poll(1 << 10);  // per n-gram
  nb::list grams;
  std::string scratch;
  for_each_subword(word_of(word.ptr(), 0), shortest, longest, scratch, [&](std::string_view gram) {
    poll.step();
    const nb::object text =
        nb::steal(PyUnicode_DecodeUTF8(gram.data(), static_cast<Py_ssize_t>(gram.size()), "replace"));
    if (!text.is_valid()) throw nb::python_error();
    grams.append(text);
  });
  return grams;
}

// Returns the fastText hash of each word.
Numpy<std::uint32_t> word_hashes(nb::handle words) {
  const Items items = words_of(words);
  const HeldGil held;
  PollEvery poll(256);
  std::vector<std::uint32_t> hash;
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    poll.step();
    hash.push_back(subword_hash(word_of(items[i], i)));
  }
  return to_array(std::move(hash));
}

// Creates a corpus. It allows at most 1024 threads, because each thread has its own table.
void make_corpus(Corpus* self, int threads, bool end_words, std::int64_t memory) {
  require(threads > 0 && threads <= 1024, "threads must be 1 to 1024");
  new (self) Corpus(threads, end_words, memory);
}

void add_text(Corpus& corpus, const nb::bytes& text) {
  const std::string_view view(text.c_str(), text.size());
  const ReleasedGil release;
  corpus.add_text(view);
}

// Adds lists of str; `first` is the number of the first sentence, for error messages.
void add_sentences(Corpus& corpus, nb::handle sentences, std::int64_t first) {
  const HeldGil held;
  PollEvery poll(256);  // per word
  const Items all(sentences.ptr());
  require(all.valid(), "sentences must be a list");
  for (Py_ssize_t i = 0; i < all.size(); ++i) {
    const Items words(all[i]);
    if (!words.valid()) {
      throw SequenceError(first + i, std::string("sequence {sequence} must be a list of str, not ") +
                                         Py_TYPE(all[i])->tp_name);
    }
    for (Py_ssize_t t = 0; t < words.size(); ++t) {
      poll.step();
      std::string_view text;
      if (!text_of(words[t], &text))
        fail(first + i, t, "a word must be a str, not " + type_name(words[t]));
      corpus.add_word(text);
    }
    corpus.end_sentence();
  }
}

// Returns the most frequent words: their bytes one after the other, where each word ends, counts, and
// types.
std::tuple<Numpy<char>, Numpy<std::int64_t>, Numpy<std::int64_t>, Numpy<std::int32_t>> common_words(
    const Corpus& corpus, std::int64_t min_count, std::int64_t max_words) {
  const HeldGil held;
  std::vector<char> bytes;
  std::vector<std::int64_t> ends{0}, counts;
  std::vector<std::int32_t> types;
  for (const std::uint32_t type : corpus.common_types(min_count, max_words)) {
    const std::string_view word = corpus.types().string(type);
    bytes.insert(bytes.end(), word.begin(), word.end());
    ends.push_back(static_cast<std::int64_t>(bytes.size()));
    counts.push_back(corpus.counts()[type]);
    types.push_back(static_cast<std::int32_t>(type));
  }
  return {to_array(std::move(bytes)), to_array(std::move(ends)), to_array(std::move(counts)),
          to_array(std::move(types))};
}

// Sets the number that training reads for each type. numbers is (types); -1 omits the type.
void number_types(Corpus& corpus,
                  const nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig>& numbers) {
  corpus.number(std::vector<std::int32_t>(numbers.data(), numbers.data() + numbers.shape(0)));
}

// Returns the number of words before each chunk, (chunks + 1).
Numpy<std::int64_t> chunk_words(const Corpus& corpus) {
  std::vector<std::int64_t> before;
  for (const Corpus::Chunk& chunk : corpus.chunks()) before.push_back(chunk.words_before);
  before.push_back(corpus.words());
  return to_array(std::move(before));
}

}  // namespace
}  // namespace trellis

void bind_embeddings(nb::module_& m) {
  using namespace trellis;
  m.def("subword_ids", &subword_ids, nb::arg("words"), nb::arg("minn"), nb::arg("maxn"),
        nb::arg("bucket"));
  m.def("subwords", &subwords, nb::arg("word"), nb::arg("minn"), nb::arg("maxn"));
  m.def("word_hashes", &word_hashes, nb::arg("words"));
  nb::class_<Corpus>(m, "Corpus")
      .def("__init__", &make_corpus, nb::arg("threads"), nb::arg("end_words") = false,
           nb::arg("memory") = std::int64_t{1} << 25)
      .def("add_text", &add_text, nb::arg("text"))
      .def("end_text", &Corpus::end_text, nb::call_guard<ReleasedGil>())
      .def("add_sentences", &add_sentences, nb::arg("sentences"), nb::arg("first"))
      .def("finish", &Corpus::finish, nb::call_guard<ReleasedGil>())
      .def("common_words", &common_words, nb::arg("min_count"), nb::arg("max_words"))
      .def("number", &number_types, nb::arg("numbers"))
      .def("chunk_words", &chunk_words)
      .def_prop_ro("words", &Corpus::words)
      .def_prop_ro("lines", &Corpus::lines)
      .def_prop_ro("longest_run", [](const Corpus& corpus) { return corpus.types().longest_run(); })
      .def_prop_ro("types", [](const Corpus& corpus) { return corpus.types().size(); });
}
