// Fault injection for tests: counts the allocations of the module, and makes chosen ones fail.
//
// This file replaces operator new and delete of the module. CMake compiles it only with TRELLIS_FAULTS
// and then links the standard library statically, so that its strings use these operators too. All
// functions use malloc and free, so memory may be freed by code outside of the module.
#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "bindings/bindings.hpp"

namespace nb = nanobind;

namespace {

std::atomic<std::int64_t> live{0};   // allocations that were not freed yet
std::atomic<std::int64_t> calls{0};  // allocations since start()
std::atomic<std::int64_t> first{0};  // calls first .. last - 1 fail; call 1 is the first after start()
std::atomic<std::int64_t> last{0};
std::atomic<bool> counting{false};

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) {
    const std::int64_t call = ++calls;
    if (first <= call && call < last) throw std::bad_alloc();
  }
  if (bytes == 0) bytes = 1;
  // aligned_alloc() needs a multiple of the alignment.
  if (bytes > SIZE_MAX - alignment) throw std::bad_alloc();
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  ++live;
  return p;
}

void release(void* p) {
  if (p != nullptr) --live;
  std::free(p);
}

constexpr std::size_t kPlain = 1;  // the alignment of malloc() is sufficient

}  // namespace

void* operator new(std::size_t n) { return allocate(n, kPlain); }
void* operator new[](std::size_t n) { return allocate(n, kPlain); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate(n, std::size_t(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return allocate(n, std::size_t(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  try {
    return allocate(n, kPlain);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t n, const std::nothrow_t& tag) noexcept { return operator new(n, tag); }
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }

void bind_faults(nb::module_& m) {
  nb::module_ faults = m.def_submodule("faults", "Make allocations of the native core fail.");
  faults.def(
      "start",
      [](std::int64_t call, std::int64_t count) {
        calls = 0;
        first = call;
        last = call + count;
        counting = true;
      },
      nb::arg("call"), nb::arg("count"),
      "Count allocations from now on, in all threads; calls call .. call + count - 1 fail.");
  faults.def(
      "stop",
      [] {
        counting = false;
        return calls.load();
      },
      "Stop counting and failing; return the number of allocations since start().");
  faults.def("live", [] { return live.load(); }, "Return the number of allocations not freed yet.");
}
