// Plans for one framework: the search finds the best of those that it runs, as brute force does,
// and every plan it answers is one that the framework's row allows and its exporter writes.

#include "planner/analysis/certificate.hpp"
#include "planner/analysis/frameworks.hpp"
#include "planner/costs/predict.hpp"
#include "planner/search/brute_force.hpp"
#include "planner/search/exact.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "planner/space/target_question.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// A random chain as a transformer: an embedding, blocks whose attention may be done again, a head.
Problem random_transformer(std::uint32_t seed) {
  Problem problem = random_problem(seed, {6, 4});
  Random random(seed);
  Model& model = problem.profile.model;
  problem.min_layers_per_stage = 1;
  problem.recompute = {Recompute::none, Recompute::full};
  if (model.layers.size() < 3) return problem;
  model.transformer = Transformer{
      .hidden = 8, .heads = 2, .vocabulary = 16, .position = Transformer::Position::rotary};
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const bool is_last = layer + 1 == model.layers.size();
    model.layers[layer].kind = layer == 0 ? LayerKind::embedding
                               : is_last  ? LayerKind::head
                                          : LayerKind::transformer;
    if (layer == 0 || is_last) continue;
    for (ProfileEntry& entry : problem.profile.entries) {
      LayerCost& cost = entry.layers[layer];
      cost.selective = SelectiveCost{.again = cost.forward / random.between(2, 6),
                                     .saved = cost.saved * random.between(30, 80) / 100};
    }
  }
  return problem;
}

/// With what the framework can do of states, and any of its schedules.
Problem random_for(const Target& target, std::uint32_t seed) {
  Problem problem = random_transformer(seed);
  Random random(seed + 1);
  problem.optimizer.sharding = target.sharding.front();
  if (!target.gradient_buckets) problem.optimizer.gradient_bucket = 0;
  if (target.sharding.size() > 1 && random.chance(50)) problem.optimizer.sharding = Sharding::zero1;
  problem.microbatch_per_copy = random.chance(50);
  if (random.chance(40)) problem.schedules = all_schedule_choices();
  std::erase_if(problem.schedules,
                [](const ScheduleChoice& choice) { return choice.virtual_stages > 2; });
  problem.schedules.push_back({.name = "1f1b"});
  return for_target(std::move(problem), target, {.sharding = true});
}

bool may_ask(const Target& target, std::uint32_t seed) {
  return !target.only_transformers || random_transformer(seed).profile.model.transformer;
}

/// As it is but for the models that it has: random ones are none of them.
const Target* of_any_model(const Target* target) {
  static const Target any = [] {
    Target copy = torchtitan_target;
    copy.against_model = nullptr;
    return copy;
  }();
  return target == &torchtitan_target ? &any : target;
}

/// Equal steps, and a bound that holds; whether it is proved.
bool require_best(const Problem& problem) {
  const SearchResult every = search_brute_force(problem, {});
  const SearchResult exact = search_exact(problem, {.explain = false});
  REQUIRE(every.plans.empty() == exact.plans.empty());
  if (every.plans.empty()) return true;
  const Candidate& best = exact.plans.front();
  REQUIRE(pace(*best.prediction) == pace(*every.plans.front().prediction));
  REQUIRE(exact.lower_bound <= pace(*best.prediction));
  REQUIRE_FALSE(exact.families.leaves_out());
  REQUIRE(Space(problem).against_question(best.plan).empty());
  validate(best.plan, problem.profile.model, problem.cluster);
  return exact.proved_optimal;
}

std::vector<const Target*> with_equal_stages() {
  std::vector<const Target*> found = newest_targets();
  std::erase_if(found,
                [](const Target* target) { return !target->equal_stages || !target->trains; });
  return found;
}

}  // namespace

TEST_CASE("random problems: of the plans that a framework runs, exact finds the best",
          "[seconds]") {
  const std::uint32_t count = is_watched ? 5 : 60;
  std::uint32_t tried = 0, proved = 0;
  for (const Target* row : with_equal_stages()) {
    const Target* target = of_any_model(row);
    for (std::uint32_t seed = 21'000'000; seed < 21'000'000 + count; ++seed) {
      if (!may_ask(*target, seed)) continue;
      INFO(target->name << ", seed " << seed);
      ++tried;
      proved += require_best(random_for(*target, seed)) ? 1 : 0;
    }
  }
  CHECK(tried > count * 3);
  CHECK(proved * 20 >= tried * 19);
}

