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

inline AlignedDoubles aligned_doubles(std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
  double* p = static_cast<double*>(::operator new[](bytes, std::align_val_t{64}));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::size_t kHuge = std::size_t{1} << 21;
  if (bytes >= 8 * kHuge) {  // a long sequence: a page fault every 2 MiB instead of every 4 KiB
    const auto first = (reinterpret_cast<std::uintptr_t>(p) + kHuge - 1) / kHuge * kHuge;
    madvise(reinterpret_cast<void*>(first), bytes - kHuge, MADV_HUGEPAGE);
  }
#endif
  return AlignedDoubles(p);
}

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
