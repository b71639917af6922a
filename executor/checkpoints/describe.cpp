#include "executor/checkpoints/describe.hpp"

#include <map>
#include <span>
#include <string>

#include "executor/checkpoints/manifest.hpp"
#include "executor/weights/weight_shard.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

std::map<std::string, std::vector<std::int64_t>> shapes_of(const Training& training) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& layer : training.layers) {
    for (const ParameterSpec& spec : layer->parameters()) shapes[spec.name] = whole_shape(spec);
  }
  return shapes;
}

std::string hash_of(const Training& training) {
  std::vector<WholeShape> shapes;
  for (const auto& [name, shape] : shapes_of(training)) shapes.push_back({name, shape});
  return hash_of(std::move(shapes));
}

std::string hash_of(const std::vector<std::int32_t>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return content_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string hash_of(const Dataset& data) {
  return content_hash(hash_of(data.tokens) + hash_of(data.labels));
}

/// In what the checkpoint's weights differ from the training's.
std::string difference(const Checkpoint& checkpoint, const Training& training) {
  const auto shapes = shapes_of(training);
  for (const StoredState& state : checkpoint.states) {
    const auto found = shapes.find(state.name);
    if (found == shapes.end()) return concat("has a weight ", state.name);
    if (found->second == state.shape) continue;
    return concat("has a ", state.name, " of shape ", to_text(state.shape), " instead of ",
                  to_text(found->second));
  }
  return "has fewer weights";
}

/// Every weight has a state of each kind it needs, in the precision of sums.
void require_states(const Checkpoint& checkpoint, const Training& training) {
  std::vector<StateKind> kinds{StateKind::weight};
  if (checkpoint.optimizer == OptimizerKind::adamw) {
    kinds.push_back(StateKind::first_moment);
    kinds.push_back(StateKind::second_moment);
  }
  std::map<std::pair<std::string, StateKind>, const StoredState*> states;
  for (const StoredState& state : checkpoint.states) states[{state.name, state.kind}] = &state;
  for (const auto& [name, shape] : shapes_of(training)) {
    for (const StateKind kind : kinds) {
      const auto found = states.find({name, kind});
      if (found == states.end()) {
        fail(checkpoint.folder.string(), ": has no ", to_string(kind), " of ", name);
      }
      if (found->second->precision == training.sums()) continue;
      fail(checkpoint.folder.string(), ": holds ", to_string(found->second->precision),
           ", but the plan trains in ", to_string(training.sums()));
    }
  }
}

}  // namespace

Checkpoint describe(const Training& training) {
  const RunOptions& options = training.options;
  return {.model = training.model.name,
          .shapes = hash_of(training),
          .plan = content_hash(write_plan(training.plan)),
          .weights = training.schedule.weights,
          .seed = options.seed,
          .data_source = training.dataset.source,
          .data = hash_of(training.dataset),
          .optimizer = training.plan.optimizer.kind,
          .adamw = options.adamw,
          .sgd = options.sgd};
}

TrainingPosition position_after(const Training& training, int steps) {
  const Schedule& schedule = training.schedule;
  const int updates =
      schedule.weights == WeightPolicy::flush ? 1 : schedule.microbatches / schedule.update_every;
  return {.steps = training.start().steps + steps,
          .samples = training.start().samples + steps * training.plan.batch.global,
          .updates = training.start().updates + steps * updates};
}

void require_resumable(const Checkpoint& checkpoint, const Training& training) {
  const Checkpoint own = describe(training);
  const auto refuse = [&](const auto&... parts) {
    fail(checkpoint.folder.string(), ": ", parts...);
  };
  if (checkpoint.shapes != own.shapes) {
    refuse("is a checkpoint of ", checkpoint.model, ", which ", difference(checkpoint, training),
           "; the plan trains ", own.model);
  }
  if (checkpoint.optimizer != own.optimizer) {
    refuse("holds the state of ", to_string(checkpoint.optimizer), ", but the plan trains with ",
           to_string(own.optimizer));
  }
  require_states(checkpoint, training);
  if (checkpoint.seed != own.seed) {
    refuse("was trained with the seed ", checkpoint.seed, ", not ", own.seed,
           "; resume with --seed ", checkpoint.seed);
  }
  if (checkpoint.data != own.data) {
    refuse("was trained on other data (", checkpoint.data_source, ") than ", own.data_source,
           "; name those with --data, or begin a new run with --weights");
  }
}

}  // namespace stagecraft
