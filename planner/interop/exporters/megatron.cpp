// Megatron-LM's launch for a plan, as megatron-core 0.19.2 starts it: a script with the
// environment, torchrun and all flags, those of the model among them. Where simple flags give the
// plan's stages they do, else a layout; what they give is asked of the importer's own arithmetic.
// Megatron-Bridge has the same settings under other names (megatron_bridge.cpp).

#include "planner/interop/exporters/megatron.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/even_ranks.hpp"
#include "planner/interop/exporters/megatron_kernels.hpp"
#include "planner/interop/importers/megatron_layout.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/targets/targets.hpp"
#include "profiles/prediction_modules.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view megatron_name = "Megatron-LM";

int common_layers(const LayerRange& a, const LayerRange& b) {
  return std::max(std::min(a.end, b.end) - std::max(a.first, b.first), 0);
}

std::vector<MegatronStage> stages_of(Reasons& reasons, const Plan& plan, const Model& model) {
  const LayerRange blocks = decoder_layers(model);
  const LayerRange prediction{blocks.end, transformer_layers(model).end};
  const int layers = static_cast<int>(model.layers.size());
  std::vector<MegatronStage> stages;
  for (const Stage& stage : plan.stages) {
    const LayerRange& range = stage.layers;
    stages.push_back({.embedding = range.first == 0,
                      .layers = common_layers(range, blocks),
                      .prediction = common_layers(range, prediction),
                      .loss = range.end == layers});
    const bool cuts_embedding = range.end < blocks.first;
    const bool cuts_head = range.end > prediction.end && range.end < layers;
    if (cuts_embedding || cuts_head) {
      reasons.add(" keeps what is ", cuts_embedding ? "before" : "behind",
                  " the transformer layers in one stage; this plan cuts at layer ", range.end);
    }
  }
  return stages;
}

bool gives(const MegatronFlags& flags, int layers, const std::vector<MegatronStage>& stages) {
  try {
    return megatron_stages(flags, layers) == stages;
  } catch (const Error&) {
    return false;  // refused
  }
}

/// Ways to say it without a layout: even, with embedding or loss as a layer, the first or last rank
/// by hand (not where a stage has no transformer layer, for which it has layouts).
std::vector<MegatronSplit> simple_splits(const std::vector<MegatronStage>& stages, int ranks) {
  int first = 0, last = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int rank = static_cast<int>(s) % ranks;
    if (rank == 0) first += stages[s].layers;
    if (rank == ranks - 1) last += stages[s].layers;
  }
  std::vector<MegatronSplit> splits;
  for (const bool loss : {false, true}) {
    for (const bool embedding : {false, true}) splits.push_back({embedding, loss, {}, {}});
  }
  const bool has_bare_stage = std::any_of(
      stages.begin(), stages.end(), [](const MegatronStage& stage) { return stage.layers == 0; });
  if (has_bare_stage) return splits;
  splits.push_back({false, false, first, {}});
  splits.push_back({false, false, {}, last});
  splits.push_back({false, false, first, last});
  return splits;
}

/// The flags that say where layers are.
MegatronFlags split_flags(Reasons& reasons, const std::vector<MegatronStage>& stages, int ranks,
                          const Model& model) {
  const int layers = decoder_layers(model).size();
  const int chunks = static_cast<int>(stages.size()) / ranks;
  MegatronFlags flags{
      .layers = layers, .prediction_modules = prediction_modules(model), .pipeline = ranks};
  if (chunks > 1) flags.virtual_stages = chunks;
  for (const MegatronSplit& split : simple_splits(stages, ranks)) {
    flags.split = split;
    if (gives(flags, layers, stages)) return flags;
  }
  flags.split = {};
  flags.virtual_stages.reset();
  flags.layout = write_megatron_layout(stages);
  try {
    if (megatron_stages(flags, layers) == stages) return flags;
  } catch (const Error& error) {
    reasons.add(" has no flags for the plan's stages: ", error.message());
    return flags;
  }
  if (reasons.sentences().empty()) reasons.add(" has no flags for the plan's stages");
  return flags;
}

using Line = MegatronSettings;

