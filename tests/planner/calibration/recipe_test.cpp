#include "planner/calibration/recipe.hpp"

#include <cmath>
#include <functional>

#include "planner/calibration/measured_sets.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Recipe llama(std::string_view name = "llama3-8b") {
  Recipe recipe;
  recipe.transformer = *builtin_model(name).transformer;
  recipe.blocks = 32;
  recipe.pipeline = 2;
  recipe.data = 2;
  recipe.microbatches = 8;
  recipe.device = "h100";
  recipe.work = {.microbatch = 1, .sequence = 4096, .tensor_parallel = 2};
  return recipe;
}

const KernelConstants constants = usual_constants("h100");

double step(const Recipe& recipe) {
  return step_seconds(recipe, constants).step;
}

Bytes memory(const Recipe& recipe) {
  return peak_memory(recipe).total();
}

/// What more of an input does: +1 grows, -1 shrinks, 0 leaves it.
struct Knob {
  std::string name;
  std::function<void(Recipe&)> turn;
  int step = 0;
  int memory = 0;
};

int sign(double after, double before) {
  return (after > before ? 1 : 0) - (after < before ? 1 : 0);
}

}  // namespace

TEST_CASE("each input of a run changes its step and memory in the right direction") {
  const std::vector<Knob> knobs{
      {"hidden", [](Recipe& r) { r.transformer.hidden *= 2; }, 1, 1},
      {"feed-forward", [](Recipe& r) { r.transformer.feed_forward *= 2; }, 1, 1},
      {"key-value heads", [](Recipe& r) { r.transformer.key_value_heads *= 2; }, 1, 1},
      {"vocabulary", [](Recipe& r) { r.transformer.vocabulary *= 2; }, 1, 1},
      {"full attention", [](Recipe& r) { r.transformer.causal = false; }, 1, 0},
      {"blocks", [](Recipe& r) { r.blocks *= 2; }, 1, 1},
      {"sequence", [](Recipe& r) { r.work.sequence *= 2; }, 1, 1},
      {"microbatch", [](Recipe& r) { r.work.microbatch *= 2; }, 1, 1},
      {"microbatches", [](Recipe& r) { r.microbatches *= 2; }, 1, 0},
      {"tensor-parallel", [](Recipe& r) { r.work.tensor_parallel *= 2; }, -1, -1},
      {"sequence-parallel", [](Recipe& r) { r.work.sequence_parallel = true; }, -1, -1},
      {"pipeline", [](Recipe& r) { r.pipeline *= 2; }, -1, -1},
      {"interleaving", [](Recipe& r) { r.virtual_stages = 2; }, -1, 1},
      {"replicas", [](Recipe& r) { r.data *= 8; }, 1, 0},
      {"sharded optimizer", [](Recipe& r) { r.sharded_optimizer = true; }, -1, -1},
      {"overlapped gradients", [](Recipe& r) { r.overlapped_gradients = true; }, -1, 0},
      {"overlapped transfers", [](Recipe& r) { r.overlapped_transfers = true; }, -1, 0},
      {"overlapped sums of peers", [](Recipe& r) { r.overlapped_messages = true; }, 0, 0},
      {"overlapped gathers of peers",
       [](Recipe& r) { r.work.sequence_parallel = r.overlapped_messages = true; }, -1, -1},
      {"selective recomputation",
       [](Recipe& r) {
         r.work.fused_attention = false;
         r.work.recompute = Recomputed::selective;
       },
       1, 1},
      {"full recomputation", [](Recipe& r) { r.work.recompute = Recomputed::full; }, 1, -1},
      {"unfused attention", [](Recipe& r) { r.work.fused_attention = false; }, 1, 1},
      {"dropout", [](Recipe& r) { r.work.dropout = true; }, 1, 1},
      {"fused loss", [](Recipe& r) { r.work.fused_loss = FusedLoss::te; }, -1, 0},
      {"fp32", [](Recipe& r) { r.work.precision = Precision::float32; }, 1, 1},
      {"a slower device", [](Recipe& r) { r.device = "a100-80gb"; }, 1, 0},
      {"smaller nodes", [](Recipe& r) { r.devices_per_node = 1; }, 1, 0},
      {"an uneven first stage", [](Recipe& r) { r.first_stage_blocks = 20; }, 1, 1},
      {"context-parallel", [](Recipe& r) { r.work.context_parallel = 2; }, -1, -1},
  };
  const Recipe before = llama();
  for (const Knob& knob : knobs) {
    INFO(knob.name);
    Recipe after = before;
    knob.turn(after);
    CHECK(sign(step(after), step(before)) == knob.step);
    CHECK(sign(static_cast<double>(memory(after)), static_cast<double>(memory(before))) ==
          knob.memory);
  }
}

