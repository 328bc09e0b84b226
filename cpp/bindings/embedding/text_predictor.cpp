// Binds prediction of text labels: checks shapes and dtypes, reads Python texts, and releases the GIL.
#include "embedding/text_predictor.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "bindings/base/arrays.hpp"
#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/python_text.hpp"
#include "bindings/bindings.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::device::cpu>;  // rows of any stride
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::int64_t size(std::size_t n) { return static_cast<std::int64_t>(n); }

// The words of texts, and the objects that own their bytes.
class Texts {
 public:
  // Reads lists of str, and adds the end of the sentence to each.
  static Texts of_words(nb::handle texts) {
    const HeldGil held;
    PollEvery poll(256);  // per word
    Texts all(texts);
    for (Py_ssize_t i = 0; i < all.items_.size(); ++i) {
      const Items& words = all.owners_.emplace_back(all.items_[i]);
      if (!words.valid()) all.fail(i, all.items_[i]);
      TextWords& text_words = all.words_[static_cast<std::size_t>(i)];
      text_words.reserve(static_cast<std::size_t>(words.size()) + 1);
      for (Py_ssize_t t = 0; t < words.size(); ++t) {
        poll.step();
        text_words.push_back(all.word(words[t], i));
      }
      text_words.push_back(kEndOfSentence);
    }
    return all;
  }

  // Reads lines of bytes. Their labels are omitted.
  static Texts of_lines(nb::handle lines, const TextDictionary& dictionary, std::string_view prefix) {
    const HeldGil held;
    Texts all(lines);
    for (Py_ssize_t i = 0; i < all.items_.size(); ++i) {
      poll_interrupt();
      TextWords& text_words = all.words_[static_cast<std::size_t>(i)];
      dictionary.split(
          all.line(i), prefix, [&](std::string_view word) { text_words.push_back(word); },
          [](std::uint32_t) {});
    }
    return all;
  }

  const std::vector<TextWords>& words() const { return words_; }

 private:
  explicit Texts(nb::handle texts) : items_(texts.ptr()) {
    require(items_.valid(), "texts must be a list");
    words_.resize(static_cast<std::size_t>(items_.size()));
  }

  [[noreturn]] static void fail(Py_ssize_t i, PyObject* text) {
    throw SequenceError(
        i, std::string("text {sequence} is ") + Py_TYPE(text)->tp_name + ", not a str or a list of str");
  }

  std::string_view line(Py_ssize_t i) const {
    PyObject* bytes = items_[i];
    require(PyBytes_Check(bytes), "lines must be bytes");
    return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
  }

