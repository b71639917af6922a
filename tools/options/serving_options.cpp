#include "tools/options/applicable.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/serving_options.hpp"
#include "tools/table.hpp"

namespace stagecraft {

using nlohmann::ordered_json;

void declare_serving(CLI::App& app, ServingOptions& options) {
  app.add_option("--prompt", options.prompt, "With inference: tokens per prompt (1)")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000'000))
      ->group(of_schedules);
  app.add_option(
         "--cache-per-token", options.cache_per_token,
         "With inference: size of a token's keys and values, for one microbatch on a device (0B)")
      ->type_name("SIZE")
      ->group(of_schedules);
}

std::optional<Serving> serving_of(const ServingOptions& options, const ScheduleSetting& setting,
                                  const Timeline& timeline) {
  if (setting.kind == nullptr || setting.kind->generate != inference) {
    if (options.prompt || !options.cache_per_token.empty()) {
      fail_usage("--prompt and --cache-per-token are for --schedule inference, not ",
                 name_of(setting));
    }
    return {};
  }
  if (options.prompt && options.cache_per_token.empty()) {
    fail_usage(
        "--prompt goes with --cache-per-token SIZE: a prompt's tokens take part in no time, ",
        "only in what is cached");
  }
  const Bytes cache = options.cache_per_token.empty()
                          ? 0
                          : read_bytes("--cache-per-token", options.cache_per_token);
  return serving(timeline, {.requests = setting.shape.microbatches,
                            .decode_steps = setting.shape.decode_steps,
                            .prompt = options.prompt.value_or(1),
                            .cache_per_token = cache});
}

ordered_json summary_json(const Summary& summary) {
  return {{"mean_ns", summary.mean.count()},
          {"p50_ns", summary.p50.count()},
          {"p95_ns", summary.p95.count()},
          {"p99_ns", summary.p99.count()}};
}

void add_serving(ordered_json& result, const std::optional<Serving>& served) {
  if (!served) return;
  result["inference"] = {{"first_token", summary_json(served->first_token)},
                         {"between_tokens", summary_json(served->between_tokens)},
                         {"latency", summary_json(served->latency)},
                         {"requests_per_second", served->requests_per_second},
                         {"tokens_per_second", served->tokens_per_second},
                         {"peak_cache_bytes", served->peak_cache}};
}

std::string serving_text(const std::optional<Serving>& served) {
  if (!served) return "";
  const auto times = [](const Summary& summary) {
    return fmt::format("p50 {}   p95 {}   p99 {}", format_duration(summary.p50),
                       format_duration(summary.p95), format_duration(summary.p99));
  };
  std::string text = fmt::format("latency {}   first token {}\n", times(served->latency),
                                 times(served->first_token));
  text += fmt::format("{} requests/s   {} tokens/s", readable(served->requests_per_second),
                      readable(served->tokens_per_second));
  if (served->between_tokens.most > Duration{0}) {
    text += fmt::format("   a token every {}", format_duration(served->between_tokens.mean));
  }
  std::vector<std::string> caches;
  for (const Bytes bytes : served->peak_cache) caches.push_back(format_bytes(bytes));
  const bool known = std::any_of(served->peak_cache.begin(), served->peak_cache.end(),
                                 [](Bytes bytes) { return bytes > 0; });
  return text + (known ? fmt::format("   cache {}\n", fmt::join(caches, " ")) : "\n");
}

}  // namespace stagecraft
