// The GIL during long calls, and Ctrl-C.
//
// ReleasedGil and HeldGil make the call interruptible: where the core polls (core/base/poll.hpp), the
// main thread runs Python's signal handlers. If one raises, Interrupted leaves the core and the
// exception of the handler, such as KeyboardInterrupt, leaves the native call
// (bindings/base/errors.cpp).
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>

#include "base/interrupt.hpp"

namespace trellis {

// Releases the GIL while the object exists.
class ReleasedGil {
 public:
  ReleasedGil();

 private:
  InterruptibleCall call_;
  nanobind::gil_scoped_release release_;
};

// Holds the GIL. Handlers and other Python threads may run at a poll, so objects that the GIL protects
// need BusyMark too.
class HeldGil {
 public:
  HeldGil();

 private:
  InterruptibleCall call_;
};

// Marks an object as busy during a call. A second call, which a signal handler or another thread may
// make while the first call polls, throws.
class BusyMark {
 public:
  explicit BusyMark(bool& busy) : busy_(busy) {
    if (busy_) throw std::runtime_error("the object is in use by another call");
    busy_ = true;
  }
  ~BusyMark() { busy_ = false; }
  BusyMark(const BusyMark&) = delete;
  BusyMark& operator=(const BusyMark&) = delete;

 private:
  bool& busy_;
};

}  // namespace trellis
