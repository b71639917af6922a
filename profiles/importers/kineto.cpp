// What PyTorch's profiler exports (export_chrome_trace), as far as steps and layers go:
//
//   {"schemaVersion": 1, "deviceProperties": [{"name": "NVIDIA H100 80GB HBM3", …}],
//    "traceEvents": [
//      {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "tid": 9, "ts": 1, "dur":
//      9},
//      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", …, "args": {"Sequence number": 12}},
//      {"ph": "X", "cat": "cuda_runtime", …, "args": {"correlation": 77}},
//      {"ph": "X", "cat": "kernel", …, "args": {"correlation": 77}}]}
//
// Times are microseconds. A kernel belongs to the range in which the host launched it (their
// events share a correlation); in backward the host is inside a function of autograd with the
// sequence number of the forward operation that it differentiates, and so in that one's range.
// Streams are not looked at: kernels that run beside others count in full. Without kernels, ranges
// take the host's time, which says something only of what the host computed itself: on a device
// ranges end long before their kernels do.

#include "profiles/importers/kineto.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "profiles/device_names.hpp"
#include "profiles/error.hpp"
#include "profiles/gzip.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/figures.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

constexpr double micro = 1e-6;
constexpr int most_processes = 10'000'000;
/// Nanoseconds: sums of such times stay within 64 bits.
constexpr std::int64_t latest_epoch = 4'000'000'000'000'000'000, most_offset = latest_epoch / 4;
constexpr std::string_view step_range = "ProfilerStep#";
constexpr std::string_view differentiates = "autograd::engine::evaluate_function";

/// Ranges that PyTorch itself records.
constexpr std::array<std::string_view, 8> of_framework{
    "Optimizer.", "nccl:",      "gloo:",      "DistributedDataParallel",
    "FSDP::",     "DataLoader", "enumerate(", "## "};

std::int64_t number_in(const Json& event, std::string_view name) {
  if (!event.contains("args") || !event["args"].is_object() || !event["args"].contains(name))
    return -1;
  const Json number = event["args"][name];
  return number.is_integer() ? number.integer() : -1;
}

KinetoSpan read_span(const Json& event) {
  const Json thread = event["tid"];
  return {.name = event["name"].string(),
          .thread = thread.raw().dump(),
          .start = read_figure(event["ts"], 1e18),
          .length = event.contains("dur") ? read_figure(event["dur"], 1e15) : 0};
}

void take_range(KinetoEvents& events, const KinetoSpan& span) {
  if (span.name.starts_with(step_range)) {
    events.steps.push_back(span.length * micro);
    return;
  }
  for (const std::string_view known : of_framework) {
    if (span.name.starts_with(known)) return;
  }
  events.ranges.push_back(span);
}

void take(KinetoEvents& events, const Json& event) {
  if (!event.is_object() || !event.contains("ph") || !event.contains("cat")) return;
  if (!event["ph"].is_string() || event["ph"].string() != "X") return;
  const std::string category = event["cat"].string();
  KinetoSpan span;
  if (category == "user_annotation") {
    take_range(events, read_span(event));
  } else if (category == "cpu_op") {
    span = read_span(event);
    span.number = number_in(event, "Sequence number");
    if (span.number >= 0) events.operations.push_back(std::move(span));
  } else if (category == "cuda_runtime" || category == "cuda_driver") {
    span = read_span(event);
    span.number = number_in(event, "correlation");
    events.launches.push_back(std::move(span));
  } else if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
    span = read_span(event);
    span.number = number_in(event, "correlation");
    events.kernels.push_back(std::move(span));
  }
}

[[noreturn]] void refuse_without_kernels(const std::string& what, const std::string& file,
                                         const std::vector<std::string>& other_help = {}) {
  std::vector<std::string> help{
      "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] (of HIP, too)"};
  help.insert(help.end(), other_help.begin(), other_help.end());
  throw Error(ErrorKind::input,
              concat(what, ", but the trace has no kernels: how long they took is not in it"),
              SourcePlace{file, 0, 0}, help);
}

/// Calls such as cudaDeviceSynchronize are in traces of a host's own work, too.
bool launches_kernels(const KinetoEvents& events) {
  return std::ranges::any_of(events.launches, [](const KinetoSpan& call) {
    return call.name.find("Launch") != std::string::npos;
  });
}

/// Spans of each thread, by their start; of equal ones the longer first.
class Nest {
 public:
  explicit Nest(std::vector<KinetoSpan> spans) {
    std::ranges::stable_sort(spans, [](const KinetoSpan& a, const KinetoSpan& b) {
      return a.start != b.start ? a.start < b.start : a.length > b.length;
    });
    for (KinetoSpan& span : spans) threads_[span.thread].push_back(std::move(span));
  }

