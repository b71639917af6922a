// Constraints on plans, of which each strategy supports some.

#pragma once

#include <array>
#include <string_view>

#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Bit set of constraints that a strategy obeys.
namespace wish {
inline constexpr unsigned fix = 1, least_layers = 2, most_stages = 4, straight = 8, exclude = 16,
                          recompute = 32, tensor_parallel = 64, parallelism = 128, target = 256,
                          pins = 512, all = 1023;
}

struct Wish {
  unsigned bit;
  std::string_view flag;
  bool (*is_asked)(const Problem& problem);
};

bool asks_for_fixed_stages(const Problem& problem);
bool asks_for_least_layers(const Problem& problem);
bool asks_for_most_stages(const Problem& problem);
bool asks_for_straight(const Problem& problem);
bool asks_for_excluded(const Problem& problem);
/// Whether the problem requires that all layers recompute, or none.
bool asks_for_recompute(const Problem& problem);
/// Whether the problem has context parallelism, or experts over several devices.
bool asks_for_parallelism(const Problem& problem);
/// Whether the problem pins the numbers of pipeline devices or replicas, or the samples of a
/// replica.
bool asks_for_pins(const Problem& problem);
/// Whether the problem asks for plans that a certain framework runs.
bool asks_for_target(const Problem& problem);
/// Whether the problem excludes plans without tensor parallelism.
bool asks_for_tensor_parallel(const Problem& problem);

inline constexpr std::array wishes{
    Wish{wish::fix, "--fix", asks_for_fixed_stages},
    Wish{wish::least_layers, "--min-layers-per-stage", asks_for_least_layers},
    Wish{wish::most_stages, "--max-stages", asks_for_most_stages},
    Wish{wish::straight, "--straight", asks_for_straight},
    Wish{wish::exclude, "--exclude", asks_for_excluded},
    Wish{wish::recompute, "--recompute", asks_for_recompute},
    Wish{wish::tensor_parallel, "--tensor-parallel without 1", asks_for_tensor_parallel},
    Wish{wish::parallelism, "--context-parallel or --expert-parallel", asks_for_parallelism},
    Wish{wish::target, "--for", asks_for_target},
    Wish{wish::pins, "--pp, --dp or --mbs", asks_for_pins},
};

}  // namespace stagecraft
