// Errors that belong to one sequence.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace trellis {

// An error that becomes trellis.errors.InputError(message, sequence=sequence) in Python. The message
// contains the text {sequence} in place of the index, so that Python can insert the caller's index.
class SequenceError : public std::invalid_argument {
 public:
  SequenceError(std::int64_t sequence, const std::string& message)
      : std::invalid_argument(message), sequence(sequence) {}

  const std::int64_t sequence;
};

}  // namespace trellis
