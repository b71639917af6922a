#include "planner/interop/importers/megatron_kernels.hpp"

#include <algorithm>

#include "planner/interop/importers/common.hpp"
#include "planner/interop/megatron_names.hpp"
#include "planner/problem/defaults.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Tokens of a model without experts go nowhere.
std::optional<Dispatcher> dispatcher_of(const MegatronFlags& flags, const Model& model) {
  if (flags.dispatcher.empty() || !has_experts(model)) return {};
  return dispatcher_in_megatron(flags.dispatcher, flags.flex);
}

std::optional<CudaGraphs> graphs_of(const MegatronFlags& flags) {
  if (flags.graphs.empty()) return {};
  return graphs_in_megatron(flags.graphs, flags.graph_scope);
}

std::optional<FusedLoss> fused_loss_of(const MegatronFlags& flags) {
  if (!flags.fused_loss) return {};
  return flags.loss_fusion == "te" ? FusedLoss::te : FusedLoss::native;
}

/// A model without experts has no router.
std::optional<RouterFusion> router_fusion_of(const MegatronFlags& flags, const Model& model) {
  if (!flags.fuses_router || !has_experts(model)) return {};
  return RouterFusion::on;
}

/// What the flags say of fp8, whoever says that it is.
std::optional<Float8Recipe> float8_recipe_of(const MegatronFlags& flags, bool is_fp8) {
  if (!is_fp8 || flags.fp8_recipe.empty()) return {};
  return float8_recipe_in_megatron(flags.fp8_recipe);
}

bool is_usual(Float8Recipe recipe, const Cluster& cluster) {
  return std::ranges::all_of(kinds_in_use(cluster), [&](const DeviceKind& kind) {
    return usual_float8_recipe(kind.name) == recipe;
  });
}

/// Without a word Megatron-LM has delayed scaling; PyTorch's kernels have no recipe.
void set_float8_recipe(const MegatronFlags& flags, bool is_megatron, PlanQuestion& question) {
  PlanOptions& options = question.options;
  const bool is_fp8 = options.precision && is_float8(*options.precision);
  options.float8_recipe = said_once(float8_recipe_of(flags, is_fp8), "--fp8-recipe",
                                    options.float8_recipe, "--fp8-recipe");
  if (is_megatron && !flags.fp8.empty() && !options.float8_recipe)
    options.float8_recipe = Float8Recipe::delayed;
  if (options.float8_recipe && is_usual(*options.float8_recipe, question.cluster))
    options.float8_recipe.reset();
}

/// Megatron-LM's older flag adds the experts to the modules that are named, or to its core
/// attention.
LayerModules named_modules(const MegatronFlags& flags) {
  LayerModules modules = flags.recompute_modules;
  if (!flags.recomputes_experts) return modules;
  if (modules.empty()) modules.add(LayerModule::core_attention);
  modules.add(LayerModule::experts);
  return modules;
}

std::optional<LayerModules> recompute_modules_of(const MegatronFlags& flags, const Model& model) {
  if (!recomputes_modules(flags)) return {};
  const LayerModules modules = named_modules(flags);
  const LayerModules there = modules.without(modules.without(modules_of(model)));
  return there.empty() ? std::nullopt : std::optional(there);
}

bool has_peers_of_experts(const MegatronFlags& flags, const Model& model) {
  return flags.expert > 1 && has_experts(model);
}

/// Of messages that there are: peers gather and scatter tokens with sequence parallelism alone.
std::optional<MessageOverlap> overlap_of(const MegatronFlags& flags, const Model& model) {
  const MessageOverlap overlap{
      .tensor = flags.overlaps_tensor && flags.tensor > 1 && flags.sequence_parallel,
      .experts = flags.overlaps_experts && has_peers_of_experts(flags, model)};
  return overlap.empty() ? std::nullopt : std::optional(overlap);
}

/// The flags of it that stand in the file.
std::string overlap_flags(const MegatronFlags& flags) {
  if (!flags.overlaps_experts) return "--tp-comm-overlap";
  return concat(flags.overlaps_tensor ? "--tp-comm-overlap and " : "",
                "--overlap-moe-expert-parallel-comm");
}

using Notes = std::vector<std::string>;

