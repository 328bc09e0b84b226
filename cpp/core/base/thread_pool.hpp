// A small pool of threads that is shared by all calls and made on first use.
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

namespace trellis {

class ThreadPool {
 public:
  // The pool of this process. A forked child has none of its parent's threads, so it gets a new pool;
  // pools are never destroyed, because workers may still wait when the process ends.
  static ThreadPool& shared() {
    static std::atomic<ThreadPool*> current{nullptr};  // no lock: a fork could leave it locked for ever
    ThreadPool* pool = current.load();
    while (pool == nullptr || pool->owner_ != process()) {
      auto* fresh = new ThreadPool;
      if (current.compare_exchange_strong(pool, fresh)) return *fresh;
      delete fresh;
    }
    return *pool;
  }

  // Runs body() on up to `threads` threads, the caller's among them, and returns when all have ended.
  // Bodies share the work among themselves; a helper that starts late may find none left. The caller
  // does `meanwhile`, if given, before it joins in. The first exception is rethrown.
  void run(int threads, const std::function<void()>& body,
           const std::function<void()>& meanwhile = nullptr) {
    if (threads <= 1) {
      if (meanwhile) meanwhile();
      return body();
    }
    Job job{body, threads - 1};
    {
      const std::lock_guard lock(mutex_);
      hire(threads - 1);
      jobs_.push_back(&job);
      ++waiting_;
    }
    wake_.notify_all();
    if (meanwhile) guarded(job, meanwhile);
    guarded(job, job.body);
    {
      const std::lock_guard lock(mutex_);
      if (std::erase(jobs_, &job) != 0) --waiting_;
    }
    spin([&] { return job.active == 0; });
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return job.active == 0; });
    if (job.error) std::rethrow_exception(job.error);
  }

 private:
  struct Job {
    const std::function<void()>& body;
    int tickets;  // helpers that may still join
    std::atomic<int> active{0};
    std::exception_ptr error = nullptr;
  };

  // Calls often follow each other closely, and a thread that sleeps can take longer to wake than a short
  // call takes: so wait awake for a millisecond first.
  template <class Ready>
  static void spin(const Ready& ready) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (!ready() && std::chrono::steady_clock::now() < end) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }

  static long process() {
#if defined(__unix__) || defined(__APPLE__)
    return getpid();
#else
    return 1;
#endif
  }

  void hire(int helpers) {
    while (workers_ < helpers) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) {
        return;  // no more threads to be had: the caller does the rest
      }
      ++workers_;
    }
  }

  void guarded(Job& job, const std::function<void()>& part) {
    try {
      part();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!job.error) job.error = std::current_exception();
    }
  }

  void work() {
    for (;;) {
      spin([&] { return waiting_ > 0; });
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !jobs_.empty(); });
      Job& job = *jobs_.front();
      ++job.active;
      if (--job.tickets == 0) {
        jobs_.pop_front();
        --waiting_;
      }
      lock.unlock();
      guarded(job, job.body);
      lock.lock();
      --job.active;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job*> jobs_;
  std::atomic<int> waiting_{0};  // the size of jobs_, to be seen without the lock
  int workers_ = 0;
  const long owner_ = process();
};

// Tasks 0 .. count-1 on up to `threads` threads; make_worker() is called once on each of them and gives
// the function that does a task, so that scratch memory belongs to a thread. The caller's thread does
// `meanwhile`, if given, while the others have begun.
template <class MakeWorker>
void parallel_for(std::int64_t count, int threads, const MakeWorker& make_worker,
                  const std::function<void()>& meanwhile = nullptr) {
  std::atomic<std::int64_t> next{0};
  if (threads > count) threads = static_cast<int>(count);
  const auto body = [&] {
    auto worker = make_worker();
    for (std::int64_t i = next++; i < count; i = next++) worker(i);
  };
  ThreadPool::shared().run(threads, body, meanwhile);
}

}  // namespace trellis
