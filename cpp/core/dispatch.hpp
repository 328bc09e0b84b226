// Which of the compiled kernels this machine can run, and which are in use.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "chain/types.hpp"

namespace trellis {

#if defined(TRELLIS_X86)
namespace isa_v2 {
extern const Kernels kernels;
}
namespace isa_v3 {
extern const Kernels kernels;
}
namespace isa_v4 {
extern const Kernels kernels;
}
#else
namespace isa_generic {
extern const Kernels kernels;
}
#endif

// Worst first.
inline std::vector<const Kernels*> available_kernels() {
#if defined(TRELLIS_X86)
  std::vector<const Kernels*> found{&isa_v2::kernels};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2")) {  // no processor has these without the rest of the level
    found.push_back(&isa_v3::kernels);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      found.push_back(&isa_v4::kernels);
    }
  }
  return found;
#else
  return {&isa_generic::kernels};
#endif
}

inline std::atomic<const Kernels*>& current_kernels() {
  static std::atomic<const Kernels*> current{available_kernels().back()};
  return current;
}

inline const Kernels& kernels() { return *current_kernels().load(std::memory_order_relaxed); }

// "isa_v3", "v3" and "x86-64-v3" name the same. False if there is no such, or not on this machine.
inline bool use_kernels(const std::string& name) {
  for (const Kernels* k : available_kernels()) {
    const std::string full = k->name;
    const std::string level = full.substr(4);
    if (name == full || name == level || name == "x86-64-" + level) {
      current_kernels().store(k);
      return true;
    }
  }
  return false;
}

}  // namespace trellis
