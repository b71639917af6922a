#include "planner/baselines/dnn_partitioning/scattered_split.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "planner/baselines/dnn_partitioning/device_visits.hpp"
#include "planner/baselines/dnn_partitioning/dnn_question.hpp"
#include "planner/baselines/dnn_partitioning/max_load_annealing.hpp"
#include "planner/baselines/dnn_partitioning/max_load_joined.hpp"
#include "planner/baselines/dnn_partitioning/max_load_packing.hpp"
#include "planner/baselines/dnn_partitioning/max_load_surroundings.hpp"
#include "planner/space/orders.hpp"
#include "planner/strategies.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/baselines/max_load_cases.hpp"
#include "tests/planner/published.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr double rounding = 1e-9;

/// The largest load of a device for each node; negative where it does not fit.
double largest_load(const MaxLoadProblem& problem, const std::vector<int>& device_of) {
  double most = 0;
  for (int device = 0; device < problem.accelerators + problem.processors; ++device) {
    std::vector<int> nodes;
    for (std::size_t node = 0; node < device_of.size(); ++node) {
      if (device_of[node] == device) nodes.push_back(static_cast<int>(node));
    }
    const bool on_processor = device >= problem.accelerators;
    if (!fits(problem, nodes, on_processor)) return -1;
    most = std::max(most, load_of(problem, nodes, on_processor));
  }
  return most;
}

/// Over every device for every node; negative if nothing fits.
double least_load(const MaxLoadProblem& problem) {
  const int devices = problem.accelerators + problem.processors;
  std::vector<int> device_of(problem.nodes.size(), 0);
  double least = -1;
  for (;;) {
    const double load = largest_load(problem, device_of);
    if (load >= 0 && (least < 0 || load < least)) least = load;
    std::size_t node = 0;
    while (node < device_of.size() && ++device_of[node] == devices) device_of[node++] = 0;
    if (node == device_of.size()) return least;
  }
}

/// Each node once, as many devices as there are, loads and sizes by definition.
void check_parts(const MaxLoadProblem& problem, const MaxLoadSplit& split) {
  std::vector<int> device_of(problem.nodes.size(), -1);
  int accelerator = 0, processor = problem.accelerators;
  for (const MaxLoadPart& part : split.parts) {
    const int device = part.on_processor ? processor++ : accelerator++;
    REQUIRE_FALSE(part.members.empty());
    for (const int node : part.members) {
      REQUIRE(device_of[static_cast<std::size_t>(node)] == -1);
      device_of[static_cast<std::size_t>(node)] = device;
    }
    REQUIRE(part.load == Approx(load_of(problem, part.members, part.on_processor)).epsilon(1e-12));
  }
  REQUIRE(std::count(device_of.begin(), device_of.end(), -1) == 0);
  REQUIRE(accelerator <= problem.accelerators);
  REQUIRE(processor <= problem.accelerators + problem.processors);
  REQUIRE(split.load == Approx(largest_load(problem, device_of)).epsilon(1e-12));
}

MaxLoadProblem small_case(Random& random) {
  MaxLoadProblem problem = random_split(random, 7);
  problem.accelerators = std::min(problem.accelerators, problem.processors > 0 ? 2 : 3);
  if (problem.accelerators == 0) problem.processors = 2;
  return problem;
}

constexpr ScatteredEffort small_effort{
    .steps = 6000, .steps_per_node = 1000, .proof_steps = 100'000};
/// Too little to prove much.
constexpr ScatteredEffort least_effort{.steps = 6000, .steps_per_node = 1000, .proof_steps = 24};

MaxLoadProblem published_question(const std::string& input) {
  const std::string path = (shared_data() / "dnn-partitioning" / (input + ".json")).string();
  const DnnGraph graph = read_dnn_partitioning_graph(read_file(path), path);
  MaxLoadProblem problem = question_of(graph, dnn_layers(graph, path));
  problem.accelerators = graph.accelerators;
  problem.processors = graph.processors;
  problem.memory = graph.memory;
  return problem;
}

/// Where the tool's own answer to an input is: "LayerGraphs/x" as "dnn_layer_x_TOOL.json".
std::string reference_of(const std::string& input, const std::string& tool) {
  const std::string kind = input.starts_with("LayerGraphs") ? "layer" : "op";
  return "dnn_" + kind + "_" + input.substr(input.find('/') + 1) + "_" + tool + ".json";
}

/// A chain of layers whose forwards take so many milliseconds, and backwards twice as long, on two
/// devices.
Problem chain_of(const std::vector<int>& forwards, const ScheduleChoice& schedule) {
  std::vector<LayerCost> costs;
  for (const int forward : forwards) {
    costs.push_back(layer_cost(forward * 1ms, 2 * forward * 1ms));
  }
  Problem problem = problem_of(profile_of(costs), cluster_of({{2, {}}}), 4, {1});
  problem.schedules = {schedule};
  return problem;
}

}  // namespace

