// Feature extraction: reading Python's tokens, and the GIL; the work is in core/extractor.hpp.
//
// Errors are std::invalid_argument (ValueError) with a message that names the sequence and the position.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>

#include "arrays.hpp"
#include "bindings.hpp"
#include "extractor.hpp"
#include "thread_pool.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
[[noreturn]] void fail(std::int64_t sequence, std::int64_t position, const std::string& what) {
  throw std::invalid_argument("sequence " + std::to_string(sequence) + ", position " +
                              std::to_string(position) + ": " + what);
}

std::string type_name(PyObject* object) {
  return PyUnicode_Check(object) ? "a str with lone surrogates" : Py_TYPE(object)->tp_name;
}

// The text of a str; false if it is none, or has lone surrogates.
bool text_of(PyObject* object, std::string_view* text) {
  if (!PyUnicode_Check(object)) return false;
  if (PyUnicode_IS_COMPACT_ASCII(object)) {
    *text = {reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(object)),
             static_cast<std::size_t>(PyUnicode_GET_LENGTH(object))};
    return true;
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(object, &size);
  if (data == nullptr) {
    PyErr_Clear();
    return false;
  }
  *text = {data, static_cast<std::size_t>(size)};
  return true;
}

// A list or tuple as an array of objects, kept alive while in use.
class Items {
 public:
  explicit Items(PyObject* object) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return;
    // a list may be changed by code that runs while we read: a tuple of its own cannot
    owner_ = nb::steal(PySequence_Tuple(object));
    if (!owner_.is_valid()) throw nb::python_error();
    items_ = PySequence_Fast_ITEMS(owner_.ptr());
    size_ = PySequence_Fast_GET_SIZE(owner_.ptr());
  }
  bool valid() const { return owner_.is_valid(); }
  Py_ssize_t size() const { return size_; }
  PyObject* operator[](Py_ssize_t i) const { return items_[i]; }

 private:
  nb::object owner_;
  PyObject** items_ = nullptr;
  Py_ssize_t size_ = 0;
};

using Part = std::tuple<std::int64_t, int, int>;  // offset, field, origin
using TemplateArgument = std::tuple<std::uint32_t, bool, std::vector<Part>>;
using FieldArgument = std::tuple<int, std::string, std::int64_t>;
using GazetteerArgument = std::tuple<int, int, std::vector<std::vector<std::string>>>;
using Outside = std::pair<std::vector<std::string>, std::vector<std::string>>;
using RowArrays = std::tuple<Numpy<std::int64_t>, Numpy<std::int32_t>>;

class Extractor {
 public:
  // derive(field, text) is what Python makes of values that are not ASCII, and of regular expressions.
  Extractor(const std::vector<FieldArgument>& fields, const std::vector<TemplateArgument>& templates,
            const std::optional<Outside>& outside, const std::vector<GazetteerArgument>& gazetteers,
            const std::string& flag, nb::object derive)
      : derive_(std::move(derive)) {
    ExtractorSpec spec;
    for (const auto& [column, kind, size] : fields) {
      require(column >= 0 && size >= 0, "fields: column and size must not be negative");
      spec.fields.push_back({column, kind_of(kind), static_cast<std::size_t>(size)});
      columns_ = std::max(columns_, column + 1);
    }
    int most_parts = 0;
    for (const auto& [literals, edge, parts] : templates) {
      AttributeTemplate one{literals, edge, {}};
      for (const auto& [offset, field, origin] : parts) {
        require(0 <= field && field < static_cast<int>(fields.size()), "templates: no such field");
        require(0 <= origin && origin <= 2, "templates: no such origin");
        one.parts.push_back({offset, field, static_cast<Origin>(origin)});
      }
      most_parts = std::max(most_parts, static_cast<int>(parts.size()));
      spec.templates.push_back(std::move(one));
    }
    spec.yes = values_.intern(flag);
    spec.begins = values_.intern("B");
    spec.inside = values_.intern("I");
    derived_ = DerivedValues(fields.size());
    fields_ = spec.fields;
    if (outside) {
      spec.has_outside = true;
      for (const std::string& text : outside->first) spec.before.push_back(derive_all(text, true));
      for (const std::string& text : outside->second) spec.after.push_back(derive_all(text, true));
    }
    for (const auto& [field, text_field, phrases] : gazetteers) {
      const int count = static_cast<int>(fields.size());
      require(0 <= field && field < count && 0 <= text_field && text_field < count,
              "gazetteers: no such field");
      Gazetteer g{field, text_field, {}};
      for (const auto& phrase : phrases) {
        g.phrases.emplace_back();
        for (const std::string& word : phrase) g.phrases.back().push_back(values_.intern(word));
      }
      std::sort(g.phrases.begin(), g.phrases.end());
      spec.gazetteers.push_back(std::move(g));
    }
    extractor_.emplace(std::move(spec), most_parts);
    extractor_->freeze(values_.size());
  }

