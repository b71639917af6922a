#include "executor/training/gradient_sums.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <utility>

namespace stagecraft {

namespace {

/// Weights that both stages hold, by name.
std::set<std::string> common_names(std::span<const std::unique_ptr<TrainableLayer>> one,
                                   std::span<const std::unique_ptr<TrainableLayer>> other) {
  const auto names = [](auto layers) {
    std::set<std::string> all;
    for (const auto& layer : layers) {
      for (const ParameterSpec& spec : layer->parameters()) all.insert(spec.name);
    }
    return all;
  };
  std::set<std::string> common;
  std::ranges::set_intersection(names(one), names(other), std::inserter(common, common.end()));
  return common;
}

}  // namespace

GradientSums::GradientSums(const Training& training, const Program& program, const RankMap& ranks,
                           std::span<const std::unique_ptr<TrainedChunk>> chunks, Backend& backend,
                           Transport& transport)
    : training_(training),
      program_(program),
      ranks_(ranks),
      chunks_(chunks),
      backend_(backend),
      transport_(transport) {
  if (program.trains) find_local_ties();
}

void GradientSums::find_local_ties() {
  std::map<std::pair<int, std::string>, LocalTie> ties;
  for (const auto& chunk : chunks_) {
    if (!chunk) continue;
    const int pipe = chunk->place().stage / stages_per_pipe(training_.schedule);
    for (Parameter* copy : chunk->parameters()) {
      LocalTie& tie = ties[{pipe, copy->spec.name}];
      tie.copies.push_back(copy);
      tie.chunks.insert(chunk.get());
    }
  }
  for (auto& [name, tie] : ties) {
    if (tie.copies.size() > 1) ties_.push_back(std::move(tie));
  }
}

void GradientSums::begin_step() {
  for (LocalTie& tie : ties_) tie.version = 0;
}

void GradientSums::carry_out(const Work& work) {
  switch (work.instruction.op) {
    case Op::reduce_gradient:
      backend_.settle(chunk_of(work).gradients());
      return transport_.all_reduce(group_of(work), backend_, chunk_of(work).gradients());
    case Op::reduce_scatter: return reduce_scatter(work);
    case Op::reduce_tied: return reduce_tied(work);
    case Op::gather_parameters: return gather(work);
    default: assert(false);  // the interpreter asks for no other
  }
}

void GradientSums::reduce_scatter(const Work& work) {
  for (Parameter* parameter : chunk_of(work).parameters()) {
    backend_.settle(parameter->gradient);
    transport_.reduce_scatter(group_of(work), backend_, parameter->gradient);
  }
}

/// The shards of a new version, each from who made it.
void GradientSums::gather(const Work& work) {
  TrainedChunk& chunk = chunk_of(work);
  WeightVersions::Weights& weights = chunk.weights(work.weight_version);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!chunk.is_twin(i)) transport_.all_gather(group_of(work), backend_, weights[i]);
  }
}

void GradientSums::reduce_tied(const Work& work) {
  const Group& group = program_.groups[static_cast<std::size_t>(*work.group)];
  const auto layers_of = [&](int chunk) {
    return training_.layers_of(program_.chunks[static_cast<std::size_t>(chunk)].stage);
  };
  TrainedChunk& chunk = chunk_of(work);
  for (const std::string& name :
       common_names(layers_of(group.chunks.front()), layers_of(group.chunks.back()))) {
    Tensor& gradient = chunk.find(name).front()->gradient;
    keep_own_part(chunk, gradient);
    backend_.settle(gradient);
    transport_.all_reduce(group_of(work), backend_, gradient);
  }
}

/// By now each replica of a stage has the stage's sum, so only the first one's counts, or each its
/// own shard of it: the others add zeros, which change no sum.
void GradientSums::keep_own_part(const TrainedChunk& chunk, Tensor& gradient) {
  const Shard& shard = chunk.shard();
  if (shard.members == 1) {
    if (chunk.place().replica != 0) backend_.zero(gradient);
    return;
  }
  for (std::size_t i = 0; i < shard.members; ++i) {
    Tensor part = shard_of(gradient, i, shard.members);
    if (i != shard.place && part.elements() > 0) backend_.zero(part);
  }
}

/// The first one's gradient plus the others', and all whose step is their own get the sum.
void GradientSums::add_local_ties(const TrainedChunk& chunk, int version) {
  for (LocalTie& tie : ties_) {
    if (!tie.chunks.contains(&chunk) || tie.version == version) continue;
    tie.version = version;
    Tensor& sum = tie.copies.front()->gradient;
    for (std::size_t i = 1; i < tie.copies.size(); ++i) backend_.add(tie.copies[i]->gradient, sum);
    for (std::size_t i = 1; i < tie.copies.size(); ++i) {
      if (tie.copies[i]->weight.storage == tie.copies.front()->weight.storage) continue;
      backend_.copy(sum, tie.copies[i]->gradient);
    }
  }
}

}  // namespace stagecraft