TEST_CASE(
    "what messages hide costs the work beside them something, and nodes wait for the slowest") {
  Recipe recipe = llama();
  recipe.data = 8;
  recipe.sharded_optimizer = recipe.overlapped_gradients = true;
  const StepSeconds one = step_seconds(recipe, constants);
  CHECK(one.gradients > 0);
  const double nodes = 32.0 / 8;
  CHECK(one.waits == Approx((one.step - one.waits) * shared_rates("h100").straggling * 2));
  CHECK(nodes == device_count(recipe) / 8.0);
  recipe.data = 1;
  recipe.pipeline = 1;
  CHECK(step_seconds(recipe, constants).waits == 0);
}

TEST_CASE(
    "attention in 8 bits shortens a step where its kernels gain, which they do not on Hopper") {
  Recipe recipe = llama();
  recipe.work.sequence = 8192;
  const auto step_on = [&](const std::string& device, Precision precision) {
    recipe.device = device;
    recipe.work.precision = precision;
    return step_seconds(recipe, usual_constants(device)).step;
  };
  for (const std::string device : {"b200", "gb200", "b300", "gb300"}) {
    INFO(device);
    CHECK(step_on(device, Precision::float8_with_attention) < step_on(device, Precision::float8));
  }
  CHECK(step_on("h200", Precision::float8_with_attention) > step_on("h200", Precision::float8));
}

TEST_CASE("gathers in 8 bits are half as long for blocks, and as long for embedding and head") {
  Recipe recipe = llama();
  recipe.pipeline = 1;
  recipe.sharded_optimizer = true;
  recipe.work.precision = Precision::float8;
  const auto saved = [&] {
    recipe.float8_gathers = false;
    const double wide = step_seconds(recipe, constants).gradients;
    recipe.float8_gathers = true;
    return wide - step_seconds(recipe, constants).gradients;
  };
  const double once = saved();
  CHECK(once > 0);
  recipe.transformer.vocabulary *= 4;
  CHECK(saved() == Approx(once));
  recipe.blocks *= 2;
  CHECK(saved() == Approx(2 * once));
  // ZeRO-3 collects twice for each microbatch.
  recipe.sharded_parameters = true;
  recipe.float8_gathers = false;
  const double wide = step_seconds(recipe, constants).shards;
  recipe.float8_gathers = true;
  CHECK(wide - step_seconds(recipe, constants).shards ==
        Approx(2 * recipe.microbatches * 2 * once));
}

TEST_CASE("a ring of keys and values is as long as attention does not hide it") {
  Recipe recipe = llama();
  recipe.work.context_parallel = 2;
  recipe.data = 1;
  // Attention grows with the square of the sequence, the ring with the sequence.
  const auto messages = [&](std::int64_t sequence) {
    recipe.work.sequence = sequence;
    recipe.work.tensor_parallel = 1;
    return step_seconds(recipe, constants).messages / static_cast<double>(sequence);
  };
  CHECK(messages(131072) == 0);
  CHECK(messages(512) > 0);
}

