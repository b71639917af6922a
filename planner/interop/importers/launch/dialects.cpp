#include "planner/interop/importers/launch/dialects.hpp"

#include <algorithm>
#include <array>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct Renamed {
  Dialect dialect;
  std::string_view section;  ///< how it ends; empty: any
  std::string_view name;
  std::string_view flag;  ///< of Megatron-LM
};
constexpr std::array renamed_flags{
    // Of recipes in Python, as their scripts have them.
    Renamed{Dialect::megatron, "", "tp-size", "tensor-model-parallel-size"},
    Renamed{Dialect::megatron, "", "pp-size", "pipeline-model-parallel-size"},
    Renamed{Dialect::megatron, "", "cp-size", "context-parallel-size"},
    Renamed{Dialect::megatron, "", "ep-size", "expert-model-parallel-size"},
    Renamed{Dialect::megatron, "", "vp-size", "num-virtual-stages-per-pipeline-rank"},
    Renamed{Dialect::megatron, "", "tp", "tensor-model-parallel-size"},
    Renamed{Dialect::megatron, "", "pp", "pipeline-model-parallel-size"},
    Renamed{Dialect::megatron, "", "cp", "context-parallel-size"},
    Renamed{Dialect::megatron, "", "ep", "expert-model-parallel-size"},
    Renamed{Dialect::megatron, "", "vp", "num-virtual-stages-per-pipeline-rank"},
    Renamed{Dialect::megatron, "", "mbs", "micro-batch-size"},
    Renamed{Dialect::megatron, "", "gbs", "global-batch-size"},
    // Of Megatron-DeepSpeed.
    Renamed{Dialect::megatron, "", "ds-sequence-parallel-size", "context-parallel-size"},
    Renamed{Dialect::megatron, "", "moe-expert-parallel-size", "expert-model-parallel-size"},
    // Of MegaBlocks.
    Renamed{Dialect::megatron, "", "moe-num-experts", "num-experts"},
    Renamed{Dialect::megatron, "", "moe-top-k", "moe-router-topk"},
    Renamed{Dialect::nemo, "trainer", "devices", "nproc-per-node"},
    Renamed{Dialect::nemo, "trainer", "num-nodes", "nnodes"},
    Renamed{Dialect::nemo, "", "encoder-seq-length", "seq-length"},
    Renamed{Dialect::nemo, "dataset", "sequence-length", "seq-length"},
    Renamed{Dialect::nemo, "ddp", "bucket-size", "ddp-bucket-size"},
    Renamed{Dialect::nemo, "", "microbatch-group-size-per-vp-stage",
            "microbatch-group-size-per-virtual-pipeline-stage"},
    Renamed{Dialect::nemo_rl, "policy", "train-global-batch-size", "global-batch-size"},
    Renamed{Dialect::nemo_rl, "policy", "train-micro-batch-size", "micro-batch-size"},
    Renamed{Dialect::nemo_rl, "policy", "max-total-sequence-length", "seq-length"},
    Renamed{Dialect::nemo_rl, "policy.sequence_packing", "enabled", "sequence-packing"},
    Renamed{Dialect::nemo_rl, "policy.dynamic_batching", "enabled", "use-dynamic-batch-size"},
    Renamed{Dialect::nemo_rl, "megatron_cfg.peft", "enabled", "peft"},
    Renamed{Dialect::nemo_rl, "cluster", "gpus-per-node", "nproc-per-node"},
    Renamed{Dialect::nemo_rl, "cluster", "num-nodes", "nnodes"},
    Renamed{Dialect::neox, "", "train-micro-batch-size-per-gpu", "micro-batch-size"},
    Renamed{Dialect::neox, "", "train-batch-size", "global-batch-size"},
    Renamed{Dialect::neox, "", "num-gpus", "nproc-per-node"},
    Renamed{Dialect::neox, "", "num-nodes", "nnodes"},
    Renamed{Dialect::neox, "zero_optimization", "stage", "zero-stage"},
    Renamed{Dialect::neox, "zero-optimization", "stage", "zero-stage"},
    Renamed{Dialect::neox, "fp16", "enabled", "fp16"},
    Renamed{Dialect::neox, "bf16", "enabled", "bf16"},
    Renamed{Dialect::mcore_adapter, "", "per-device-train-batch-size", "micro-batch-size"},
    Renamed{Dialect::mcore_adapter, "", "cutoff-len", "seq-length"},
    Renamed{Dialect::swift, "", "max-length", "seq-length"},
    Renamed{Dialect::slime, "", "actor-num-nodes", "nnodes"},
    Renamed{Dialect::slime, "", "actor-num-gpus-per-node", "nproc-per-node"},
    Renamed{Dialect::verl, "trainer", "n-gpus-per-node", "nproc-per-node"},
    Renamed{Dialect::verl, "trainer", "nnodes", "nnodes"},
    Renamed{Dialect::verl, "actor", "ppo-micro-batch-size-per-gpu", "micro-batch-size"},
    Renamed{Dialect::verl, "actor", "ppo-mini-batch-size", "global-batch-size"},
};

}  // namespace

