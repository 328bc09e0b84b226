// Conversion of str and list arguments to std::string and std::vector. Use this header in place of
// nanobind/stl/string.h and nanobind/stl/vector.h.
//
// nanobind's converters are noexcept, so an allocation that fails in them ends the process. The
// converters below store the failure. They throw std::bad_alloc later, when the bound function takes the
// value; this becomes MemoryError. Tuples and pairs take the values of their items at that time too.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/detail/nb_list.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nanobind::detail {

// Holds the converted value, or the fact that memory was exhausted.
template <class T>
struct LateFailure {
  using Value = T;
  template <class U>
  using Cast = movable_cast_t<U>;
  template <class U>
  static constexpr bool can_cast() {
    return true;
  }
  explicit operator T*() { return &checked(); }
  explicit operator T&() { return checked(); }
  explicit operator T&&() { return std::move(checked()); }

  // Runs convert(), which sets `value` and returns whether the object has the right type.
  template <class Convert>
  bool attempt(const Convert& convert) noexcept {
    exhausted = false;
    try {
      return convert();
    } catch (const std::bad_alloc&) {
      exhausted = true;
      return true;
    }
  }

  T& checked() {
    if (exhausted) throw std::bad_alloc();
    return value;
  }

  T value;
  bool exhausted = false;
};

template <>
struct type_caster<std::string> : LateFailure<std::string> {
  static constexpr auto Name = const_name("str");

  template <class Flags>
  bool from_python(handle source, Flags, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
    if (data == nullptr) {
      PyErr_Clear();
      return false;
    }
    return attempt([&] {
      value.assign(data, static_cast<std::size_t>(size));
      return true;
    });
  }

  static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
};

template <class T>
struct type_caster<std::vector<T>> : LateFailure<std::vector<T>> {
  using Base = list_caster<std::vector<T>, T>;
  static constexpr auto Name = Base::Name;

  template <class Flags>
  bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
    if (!PySequence_Check(source.ptr()) || PyUnicode_Check(source.ptr()) ||
        PyBytes_Check(source.ptr())) {
      return false;
    }
    // Other code may change a list while it is read, but it cannot change this tuple of its items.
    const object items = steal(PySequence_Tuple(source.ptr()));
    if (!items.is_valid()) {
      PyErr_Clear();
      return false;
    }
    const Py_ssize_t size = PyTuple_GET_SIZE(items.ptr());
    return this->attempt([&] {
      this->value.clear();
      this->value.reserve(static_cast<std::size_t>(size));
      for (Py_ssize_t i = 0; i < size; ++i) {
        make_caster<T> item;
        const handle element = PyTuple_GET_ITEM(items.ptr(), i);
        if (!item.from_python(element, flags_for_local_caster<T>(flags), cleanup)) return false;
        if (!item.template can_cast<T>()) return false;
        this->value.push_back(item.operator cast_t<T>());
      }
      return true;
    });
  }

  template <class U>
  static handle from_cpp(U&& values, rv_policy policy, cleanup_list* cleanup) noexcept {
    return Base::from_cpp(std::forward<U>(values), policy, cleanup);
  }
};

// None, or a value whose conversion allocates memory.
template <class T>
struct AllocatingOptional : LateFailure<std::optional<T>> {
  static constexpr auto Name = optional_caster<std::optional<T>>::Name;

  template <class Flags>
  bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
    this->value.reset();
    if (source.is_none()) return true;
    return this->attempt([&] {
      make_caster<T> item;
      if (!item.from_python(source, flags_for_local_caster<T>(flags), cleanup)) return false;
      this->value.emplace(item.operator cast_t<T>());
      return true;
    });
  }
};

template <class T>
struct type_caster<std::optional<std::vector<T>>> : AllocatingOptional<std::vector<T>> {};
template <class A, class B>
struct type_caster<std::optional<std::pair<A, B>>> : AllocatingOptional<std::pair<A, B>> {};

}  // namespace nanobind::detail