TEST_CASE("experts and their parallelism change a run in the right direction") {
  Recipe before = llama("mixtral-8x7b");
  before.work.tensor_parallel = 1;
  before.data = 8;
  const auto after = [&](auto turn) {
    Recipe recipe = before;
    turn(recipe);
    return recipe;
  };
  const Recipe more = after([](Recipe& r) { r.transformer.experts->active = 4; });
  CHECK(step(more) > step(before));
  CHECK(memory(more) > memory(before));
  const Recipe spread = after([](Recipe& r) { r.work.expert_parallel = 8; });
  CHECK(memory(spread) < memory(before));
  CHECK(step_seconds(spread, constants).messages > step_seconds(before, constants).messages);
  const Recipe shared = after([](Recipe& r) { r.transformer.experts->shared_feed_forward = 4096; });
  CHECK(step(shared) > step(before));
}

TEST_CASE("libraries of products keep 8 MiB a thread before Hopper, 32 MiB since and where told") {
  constexpr Bytes mebi = 1024LL * 1024;
  CHECK(product_workspace("a100-80gb", {.transformer_engine = false}) == 2 * (8 * mebi + mebi / 8));
  CHECK(product_workspace("a100-80gb", {.deterministic = true}) == (2 * 32 + 4) * mebi);
  CHECK(product_workspace("h100", {}) == 3 * (32 * mebi));
  CHECK(product_workspace("gb200", {.grouped = true}) == (2 + 5) * (32 * mebi));
  Recipe recipe = llama();
  const Bytes before = memory(recipe);
  recipe.workspace = 96 * mebi;
  CHECK(memory(recipe) == before + 96 * mebi);
}

TEST_CASE("a compiled loss has its exponentials beside the logits while it computes") {
  Recipe recipe = llama();
  recipe.pipeline = 1;
  recipe.blocks = 1;
  const Bytes before = memory(recipe);
  recipe.work.fused_loss = FusedLoss::native;
  const WorkSetting& work = recipe.work;
  CHECK(memory(recipe) - before ==
        4 * work.microbatch * work.sequence * recipe.transformer.vocabulary / work.tensor_parallel);
}

TEST_CASE("a microbatch more is kept where another's backward goes beside its forward") {
  Recipe recipe = llama("deepseek-v3");
  recipe.work.tensor_parallel = 1;
  recipe.work.expert_parallel = 4;
  recipe.blocks = 16;
  recipe.pipeline = 4;
  recipe.microbatches = 32;
  recipe.transformer.prediction_modules = 0;
  for (const int virtual_stages : {1, 2}) {
    recipe.virtual_stages = virtual_stages;
    for (const int stage : {1, 2}) {
      INFO(virtual_stages << " chunks, stage " << stage);
      const auto kept = [&](bool beside) {
        Recipe run = recipe;
        run.overlapped_exchanges = beside;
        return static_cast<double>(stage_memory(run)[static_cast<std::size_t>(stage)].activations);
      };
      // Of chunks, those that Megatron-LM warms up with one of steady work.
      const int chunks = virtual_stages == 1 ? 4 - stage : 2 * (3 - stage) + 4 + 1;
      CHECK(kept(true) == Approx(kept(false) * (chunks + 1) / chunks).epsilon(1e-9));
    }
  }
  recipe.work.expert_parallel = 1;
  const Bytes alone = stage_memory(recipe)[1].activations;
  recipe.overlapped_exchanges = true;
  CHECK(stage_memory(recipe)[1].activations == alone);
}

TEST_CASE("each group of replicas that shares an optimizer has all of its states") {
  Recipe recipe = llama();
  recipe.data = 8;
  recipe.sharded_optimizer = true;
  const Bytes before = stage_memory(recipe).front().optimizer;
  recipe.optimizer_instances = 4;
  CHECK(stage_memory(recipe).front().optimizer ==
        Approx(4.0 * static_cast<double>(before)).epsilon(1e-6));
}

