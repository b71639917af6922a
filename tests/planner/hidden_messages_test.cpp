// DualPipe hides messages between experts behind the other direction's computing; tokens that go to
// few nodes cross between them less often (DeepSeek-V3 technical report, sections 3.2 and 2.1.2).

#include "planner/costs/compile.hpp"
#include "planner/costs/predict.hpp"
#include "planner/plan/parallelism_fault.hpp"
#include "planner/space/schedule_choices.hpp"
#include "profiles/collectives.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/peer_messages.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;
using namespace std::chrono_literals;

namespace {

/// A small DeepSeek on `stages` devices of 16 replicas each, experts over all of a stage's.
Plan expert_plan(const Model& model, int stages) {
  Plan plan;
  plan.model = model.name;
  plan.cluster = "test";
  plan.precision = Precision::bfloat16;
  plan.batch = {std::int64_t{16} * 4 * stages, 16, 4 * stages, model.sequence};
  plan.schedule = {.name = "dualpipe"};
  plan.parallelism.expert = 16;
  const int layers = static_cast<int>(model.layers.size());
  int device = 0;
  for (int s = 0; s < stages; ++s) {
    Stage& stage = plan.stages.emplace_back();
    stage.layers = {layers * s / stages, layers * (s + 1) / stages};
    for (int replica = 0; replica < 16; ++replica) stage.devices.push_back({device++});
  }
  return plan;
}

const char* const cluster_text = "8x8xh100@50GB/s,200GB/s";

Duration step_of(const Plan& plan, const Model& model) {
  return predict(plan, {.model = model, .entries = {}}, parse_cluster(cluster_text)).step;
}

}  // namespace

TEST_CASE("a pair under DualPipe takes the longer of computing and messages", "[parallelism]") {
  const Model model = builtin_model("deepseek-v2-lite");
  const Plan plan = expert_plan(model, 4);
  const Profile profile{.model = model, .entries = {}};
  const Cluster cluster = parse_cluster(cluster_text);
  const Compiled compiled = compile(plan, profile, cluster);
  CostBook book(profile, cluster, book_setting(plan));
  const CostTable& table = book.table(0, 16, 1, 1);
  int pairs = 0;
  for (const Work& work : compiled.program.work) {
    if (!work.fused_with || work.instruction.op != Op::forward) continue;
    const auto layers = [&](int stage) {
      return plan.stages[static_cast<std::size_t>(stage) % plan.stages.size()].layers;
    };
    const Work& other = compiled.program.work[static_cast<std::size_t>(*work.fused_with)];
    const LayerRange ahead = layers(work.instruction.stage), back = layers(other.instruction.stage);
    const Duration forward = table.forward(ahead), backward = table.backward(back);
    const Duration sent = table.forward_exchange(ahead) + table.backward_exchange(back);
    CHECK(sent > Duration{0});
    const Duration longest = std::max({forward + backward - sent, sent, forward, backward});
    CHECK(compiled.costs.chunks[static_cast<std::size_t>(work.chunk)].fused == longest);
    CHECK(longest < forward + backward);
    ++pairs;
  }
  CHECK(pairs > 0);
}

TEST_CASE("only schedules that say so hide messages, and only where there are any",
          "[parallelism]") {
  const Model model = builtin_model("deepseek-v2-lite");
  Plan plan = expert_plan(model, 4);
  for (const ScheduleKind& kind : schedule_kinds) {
    CHECK(kind.hides_messages == kind.name.starts_with("dualpipe"));
    if (!kind.hides_messages) continue;
    // Bounds and the fast clock know no pairs.
    CHECK(is_only_simulated({.name = std::string(kind.name)}));
  }
  plan.parallelism.expert = 1;
  const Profile profile{.model = model, .entries = {}};
  const Compiled compiled = compile(plan, profile, parse_cluster(cluster_text));
  for (const Work& work : compiled.program.work) {
    if (!work.fused_with || work.instruction.op != Op::forward) continue;
    const ChunkCosts& costs = compiled.costs.chunks[static_cast<std::size_t>(work.chunk)];
    const Work& other = compiled.program.work[static_cast<std::size_t>(*work.fused_with)];
    CHECK(costs.fused ==
          costs.forward + compiled.costs.chunks[static_cast<std::size_t>(other.chunk)].backward);
  }
}

