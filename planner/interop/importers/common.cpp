#include "planner/interop/importers/common.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "planner/problem/defaults.hpp"
#include "profiles/importers/figures.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft {

SourcePlace place_of(const Json& json) {
  try {
    json.fail("");
  } catch (const Error& error) {
    return error.place().value_or(SourcePlace{json.file(), 0, 0});
  }
}

const KeyMeaning* meaning_of(std::span<const KeyMeaning> rows, std::string_view path) {
  const KeyMeaning* best = nullptr;
  for (const KeyMeaning& row : rows) {
    const bool is_family = row.name.ends_with('*');
    const std::string_view begin = row.name.substr(0, row.name.size() - 1);
    const bool fits = is_family
                          ? path.starts_with(begin) ||
                                (begin.ends_with('.') && path == begin.substr(0, begin.size() - 1))
                          : path == row.name;
    if (fits && (best == nullptr || row.name.size() > best->name.size())) best = &row;
  }
  return best;
}

void list_text(ImportedPlan& imported, const KeyMeaning* row, bool as_modelled, ReadText text) {
  if (row == nullptr) {
    imported.unknown.push_back(std::move(text));
  } else if (row->meaning == Meaning::not_modelled && !as_modelled) {
    imported.not_modelled.push_back(std::move(text));
  } else {
    imported.understood.push_back(std::move(text));
  }
}

void require_mostly_known(const ImportedPlan& imported, std::string_view system) {
  const std::size_t known = imported.understood.size() + imported.not_modelled.size();
  if (imported.unknown.size() < 2 || imported.unknown.size() < known) return;
  throw Error(
      ErrorKind::input,
      concat(imported.unknown.size(), " of the ", known + imported.unknown.size(),
             " settings are none of ", system, "'s, such as ", imported.unknown.front().text),
      imported.unknown.front().place);
}

Plan begin_plan(const PlanQuestion& question, Framework usual_kernels) {
  const PlanOptions& options = question.options;
  Plan plan;
  plan.model = question.model_name;
  plan.cluster = question.cluster_name;
  plan.profile = question.profile_hash;
  plan.precision =
      options.precision.value_or(usual_precision(question.profile, kinds_in_use(question.cluster)));
  if (options.kernels) require_estimated_kernels(question.profile);
  if (options.dispatcher) require_experts(question.profile);
  if (options.graphs || options.float8_recipe || options.fused_loss || options.router_fusion ||
      options.overlap || options.recompute_modules)
    require_estimated_kernels(question.profile);
  if (estimates_kernels(question.profile)) {
    plan.kernels = {.framework = options.kernels.value_or(usual_kernels),
                    .dispatcher = options.dispatcher.value_or(Dispatcher::alltoall),
                    .graphs = options.graphs.value_or(CudaGraphs::none),
                    .float8_recipe = options.float8_recipe,
                    .fused_loss = options.fused_loss.value_or(FusedLoss::none),
                    .router_fusion = options.router_fusion.value_or(RouterFusion::off),
                    .overlap = options.overlap.value_or(MessageOverlap{}),
                    .again = options.recompute_modules.value_or(LayerModules{})};
  }
  require_fused_loss(plan.kernels);
  require_router_fusion(plan.kernels, question.profile);
  plan.optimizer.kind = options.optimizer.value_or(OptimizerKind::adamw);
  plan.optimizer.sharding = options.sharding.value_or(Sharding::none);
  plan.optimizer.gradient_bucket = options.gradient_bucket.value_or(0);
  return plan;
}

Batch batch_of(const PlanQuestion& question, std::optional<std::int64_t> global,
               std::optional<std::int64_t> microbatch, int replicas) {
  if (!global) fail_usage("the file does not say how many samples a step takes; add --batch N");
  const std::int64_t size =
      microbatch.value_or(std::min(usual_microbatch(question.profile) * replicas, *global));
  if (size < 1 || *global % size != 0 || *global / size > INT32_MAX) {
    fail("a batch of ", *global, " samples is no whole number of microbatches of ", size);
  }
  return {.global = *global,
          .microbatch = size,
          .microbatches = static_cast<int>(*global / size),
          .sequence = question.options.sequence.value_or(usual_sequence(question.profile))};
}

