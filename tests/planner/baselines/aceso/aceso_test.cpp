#include "planner/baselines/aceso/aceso_search.hpp"

#include <algorithm>
#include <map>

#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/baselines/aceso_released.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Every plan, stage by stage.
class BruteForce {
 public:
  BruteForce(const AcesoDatabase& database, const AcesoQuestion& question)
      : database_(database), question_(question) {
    for (const int microbatch : question.microbatches) {
      for (int stages = 1; stages <= question.most_stages; ++stages) {
        microbatch_ = microbatch;
        others_ = static_cast<double>(question.global_batch / microbatch) - 1;
        extend(0, 0, stages, 0, 0);
      }
    }
  }
  /// Seconds; negative if nothing fits.
  double least = -1;

 private:
  void extend(int first, int devices, int stages, double slowest, double sum) {
    const int operators = static_cast<int>(database_.chain.size());
    if (stages == 0) {
      if (first < operators || devices < question_.machine.devices) return;
      const double time = (others_ * slowest + sum) * 1e-6;
      if (least < 0 || time < least) least = time;
      return;
    }
    for (int end = first + 1; end <= operators; ++end) {
      for (const AcesoTable& table : database_.tables) {
        const int replicas = microbatch_ / table.microbatch;
        const int used = replicas * table.tensor_parallel;
        const bool is_power = (used & (used - 1)) == 0;
        if (table.microbatch * replicas != microbatch_ || !is_power || used == 0 ||
            devices + used > question_.machine.devices ||
            table.tensor_parallel > question_.machine.devices_per_node)
          continue;
        const double time = stage_time(table, first, end, devices, used, stages - 1);
        if (time >= 0) extend(end, devices + used, stages - 1, std::max(slowest, time), sum + time);
      }
    }
  }

  double stage_time(const AcesoTable& table, int first, int end, int devices, int used,
                    int behind) {
    const int per_node = question_.machine.devices_per_node;
    const bool from_node = devices > 0 && devices % per_node == 0;
    const bool to_node = (devices + used) % per_node == 0;
    const std::vector<int> key{
        table.microbatch, table.tensor_parallel, first, end, behind, from_node, to_node};
    const auto [place, is_new] = times_.try_emplace(key, -1);
    if (!is_new) return place->second;
    const Released stage(database_, table, first, end);
    const std::vector<bool> rc = stage.check_recompute(behind, question_.machine.memory);
    if (stage.memory(rc, behind) <= question_.machine.memory)
      place->second = stage.time(rc, from_node, to_node);
    return place->second;
  }

  const AcesoDatabase& database_;
  const AcesoQuestion& question_;
  int microbatch_ = 1;
  double others_ = 0;
  std::map<std::vector<int>, double> times_;
};

/// Sizes are thousandths of MiB, as published.
AcesoOperator random_operator(Random& random) {
  const auto size = [&](int most) { return random.chance(20) ? 0.0 : random.between(0, most); };
  return {.forward = static_cast<double>(random.between(1, 20)),
          .backward = static_cast<double>(random.between(0, 60)),
          .input = random.between(16, 9000) / 1000.0,
          .output = random.between(16, 9000) / 1000.0,
          .weights = size(1),
          .activations = size(30),
          .forward_reserved = size(3),
          .backward_reserved = size(6)};
}

/// An embedding, a few layers and a head, with names that Aceso's code has rules for.
AcesoDatabase random_database(Random& random) {
  const std::vector<std::string> known{"enc-1st-layernorm",     "enc-attention-softmax",
                                       "enc-attention-dropout", "enc-attention-context",
                                       "enc-MLP-gelu",          "block-1-conv1",
                                       "block-1-bn3",           "block-1-relu"};
  AcesoDatabase database{.family = "test", .size = "", .names = {"encoder-embedding"}};
  const int width = random.between(1, 3);
  for (int i = 0; i < width; ++i)
    database.names.push_back(known[index(random.between(0, 7))] +
                             (i > 0 && random.chance(70) ? "x" : ""));
  for (int i = 1; i <= width; ++i) {
    auto& name = database.names[index(i)];
    if (std::count(database.names.begin(), database.names.end(), name) > 1)
      name += std::to_string(i);
  }
  database.names.emplace_back("gpt-post-process");
  database.chain = {0};
  for (int layer = random.between(1, 6 / width); layer > 0; --layer) {
    for (int i = 1; i <= width; ++i) database.chain.push_back(i);
  }
  database.chain.push_back(width + 1);
  for (const int microbatch : {1, 2, 4}) {
    for (const int degree : {1, 2, 4}) {
      if (random.chance(degree > 1 || microbatch > 1 ? 60 : 10)) continue;
      AcesoTable& table = database.tables.emplace_back();
      table.microbatch = microbatch;
      table.tensor_parallel = degree;
      for (std::size_t i = 0; i < database.names.size(); ++i)
        table.operators.push_back(random_operator(random));
    }
  }
  database.between_devices = {1000, 2000, 2500, 2600, 2700, 2800, 2900};
  database.between_nodes = {100, 200, 250, 260, 270, 280, 290};
  database.optimizer_ratio = random.between(0, 3);
  return database;
}

