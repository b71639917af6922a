// The flags that say which requests a plan for inference answers, the same for every verb.

#pragma once

#include <cstdint>
#include <string>

#include "planner/interop/load_plan.hpp"
#include "planner/problem/asked_requests.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given, in tokens; 0: not said.
struct RequestOptions {
  std::int64_t prompt = 0, output = 0, chunk = 0;
};

/// --prompt-tokens, --output-tokens and --chunk-tokens; `of` begins their help, and says of which
/// plans they are. Where there is a plan, what is not said is the plan's.
void declare_requests(CLI::App& app, RequestOptions& options, const std::string& of, bool has_plan);

SaidOfRequests said_of_requests(const RequestOptions& options);

/// The plan with the requests that the flags say. Throws Error (usage) where it trains, or has no
/// positions for them.
void set_requests(const RequestOptions& options, LoadedPlan& loaded);

}  // namespace stagecraft
