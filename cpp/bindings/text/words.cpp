// Binds core/text/word_segments.hpp. Offsets count code points, as Python does.
#include <nanobind/nanobind.h>

#include "bindings/base/gil.hpp"
#include "bindings/bindings.hpp"
#include "text/word_segments.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

// Calls use(segments) with the code points of a str, in the width in which Python stores them.
template <class Use>
void with_segments(const nb::str& text, const WordClassTable& classes, const Use& use) {
  PyObject* object = text.ptr();
  const auto size = static_cast<std::size_t>(PyUnicode_GET_LENGTH(object));
  const HeldGil held;  // for interruption; str is immutable
  switch (PyUnicode_KIND(object)) {
    case PyUnicode_1BYTE_KIND: return use(WordSegments(PyUnicode_1BYTE_DATA(object), size, classes));
    case PyUnicode_2BYTE_KIND: return use(WordSegments(PyUnicode_2BYTE_DATA(object), size, classes));
    default: return use(WordSegments(PyUnicode_4BYTE_DATA(object), size, classes));
  }
}

nb::object taken(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

void append(nb::list& list, const nb::object& item) {
  if (PyList_Append(list.ptr(), item.ptr()) != 0) throw nb::python_error();
}

nb::object integer(std::size_t value) { return taken(PyLong_FromSize_t(value)); }

nb::list tokens(const nb::str& text) {
  nb::list list;
  with_segments(text, WordClassTable::tokens(), [&](auto segments) {
    segments.for_each_token([&](std::size_t begin, std::size_t end) {
      append(list, taken(PyUnicode_Substring(text.ptr(), static_cast<Py_ssize_t>(begin),
                                             static_cast<Py_ssize_t>(end))));
    });
  });
  return list;
}

nb::list token_offsets(const nb::str& text) {
  nb::list list;
  with_segments(text, WordClassTable::tokens(), [&](auto segments) {
    segments.for_each_token([&](std::size_t begin, std::size_t end) {
      const nb::object first = integer(begin), last = integer(end);
      append(list, taken(PyTuple_Pack(2, first.ptr(), last.ptr())));
    });
  });
  return list;
}

// Returns the ends of all segments by UAX #29 without changes, for tests of conformance.
nb::list word_boundaries(const nb::str& text) {
  nb::list list;
  with_segments(text, WordClassTable::standard(), [&](auto segments) {
    segments.for_each_segment([&](std::size_t end) { append(list, integer(end)); });
  });
  return list;
}

}  // namespace
}  // namespace trellis

void bind_words(nb::module_& m) {
  m.attr("unicode_version") = trellis::kUnicodeVersion;
  m.def("tokens", &trellis::tokens, nb::arg("text"));
  m.def("token_offsets", &trellis::token_offsets, nb::arg("text"));
  m.def("word_boundaries", &trellis::word_boundaries, nb::arg("text"));
}
