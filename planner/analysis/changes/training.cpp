#include "planner/analysis/changes/training.hpp"

#include <algorithm>

#include "planner/analysis/changes/shape.hpp"
#include "planner/analysis/stage_recomputation.hpp"
#include "planner/costs/exposed_sums.hpp"
#include "planner/plan/sharding_words.hpp"
#include "planner/problem/asked_requests.hpp"
#include "planner/problem/defaults.hpp"
#include "profiles/text.hpp"

namespace stagecraft::what_if {

namespace {

bool read_switch(std::string_view text) {
  if (text == "on" || text == "off") return text == "on";
  fail_usage("expected on or off, found \"", text, "\"");
}

/// Of each gradient.
std::int64_t holders_of(const Plan& plan) {
  return std::int64_t{replicas_of_stages(plan).front()} * plan.parallelism.context;
}

/// Without fp8 there is none.
void set_float8_recipe(const Wishes& wishes, Plan& plan) {
  std::optional<Float8Recipe>& recipe = plan.kernels.float8_recipe;
  Float8Recipe said = recipe.value_or(Float8Recipe::delayed);
  set_named(wishes, "fp8-recipe", read_float8_recipe, said);
  if (wishes.find("fp8-recipe") != nullptr) {
    recipe = said;
  } else if (!is_float8(plan.precision)) {
    recipe.reset();
  }
}

std::optional<std::int64_t> tokens(const Wishes& wishes, std::string_view key) {
  const Change* change = wishes.find(key);
  if (change == nullptr) return {};
  return whole_number({change->key, with_thousands_written_out(change->value)},
                      std::int64_t{1} << 40);
}

/// Of inference these are prompts, whose other tokens change with them.
void set_sequence(const Wishes& wishes, const Profile& profile, Plan& plan) {
  const std::optional<std::int64_t> sequence = tokens(wishes, "sequence");
  SaidOfRequests said{.prompt = tokens(wishes, "prompt-tokens"),
                      .output = tokens(wishes, "output-tokens"),
                      .chunk = tokens(wishes, "chunk-tokens")};
  if (sequence && said.prompt)
    fail_usage("--set sequence and --set prompt-tokens say the same twice");
  if (sequence && plan.batch.sequence == 0)
    fail_usage("--set sequence: samples of \"", plan.model, "\" are not sequences");
  const bool are_prompts = serves(plan) && answers_requests(profile);
  if (sequence && !are_prompts) plan.batch.sequence = *sequence;
  if (sequence && are_prompts) said.sequence = sequence;
  set_requests(said, profile, plan, "--set ");
}

void require_selective_stages(const Wishes& wishes, const Plan& plan) {
  if (wishes.find("recompute-modules") == nullptr || recomputes_selectively(plan)) return;
  fail_usage("--set recompute-modules: no stage recomputes selectively, so there are no modules ",
             "to do again; add --set recompute=selective");
}

}  // namespace

void set_training(const Wishes& wishes, const Profile& profile, Plan& plan) {
  set_named(wishes, "precision", read_precision, plan.precision);
  for (const std::string_view key : {"kernels", "cuda-graphs", "fp8-recipe", "fused-loss",
                                     "router-fusion", "recompute-modules", "overlap"})
    if (wishes.find(key) != nullptr) require_estimated_kernels(profile);
  if (wishes.find("dispatcher") != nullptr) require_experts(profile);
  set_named(wishes, "kernels", read_framework, plan.kernels.framework);
  set_named(wishes, "dispatcher", read_dispatcher, plan.kernels.dispatcher);
  set_named(wishes, "cuda-graphs", read_cuda_graphs, plan.kernels.graphs);
  set_float8_recipe(wishes, plan);
  set_named(wishes, "fused-loss", read_fused_loss, plan.kernels.fused_loss);
  require_fused_loss(plan.kernels);
  if (wishes.find("fused-loss") != nullptr) require_fused_loss(plan.kernels, plan.precision);
  set_named(wishes, "router-fusion", read_router_fusion, plan.kernels.router_fusion);
  require_router_fusion(plan.kernels, profile);
  set_named(wishes, "recompute-modules", read_layer_modules, plan.kernels.again);
  set_named(wishes, "overlap", read_message_overlap, plan.kernels.overlap);
  set_named(wishes, "sharding", sharding_of_word, plan.optimizer.sharding);
  set_named(wishes, "sp", read_switch, plan.parallelism.sequence);
  plan.parallelism.expert = wishes.number("ep", plan.parallelism.expert);
  if (const Change* change = wishes.find("gradient-bucket")) {
    plan.optimizer.gradient_bucket =
        change->value == "off"    ? Bytes{0}
        : change->value == "auto" ? usual_gradient_bucket(plan.kernels.framework, holders_of(plan))
                                  : quantity(*change, parse_bytes);
  }
  set_sequence(wishes, profile, plan);
}

void set_recompute(const Wishes& wishes, const Model& model, Plan& plan) {
  const Change* change = wishes.find("recompute");
  if (change == nullptr) return require_selective_stages(wishes, plan);
  const std::vector<std::string> known{"none", "selective", "blocks", "full"};
  if (std::ranges::find(known, change->value) == known.end())
    fail_unknown("way to recompute", change->value, known);
  const bool is_of_blocks = change->value == "selective" || change->value == "blocks";
  if (is_of_blocks && !model.transformer) {
    fail_usage("--set recompute=", change->value, ": \"", plan.model,
               "\" is no transformer, so there are no blocks to recompute; say none or full");
  }
  recompute_all(change->value, model, plan.stages);
  require_selective_stages(wishes, plan);
}

void require_overlap(const Wishes& wishes, const Plan& plan) {
  if (wishes.find("overlap") == nullptr) return;
  const std::string why = overlap_of_nothing(plan);
  if (!why.empty()) fail_usage("--set overlap: ", why);
}

void set_batch(const Wishes& wishes, Plan& plan) {
  Batch& batch = plan.batch;
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (const Change* change = wishes.find("batch")) batch.global = whole_number(*change, most);
  const Change* per_replica = wishes.find("mbs");
  const Change* whole = wishes.find("microbatch");
  if (per_replica != nullptr && whole != nullptr)
    fail_usage("--set mbs (of each replica) and --set microbatch (of all) say the same twice");
  if (whole != nullptr) batch.microbatch = whole_number(*whole, most);
  if (per_replica != nullptr) {
    const Shape shape = require_one_shape(plan, "mbs");
    const bool in_turns = plan.replicas == ReplicaPolicy::round_robin;
    batch.microbatch = whole_number(*per_replica, most / shape.data) * (in_turns ? 1 : shape.data);
  }
  if (batch.global % batch.microbatch != 0 || batch.global / batch.microbatch > INT32_MAX) {
    fail("a batch of ", batch.global, " samples is no whole number of microbatches of ",
         batch.microbatch, "; set batch or microbatch, too");
  }
  batch.microbatches = static_cast<int>(batch.global / batch.microbatch);
}

}  // namespace stagecraft::what_if
