// Utilisation: the fraction of its devices' peak compute that a plan uses.
//
//   MFU = 3 F samples/s / (the devices' peaks together)    Chowdhery et al. 2022 (PaLM)
//
// F are the FLOPs of matrix products in one sample's forward, with full attention even under a
// causal mask; a backward counts twice (Narayanan et al. 2021). Inference has no backward, and
// logits of last tokens only. Others count only the half of attention that a causal mask leaves
// (Dao 2023, FlashAttention-2, section 4.1; torchtitan), so there are two MFUs. HFU also counts
// recomputation. Peaks are dense, in the plan's precision.

#pragma once

#include <optional>

#include "planner/costs/predict.hpp"

namespace stagecraft {

struct Utilisation {
  double model = 0;     ///< MFU
  double causal = 0;    ///< MFU with half of causal attention; equals `model` without causal
                        ///< attention
  double hardware = 0;  ///< HFU: higher than MFU if stages recompute
  double peak = 0;      ///< FLOP/s of all devices that the plan uses
  bool operator==(const Utilisation&) const = default;
};

/// The utilisation; the model must be in the plan's order. Nothing if a layer's FLOPs or a device's
/// peak are unknown.
std::optional<Utilisation> utilisation_of(const Plan& plan, const Model& model,
                                          const Cluster& cluster, const Prediction& prediction);

}  // namespace stagecraft
