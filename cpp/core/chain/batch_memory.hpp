// The scratch memory of one thread that works on a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned.hpp"
#include "chain/types.hpp"

namespace trellis {

// The scratch memory of one thread, for sequences of up to `block` rows, or for one block of a longer
// one.
struct BatchMemory {
  BatchMemory(const SharedView& shared, std::int64_t block)
      : lane_size((2 * (block + 1) + 1) * shared.stride),
        scratch(aligned_doubles(scratch_size(shared.labels))) {
    if (block > 0) lanes = aligned_doubles(kGroup * lane_size);
  }
  std::int64_t lane_size;  // doubles per lane: alpha, emission and beta
  AlignedDoubles scratch;  // (scratch_size(labels))
  AlignedDoubles lanes;    // (kGroup, lane_size)
  Scratch rows;            // (length, stride): forward rows in log space
  Scratch checkpoints;     // (blocks, stride + 1): the last alpha of each block, and its inverse sum
  std::vector<std::int64_t> needs_log_space;  // sequences to compute again in log space
};

}  // namespace trellis
