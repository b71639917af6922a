// The work and memory of one layer, independent of a device's speed.

#pragma once

#include "profiles/operations.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Figures of one layer for one microbatch on one of `tensor_parallel` devices. The bytes are those
/// of LayerCost; `weights` counts elements, `traffic` is what the forward pass reads and writes.
struct LayerWork {
  double flops_forward = 0;
  double flops_backward_input = 0;
  double flops_backward_weight = 0;
  std::int64_t weights = 0;
  std::int64_t expert_weights = 0;  ///< the experts' part of them
  Bytes input = 0;
  Bytes output = 0;
  Bytes saved = 0;    ///< with the output, which LayerCost counts apart
  Bytes rebuilt = 0;  ///< the part of it that is cheap to recompute: see `Kept::rebuilt`
  Bytes saved_for_weight = 0;
  Bytes workspace = 0;
};

/// Tokens that logits are wanted of where a model answers; 0: it trains.
std::int64_t last_tokens(const CostSetting& setting);

/// The same setting for its operations.
WorkSetting work_setting(const CostSetting& setting);

/// The estimate of a transformer's layer. Throws Error (input) if the tensor-parallel degree does
/// not divide the heads.
LayerWork transformer_work(const Transformer& transformer, const Layer& layer,
                           const CostSetting& setting);

}  // namespace stagecraft
