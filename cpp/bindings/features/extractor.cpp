// Binds core/features/extractor.hpp: reads Python tokens, and releases the GIL.
//
// Errors in the tokens are SequenceError, which names the sequence and the position.
#include "features/extractor.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>

#include "base/thread_pool.hpp"
#include "bindings/base/arrays.hpp"
#include "bindings/base/casters.hpp"
#include "bindings/base/gil.hpp"
#include "bindings/base/python_text.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"
#include "features/name_parser.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

using Part = std::tuple<std::int64_t, int, int>;  // offset, field, origin
using TemplateArgument = std::tuple<std::uint32_t, bool, std::vector<Part>>;
using FieldArgument = std::tuple<int, std::string, std::int64_t>;
using GazetteerArgument = std::tuple<int, int, std::vector<std::vector<std::string>>>;
using Outside = std::pair<std::vector<std::string>, std::vector<std::string>>;
using RowArrays = std::tuple<Numpy<std::int64_t>, Numpy<std::int32_t>>;  // begin, id

class Extractor {
 public:
  static constexpr int kMaxColumn = 65535;  // there is a list per column

  // derive(field, text) is a Python function. It is called for values that are not ASCII, and for
  // regular expressions.
  Extractor(const std::vector<FieldArgument>& fields, const std::vector<TemplateArgument>& templates,
            const std::optional<Outside>& outside, const std::vector<GazetteerArgument>& gazetteers,
            const std::string& flag, nb::object derive)
      : derive_(std::move(derive)) {
    ExtractorSpec spec;
    for (const auto& [column, kind, size] : fields) {
      require(0 <= column && column <= kMaxColumn, "fields: column must be 0 to 65535");
      require(size >= 0, "fields: size must not be negative");
      spec.fields.push_back({column, kind_of(kind), static_cast<std::size_t>(size)});
      columns_ = std::max(columns_, column + 1);
    }
    spec.yes = values_.intern(flag);
    spec.begins = values_.intern("B");
    spec.inside = values_.intern("I");
    derived_ = DerivedValues(fields.size());
    fields_ = spec.fields;
    const int max_parts = add_templates(templates, spec);
    if (outside) {
      spec.has_outside = true;
      for (const std::string& text : outside->first) spec.before.push_back(derive_all(text, true));
      for (const std::string& text : outside->second) spec.after.push_back(derive_all(text, true));
    }
    add_gazetteers(gazetteers, spec);
    extractor_.emplace(std::move(spec), max_parts);
    extractor_->freeze(values_.size());
  }

  // Returns the rows of attributes and of edge attributes. New attributes are added.
  std::tuple<RowArrays, RowArrays> learn(nb::handle sequences) {
    EncodedTokens x = encode(sequences, nullptr);
    ExtractedRows out;
    TemplateExtractor::Memory memory;
    {
      const ReleasedGil release;
      PollEvery poll(1 << 14);  // per sequence
      for (std::size_t i = 0; i + 1 < x.begin.size(); ++i) {
        poll.step();
        extractor_->learn({x, x.begin[i], x.begin[i + 1]}, derived_, memory, out);
      }
      extractor_->freeze(values_.size());
    }
    return {arrays(std::move(out.rows)), arrays(std::move(out.edges))};
  }

  // Returns rows as learn() does, but adds nothing: unknown attributes are omitted.
  std::tuple<RowArrays, RowArrays> extract(nb::handle sequences, int threads) const {
    require(threads > 0, "threads must be positive");
    StringTable fresh;
    const EncodedTokens x = encode_known(sequences, fresh);
    DerivedValues derived(fields_.size());
    for (std::uint32_t v = 0; v < fresh.size(); ++v)
      derived.push(derive_known(std::string(fresh.string(v))));
    const std::int64_t count = static_cast<std::int64_t>(x.begin.size()) - 1;
    constexpr std::int64_t kTaskTokens = 1024;  // tokens per task; chosen by hand
    const std::int64_t tasks = std::clamp<std::int64_t>(x.begin.back() / kTaskTokens, 1, 8 * threads);
    std::vector<ExtractedRows> parts(tasks);
    const ReleasedGil release;
    parallel_for(tasks, threads, [&] {
      return [&, this, memory = TemplateExtractor::Memory()](std::int64_t task) mutable {
        PollEvery poll(1 << 14);  // per sequence
        for (std::int64_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) {
          poll.step();
          extractor_->find({x, x.begin[i], x.begin[i + 1]}, derived_, derived, memory, parts[task]);
        }
      };
    });
    RowsOut all = join(parts, &ExtractedRows::rows), all_edges = join(parts, &ExtractedRows::edges);
    const nb::gil_scoped_acquire acquire;
    return {arrays(std::move(all)), arrays(std::move(all_edges))};
  }