/// `torchrun` for the devices that the plan uses: whole nodes where it can.
std::string launcher(const Plan& plan, const Cluster& cluster) {
  const int used = static_cast<int>(used_devices(plan).size());
  const int per_node = cluster.levels.empty() ? 1 : cluster.levels.back().count;
  const int processes = std::gcd(used, per_node);
  const int nodes = used / processes;
  const std::string_view meeting =
      nodes > 1 ? " --rdzv-backend c10d --rdzv-endpoint \"$MASTER_ADDR:29500\"" : "";
  return fmt::format("torchrun --nnodes {} --nproc-per-node {}{} pretrain_gpt.py", nodes, processes,
                     meeting);
}

/// A line for the shell to pass over.
std::string warning_of_empty_stages(const std::vector<MegatronStage>& stages) {
  const auto empty = std::ranges::count(stages, MegatronStage{});
  if (empty == 0) return "";
  return fmt::format(
      "# {} empty: some releases of Megatron-LM wait for ever at one "
      "(NVIDIA/Megatron-LM, issue 1852)\n",
      empty == 1 ? "A stage is" : fmt::format("{} stages are", empty));
}

void add_split(Line& line, const MegatronFlags& flags) {
  line.add("num-layers", *flags.layers);
  line.add("pipeline-model-parallel-size", flags.pipeline);
  if (flags.virtual_stages) line.add("num-virtual-stages-per-pipeline-rank", *flags.virtual_stages);
  if (flags.split.account_for_embedding) line.on("account-for-embedding-in-pipeline-split");
  if (flags.split.account_for_loss) line.on("account-for-loss-in-pipeline-split");
  if (flags.split.first) line.add("decoder-first-pipeline-num-layers", *flags.split.first);
  if (flags.split.last) line.add("decoder-last-pipeline-num-layers", *flags.split.last);
  if (!flags.layout.empty()) line.add("pipeline-model-parallel-layout", shell_word(flags.layout));
}

/// The stage's transformer layers; embedding and head have no attention and are never recomputed
/// by themselves there.
std::vector<Recomputed> blocks_again(Reasons& reasons, const Stage& stage,
                                     const LayerRange& blocks) {
  std::vector<Recomputed> again;
  for (int layer = stage.layers.first; layer < stage.layers.end && !stage.again.empty(); ++layer) {
    const Recomputed what = stage.again[static_cast<std::size_t>(layer - stage.layers.first)];
    if (blocks.first <= layer && layer < blocks.end) {
      again.push_back(what);
    } else if (what == Recomputed::full || what == Recomputed::with_next) {
      reasons.add(" recomputes transformer layers only; the plan has layer ", layer,
                  " do so by itself");
      break;
    }
  }
  again.resize(static_cast<std::size_t>(std::max(
      std::min(stage.layers.end, blocks.end) - std::max(stage.layers.first, blocks.first), 0)));
  return again;
}

/// The stage's transformer layers.
LayerRange blocks_of(const Stage& stage, const LayerRange& blocks) {
  const int first = std::max(stage.layers.first, blocks.first);
  return {first, std::max(first, std::min(stage.layers.end, blocks.end))};
}

/// Without a word Megatron-LM does its core attention again.
void add_selective(Line& line, const LayerModules& modules) {
  line.add("recompute-granularity", "selective");
  if (modules.empty()) return;
  std::string words = to_string(modules);
  std::ranges::replace(words, '+', ' ');
  line.add("recompute-modules", words);
}

/// "block": the first so many layers of each stage; "uniform": all, so many at a time; or attention
/// everywhere.
void add_layers_again(Reasons& reasons, Line& line, const Plan& plan, const LayerRange& blocks) {
  const std::optional<int> run =
      length_of_runs(plan, [&](const Stage& stage) { return blocks_of(stage, blocks); });
  if (run && *run > 1) {
    line.add("recompute-granularity", "full");
    line.add("recompute-method", "uniform");
    return line.add("recompute-num-layers", *run);
  }
  std::ptrdiff_t most = 0, selective = 0, layers = 0;
  for (const Stage& stage : plan.stages) {
    const std::vector<Recomputed> again = blocks_again(reasons, stage, blocks);
    most = std::max(most, std::ranges::count(again, Recomputed::full));
    selective += std::ranges::count(again, Recomputed::selective);
    layers += std::ssize(again);
  }
  if (most == 0 && selective == 0) return;
  if (selective == layers) return add_selective(line, plan.kernels.again);
  Reasons unheard(megatron_name);  // they are said above
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<Recomputed> again = blocks_again(unheard, plan.stages[s], blocks);
    std::vector<Recomputed> expected(again.size(), Recomputed::none);
    std::fill_n(expected.begin(), std::min(most, std::ssize(again)), Recomputed::full);
    if (again == expected) continue;
    return reasons.add(" recomputes the attention of all layers, the first ",
                       std::max(most, std::ptrdiff_t{1}),
                       " layers of every stage, or all of them, so many at a time; of stage ", s,
                       " the plan recomputes ", recompute_in_words(plan.stages[s]));
  }
  line.add("recompute-granularity", "full");
  line.add("recompute-method", "block");
  line.add("recompute-num-layers", most);
}

