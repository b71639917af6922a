// The requests that a plan for inference answers: what is said of them, and what is usual.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Tokens made for a request, and tokens of prompts that a pass computes at most, where nobody
/// says: the latter as vLLM's server has it on devices of 70 GiB and more (`get_batch_defaults` of
/// vllm/engine/arg_utils.py, 0.33.0).
inline constexpr std::int64_t usual_output_tokens = 256;
inline constexpr std::int64_t usual_chunk_tokens = 8'192;
/// Part of each device's memory that is used where nobody says, the rest being a margin for
/// fragments and what nobody counts: vLLM's `gpu_memory_utilization` (vllm/config/cache.py,
/// 0.33.0).
inline constexpr double usual_serving_memory = 0.92;

struct SaidOfRequests {
  std::optional<std::int64_t> prompt, output, chunk;  ///< tokens
  /// Of samples, whatever they are for: prompts are as long, or what positions leave of it. Where
  /// positions are rotary ones, which have no end of their own, it may be longer than they are.
  std::optional<std::int64_t> sequence;
  bool any() const { return prompt || output || chunk || sequence; }
  bool operator==(const SaidOfRequests&) const = default;
};

struct AskedRequests {
  std::int64_t prompt = 0;  ///< tokens
  Requests requests;
};
/// Of samples of so many tokens; tokens made for them are a quarter of the model's positions at
/// most.
AskedRequests usual_requests(const Model& model, std::int64_t sequence);

/// Whether requests of the model have prompts, and tokens made for them: it is a transformer whose
/// costs are estimated and whose tokens look at earlier ones.
bool answers_requests(const Profile& profile);

/// What is said, else what is usual, within the model's positions: of prompt and output what is not
/// said gives way. Throws Error (usage) where what is said does not fit in them, or where the
/// model answers no requests. `flag` comes before the names in errors: "--" or "--set ".
AskedRequests asked_requests(const SaidOfRequests& said, const Profile& profile,
                             const AskedRequests& usual, std::string_view flag);

/// Where a plan's requests are longer than the model was made for: a sentence that says so; else
/// empty.
std::string requests_beyond_positions(const Plan& plan, const Model& model);

/// The plan, which is for inference, with other requests; nothing else of it changes, but what was
/// predicted of it and how it was searched is forgotten. Throws Error (usage) as above, and where
/// the plan trains.
void set_requests(const SaidOfRequests& said, const Profile& profile, Plan& plan,
                  std::string_view flag);

}  // namespace stagecraft
