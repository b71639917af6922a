// Megatron-LM (Narayanan et al., SC 2021; NVIDIA/Megatron-LM, `megatron/training/arguments.py` and
// `core/transformer/transformer_block.py`), from its launch flags.
//
//   --num-layers 32 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2
//   --tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64 --bf16
//
// Embeddings stand with the first stage, multi-token prediction, final norm, head and loss with the
// last, unless a layout says otherwise; stages of a layout may be empty. Ranks count
// tensor-parallel peers fastest, then context-parallel ones, pipeline stages slowest; what devices
// are left over are replicas, each with its own micro-batches: one microbatch of ours is one
// micro-batch on every replica. Full recomputation keeps a stage's input (method "uniform" with at
// least as many layers as a stage has), or the inputs of each stage's first layers ("block").

#include <algorithm>
#include <array>

#include "planner/costs/exposed_sums.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "planner/interop/importers/megatron_kernels.hpp"
#include "planner/interop/importers/megatron_layout.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/problem/defaults.hpp"
#include "profiles/prediction_modules.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

std::optional<Precision> precision_of(const MegatronFlags& flags) {
  if (flags.bf16 && flags.fp16) fail("Megatron-LM refuses --fp16 and --bf16 at once");
  if (!flags.fp8.empty()) {
    if (flags.fp8 != "hybrid" && flags.fp8 != "e4m3") {
      fail("--fp8-format: expected hybrid or e4m3, found \"", flags.fp8, "\"");
    }
    if (!flags.bf16) fail("products in fp8 need --bf16 beside them, in which plans keep the rest");
    return flags.fp8_attention ? Precision::float8_with_attention : Precision::float8;
  }
  if (flags.bf16) return Precision::bfloat16;
  if (flags.fp16) return Precision::float16;
  return {};
}

/// As the flags say, or torchrun, or all there are.
int ranks_in(const MegatronFlags& flags, const Cluster& cluster) {
  if (flags.world) return *flags.world;
  if (!flags.processes || !flags.open_nodes.empty()) return device_count(cluster);
  const std::int64_t ranks = std::int64_t{*flags.processes} * flags.nodes.value_or(1);
  return static_cast<int>(std::min<std::int64_t>(ranks, most_devices));
}

/// Throws Error (input) where nodes of so many processes do not make up the cluster.
std::vector<std::string> notes_on_nodes(const MegatronFlags& flags, const Cluster& cluster) {
  if (flags.open_nodes.empty()) return {};
  const int devices = device_count(cluster);
  const int nodes = devices / *flags.processes;
  if (nodes * *flags.processes != devices) {
    fail_with_help(
        ErrorKind::input,
        concat("the recipe starts ", *flags.processes, " processes on a node, and the ",
               "cluster's ", devices, " devices are no whole number of such nodes"),
        {concat("--cluster with nodes of as many devices, or --set ", flags.open_nodes, "=N")});
  }
  if (nodes == 1) return {};
  return {concat("the recipe does not say on how many nodes it runs: all ", nodes,
                 " of the cluster are taken; --set ", flags.open_nodes, "=N says it")};
}

std::optional<OptimizerKind> optimizer_of(const MegatronFlags& flags) {
  if (flags.optimizer.empty()) return {};
  // Intel's Megatron-DeepSpeed names the kernel, too.
  if (flags.optimizer == "adam" || flags.optimizer == "adamw" || flags.optimizer == "fusedadamw")
    return OptimizerKind::adamw;
  if (flags.optimizer == "sgd") return OptimizerKind::sgd;
  fail("--optimizer ", flags.optimizer, ": plans have adam and sgd");
}

/// Before anything is made for each: layouts have empty stages, but not by the million.
void require_few_stages(const MegatronFlags& flags, int layers) {
  const std::int64_t chunks =
      std::max(flags.virtual_stages.value_or(1), flags.virtual_size.value_or(1));
  const std::int64_t most = std::max<std::int64_t>(1024, 64 * std::int64_t{layers});
  if (flags.pipeline * chunks <= most) return;
  fail(flags.pipeline, " pipeline ranks",
       chunks > 1 ? concat(" of ", chunks, " virtual stages") : "", " for ", layers,
       " transformer layers: expected at most ", most, " stages");
}

