// Scratch memory for the kernels: doubles aligned to a cache line, not initialised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace trellis {

struct AlignedDelete {
  void operator()(double* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using AlignedDoubles = std::unique_ptr<double[], AlignedDelete>;

// Asks for pages of 2 MiB: a fault for each instead of for every 4 KiB, and fewer addresses to look up.
inline void ask_for_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::size_t kHuge = std::size_t{1} << 21;
  const auto first = (reinterpret_cast<std::uintptr_t>(p) + kHuge - 1) / kHuge * kHuge;
  const auto last = (reinterpret_cast<std::uintptr_t>(p) + bytes) / kHuge * kHuge;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

inline AlignedDoubles aligned_doubles(std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
  double* p = static_cast<double*>(::operator new[](bytes, std::align_val_t{64}));
  if (bytes >= std::size_t{16} << 20) ask_for_huge_pages(p, bytes);  // a long sequence
  return AlignedDoubles(p);
}

// For tables that are read at random places.
template <class T>
struct TableAllocator {
  using value_type = T;
  TableAllocator() = default;
  template <class U>
  TableAllocator(const TableAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T),
                      align = bytes < (std::size_t{2} << 20) ? 64 : std::size_t{2} << 20;
    void* p = ::operator new(bytes, std::align_val_t{align});
    if (align > 64) ask_for_huge_pages(p, bytes);
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t count) {
    const std::size_t align = count * sizeof(T) < (std::size_t{2} << 20) ? 64 : std::size_t{2} << 20;
    ::operator delete(p, std::align_val_t{align});
  }
  bool operator==(const TableAllocator&) const { return true; }
};

// Memory that grows to the largest size asked for and is kept between sequences.
class Scratch {
 public:
  double* get(std::int64_t count) {
    if (count > size_) {
      doubles_.reset();
      doubles_ = aligned_doubles(count);
      size_ = count;
    }
    return doubles_.get();
  }

 private:
  AlignedDoubles doubles_;
  std::int64_t size_ = 0;
};

}  // namespace trellis