TEST_CASE("a stage that predicts tokens after the next looks them up itself") {
  Recipe recipe = llama("deepseek-v3");
  recipe.work.tensor_parallel = 1;
  recipe.pipeline = 2;
  recipe.transformer.prediction_modules = 0;
  const double before = static_cast<double>(stage_memory(recipe).back().weights);
  recipe.transformer.prediction_modules = 1;
  const double table = 2.0 * static_cast<double>(recipe.transformer.vocabulary) *
                       static_cast<double>(recipe.transformer.hidden);
  const double module =
      2.0 * static_cast<double>(
                layer_operations(recipe.transformer, LayerKind::prediction, recipe.work).weights);
  CHECK(static_cast<double>(stage_memory(recipe).back().weights) ==
        Approx(before + table + module));
}

TEST_CASE("a peer that receives a token once receives less, and a node again less") {
  Recipe recipe = llama("mixtral-8x7b");
  recipe.work.tensor_parallel = 1;
  recipe.pipeline = 1;
  recipe.data = 16;
  recipe.work.expert_parallel = 8;
  KernelConstants rates = constants;
  rates.message_seconds = rates.peer_seconds = 0;
  const auto messages = [&](int node, bool forwards) {
    recipe.devices_per_node = node;
    recipe.work.dispatcher = forwards ? Dispatcher::hybridep : Dispatcher::alltoall;
    return step_seconds(recipe, rates).messages;
  };
  // Two copies of a token to any of eight peers: 1 - 1/16 of them are the first to come.
  CHECK(messages(8, true) == Approx(messages(8, false) * 15 / 16));
  // To two nodes: 1 - 1/4 of them.
  CHECK(messages(4, true) == Approx(messages(4, false) * 3 / 4).epsilon(0.02));
}

TEST_CASE("dispatchers that receive a token once sort nothing, and launch fewer kernels") {
  const auto operations = [](bool forwards, int experts_over) {
    Recipe recipe = llama("deepseek-v2-lite");
    recipe.work.expert_parallel = experts_over;
    recipe.work.dispatcher = forwards ? Dispatcher::hybridep : Dispatcher::alltoall;
    return layer_operations(recipe.transformer, LayerKind::expert_transformer, recipe.work)
        .operations;
  };
  const auto sorts = [&](bool forwards, int experts_over) {
    return std::ranges::count_if(operations(forwards, experts_over), [](const Operation& each) {
      return each.name.starts_with("sort by");
    });
  };
  CHECK(sorts(false, 8) == 4);
  CHECK(sorts(false, 1) == 0);
  CHECK(sorts(true, 8) == 0);
  const auto launches = [&](bool forwards) {
    double sum = 0;
    for (const Operation& each : operations(forwards, 8)) sum += each.launches;
    return sum;
  };
  CHECK(launches(false) - launches(true) == 22 - 9 + 8 - 3 + 5 - 3);
}

TEST_CASE("what is a part of a CUDA graph takes no time of the host's") {
  Recipe recipe = llama("deepseek-v2-lite");
  recipe.work.expert_parallel = 8;
  const auto work_at = [](Recipe of, CudaGraphs graphs, double host) {
    KernelConstants rates = constants;
    rates.host_seconds = host;
    of.graphs = graphs;
    return step_seconds(of, rates).work;
  };
  const double slow = 1e-3;  // the host's part is all
  CHECK(work_at(recipe, CudaGraphs::step, slow) == Approx(work_at(recipe, CudaGraphs::step, 0)));
  const double layers = work_at(recipe, CudaGraphs::layers, slow);
  CHECK(layers > work_at(recipe, CudaGraphs::step, slow));
  // Of a block with experts what is sent one by one is what they compute, and what sends tokens.
  const auto launches = [&](bool all) {
    double sum = 0;
    for (const Operation& each :
         layer_operations(recipe.transformer, LayerKind::expert_transformer, recipe.work)
             .operations) {
      if (all || each.routed)
        sum += each.launches * each.parts + constants.module_launches * each.modules;
    }
    return sum;
  };
  const double none = work_at(recipe, CudaGraphs::none, slow);
  CHECK(layers / none == Approx(launches(false) / launches(true)).epsilon(0.02));
  // Without experts nothing of a layer is left out.
  CHECK(work_at(llama(), CudaGraphs::layers, slow) ==
        Approx(work_at(llama(), CudaGraphs::layers, 0)));
}

