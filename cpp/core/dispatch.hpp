// The kernels of one instruction set as a table of function pointers, and the choice of a table.
//
// cpp/isa/kernels.cpp defines one table per instruction set (TRELLIS_ISAS in CMakeLists.txt). The best
// table that the CPU supports is used; tests choose other tables.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "chain/types.hpp"
#include "ctc/types.hpp"
#include "embedding/nearest_types.hpp"
#include "embedding/text_predictor_types.hpp"
#include "embedding/types.hpp"
#include "graph/grid_types.hpp"
#include "loglinear/types.hpp"
#include "nn/adam_types.hpp"
#include "nn/char_windows_types.hpp"
#include "nn/lstm_types.hpp"

namespace trellis {

struct Kernels {
  const char* name;  // the namespace of the kernels, such as "isa_v3"
  ChainKernels<float> chain_float;
  ChainKernels<double> chain_double;
  LoglinearKernels loglinear;
  CtcKernels ctc;
  GridKernels grid;
  EmbeddingKernels embedding;
  NearestKernels nearest;
  TextKernels text;
  LstmKernels lstm;
  CharWindowKernels char_windows;
  AdamKernels adam;

  template <class T>
  const ChainKernels<T>& chain() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return chain_float;
    } else {
      return chain_double;
    }
  }
};

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

// Returns the tables that this CPU supports, the slowest first.
inline std::vector<const Kernels*> available_kernels() {
#if defined(TRELLIS_X86)
  std::vector<const Kernels*> tables{&isa_v2::kernels};
  // x86-64-v3 and -v4 require more features than are checked here, but every CPU with the checked
  // features has the remaining ones.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2")) {
    tables.push_back(&isa_v3::kernels);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      tables.push_back(&isa_v4::kernels);
    }
  }
  return tables;
#else
  return {&isa_generic::kernels};
#endif
}

inline std::atomic<const Kernels*>& current_kernels() {
  static std::atomic<const Kernels*> current{available_kernels().back()};
  return current;
}

// Returns the table in use.
inline const Kernels& kernels() { return *current_kernels().load(std::memory_order_relaxed); }

// Selects a table by name: "isa_v3", "v3" and "x86-64-v3" are the same. Returns false if there is no
// such table, or if the CPU does not support it.
inline bool use_kernels(const std::string& name) {
  for (const Kernels* table : available_kernels()) {
    const std::string isa = table->name, level = isa.substr(4);  // without "isa_"
    if (name == isa || name == level || name == "x86-64-" + level) {
      current_kernels().store(table);
      return true;
    }
  }
  return false;
}

}  // namespace trellis