void add_recompute(Reasons& reasons, Line& line, const Plan& plan, const Model& model,
                   const std::vector<MegatronStage>& stages) {
  const auto apart = [](const Stage& stage) { return !stage.again.empty(); };
  const auto whole = [](const Stage& stage) { return stage.recompute == Recompute::full; };
  if (std::ranges::any_of(plan.stages, apart) && std::ranges::none_of(plan.stages, whole)) {
    return add_layers_again(reasons, line, plan, decoder_layers(model));
  }
  if (same_recompute(reasons, plan) == Recompute::none) return;
  int most = 1;
  for (const MegatronStage& stage : stages) most = std::max(most, stage.layers);
  line.add("recompute-granularity", "full");
  line.add("recompute-method", "uniform");
  line.add("recompute-num-layers", most);
}

/// The model's groups of experts; else one for each node that a token's experts may be on.
void add_expert_groups(Line& line, const Plan& plan, const Model& model, const Cluster& cluster) {
  const Parallelism& parallelism = plan.parallelism;
  ExpertGroups groups;
  if (model.transformer->experts) groups = model.transformer->experts->groups;
  if (parallelism.expert_nodes > 0) {
    const int width = cluster.levels.empty() ? 1 : cluster.levels.back().count;
    const int nodes = (parallelism.expert + width - 1) / width;
    groups = {.count = std::max(nodes, parallelism.expert_nodes),
              .active = parallelism.expert_nodes};
  } else if (groups == ExpertGroups{}) {
    return;
  }
  line.add("moe-router-num-groups", groups.count);
  line.add("moe-router-group-topk", groups.active);
}

void add_parallelism(Line& line, const Plan& plan) {
  const Parallelism& parallelism = plan.parallelism;
  if (parallelism.sequence) line.on("sequence-parallel");
  if (parallelism.context > 1) line.add("context-parallel-size", parallelism.context);
  if (parallelism.expert > 1) line.add("expert-model-parallel-size", parallelism.expert);
  if (parallelism.expert_tensor > 0) {
    line.add("expert-tensor-parallel-size", parallelism.expert_tensor);
  }
}

void add_sharding(Line& line, Sharding sharding) {
  switch (sharding) {
    case Sharding::none: return;
    case Sharding::zero1: return line.on("use-distributed-optimizer");
    case Sharding::zero2:
    case Sharding::zero3:
      line.on("use-distributed-optimizer");
      line.on("use-megatron-fsdp");
      line.add("data-parallel-sharding-strategy",
               sharding == Sharding::zero2 ? "optim_grads" : "optim_grads_params");
      return line.add("ckpt-format", "fsdp_dtensor");
  }
}

/// In parameters, whose gradients are fp32.
void add_gradient_bucket(Line& line, Bytes bucket) {
  if (bucket == 0) return;
  line.on("overlap-grad-reduce");
  line.add("ddp-bucket-size", std::max<std::int64_t>(bucket / 4, 1));
}

std::string_view norm_name(Transformer::Norm norm) {
  return norm == Transformer::Norm::rms_norm ? "RMSNorm" : "LayerNorm";
}

std::string_view position_name(Transformer::Position position) {
  switch (position) {
    case Transformer::Position::learned: return "learned_absolute";
    case Transformer::Position::rotary: return "rope";
    case Transformer::Position::none: return "none";
  }
  return "";
}

/// Biases of all products, of queries, keys and values alone, or of none.
void add_biases(Line& line, const Transformer& transformer) {
  if (transformer.output_bias) return;
  line.on("disable-bias-linear");
  if (transformer.attention_bias) line.on("add-qkv-bias");
}

