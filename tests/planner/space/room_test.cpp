#include "planner/space/room.hpp"

#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

TEST_CASE("where one copy of the model has no room, no plan fits", "[space][seconds]") {
  int lacking = 0, found = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const Problem problem = seed % 3 == 0   ? random_mixed(seed + 400, {5, 3})
                            : seed % 3 == 1 ? random_branching(seed + 400, {5, 3})
                                            : random_problem(seed + 400, {5, 4});
    const bool lacks = lacks_room_for_one_copy(problem);
    const SearchResult all = search_brute_force(problem, {});
    if (lacks) REQUIRE(all.plans.empty());
    lacking += lacks ? 1 : 0;
    found += all.plans.empty() ? 0 : 1;
  }
  CHECK(lacking > 10);
  CHECK(found > 100);
}

TEST_CASE("one copy has room to the byte", "[space]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1000;
  cost.optimizer = 2000;
  const auto lacks = [&](Bytes memory, OptimizerKind kind = OptimizerKind::adamw) {
    Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, cost)),
                                 cluster_of({{2, {}}}, memory), 4, {1});
    problem.optimizer.kind = kind;
    return lacks_room_for_one_copy(problem);
  };
  CHECK(lacks(7999));
  CHECK_FALSE(lacks(8000));
  CHECK(lacks(3999, OptimizerKind::sgd));
  CHECK_FALSE(lacks(4000, OptimizerKind::sgd));
  CHECK_FALSE(lacks(0));  // unlimited
}

TEST_CASE("stages of several degrees may have room where no single degree has", "[space]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(2, cost)), cluster_of({{2, {}}}, 1250), 4, {1});
  problem.tensor_parallel = {1, 2};
  problem.profile.entries.push_back(problem.profile.entries.front());
  problem.profile.entries.back().setting.tensor_parallel = 2;
  // One degree for both takes 5,000 bytes, or 3,000; each layer its own 2,000, of 2,500.
  std::vector<LayerCost>& alone = problem.profile.entries.front().layers;
  std::vector<LayerCost>& shared = problem.profile.entries.back().layers;
  alone[0].parameters = 1000, alone[1].parameters = 4000;
  shared[0].parameters = 1000, shared[1].parameters = 500;
  CHECK_FALSE(lacks_room_for_one_copy(problem));
  problem.cluster.kinds.front().memory = 999;
  CHECK(lacks_room_for_one_copy(problem));
}

TEST_CASE("experts and tensor-parallel parts are counted once", "[space]") {
  Problem problem;
  problem.model_name = problem.profile.model.name = "mixtral-8x7b";
  problem.profile.model = builtin_model("mixtral-8x7b");
  problem.cluster_name = "2x8xh100";
  problem.cluster = parse_cluster("2x8xh100");
  problem.precision = Precision::bfloat16;
  problem.sequence = 4096;
  problem.global_batch = 64;
  problem.microbatches = {1};
  problem.tensor_parallel = {1, 2, 4, 8};
  problem.schedules = {{.name = "1f1b"}};
  // 46.7 billion parameters at 18 bytes with gradients and states, 48.9 GiB on each of 16 devices,
  // beside their reserve of 1.5.
  for (const auto& [memory, lacks] : {std::pair{48, true}, {50, true}, {51, false}, {52, false}}) {
    INFO(memory);
    problem.memory_cap = Bytes{memory} << 30;
    for (const Parallelism& degrees : {Parallelism{}, Parallelism{.expert = 8}}) {
      problem.parallelism = degrees;
      problem.microbatches = {degrees.expert};
      CHECK(lacks_room_for_one_copy(problem) == lacks);
    }
  }
}
