// How launch scripts cut a list of layers into stages: by count, by weight, or leaving the rest to
// one stage. Nothing here looks at times.

#pragma once

#include <optional>
#include <stop_token>
#include <vector>

#include "profiles/model.hpp"

namespace stagecraft {

/// Boundaries: part i holds the items [bounds[i], bounds[i + 1]). DeepSpeed's `partition_uniform`:
/// the remainder goes to the first parts, one item each; fewer items than parts leave empty parts
/// at the end.
std::vector<int> partition_uniform(int items, int parts);

/// DeepSpeed's `partition_balanced` of today: a dynamic program for the least difference between
/// the heaviest and the lightest part, of equal ones the last found. It keeps one state per prefix,
/// so it may miss the least. Fewer items than parts are partitioned uniformly. Weights are not
/// negative. Empty if a stop is requested.
std::vector<int> partition_balanced(const std::vector<double>& weights, int parts,
                                    const std::stop_token& stop = {});

/// Galvatron's `pp_division_even`: every stage has floor(items / parts), and the last one the rest.
std::vector<int> partition_rest_last(int items, int parts);

/// How Megatron-LM shares transformer layers out.
struct MegatronSplit {
  bool account_for_embedding = false;  ///< the embedding counts as a layer of the first stage
  bool account_for_loss = false;       ///< the head and the loss as one of the last
  std::optional<int> first;            ///< layers of the first stage, said by hand
  std::optional<int> last;
  bool operator==(const MegatronSplit&) const = default;
};

/// Transformer layers per stage, or nothing where Megatron-LM refuses because they do not divide.
std::optional<std::vector<int>> megatron_layers(int layers, int stages, const MegatronSplit& split);

/// Parameters of each layer as DeepSpeed counts them: it builds each by itself, so that a
/// TiedLayerSpec counts what it shares, too.
std::vector<double> deepspeed_parameters(const Model& model);

}  // namespace stagecraft