int layers_of(const MegatronFlags& flags, const Model& model) {
  const LayerRange blocks = decoder_layers(model);
  if (blocks.size() < 1) fail("the model \"", model.name, "\" has no transformer layers");
  if (flags.layers.value_or(blocks.size()) != blocks.size()) {
    fail("--num-layers is ", *flags.layers, ", but the model \"", model.name, "\" has ",
         blocks.size(), " transformer layers");
  }
  const int modules = prediction_modules(model);
  if (flags.prediction_modules != modules) {
    std::string remedy =
        concat("add --mtp-num-layers ", modules, ", or take the model without its prediction ",
               "modules: stagecraft model show MODEL --without-prediction -o FILE writes it");
    if (modules == 0)
      remedy = "leave --mtp-num-layers away, or take the model that has the modules";
    fail_with_help(ErrorKind::input,
                   concat("--mtp-num-layers is ", flags.prediction_modules, ", but the model \"",
                          model.name, "\" has ", modules,
                          " modules of multi-token prediction: layers would be lost or made up"),
                   {remedy});
  }
  return blocks.size();
}

/// What stages recompute: each as a whole, or of its transformer layers the first so many by
/// themselves, or all of them, so many at a time.
struct MegatronRecompute {
  Recompute stages = Recompute::none;
  Recomputed layers = Recomputed::none;
  int first_layers = 0;
  int run = 1;
};

MegatronRecompute recompute_of(const MegatronFlags& flags, const Model& model,
                               const std::vector<MegatronStage>& stages) {
  int most = 0;
  for (const MegatronStage& stage : stages) most = std::max(most, stage.layers);
  if (flags.recompute == "full" && flags.recomputes_experts)
    fail("Megatron-LM refuses --moe-layer-recompute beside --recompute-granularity full");
  if (recomputes_modules(flags)) {
    if (!flags.recompute_method.empty()) {
      fail("Megatron-LM refuses --recompute-method beside --recompute-granularity selective");
    }
    if (recomputes_nothing_there(flags, model)) return {};
    return {.layers = Recomputed::selective, .first_layers = most};
  }
  if (flags.recompute.empty()) return {};
  if (flags.recompute != "full") {
    fail("--recompute-granularity ", flags.recompute, ": expected full or selective");
  }
  const int layers = flags.recompute_layers.value_or(1);
  if (flags.recompute_method == "block") {
    return {.layers = Recomputed::full, .first_layers = layers};
  }
  if (flags.recompute_method == "uniform" && layers >= most) return {.stages = Recompute::full};
  if (flags.recompute_method == "uniform") {
    return {.layers = Recomputed::full, .first_layers = most, .run = layers};
  }
  if (flags.recompute_method.empty()) {
    fail("--recompute-granularity full needs --recompute-method uniform or block");
  }
  fail("--recompute-method ", flags.recompute_method, ": expected uniform or block");
}

void set_layers_again(Plan& plan, const MegatronRecompute& recompute, const LayerRange& blocks) {
  if (recompute.layers == Recomputed::none) return;
  for (Stage& stage : plan.stages) {
    const int first = std::max(stage.layers.first, blocks.first);
    const int end = std::min({stage.layers.end, blocks.end, first + recompute.first_layers});
    if (first >= end) continue;
    if (recompute.layers == Recomputed::full) {
      recompute_in_runs(stage, {first, end}, recompute.run);
      continue;
    }
    stage.again.assign(static_cast<std::size_t>(stage.layers.size()), Recomputed::none);
    std::fill(stage.again.begin() + (first - stage.layers.first),
              stage.again.begin() + (end - stage.layers.first), recompute.layers);
  }
}

/// The end of the stage's layers, which begin with this one.
int end_of(const MegatronStage& stage, const Model& model, int first) {
  if (stage.loss) return static_cast<int>(model.layers.size());
  const int block = stage.embedding ? decoder_layers(model).first : first;
  return block + stage.layers + stage.prediction;
}

/// Of a virtual stage; folded into a V, the first rank has the last stage, too.
int rank_of(int stage, int ranks, bool is_folded) {
  return is_folded && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
}

std::vector<ForeignStage> place(const std::vector<MegatronStage>& stages, const Model& model,
                                const Degrees& degrees, Recompute recompute, bool is_folded) {
  std::vector<ForeignStage> placed;
  int layer = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int rank = rank_of(static_cast<int>(s), degrees.pipeline, is_folded);
    const int end = end_of(stages[s], model, layer);
    placed.push_back({.layers = layers_between(layer, end),
                      .replicas = degrees.data,
                      .tensor_parallel = degrees.peers(),
                      .recompute = recompute,
                      .devices = ranks_of(degrees, rank)});
    layer = end;
  }
  return placed;
}