  // Return the sizes of the tables.
  std::uint32_t attributes() const { return extractor_->attributes().size(); }
  std::uint32_t edge_attributes() const { return extractor_->edges().size(); }
  int key_size() const { return extractor_->attributes().stride(); }
  // Returns the longest run of used slots of all tables.
  std::size_t longest_run() const {
    return std::max({values_.longest_run(), raw_.longest_run(), extractor_->attributes().longest_run(),
                     extractor_->edges().longest_run()});
  }
  // Returns the keys of all attributes, (attributes, key_size), flat, as an argument of restore().
  Numpy<std::uint32_t> keys(bool edge) const {
    const auto& keys = (edge ? extractor_->edges() : extractor_->attributes()).keys();
    return to_array(std::vector<std::uint32_t>(keys.begin(), keys.end()));
  }
  // Returns all column values (raw) or derived values, as bytes and ends.
  std::tuple<Numpy<char>, Numpy<std::int64_t>> strings(bool raw) const {
    const StringTable& table = raw ? raw_ : values_;
    return {to_array(std::vector<char>(table.bytes())),
            to_array(std::vector<std::int64_t>(table.ends()))};
  }

  // Replaces all learned values and attributes. Keys are (attributes, key_size), flat.
  void restore(const std::vector<std::string>& values, const std::vector<std::string>& raw,
               const In<std::uint32_t>& keys, const In<std::uint32_t>& edge_keys) {
    const std::uint32_t built_in = values_.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      require(values_.intern(values[i]) == i,
              "values: a string is repeated, or the values belong to another extractor");
    }
    require(values_.size() == std::max<std::size_t>(built_in, values.size()),
            "values: too few for this extractor");
    add_keys(keys, false);
    add_keys(edge_keys, true);
    for (const std::string& text : raw) {
      require(raw_.intern(text) == derived_.size(), "raw: a string is repeated");
      derived_.push(derive_known(text));
    }
    extractor_->freeze(values_.size());
  }

  // Adds attributes by the names that other programs use. Name i is data[begin[i] : begin[i] + size[i]];
  // only the names in `which` are added. `literals` holds the fixed text of every template. Each name is
  // parsed with the templates whose indices are in `numbers`. If a name can be parsed in several ways,
  // each way gives an attribute. Returns, for each new attribute, the index of its name in `which`.
  Numpy<std::int64_t> add_names(const In<std::uint8_t>& data, const In<std::int64_t>& begin,
                                const In<std::int64_t>& size, const In<std::int64_t>& which,
                                const std::vector<NameParser::Literals>& literals,
                                const std::vector<std::uint32_t>& numbers, bool edge) {
    KeyTable& table = edge ? extractor_->edges() : extractor_->attributes();
    const auto stride = static_cast<std::size_t>(table.stride());
    for (const auto& texts : literals)
      require(texts.size() <= stride, "literals: a template has too many literals");
    require(size.shape(0) == begin.shape(0), "begin and size must have the same length");
    const auto count = static_cast<std::int64_t>(which.shape(0));
    std::vector<std::int64_t> source;
    std::vector<std::uint32_t> key(stride);
    NameParser parser(literals, numbers);
    table.reserve(table.size() + static_cast<std::size_t>(count));
    source.reserve(static_cast<std::size_t>(count));
    const HeldGil held;
    PollEvery poll(1 << 10);
    for (std::int64_t i = 0; i < count; ++i) {
      poll.step();
      const std::string_view name = string_at(data, begin, size, which.data()[i]);
      const std::size_t readings =
          parser.for_each_reading(name, [&](std::uint32_t n, const auto& values) {
            std::fill(key.begin(), key.end(), kNone);
            key[0] = n;
            for (std::size_t p = 0; p < values.size(); ++p) key[p + 1] = values_.intern(values[p]);
            const std::uint32_t before = table.size();
            if (table.intern(key.data(), table.hash(key.data())) != before)
              throw std::invalid_argument("two features have the name " + NameParser::quoted(name));
            source.push_back(i);
          });
      if (readings == 0) {
        throw std::invalid_argument(NameParser::quoted(name) + " fits none of the " +
                                    std::to_string(numbers.size()) + " templates");
      }
      if (static_cast<std::int64_t>(source.size()) > 2 * (i + 1) + kSpareReadings) {
        throw std::invalid_argument("too many names, up to " + NameParser::quoted(name) +
                                    ", can be parsed in several ways");
      }
    }
    extractor_->freeze(values_.size());
    return to_array(std::move(source));
  }

 private:
  // The names together may have two readings (ways to parse them) per name, plus this number. With more,
  // the literals are too ambiguous, and memory would grow.
  static constexpr std::int64_t kSpareReadings = 1 << 16;

  // Adds the templates and returns the largest number of parts of a template.
  int add_templates(const std::vector<TemplateArgument>& templates, ExtractorSpec& spec) const {
    int max_parts = 0;
    for (const auto& [literals, edge, parts] : templates) {
      AttributeTemplate next{.literals = literals, .edge = edge, .parts = {}};
      for (const auto& [offset, field, origin] : parts) {
        require(0 <= field && field < static_cast<int>(fields_.size()), "templates: field out of range");
        require(0 <= origin && origin <= 2, "templates: origin out of range");
        next.parts.push_back({.offset = offset, .field = field, .origin = static_cast<Origin>(origin)});
      }
      max_parts = std::max(max_parts, static_cast<int>(parts.size()));
      spec.templates.push_back(std::move(next));
    }
    return max_parts;
  }

  void add_gazetteers(const std::vector<GazetteerArgument>& gazetteers, ExtractorSpec& spec) {
    const int count = static_cast<int>(fields_.size());
    for (const auto& [field, text_field, phrases] : gazetteers) {
      require(0 <= field && field < count && 0 <= text_field && text_field < count,
              "gazetteers: field out of range");
      Gazetteer g{.field = field, .text_field = text_field, .phrases = {}};
      for (const auto& phrase : phrases) {
        g.phrases.emplace_back();
        for (const std::string& word : phrase) g.phrases.back().push_back(values_.intern(word));
      }
      std::sort(g.phrases.begin(), g.phrases.end());
      spec.gazetteers.push_back(std::move(g));
    }
  }

  // Returns name i. Offsets come from a file, so they are checked here.
  static std::string_view string_at(const In<std::uint8_t>& data, const In<std::int64_t>& begin,
                                    const In<std::int64_t>& size, std::int64_t i) {
    const auto bytes = static_cast<std::int64_t>(data.shape(0));
    require(0 <= i && i < static_cast<std::int64_t>(begin.shape(0)), "which: an index is out of range");
    const std::int64_t at = begin.data()[i], length = size.data()[i];
    require(0 <= at && 0 <= length && at <= bytes && length <= bytes - at, "a name ends past the data");
    return {reinterpret_cast<const char*>(data.data()) + at, static_cast<std::size_t>(length)};
  }

  static RowArrays arrays(RowsOut&& rows) {
    return {to_array(std::move(rows.begin)), to_array(std::move(rows.id))};
  }

  // Joins the rows of consecutive tasks.
  static RowsOut join(const std::vector<ExtractedRows>& parts, RowsOut ExtractedRows::* which) {
    RowsOut all;
    for (const ExtractedRows& extracted : parts) {
      const RowsOut& part = extracted.*which;
      const auto before = static_cast<std::int64_t>(all.id.size());
      all.id.insert(all.id.end(), part.id.begin(), part.id.end());
      for (std::size_t i = 1; i < part.begin.size(); ++i) all.begin.push_back(before + part.begin[i]);
    }
    return all;
  }

  // Adds keys to a table. Keys come from a file, so every value number is checked.
  void add_keys(const In<std::uint32_t>& keys, bool edge) {
    KeyTable& table = edge ? extractor_->edges() : extractor_->attributes();
    const int stride = table.stride();
    require(keys.shape(0) % stride == 0, "keys: the size must be a multiple of key_size");
    const HeldGil held;
    PollEvery poll(256);
    std::vector<std::uint32_t> key(static_cast<std::size_t>(stride));  // a copy, which cannot change
    for (std::size_t i = 0; i < keys.shape(0); i += stride) {
      poll.step();
      std::copy_n(keys.data() + i, stride, key.begin());
      const std::uint32_t before = table.size();
      for (int p = 1; p < stride; ++p)
        require(key[p] == kNone || key[p] < values_.size(), "keys: a value is out of range");
      require(table.intern(key.data(), table.hash(key.data())) == before,
              "keys: an attribute is repeated");
    }
  }

  // Returns the values that all fields derive from a text. New values are added if `learn`, otherwise
  // they become kNone.
  std::vector<std::uint32_t> derive_all(const std::string& text, bool learn) {
    return derive_with(text,
                       [&](std::string_view s) { return learn ? values_.intern(s) : values_.find(s); });
  }
  std::vector<std::uint32_t> derive_known(const std::string& text) const {
    return derive_with(text, [&](std::string_view s) { return values_.find(s); });
  }

  template <class Number>
  std::vector<std::uint32_t> derive_with(const std::string& text, const Number& number) const {
    std::vector<std::uint32_t> field_values(fields_.size(), kNone);
    const bool plain = is_ascii(text);
    std::string derived;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].positional()) continue;
      derived.clear();
      if (fields_[f].kind != Kind::python && (plain || fields_[f].kind == Kind::value)) {
        if (ascii::derive(fields_[f], text, derived)) field_values[f] = number(derived);
        continue;
      }
      const nb::object result = derive_(f, text);
      if (!result.is_none()) field_values[f] = number(nb::cast<std::string>(result));
    }
    return field_values;
  }

  // Calls use(column, text) for all columns of all tokens, and close() after each sequence.
  template <class Use, class Close>
  void read(nb::handle sequences, const Use& use, const Close& close) const {
    const HeldGil held;
    const Items all(sequences.ptr());
    require(all.valid(), "X must be a list of sequences");
    PollEvery poll(1 << 10);  // per token
    for (Py_ssize_t i = 0; i < all.size(); ++i) {
      const Items tokens(all[i]);
      if (!tokens.valid()) {
        throw SequenceError(i, "sequence {sequence} must be a list of tokens, not " + type_name(all[i]));
      }
      for (Py_ssize_t t = 0; t < tokens.size(); ++t) {
        poll.step();
        prefetch_tokens(tokens, t);
        read_token(tokens[t], i, t, use);
      }
      close();
    }
  }

  // Prefetches tokens, which are scattered in memory: first the objects, later the strings of tuples.
  // The distances were chosen by hand.
  void prefetch_tokens(const Items& tokens, Py_ssize_t t) const {
    constexpr Py_ssize_t kObjectAhead = 8, kStringsAhead = 4;
    if (t + kObjectAhead < tokens.size()) __builtin_prefetch(tokens[t + kObjectAhead]);
    if (t + kStringsAhead >= tokens.size() || !PyTuple_Check(tokens[t + kStringsAhead])) return;
    PyObject* token = tokens[t + kStringsAhead];
    const Py_ssize_t columns = std::min<Py_ssize_t>(columns_, PyTuple_GET_SIZE(token));
    for (Py_ssize_t c = 0; c < columns; ++c) __builtin_prefetch(PyTuple_GET_ITEM(token, c));
  }

  template <class Use>
  void read_token(PyObject* token, Py_ssize_t i, Py_ssize_t t, const Use& use) const {
    std::string_view text;
    if (PyUnicode_Check(token)) {
      if (columns_ > 1)
        fail(i, t, "the features need " + std::to_string(columns_) + " columns, this token has 1");
      if (!text_of(token, &text)) fail(i, t, "the token has surrogates and cannot be encoded");
      return use(0, text);
    }
    if (!PyTuple_Check(token))
      fail(i, t, "a token must be a str or a tuple of str, not " + type_name(token));
    if (PyTuple_GET_SIZE(token) < columns_) {
      fail(i, t,
           "the features need " + std::to_string(columns_) + " columns, this token has " +
               std::to_string(PyTuple_GET_SIZE(token)));
    }
    for (int c = 0; c < columns_; ++c) {
      if (!text_of(PyTuple_GET_ITEM(token, c), &text)) {
        fail(i, t,
             "column " + std::to_string(c) + " must be a str, not " +
                 type_name(PyTuple_GET_ITEM(token, c)));
      }
      use(c, text);
    }
  }

  // Returns the numbers of all column values; new values are added.
  EncodedTokens encode(nb::handle sequences, std::nullptr_t) {
    EncodedTokens x;
    x.columns.resize(columns_);
    read(
        sequences,
        [&](int column, std::string_view text) {
          std::uint32_t id = raw_.find(text);
          if (id == kNone) {  // derive_all() can throw, so it comes before all changes
            const std::vector<std::uint32_t> field_values = derive_all(std::string(text), true);
            id = raw_.intern(text);
            derived_.push(field_values);
          }
          x.columns[column].push_back(id);
        },
        [&] { x.begin.push_back(static_cast<std::int64_t>(x.columns[0].size())); });
    return x;
  }

  // Returns numbers as encode() does, but does not change this object: new values are added to `fresh`,
  // and their numbers follow those of the known values.
  EncodedTokens encode_known(nb::handle sequences, StringTable& fresh) const {
    EncodedTokens x;
    x.columns.resize(columns_);
    read(
        sequences,
        [&](int column, std::string_view text) {
          const std::uint32_t id = raw_.find(text);
          x.columns[column].push_back(id != kNone ? id : raw_.size() + fresh.intern(text));
        },
        [&] { x.begin.push_back(static_cast<std::int64_t>(x.columns[0].size())); });
    return x;
  }

  nb::object derive_;
  int columns_ = 1;  // the number of columns that tokens must have
  std::vector<Field> fields_;
  StringTable values_;  // the values derived by fields
  StringTable raw_;     // the values of columns
  DerivedValues derived_;
  std::optional<TemplateExtractor> extractor_;
};

}  // namespace
}  // namespace trellis

