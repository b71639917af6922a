#include "executor/training/clipping.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/values/packing.hpp"

namespace stagecraft {

namespace {

/// Whose squares: of a weight, at the stage that holds it, the shard and the peer's part.
using Part = std::tuple<std::string, int, std::size_t, int>;

/// In order, without what users of tied weights hold.
std::vector<double> squares_once(const std::map<Part, double>& squares) {
  std::vector<double> once;
  std::pair<std::string, int> owner;
  for (const auto& [part, square] : squares) {
    const auto& [name, stage, shard, peer] = part;
    if (owner.first != name) owner = {name, stage};
    if (owner.second == stage) once.push_back(square);
  }
  return once;
}

}  // namespace

double clip_factor(double clip, std::span<const double> squares) {
  if (clip == 0) return 1;
  double sum = 0;
  for (const double square : squares) sum += square;
  const double norm = std::sqrt(sum);
  return norm > clip ? clip / norm : 1;
}

Clipping::Clipping(const Training& training, const RankMap& ranks,
                   std::span<const std::unique_ptr<TrainedChunk>> chunks, Backend& backend,
                   Transport& transport)
    : training_(training),
      ranks_(ranks),
      chunks_(chunks),
      backend_(backend),
      transport_(transport) {}

/// Copies in other pipes and other replicas hold the same sums.
std::string Clipping::own_squares() const {
  Packer packer;
  const int peer = ranks_.peer_of(transport_.rank());
  for (const auto& chunk : chunks_) {
    if (!chunk) continue;
    const Chunk& place = chunk->place();
    const Shard& shard = chunk->shard();
    const int stages = stages_per_pipe(training_.schedule);
    if (shard.members == 1 && (place.replica != 0 || place.stage >= stages)) continue;
    std::vector<Tensor> gradients;
    std::vector<const Parameter*> weights;
    const std::vector<Parameter*> all = chunk->parameters();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Parameter* weight = all[i];
      if (chunk->is_twin(i) || (!weight->spec.shard && peer != 0)) continue;
      gradients.push_back(shard_of(weight->gradient, shard.place, shard.members));
      weights.push_back(weight);
    }
    const std::vector<double> squares = backend_.sums_of_squares(gradients);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      packer.put_bytes(weights[i]->spec.name);
      packer.put(place.stage % stages);
      packer.put(shard.place);
      packer.put(peer);
      packer.put(squares[i]);
    }
  }
  return packer.take();
}

void Clipping::learn_norm() {
  if (factor_) return;
  std::map<Part, double> squares;
  const std::vector<std::string> said = transport_.gather(own_squares());
  for (const std::string& of_rank : said) {
    Unpacker unpacker(of_rank);
    while (!unpacker.done()) {
      std::string name(unpacker.get_bytes());
      const int stage = unpacker.get<int>();
      const auto shard = unpacker.get<std::size_t>();
      const int peer = unpacker.get<int>();
      squares.try_emplace({std::move(name), stage, shard, peer}, unpacker.get<double>());
    }
  }
  const std::vector<double> once = squares_once(squares);
  Packer told;
  told.put(clip_factor(training_.options.clip_norm, once));
  told.put(std::isfinite(std::accumulate(once.begin(), once.end(), 0.0)));
  const std::string heard = transport_.broadcast(told.take());
  Unpacker unpacker(heard);
  factor_ = unpacker.get<double>();
  is_finite_ = unpacker.get<bool>();
}

}  // namespace stagecraft