void add_attention(Line& line, const Transformer& transformer) {
  line.add("num-attention-heads", transformer.heads);
  if (const auto& latent = transformer.latent) {
    line.on("multi-latent-attention");
    if (latent->query_rank > 0) line.add("q-lora-rank", latent->query_rank);
    line.add("kv-lora-rank", latent->key_value_rank);
    line.add("qk-head-dim", latent->plain_width);
    line.add("qk-pos-emb-head-dim", latent->rotary_width);
    return line.add("v-head-dim", latent->value_width);
  }
  if (transformer.key_value_heads < transformer.heads) {
    line.on("group-query-attention");
    line.add("num-query-groups", transformer.key_value_heads);
  }
  if (transformer.head_width * transformer.heads != transformer.hidden) {
    line.add("kv-channels", transformer.head_width);
  }
}

void add_positions(Line& line, const Transformer& transformer, std::int64_t sequence) {
  line.add("max-position-embeddings", std::max(transformer.positions, sequence));
  line.add("position-embedding-type", position_name(transformer.position));
  if (transformer.position != Transformer::Position::rotary) return;
  line.add("rotary-base", std::llround(transformer.rotary_base));
  if (!transformer.rotary_scaling || transformer.latent) return;
  line.on("use-rope-scaling");
  line.add("rope-scaling-factor", transformer.rotary_scaling->factor);
}

/// A dense feed-forward in the first blocks, then experts: 0 and 1 for each.
void add_experts(Line& line, const Transformer& transformer, int layers) {
  if (!transformer.experts) return;
  const Experts& experts = *transformer.experts;
  line.add("num-experts", experts.count);
  line.add("moe-router-topk", experts.active);
  line.add("moe-ffn-hidden-size", experts.feed_forward);
  // Predicted so; without it Megatron-LM multiplies one expert after another.
  line.on("moe-grouped-gemm");
  if (experts.shared_feed_forward > 0) {
    line.add("moe-shared-expert-intermediate-size", experts.shared_feed_forward);
  }
  if (experts.dense_blocks > 0) {
    line.add("moe-layer-freq", fmt::format("\"([0]*{}+[1]*{})\"", experts.dense_blocks,
                                           layers - experts.dense_blocks));
  }
  if (experts.score_bias) {
    line.add("moe-router-score-function", "sigmoid");
    line.on("moe-router-enable-expert-bias");
  }
}

/// Nemotron-4's.
bool is_squared_relu(const Transformer& transformer) {
  return transformer.untrainable == "its activation is the square of relu";
}

/// What of its blocks there are arguments for: norms of queries and keys, turned parts of heads,
/// norms by 1 + weight, sinks, the window that all of them have.
void add_form(Line& line, const Model& model) {
  const Transformer& transformer = *model.transformer;
  if (transformer.arithmetic.norms_from_one) line.on("apply-layernorm-1p");
  const std::int64_t turned = transformer.arithmetic.rotary_width;
  if (transformer.position == Transformer::Position::rotary && turned > 0 && !transformer.latent) {
    line.add("rotary-percent",
             fmt::format("{:g}", static_cast<double>(turned) /
                                     static_cast<double>(transformer.head_width)));
  }
  const LayerRange blocks = decoder_layers(model);
  bool norms = false, sinks = false, same_window = true;
  std::optional<std::int64_t> window;
  for (int block = blocks.first; block < blocks.end; ++block) {
    const Layer& layer = model.layers[static_cast<std::size_t>(block)];
    std::int64_t own = 0;
    for (const Step& step : layer.steps) {
      if (step.kind != StepKind::attention || step.rows > 0) continue;
      own = step.window;
      sinks = sinks || step.outputs > 0;
    }
    same_window = same_window && window.value_or(own) == own;
    window = own;
    const auto form = trained_form(transformer, layer);
    norms = norms || (form && form->query_key_norm == QueryKeyNorm::shared);
  }
  if (norms) line.on("qk-layernorm");
  if (sinks) line.add("softmax-type", "learnable");
  if (same_window && window.value_or(0) > 0)
    line.add("window-size", fmt::format("{},0", *window - 1));
}