  /// The innermost span at that moment, or nullptr. Calls of a thread come in any order.
  const KinetoSpan* at(const std::string& thread, double moment) const {
    const auto found = threads_.find(thread);
    if (found == threads_.end()) return nullptr;
    const std::vector<KinetoSpan>& spans = found->second;
    auto next = std::ranges::upper_bound(spans, moment, {}, &KinetoSpan::start);
    // Ends are not in order: what encloses the moment may have begun long before.
    for (int looked = 0; next != spans.begin() && looked < most_looked_at; ++looked) {
      --next;
      if (next->end() >= moment) return &*next;
    }
    return nullptr;
  }

 private:
  static constexpr int most_looked_at = 4096;
  std::map<std::string, std::vector<KinetoSpan>> threads_;
};

/// Ranges without another range in them.
std::vector<KinetoSpan> innermost(std::vector<KinetoSpan> ranges) {
  std::ranges::stable_sort(ranges, [](const KinetoSpan& a, const KinetoSpan& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    return a.start != b.start ? a.start < b.start : a.length > b.length;
  });
  std::vector<KinetoSpan> kept;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const bool encloses = i + 1 < ranges.size() && ranges[i + 1].thread == ranges[i].thread &&
                          ranges[i + 1].end() <= ranges[i].end() &&
                          ranges[i + 1].start < ranges[i].end();
    if (!encloses) kept.push_back(ranges[i]);
  }
  std::ranges::stable_sort(kept, {}, &KinetoSpan::start);
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i].number = static_cast<std::int64_t>(i);
  return kept;
}

/// Seconds of each occurrence of a range, forward and backward.
struct Times {
  std::vector<double> forward, backward;
};

class Attribution {
 public:
  explicit Attribution(const KinetoEvents& events)
      : ranges_(innermost(events.ranges)), nest_(ranges_) {
    times_ = {std::vector<double>(ranges_.size()), std::vector<double>(ranges_.size())};
    std::vector<KinetoSpan> backward;
    for (const KinetoSpan& operation : events.operations) {
      if (operation.name.starts_with(differentiates)) {
        backward.push_back(operation);
      } else if (const KinetoSpan* range = nest_.at(operation.thread, operation.start)) {
        ranges_of_.emplace(operation.number, range->number);
      }
    }
    if (events.kernels.empty()) {
      host_times(backward);
    } else {
      kernel_times(events, Nest(std::move(backward)));
    }
  }

  const std::vector<KinetoSpan>& ranges() const { return ranges_; }
  const Times& times() const { return times_; }

 private:
  void add_backward(const KinetoSpan& function, double length) {
    const auto range = ranges_of_.find(function.number);
    if (range != ranges_of_.end())
      times_.backward[static_cast<std::size_t>(range->second)] += length * micro;
  }

  void host_times(const std::vector<KinetoSpan>& backward) {
    for (std::size_t i = 0; i < ranges_.size(); ++i) times_.forward[i] = ranges_[i].length * micro;
    for (const KinetoSpan& function : backward) add_backward(function, function.length);
  }

  void kernel_times(const KinetoEvents& events, const Nest& backward) {
    std::map<std::int64_t, const KinetoSpan*> launches;
    for (const KinetoSpan& launch : events.launches) launches[launch.number] = &launch;
    for (const KinetoSpan& kernel : events.kernels) {
      const auto launch = launches.find(kernel.number);
      if (kernel.number < 0 || launch == launches.end()) continue;
      const std::string& thread = launch->second->thread;
      const double start = launch->second->start;
      if (const KinetoSpan* function = backward.at(thread, start)) {
        add_backward(*function, kernel.length);
      } else if (const KinetoSpan* range = nest_.at(thread, start)) {
        times_.forward[static_cast<std::size_t>(range->number)] += kernel.length * micro;
      }
    }
  }

  std::vector<KinetoSpan> ranges_;
  Nest nest_;
  std::map<std::int64_t, std::int64_t> ranges_of_;  ///< by sequence number
  Times times_;
};

double at_tenth(std::vector<double> values, std::size_t tenths) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, values.size() * tenths / 10)];
}