AcesoQuestion random_question(Random& random) {
  AcesoQuestion question;
  question.machine = {.devices = random.between(1, 4),
                      .devices_per_node = random.between(1, 4),
                      .memory = static_cast<double>(random.between(30, 90))};
  question.global_batch = 4 * random.between(1, 8);
  question.microbatches = {1, 2, 4};
  question.degrees = {1, 2, 4};
  question.most_stages = random.chance(70) ? question.machine.devices : random.between(1, 3);
  return question;
}

}  // namespace

TEST_CASE("no plan is faster in Aceso's model than the one found", "[seconds]") {
  Random random(23);
  int infeasible = 0;
  int recomputing = 0;
  for (int round = 0; round < 320; ++round) {
    INFO(round);
    const AcesoDatabase database = random_database(random);
    const AcesoQuestion question = random_question(random);
    const double least = BruteForce(database, question).least;
    const AcesoAnswer answer = search_by_aceso(database, question);
    REQUIRE(answer.plan.has_value() == (least >= 0));
    if (!answer.plan) {
      ++infeasible;
      continue;
    }
    REQUIRE(answer.figures.time == Approx(least).epsilon(1e-9));
    REQUIRE(answer.lower_bound == answer.figures.time);
    check_plan(database, question, answer);
    for (const AcesoStage& stage : answer.plan->stages)
      recomputing += std::count(stage.recomputes.begin(), stage.recomputes.end(), true) > 0 ? 1 : 0;
  }
  CHECK(infeasible > 30);
  CHECK(infeasible < 300);
  CHECK(recomputing > 15);
}

TEST_CASE("with little effort Aceso's search has a plan that is no better, and a bound below it",
          "[seconds]") {
  Random random(29);
  int cut_short = 0, found = 0;
  for (int round = 0; round < 480; ++round) {
    INFO(round);
    const AcesoDatabase database = random_database(random);
    const AcesoQuestion question = random_question(random);
    const AcesoAnswer whole = search_by_aceso(database, question);
    CHECK(whole.is_complete);
    const AcesoAnswer part = search_by_aceso(database, question, {.left = 150});
    if (part.is_complete) continue;
    ++cut_short;
    if (!part.plan) continue;
    ++found;
    REQUIRE(whole.plan);
    check_plan(database, question, part);
    CHECK(part.figures.time >= whole.figures.time * (1 - 1e-9));
    CHECK(part.lower_bound <= whole.figures.time * (1 + 1e-9));
  }
  CHECK(cut_short > 40);
  CHECK(found > 10);
}

namespace {

/// Two equal layers, measured for one sample and for two.
Problem problem_of_two(Duration one, Duration two) {
  Profile profile = profile_of({layer_cost(one, 0ms), layer_cost(one, 0ms)}, 1);
  ProfileEntry entry = profile.entries.front();
  entry.setting.microbatch = 2;
  entry.layers = {layer_cost(two, 0ms), layer_cost(two, 0ms)};
  profile.entries.push_back(entry);
  return problem_of(profile, cluster_of({{2, {}}}), 4, {2});
}

}  // namespace

TEST_CASE("Aceso's model plans for any profile") {
  Problem problem = problem_of_two(10ms, 18ms);
  const SearchResult replicated = search_aceso(problem, {});
  REQUIRE(replicated.plans.size() == 1);
  // Two microbatches of two samples, one sample on each device: 20 ms each.
  CHECK(replicated.plans[0].objective->value == Approx(0.040));
  CHECK(replicated.plans[0].plan.stages[0].devices.size() == 2);
  CHECK(replicated.proved_optimal);
  problem.straight = true;
  // 18 ms for each stage: the slowest once more.
  CHECK(search_aceso(problem, {}).plans[0].objective->value == Approx(0.054));
  problem.max_stages = 1;
  const SearchResult none = search_aceso(problem, {});
  REQUIRE(none.infeasible);
  // One stage of two devices is what there is, and without replicas it is none.
  CHECK_THAT(none.infeasible->reason,
             ContainsSubstring("no stages over all 2 devices, whatever their memory: "));
  problem.global_batch = 3;
  problem.microbatches = {3};
  CHECK_THROWS_WITH(search_aceso(problem, {}), ContainsSubstring("no costs of chain for"));
}

TEST_CASE("a stopped search in Aceso's model says so") {
  std::stop_source source;
  source.request_stop();
  const SearchResult result =
      search_aceso(problem_of_two(10ms, 18ms), {.stop = source.get_token()});
  CHECK(result.interrupted);
  CHECK(result.plans.empty());
  CHECK_FALSE(result.infeasible);
}
