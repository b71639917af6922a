// Plans whose devices share tokens, experts, gradients or parameters: every degree does what it
// says, formulas of the papers hold, and the search finds what trying everything finds.

#include "planner/costs/device_memory.hpp"
#include "planner/costs/predict.hpp"
#include "planner/costs/sharded_costs.hpp"
#include "planner/plan/parallelism_fault.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/planner/compared.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Of a transformer in bf16: `stages` pipeline devices of so many replicas and peers, one after
/// another.
Plan plan_of(const Model& model, int stages, int replicas, int peers) {
  Plan plan;
  plan.model = model.name;
  plan.cluster = "test";
  plan.precision = Precision::bfloat16;
  const std::int64_t microbatch = std::max(replicas, 8);
  plan.batch = {4 * microbatch, microbatch, 4, model.sequence};
  const int layers = static_cast<int>(model.layers.size());
  int device = 0;
  for (int s = 0; s < stages; ++s) {
    Stage& stage = plan.stages.emplace_back();
    stage.layers = {layers * s / stages, layers * (s + 1) / stages};
    for (int r = 0; r < replicas; ++r) {
      auto& list = stage.devices.emplace_back();
      for (int p = 0; p < peers; ++p) list.push_back(device++);
    }
  }
  return plan;
}

Profile profile_of_model(const std::string& name) {
  return {.model = builtin_model(name), .entries = {}};
}

Prediction predicted(const Plan& plan, const std::string& model, const std::string& cluster) {
  return predict(plan, profile_of_model(model), parse_cluster(cluster));
}

Bytes used(const Prediction& prediction, MemoryCategory category) {
  return prediction.peaks.front().use[static_cast<std::size_t>(category)];
}

std::string complaint(const Plan& plan, const std::string& model, const std::string& cluster) {
  return message_of([&] { validate(plan, builtin_model(model), parse_cluster(cluster)); });
}

}  // namespace

TEST_CASE("sequence parallelism keeps less, sends less and takes no longer", "[parallelism]") {
  const Plan plain = plan_of(builtin_model("llama3-8b"), 2, 1, 8);
  Plan spread = plain;
  spread.parallelism.sequence = true;
  const Prediction without = predicted(plain, "llama3-8b", "2x8xh100");
  const Prediction with = predicted(spread, "llama3-8b", "2x8xh100");
  CHECK(used(with, MemoryCategory::activations) < used(without, MemoryCategory::activations));
  CHECK(used(with, MemoryCategory::parameters) == used(without, MemoryCategory::parameters));
  CHECK(with.step < without.step);
  CHECK(with.stages.front().send < without.stages.front().send);
}

TEST_CASE("one device has all tokens, sequence-parallel or not", "[parallelism]") {
  const Plan plain = plan_of(builtin_model("llama3-8b"), 2, 2, 1);
  Plan spread = plain;
  spread.parallelism.sequence = true;
  CHECK(predicted(spread, "llama3-8b", "4xh100").step ==
        predicted(plain, "llama3-8b", "4xh100").step);
}

TEST_CASE("context parallelism divides activations, copies weights, and sums over its peers",
          "[parallelism]") {
  const Plan alone = plan_of(builtin_model("llama3-8b"), 2, 1, 1);
  Plan four = plan_of(builtin_model("llama3-8b"), 2, 1, 4);
  four.parallelism.context = 4;
  const Prediction without = predicted(alone, "llama3-8b", "8xh100");
  const Prediction with = predicted(four, "llama3-8b", "8xh100");
  CHECK(used(with, MemoryCategory::parameters) == used(without, MemoryCategory::parameters));
  CHECK(used(with, MemoryCategory::optimizer) == used(without, MemoryCategory::optimizer));
  CHECK(used(with, MemoryCategory::activations) * 4 == used(without, MemoryCategory::activations));
  CHECK(with.step < without.step);
  // Its peers are members of the sum of gradients: one program device, four that hold its weights.
  const Compiled compiled = compile(four, profile_of_model("llama3-8b"), parse_cluster("8xh100"));
  REQUIRE(compiled.program.groups.size() == 2);
  const DeviceGroup peers = device_group(parse_cluster("8xh100"), {0, 1, 2, 3});
  const Group& group = compiled.program.groups.front();
  CHECK(group.chunks.size() == 1);
  CHECK(compiled.costs.groups.front() ==
        collective_time(Collective::all_reduce, peers, group.bytes));
  four.optimizer.sharding = Sharding::zero1;
  const Prediction sharded = predicted(four, "llama3-8b", "8xh100");
  CHECK(used(sharded, MemoryCategory::optimizer) ==
        (used(with, MemoryCategory::optimizer) + 3) / 4);
}

