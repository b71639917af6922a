#include "tools/options/flag_meanings.hpp"

#include <algorithm>
#include <array>

#include "planner/analysis/changes.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

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
        "--virtual-pipeline-parallel-size", "--virtual-pipeline-size", "--virtual-pipeline",
        "--virtual-stages", "--num-virtual-stages", "--interleave", "--vpp", "--virtual"},
       {"--vpp", "--virtual"},
       "vpp"},
      {{"--num-layers-per-virtual-pipeline-stage"},
       {},
       {},
       "it counts the layers of a stage, and --vpp the stages of a device: layers / (--pp x this "
       "number)"},
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
       {"--microbatches"},
       "batch",
       "the number of microbatches is the batch divided by a microbatch: give --gbs and --mbs"},
      {{"--seq-length", "--seq-len", "--sequence-length", "--seq", "--max-seq-len",
        "--max-sequence-length", "--max-model-len", "--context-length", "--context", "--ctx",
        "--sequence"},
       {"--sequence"},
       "sequence"},
      {{"--prompt-length", "--prompt-len", "--input-tokens", "--input-len", "--isl",
        "--prompt-tokens"},
       {"--prompt-tokens"},
       "prompt-tokens"},
      {{"--output-length", "--output-len", "--max-tokens", "--max-new-tokens", "--osl",
        "--output-tokens"},
       {"--output-tokens"},
       "output-tokens"},
      {{"--max-num-batched-tokens", "--chunked-prefill-size", "--max-num-tokens", "--chunk-tokens"},
       {"--chunk-tokens"},
       "chunk-tokens"},
      {{"--gpu-memory-utilization", "--mem-fraction-static", "--mem-limit"}, {"--mem-limit"}},
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
      {{"--moe-router-fusion", "--router-fusion"}, {"--router-fusion"}, "router-fusion"},
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
      {{"--gpu-memory", "--mem", "--memory-per-gpu", "--device-memory", "--memory"},
       {"--memory"},
       {},
       "stagecraft simulate PLAN --memory SIZE says whether a plan fits into it"},
      {{"--network", "--network-bandwidth", "--link", "--link-bandwidth", "--bandwidth"},
       {"--bandwidth"},
       "link0"},
      {{"--latency", "--transfer"}, {"--transfer"}, "link0.latency"},
      {{"--offload", "--cpu-offload", "--cpu-offloading", "--optimizer-cpu-offload",
        "--offload-optimizer", "--offload-activations", "--activation-offload"},
       {},
       {},
       "moving tensors to the host's memory is not modelled; --recompute and --sharding save "
       "memory"},
      {{"--exclude", "--without", "--lost", "--lose", "--lost-device", "--lost-node", "--fail",
        "--failed", "--dead", "--down", "--drop", "--broken", "--kill"},
       {"--exclude"},
       {},
       "stagecraft plan MODEL CLUSTER --exclude DEVICES plans without them, and stagecraft "
       "simulate "
       "PLAN --stop DEVICE@TIME stops one within a step"},
      {{"--slow-device", "--straggler", "--slow"}, {"--slow"}},
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

/// "stagecraft simulate PLAN --set tp=VALUE": by those who have no --set.
std::string with_set(const FlagMeaning& meaning, const VerbOptions& verb) {
  std::string text = concat("a plan has its own: stagecraft simulate PLAN --set ", meaning.key,
                            "=VALUE says what another would do");
  for (const std::string_view ours : meaning.ours) {
    if (std::ranges::count(verb.verbs_with(ours), "plan") == 0) continue;
    return concat(text, ", and stagecraft plan … ", ours, " VALUE plans with it");
  }
  return text;
}

/// "it is an option of stagecraft plan, simulate and check".
std::string of_others(std::string_view option, const VerbOptions& verb) {
  const std::vector<std::string> verbs = verb.verbs_with(option);
  return verbs.empty() ? "" : concat("it is an option of stagecraft ", join_words(verbs));
}

struct VerbMeaning {
  std::vector<std::string_view> others;
  std::string_view ours;
};

