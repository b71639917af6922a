#include "planner/baselines/dapple/dapple.hpp"

#include <filesystem>

#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

using Choices = std::vector<std::vector<int>>;

Choices taken(const DappleServers& cluster, const std::vector<int>& used, int need) {
  Choices choices;
  for (const DappleDevices& devices : dapple_choices(cluster, used, need)) {
    choices.push_back(devices.taken);
  }
  return choices;
}

/// A chain whose layers take so many seconds and hand on so many bytes.
PipedreamStates chain(const std::vector<double>& seconds, double output, double parameters) {
  std::vector<LayerCost> costs;
  for (const double time : seconds) {
    costs.push_back(layer_cost(from_seconds(time / 2), from_seconds(time / 2)));
    costs.back().output = static_cast<Bytes>(output);
    costs.back().parameters = static_cast<Bytes>(parameters);
  }
  const Profile profile = profile_of(costs);
  return pipedream_states(profile.model, profile.entries.front().layers, 0, 100).value();
}

}  // namespace

TEST_CASE("DAPPLE: three policies choose devices of servers", "[dapple]") {
  const DappleServers cluster{.servers = 2, .devices_each = 4};
  CHECK(taken(cluster, {0, 0}, 3) == Choices{{2, 1}, {3, 0}});  // in turn; an empty server
  CHECK(taken(cluster, {3, 0}, 2) == Choices{{0, 2}, {1, 1}});  // empty first; in turn
  CHECK(taken(cluster, {3, 0}, 1) == Choices{{0, 1}, {1, 0}});  // the used one can hold it, too
  CHECK(taken(cluster, {3, 3}, 2) == Choices{{1, 1}});
  CHECK(taken(cluster, {3, 3}, 3).empty());
}

TEST_CASE("DAPPLE: transfers and sums take what its constants say", "[dapple]") {
  const DappleDevices all_of_first{{0, 0}, {4, 0}};
  const DappleDevices two_of_second{{4, 0}, {0, 2}};
  const DappleDevices both{{0, 0}, {1, 1}};
  CHECK(dapple_transfer({{0, 0}, {2, 0}}, {{2, 0}, {2, 0}}) == Approx(1 / 25e9));
  CHECK(dapple_transfer(all_of_first, two_of_second) == Approx(1 / 1e9));
  CHECK(dapple_transfer(both, {{1, 1}, {2, 0}}) == Approx(0.5 / 1e9));
  CHECK(dapple_transfer(all_of_first, {{4, 0}, {0, 1}}) == Approx(1 / 1e9));
  CHECK(dapple_transfer({{0, 0}, {2, 0}}, {{2, 0}, {1, 1}}) == Approx(1 / 3e9));
  CHECK(dapple_all_reduce({{0, 0}, {1, 0}}, 1e9) == 0);
  CHECK(dapple_all_reduce(all_of_first, 25e9) == Approx(2 * 0.75 / 2));
  CHECK(dapple_all_reduce({{0, 0}, {3, 0}}, 25e9) == Approx(2 * 2.0 / 3));
  CHECK(dapple_all_reduce(both, 3e9) == Approx(1));
}

TEST_CASE("DAPPLE: a plan's latency is its formula", "[dapple]") {
  // Three layers of 1 s; cut after the first; 4 microbatches of what was profiled.
  const PipedreamStates states = chain({1, 1, 1}, 1e9, 3e9);
  const DappleBatch batch{.scale = 4, .microbatches = 4};
  const std::vector<DappleStage> stages{{0, 1, {{0, 0}, {1, 1}}}, {1, 3, {{1, 1}, {1, 1}}}};
  // Slowest: 2 layers on 2 devices, 4 s for the batch, 1 s for each microbatch. Fill 3 s; the cut
  // 1 GB between servers at 3 GB/s. Sums of the first stage count the second's first layer: 6 GB,
  // 2 s; the second's 6 GB overlap with one block.
  CHECK(dapple_latency(states, batch, 1, 4, stages) == Approx(3 * 1 + 3 + 1 / 3.0 + 2));
}

