// The additional flags of inference, and the output of a simulation's request figures.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "simulator/analyses/serving.hpp"
#include "tools/options/scenario.hpp"

namespace stagecraft {

/// Flags as they were given.
struct ServingOptions {
  std::optional<int> prompt;
  std::string cache_per_token;
};

/// --prompt --cache-per-token.
void declare_serving(CLI::App& app, ServingOptions& options);

/// The figures; nothing for schedules that train. Throws Error (usage) for flags that do not apply.
std::optional<Serving> serving_of(const ServingOptions& options, const ScheduleSetting& setting,
                                  const Timeline& timeline);

/// {mean_ns, p50_ns, p95_ns, p99_ns}.
nlohmann::ordered_json summary_json(const Summary& summary);
/// inference {first_token, between_tokens, latency, requests_per_second, tokens_per_second,
/// peak_cache_bytes[]}.
void add_serving(nlohmann::ordered_json& result, const std::optional<Serving>& served);
/// The figures in two lines; empty without.
std::string serving_text(const std::optional<Serving>& served);

}  // namespace stagecraft