std::vector<KinetoLayer> layers_of(const Attribution& attribution) {
  std::vector<std::string> order;
  std::map<std::string, Times> layers;
  for (std::size_t i = 0; i < attribution.ranges().size(); ++i) {
    const std::string& name = attribution.ranges()[i].name;
    if (!layers.contains(name)) order.push_back(name);
    layers[name].forward.push_back(attribution.times().forward[i]);
    layers[name].backward.push_back(attribution.times().backward[i]);
  }
  std::vector<KinetoLayer> result;
  for (const std::string& name : order) {
    const Times& times = layers[name];
    std::vector<double> both = times.forward;
    for (std::size_t i = 0; i < both.size(); ++i) both[i] += times.backward[i];
    if (at_tenth(both, 5) <= 0) continue;
    result.push_back({.name = name,
                      .count = static_cast<int>(both.size()),
                      .forward = at_tenth(times.forward, 5),
                      .backward = at_tenth(times.backward, 5),
                      .spread = (at_tenth(both, 9) - at_tenth(both, 1)) / at_tenth(both, 5)});
  }
  return result;
}

LayerCost cost_of(const KinetoLayer& layer) {
  LayerCost cost{.provenance = Provenance::measured};
  cost.forward = from_seconds(layer.forward);
  const Duration backward = from_seconds(layer.backward);
  cost.backward_input = backward / 2;
  cost.backward_weight = backward - cost.backward_input;
  cost.spread = layer.spread;
  return cost;
}

}  // namespace

bool looks_like_kineto(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{' &&
         content.find("\"traceEvents\"") != std::string_view::npos &&
         (content.find("\"user_annotation\"") != std::string_view::npos ||
          content.find("\"cpu_op\"") != std::string_view::npos);
}

KinetoEvents read_kineto_events(std::string_view content, const std::string& file) {
  const Json json = Json::parse(std::string(content), file);
  KinetoEvents events;
  for (const Json& event : json["traceEvents"].elements()) take(events, event);
  if (json.contains("deviceProperties") && !json["deviceProperties"].elements().empty()) {
    const Json device = json["deviceProperties"][0];
    if (device.contains("name")) events.device = device["name"].string();
  }
  if (events.kernels.empty() && launches_kernels(events))
    refuse_without_kernels("the process launched kernels", file);
  if (json.contains("baseTimeNanoseconds"))
    events.epoch = json["baseTimeNanoseconds"].integer(0, latest_epoch);
  if (json.contains("stagecraft")) {
    const Json own = json["stagecraft"];
    events.epoch -= own["clock_offset_ns"].integer(-most_offset, most_offset);
    if (own.contains("busy")) events.busy = own["busy"].string();
  }
  if (json.contains("distributedInfo")) {
    const Json distributed = json["distributedInfo"];
    if (distributed.contains("world_size"))
      events.processes = distributed["world_size"].small_integer(1, most_processes);
    if (distributed.contains("rank"))
      events.rank = distributed["rank"].small_integer(0, most_processes - 1);
  }
  return events;
}

KinetoTrace read_kineto(std::string_view content, const std::string& file) {
  const KinetoEvents events = read_kineto_events(content, file);
  return {.device = events.device,
          .has_kernels = !events.kernels.empty(),
          .steps = events.steps,
          .layers = layers_of(Attribution(events))};
}

Profile import_kineto(std::string_view content, const std::string& file) {
  const KinetoTrace trace = read_kineto(content, file);
  if (!trace.has_kernels && !trace.device.empty()) {
    refuse_without_kernels("the process had " + trace.device, file,
                           {"of layers that the host computed, record with CUDA_VISIBLE_DEVICES= "
                            "so that the trace names no device"});
  }
  if (trace.layers.empty()) {
    throw Error(
        ErrorKind::input, "no range of the trace names a layer that computes anything",
        SourcePlace{file, 0, 0},
        {"wrap each layer in torch.profiler.record_function(\"block.3\") and record again"});
  }
  Profile profile;
  profile.model.name = stem_of_content(file);
  const std::string kind = device_kind_named(trace.device);
  ProfileEntry entry{.setting = {.device = kind.empty() ? "generic" : kind}, .layers = {}};
  for (const KinetoLayer& layer : trace.layers) {
    const int number = static_cast<int>(profile.model.layers.size());
    if (number > 0) profile.model.edges.push_back({number - 1, number});
    profile.model.layers.push_back({.name = layer.name});
    entry.layers.push_back(cost_of(layer));
  }
  profile.entries.push_back(std::move(entry));
  profile.source = concat("PyTorch profiler's trace", trace.device.empty() ? "" : " of ",
                          trace.device, "; backward split evenly between input and weights");
  profile.warnings.push_back(
      "a trace has no bytes: outputs, weights and activations count as none, and a microbatch is "
      "what went through the layers at once");
  return profile;
}

}  // namespace stagecraft