Dialect dialect_of(const FlagLaunch& launch, FlagReading::Kind kind) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(launch.words,
                               [&](const FlagWord& word) { return word.name == name; });
  };
  const auto has_section = [&](std::string_view begins) {
    return std::ranges::any_of(launch.words, [&](const FlagWord& word) {
      return word.section.starts_with(begins) && word.section != "scheduler";
    });
  };
  if (launch.program.starts_with("megatron ") || launch.program.starts_with("swift "))
    return Dialect::swift;
  if (launch.program.starts_with("verl") || has_section("actor_rollout_ref")) return Dialect::verl;
  if (has("actor-num-gpus-per-node")) return Dialect::slime;
  if (has_section("policy.megatron_cfg")) return Dialect::nemo_rl;
  if (has_section("modules.")) return Dialect::primus;
  if (has("per-device-train-batch-size")) return Dialect::mcore_adapter;
  const bool is_recipe = kind == FlagReading::Kind::yaml || kind == FlagReading::Kind::json;
  if (is_recipe && has("pipe-parallel-size")) return Dialect::neox;
  // NeMo Framework Launcher has a recipe for each kind of training.
  const bool has_overrides = has_section("model") || has_section("trainer") ||
                             has_section("train") || has_section("peft.") ||
                             has_section("fine_tuning.");
  if (has_overrides || (is_recipe && has_section("model"))) return Dialect::nemo;
  return Dialect::megatron;
}

FlagWord in_megatron(const FlagWord& word, Dialect dialect) {
  FlagWord flag = word;
  for (const Renamed& row : renamed_flags) {
    const bool is_for_all = row.dialect == Dialect::megatron;
    const bool fits = (is_for_all || row.dialect == dialect) && row.name == word.name &&
                      (row.section.empty() || word.section.ends_with(row.section));
    if (fits) flag.name = row.flag;
  }
  // A member of Megatron-LM's configuration class, which two flags switch.
  if (flag.name == "grad-reduce-in-fp32") {
    const bool is_off = flag.value == "false" || flag.value == "False";
    flag.name = is_off ? "grad-reduce-in-bf16" : "accumulate-allreduce-grads-in-fp32";
    if (is_off) flag.value.reset();
  }
  return flag;
}

std::string word_of_nodes(Dialect dialect) {
  for (const Renamed& row : renamed_flags) {
    if (row.dialect == dialect && row.flag == "nnodes") return std::string(row.name);
  }
  return "nnodes";
}

bool is_other_model(std::string_view section) {
  constexpr std::array names{"rollout",     "ref",        "critic",       "reward_model",
                             "reward",      "teacher",    "draft",        "validation_ds",
                             "test_ds",     "generation", "distillation", "policy_rollout",
                             "actor_infer", "reference",  "rewards",      "ref_policy"};
  return std::ranges::any_of(split(section, '.'), [&](const std::string& part) {
    return std::ranges::count(names, part) > 0;
  });
}

}  // namespace stagecraft