/// A micro-batch on each of the replicas is one microbatch.
void set_batch(Plan& plan, const PlanQuestion& question, const MegatronFlags& flags, int replicas) {
  const PlanOptions& options = question.options;
  std::optional<std::int64_t> microbatch = options.microbatch;
  if (flags.microbatch) {
    if (microbatch) fail_usage("the file has --micro-batch-size already; leave --microbatch away");
    microbatch = *flags.microbatch * replicas;
  }
  if (!microbatch) {
    fail_with_help(ErrorKind::input, "--micro-batch-size is missing",
                   {concat("--microbatch N says it: samples of all ", replicas,
                           replicas == 1 ? " replica" : " replicas", " together")});
  }
  std::optional<std::int64_t> global =
      said_once(flags.global_batch, "--global-batch-size", options.batch, "--batch");
  if (!global) global = *microbatch * flags.accumulation.value_or(1);  // as Megatron-LM does
  if (*global % *microbatch != 0) {
    fail("Megatron-LM refuses: the global batch size ", *global,
         " is not divisible by micro-batch size times replicas, ", *microbatch / replicas, " x ",
         replicas);
  }
  plan.batch = batch_of(question, global, microbatch);
}

/// What its arguments assert of torch's FSDP.
void require_alone(const MegatronFlags& flags) {
  constexpr std::string_view refuses = "Megatron-LM refuses --use-torch-fsdp2 beside ";
  if (flags.pipeline > 1) fail(refuses, "--pipeline-model-parallel-size ", flags.pipeline);
  if (flags.expert > 1) fail(refuses, "--expert-model-parallel-size ", flags.expert);
  if (flags.shards_optimizer) fail(refuses, "--use-distributed-optimizer");
  if (flags.fp16) fail(refuses, "--fp16");
}

/// Megatron's FSDP shards as its strategy says, everything by default (megatron-core 0.19.2), and
/// comes with the distributed optimizer; otherwise the flag of that decides.
std::optional<Sharding> sharding_of(const MegatronFlags& flags) {
  struct Strategy {
    std::string_view name;
    Sharding sharding;
  };
  constexpr std::array strategies{
      Strategy{"no_shard", Sharding::none}, Strategy{"optim", Sharding::zero1},
      Strategy{"optim_grads", Sharding::zero2}, Strategy{"optim_grads_params", Sharding::zero3}};
  const std::optional<Sharding> own =
      flags.shards_optimizer ? std::optional(Sharding::zero1) : std::nullopt;
  if (flags.torch_shards) {
    require_alone(flags);
    return Sharding::zero3;
  }
  if (flags.zero_stage > 1) return flags.zero_stage == 2 ? Sharding::zero2 : Sharding::zero3;
  if (!flags.fully_sharded) return own;
  if (flags.shards.empty()) return Sharding::zero3;
  std::vector<std::string> known;
  for (const Strategy& strategy : strategies) {
    if (strategy.name == flags.shards) return strategy.sharding;
    known.emplace_back(strategy.name);
  }
  fail_choice("--data-parallel-sharding-strategy", flags.shards, known);
}

/// A token's experts are on as many nodes as it chooses groups at most, where each group has room
/// on one and the model does not say so itself.
int expert_nodes_of(const MegatronFlags& flags, const Cluster& cluster, const Model& model) {
  const ExpertGroups groups{.count = flags.expert_groups, .active = flags.expert_group_choice};
  if (groups.active == 0) return 0;
  if (groups.count < groups.active) {
    fail("--moe-router-group-topk: ", groups.active, " groups are more than the ", groups.count,
         " of --moe-router-num-groups");
  }
  const bool of_model = model.transformer && model.transformer->experts &&
                        model.transformer->experts->groups == groups;
  if (of_model || flags.expert == 1) return 0;
  const int width = cluster.levels.empty() ? 1 : cluster.levels.back().count;
  return flags.expert <= groups.count * width ? flags.expert_group_choice : 0;
}

/// Without peers Megatron-LM turns sequence parallelism off; experts are cut as all else unless it
/// says otherwise.
Parallelism parallelism_of(const MegatronFlags& flags, const Cluster& cluster, const Model& model) {
  const bool has_experts = model.transformer && model.transformer->experts;
  const bool own =
      flags.expert_tensor > (has_experts ? 0 : 1) && flags.expert_tensor != flags.tensor;
  return {.sequence = flags.sequence_parallel && flags.tensor > 1,
          .context = flags.context,
          .expert = flags.expert,
          .expert_tensor = own ? flags.expert_tensor : 0,
          .expert_nodes = expert_nodes_of(flags, cluster, model)};
}