TEST_CASE("programs of all degrees are safe", "[parallelism]") {
  for (const Parallelism& parallelism :
       {Parallelism{.context = 2}, Parallelism{.expert = 2}, Parallelism{.sequence = true},
        Parallelism{.sequence = true, .context = 2, .expert = 4, .expert_tensor = 1}}) {
    for (const Sharding sharding : shardings) {
      Plan plan = plan_of(builtin_model("mixtral-8x7b"), 2, 2, 4);
      plan.parallelism = parallelism;
      plan.optimizer.sharding = sharding;
      const Compiled compiled =
          compile(plan, profile_of_model("mixtral-8x7b"), parse_cluster("2x8xh100"));
      const CheckReport report = check(compiled.program);
      for (const Finding& finding : report.findings) FAIL_CHECK(finding.message);
      CHECK_FALSE(report.proved.empty());
    }
  }
}

TEST_CASE("experts over devices: each holds its part, and sums it with fewer", "[parallelism]") {
  // Eight replicas: of each expert there are 8/e copies.
  Plan plan = plan_of(builtin_model("mixtral-8x7b"), 1, 8, 1);
  const Prediction whole = predicted(plan, "mixtral-8x7b", "8xh100");
  Bytes experts = 0;
  for (const LayerCost& cost :
       estimate_costs(builtin_model("mixtral-8x7b"), builtin_device_kind("h100"),
                      {.device = "h100", .sequence = 4096, .precision = Precision::bfloat16})) {
    experts += cost.expert_parameters;
  }
  for (const int degree : {2, 4, 8}) {
    plan.parallelism.expert = degree;
    const Prediction shared = predicted(plan, "mixtral-8x7b", "8xh100");
    CHECK(used(whole, MemoryCategory::parameters) - used(shared, MemoryCategory::parameters) ==
          experts - experts / degree);
    CHECK(used(whole, MemoryCategory::optimizer) - used(shared, MemoryCategory::optimizer) ==
          6 * (experts - experts / degree));
    const Compiled compiled =
        compile(plan, profile_of_model("mixtral-8x7b"), parse_cluster("8xh100"));
    std::vector<int> copies;
    for (int device = 0; device < 8; device += degree) copies.push_back(device);
    const Cluster cluster = parse_cluster("8xh100");
    const Bytes own = 2 * experts / degree;  // gradients in fp32
    CHECK(compiled.costs.groups.front() ==
          collective_time(Collective::all_reduce, device_group(cluster, {0, 1, 2, 3, 4, 5, 6, 7}),
                          compiled.program.groups.front().bytes - own) +
              collective_time(Collective::all_reduce, device_group(cluster, copies), own));
  }
}

TEST_CASE("a shared expert layer says how even its load is taken to be", "[parallelism]") {
  Plan plan = plan_of(builtin_model("mixtral-8x7b"), 1, 8, 1);
  plan.parallelism = {.expert = 8, .expert_load = 1.25};
  const Prediction busy = predicted(plan, "mixtral-8x7b", "8xh100");
  CHECK_THAT(busy.notes.front(), ContainsSubstring("1.25 times the mean"));
  plan.parallelism.expert_load = 1;
  CHECK(predicted(plan, "mixtral-8x7b", "8xh100").step < busy.step);
}

