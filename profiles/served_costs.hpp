// Costs of layers for serving requests. A prompt is processed in chunks, as servers do (Agrawal et
// al. 2023, "SARATHI"; vLLM's --max-num-batched-tokens), so that the memory of a pass is that of a
// chunk, for prompts of any length:
//
//   prompt   ▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓ ▓▓▓▓▓▓▓▓ ▓▓▓        each ▓▓▓ a pass of at most `chunk` tokens
//
// Only the last token of each request has logits.

#pragma once

#include <vector>

#include "profiles/cluster.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Whether a prompt can be read in parts: each token looks at earlier ones alone.
bool reads_in_chunks(const Model& model);

/// Tokens of a microbatch, and those of them that a pass computes.
struct PassTokens {
  std::int64_t all = 1;
  std::int64_t in_pass = 1;
  /// Of bytes of all, rounded up.
  Bytes part_of(Bytes bytes) const {
    return bytes / all * in_pass + (bytes % all * in_pass + all - 1) / all;
  }
  bool operator==(const PassTokens&) const = default;
};
/// All where the model is trained or does not read in chunks. Each context-parallel peer has as
/// many of a pass as the others.
PassTokens tokens_of_pass(const Model& model, const CostSetting& setting);

/// `costs_with_messages` of a setting that answers (`CostSetting::chunk`) where its costs are
/// estimates: of a model that reads in chunks, times are those of all chunks, one after the other,
/// each of which looks at the keys of those before it; what is kept and worked in is that of a
/// chunk, what is handed on that of all. Of a model that does not, chunks are ignored. What was
/// measured, and training, is as `costs_with_messages` has it.
std::vector<LayerCost> served_costs(const Profile& profile, const Cluster& cluster,
                                    const DeviceKind& device, const CostSetting& setting);

}  // namespace stagecraft