/// In bytes of fp32 gradients.
std::optional<Bytes> gradient_bucket_of(const MegatronFlags& flags, const Degrees& degrees) {
  if (!flags.overlaps_gradients) return {};
  if (flags.bucket_parameters) return 4 * *flags.bucket_parameters;
  return usual_gradient_bucket(Framework::megatron, std::int64_t{degrees.data} * degrees.context);
}

/// The model's own number for a flag about its shape; nothing if it has none to compare.
std::optional<std::int64_t> shape_in(const Transformer& transformer, std::string_view flag) {
  if (flag == "hidden-size") return transformer.hidden;
  if (flag == "num-attention-heads") return transformer.heads;
  if (flag == "ffn-hidden-size") return transformer.feed_forward;
  if (flag == "num-query-groups") return transformer.key_value_heads;
  if (flag == "kv-channels") return transformer.head_width;
  if (flag == "num-experts") return transformer.experts ? transformer.experts->count : 0;
  // A log has the others of any model.
  if (transformer.experts && flag == "moe-router-topk") return transformer.experts->active;
  if (transformer.experts && flag == "moe-ffn-hidden-size")
    return transformer.experts->feed_forward;
  return flag == "vocab-size" ? std::optional(transformer.vocabulary) : std::nullopt;
}

/// Where the flags and the model differ in shape, in one sentence. A number of query groups counts
/// only beside --group-query-attention, which a log has in any case, so 1 says nothing; a model's
/// vocabulary may be padded.
std::vector<std::string> shape_notes(const MegatronFlags& flags, const Model& model) {
  if (!model.transformer) return {};
  std::string differences;
  for (const ShapeFlag& flag : flags.shape) {
    const auto own = shape_in(*model.transformer, flag.name);
    const bool silent = flag.name == "num-query-groups" && flag.value == 1;
    const bool padded =
        flag.name == "vocab-size" && own && flag.value <= *own && *own - flag.value < 4096;
    if (!own || *own == flag.value || silent || padded) continue;
    differences += concat(differences.empty() ? "" : ", ", "--", flag.name, " ", flag.value,
                          " (the model has ", *own, ")");
  }
  if (differences.empty()) return {};
  return {
      concat("the flags are of another shape than the model \"", model.name, "\": ", differences)};
}

PlanQuestion with_flags(PlanQuestion question, const MegatronFlags& flags) {
  PlanOptions& options = question.options;
  const std::optional<Sharding> sharding = sharding_of(flags);
  options.precision =
      said_once(precision_of(flags), "a precision", options.precision, "--precision");
  options.optimizer =
      said_once(optimizer_of(flags), "--optimizer", options.optimizer, "--optimizer");
  options.sharding =
      said_once(sharding, "--use-distributed-optimizer", options.sharding, "--sharding");
  options.sequence = said_once(flags.sequence, "--seq-length", options.sequence, "--sequence");
  if (estimates_kernels(question.profile)) set_kernels(flags, question);
  // Without a flag Megatron-LM computes in fp32.
  if (!options.precision) options.precision = Precision::float32;
  if (!options.schedule.empty())
    fail_usage("the schedule follows from the flags; leave --schedule away");
  if (!options.replicas.empty()) {
    fail_usage("replicas follow from the flags and the number of devices; leave --replicas away");
  }
  return question;
}

/// zero-bubble's schedules (Qi et al., ICLR 2024), and 1F1B over pieces of sequences.
bool is_folded(const MegatronFlags& flags) {
  return flags.schedule == "zb-v" || flags.schedule == "v-half" || flags.schedule == "v-min";
}

/// As its arguments ask: a V has two stages on each rank.
MegatronFlags with_stages_of_schedule(MegatronFlags flags) {
  if (flags.schedule.empty()) return flags;
  if (flags.pipeline < 2) fail("--enable-zero-bubble needs at least 2 pipeline ranks");
  if (flags.sequence_chunks > 1)
    fail("plans have no zero-bubble schedule over pieces of sequences");
  if (flags.layers_per_virtual_stage || flags.virtual_stages.value_or(1) > 1) {
    fail(
        "plans have zero-bubble's schedules with one stage on each rank, or two in a V, not "
        "interleaved");
  }
  if (is_folded(flags)) flags.virtual_stages = 2;
  return flags;
}

