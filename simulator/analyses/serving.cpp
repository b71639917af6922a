#include "simulator/analyses/serving.hpp"

#include <algorithm>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

Bytes product(Bytes tokens, Bytes bytes) {
  Bytes result = 0;
  if (__builtin_mul_overflow(tokens, bytes, &result)) fail("inference: the cache is too large");
  return result;
}

bool is_forward(const Span& span) {
  return span.lane == Lane::compute && span.instruction.op == Op::forward;
}

/// When each pass has left the last stage, by microbatch.
std::vector<Duration> ends_of_passes(const Timeline& timeline, const ServingShape& shape) {
  const auto passes =
      static_cast<std::size_t>(shape.requests) * (static_cast<std::size_t>(shape.decode_steps) + 1);
  std::vector<Duration> ends(passes, Duration{-1});
  for (const Span& span : timeline.spans) {
    const auto pass = static_cast<std::size_t>(span.instruction.microbatch);
    if (is_forward(span) && span.instruction.stage == timeline.stages - 1 && pass < passes) {
      ends[pass] = span.end;
    }
  }
  if (std::find(ends.begin(), ends.end(), Duration{-1}) != ends.end()) {
    fail_usage("inference: the timeline has not all of ", passes, " passes");
  }
  return ends;
}

/// The most that a device's requests keep at once.
std::vector<Bytes> peaks_of_cache(const Timeline& timeline, const ServingShape& shape) {
  using Change = std::pair<Duration, Bytes>;  // what is given back comes first
  std::vector<std::vector<Change>> changes(static_cast<std::size_t>(timeline.devices));
  const Bytes all = product(Bytes{shape.prompt} + shape.decode_steps, shape.cache_per_token);
  product(all, shape.requests);  // fits
  for (const Span& span : timeline.spans) {
    if (!is_forward(span)) continue;
    const int pass = span.instruction.microbatch / shape.requests;
    auto& device = changes[static_cast<std::size_t>(span.device)];
    device.emplace_back(span.start, shape.cache_per_token * (pass == 0 ? shape.prompt : 1));
    if (pass == shape.decode_steps) device.emplace_back(span.end, -all);
  }
  std::vector<Bytes> peaks;
  for (auto& device : changes) {
    std::sort(device.begin(), device.end());
    Bytes kept = 0, most = 0;
    for (const auto& [time, bytes] : device) most = std::max(most, kept += bytes);
    peaks.push_back(most);
  }
  return peaks;
}

}  // namespace

Serving serving(const Timeline& timeline, const ServingShape& shape) {
  if (shape.requests < 1 || shape.decode_steps < 0 || shape.prompt < 0 || shape.cache_per_token < 0)
    fail_usage("inference: requests, decode steps, prompts and their memory are not negative");
  require_whole(timeline, "what requests wait for");
  const std::vector<Duration> ends = ends_of_passes(timeline, shape);
  const auto requests = static_cast<std::size_t>(shape.requests);
  std::vector<Duration> first(ends.begin(), ends.begin() + shape.requests);
  std::vector<Duration> last(ends.end() - shape.requests, ends.end());
  std::vector<Duration> between;
  for (std::size_t i = requests; i < ends.size(); ++i) {
    between.push_back(ends[i] - ends[i - requests]);
  }
  const double time = seconds(*std::max_element(ends.begin(), ends.end()));
  const auto rate = [&](std::size_t count) {
    return time > 0 ? static_cast<double>(count) / time : 0;
  };
  return {.first_token = summary(std::move(first)),
          .between_tokens = summary(std::move(between)),
          .latency = summary(std::move(last)),
          .requests_per_second = rate(requests),
          .tokens_per_second = rate(ends.size()),
          .peak_cache = peaks_of_cache(timeline, shape)};
}

}  // namespace stagecraft