void note_modules(Notes& notes, const MegatronFlags& flags, const Model& model) {
  if (!flags.strange_modules.empty()) {
    notes.push_back(concat("plans know no module ", flags.strange_modules,
                           " (--recompute-modules), and keep what is in it"));
  }
  const LayerModules modules = named_modules(flags);
  if (recomputes_modules(flags)) {
    const LayerModules absent = modules.without(modules_of(model));
    if (absent.empty()) return;
    notes.push_back(concat("no layer of ", model.name, " has ", to_string(absent),
                           ", so --recompute-modules does nothing there"));
    return;
  }
  // A log has the usual one in any case.
  LayerModules usual;
  usual.add(LayerModule::core_attention);
  if (modules.without(usual).empty()) return;
  notes.push_back(concat("--recompute-modules ", to_string(modules),
                         " does nothing without --recompute-granularity selective"));
}

void note_overlap_of_tensor(Notes& notes, const MegatronFlags& flags) {
  if (!flags.overlaps_tensor) return;
  if (flags.tensor == 1) {
    notes.emplace_back("--tp-comm-overlap does nothing without tensor-parallel peers");
  } else if (!flags.sequence_parallel) {
    notes.emplace_back("--tp-comm-overlap does nothing without --sequence-parallel");
  }
}

/// What megatron/core/transformer/transformer_config.py asks for beside it.
void note_overlap_of_experts(Notes& notes, const MegatronFlags& flags, const Model& model) {
  constexpr std::string_view flag = "--overlap-moe-expert-parallel-comm";
  if (!flags.overlaps_experts) return;
  if (!has_peers_of_experts(flags, model)) {
    notes.push_back(concat(flag, " does nothing where experts have no peers"));
    return;
  }
  const auto refuse = [&](std::string_view beside) {
    notes.push_back(concat("Megatron-LM refuses ", flag, " ", beside));
  };
  if (flags.recompute == "full") refuse("beside full recomputation");
  if (recomputes_modules(flags) && named_modules(flags).has(LayerModule::experts))
    refuse("beside --recompute-modules moe");
  const bool is_interleaved = flags.layers_per_virtual_stage || !flags.layout.empty() ||
                              flags.virtual_stages.value_or(flags.virtual_size.value_or(1)) > 1;
  if (flags.pipeline > 1 && !is_interleaved) refuse("in pipelines that are not interleaved");
}

}  // namespace

bool recomputes_modules(const MegatronFlags& flags) {
  return flags.recompute == "selective" || flags.recomputes_experts;
}

bool recomputes_nothing_there(const MegatronFlags& flags, const Model& model) {
  if (flags.recomputes_experts || !model.transformer) return false;
  const LayerModules& modules = flags.recompute_modules;
  const bool is_said = !modules.empty() || !flags.strange_modules.empty();
  return is_said && modules.without(modules_of(model)) == modules;
}

void set_kernels(const MegatronFlags& flags, PlanQuestion& question) {
  PlanOptions& options = question.options;
  const Model& model = question.profile.model;
  options.dispatcher = said_once(dispatcher_of(flags, model), "--moe-token-dispatcher-type",
                                 options.dispatcher, "--dispatcher");
  options.graphs =
      said_once(graphs_of(flags), "--cuda-graph-impl", options.graphs, "--cuda-graphs");
  options.fused_loss = said_once(fused_loss_of(flags), "--cross-entropy-loss-fusion",
                                 options.fused_loss, "--fused-loss");
  const bool is_megatron = options.kernels.value_or(Framework::megatron) == Framework::megatron;
  if (is_megatron) {
    options.router_fusion = said_once(router_fusion_of(flags, model), "--moe-router-fusion",
                                      options.router_fusion, "--router-fusion");
    options.recompute_modules = said_once(recompute_modules_of(flags, model), "--recompute-modules",
                                          options.recompute_modules, "--recompute-modules");
    options.overlap =
        said_once(overlap_of(flags, model), overlap_flags(flags), options.overlap, "--overlap");
  }
  set_float8_recipe(flags, is_megatron, question);
}

std::vector<std::string> kernel_notes(const MegatronFlags& flags, Framework kernels,
                                      const Model& model) {
  Notes notes;
  if (flags.fuses_router && !has_experts(model))
    notes.emplace_back("--moe-router-fusion does nothing without experts");
  if (kernels == Framework::megatron) {
    note_modules(notes, flags, model);
    note_overlap_of_tensor(notes, flags);
    note_overlap_of_experts(notes, flags, model);
    return notes;
  }
  if (recomputes_modules(flags) && !named_modules(flags).empty())
    notes.emplace_back("layers with PyTorch's kernels have none of --recompute-modules");
  if (flags.fuses_router)
    notes.emplace_back("layers with PyTorch's kernels have no --moe-router-fusion");
  if (flags.overlaps_tensor || flags.overlaps_experts) {
    notes.push_back(concat("layers with PyTorch's kernels have no ", overlap_flags(flags)));
  }
  return notes;
}

}  // namespace stagecraft