TEST_CASE("ZeRO divides what it names by the replicas", "[parallelism]") {
  // Rajbhandari et al. 2020, figure 1, with K = 12 and sums of gradients in fp32: weights 2 Psi,
  // gradients 4 Psi, states 12 Psi; each stage of it divides one more.
  Plan plan = plan_of(builtin_model("llama3-8b"), 1, 8, 1);
  const Prediction none = predicted(plan, "llama3-8b", "8xh100");
  const Bytes weights = used(none, MemoryCategory::parameters);
  CHECK(used(none, MemoryCategory::gradients) == 2 * weights);
  CHECK(used(none, MemoryCategory::optimizer) == 6 * weights);
  const auto memory = [&](Sharding sharding) {
    plan.optimizer.sharding = sharding;
    return predicted(plan, "llama3-8b", "8xh100");
  };
  const Prediction one = memory(Sharding::zero1);
  CHECK(used(one, MemoryCategory::optimizer) == 6 * weights / 8);
  CHECK(used(one, MemoryCategory::gradients) == 2 * weights);
  const Prediction two = memory(Sharding::zero2);
  CHECK(used(two, MemoryCategory::optimizer) == 6 * weights / 8);
  CHECK(used(two, MemoryCategory::gradients) == 2 * weights / 8);
  CHECK(used(two, MemoryCategory::parameters) == weights);
  const Prediction three = memory(Sharding::zero3);
  CHECK(used(three, MemoryCategory::gradients) == 2 * weights / 8);
  CHECK(used(three, MemoryCategory::parameters) == weights / 8);
  CHECK(used(three, MemoryCategory::workspace) > used(two, MemoryCategory::workspace));
  CHECK(used(two, MemoryCategory::workspace) > used(one, MemoryCategory::workspace));
}

