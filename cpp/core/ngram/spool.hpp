// Records that are written once and read in the same order, possibly more than once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/temporary_file.hpp"

namespace trellis {

class Spool {
 public:
  // A spool of up to `memory` bytes is never written to disk.
  Spool(const std::string& folder, std::size_t memory) : file_(folder), buffer_(memory) {}

  void append(const void* record, std::size_t bytes) {
    const char* from = static_cast<const char*>(record);
    while (bytes > 0) {
      if (filled_ == buffer_.size()) flush();
      const std::size_t part = std::min(bytes, buffer_.size() - filled_);
      std::memcpy(buffer_.data() + filled_, from, part);
      filled_ += part;
      from += part;
      bytes -= part;
    }
  }

  // Ends the writing, or returns to the first record.
  void rewind() {
    at_ = offset_ = 0;
    if (file_.size() == 0) return;
    if (!complete_) flush();
    complete_ = true;
    filled_ = 0;
  }

  // Reads the next record; returns false after the last one.
  bool read(void* record, std::size_t bytes) {
    char* to = static_cast<char*>(record);
    while (bytes > 0) {
      if (at_ == filled_ && !fill()) return false;
      const std::size_t part = std::min(bytes, filled_ - at_);
      std::memcpy(to, buffer_.data() + at_, part);
      at_ += part;
      to += part;
      bytes -= part;
    }
    return true;
  }

 private:
  void flush() {
    file_.append(buffer_.data(), filled_);
    filled_ = 0;
  }

  bool fill() {
    const auto left = static_cast<std::size_t>(file_.size() - offset_);
    if (left == 0) return false;
    filled_ = std::min(left, buffer_.size());
    at_ = 0;
    file_.read(offset_, buffer_.data(), filled_);
    offset_ += static_cast<std::int64_t>(filled_);
    return true;
  }

  TemporaryFile file_;
  std::vector<char> buffer_;
  std::size_t filled_ = 0;   // bytes in the buffer
  std::size_t at_ = 0;       // of those, bytes that have been read
  std::int64_t offset_ = 0;  // bytes of the file that have been read
  bool complete_ = false;    // all bytes are in the file
};

}  // namespace trellis
