#include "tools/options/flag_meanings.hpp"

#include <algorithm>
#include <array>

#include "planner/analysis/changes.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Names of one thing: ours of options, in the order in which verbs have them, the key of --set,
/// and a sentence where there is no such option.
struct FlagMeaning {
  std::vector<std::string_view> others;
  std::vector<std::string_view> ours;
  std::string_view key = {};
  std::string_view otherwise = {};
};

const std::vector<FlagMeaning>& meanings() {
  static const std::vector<FlagMeaning> all{
      {{"--tensor-model-parallel-size", "--tensor-parallel-size", "--tensor-parallel-degree",
        "--tensor-parallel", "--tp", "--tp-size", "--model-parallel-size"},
       {"--tp"},
       "tp"},
      {{"--pipeline-model-parallel-size", "--pipeline-parallel-size", "--pipeline-parallel-degree",
        "--pipeline-parallel", "--pp", "--pp-size", "--num-stages", "--stages"},
       {"--pp", "--stages"},
       "pp"},
      {{"--num-virtual-stages-per-pipeline-rank", "--virtual-pipeline-model-parallel-size",
        "--num-layers-per-virtual-pipeline-stage", "--vpp", "--virtual"},
       {"--vpp", "--virtual"},
       "vpp"},
      {{"--data-parallel-size", "--data-parallel", "--data-parallel-degree", "--dp", "--dp-size",
        "--replicas", "--data-parallel-shard-degree", "--data-parallel-replicate-degree"},
       {"--dp", "--replicas"},
       "dp"},
      {{"--context-parallel-size", "--context-parallel-degree", "--context-parallel", "--cp"},
       {"--cp"},
       "cp"},
      {{"--expert-model-parallel-size", "--expert-parallel-size", "--expert-parallel-degree",
        "--expert-parallel", "--ep"},
       {"--ep"},
       "ep"},
      {{"--expert-tensor-parallel-size", "--etp"}, {"--expert-tensor-parallel"}},
      {{"--micro-batch-size", "--microbatch-size", "--micro-batch", "--mbs",
        "--train-micro-batch-size-per-gpu", "--per-device-train-batch-size",
        "--pipeline-parallel-microbatch-size", "--local-batch-size"},
       {"--mbs", "--microbatch"},
       "mbs"},
      {{"--global-batch-size", "--global-batch", "--gbs", "--batch-size", "--train-batch-size",
        "--batch"},
       {"--gbs", "--batch"},
       "batch"},
      {{"--num-microbatches", "--gradient-accumulation-steps", "--microbatches"},
       {"--microbatches", "--gbs"},
       "batch"},
      {{"--seq-length", "--seq-len", "--sequence-length", "--seq", "--max-seq-len",
        "--max-sequence-length", "--sequence"},
       {"--sequence"},
       "sequence"},
      {{"--gpus", "--num-gpus", "--n-gpus", "--ngpus", "--nproc-per-node", "--nproc_per_node",
        "--nnodes", "--nodes", "--num-nodes", "--world-size"},
       {},
       {},
       "CLUSTER names the devices: 2x8xh100 are 2 nodes of 8"},
      {{"--use-distributed-optimizer", "--zero-stage", "--zero", "--fsdp", "--use-megatron-fsdp",
        "--data-parallel-sharding-strategy", "--fsdp-reshard-after-forward", "--zero-optimization",
        "--sharding"},
       {"--sharding"},
       "sharding"},
      {{"--bf16", "--fp16", "--fp8", "--fp8-format", "--dtype", "--precision"},
       {"--precision"},
       "precision"},
      {{"--transformer-impl", "--kernels"}, {"--kernels"}, "kernels"},
      {{"--profile", "--profiles", "--costs", "--layer-costs"},
       {},
       {},
       "a profile stands in MODEL's place: stagecraft plan PROFILE.json CLUSTER"},
      {{"--moe-token-dispatcher-type", "--moe-enable-deepep", "--moe-flex-dispatcher-backend",
        "--expert-parallel-comm-backend", "--dispatcher"},
       {"--dispatcher"},
       "dispatcher"},
      {{"--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", "--fused-cross-entropy",
        "--fused-loss"},
       {"--fused-loss"},
       "fused-loss"},
      {{"--fp8-recipe", "--fp8-scaling", "--float8-recipe"}, {"--fp8-recipe"}, "fp8-recipe"},
      {{"--cuda-graph-impl", "--enable-cuda-graph", "--external-cuda-graph", "--cuda-graph",
        "--cuda-graphs"},
       {"--cuda-graphs"},
       "cuda-graphs"},
      {{"--tp-comm-overlap", "--overlap-moe-expert-parallel-comm", "--overlap"},
       {"--overlap"},
       "overlap"},
      {{"--recompute-modules", "--moe-layer-recompute"},
       {"--recompute-modules"},
       "recompute-modules"},
      {{"--recompute-granularity", "--recompute-method", "--recompute-activations",
        "--activation-checkpointing", "--activation-checkpoint", "--gradient-checkpointing",
        "--checkpoint-activations", "--recompute-num-layers", "--activation-checkpoint-interval",
        "--selective-ac-option", "--recompute"},
       {"--recompute"},
       "recompute"},
      {{"--overlap-grad-reduce", "--ddp-bucket-size", "--bucket-cap-mb", "--gradient-bucket"},
       {"--gradient-bucket"},
       "gradient-bucket"},
      {{"--pipeline-schedule", "--pipeline-parallel-schedule", "--schedule"},
       {"--schedule"},
       "schedule"},
      {{"--pipeline-model-parallel-layout", "--decoder-first-pipeline-num-layers",
        "--decoder-last-pipeline-num-layers", "--module-fqns-per-model-part", "--partition-method",
        "--parts", "--layers"},
       {},
       "layers"},
      {{"--sequence-parallel", "--enable-sequence-parallel", "--sp"},
       {"--sequence-parallel"},
       "sp"},
      {{"--framework", "--target"}, {"--for"}},
      {{"--gpu-memory", "--mem", "--memory-per-gpu", "--device-memory"}, {"--memory"}},
      {{"--out", "--output-file", "--save"}, {"--output"}},
      {{"--train-iters", "--iters", "--max-steps", "--num-steps"}, {"--steps", "--iterations"}},
  };
  return all;
}

/// Underscores are dashes to most who write flags.
std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', '-');
  return text;
}

}  // namespace

std::string option_of_same_meaning(std::string_view unknown,
                                   const std::vector<std::string>& options) {
  const std::string name = with_dashes(unknown);
  const auto has = [&](std::string_view option) {
    return std::ranges::find(options, option) != options.end();
  };
  for (const FlagMeaning& meaning : meanings()) {
    if (std::ranges::find(meaning.others, name) == meaning.others.end()) continue;
    const auto ours = std::ranges::find_if(meaning.ours, has);
    if (ours != meaning.ours.end()) return concat("it is ", *ours, " here");
    if (!meaning.key.empty() && has("--set") && has("--replan"))
      return concat("--set ", meaning.key, "=VALUE changes it");
    if (!meaning.otherwise.empty()) return std::string(meaning.otherwise);
  }
  return "";
}

std::string key_of_flag(std::string_view name) {
  name = name.substr(name.rfind('.') + 1);
  while (name.starts_with('-')) name.remove_prefix(1);
  const std::string flag = "--" + with_dashes(name);
  for (const FlagMeaning& meaning : meanings()) {
    if (std::ranges::find(meaning.others, flag) != meaning.others.end())
      return std::string(meaning.key);
  }
  return "";
}

}  // namespace stagecraft
