// Binds the hash functions with explicit keys, so that tests can compare them with another
// implementation.
#include "base/tables.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bindings/base/arrays.hpp"
#include "bindings/base/views.hpp"
#include "bindings/bindings.hpp"

namespace nb = nanobind;

namespace trellis {
namespace {

HashKeys keys_of(const In<std::uint64_t>& keys) {
  require(keys.shape(0) == 4, "keys must have 4 entries");
  return {keys.data()[0], keys.data()[1], keys.data()[2], keys.data()[3]};
}

std::uint64_t hash_of_bytes(const nb::bytes& text, const In<std::uint64_t>& keys) {
  return hash_bytes(text.c_str(), text.size(), keys_of(keys));
}

std::uint64_t hash_of_key(const In<std::uint32_t>& key, const In<std::uint64_t>& keys) {
  return hash_key(key.data(), static_cast<int>(key.shape(0)), keys_of(keys));
}

}  // namespace
}  // namespace trellis

void bind_tables(nb::module_& m) {
  m.def("hash_bytes", &trellis::hash_of_bytes, nb::arg("text"), nb::arg("keys"));
  m.def("hash_key", &trellis::hash_of_key, nb::arg("key"), nb::arg("keys"));
}
