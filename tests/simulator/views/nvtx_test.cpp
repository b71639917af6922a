#include "simulator/views/nvtx.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

nlohmann::json nvtx(const Timeline& timeline) {
  return nlohmann::json::parse(write_nvtx(timeline));
}

}  // namespace

TEST_CASE("nvtx: devices, types and nanoseconds as zero-bubble's tools read them") {
  ChunkCosts costs = split_costs(10ms, 12ms, 8ms);
  costs.update = 5ms;
  const auto devices = nvtx(run(zb_h1({.devices = 1, .microbatches = 2}), costs));
  REQUIRE(devices.size() == 1);
  // One device never waits: 2 (10 + 12 + 8) ms, then the update.
  std::map<std::string, std::int64_t> time_of;
  for (const auto& event : devices[0]) {
    time_of[event["type"]] +=
        event["end_time"].get<std::int64_t>() - event["start_time"].get<std::int64_t>();
  }
  CHECK(time_of ==
        std::map<std::string, std::int64_t>{
            {"F", 20'000'000}, {"B", 24'000'000}, {"W", 16'000'000}, {"Optimizer", 5'000'000}});
  CHECK(devices[0][0] == nlohmann::json{{"type", "F"},
                                        {"start_time", 0},
                                        {"end_time", 10'000'000},
                                        {"minibatch", 0},
                                        {"stage", 0}});
  CHECK(devices[0].back() == nlohmann::json{{"type", "Optimizer"},
                                            {"start_time", 60'000'000},
                                            {"end_time", 65'000'000}});
}

TEST_CASE("nvtx: one Optimizer per device and iteration, however many stages it updates") {
  const Program program = lower(zb_v({.devices = 2, .microbatches = 4, .virtual_stages = 2}));
  ChunkCosts costs = split_costs(10ms, 10ms, 10ms, 2);
  costs.update = 1ms;
  const Timeline timeline = simulate(program, uniform(program, costs), {.iterations = 3});
  for (const auto& device : nvtx(timeline)) {
    std::vector<std::int64_t> starts;
    int optimizers = 0;
    for (const auto& event : device) {
      starts.push_back(event["start_time"]);
      if (event["type"] == "Optimizer") ++optimizers;
    }
    CHECK(optimizers == 3);
    CHECK(std::is_sorted(starts.begin(), starts.end()));
  }
}

TEST_CASE("nvtx: a timeline without devices is an empty list") {
  CHECK(nvtx({}).empty());
}

TEST_CASE("nvtx: messages that take time have the names that zero-bubble's viewer knows") {
  const Schedule schedule = one_f_one_b({.devices = 2, .microbatches = 3});
  std::map<std::string, int> counts;
  for (const auto& device : nvtx(run(schedule, chunk_costs(10ms, 20ms), 2ms))) {
    for (const auto& event : device) {
      ++counts[event["type"]];
      if (event["type"] == "F" || event["type"] == "B" || event["type"] == "Optimizer") continue;
      CHECK(event["end_time"].get<std::int64_t>() - event["start_time"].get<std::int64_t>() ==
            2'000'000);
    }
  }
  CHECK(counts == std::map<std::string, int>{{"F", 6},
                                             {"B", 6},
                                             {"Optimizer", 2},
                                             {"SEND_FORWARD", 3},
                                             {"RECV_FORWARD", 3},
                                             {"SEND_BACKWARD", 3},
                                             {"RECV_BACKWARD", 3}});
  for (const auto& device : nvtx(run(schedule, chunk_costs(10ms, 20ms)))) {
    for (const auto& event : device) {
      CHECK(event["type"].get<std::string>().find("_") == std::string::npos);
    }
  }
}