TEST_CASE("certificates of plans for a framework are verified within what it runs", "[seconds]") {
  int held = 0;
  for (const Target* row : with_equal_stages()) {
    const Target* target = of_any_model(row);
    for (std::uint32_t seed = 22'000'000; seed < 22'000'008; ++seed) {
      if (!may_ask(*target, seed)) continue;
      INFO(target->name << ", seed " << seed);
      const Problem problem = random_for(*target, seed);
      const SearchResult exact = search_exact(problem, {.explain = false});
      if (exact.plans.empty()) continue;
      Plan plan = exact.plans.front().plan;
      const Verification own = verify_bound(plan, problem.profile, problem.cluster);
      REQUIRE(own.fault == "");
      // A bound that says more than is true of these plans is refuted.
      plan.search->lower_bound += Duration{1'000'000};
      REQUIRE_FALSE(verify_bound(plan, problem.profile, problem.cluster).holds());
      ++held;
    }
  }
  CHECK(held > 10);
}

TEST_CASE("what a row does not have is refused if somebody said it, and left out if not") {
  Problem problem = random_transformer(1);
  problem.profile.model.transformer.reset();
  const auto refusal_of = [&](std::string_view name, SaidOfPlans said) {
    return message_of([&] { for_target(problem, find_target(name), said); });
  };
  CHECK_THAT(refusal_of("megatron", {}), Catch::Contains("is for transformers"));
  problem.schedules = {{.name = "1f1b"}, {.name = "zb-v", .virtual_stages = 2}};
  CHECK_THAT(refusal_of("deepspeed", {.schedule = true}),
             Catch::Contains("has no schedule zb-v; it has 1f1b"));
  CHECK(for_target(problem, deepspeed_target, {}).schedules.size() == 1);
  problem.optimizer.sharding = Sharding::zero3;
  CHECK_THAT(refusal_of("stagecraft", {.sharding = true}),
             Catch::Contains("has no --sharding zero3; it has none and zero1"));
  CHECK(for_target(problem, deepspeed_target, {}).optimizer.sharding == Sharding::zero1);
  CHECK(for_target(problem, torch_target, {}).optimizer.sharding == Sharding::none);
  problem.optimizer.sharding = Sharding::none;
  problem.precision = Precision::float8;
  CHECK_THAT(refusal_of("deepspeed", {}), Catch::Contains("has no --precision fp8"));
  problem.precision = Precision::float32;
  problem.parallelism.context = 2;
  CHECK_THAT(refusal_of("deepspeed", {.context_parallel = true}),
             Catch::Contains("--context-parallel"));
  problem.parallelism.context = 1;
  problem.recompute_layers = {Recomputed::selective, Recomputed::full};
  CHECK_THAT(refusal_of("torch", {}), Catch::Contains("alike in all stages"));
  problem.recompute_layers.clear();
  problem.excluded = {0};
  CHECK_THAT(refusal_of("torch", {}), Catch::Contains("instead of --exclude"));
}

TEST_CASE("frameworks want whole clusters, and whoever leaves nodes out is told what is left") {
  const auto told = [](const std::string& cluster, std::vector<int> excluded) {
    Problem problem = problem_of({.model = builtin_model("llama3-8b"), .entries = {}},
                                 parse_cluster(cluster), 32, {8});
    problem.cluster_name = cluster;
    problem.excluded = std::move(excluded);
    try {
      for_target(problem, megatron_target, {});
    } catch (const Error& error) {
      const std::string text = error.message();
      return text.substr(text.find("CLUSTER that is left"));
    }
    return std::string("taken");
  };
  CHECK(told("4x2xh100@400Gb/s", {2, 3}) == "CLUSTER that is left: 3x2xh100@400Gb/s");
  CHECK(told("2x2xh100", {0, 1}) == "CLUSTER that is left: 2xh100");
  CHECK(told("8xh100", {0, 5}) == "CLUSTER that is left: 6xh100");
  // Half of a node has no such name, and neither has a file.
  CHECK(told("4x2xh100", {1}) == "CLUSTER that is left");
  CHECK(told("hgx-h100", {1}) == "CLUSTER that is left");
}