TEST_CASE("ZeRO-2 and 3 take the longer of computing and messages", "[parallelism]") {
  LayerCost layer = layer_cost(10ms, 20ms);
  layer.parameters = 80'000'000;
  layer.gradients = 160'000'000;
  const auto with = [&](Sharding sharding, std::int64_t bytes_per_second) {
    const Cluster cluster = cluster_of({{8, link_of(0us, bytes_per_second)}});
    const DeviceGroup eight = device_group(cluster, {0, 1, 2, 3, 4, 5, 6, 7});
    return with_shards(layer, sharding, {eight, eight});
  };
  // At 10 GB/s a gather of 7/8 takes 7 ms and a scatter 14 ms.
  const LayerCost two = with(Sharding::zero2, 10'000'000'000);
  CHECK(two.forward == 10ms);
  CHECK(two.backward() == 20ms);
  CHECK(two.workspace == layer.parameters);
  const LayerCost three = with(Sharding::zero3, 10'000'000'000);
  CHECK(three.forward == 10ms);
  CHECK(three.backward() == 21ms);
  CHECK(three.workspace == 3 * layer.parameters);
  // At a fifth of it 35 and 70 ms: three times the volume of zero2's forward-free pass (section 7).
  CHECK(with(Sharding::zero2, 2'000'000'000).backward() == 70ms);
  CHECK(with(Sharding::zero3, 2'000'000'000).forward == 35ms);
  CHECK(with(Sharding::zero3, 2'000'000'000).backward() == 105ms);
  CHECK(with(Sharding::zero1, 2'000'000'000) == layer);
}

TEST_CASE("a step under ZeRO-2 and 3 is its microbatches and updates, in closed form",
          "[parallelism]") {
  LayerCost layer = layer_cost(10ms, 20ms);
  layer.update = 8ms;
  layer.parameters = 80'000'000;
  layer.gradients = 160'000'000;
  const Cluster cluster = cluster_of({{8, link_of(0us, 2'000'000'000)}});
  Plan plan;
  plan.model = "chain";
  plan.cluster = "test";
  plan.batch = {32, 8, 4, 0};
  plan.stages = {{{0, 3}, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, Recompute::none}};
  const Profile profile = profile_of(std::vector<LayerCost>(3, layer));
  Profile measured = profile;
  measured.entries.push_back(measured.entries.front());
  measured.entries.back().setting.microbatch = 8;
  plan.optimizer.sharding = Sharding::zero2;
  // Four microbatches of three layers, an update of an eighth, and parameters collected once.
  CHECK(predict(plan, measured, cluster).step == 4 * 3 * (10ms + 70ms) + 3 * 1ms + 3 * 35ms);
  plan.optimizer.sharding = Sharding::zero3;
  CHECK(predict(plan, measured, cluster).step == 4 * 3 * (35ms + 105ms) + 3 * 1ms);
}

TEST_CASE("degrees that do not divide what they are to divide are refused", "[parallelism]") {
  const Model model = builtin_model("mixtral-8x7b");
  Plan plan = plan_of(model, 1, 8, 1);
  plan.parallelism.expert = 3;
  CHECK_THAT(complaint(plan, "mixtral-8x7b", "8xh100"),
             ContainsSubstring("3 devices cannot share 8 experts evenly"));
  plan = plan_of(model, 1, 2, 1);
  plan.parallelism.expert = 8;
  CHECK_THAT(complaint(plan, "mixtral-8x7b", "8xh100"), ContainsSubstring("stage 0 has 2 devices"));
  plan = plan_of(model, 1, 2, 3);
  plan.parallelism.context = 2;
  CHECK_THAT(complaint(plan, "mixtral-8x7b", "8xh100"),
             ContainsSubstring("no multiple of the context-parallel degree 2"));
  plan = plan_of(model, 1, 2, 3);
  plan.parallelism.context = 3;
  CHECK_THAT(complaint(plan, "mixtral-8x7b", "8xh100"),
             ContainsSubstring("cannot share 4096 tokens"));
  plan = plan_of(builtin_model("llama3-8b"), 1, 8, 1);
  plan.parallelism.expert = 2;
  CHECK_THAT(complaint(plan, "llama3-8b", "8xh100"), ContainsSubstring("has no experts"));
  plan = plan_of(model, 1, 8, 1);
  plan.optimizer.sharding = Sharding::zero3;
  plan.replicas = ReplicaPolicy::round_robin;
  CHECK_THAT(complaint(plan, "mixtral-8x7b", "8xh100"), ContainsSubstring("take turns"));
  plan = plan_of(model, 1, 3, 1);
  plan.optimizer.sharding = Sharding::zero2;
  CHECK_THAT(complaint(plan, "mixtral-8x7b", "8xh100"),
             ContainsSubstring("8 samples do not divide over the 3 of stage 0"));
  plan = plan_of(model, 2, 1, 1);
  plan.schedule = {.name = "chimera"};
  plan.optimizer.sharding = Sharding::zero2;
  CHECK_THAT(complaint(plan, "mixtral-8x7b", "8xh100"), ContainsSubstring("several copies"));
}

TEST_CASE("context-parallel peers may be in several nodes, tensor-parallel ones not",
          "[parallelism]") {
  Plan plan = plan_of(builtin_model("llama3-8b"), 1, 1, 16);
  CHECK_THAT(complaint(plan, "llama3-8b", "2x8xh100"), ContainsSubstring("innermost links"));
  plan.parallelism.context = 2;
  CHECK(complaint(plan, "llama3-8b", "2x8xh100").empty());
}

TEST_CASE("degrees go into a plan's file and out of it, and nothing where there are none",
          "[parallelism]") {
  Plan plan = plan_of(builtin_model("mixtral-8x7b"), 1, 8, 1);
  CHECK(write_plan(plan).find("parallelism") == std::string::npos);
  plan.parallelism = {
      .sequence = true, .context = 2, .expert = 8, .expert_tensor = 1, .expert_load = 1.5};
  const std::string text = write_plan(plan);
  CHECK(read_plan(Json::parse(text, "a.json")) == plan);
  for (const auto& [from, to] : {std::pair{"\"context\": 2", "\"context\": 0"},
                                 {"\"expert_load\": 1.5", "\"expert_load\": 0.5"}}) {
    std::string changed = text;
    const auto at = changed.find(from);
    REQUIRE(at != std::string::npos);
    changed.replace(at, std::string(from).size(), to);
    CHECK_FALSE(message_of([&] { read_plan(Json::parse(changed, "a.json")); }).empty());
  }
}

TEST_CASE("exact is as good as trying everything under ZeRO-2 and 3", "[parallelism]") {
  for (std::uint32_t seed = 7'000; seed < 7'012; ++seed) {
    INFO("seed " << seed);
    Problem problem = random_problem(seed, {5, 4});
    problem.optimizer.sharding = seed % 2 == 0 ? Sharding::zero2 : Sharding::zero3;
    require_as_good_as_brute_force(problem);
  }
}

TEST_CASE("the search keeps to the degrees it is given", "[parallelism]") {
  Problem problem =
      problem_of(profile_of_model("deepseek-v2-lite"), parse_cluster("8xh100"), 16, {4, 8, 16});
  problem.precision = Precision::bfloat16;
  problem.sequence = 4096;
  problem.tensor_parallel = {1, 2};
  problem.optimizer.sharding = Sharding::zero3;
  problem.parallelism = {.sequence = true, .context = 2, .expert = 4};
  const SearchResult result = search_exact(problem, {});
  REQUIRE_FALSE(result.plans.empty());
  const Plan& plan = result.plans.front().plan;
  CHECK(plan.parallelism.context == 2);
  CHECK(plan.parallelism.expert == 4);
  CHECK(plan.stages.front().devices.front().size() % 2 == 0);
  const Prediction again = predict(plan, problem.profile, problem.cluster);
  CHECK(again.step == result.plans.front().prediction->step);
  CHECK(result.lower_bound <= again.step);
}

TEST_CASE("a reserve is a category of every device's memory, and no plan's to use",
          "[parallelism]") {
  const Plan plan = plan_of(builtin_model("llama3-8b"), 2, 1, 1);
  Cluster cluster = parse_cluster("2xh100");
  cluster.kinds.front().reserve = 0;
  const Prediction whole = predict(plan, profile_of_model("llama3-8b"), cluster);
  const Bytes reserve = Bytes{2} << 30;
  cluster.kinds.front().reserve = reserve;
  cluster.kinds.front().reserve_source = "measured";
  const Prediction less = predict(plan, profile_of_model("llama3-8b"), cluster);
  CHECK(less.memory_limits == whole.memory_limits);
  for (std::size_t d = 0; d < whole.peaks.size(); ++d) {
    CHECK(less.peaks[d].bytes == whole.peaks[d].bytes + reserve);
    MemoryUse use = less.peaks[d].use;
    CHECK(use[static_cast<std::size_t>(MemoryCategory::reserve)] == reserve);
    use[static_cast<std::size_t>(MemoryCategory::reserve)] = 0;
    CHECK(use == whole.peaks[d].use);
  }
  // One that takes nearly all is what a check names first.
  cluster.kinds.front().reserve = cluster.kinds.front().memory - (Bytes{1} << 30);
  const Compiled compiled = compile(plan, profile_of_model("llama3-8b"), cluster);
  const CheckReport report = check(compiled.program, {.memory_limits = compiled.memory_limits});
  REQUIRE_FALSE(report.findings.empty());
  CHECK_THAT(report.findings.front().message, ContainsSubstring("78.11GiB of reserve"));
  CHECK(read_cluster(Json::parse(write_cluster(cluster), "c.json")) == cluster);
}

TEST_CASE("given memory, and a part of it, are of all that a device has", "[parallelism]") {
  Cluster cluster = parse_cluster("2xh100");
  const Cluster own = cluster;
  give_memory(cluster, own.kinds.front().memory);
  CHECK(cluster == own);
  DeviceKind& kind = cluster.kinds.front();
  take_part_of_memory(kind, 0.5);
  CHECK(kind.memory == own.kinds.front().memory / 2);
  CHECK(kind.reserve == own.kinds.front().reserve);
  CHECK(why_nothing_left(cluster).empty());
  take_part_of_memory(kind, 0.001);
  CHECK(usable_memory(kind) == 0);
  CHECK_THAT(why_nothing_left(cluster), ContainsSubstring("leave nothing for training"));
}

TEST_CASE("sizes are rounded up as people say them", "[parallelism]") {
  CHECK(rounded_up(Bytes{162'811} << 20) == "159GiB");
  CHECK(rounded_up(Bytes{2957} << 30) == "2957GiB");
  CHECK(rounded_up(7'000'000) == "6.7MiB");
  CHECK(rounded_up((Bytes{9} << 30) - 1) == "9GiB");
  CHECK(rounded_up((Bytes{9} << 30) + 1) == "9.1GiB");
  CHECK(rounded_up(1000) == "1000B");
}

TEST_CASE("built-in GPUs have a reserve with its source", "[parallelism]") {
  for (const std::string& name : builtin_device_kinds()) {
    INFO(name);
    const DeviceKind kind = builtin_device_kind(name);
    const bool is_gpu = name != "cpu" && name != "generic";
    CHECK((kind.reserve > 0) == is_gpu);
    CHECK(kind.reserve_source.empty() != is_gpu);
    CHECK(kind.reserve < Bytes{2} << 30);
  }
}