Degrees degrees_of(std::string_view system, int devices, int pipeline, int tensor, int context) {
  const std::int64_t model = std::int64_t{pipeline} * tensor * context;
  if (devices % model == 0 && devices >= model) {
    return {.pipeline = pipeline,
            .data = static_cast<int>(devices / model),
            .tensor = tensor,
            .context = context};
  }
  const std::string contexts =
      context > 1 ? concat(" x ", context, " context-parallel") : std::string();
  fail_with_help(
      ErrorKind::input,
      concat(system, " needs a multiple of ", model, " devices for ", pipeline,
             pipeline == 1 ? " pipeline rank of " : " pipeline ranks of ", tensor,
             " tensor-parallel", contexts, tensor * context == 1 ? " peer" : " peers", ", not ",
             devices),
      {concat("--cluster with so many devices, or, where the file counts them by a variable that "
              "only the cluster knows, --set NAME=VALUE")});
}

std::vector<int> ranks_of(const Degrees& degrees, int pipeline_device) {
  const int count = degrees.data * degrees.peers();
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), pipeline_device * count);
  return ranks;
}

std::vector<int> layers_between(int first, int end) {
  std::vector<int> layers(static_cast<std::size_t>(std::max(end - first, 0)));
  std::iota(layers.begin(), layers.end(), first);
  return layers;
}

namespace {

/// Few mean to have them.
std::optional<std::string> note_on_empty_stages(const Plan& plan) {
  std::vector<int> empty;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].layers.size() == 0) empty.push_back(static_cast<int>(s));
  }
  if (empty.empty()) return {};
  if (empty.size() == 1)
    return concat("stage ", empty.front(), " has no layers, and only passes on what it gets");
  return fmt::format("stages {} have no layers, and only pass on what they get",
                     fmt::join(empty, ", "));
}

}  // namespace

void take_turns(Plan& plan) {
  const std::vector<int> replicas = replicas_of_stages(plan);
  plan.replicas = ReplicaPolicy::round_robin;
  const bool several = std::any_of(replicas.begin(), replicas.end(), [](int r) { return r > 1; });
  if (several && (plan.schedule.name == "1f1b" || plan.schedule.name == "pipedream"))
    plan.schedule.warm_up = round_robin_warm_up(replicas, plan.batch.microbatches);
}

void set_schedule(Plan& plan, std::string_view name, int virtual_stages) {
  const ScheduleKind& kind = find_schedule(name);
  plan.schedule.name = kind.name;
  plan.schedule.virtual_stages = virtual_stages;
  plan.weights = kind.weights;
}

std::string_view schedule_name(const PlanQuestion& question, std::string_view usual) {
  return question.options.schedule.empty() ? usual : std::string_view(question.options.schedule);
}

namespace {

void require_modules_again(const PlanOptions& options, const Plan& plan) {
  if (!options.recompute_modules) return;
  if (!recomputes_selectively(plan)) {
    fail_usage("--recompute-modules: no stage of the file recomputes selectively, so there are no ",
               "modules to do again");
  }
}

}  // namespace

ImportedPlan import_plan(const PlanImporter& importer, std::string_view content,
                         const std::string& file, const PlanQuestion& question) {
  if (!question.variables.empty() && !importer.has_variables) {
    fail_usage("--set gives the variables of launch scripts their values; files of ", importer.name,
               " have none");
  }
  return at_file(file, [&] {
    ImportedPlan imported = importer.import(content, file, question);
    const Profile profile = in_plan_order(question.profile, imported.plan);
    validate(imported.plan, profile.model, question.cluster);
    require_modules_again(question.options, imported.plan);
    if (const std::string why = overlap_of_nothing(imported.plan); !why.empty()) fail_usage(why);
    if (auto note = note_on_empty_stages(imported.plan)) imported.notes.push_back(*std::move(note));
    return imported;
  });
}

}  // namespace stagecraft