namespace {

Problem published(const std::string& model, const std::string& cluster, std::int64_t batch) {
  const LoadedProfile loaded =
      load_profile(shared_folder() + "/data/pipedream/" + model + "/graph.txt");
  Problem problem = problem_of(loaded.profile, parse_cluster(cluster), batch, {1});
  problem.source = {.path = loaded.path, .content = loaded.content};
  return problem;
}

double total_seconds(const Problem& problem) {
  Duration total{0};
  for (const LayerCost& cost : problem.profile.entries.front().layers) {
    total += cost.forward + cost.backward();
  }
  return seconds(total);
}

}  // namespace

TEST_CASE("DAPPLE: VGG-16 in 16 microbatches on two servers of eight", "[dapple]") {
  if (!std::filesystem::exists(shared_folder() + "/data/pipedream")) {
    SKIP("no reference data at " + shared_folder());
  }
  const Problem problem = published("vgg16", "2x8xgeneric@1GB/s,25GB/s", 16);
  const double all = 16 * total_seconds(problem);
  SECTION("eight copies of two devices, one per server, in two microbatches each") {
    const SearchResult result = search_dapple(problem, {});
    const Candidate& best = result.plans.front();
    REQUIRE(best.plan.stages.size() == 2);
    CHECK(best.plan.stages[0].devices.size() == 8);
    CHECK(best.plan.stages[0].layers == LayerRange{0, 31});
    CHECK(best.plan.stages[1].devices.front() == std::vector{8});
    // The convolutions take 0.662385 s of each of 16 microbatches; 12.8 MB cross to the other
    // server at 1 GB/s; 59 MB of gradients are summed inside the first one.
    const double block = 16 * 0.662385 / 8 / 2;
    const double sum = 2 * 7.0 / 8 * 58888448 / 25e9 / 4;
    CHECK(best.objective->value == Approx(block + all / 16 + 12845056 / 1e9 + sum).epsilon(1e-3));
    CHECK(best.objective->name == "latency");
    CHECK(best.objective->lower_bound == Approx(all / 16));
    REQUIRE(best.prediction);
    CHECK_THAT(best.prediction->notes.back(), ContainsSubstring("a speed-up of 7.98 over"));
  }
  SECTION("one stage on all of them: its formula for pipelines and the one it does not use") {
    const auto states =
        pipedream_states(problem.profile.model, problem.profile.entries.front().layers, 0, 100)
            .value();
    const std::vector<DappleStage> everywhere{{0, states.size(), {{0, 0}, {8, 8}}}};
    const double sum = dapple_all_reduce(everywhere[0].devices, states.states.back().parameters);
    const double latency =
        dapple_latency(states, {.scale = 16, .microbatches = 16}, 8, all / 16, everywhere);
    CHECK(all / latency == Approx(7.94).epsilon(1e-3));
    CHECK(all / (all / 16 + sum) == Approx(10.57).epsilon(1e-3));
  }
}

TEST_CASE("DAPPLE: more microbatches bring it nearer to all devices' speed", "[dapple]") {
  const PipedreamStates states = chain({1, 1}, 1e6, 1e6);
  const DappleServers cluster{.servers = 2, .devices_each = 2};
  // Few microbatches: the pipeline's fill counts.
  const auto few = dapple_plan(states, cluster, {.scale = 8, .microbatches = 8}, false);
  REQUIRE(few);
  CHECK(few->speedup > 2);
  CHECK(few->speedup < 4);
  const auto many = dapple_plan(states, cluster, {.scale = 800, .microbatches = 800}, false);
  REQUIRE(many);
  CHECK(many->speedup > 3.9);
  CHECK(many->speedup < 4);
  CHECK(dapple_plan(states, cluster, {.scale = 8, .microbatches = 8}, true) == std::nullopt);
}
