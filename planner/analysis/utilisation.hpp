// How much of what its devices can compute a plan makes use of.
//
//   MFU = 3 F samples/s / (the devices' peaks together)    Chowdhery et al. 2022 (PaLM)
//
// F are the products of one sample's forward, attention in full though its mask be causal, and a
// backward counts twice (Narayanan et al. 2021); inference has none, and logits of last tokens
// alone. Others count only the half of attention that a
// causal mask leaves (Dao 2023, FlashAttention-2, section 4.1; torchtitan): there are two MFUs. HFU
// counts what is done again, too. Peaks are dense ones in the plan's precision.

#pragma once

#include <optional>

#include "planner/costs/predict.hpp"

namespace stagecraft {

struct Utilisation {
  double model = 0;     ///< MFU
  double causal = 0;    ///< MFU with half of causal attention; the same without any
  double hardware = 0;  ///< HFU: more than MFU where stages recompute
  double peak = 0;      ///< FLOP/s of all devices that the plan uses
  bool operator==(const Utilisation&) const = default;
};

/// Of a model in the plan's order. Nothing where a layer's FLOPs or a device's peak are not known.
std::optional<Utilisation> utilisation_of(const Plan& plan, const Model& model,
                                          const Cluster& cluster, const Prediction& prediction);

}  // namespace stagecraft
