// A pool of threads, shared by all calls of the process and created on first use.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include "base/interrupt.hpp"

namespace trellis {

class ThreadPool {
 public:
  // Returns the pool of this process. A forked child does not inherit its parent's threads, so it
  // creates a new pool. Pools are never destroyed, because workers may still wait when the process ends.
  static ThreadPool& shared() {
    static std::atomic<ThreadPool*> current{nullptr};  // no mutex: a fork could copy it in locked state
    ThreadPool* pool = current.load();
    while (pool == nullptr || pool->owner_ != process()) {
      auto* new_pool = new ThreadPool;
      if (current.compare_exchange_strong(pool, new_pool)) return *new_pool;
      delete new_pool;
    }
    return *pool;
  }

  // Runs body() on up to `threads` threads, including the caller's, and returns when all have ended. The
  // bodies divide the work among themselves. A helper may start after all work is done; its body() then
  // returns at once. The caller runs `meanwhile`, if any, before its own body(). The first exception is
  // rethrown. The helpers belong to the caller's interruptible call, if any.
  void run(int threads, const std::function<void()>& body,
           const std::function<void()>& meanwhile = nullptr) {
    if (threads <= 1) {
      if (meanwhile) meanwhile();
      return body();
    }
    Job job{body, InterruptibleCall::current(), threads - 1};
    {
      const std::lock_guard lock(mutex_);
      add_workers(threads - 1);
      jobs_.push_back(&job);
      ++n_queued_jobs_;
    }
    job_queued_.notify_all();
    if (meanwhile) guarded(job, meanwhile);
    guarded(job, job.body);
    {
      const std::lock_guard lock(mutex_);
      if (std::erase(jobs_, &job) != 0) --n_queued_jobs_;
    }
    spin([&] { return job.active == 0; });
    wait_for(job);
    if (job.error) std::rethrow_exception(job.error);
  }

 private:
  struct Job {
    const std::function<void()>& body;
    InterruptibleCall* call;  // null if the caller cannot be interrupted
    int tickets;              // helpers that may still join
    std::atomic<int> active{0};
    std::exception_ptr error = nullptr;
  };

  // Waits until no helper works on the job. Meanwhile it checks for signals: if one interrupts the call,
  // the helpers stop.
  void wait_for(Job& job) {
    constexpr std::chrono::milliseconds kPollInterval(10);
    const auto ready = [&] { return job.active == 0; };
    std::unique_lock lock(mutex_);
    while (job.call != nullptr && !job_done_.wait_for(lock, kPollInterval, ready)) {
      lock.unlock();
      guarded(job, poll_interrupt);
      lock.lock();
    }
    job_done_.wait(lock, ready);
  }

  // Waits up to a millisecond without sleeping. Calls often follow each other closely, and waking a
  // sleeping thread can take longer than a short call. Sleeping at once gained less from a second core
  // (docs/notes/benchmarks.md).
  template <class Ready>
  static void spin(const Ready& ready) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (!ready() && std::chrono::steady_clock::now() < end) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }

  // Returns a number that identifies the process. It changes after a fork.
  static long process() {
#if defined(__unix__) || defined(__APPLE__)
    return getpid();
#else
    return 1;
#endif
  }

  // Starts threads until the pool has `helpers` threads.
  void add_workers(int helpers) {
    while (workers_ < helpers) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) {
        return;  // no more threads available: the caller does the remaining work
      }
      ++workers_;
    }
  }

  // Runs part(). The first exception of a job is stored and rethrown in the calling thread.
  void guarded(Job& job, const std::function<void()>& part) {
    try {
      part();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!job.error) job.error = std::current_exception();
    }
  }

  // Runs the loop of a worker thread: wait for a job, take one of its tickets, run its body.
  void work() {
    for (;;) {
      spin([&] { return n_queued_jobs_ > 0; });
      std::unique_lock lock(mutex_);
      job_queued_.wait(lock, [&] { return !jobs_.empty(); });
      Job& job = *jobs_.front();
      ++job.active;
      if (--job.tickets == 0) {
        jobs_.pop_front();
        --n_queued_jobs_;
      }
      lock.unlock();
      {
        const FollowedCall followed(job.call);
        guarded(job, job.body);
      }
      lock.lock();
      --job.active;
      job_done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable job_queued_, job_done_;
  std::deque<Job*> jobs_;              // jobs that have tickets left, the oldest first
  std::atomic<int> n_queued_jobs_{0};  // the size of jobs_, readable without the lock
  int workers_ = 0;
  const long owner_ = process();
};

// Runs tasks 0 .. count-1 on up to `threads` threads. make_worker() is called once per thread and
// returns the function that runs a task, so scratch memory belongs to a thread. The caller's thread runs
// `meanwhile`, if any, after the other threads have been woken. The call can be interrupted before each
// task.
template <class MakeWorker>
void parallel_for(std::int64_t count, int threads, const MakeWorker& make_worker,
                  const std::function<void()>& meanwhile = nullptr) {
  std::atomic<std::int64_t> next{0};
  if (threads > count) threads = static_cast<int>(count);
  const auto body = [&] {
    auto worker = make_worker();
    for (std::int64_t i = next++; i < count; i = next++) {
      poll_interrupt();
      worker(i);
    }
  };
  ThreadPool::shared().run(threads, body, meanwhile);
}

}  // namespace trellis