TEST_CASE("no split at all has a smaller largest load than the one found, on small cases",
          "[seconds]") {
  Random random(13);
  int infeasible = 0, better = 0;
  for (int round = 0; round < 700; ++round) {
    const MaxLoadProblem problem = small_case(random);
    const double least = least_load(problem);
    const ScatteredAnswer answer = split_without_contiguity(problem, small_effort, {});
    INFO(round);
    REQUIRE(answer.complete);
    REQUIRE(answer.split.has_value() == (least >= 0));
    if (!answer.split) {
      ++infeasible;
      continue;
    }
    check_parts(problem, *answer.split);
    REQUIRE(answer.split->load == Approx(least).epsilon(rounding));
    REQUIRE(answer.split->lower_bound == answer.split->load);
    const auto contiguous = split_by_max_load(problem, 1 << 20, {});
    if (contiguous && contiguous->load > least * (1 + rounding)) ++better;
  }
  CHECK(infeasible > 20);
  CHECK(infeasible < 350);
  CHECK(better > 50);
}

TEST_CASE("without the effort to prove anything, the split is near the best and its bound holds",
          "[seconds]") {
  Random random(17);
  int optimal = 0, feasible = 0, proved = 0;
  for (int round = 0; round < 500; ++round) {
    const MaxLoadProblem problem = small_case(random);
    const double least = least_load(problem);
    const ScatteredAnswer answer = split_without_contiguity(problem, least_effort, {});
    INFO(round);
    if (!answer.split) {
      REQUIRE_FALSE((answer.complete && least >= 0));
      continue;
    }
    ++feasible;
    check_parts(problem, *answer.split);
    REQUIRE(answer.split->load >= least * (1 - rounding));
    REQUIRE(answer.split->lower_bound <= least * (1 + rounding));
    if (answer.complete) REQUIRE(answer.split->load == Approx(least).epsilon(rounding));
    const auto contiguous = split_by_max_load(problem, 1 << 20, {});
    if (contiguous) REQUIRE(answer.split->load <= contiguous->load * (1 + rounding));
    proved += answer.complete ? 1 : 0;
    optimal += answer.split->load <= least * (1 + rounding) ? 1 : 0;
  }
  CHECK(feasible > 300);
  CHECK(optimal >= feasible - feasible / 50);
  CHECK(proved < feasible);
}

