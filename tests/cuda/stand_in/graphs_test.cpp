// A work's calls as CUDA graphs: the bits of calls one by one, whatever differs between steps.

#include "profiles/error.hpp"
#include "tests/cuda/stand_in/training.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

struct Outcome {
  RunResult result;
  stand_in::Counts counts;
};

Outcome run_with(GraphUse graphs, const Prepared& prepared, int steps,
                 const stand_in::Machine& machine = {}) {
  stand_in::set_up(machine);
  Outcome outcome{.result = run_on_stand_in(prepared, {.steps = steps, .cuda = {.graphs = graphs}}),
                  .counts = stand_in::counts()};
  require_no_complaints();
  return outcome;
}

}  // namespace

TEST_CASE("graphs give the bits of calls one by one, and are launched instead of them",
          "[seconds]") {
  const std::vector<Setting> settings{
      {.devices = 2, .style = Style::llama},
      {.schedule = "gpipe", .devices = 2, .replicas = {2, 2}, .sharding = Sharding::zero1},
      {.schedule = "zb-v", .devices = 2, .virtual_stages = 2},
      {.schedule = "pipedream-2bw", .devices = 2, .tied = false},
      {.devices = 2, .precision = Precision::bfloat16},
      {.devices = 1}};
  const auto chosen = GENERATE(range(0, is_watched ? 3 : 6));
  const Setting& setting = settings[static_cast<std::size_t>(chosen)];
  INFO(describe(setting));
  const Prepared prepared = prepare(setting);
  const stand_in::Machine machine{.order = stand_in::Order::drawn, .seed = 3};
  constexpr int steps = 6;
  const Outcome eager = run_with(GraphUse::off, prepared, steps, machine);
  const Outcome graphs = run_with(GraphUse::on, prepared, steps, machine);
  CHECK(first_difference(graphs.result, eager.result) == "");
  CHECK(eager.counts.graphs == 0);
  CHECK(graphs.counts.graphs > 0);
  CHECK(graphs.counts.graph_launches > 2 * graphs.counts.graphs);
  CHECK(graphs.counts.launches < eager.counts.launches / 2);
}

TEST_CASE("after the first steps no graph is recorded any more", "[seconds]") {
  const Prepared prepared = prepare({.schedule = "1f1b", .devices = 2});
  const long graphs_of_few = run_with(GraphUse::on, prepared, 4).counts.graphs;
  const Outcome more = run_with(GraphUse::on, prepared, 12);
  CHECK(more.counts.graphs == graphs_of_few);
}

TEST_CASE("what cannot be recorded is launched call by call and said once, or is an error",
          "[seconds]") {
  const Prepared prepared = prepare({.schedule = "1f1b", .devices = 2});
  const stand_in::Machine machine{.forbidden = "cublasLtMatmul"};
  const Outcome expected = run_with(GraphUse::off, prepared, 4);
  stand_in::set_up(machine);
  std::mutex mutex;
  std::vector<std::string> remarks;
  RunOptions options{.steps = 4};
  options.cuda.remark = [&](const std::string& remark) {
    const std::lock_guard lock(mutex);
    remarks.push_back(remark);
  };
  CHECK(first_difference(run_on_stand_in(prepared, options), expected.result) == "");
  REQUIRE(remarks.size() == 2);  // of two ranks
  CHECK_THAT(remarks.front(), ContainsSubstring("no CUDA graph could be recorded"));
  stand_in::set_up(machine);
  options.cuda.graphs = GraphUse::on;
  CHECK_THROWS_WITH(run_on_stand_in(prepared, options),
                    ContainsSubstring("--graphs on: ") && ContainsSubstring("--graphs off"));
}