TEST_CASE(
    "a framework's layers have its kernels, unless somebody said whose or they were measured") {
  Problem problem = problem_of({.model = builtin_model("llama3-8b"), .entries = {}},
                               parse_cluster("8xh100"), 32, {8});
  problem.precision = Precision::bfloat16;
  const auto kernels = [&](const Target& target, SaidOfPlans said) {
    return for_target(problem, target, said).kernels.framework;
  };
  for (const Target* target :
       {&torch_target, &torch_2_11_target, &torchtitan_target, &deepspeed_target}) {
    CHECK(kernels(*target, {}) == Framework::torch);
    CHECK(kernels(*target, {.kernels = true}) == Framework::megatron);
  }
  CHECK(kernels(megatron_target, {}) == Framework::megatron);
  CHECK(kernels(megatron_bridge_target, {}) == Framework::megatron);
  problem.kernels.framework = Framework::torch;
  CHECK(kernels(megatron_target, {.kernels = true}) == Framework::torch);
  problem = random_transformer(1);
  REQUIRE_FALSE(problem.profile.entries.empty());
  CHECK(kernels(torch_target, {}) == Framework::megatron);
}

TEST_CASE("plans whose exchanges run beside another microbatch's work are those that start") {
  Problem problem = problem_of({.model = builtin_model("deepseek-v2-lite"), .entries = {}},
                               parse_cluster("8xh100"), 32, {8});
  problem.kernels.overlap.experts = true;
  problem.recompute = {Recompute::none, Recompute::full};
  for (const RecomputeEverywhere what :
       for_target(problem, megatron_target, {}).recompute_everywhere)
    CHECK((what == RecomputeEverywhere::none || what == RecomputeEverywhere::selective));
  CHECK_THAT(message_of([&] { for_target(problem, torchtitan_target, {}); }),
             ContainsSubstring("no messages beside kernels; plan without --overlap experts"));
  problem.kernels.again.add(LayerModule::experts);
  CHECK_THAT(message_of([&] { for_target(problem, megatron_target, {}); }),
             ContainsSubstring("with other --recompute-modules than moe"));
  problem.kernels.again = {};
  problem.recompute = {Recompute::full};
  CHECK_THAT(message_of([&] { for_target(problem, megatron_target, {}); }),
             ContainsSubstring("or with --recompute none"));
  // Without interleaving only where there is no pipeline.
  const ScheduleChoice plain{.name = "1f1b"};
  const ScheduleChoice finer{.name = "interleaved", .virtual_stages = 2};
  for (const bool beside : {false, true}) {
    const auto runs = [&](const ScheduleChoice& schedule, int devices) {
      return refusal(megatron_target, {.schedule = schedule,
                                       .devices = devices,
                                       .microbatches = 8,
                                       .exchanges_beside = beside})
          .empty();
    };
    CHECK(runs(plain, 1));
    CHECK(runs(plain, 4) == !beside);
    CHECK(runs(finer, 4));
  }
}

