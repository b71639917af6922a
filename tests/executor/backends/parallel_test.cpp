#include "executor/backends/parallel.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/catch.hpp"

using namespace stagecraft;

TEST_CASE("work in parallel does every element once") {
  for (const std::int64_t elements : {0, 1, 9, 10, 11, 1000}) {
    for (const int threads : {1, 2, 5, 200}) {
      INFO(elements << " elements, " << threads << " threads");
      std::vector<std::atomic<int>> done(static_cast<std::size_t>(elements));
      in_parallel(elements, 10, threads, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t i = first; i < end; ++i) ++done[static_cast<std::size_t>(i)];
      });
      for (const auto& times : done) CHECK(times == 1);
    }
  }
}

TEST_CASE("work in parallel has no more threads than it may, and none for a single part") {
  const auto threads_of = [](std::int64_t elements, int threads) {
    std::mutex mutex;
    std::set<std::thread::id> ids;
    in_parallel(elements, 10, threads, [&](std::int64_t first, std::int64_t end) {
      const std::lock_guard lock(mutex);
      CHECK(end - first <= 10);
      ids.insert(std::this_thread::get_id());
    });
    return ids;
  };
  CHECK(threads_of(1000, 1) == std::set{std::this_thread::get_id()});
  CHECK(threads_of(10, 8) == std::set{std::this_thread::get_id()});
  CHECK(threads_of(1000, 3).size() <= 3);
}
