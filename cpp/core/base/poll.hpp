// Polling for an interruption, such as Ctrl-C, at the borders of long loops. Kernels may include this
// file: it defines nothing that the linker could share between instruction sets (see base/simd.hpp).
#pragma once

#include <cstdint>

namespace trellis {

// Throws Interrupted if the current call has been interrupted (see base/interrupt.hpp). It takes some
// nanoseconds, so it belongs outside of inner loops.
void poll_interrupt();

// Polls once per kWork operations of a loop.
class PollEvery {
 public:
  // `cost` is the number of operations of one step.
  __attribute__((always_inline)) explicit PollEvery(std::int64_t cost) : cost_(cost) {}

  __attribute__((always_inline)) void step() {
    left_ -= cost_;
    if (__builtin_expect(left_ < 0, 0)) {
      left_ = kWork;
      poll_interrupt();
    }
  }

 private:
  // About a millisecond: much less than the interval in which a call looks for signals.
  static constexpr std::int64_t kWork = 1 << 20;

  std::int64_t cost_, left_ = kWork;
};

}  // namespace trellis
