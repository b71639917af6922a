// The requests that a plan for inference serves: what the user set, and defaults.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Defaults: tokens generated for a request, and maximum prompt tokens of a pass. The latter is
/// that of vLLM's server on devices of at least 70 GiB (`get_batch_defaults` of
/// vllm/engine/arg_utils.py, 0.33.0).
inline constexpr std::int64_t usual_output_tokens = 256;
inline constexpr std::int64_t usual_chunk_tokens = 8'192;
/// Default fraction of each device's memory that is used; the rest is a margin for fragmentation
/// and uncounted memory: vLLM's `gpu_memory_utilization` (vllm/config/cache.py, 0.33.0).
inline constexpr double usual_serving_memory = 0.92;

struct SaidOfRequests {
  std::optional<std::int64_t> prompt, output, chunk;  ///< tokens
  /// Tokens of a sample: the length of prompts, or of what positions leave for them. With rotary
  /// positions, which have no end of their own, it may exceed the model's positions.
  std::optional<std::int64_t> sequence;
  bool any() const { return prompt || output || chunk || sequence; }
  bool operator==(const SaidOfRequests&) const = default;
};

struct AskedRequests {
  std::int64_t prompt = 0;  ///< tokens
  Requests requests;
};
/// Default requests for samples of `sequence` tokens; the generated tokens are at most a quarter of
/// the model's positions.
AskedRequests usual_requests(const Model& model, std::int64_t sequence);

/// Whether the model serves requests with prompts and generated tokens: a causal transformer whose
/// costs are estimated.
bool answers_requests(const Profile& profile);

/// The requests set by the user, completed by defaults, within the model's positions: of prompt and
/// output, the one not set is shortened. Throws Error (usage) if what was set does not fit in the
/// positions, or if the model serves no requests. `flag` precedes names in errors: "--" or "--set
/// ".
AskedRequests asked_requests(const SaidOfRequests& said, const Profile& profile,
                             const AskedRequests& usual, std::string_view flag);

/// A warning if a plan's requests are longer than the model was made for; else empty.
std::string requests_beyond_positions(const Plan& plan, const Model& model);

/// Changes the requests of a plan for inference, and clears its prediction and search figures.
/// Throws Error (usage) as above, and if the plan trains.
void set_requests(const SaidOfRequests& said, const Profile& profile, Plan& plan,
                  std::string_view flag);

}  // namespace stagecraft