void add_model(Line& line, const Plan& plan, const Model& model) {
  const Transformer& transformer = *model.transformer;
  line.add("hidden-size", transformer.hidden);
  line.add("ffn-hidden-size", transformer.feed_forward);
  add_attention(line, transformer);
  add_positions(line, transformer, plan.batch.sequence);
  line.add("normalization", norm_name(transformer.norm));
  line.add("norm-epsilon", fmt::format("{:g}", transformer.norm_epsilon));
  if (transformer.activation == Transformer::FeedForward::swiglu) line.on("swiglu");
  if (is_squared_relu(transformer)) line.on("squared-relu");
  add_biases(line, transformer);
  if (!transformer.tied_head) line.on("untie-embeddings-and-output-weights");
  add_experts(line, transformer, decoder_layers(model).size());
  add_form(line, model);
}

/// What its arguments and configurations assert of a model's numbers.
void require_shape(Reasons& reasons, const Plan& plan, const Transformer& transformer,
                   const Degrees& degrees) {
  const auto divides = [](std::int64_t a, std::int64_t b) { return a % b == 0; };
  if (!divides(transformer.heads, degrees.tensor)) {
    reasons.add(" splits heads evenly: ", transformer.heads, " do not divide over ", degrees.tensor,
                " tensor-parallel peers");
  }
  const std::int64_t groups = transformer.key_value_heads;
  if (groups > 0 && !divides(groups, degrees.tensor) && !divides(degrees.tensor, groups)) {
    reasons.add(" splits groups of queries evenly: ", groups, " over ", degrees.tensor,
                " tensor-parallel peers are no whole number, nor the other way round");
  }
  if (degrees.context > 1 && !divides(plan.batch.sequence, std::int64_t{2} * degrees.context)) {
    reasons.add(" cuts a sequence in two pieces for each context-parallel peer: ",
                plan.batch.sequence, " tokens are not ", 2 * degrees.context, " equal ones");
  }
  if (transformer.experts && degrees.tensor > 1 && !plan.parallelism.sequence) {
    reasons.add(
        " trains experts beside tensor parallelism with --sequence-parallel only; plan with it");
  }
  if (transformer.experts && !divides(transformer.experts->count, plan.parallelism.expert)) {
    reasons.add(" spreads experts evenly: ", transformer.experts->count, " do not divide over ",
                plan.parallelism.expert, " devices");
  }
}

void require_known_schedule(Reasons& reasons, const Plan& plan) {
  const std::string& name = plan.schedule.name;
  if (name == "interleaved" && plan.schedule.virtual_stages == 1) {
    reasons.add(" interleaves two or more virtual stages; with one the schedule is 1f1b");
  }
  if (name == "interleaved" && pipeline_devices(plan) == 1) {
    reasons.add(" interleaves stages of two or more pipeline devices");
  }
  if (name != "1f1b" && name != "interleaved")
    reasons.add(" has the schedules 1f1b and interleaved, not ", name);
}

/// What has to be there to start, and is no part of a plan.
void add_start(Line& line, const Transformer& transformer) {
  line.on("mock-data");
  line.add("tokenizer-type", "NullTokenizer");
  line.add("vocab-size", transformer.vocabulary);
  line.add("lr", "1e-4");
  line.add("train-iters", 20);
  line.add("eval-iters", 0);
}

/// Kernels of communication and compute start in the order of their launch, or, under FSDP, must
/// not.
std::string environment_of(const Plan& plan, const Degrees& degrees) {
  if (shards_gradients(plan.optimizer.sharding)) return "unset CUDA_DEVICE_MAX_CONNECTIONS\n";
  if (degrees.tensor == 1 && degrees.context == 1)
    return exchanges_beside(plan) ? "export CUDA_DEVICE_MAX_CONNECTIONS=32\n" : "";
  return "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
}

/// What our flags leave out of the model, in a clause; empty: nothing. What no argument of
/// Megatron-LM says is a reason against the plan.
std::string unsaid_of(const Model& model) {
  return is_squared_relu(*model.transformer) ? "" : model.transformer->untrainable;
}

