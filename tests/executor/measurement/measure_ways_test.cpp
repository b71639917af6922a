#include "executor/measurement/measure_ways.hpp"

#include "tests/catch.hpp"
#include "tests/executor/distant_backend.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

std::vector<TimedCopy> copies_at(Duration latency, double nanoseconds_per_byte) {
  std::vector<TimedCopy> copies;
  for (Bytes bytes = 4 << 10; bytes <= 64 << 20; bytes *= 4) {
    copies.push_back({bytes, latency + Duration(std::llround(nanoseconds_per_byte *
                                                             static_cast<double>(bytes)))});
  }
  return copies;
}

}  // namespace

TEST_CASE("a way's latency and bandwidth are found from what copies take") {
  const FittedWay fit = fit_way(copies_at(5us, 0.04));  // 25 GB/s
  CHECK(static_cast<double>(fit.latency.count()) == Approx(5000).epsilon(1e-3));
  CHECK(static_cast<double>(fit.bandwidth.bytes_per_second) == Approx(25e9).epsilon(1e-3));
  CHECK(fit.worst_error < 1e-3);
}

TEST_CASE("one copy that took long is told as an error and does not hide a way's latency") {
  auto copies = copies_at(5us, 0.04);
  copies.back().time *= 2;
  const FittedWay fit = fit_way(copies);
  CHECK(fit.worst_error > 0.3);
  CHECK(static_cast<double>(fit.latency.count()) == Approx(5000).epsilon(0.1));
}

TEST_CASE("a way whose small copies take no time has no latency, and none below zero") {
  const FittedWay fit =
      fit_way(std::vector<TimedCopy>{{4096, 100ns}, {8192, 400ns}, {16384, 900ns}});
  CHECK(fit.latency == 0ns);
  CHECK(fit.bandwidth.bytes_per_second > 0);
}

TEST_CASE("every way is measured on a device that is not the process") {
  MeasuredDevice device{.kind = "generic", .description = "a stand-in"};
  device.make_backend = [](int) { return std::make_unique<DistantBackend>(); };
  const std::vector<MeasuredWay> ways = measure_ways(device, 64 << 10);
  REQUIRE(ways.size() == 3);
  for (const MeasuredWay& way : ways) {
    INFO(way.name);
    REQUIRE(way.copies.size() == 3);
    CHECK(way.copies.back().bytes == 64 << 10);
    CHECK(way.copies.back().time > 0ns);
    CHECK(way.fit.bandwidth.bytes_per_second > 0);
  }
}