TEST_CASE("a framework says which dispatchers and graphs its exports have") {
  Problem problem = problem_of({.model = builtin_model("deepseek-v2-lite"), .entries = {}},
                               parse_cluster("8xh100"), 32, {8});
  problem.precision = Precision::bfloat16;
  problem.kernels = {.dispatcher = Dispatcher::deepep, .graphs = CudaGraphs::layers};
  for (const Target* target : {&megatron_target, &megatron_bridge_target})
    CHECK(for_target(problem, *target, {}).kernels == problem.kernels);
  for (const Target* target : {&torch_target, &torchtitan_target, &vllm_target}) {
    CHECK_THAT(
        message_of([&] { for_target(problem, *target, {}); }),
        ContainsSubstring("the dispatcher alltoall alone; plan without --dispatcher deepep"));
  }
  problem.kernels.dispatcher = Dispatcher::alltoall;
  CHECK_THAT(message_of([&] { for_target(problem, torchtitan_target, {}); }),
             ContainsSubstring("no CUDA graphs; plan without --cuda-graphs layers"));
  problem.precision = Precision::float8;
  problem.kernels = {.float8_recipe = Float8Recipe::tensorwise};
  CHECK(for_target(problem, megatron_target, {}).kernels == problem.kernels);
  problem.precision = Precision::bfloat16;
  problem.kernels = {.fused_loss = FusedLoss::te};
  CHECK(for_target(problem, megatron_bridge_target, {}).kernels == problem.kernels);
  CHECK_THAT(message_of([&] { for_target(problem, torchtitan_target, {}); }),
             ContainsSubstring("torchtitan has no --fused-loss te; plan without it"));
  CHECK_THAT(message_of([&] { for_target(problem, megatron_target, {}); }),
             ContainsSubstring("has no --fused-loss te; it has native"));
  problem.kernels = {.fused_loss = FusedLoss::native};
  CHECK(for_target(problem, megatron_target, {}).kernels == problem.kernels);
  problem.kernels = {.router_fusion = RouterFusion::on};
  CHECK(for_target(problem, megatron_target, {}).kernels == problem.kernels);
  CHECK_THAT(message_of([&] { for_target(problem, torchtitan_target, {}); }),
             ContainsSubstring("torchtitan has no fused router; plan without --router-fusion"));
}

/// A small transformer with what frameworks differ about, and what may be asked of it.
Problem odd_question(std::uint32_t seed) {
  Random random(seed);
  Transformer transformer{.hidden = 64, .heads = 4, .vocabulary = 256};
  transformer.key_value_heads = 1 << random.between(0, 2);
  transformer.head_width = 16;
  transformer.feed_forward = 128;
  transformer.positions = 64;
  using Position = Transformer::Position;
  constexpr std::array positions{Position::learned, Position::rotary, Position::none};
  transformer.position = positions.at(static_cast<std::size_t>(random.between(0, 2)));
  transformer.attention_bias = random.chance(50);
  transformer.output_bias = transformer.feed_forward_bias = random.chance(50);
  if (random.chance(30)) transformer.feed_forward_bias = random.chance(50);
  transformer.causal = random.chance(85);
  if (random.chance(20)) transformer.rotary_base = 10000.5;
  if (random.chance(40)) transformer.experts = Experts{.count = 4, .active = 2, .feed_forward = 64};
  if (random.chance(25)) transformer.prediction_modules = 1;
  Problem problem = problem_of(
      {.model = make_transformer("odd", transformer, random.between(3, 8), 64), .entries = {}},
      parse_cluster(random.chance(50) ? "4xh100" : "2x2xa100"), 16, {1, 2});
  problem.microbatch_per_copy = true;
  problem.sequence = 64;
  problem.precision = random.chance(80) ? Precision::bfloat16 : Precision::float16;
  problem.optimizer.kind = random.chance(85) ? OptimizerKind::adamw : OptimizerKind::sgd;
  problem.tensor_parallel = {random.chance(50) ? 1 : 2};
  if (random.chance(30)) problem.pinned.pipeline = 2;
  problem.parallelism.sequence = random.chance(70);
  if (random.chance(50)) problem.other_parallelism = {{.context = 2}};
  if (transformer.experts && random.chance(50)) problem.other_parallelism.push_back({.expert = 2});
  for (Parallelism& choice : problem.other_parallelism)
    choice.sequence = problem.parallelism.sequence;
  problem.schedules = all_schedule_choices();
  std::erase_if(problem.schedules, [](const ScheduleChoice& choice) {
    return choice.virtual_stages > 2 || choice.name == "inference" ||
           find_schedule(choice.name).weights != WeightPolicy::flush;
  });
  return problem;
}