TEST_CASE("DualPipe's bubble is (PP/2 - 1)(F&B + B - 3W) where F is as long as B's first half",
          "[schedules]") {
  for (const int devices : {2, 4, 8, 16}) {
    for (const Duration weight : {4ms, 10ms}) {
      const Program program =
          lower(find_schedule("dualpipe")
                    .generate({.devices = devices, .microbatches = 2 * devices + 4}));
      const Duration forward = 10ms, input = 10ms, backward = input + weight;
      const ChunkCosts chunk{.forward = forward,
                             .backward = backward,
                             .backward_input = input,
                             .backward_weight = weight,
                             .fused = forward + backward};
      const Timeline timeline = simulate(program, uniform(program, chunk));
      const Duration work = busy_times(timeline).front();
      CHECK(step_time(timeline) - work ==
            (devices / 2 - 1) * (*chunk.fused + backward - 3 * weight));
    }
  }
}

TEST_CASE("tokens for few nodes cross between nodes once for each, and inside meanwhile",
          "[parallelism]") {
  const Model model = builtin_model("deepseek-v3");
  const Cluster cluster = parse_cluster("8x8xh100@50GB/s,200GB/s");
  const DeviceKind& kind = cluster.kinds.front();
  CostSetting setting{.device = "h100",
                      .microbatch = 1,
                      .sequence = 4096,
                      .precision = Precision::bfloat16,
                      .parallelism = {.expert = 64}};
  const auto exchange = [&](int nodes) {
    setting.parallelism.expert_nodes = nodes;
    const auto costs =
        with_peer_messages(estimate_costs(model, kind, setting), model, cluster, kind, setting);
    return costs[10].forward_exchange;
  };
  const Bytes sent = Bytes{4096} * 8 * 7168 * 2;
  std::vector<int> first(8), box(8);
  for (int i = 0; i < 8; ++i) {
    first[static_cast<std::size_t>(i)] = 8 * i;
    box[static_cast<std::size_t>(i)] = i;
  }
  const auto all_to_all = [&](const std::vector<int>& among, Bytes bytes) {
    return from_seconds(collective_seconds(OperationKind::all_to_all, static_cast<double>(bytes),
                                           device_group(cluster, among), usual_constants("h100")));
  };
  const Duration inside = all_to_all(box, sent);
  // Dispatch and combine.
  for (const int nodes : {1, 2, 4}) {
    const Duration between = all_to_all(first, sent * nodes / 8);
    CHECK(exchange(nodes) == 2 * std::max(between, inside));
  }
  CHECK(exchange(4) < exchange(8));
  CHECK(exchange(8) <= exchange(0));
  CHECK(exchange(100) == exchange(8));
}

TEST_CASE("what hides messages and what sends fewer make a step shorter", "[parallelism]") {
  const Model model = builtin_model("deepseek-v2-lite");
  Plan plan = expert_plan(model, 4);
  const Duration open = [&] {
    Plan plain = plan;
    plain.schedule = {.name = "1f1b"};
    return step_of(plain, model);
  }();
  const Duration hidden = step_of(plan, model);
  CHECK(hidden < open);
  plan.parallelism.expert_nodes = 1;
  CHECK(step_of(plan, model) <= hidden);
}

TEST_CASE("exchanges are hidden once, and only where there is other work to hide them",
          "[parallelism]") {
  CHECK(against_exchanges_beside("1f1b", 4).empty());
  CHECK_THAT(against_exchanges_beside("dualpipe", 8), ContainsSubstring("by itself"));
  CHECK_THAT(against_exchanges_beside("1f1b", 1), ContainsSubstring("there is only one"));
  Plan plan = expert_plan(builtin_model("deepseek-v2-lite"), 4);
  CHECK_FALSE(exchanges_beside(plan));
  const Model model = builtin_model("deepseek-v2-lite");
  plan.schedule = {.name = "1f1b"};
  const auto peak = [&] {
    const Prediction predicted =
        predict(plan, {.model = model, .entries = {}}, parse_cluster(cluster_text));
    return std::ranges::max(device_peaks(plan, predicted));
  };
  const Bytes in_turn = peak();
  plan.kernels.overlap.experts = true;
  CHECK(exchanges_beside(plan));
  // One microbatch more is kept.
  CHECK(peak() > in_turn);
  plan.parallelism.expert = 1;
  CHECK_FALSE(exchanges_beside(plan));
}
