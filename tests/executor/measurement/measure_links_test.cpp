#include "executor/measurement/measure_links.hpp"

#include <atomic>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/distant_backend.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

RankGrid grid(std::vector<std::string> hosts) {
  return grid_of(hosts);
}

std::unique_ptr<Backend> make_distant(int) {
  return std::make_unique<DistantBackend>();
}

std::unique_ptr<Backend> make_near(int) {
  return make_cpu_backend();
}

}  // namespace

TEST_CASE("ranks stand in boxes as their hosts say") {
  CHECK(grid({"a"}) == RankGrid{.boxes = 1, .ranks_of_box = 1});
  CHECK(grid({"a", "a", "a"}) == RankGrid{.boxes = 1, .ranks_of_box = 3});
  CHECK(grid({"a", "b", "c"}) == RankGrid{.boxes = 3, .ranks_of_box = 1});
  CHECK(grid({"b", "b", "a", "a"}) == RankGrid{.boxes = 2, .ranks_of_box = 2});
}

TEST_CASE("hosts whose ranks are mixed or not equally many are told by name") {
  CHECK_THROWS_WITH(grid({"a", "b", "a", "b"}),
                    "rank 2 is on a, as an earlier one is, but rank 1 is on b; start the ranks of "
                    "a host one after the other (mpirun --map-by slot)");
  CHECK_THROWS_WITH(grid({"a", "a", "b", "c", "c"}),
                    "b has 1 rank, and another host has 2; start equally many on every host");
}

TEST_CASE("a level's link has the ring's bus bandwidth") {
  MeasuredLevel level{.count = 4};
  level.message = {.latency = 5us, .bandwidth = {25'000'000'000}};
  level.sum = {.latency = 40us, .bandwidth = {10'000'000'000}};
  const Link link = link_of(level);
  CHECK(link.latency == 5us);
  CHECK(link.point_to_point.bytes_per_second == 25'000'000'000);
  CHECK(link.collective.bytes_per_second == 15'000'000'000);  // 2 · 3/4 of 10 GB/s
  // So that what was measured is what an all-reduce is predicted to take.
  CHECK(all_reduce_time(link, 4, 1'000'000'000) == 100ms + 2 * 3 * 5us);
}

TEST_CASE("links are measured within boxes and between them") {
  const auto make_backend = GENERATE(make_near, make_distant);
  const RankGrid two_boxes{.boxes = 2, .ranks_of_box = 3};
  const auto levels = measure_links(two_boxes, make_thread_transports, make_backend, 64 << 10);
  REQUIRE(levels.size() == 2);
  CHECK(levels[0].count == 2);
  CHECK(levels[0].joins_boxes);
  CHECK(levels[1].count == 3);
  CHECK_FALSE(levels[1].joins_boxes);
  CHECK(levels[0].rails >= 1);
  CHECK(levels[0].rails <= 3);
  CHECK(levels[1].rails == 1);
  for (const MeasuredLevel& level : levels) {
    for (const auto* copies : {&level.messages, &level.sums}) {
      REQUIRE(copies->size() == 3);
      CHECK(copies->front().bytes == 4 << 10);
      CHECK(copies->back().bytes == 64 << 10);
      for (const TimedCopy& copy : *copies) CHECK(copy.time > 0ns);
    }
  }
  Cluster cluster = measured_cluster(builtin_device_kind("cpu"), levels);
  CHECK_NOTHROW(validate(cluster));
  CHECK(device_count(cluster) == 6);
  CHECK(link_between(cluster, 0, 1) == link_of(levels[1]));
  CHECK(link_between(cluster, 0, 3) == link_of(levels[0]));
}

TEST_CASE("boxes of one rank have one level") {
  const auto levels =
      measure_links({.boxes = 3, .ranks_of_box = 1}, make_thread_transports, make_near, 16 << 10);
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].count == 3);
  CHECK(levels[0].joins_boxes);
}

TEST_CASE("a rank that fails ends the measurement of all by name") {
  const auto make = [](int rank) -> std::unique_ptr<Backend> {
    if (rank == 1) fail("no memory");
    return make_cpu_backend();
  };
  CHECK_THROWS_WITH(measure_links({.boxes = 1, .ranks_of_box = 2}, make_thread_transports, make),
                    "rank 1 failed: no memory");
  CHECK_THROWS_WITH(measure_links({}, make_thread_transports, make),
                    "links join two ranks at least, and there is one");
}
