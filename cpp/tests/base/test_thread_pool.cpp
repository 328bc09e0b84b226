// Tests the thread pool: every task runs once, exceptions propagate, calls may overlap, and a forked
// child can use it.
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/thread_pool.hpp"
#include "tests/check.hpp"
#if defined(__unix__) || defined(__APPLE__)
#include <sys/wait.h>
#include <unistd.h>
#endif

using trellis::parallel_for;

namespace {

std::int64_t sum_to(std::int64_t n, int threads) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(n, threads, [&] { return [&](std::int64_t i) { sum += i; }; });
  return sum;
}

void test_every_task_once() {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::int64_t n : {0, 1, 2, 7, 1000}) CHECK(sum_to(n, threads) == n * (n - 1) / 2);
  }
}

void test_errors_propagate() {
  bool caught = false;
  try {
    parallel_for(100, 4, [] {
      return [](std::int64_t i) {
        if (i == 50) throw std::runtime_error("task 50");
      };
    });
  } catch (const std::runtime_error&) {
    caught = true;
  }
  CHECK(caught);
  CHECK(sum_to(100, 4) == 4950);
}

void test_calls_may_overlap() {
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) right += sum_to(50, 3) == 1225;
    });
  }
  for (auto& caller : callers) caller.join();
  CHECK(right == 1200);
}

void test_fork() {
#if defined(__unix__) || defined(__APPLE__)
  const pid_t child = fork();
  if (child == 0) _exit(sum_to(1000, 3) == 499'500 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

}  // namespace

int main() {
  test_every_task_once();
  test_errors_propagate();
  test_calls_may_overlap();
  test_fork();
  return failures() != 0;
}
