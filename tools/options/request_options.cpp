#include "tools/options/request_options.hpp"

#include <CLI/CLI.hpp>

#include "profiles/text.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {

namespace {

std::optional<std::int64_t> if_said(std::int64_t number) {
  return number > 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

void declare_requests(CLI::App& app, RequestOptions& options, const std::string& of,
                      bool has_plan) {
  constexpr std::int64_t most = 100'000'000;
  const auto add = [&](const char* name, std::int64_t& number, std::string_view what,
                       std::string_view usual) {
    in_thousands(
        app.add_option(name, number, concat(of, what, " (", has_plan ? "the plan's" : usual, ")")))
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, most));
  };
  add("--prompt-tokens", options.prompt, "tokens of each request's prompt, the same as --sequence",
      "the model's sequence less --output-tokens");
  add("--output-tokens", options.output, "tokens to generate for each request", "256");
  add("--chunk-tokens", options.chunk,
      "maximum number of prompt tokens computed in one pass, vLLM's --max-num-batched-tokens",
      "8192");
}

SaidOfRequests said_of_requests(const RequestOptions& options) {
  return {.prompt = if_said(options.prompt),
          .output = if_said(options.output),
          .chunk = if_said(options.chunk)};
}

void set_requests(const RequestOptions& options, LoadedPlan& loaded) {
  set_requests(said_of_requests(options), loaded.profile, loaded.plan, "--");
}

}  // namespace stagecraft