TEST_CASE("walks find the best split of small cases by themselves", "[seconds]") {
  Random random(19);
  int optimal = 0, feasible = 0;
  for (int round = 0; round < 200; ++round) {
    MaxLoadProblem problem = small_case(random);
    const MaxLoadPacking start = pack_below(problem, 1e300, 100'000, {});
    if (!start.found) continue;
    ++feasible;
    const double least = least_load(problem);
    const std::vector<int> found =
        annealed(problem, *start.found,
                 {.steps = 20'000, .seed = 1, .doublings = 5, .scale = std::max(least, 1.0)}, {});
    const double load = largest_load(problem, found);
    REQUIRE(load >= least * (1 - rounding));
    REQUIRE(load <= largest_load(problem, *start.found) * (1 + rounding));
    optimal += load <= least * (1 + rounding) ? 1 : 0;
  }
  CHECK(feasible > 100);
  CHECK(optimal >= feasible - feasible / 20);
}

TEST_CASE("groups and packings rule out all that is impossible and nothing that is possible",
          "[seconds]") {
  Random random(23);
  for (int round = 0; round < 500; ++round) {
    const MaxLoadProblem problem = small_case(random);
    const double least = least_load(problem);
    if (least <= 0) continue;
    INFO(round);
    for (const double limit : {0.7 * least, least, 1.001 * least, 1.5 * least}) {
      const bool is_possible = limit > least * (1 + rounding);
      const auto groups = groups_below(problem, limit);
      if (is_possible) REQUIRE(groups);
      if (!groups) continue;
      const MaxLoadProblem small = joined(problem, *groups);
      const double least_of_groups = least_load(small);
      if (is_possible) REQUIRE(least_of_groups == Approx(least).epsilon(rounding));
      const MaxLoadPacking packing = pack_below(small, limit, 1'000'000, {});
      REQUIRE(packing.complete);
      REQUIRE(packing.found.has_value() == is_possible);
    }
    if (problem.processors > 0) continue;
    for (std::size_t node = 0; node < problem.nodes.size(); ++node) {
      REQUIRE(least_load_with(problem, static_cast<int>(node)) <= least * (1 + rounding));
    }
  }
}

TEST_CASE("the least load with a node is that of its cheapest surroundings") {
  Random random(29);
  for (int round = 0; round < 300; ++round) {
    const MaxLoadProblem problem = random_split(random, 7);
    const int nodes = static_cast<int>(problem.nodes.size());
    for (int node = 0; node < nodes; ++node) {
      double least = 1e300;
      for (int bits = 0; bits < 1 << nodes; ++bits) {
        if ((bits >> node & 1) == 0) continue;
        std::vector<int> set;
        for (int other = 0; other < nodes; ++other) {
          if ((bits >> other & 1) != 0) set.push_back(other);
        }
        least = std::min(least, load_of(problem, set, false));
      }
      REQUIRE(least_load_with(problem, node) == Approx(least).epsilon(rounding).margin(rounding));
    }
  }
}

TEST_CASE("a split without contiguity is the same for any number of threads") {
  Random random(31);
  for (int round = 0; round < 12; ++round) {
    const MaxLoadProblem problem = random_split(random, 30);
    ScatteredEffort effort = least_effort;
    const ScatteredAnswer one = split_without_contiguity(problem, effort, {});
    effort.threads = 3;
    const ScatteredAnswer other = split_without_contiguity(problem, effort, {});
    REQUIRE(one.split.has_value() == other.split.has_value());
    if (!one.split) continue;
    REQUIRE(one.split->load == other.split->load);
    REQUIRE(one.split->lower_bound == other.split->lower_bound);
    REQUIRE(one.split->parts.size() == other.split->parts.size());
    for (std::size_t part = 0; part < one.split->parts.size(); ++part) {
      REQUIRE(one.split->parts[part].members == other.split->parts[part].members);
    }
  }
}

TEST_CASE("stopped at once, a split without contiguity is still a split with an honest bound") {
  Random random(37);
  std::stop_source stop;
  stop.request_stop();
  for (int round = 0; round < 200; ++round) {
    const MaxLoadProblem problem = small_case(random);
    const double least = least_load(problem);
    const ScatteredAnswer answer =
        split_without_contiguity(problem, small_effort, stop.get_token());
    if (!answer.split) continue;
    check_parts(problem, *answer.split);
    REQUIRE(answer.split->lower_bound <= least * (1 + rounding));
  }
}

TEST_CASE("stages of visits come to devices in turn, read from what was done, and are not empty") {
  Random random(41);
  int found = 0;
  for (int round = 0; round < 600; ++round) {
    const MaxLoadProblem problem = random_split(random, 12);
    const Dag dag{.nodes = static_cast<int>(problem.nodes.size()), .edges = problem.edges};
    const int count = random.between(1, 3), visits = random.between(1, 3);
    std::vector<std::vector<int>> parts(static_cast<std::size_t>(count));
    for (int node = 0; node < dag.nodes; ++node) {
      parts[static_cast<std::size_t>(random.between(0, count - 1))].push_back(node);
    }
    if (std::any_of(parts.begin(), parts.end(), [](const auto& it) { return it.empty(); }))
      continue;
    const StagePlacement placement =
        random.chance(50) ? StagePlacement::loop : StagePlacement::wave;
    const std::vector<ForeignStage> stages = visits_of(dag, parts, placement, visits);
    if (stages.empty()) continue;
    ++found;
    REQUIRE(static_cast<int>(stages.size()) == count * visits);
    std::vector<int> stage_of(problem.nodes.size(), -1);
    std::vector<std::vector<int>> held(parts.size());
    for (int stage = 0; stage < count * visits; ++stage) {
      const ForeignStage& it = stages[static_cast<std::size_t>(stage)];
      const int device = device_of_stage(placement, stage, count);
      REQUIRE(it.devices == std::vector<int>{device});
      REQUIRE_FALSE(it.layers.empty());
      for (const int layer : it.layers) {
        stage_of[static_cast<std::size_t>(layer)] = stage;
        held[static_cast<std::size_t>(device)].push_back(layer);
      }
    }
    for (const Edge& edge : dag.edges) {
      REQUIRE(stage_of[static_cast<std::size_t>(edge.from)] <=
              stage_of[static_cast<std::size_t>(edge.to)]);
    }
    for (std::vector<int>& layers : held) std::sort(layers.begin(), layers.end());
    std::sort(held.begin(), held.end());
    std::sort(parts.begin(), parts.end());
    REQUIRE(held == parts);
  }
  CHECK(found > 50);
}

TEST_CASE("parts that are not contiguous run where a schedule comes back to devices") {
  struct Case {
    std::vector<int> forwards;
    ScheduleChoice schedule;
    double load;
    std::vector<int> devices;  ///< of the stages
  };
  const std::vector<Case> cases{
      {{2, 3, 3, 4}, {.name = "zb-v", .virtual_stages = 2}, 18, {0, 1, 1, 0}},
      {{2, 3, 3, 4}, {.name = "hanayo", .virtual_stages = 2}, 18, {0, 1, 1, 0}},
      {{4, 2, 1, 3}, {.name = "interleaved", .virtual_stages = 2}, 15, {0, 1, 0, 1}},
  };
  for (const Case& one : cases) {
    INFO(one.schedule.name);
    const Problem problem = chain_of(one.forwards, one.schedule);
    const SearchResult result = search_dnn_partitioning_noncontiguous(problem, {});
    REQUIRE(result.plans.size() == 1);
    REQUIRE(result.plans[0].objective);
    CHECK(result.plans[0].objective->value == one.load);
    CHECK(result.proved_optimal);
    REQUIRE(result.plans[0].prediction);
    const Plan& plan = result.plans[0].plan;
    validate(plan, problem.profile.model, problem.cluster);
    REQUIRE(plan.stages.size() == one.devices.size());
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
      CHECK(plan.stages[stage].devices == std::vector<std::vector<int>>{{one.devices[stage]}});
    }
  }
}

TEST_CASE("parts that no schedule asked for can run keep their objective, and say so") {
  const auto result_of = [](const std::vector<int>& forwards) {
    return search_dnn_partitioning_noncontiguous(chain_of(forwards, {.name = "1f1b"}), {})
        .plans.at(0);
  };
  // The two outer layers together: three stages, which are no multiple of two devices.
  const Candidate three = result_of({1, 2, 1});
  REQUIRE(three.objective);
  CHECK(three.objective->value == 6);
  CHECK_FALSE(three.prediction);
  CHECK(three.plan.stages.size() == 2);
  CHECK_THAT(three.rejected, ContainsSubstring("no order of their layers"));
  CHECK_THAT(result_of({2, 3, 3, 4}).rejected, ContainsSubstring("2 times, as under hanayo"));
  CHECK_THAT(result_of({4, 2, 1, 3}).rejected, ContainsSubstring("2 times, as under interleaved"));
}

TEST_CASE("a split without contiguity that does not fit is infeasible, with the reason") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = 100;
  const Problem problem = problem_of(profile_of({cost, cost}), cluster_of({{2, {}}}, 50), 1, {1});
  const SearchResult result = search_dnn_partitioning_noncontiguous(problem, {});
  CHECK(result.plans.empty());
  REQUIRE(result.infeasible);
  CHECK_THAT(result.infeasible->reason, ContainsSubstring("no split over 2 devices fits"));
}

TEST_CASE("published inputs without contiguity: within 1 % of the integer program's bound",
          "[minutes]") {
  if (!std::filesystem::exists(shared_data() / "dnn-partitioning"))
    SKIP("no published data at " + shared_folder());
  const std::string input =
      GENERATE(as<std::string>(), "LayerGraphs/gnmt_inference", "LayerGraphs/gnmt_training",
               "LayerGraphs/resnet50_inference", "LayerGraphs/resnet50_training",
               "OperatorGraphs/bert_l-3_inference", "OperatorGraphs/bert_l-3_training");
  INFO(input);
  if (is_watched && input != "OperatorGraphs/bert_l-3_inference") return;
  std::string file = "dnn_ip_" + input + "_noncontig.json";
  std::replace(file.begin(), file.end(), '/', '_');
  const Json reference = Json::read((shared_data() / "reference" / file).string());
  const double primal = reference["objective_maxload"].number();
  const double bound = reference["proven_lower_bound"].number();
  const MaxLoadProblem problem = published_question(input);
  const ScatteredAnswer answer = split_without_contiguity(problem, {}, {});
  REQUIRE(answer.split);
  check_parts(problem, *answer.split);
  CHECK(answer.split->load >= bound * (1 - rounding));
  CHECK(answer.split->load <= 1.01 * bound);
  // Colours whose nodes read from each other in a circle are one layer of ours; the program may
  // part them, which brings it a millionth in one of these.
  CHECK(answer.split->lower_bound <= primal * (1 + 2e-6));
  CHECK(answer.split->lower_bound <= answer.split->load);
  const auto contiguous = split_by_max_load(problem, most_downsets_of_max_load, {});
  REQUIRE(contiguous);
  CHECK(answer.split->load <= contiguous->load * (1 + rounding));
  for (const std::string tool : {"scotch", "localsearch10"}) {
    const auto path = shared_data() / "reference" / reference_of(input, tool);
    if (!std::filesystem::exists(path)) continue;
    CHECK(answer.split->load <= Json::read(path.string())["objective_maxload"].number());
  }
}
