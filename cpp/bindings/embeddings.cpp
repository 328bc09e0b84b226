// Word embeddings: shapes, dtypes and the GIL.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <limits>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "bindings.hpp"
#include "python_text.hpp"
#include "subwords.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// A str as UTF-8, or bytes as they are.
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

Items words_of(nb::handle words) {
  Items items(words.ptr());
  require(items.valid(), "words must be a list");
  return items;
}

// Buckets of the character n-grams of words: those of word i are bucket[begin[i] .. begin[i + 1]).
std::pair<Numpy<std::int64_t>, Numpy<std::int32_t>> subword_ids(nb::handle words, int shortest, int longest,
                                                                std::int64_t buckets) {
  require(buckets > 0 && buckets <= std::numeric_limits<std::int32_t>::max(), "bucket must be positive");
  const Items items = words_of(words);
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> bucket;
  std::string scratch;
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    for_each_subword(word_of(items[i], i), shortest, longest, scratch, [&](std::string_view gram) {
      bucket.push_back(static_cast<std::int32_t>(subword_hash(gram) % static_cast<std::uint64_t>(buckets)));
    });
    begin.push_back(static_cast<std::int64_t>(bucket.size()));
  }
  return {to_array(std::move(begin)), to_array(std::move(bucket))};
}

// The character n-grams themselves, in the order of subword_ids.
nb::list subwords(nb::handle word, int shortest, int longest) {
  nb::list grams;
  std::string scratch;
  for_each_subword(word_of(word.ptr(), 0), shortest, longest, scratch, [&](std::string_view gram) {
    grams.append(nb::steal(PyUnicode_DecodeUTF8(gram.data(), static_cast<Py_ssize_t>(gram.size()), "replace")));
  });
  return grams;
}

Numpy<std::uint32_t> word_hashes(nb::handle words) {
  const Items items = words_of(words);
  std::vector<std::uint32_t> hash;
  for (Py_ssize_t i = 0; i < items.size(); ++i) hash.push_back(subword_hash(word_of(items[i], i)));
  return to_array(std::move(hash));
}

// Buckets of the runs of 2 .. longest words of one text, by the words' hashes.
Numpy<std::int32_t> word_ngram_ids(const nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig>& hashes,
                                   int longest, std::int64_t buckets) {
  require(buckets > 0 && buckets <= std::numeric_limits<std::int32_t>::max(), "bucket must be positive");
  std::vector<std::int32_t> bucket;
  for_each_word_ngram(hashes.data(), static_cast<std::int64_t>(hashes.shape(0)), longest,
                      static_cast<std::uint64_t>(buckets), [&](std::int32_t b) { bucket.push_back(b); });
  return to_array(std::move(bucket));
}

}  // namespace
}  // namespace trellis

void bind_embeddings(nb::module_& m) {
  using namespace trellis;
  m.def("subword_ids", &subword_ids, nb::arg("words"), nb::arg("minn"), nb::arg("maxn"), nb::arg("bucket"));
  m.def("subwords", &subwords, nb::arg("word"), nb::arg("minn"), nb::arg("maxn"));
  m.def("word_hashes", &word_hashes, nb::arg("words"));
  m.def("word_ngram_ids", &word_ngram_ids, nb::arg("hashes"), nb::arg("longest"), nb::arg("bucket"));
}