  // Rows of attributes and of edge attributes; those that are new become known.
  std::tuple<RowArrays, RowArrays> learn(nb::handle sequences) {
    EncodedTokens x = encode(sequences, nullptr);
    RowsOut rows, edges;
    TemplateExtractor::Memory memory;
    {
      const nb::gil_scoped_release release;
      for (std::size_t i = 0; i + 1 < x.begin.size(); ++i) {
        extractor_->learn(x, x.begin[i], x.begin[i + 1], derived_, memory, rows, edges);
      }
      extractor_->freeze(values_.size());
    }
    return {arrays(std::move(rows)), arrays(std::move(edges))};
  }

  // The same without learning: attributes that are not known are left out.
  std::tuple<RowArrays, RowArrays> extract(nb::handle sequences, int threads) const {
    require(threads > 0, "threads must be positive");
    StringTable fresh;
    const EncodedTokens x = encode_known(sequences, fresh);
    DerivedValues derived(fields_.size());
    for (std::uint32_t v = 0; v < fresh.size(); ++v)
      derived.push(derive_known(std::string(fresh.string(v))));
    const std::int64_t count = static_cast<std::int64_t>(x.begin.size()) - 1;
    const std::int64_t tasks = std::clamp<std::int64_t>(x.begin.back() / 1024, 1, 8 * threads);
    std::vector<RowsOut> rows(tasks), edges(tasks);
    const nb::gil_scoped_release release;
    parallel_for(tasks, threads, [&] {
      return [&, this, memory = TemplateExtractor::Memory()](std::int64_t task) mutable {
        for (std::int64_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) {
          extractor_->find(x, x.begin[i], x.begin[i + 1], derived_, derived, memory, rows[task],
                           edges[task]);
        }
      };
    });
    RowsOut all = join(rows), all_edges = join(edges);
    const nb::gil_scoped_acquire acquire;
    return {arrays(std::move(all)), arrays(std::move(all_edges))};
  }

  std::uint32_t attributes() const { return extractor_->attributes().size(); }
  std::uint32_t edge_attributes() const { return extractor_->edges().size(); }
  int key_size() const { return extractor_->attributes().stride(); }
  Numpy<std::uint32_t> keys(bool edge) const {
    const auto& keys = (edge ? extractor_->edges() : extractor_->attributes()).keys();
    return to_array(std::vector<std::uint32_t>(keys.begin(), keys.end()));
  }
  std::tuple<Numpy<char>, Numpy<std::int64_t>> strings(bool raw) const {
    const StringTable& table = raw ? raw_ : values_;
    return {to_array(std::vector<char>(table.bytes())),
            to_array(std::vector<std::int64_t>(table.ends()))};
  }

