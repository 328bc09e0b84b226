// The only source file of the core that is not a header: kernels of every instruction set call
// poll_interrupt(), so there must be one copy, compiled for every CPU.
#include "base/interrupt.hpp"

#include <chrono>
#if defined(__linux__)
#include <time.h>
#endif

namespace trellis {

namespace {

// The current call of each thread.
struct CurrentCall {
  InterruptibleCall* call = nullptr;
  bool leads = false;  // this thread made the call, so it looks for signals
};
constinit thread_local CurrentCall current_call;

// Returns the time in milliseconds, from a clock that is cheap to read.
std::int64_t milliseconds() {
#if defined(__linux__)
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
#else
  using namespace std::chrono;
  return duration_cast<std::chrono::milliseconds>(steady_clock::now().time_since_epoch()).count();
#endif
}

}  // namespace

const char* Interrupted::what() const noexcept { return "the call was interrupted"; }

InterruptibleCall::InterruptibleCall(Check check)
    : check_(check), outer_(current_call.call), outer_leads_(current_call.leads) {
  current_call = {this, true};
}

InterruptibleCall::~InterruptibleCall() { current_call = {outer_, outer_leads_}; }

InterruptibleCall* InterruptibleCall::current() { return current_call.call; }

// Most calls are short. They never reach the time of the first check.
void InterruptibleCall::poll() {
  if (stopped_.load(std::memory_order_relaxed)) throw Interrupted();
  if (check_ == nullptr) return;
  const std::int64_t now = milliseconds();
  if (due_ == 0) due_ = now + kIntervalMilliseconds;
  if (now < due_) return;
  const bool stop = check_(*this);
  due_ = milliseconds() + kIntervalMilliseconds;
  if (!stop) return;
  stopped_.store(true, std::memory_order_relaxed);
  throw Interrupted();
}

FollowedCall::FollowedCall(InterruptibleCall* call) { current_call = {call, false}; }
FollowedCall::~FollowedCall() { current_call = {}; }

void poll_interrupt() {
  const CurrentCall current = current_call;
  if (current.call == nullptr) return;
  if (current.leads) return current.call->poll();
  if (current.call->stopped_.load(std::memory_order_relaxed)) throw Interrupted();
}

}  // namespace trellis