void set_megatron_schedule(Plan& plan, const MegatronFlags& flags, int chunks,
                           std::vector<std::string>& notes) {
  if (flags.schedule.empty()) {
    if (flags.sequence_chunks > 1 && chunks > 1)
      fail("plans have no interleaved schedule over pieces of sequences");
    set_schedule(plan,
                 flags.sequence_chunks > 1 ? "seq1f1b"
                 : chunks > 1              ? "interleaved"
                                           : "1f1b",
                 chunks);
    plan.schedule.sequence_chunks = flags.sequence_chunks;
    if (chunks > 1) plan.schedule.group = flags.group;
    return;
  }
  const int memory = flags.in_flight.value_or(flags.pipeline);
  const bool has_more = flags.schedule == "zb-1p" && memory >= 2 * flags.pipeline;
  set_schedule(plan, has_more ? "zb-2p" : flags.schedule, chunks);
  if (flags.schedule == "zb-1p" && memory != flags.pipeline && memory != 2 * flags.pipeline) {
    notes.push_back(concat("--zero-bubble-max-pending-backward ", memory,
                           ": plans have memory for ", flags.pipeline, " (zb-1p) or ",
                           2 * flags.pipeline, " (zb-2p) microbatches; the smaller one is taken"));
  } else if (flags.schedule == "zb-1p" && !flags.in_flight) {
    notes.push_back(
        concat("--enable-zero-bubble looks for the best limit of memory while it trains; "
               "the plan has memory for ",
               flags.pipeline, " microbatches (zb-1p)"));
  }
}

}  // namespace

bool looks_like_megatron(std::string_view content) {
  return has_megatron_flags(content);
}

ImportedPlan import_megatron(std::string_view content, const std::string& file,
                             const PlanQuestion& question) {
  MegatronLaunch launch = read_megatron_launch(content, file, question.variables);
  const MegatronFlags flags = with_stages_of_schedule(launch.flags);
  const Model& model = question.profile.model;
  const PlanQuestion settled = with_flags(question, flags);
  ImportedPlan imported{.plan = begin_plan(settled),
                        .notes = std::move(launch.notes),
                        .understood = std::move(launch.understood),
                        .not_modelled = std::move(launch.not_modelled),
                        .unknown = std::move(launch.unknown),
                        .others = std::move(launch.others)};
  for (std::string& note : notes_on_nodes(flags, question.cluster))
    imported.notes.push_back(std::move(note));
  for (std::string& note : shape_notes(flags, model)) imported.notes.push_back(std::move(note));
  for (std::string& note : kernel_notes(flags, imported.plan.kernels.framework, model))
    imported.notes.push_back(std::move(note));
  imported.plan.parallelism = parallelism_of(flags, question.cluster, model);
  const int layers = layers_of(flags, model);
  require_few_stages(flags, layers);
  const std::vector<MegatronStage> stages = megatron_stages(flags, layers);
  const Degrees degrees = degrees_of("Megatron-LM", ranks_in(flags, question.cluster),
                                     flags.pipeline, flags.tensor, flags.context);
  const MegatronRecompute recompute = recompute_of(flags, model, stages);
  set_stages(imported.plan, place(stages, model, degrees, recompute.stages, is_folded(flags)));
  set_layers_again(imported.plan, recompute, decoder_layers(model));
  const int chunks = static_cast<int>(stages.size()) / flags.pipeline;
  set_megatron_schedule(imported.plan, flags, chunks, imported.notes);
  set_batch(imported.plan, settled, flags, degrees.data);
  imported.plan.optimizer.gradient_bucket =
      said_once(gradient_bucket_of(flags, degrees), "--overlap-grad-reduce",
                question.options.gradient_bucket, "--gradient-bucket")
          .value_or(0);
  const bool is_latent = model.transformer && model.transformer->latent;
  if (recompute.layers == Recomputed::selective && !is_latent &&
      imported.plan.kernels.again.empty()) {
    imported.notes.emplace_back(
        "the plan's selective layers keep less than Megatron-LM's, which keep the attention's "
        "output");
  }
  const auto predicts_apart = [](const MegatronStage& stage) {
    return stage.prediction > 0 && !stage.loss;
  };
  if (std::ranges::any_of(stages, predicts_apart)) {
    imported.notes.emplace_back(
        "modules of multi-token prediction are predicted with their own logits and loss; "
        "Megatron-LM has these in the last stage, and hands on a state for each module");
  }
  if (recompute.stages == Recompute::full) {
    imported.notes.emplace_back(
        "embedding and head are recomputed with their stages; Megatron-LM recomputes transformer "
        "layers only");
  }
  return imported;
}

}  // namespace stagecraft