  // Replaces all that was learned. Strings are (bytes, ends); keys are (attributes, key size).
  void restore(const std::vector<std::string>& values, const std::vector<std::string>& raw,
               const In<std::uint32_t>& keys, const In<std::uint32_t>& edge_keys) {
    const std::uint32_t built_in = values_.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      require(values_.intern(values[i]) == i,
              "values: a string is repeated, or they are not those of this extractor");
    }
    require(values_.size() == std::max<std::size_t>(built_in, values.size()), "values: too few");
    add_keys(keys, false);
    add_keys(edge_keys, true);
    for (const std::string& text : raw) {
      require(raw_.intern(text) == derived_.size(), "raw: a string is repeated");
      derived_.push(derive_known(text));
    }
    extractor_->freeze(values_.size());
  }

 private:
  static RowArrays arrays(RowsOut&& rows) {
    return {to_array(std::move(rows.begin)), to_array(std::move(rows.id))};
  }

  static RowsOut join(const std::vector<RowsOut>& parts) {
    RowsOut all;
    for (const RowsOut& part : parts) {
      const auto before = static_cast<std::int64_t>(all.id.size());
      all.id.insert(all.id.end(), part.id.begin(), part.id.end());
      for (std::size_t i = 1; i < part.begin.size(); ++i) all.begin.push_back(before + part.begin[i]);
    }
    return all;
  }

  void add_keys(const In<std::uint32_t>& keys, bool edge) {
    KeyTable& table = edge ? extractor_->edges() : extractor_->attributes();
    const int stride = table.stride();
    require(keys.shape(0) % stride == 0, "keys: size");
    for (std::size_t i = 0; i < keys.shape(0); i += stride) {
      const std::uint32_t* key = keys.data() + i;
      const std::uint32_t before = table.size();
      for (int p = 1; p < stride; ++p)
        require(key[p] == kNone || key[p] < values_.size(), "keys: no such value");
      require(table.intern(key, table.hash(key)) == before, "keys: an attribute is repeated");
    }
  }

  std::vector<std::uint32_t> derive_all(const std::string& text, bool learn) {
    return derive_with(text,
                       [&](std::string_view s) { return learn ? values_.intern(s) : values_.find(s); });
  }
  std::vector<std::uint32_t> derive_known(const std::string& text) const {
    return derive_with(text, [&](std::string_view s) { return values_.find(s); });
  }

  template <class Number>
  std::vector<std::uint32_t> derive_with(const std::string& text, const Number& number) const {
    std::vector<std::uint32_t> of_fields(fields_.size(), kNone);
    const bool plain = is_ascii(text);
    std::string made;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].positional()) continue;
      made.clear();
      if (fields_[f].kind != Kind::python && (plain || fields_[f].kind == Kind::value)) {
        if (ascii::derive(fields_[f], text, made)) of_fields[f] = number(made);
        continue;
      }
      const nb::object result = derive_(f, text);
      if (!result.is_none()) of_fields[f] = number(nb::cast<std::string>(result));
    }
    return of_fields;
  }

  // Calls use(column, text) for all columns of all tokens, and close() after each sequence.
  template <class Use, class Close>
  void read(nb::handle sequences, const Use& use, const Close& close) const {
    const Items all(sequences.ptr());
    require(all.valid(), "X must be a list of sequences");
    for (Py_ssize_t i = 0; i < all.size(); ++i) {
      const Items tokens(all[i]);
      if (!tokens.valid()) {
        throw std::invalid_argument("sequence " + std::to_string(i) + " must be a list of tokens, not " +
                                    type_name(all[i]));
      }
      for (Py_ssize_t t = 0; t < tokens.size(); ++t) {
        fetch_ahead(tokens, t);
        read_token(tokens[t], i, t, use);
      }
      close();
    }
  }

  // Tokens lie all over the memory: ask for them before they are read.
  void fetch_ahead(const Items& tokens, Py_ssize_t t) const {
    if (t + 8 < tokens.size()) __builtin_prefetch(tokens[t + 8]);
    if (t + 4 >= tokens.size() || !PyTuple_Check(tokens[t + 4])) return;
    PyObject* token = tokens[t + 4];
    const Py_ssize_t columns = std::min<Py_ssize_t>(columns_, PyTuple_GET_SIZE(token));
    for (Py_ssize_t c = 0; c < columns; ++c) __builtin_prefetch(PyTuple_GET_ITEM(token, c));
  }

  template <class Use>
  void read_token(PyObject* token, Py_ssize_t i, Py_ssize_t t, const Use& use) const {
    std::string_view text;
    if (PyUnicode_Check(token)) {
      if (columns_ > 1)
        fail(i, t, "the features need " + std::to_string(columns_) + " columns, this token is a str");
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

  EncodedTokens encode(nb::handle sequences, std::nullptr_t) {
    EncodedTokens x;
    x.columns.resize(columns_);
    read(
        sequences,
        [&](int column, std::string_view text) {
          std::uint32_t id = raw_.find(text);
          if (id == kNone) {  // what derives may raise: then nothing has changed
            const std::vector<std::uint32_t> of_fields = derive_all(std::string(text), true);
            id = raw_.intern(text);
            derived_.push(of_fields);
          }
          x.columns[column].push_back(id);
        },
        [&] { x.begin.push_back(static_cast<std::int64_t>(x.columns[0].size())); });
    return x;
  }

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
  int columns_ = 1;
  std::vector<Field> fields_;
  StringTable values_;  // what fields have made
  StringTable raw_;     // what columns have held
  DerivedValues derived_;
  std::optional<TemplateExtractor> extractor_;
};

// ---- ready features

// The names of ready features, as python-crfsuite reads them: a str is an attribute; {"name": number}
// has that value, {"name": "text"} is the attribute name:text, True and False are 1 and 0, and what a
// dict, list or set under a name holds has that name before it.
class Vocabulary {
 public:
  using Arrays = std::tuple<Numpy<std::int64_t>, Numpy<std::int32_t>, std::optional<Numpy<double>>>;

  Arrays learn(nb::handle sequences) {
    return read(sequences, [this](Reading& r) {
      for (std::size_t k = 0; k < r.end.size(); ++k) r.found[k] = names_.intern(r.name_at(k));
    });
  }
  Arrays find(nb::handle sequences, int threads) const {
    require(threads > 0, "threads must be positive");
    return read(sequences, [this, threads](Reading& r) {
      const auto count = static_cast<std::int64_t>(r.end.size());
      const std::int64_t tasks = std::clamp<std::int64_t>(count / 1024, 1, 4 * threads);
      parallel_for(tasks, threads, [&] {
        return [&](std::int64_t task) {
          const std::int64_t begin = count * task / tasks, end = count * (task + 1) / tasks;
          names_.find_all(r.text.data(), r.end.data(), begin, end - begin, r.found.data());
        };
      });
    });
  }
  std::uint32_t size() const { return names_.size(); }
  std::tuple<Numpy<char>, Numpy<std::int64_t>> strings() const {
    return {to_array(std::vector<char>(names_.bytes())),
            to_array(std::vector<std::int64_t>(names_.ends()))};
  }
  void restore(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i)
      require(names_.intern(names[i]) == i, "names: one is repeated");
  }

 private:
  // Names and values as they are read, a block of sequences at a time: what they are called is then
  // looked up without Python.
  struct Reading {
    std::string text;                // names, one after the other
    std::vector<std::uint32_t> end;  // of each name in the text
    std::vector<double> value;       // of each name
    std::vector<std::int64_t> row;   // names up to the end of each position
    std::vector<std::uint32_t> found;
    std::string name;
    std::int64_t sequence = 0, position = 0;

    std::string_view name_at(std::size_t k) const {
      const std::uint32_t from = k == 0 ? 0 : end[k - 1];
      return std::string_view(text).substr(from, end[k] - from);
    }
    void clear() {
      text.clear();
      end.clear();
      value.clear();
      row.clear();
    }
  };

  struct Result {
    std::vector<std::int64_t> begin{0};
    std::vector<std::int32_t> id;
    std::vector<double> value;
    bool plain = true;  // all values are 1

    void take(const Reading& r) {
      std::size_t k = 0;
      for (const std::int64_t stop : r.row) {
        for (; k < static_cast<std::size_t>(stop); ++k) {
          if (r.found[k] == kNone) continue;
          plain = plain && r.value[k] == 1.0;
          id.push_back(static_cast<std::int32_t>(r.found[k]));
          value.push_back(r.value[k]);
        }
        begin.push_back(static_cast<std::int64_t>(id.size()));
      }
    }
  };

  static constexpr std::size_t kBlockBytes = 1 << 20;

  template <class LookUp>
  static Arrays read(nb::handle sequences, const LookUp& look_up) {
    const Items all(sequences.ptr());
    require(all.valid(), "X must be a list of sequences");
    Reading r;
    Result result;
    const auto flush = [&] {
      r.found.resize(r.end.size());
      const nb::gil_scoped_release release;
      look_up(r);
      result.take(r);
      r.clear();
    };
    for (Py_ssize_t i = 0; i < all.size(); ++i) {
      const Items tokens(all[i]);
      if (!tokens.valid()) {
        throw std::invalid_argument("sequence " + std::to_string(i) + " must be a list of tokens, not " +
                                    type_name(all[i]));
      }
      r.sequence = i;
      for (Py_ssize_t t = 0; t < tokens.size(); ++t) {
        r.position = t;
        r.name.clear();
        if (PyUnicode_Check(tokens[t])) fail(i, t, "ready features expected, got a str");
        add(tokens[t], r, 0);
        r.row.push_back(static_cast<std::int64_t>(r.end.size()));
        if (r.text.size() >= kBlockBytes) flush();
      }
    }
    flush();
    std::optional<Numpy<double>> values;
    if (!result.plain) values = to_array(std::move(result.value));
    return {to_array(std::move(result.begin)), to_array(std::move(result.id)), values};
  }

  static void emit(Reading& r, std::string_view name, double value) {
    if (!std::isfinite(value)) {
      fail(r.sequence, r.position, "the value of " + std::string(name) + " is not finite");
    }
    if (r.text.size() + name.size() > 0xffffffff) fail(r.sequence, r.position, "4 GiB of features");
    r.text.append(name);
    r.end.push_back(static_cast<std::uint32_t>(r.text.size()));
    r.value.push_back(value);
  }

  // r.name is what stands before, with its colon.
  static void add(PyObject* object, Reading& r, int depth) {
    if (depth > 16) fail(r.sequence, r.position, "features are nested too deeply");
    const std::size_t before = r.name.size();
    if (PyDict_Check(object)) {
      PyObject *key, *value;
      Py_ssize_t at = 0;
      while (PyDict_Next(object, &at, &key, &value)) {
        append(key, r);
        add_value(value, r, depth);
        r.name.resize(before);
      }
      return;
    }
    const bool is_set = PyAnySet_Check(object);
    if (!is_set && !PyList_Check(object) && !PyTuple_Check(object)) {
      fail(r.sequence, r.position,
           "features must be a dict, or a list or set of str, not " + type_name(object));
    }
    nb::object items = nb::steal(PySequence_Fast(object, ""));
    if (!items.is_valid()) throw nb::python_error();
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
      if (before == 0) {  // no copy of the name
        std::string_view text;
        if (!text_of(item, &text))
          fail(r.sequence, r.position, "a feature must be a str, not " + type_name(item));
        emit(r, text, 1.0);
        continue;
      }
      append(item, r);
      emit(r, r.name, 1.0);
      r.name.resize(before);
    }
  }

  static void append(PyObject* key, Reading& r) {
    std::string_view text;
    if (!text_of(key, &text))
      fail(r.sequence, r.position, "a feature's name must be a str, not " + type_name(key));
    r.name.append(text);
  }

  static void add_value(PyObject* value, Reading& r, int depth) {
    std::string_view text;
    if (PyFloat_CheckExact(value)) return emit(r, r.name, PyFloat_AS_DOUBLE(value));
    if (PyBool_Check(value)) return emit(r, r.name, value == Py_True ? 1.0 : 0.0);
    if (text_of(value, &text)) {
      r.name.push_back(':');
      r.name.append(text);
      return emit(r, r.name, 1.0);
    }
    if (PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) || PyAnySet_Check(value)) {
      r.name.push_back(':');
      return add(value, r, depth + 1);
    }
    const double number_value = PyFloat_AsDouble(value);
    if (number_value == -1.0 && PyErr_Occurred() != nullptr) {
      const bool large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      PyErr_Clear();
      const std::string what =
          large ? "is too large" : "must be a str or a number, not " + type_name(value);
      fail(r.sequence, r.position, "the value of " + r.name + " " + what);
    }
    emit(r, r.name, number_value);
  }

  StringTable names_;
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
      .def_prop_ro("attributes", &Extractor::attributes)
      .def_prop_ro("edge_attributes", &Extractor::edge_attributes)
      .def_prop_ro("key_size", &Extractor::key_size);
  nb::class_<Vocabulary>(m, "Vocabulary")
      .def(nb::init<>())
      .def("learn", &Vocabulary::learn, nb::arg("sequences").none())
      .def("find", &Vocabulary::find, nb::arg("sequences").none(), nb::arg("threads"))
      .def("strings", &Vocabulary::strings)
      .def("restore", &Vocabulary::restore)
      .def("__len__", &Vocabulary::size);
}
