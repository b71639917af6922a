// vLLM serves: one stage per rank, embedding on the first, head on the last
// (VLLM_PP_LAYER_PARTITION).

#include "planner/targets/rules.hpp"

namespace stagecraft {

namespace {

constexpr std::array<std::string_view, 1> schedules_of_vllm{"inference"};
constexpr std::array nothing_again{RecomputeEverywhere::none};

}  // namespace

const Target vllm_target{.name = "vllm",
                         .version = "0.33.0",
                         .system = "vLLM",
                         .format = "vllm",
                         .schedules = schedules_of_vllm,
                         .recompute = nothing_again,
                         .keeps_ends = true,
                         .predicts_last = true,
                         .only_transformers = true,
                         .trains = false,
                         .context_parallel = false,
                         .expert_parallel = false,
                         .sequence_parallel = false,
                         .sharding = whole_states,
                         .precision = usual_precisions};

}  // namespace stagecraft