std::string heading(const Plan& plan, const Model& model, const Cluster& cluster) {
  const int used = static_cast<int>(used_devices(plan).size());
  const int per_node = cluster.levels.empty() ? 1 : cluster.levels.back().count;
  const int nodes = used / std::gcd(used, per_node);
  std::string text = "#!/usr/bin/env bash\n# Megatron-LM with megatron-core 0.19.2, on mock data.";
  text += nodes == 1 ? " Here: bash FILE; under Slurm: srun --nodes 1 --ntasks 1 bash FILE\n"
                     : fmt::format(
                           "\n# export MASTER_ADDR, the first node's name; then\n"
                           "# srun --nodes {} --ntasks-per-node 1 bash FILE\n",
                           nodes);
  const std::string besides = unsaid_of(model);
  if (!besides.empty()) {
    text += fmt::format("# Of the model these flags do not say that {}.\n", besides);
  }
  return text;
}

std::string megatron_script(Reasons& reasons, const Plan& plan, const Model& model,
                            const Cluster& cluster) {
  const MegatronSettings settings = megatron_settings(reasons, plan, model, cluster);
  if (!model.transformer) return "";
  Reasons unheard(megatron_name);
  const Degrees degrees = even_degrees(unheard, plan);
  std::string text = heading(plan, model, cluster) +
                     warning_of_empty_stages(stages_of(unheard, plan, model)) +
                     environment_of(plan, degrees) + launcher(plan, cluster);
  for (const MegatronSetting& setting : settings.all()) {
    text += fmt::format(" \\\n  --{}{}{}", setting.flag, setting.value.empty() ? "" : " ",
                        setting.value);
  }
  return text + "\n";
}

}  // namespace

MegatronSettings megatron_settings(Reasons& reasons, const Plan& plan, const Model& model,
                                   const Cluster& cluster) {
  MegatronSettings line;
  if (!model.transformer) {
    reasons.add(" trains transformers; the model \"", model.name, "\" is not known as one");
    return line;
  }
  require_plain(reasons, plan);
  require_known_schedule(reasons, plan);
  const Degrees degrees = even_degrees(reasons, plan);
  // A recipe of Megatron-Bridge says of a model what arguments do not.
  const Target& target =
      reasons.system() == megatron_name ? megatron_target : megatron_bridge_target;
  for (const std::string& why : reasons_against_model(target, model)) reasons.add(" ", why);
  require_shape(reasons, plan, *model.transformer, degrees);
  const std::vector<MegatronStage> stages = stages_of(reasons, plan, model);
  const MegatronFlags split = split_flags(reasons, stages, degrees.pipeline, model);
  add_split(line, split);
  if (split.prediction_modules > 0) line.add("mtp-num-layers", split.prediction_modules);
  line.add("tensor-model-parallel-size", degrees.tensor);
  add_parallelism(line, plan);
  add_expert_groups(line, plan, model, cluster);
  if (plan.schedule.group)
    line.add("microbatch-group-size-per-virtual-pipeline-stage", *plan.schedule.group);
  line.add("micro-batch-size", samples_per_replica(reasons, plan, degrees.data));
  line.add("global-batch-size", plan.batch.global);
  const std::int64_t sequence = plan.batch.sequence;
  line.add("seq-length", sequence > 0 ? sequence : model.transformer->positions);
  add_recompute(reasons, line, plan, model, stages);
  line.add("optimizer", plan.optimizer.kind == OptimizerKind::adamw ? "adam" : "sgd");
  add_sharding(line, plan.optimizer.sharding);
  add_gradient_bucket(line, plan.optimizer.gradient_bucket);
  add_precision(reasons, line, plan, cluster);
  add_model(line, plan, model);
  add_kernels(reasons, line, plan, model.transformer->experts);
  add_overlap(reasons, line, plan);
  require_recompute_modules(reasons, plan, cluster);
  add_start(line, *model.transformer);
  return line;
}

std::vector<std::string> reasons_against_megatron(const Plan& plan, const Model& model,
                                                  const Cluster& cluster) {
  Reasons reasons(megatron_name);
  require_arguments(reasons, plan);
  megatron_settings(reasons, plan, model, cluster);
  return reasons.sentences();
}

std::string export_megatron(const LoadedPlan& loaded) {
  Reasons reasons(megatron_name);
  require_arguments(reasons, loaded.plan);
  std::string text = megatron_script(reasons, loaded.plan, loaded.profile.model, loaded.cluster);
  reasons.require_none();
  return text;
}

}  // namespace stagecraft