TEST_CASE("each constant changes a step in the right direction") {
  Recipe recipe = llama();
  recipe.work.context_parallel = 2;
  recipe.overlapped_gradients = recipe.overlapped_messages = true;
  recipe.devices_per_node = 4;
  for (const KernelConstant& constant : kernel_constants) {
    INFO(constant.name);
    // Rates and overlaps shorten a step, lengths and seconds do not.
    const bool shortens = constant.name.ends_with("rate") || constant.name.ends_with("overlap");
    KernelConstants changed = constants;
    changed.host_seconds = changed.host_peer_seconds = 1e-4;
    const double before = step_seconds(recipe, changed).step;
    changed.*constant.member *= 1.25;
    const double after = step_seconds(recipe, changed).step;
    CHECK((shortens ? after <= before : after >= before));
  }
}

TEST_CASE("a slow host is slowed by modules and by experts that are multiplied one by one") {
  Recipe recipe = llama("mixtral-8x7b");
  recipe.pipeline = 1;
  recipe.blocks = 1;
  recipe.microbatches = 1;
  recipe.work.sequence = 64;
  KernelConstants slow = constants;
  slow.host_seconds = 1;
  const auto seconds = [&](const Recipe& run) { return std::round(step_seconds(run, slow).step); };
  // In steps of attention there are more kernels, and as many modules.
  const double fused = seconds(recipe);
  Recipe steps = recipe;
  steps.work.fused_attention = false;
  const double kernels = seconds(steps) - fused;
  CHECK(kernels > 0);
  slow.module_launches = 10;
  CHECK(seconds(recipe) > fused);
  CHECK(seconds(steps) - seconds(recipe) == kernels);
  slow.module_launches = 0;
  // Of eight experts here, whose products are a kernel each in any case: what is between them,
  // there and back, and modules.
  Recipe apart = recipe;
  apart.work.grouped_experts = false;
  CHECK(seconds(apart) - seconds(recipe) == 7 * 2);
  slow.module_launches = 10;
  CHECK(seconds(apart) - seconds(recipe) == 7 * (2 + 10 * (2 * 2 + 2)));
}

TEST_CASE("equal stages take (microbatches + stages - 1) rounds, interleaved ones fewer") {
  Recipe recipe = llama();
  recipe.pipeline = 4;
  recipe.transformer.vocabulary = 1;  // ends that cost next to nothing, where the host is quick
  KernelConstants quick = constants;
  quick.host_seconds = 1e-7;
  const StepSeconds plain = step_seconds(recipe, quick);
  CHECK(plain.fill == Approx(plain.work * 3 / 8).epsilon(0.01));
  recipe.virtual_stages = 2;
  CHECK(step_seconds(recipe, quick).fill == Approx(plain.fill / 2).epsilon(1e-9));
  CHECK(plain.step == Approx(plain.work + plain.fill + plain.transfers + plain.gradients +
                             plain.update + plain.other + plain.waits));
}

TEST_CASE("stages hold blocks as even as can be, or as told") {
  Recipe recipe = llama();
  recipe.blocks = 14;
  recipe.pipeline = 4;
  CHECK(stage_blocks(recipe) == std::vector<int>{4, 4, 3, 3});
  recipe.first_stage_blocks = 2;
  recipe.last_stage_blocks = 2;
  CHECK(stage_blocks(recipe) == std::vector<int>{2, 5, 5, 2});
}

