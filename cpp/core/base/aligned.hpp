// Uninitialised, cache-line aligned memory for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace trellis {

// Arrays are aligned to cache lines, so that a vector load never touches two of them.
inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // the size of a huge page on x86 and ARM
// Huge pages are requested for scratch memory of at least this size. Only a very long sequence needs so
// much. The size was chosen by hand.
inline constexpr std::size_t kHugeScratch = std::size_t{16} << 20;

struct AlignedDelete {
  void operator()(double* p) const { ::operator delete[](p, std::align_val_t{kCacheLine}); }
};
using AlignedDoubles = std::unique_ptr<double[], AlignedDelete>;

// Requests huge pages: one page fault per 2 MiB instead of per 4 KiB, and fewer TLB misses.
inline void ask_for_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const auto first = (reinterpret_cast<std::uintptr_t>(p) + kHugePage - 1) / kHugePage * kHugePage;
  const auto last = (reinterpret_cast<std::uintptr_t>(p) + bytes) / kHugePage * kHugePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// Allocates `count` doubles, which are not initialised.
inline AlignedDoubles aligned_doubles(std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
  double* p = static_cast<double*>(::operator new[](bytes, std::align_val_t{kCacheLine}));
  if (bytes >= kHugeScratch) ask_for_huge_pages(p, bytes);
  return AlignedDoubles(p);
}

// An allocator for large tables with random access (hash tables, embeddings). Large tables get huge
// pages, which need fewer TLB entries.
template <class T>
struct TableAllocator {
  using value_type = T;
  TableAllocator() = default;
  template <class U>
  TableAllocator(const TableAllocator<U>&) {}  // NOLINT: allocators convert
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T), align = alignment(bytes);
    void* p = ::operator new(bytes, std::align_val_t{align});
    if (align == kHugePage) ask_for_huge_pages(p, bytes);
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t count) {
    ::operator delete(p, std::align_val_t{alignment(count * sizeof(T))});
  }
  bool operator==(const TableAllocator&) const { return true; }

 private:
  // allocate() and deallocate() must compute the same alignment from the same size.
  static std::size_t alignment(std::size_t bytes) { return bytes < kHugePage ? kCacheLine : kHugePage; }
};

// Scratch memory that grows to the largest requested size and is reused from sequence to sequence.
class Scratch {
 public:
  // Returns a pointer to at least `count` doubles. A later call with a larger count invalidates it.
  double* get(std::int64_t count) {
    if (count > size_) {
      doubles_.reset();
      size_ = 0;  // the allocation below may fail
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
