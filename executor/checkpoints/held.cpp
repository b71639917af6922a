#include "executor/checkpoints/held.hpp"

#include <set>
#include <string>
#include <utility>

namespace stagecraft {

namespace {

/// The chunk's part of what all copies of its layers hold.
Shard share_of(const Training& training, const Program& program, int chunk,
               const TrainedChunk& trained) {
  if (trained.shard().members > 1) return trained.shard();
  const int stages = stages_per_pipe(training.schedule);
  Shard share{.place = 0, .members = 0};
  for (std::size_t i = 0; i < program.chunks.size(); ++i) {
    if (program.chunks[i].stage % stages != trained.place().stage % stages) continue;
    if (static_cast<int>(i) < chunk) ++share.place;
    ++share.members;
  }
  return share;
}

/// Weights that stages before this one hold, too.
std::set<std::string> written_before(const Training& training, int stage) {
  std::set<std::string> names;
  for (int before = 0; before < stage % stages_per_pipe(training.schedule); ++before) {
    for (const auto& layer : training.layers_of(before)) {
      for (const ParameterSpec& spec : layer->parameters()) names.insert(spec.name);
    }
  }
  return names;
}

}  // namespace

std::vector<HeldState> state_of(const Training& training, const Program& program, int chunk,
                                int peer, TrainedChunk& trained) {
  const Shard share = share_of(training, program, chunk, trained);
  // Of a sharded optimizer, moments and master are the share already.
  const bool is_sharded = trained.shard().members > 1;
  const auto own = [&](const Tensor& whole) { return shard_of(whole, share.place, share.members); };
  std::set<std::string> written = written_before(training, trained.place().stage);
  std::vector<HeldState> held;
  const std::vector<Parameter*> parameters = trained.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& spec = parameters[i]->spec;
    if (!written.insert(spec.name).second || (peer > 0 && !spec.shard)) continue;
    const std::int64_t elements = elements_of(spec.shape);
    const WeightSlice slice{spec.shard, part_begin(elements, share.place, share.members),
                            part_begin(elements, share.place + 1, share.members)};
    if (slice.elements() == 0) continue;
    const OptimizerState& state = trained.optimizer()[i];
    const auto part = [&](const Tensor& own_shard) {
      return is_sharded ? own_shard : own(own_shard);
    };
    const Tensor& weight = parameters[i]->weight;
    const int updates = trained.updates_of(i);
    const auto hold = [&](StateKind kind, const Tensor& values) {
      held.push_back({&spec, kind, slice, values, updates});
    };
    hold(StateKind::weight, state.master.empty() ? own(weight) : part(state.master));
    if (state.first_moment.empty()) continue;
    hold(StateKind::first_moment, part(state.first_moment));
    hold(StateKind::second_moment, part(state.second_moment));
  }
  return held;
}

}  // namespace stagecraft
