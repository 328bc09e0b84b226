// Interruption of long calls, without knowledge of Python.
//
// The thread that makes a call creates an InterruptibleCall with a function that looks for signals. Long
// loops call poll_interrupt() (base/poll.hpp). In the calling thread, poll_interrupt() calls this
// function from time to time. In the threads that help (base/thread_pool.hpp), it reads a flag that the
// calling thread sets. In both cases it throws Interrupted. Then the stack unwinds, the pool waits for
// all helpers, and the exception leaves the call.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "base/poll.hpp"

namespace trellis {

// Thrown by poll_interrupt() after `check` has returned true.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override;
};

class InterruptibleCall {
 public:
  // Returns true to interrupt the call.
  using Check = bool (*)(InterruptibleCall&);

  // The interval between two calls of `check`. Each call may have to wait for the GIL.
  static constexpr std::int64_t kIntervalMilliseconds = 50;

  // Makes this the current call of the thread, until the object is destroyed.
  explicit InterruptibleCall(Check check);
  ~InterruptibleCall();
  InterruptibleCall(const InterruptibleCall&) = delete;
  InterruptibleCall& operator=(const InterruptibleCall&) = delete;

  // Returns the current call of this thread, or null.
  static InterruptibleCall* current();

  // Stops the calls of `check`, for a thread in which no signal can arrive. May be called by `check`.
  void ignore() { check_ = nullptr; }

 private:
  friend class FollowedCall;
  friend void poll_interrupt();
  void poll();

  Check check_;
  std::int64_t due_ = 0;  // the time of the next check; 0 before the first poll
  std::atomic<bool> stopped_{false};
  InterruptibleCall* outer_;  // the call that was current before, and whether this thread made it
  bool outer_leads_;
};

// Makes the call of another thread the current call of a helper thread.
class FollowedCall {
 public:
  explicit FollowedCall(InterruptibleCall* call);
  ~FollowedCall();
  FollowedCall(const FollowedCall&) = delete;
  FollowedCall& operator=(const FollowedCall&) = delete;
};

}  // namespace trellis