TEST_CASE("what is found for a framework, its exporter writes, or the question is refused") {
  int written = 0, refused = 0;
  for (std::uint32_t seed = 36'000'000; seed < 36'000'000 + (is_watched ? 5 : 40); ++seed) {
    for (const Target* target : with_equal_stages()) {
      INFO(target->name << ", seed " << seed);
      Problem problem = odd_question(seed);
      const std::string complaint = message_of([&] { problem = for_target(problem, *target, {}); });
      refused += complaint.empty() ? 0 : 1;
      if (!complaint.empty()) continue;
      const SearchResult found = search_exact(problem, {.effort = 100'000, .explain = false});
      if (found.plans.empty()) continue;
      const Plan& plan = found.plans.front().plan;
      INFO(write_plan(plan));
      CHECK(reasons_against(*target, as_loaded(problem, plan)) == std::vector<std::string>{});
      ++written;
    }
  }
  CHECK(written > 10);
  CHECK(refused > 5);
}

TEST_CASE("what a framework's best plan takes is what its kernels take") {
  Problem problem = problem_of({.model = builtin_model("llama3-8b"), .entries = {}},
                               parse_cluster("4xh100"), 8, {4});
  problem.precision = Precision::bfloat16;
  problem.sequence = 8192;
  problem.optimizer.sharding = Sharding::zero3;
  const SearchResult found = search_exact(problem, {.explain = false});
  REQUIRE_FALSE(found.plans.empty());
  REQUIRE(found.plans.front().plan.kernels.framework == Framework::megatron);
  std::optional<Duration> megatron, torchtitan;
  for (const FrameworkAnswer& answer :
       answers_of_frameworks(problem, {.sharding = true}, found.plans, {}, 1)) {
    if (!answer.best) continue;
    const Plan& plan = answer.best->plan;
    CHECK(plan.kernels.framework == answer.target->kernels);
    CHECK(answer.best->prediction->step == predict(plan, problem.profile, problem.cluster).step);
    if (answer.target == &megatron_target) megatron = pace(*answer.best->prediction);
    if (answer.target == &torchtitan_target) torchtitan = pace(*answer.best->prediction);
  }
  REQUIRE(megatron);
  REQUIRE(torchtitan);
  CHECK(*torchtitan > *megatron);
}

TEST_CASE("frameworks are found by name and version") {
  CHECK(find_target("torch").version == "2.15.0");
  CHECK(find_target("torch@2.11").version == "2.11");
  CHECK(find_target("megatron@0.19").name == "megatron");
  CHECK_THAT(message_of([] { find_target("megatron@0.1"); }),
             Catch::Contains("known of megatron is 0.19.2"));
  CHECK(find_target("nemo").name == "megatron-bridge");
  CHECK(find_target("Megatron-LM@0.19").name == "megatron");
  CHECK(find_target("pytorch@2.11").version == "2.11");
  CHECK_THAT(message_of([] { find_target("fsdp"); }), Catch::Contains("--sharding zero3"));
  CHECK_THAT(message_of([] { find_target("megatorn"); }),
             Catch::Contains("did you mean \"megatron\"?"));
}

TEST_CASE("rules of schedules: what packages refuse") {
  const ScheduleChoice plain{.name = "1f1b"}, loops{.name = "interleaved", .virtual_stages = 2};
  CHECK(refusal(torch_target, {plain, 4, 4}).empty());
  CHECK_FALSE(refusal(torch_target, {plain, 4, 3}).empty());
  CHECK(refusal(torch_target, {loops, 4, 8}).empty());
  CHECK_FALSE(refusal(torch_target, {loops, 4, 9}).empty());
  CHECK(refusal(megatron_target, {plain, 4, 3}).empty());
  CHECK(refusal(megatron_target, {loops, 4, 8}).empty());
  CHECK_FALSE(refusal(megatron_target, {loops, 4, 10}).empty());
  CHECK_FALSE(refusal(megatron_target, {loops, 1, 8}).empty());
  CHECK(refusal(deepspeed_target, {plain, 4, 3}).empty());
  CHECK(refusal(deepspeed_target, {plain, 4, 3, Sharding::zero1}).empty());
  CHECK(refusal(deepspeed_target, {plain, 1, 3, Sharding::zero3}).empty());
  CHECK_FALSE(refusal(deepspeed_target, {plain, 2, 3, Sharding::zero2}).empty());
}

TEST_CASE("who shards gradients and parameters only without a pipeline says so") {
  const ScheduleChoice schedule{.name = "1f1b"};
  const auto refused = [&](const Target& target, int devices, Sharding sharding) {
    const std::string why = refusal(
        target,
        {.schedule = schedule, .devices = devices, .microbatches = 8, .sharding = sharding});
    return !why.empty();
  };
  for (const char* name : {"megatron", "megatron-bridge", "deepspeed", "torchtitan"}) {
    INFO(name);
    const Target& target = find_target(name);
    for (const Sharding sharding : {Sharding::zero2, Sharding::zero3}) {
      CHECK(refused(target, 2, sharding));
      CHECK_FALSE(refused(target, 1, sharding));
      CHECK(std::ranges::count(target.sharding, sharding) == 1);
    }
    CHECK_FALSE(refused(target, 2, Sharding::zero1));
  }
}

TEST_CASE("plans for Megatron-LM have messages beside products unless somebody said so") {
  const auto overlap_for = [](std::string_view target, const SaidOfPlans& said, bool sequence) {
    Problem problem = problem_of({.model = builtin_model("llama3-8b"), .entries = {}},
                                 parse_cluster("4xh100"), 8, {1});
    problem.precision = Precision::bfloat16;
    problem.parallelism.sequence = sequence;
    problem.tensor_parallel = {1, 2};
    return for_target(problem, find_target(target), said).kernels.overlap.tensor;
  };
  CHECK(overlap_for("megatron", {}, true));
  CHECK(overlap_for("megatron-bridge", {}, true));
  CHECK_FALSE(overlap_for("megatron", {.overlap = true}, true));
  CHECK_FALSE(overlap_for("megatron", {}, false));
  CHECK_FALSE(overlap_for("torchtitan", {}, true));
}

TEST_CASE(
    "vLLM has modules of multi-token prediction on the last rank, Megatron-LM where it likes") {
  const Model model = builtin_model("deepseek-v3");
  const int head = static_cast<int>(model.layers.size()) - 1;
  REQUIRE(model.layers[static_cast<std::size_t>(head - 1)].kind == LayerKind::prediction);
  const auto may_end_at = [&](const Target& target, int layer) {
    Problem problem =
        problem_of({.model = model, .entries = {}}, parse_cluster("8x8xh200"), 64, {1});
    problem.precision = Precision::bfloat16;
    problem.target = &target;
    return Space(problem).allows(0, {0, layer});
  };
  for (const Target* target : {&vllm_target, &megatron_target}) {
    CHECK_FALSE(may_end_at(*target, 0));
    CHECK(may_end_at(*target, 1));
    CHECK(may_end_at(*target, head - 1));
  }
  CHECK(may_end_at(megatron_target, head));
  CHECK_FALSE(may_end_at(vllm_target, head));
}

TEST_CASE("torchtitan trains models that it has a configuration of, whatever they are called") {
  const auto reasons = [](const Model& model) {
    return reasons_against_model(torchtitan_target, model);
  };
  for (const char* name : {"llama3-8b", "llama3-405b", "llama3.2-1b", "deepseek-v2-lite"})
    CHECK(reasons(builtin_model(name)).empty());
  Model renamed = builtin_model("llama3-70b");
  renamed.name = "mine";
  CHECK(reasons(renamed).empty());
  for (const char* name : {"mixtral-8x7b", "mistral-7b", "llama2-7b"}) {
    INFO(name);
    const std::vector<std::string> against = reasons(builtin_model(name));
    REQUIRE(against.size() == 1);
    CHECK_THAT(against.front(),
               ContainsSubstring("0.3.0 has llama3 1B 3B 8B 70B 405B, qwen3 0.6B"));
  }
  REQUIRE(reasons(builtin_model("deepseek-v3")).size() == 1);
  CHECK_THAT(reasons(builtin_model("deepseek-v3")).front(),
             ContainsSubstring("no multi-token prediction"));
}