void bind_features(nb::module_& m) {
  using namespace trellis;
  nb::class_<Extractor>(m, "Extractor")
      .def(nb::init<const std::vector<FieldArgument>&, const std::vector<TemplateArgument>&,
                    const std::optional<Outside>&, const std::vector<GazetteerArgument>&,
                    const std::string&, nb::object>(),
           nb::arg("fields"), nb::arg("templates"), nb::arg("outside").none(), nb::arg("gazetteers"),
           nb::arg("flag"), nb::arg("derive"))
      .def("learn", &Extractor::learn, nb::arg("sequences").none())
      .def("extract", &Extractor::extract, nb::arg("sequences").none(), nb::arg("threads"))
      .def("keys", &Extractor::keys, nb::arg("edge"))
      .def("strings", &Extractor::strings, nb::arg("raw"))
      .def("restore", &Extractor::restore)
      .def("add_names", &Extractor::add_names, nb::arg("data"), nb::arg("begin"), nb::arg("size"),
           nb::arg("which"), nb::arg("literals"), nb::arg("numbers"), nb::arg("edge"))
      .def_prop_ro("attributes", &Extractor::attributes)
      .def_prop_ro("edge_attributes", &Extractor::edge_attributes)
      .def_prop_ro("key_size", &Extractor::key_size)
      .def_prop_ro("longest_run", &Extractor::longest_run);
}