const std::vector<VerbMeaning>& verb_meanings() {
  static const std::vector<VerbMeaning> all{
      {{"whatif", "what-if", "what_if", "change", "set", "sweep"},
       "stagecraft simulate PLAN --set KEY=VALUE"},
      {{"optimize", "optimise", "search", "tune", "autotune", "find", "parallelize", "partition"},
       "stagecraft plan MODEL CLUSTER"},
      {{"improve", "suggest", "recommend", "speedup", "help-me"}, "stagecraft advise PLAN"},
      {{"visualize", "visualise", "view", "page", "html", "dashboard", "plot", "draw"},
       "stagecraft report PLAN -o page.html"},
      {{"predict", "estimate", "forecast", "timeline"}, "stagecraft simulate PLAN"},
      {{"train", "execute", "launch", "start"}, "stagecraft run PLAN"},
      {{"validate", "verify", "lint", "fits", "fit", "memory"}, "stagecraft check PLAN"},
      {{"why", "bottleneck", "bottlenecks", "analyze", "analyse", "critical-path"},
       "stagecraft explain PLAN"},
      {{"diff", "versus", "vs"}, "stagecraft compare PLAN PLAN"},
      {{"measure", "benchmark", "bench"}, "stagecraft profile MODEL"},
      {{"debug", "hang", "postmortem"}, "stagecraft diagnose DIR"},
      {{"accuracy", "errors"}, "stagecraft ledger"},
      {{"generate", "write", "script"}, "stagecraft export FORMAT PLAN"},
      {{"read", "load", "convert"}, "stagecraft import FORMAT FILE"},
      {{"models"}, "stagecraft model list"},
      {{"clusters", "devices", "gpus"}, "stagecraft cluster list"},
      {{"schedules"}, "stagecraft schedule list"},
  };
  return all;
}

/// Of what stands where a verb should: a plan or a model, a launch script, a schedule.
std::string verbs_for_file(std::string_view file) {
  if (file.ends_with(".sh")) {
    return concat("stagecraft advise ", file,
                  " --model MODEL --cluster CLUSTER says what to change in a launch script");
  }
  if (file.ends_with(".csv"))
    return concat("stagecraft schedule check ", file, " checks a schedule");
  if (file.ends_with(".json")) {
    return concat("stagecraft simulate ", file, " predicts a plan's step, and stagecraft plan ",
                  file, " CLUSTER makes a plan for a model");
  }
  return "";
}

}  // namespace

std::string option_of_same_meaning(std::string_view unknown, const VerbOptions& verb) {
  const std::string name = with_dashes(unknown);
  const auto has = [&](std::string_view option) {
    return std::ranges::find(verb.options, option) != verb.options.end();
  };
  const bool has_changes = has("--set") && has("--replan");
  if (name == "--set" && verb.takes_plan)
    return "stagecraft simulate PLAN --set KEY=VALUE says what a change would do";
  for (const FlagMeaning& meaning : meanings()) {
    if (std::ranges::find(meaning.others, name) == meaning.others.end()) continue;
    const auto ours = std::ranges::find_if(meaning.ours, has);
    if (ours != meaning.ours.end()) return concat("it is ", *ours, " here");
    // Which links there are, --set says itself.
    if (!meaning.key.empty() && has_changes && !meaning.key.starts_with("link"))
      return concat("--set ", meaning.key, "=VALUE changes it");
    if (!meaning.key.empty() && verb.takes_plan) return with_set(meaning, verb);
    if (!meaning.otherwise.empty()) return std::string(meaning.otherwise);
    for (const std::string_view other : meaning.ours) {
      const std::string words = of_others(other, verb);
      if (!words.empty()) return other == name ? words : concat("as ", other, " ", words);
    }
  }
  return of_others(name, verb);
}

std::string option_of_same_meaning(std::string_view unknown,
                                   const std::vector<std::string>& options) {
  return option_of_same_meaning(
      unknown,
      VerbOptions{.options = options, .takes_plan = false, .verbs_with = [](std::string_view) {
                    return std::vector<std::string>();
                  }});
}

std::string verb_of_same_meaning(std::string_view unknown) {
  for (const VerbMeaning& meaning : verb_meanings()) {
    if (std::ranges::find(meaning.others, unknown) != meaning.others.end())
      return concat(meaning.ours, " does that");
  }
  return verbs_for_file(unknown);
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
