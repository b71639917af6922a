#include "executor/driver/ranks.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "profiles/error.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

Program replicated_program() {
  return lower(one_f_one_b({.devices = 2, .microbatches = 3}),
               {.replicas = {{0, 1}, {2}}, .rows = 4});
}

Instruction instruction(const Program& program, int work) {
  return program.work[static_cast<std::size_t>(work)].instruction;
}

}  // namespace

TEST_CASE("a rank sends right after the compute whose result it sends") {
  const Program program = replicated_program();
  for (int rank = 0; rank < program.devices; ++rank) {
    std::vector<int> order = order_of_device(program, rank);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto [op, stage, microbatch] = instruction(program, order[i]);
      if (!is_send(op)) continue;
      const Instruction before = instruction(program, order[i - 1]);
      const Op producer = op == Op::send_activation ? Op::forward : Op::backward;
      const bool another_slice = before.op == op;
      CHECK((another_slice || before.op == producer));
      CHECK(before.stage == stage);
      CHECK(before.microbatch == microbatch);
    }
    std::vector<int> issued = program.order[static_cast<std::size_t>(rank)];
    std::ranges::sort(order);
    std::ranges::sort(issued);
    CHECK(order == issued);
  }
}

TEST_CASE("channels have room for every message of a step, and groups list ranks in their order") {
  const Program program = replicated_program();
  const Wiring wiring = one_rank_per_device(program).wiring();
  CHECK(wiring.ranks == 3);
  for (const ChannelEnds& channel : wiring.channels) {
    CHECK(channel.from != channel.to);
    CHECK(channel.capacity == 3);
  }
  CHECK(wiring.groups == std::vector<std::vector<int>>{{0, 1}});
}

TEST_CASE("a rank is named with its stages, or with the one it works on") {
  const Program program =
      lower(interleaved({.devices = 2, .microbatches = 2, .virtual_stages = 2}));
  const RankMap ranks = one_rank_per_device(program);
  CHECK(name_of_rank(program, ranks, 1, {}) ==
        "rank 1 (stage 1, replica 0 and stage 3, replica 0)");
  CHECK(name_of_rank(program, ranks, 1, 3) == "rank 1 (stage 3, replica 0)");
  CHECK(describe_rank_failure(program, ranks, 0, {}) ==
        "rank 0 (stage 0, replica 0 and stage 2, replica 0) failed outside of its program");
}

TEST_CASE("ranks go step by step together, and the first failure is the one that is told") {
  const auto transports = make_thread_transports({.ranks = 4, .channels = {}, .groups = {}});
  std::vector<int> steps(4);
  const RankDuty duty{.prepare = [](int) {},
                      .step =
                          [&](int rank, int step) {
                            steps[static_cast<std::size_t>(rank)] = step;
                            if (rank == 2 && step == 3) throw 7;
                          },
                      .report = [](int rank, int step) { return concat(rank, "-", step); },
                      .after_step =
                          [](int step, std::span<const std::string> reports) {
                            return reports.back() == concat("3-", step);
                          },
                      .finish = [](int) {},
                      .describe_failure = [](int rank) { return concat("rank ", rank); }};
  CHECK_THROWS_WITH(run_ranks(transports, 10, duty),
                    "rank 2: something that is no std::exception was thrown");
  CHECK(std::ranges::max(steps) == 3);
}