TEST_CASE("a run that cannot be is refused with its numbers") {
  Recipe recipe = llama();
  recipe.blocks = 1;
  CHECK_THAT(message_of([&] { step(recipe); }),
             ContainsSubstring("a block for each of 2 x 1 stages, found 1 blocks"));
  recipe = llama();
  recipe.data = 0;
  CHECK_THAT(message_of([&] { step(recipe); }), ContainsSubstring("at least 1, found 0"));
}

TEST_CASE("ZeRO divides states, gradients and weights over replicas, as its paper's formulas say") {
  // Rajbhandari et al. 2020, figure 1: 2 + 2 + 12 bytes for each of the parameters.
  Recipe recipe = llama();
  recipe.pipeline = 1;
  recipe.work.tensor_parallel = 1;
  recipe.work.gradient_bytes = 2;
  recipe.data = 64;
  const auto psi = static_cast<double>(parameters(builtin_model("llama3-8b")));
  const auto states = [&] {
    const StageMemory memory = stage_memory(recipe).front();
    return static_cast<double>(memory.weights + memory.gradients + memory.optimizer);
  };
  CHECK(states() == Approx(16 * psi));
  recipe.sharded_optimizer = true;
  CHECK(states() == Approx(4 * psi + 12 * psi / 64));
  recipe.sharded_gradients = true;
  CHECK(states() == Approx(2 * psi + 14 * psi / 64));
  recipe.sharded_parameters = true;
  CHECK(states() == Approx(16 * psi / 64));
}

TEST_CASE("a sharded update scatters gradients and collects weights in their own precision") {
  Recipe summed = llama();
  summed.data = 16;
  Recipe sharded = summed;
  sharded.sharded_optimizer = true;
  // Sums go around twice in 4 bytes a weight; scattering once in 4, collecting once in 2.
  const double sum = step_seconds(summed, constants).gradients;
  const double parts = step_seconds(sharded, constants).gradients;
  CHECK(parts == Approx(0.75 * sum).epsilon(0.01));
}

TEST_CASE("weights are collected behind the next step's first forward where that overlaps") {
  Recipe recipe = llama();
  recipe.data = 16;
  recipe.sharded_optimizer = recipe.overlapped_gradients = true;
  const auto exposed = [](const Recipe& run) { return step_seconds(run, constants).gradients; };
  const double before = exposed(recipe);
  Recipe hidden = recipe;
  hidden.overlapped_parameters = true;
  CHECK(before > 0);
  CHECK(exposed(hidden) < before);
  // One microbatch's forward hides as much, however many come after it.
  const double saved = before - exposed(hidden);
  recipe.microbatches = hidden.microbatches = 4 * recipe.microbatches;
  CHECK(exposed(recipe) - exposed(hidden) == Approx(saved));
  // Nobody collects without a sharded optimizer.
  recipe.sharded_optimizer = hidden.sharded_optimizer = false;
  CHECK(step(recipe) == step(hidden));
}

TEST_CASE("ZeRO-2 and 3 pay with messages for each microbatch, which compute may hide") {
  Recipe plain = llama();
  plain.data = 16;
  plain.sharded_optimizer = true;
  Recipe gradients = plain;
  gradients.sharded_gradients = true;
  Recipe all = gradients;
  all.sharded_parameters = true;
  CHECK(step(plain) < step(gradients));
  CHECK(step(gradients) < step(all));
  CHECK(memory(gradients) < memory(plain));
  CHECK(memory(all) < memory(gradients));
  Recipe hidden = all;
  hidden.overlapped_gradients = true;
  CHECK(step(hidden) < step(all));
  CHECK(step_seconds(all, constants).shards > 0);
  CHECK(step_seconds(plain, constants).shards == 0);
  // One replica has nobody to share with.
  plain.data = gradients.data = all.data = 1;
  CHECK(step(plain) == Approx(step(all)));
}