  // Returns the UTF-8 bytes of a word. Lone surrogates stand for the bytes of invalid UTF-8, as in
  // Python's surrogateescape.
  std::string_view word(PyObject* object, Py_ssize_t i) {
    std::string_view text;
    if (text_of(object, &text)) return text;
    if (!PyUnicode_Check(object)) {
      throw SequenceError(i, std::string("text {sequence} has a word that is ") +
                                 Py_TYPE(object)->tp_name + ", not a str");
    }
    nb::object bytes = nb::steal(PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape"));
    if (!bytes.is_valid()) {
      clear_expected({PyExc_UnicodeError});
      throw SequenceError(i, "text {sequence} has " + type_name(object));
    }
    text = {PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
    encoded_.push_back(std::move(bytes));
    return text;
  }

  Items items_;                      // the texts
  std::vector<Items> owners_;        // the words of each text
  std::vector<nb::object> encoded_;  // words that had to be encoded
  std::vector<TextWords> words_;
};

// A predictor and the arrays that it refers to.
struct Predictor {
  Bytes input;
  std::optional<Floats> centroids, norms;
  std::optional<Codes> norm_codes;
  TextPredictor core;
};

// Assigns numbers to a list of bytes. A repeated entry is an error with the message `twice`.
StringTable table_of(nb::handle strings, const char* twice) {
  const Items items(strings.ptr());
  require(items.valid(), "words and labels must be lists");
  const HeldGil held;
  PollEvery poll(256);
  StringTable table;
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    poll.step();
    require(PyBytes_Check(items[i]), "words and labels must be bytes");
    table.intern({PyBytes_AS_STRING(items[i]), static_cast<std::size_t>(PyBytes_GET_SIZE(items[i]))});
  }
  require(size(table.size()) == items.size(), twice);
  return table;
}

// Returns the loss by its name. Negative sampling ("ns") predicts in the same way as one-vs-all ("ova").
TextLoss loss_of(std::string_view name) {
  if (name == "softmax") return TextLoss::softmax;
  if (name == "hs") return TextLoss::hierarchical;
  require(name == "ova" || name == "ns", "unknown loss");
  return TextLoss::sigmoid;
}

// Returns a view of `input`, which has the bytes of floats or, with centroids, codes of groups of
// `width` columns.
TextMatrix matrix_of(const Bytes& input, std::int64_t dim, const std::optional<Floats>& centroids,
                     std::int64_t width, const std::optional<Codes>& norm_codes,
                     const std::optional<Floats>& norms) {
  TextMatrix m;
  m.rows = size(input.shape(0));
  m.dim = dim;
  const std::int64_t columns = size(input.shape(1));
  require(columns <= 1 || input.stride(1) == 1, "the bytes of a row must be contiguous");
  if (!centroids) {
    require(columns == 4 * dim, "input must have dim floats per row");
    m.dense = input.data();
    m.row_bytes = input.stride(0);
    return m;
  }
  require(width > 0 && columns == (dim + width - 1) / width,
          "input must have one code per group of columns");
  require(m.rows <= 1 || input.stride(0) == columns, "codes must be contiguous");
  require(size(centroids->shape(0)) == dim * kCentroids, "there must be 256 centroids per group");
  m.codes = input.data();
  m.groups = columns;
  m.width = width;
  m.centroids = centroids->data();
  if (!norm_codes) return m;
  require(norms && size(norm_codes->shape(0)) == m.rows && norms->shape(0) == kCentroids,
          "norm_codes must have one entry per row, norms 256");
  m.norm_codes = norm_codes->data();
  m.norms = norms->data();
  return m;
}

// Creates a predictor. Checks that words, labels, buckets and rows fit together, because the core
// indexes rows by them.
void make(Predictor* self, nb::handle words, nb::handle labels, int minn, int maxn, int word_ngrams,
          std::int64_t bucket, const std::optional<std::vector<std::uint32_t>>& kept, const Bytes& input,
          const std::optional<Floats>& centroids, std::int64_t width,
          const std::optional<Codes>& norm_codes, const std::optional<Floats>& norms,
          const Matrix& output, std::string_view loss, const std::vector<std::int64_t>& label_counts) {
  require(bucket >= 0 && bucket < std::numeric_limits<std::int32_t>::max(), "bucket is out of range");
  TextDictionary dictionary(table_of(words, "a word occurs twice"),
                            table_of(labels, "a label occurs twice"),
                            {.minn = minn,
                             .maxn = maxn,
                             .word_ngrams = word_ngrams,
                             .bucket = static_cast<std::uint32_t>(bucket)});
  if (kept) dictionary.prune(*kept);
  const std::int64_t dim = size(output.shape(1));
  require(dim > 0 && size(output.shape(0)) == dictionary.labels(), "output must have one row per label");
  const TextMatrix matrix = matrix_of(input, dim, centroids, width, norm_codes, norms);
  new (self) Predictor{
      input, centroids, norms, norm_codes,
      TextPredictor(std::move(dictionary), matrix, output.data(), loss_of(loss), label_counts)};
}

// Returns the best labels of each text. With `as_floats`, probabilities are rounded to floats, as in
// fastText.
nb::list best(const Predictor& self, const Texts& texts, std::int64_t k, double threshold, int threads,
              bool as_floats) {
  require(threads > 0, "threads must be positive");
  std::vector<TextPredictor::Answers> predictions;
  {
    const ReleasedGil release;
    predictions = self.core.best(texts.words(), k, threshold, threads);
  }
  nb::list all;
  for (const TextPredictor::Answers& answers : predictions) {
    nb::list pairs;
    for (const TextPredictor::Answer& answer : answers) {
      const double p = as_floats ? static_cast<double>(static_cast<float>(answer.p)) : answer.p;
      pairs.append(nb::make_tuple(answer.label, p));
    }
    all.append(std::move(pairs));
  }
  return all;
}

nb::list best_of_words(const Predictor& self, nb::handle texts, std::int64_t k, double threshold,
                       int threads) {
  return best(self, Texts::of_words(texts), k, threshold, threads, false);
}

nb::list best_of_lines(const Predictor& self, nb::handle lines, const nb::bytes& prefix, std::int64_t k,
                       double threshold, int threads) {
  const std::string_view start(prefix.c_str(), prefix.size());
  return best(self, Texts::of_lines(lines, self.core.dictionary(), start), k, threshold, threads, true);
}

// Returns the words of a line, including its end, and the numbers of its labels.
nb::tuple split(const Predictor& self, const nb::bytes& line, const nb::bytes& prefix) {
  nb::list words, labels;
  self.core.dictionary().split(
      {line.c_str(), line.size()}, {prefix.c_str(), prefix.size()},
      [&](std::string_view word) { words.append(nb::bytes(word.data(), word.size())); },
      [&](std::uint32_t label) { labels.append(label); });
  return nb::make_tuple(words, labels);
}

// Returns the mean of a line's rows, and the number of rows.
nb::tuple mean(const Predictor& self, const nb::bytes& line, const nb::bytes& prefix) {
  TextWords words;
  self.core.dictionary().split(
      {line.c_str(), line.size()}, {prefix.c_str(), prefix.size()},
      [&](std::string_view word) { words.push_back(word); }, [](std::uint32_t) {});
  std::vector<float> out(static_cast<std::size_t>(self.core.dim()));
  const std::int64_t count = self.core.mean(words, out.data());
  return nb::make_tuple(to_array(std::move(out)), count);
}

}  // namespace
}  // namespace trellis

void bind_text_predictor(nb::module_& m) {
  using namespace trellis;
  nb::class_<Predictor>(m, "TextPredictor")
      .def("__init__", &make, nb::arg("words"), nb::arg("labels"), nb::arg("minn"), nb::arg("maxn"),
           nb::arg("word_ngrams"), nb::arg("bucket"), nb::arg("kept").none(), nb::arg("input"),
           nb::arg("centroids").none(), nb::arg("width"), nb::arg("norm_codes").none(),
           nb::arg("norms").none(), nb::arg("output"), nb::arg("loss"), nb::arg("label_counts"))
      .def("best", &best_of_words, nb::arg("texts"), nb::arg("k"), nb::arg("threshold"),
           nb::arg("threads"))
      .def("best_of_lines", &best_of_lines, nb::arg("lines"), nb::arg("prefix"), nb::arg("k"),
           nb::arg("threshold"), nb::arg("threads"))
      .def("split", &split, nb::arg("line"), nb::arg("prefix"))
      .def("mean", &mean, nb::arg("line"), nb::arg("prefix"));
}
