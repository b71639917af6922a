// The flags for the requests of a plan for inference, with the same meaning for every verb.

#pragma once

#include <cstdint>
#include <string>

#include "planner/interop/load_plan.hpp"
#include "planner/problem/asked_requests.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given, in tokens; 0: not given.
struct RequestOptions {
  std::int64_t prompt = 0, output = 0, chunk = 0;
};

/// --prompt-tokens, --output-tokens and --chunk-tokens; `of` begins their help, and says for which
/// plans. For a given plan, the defaults are the plan's values.
void declare_requests(CLI::App& app, RequestOptions& options, const std::string& of, bool has_plan);

SaidOfRequests said_of_requests(const RequestOptions& options);

/// Sets the plan's requests by the flags. Throws Error (usage) if the plan trains, or if the
/// model's positions do not suffice.
void set_requests(const RequestOptions& options, LoadedPlan& loaded);

}  // namespace stagecraft
