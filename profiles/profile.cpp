#include "profiles/profile.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>

#include "profiles/error.hpp"
#include "profiles/model_graph.hpp"

namespace stagecraft {

namespace {

void check_cost(const std::string& place, const LayerCost& cost) {
  const std::array times{cost.forward, cost.backward_input, cost.backward_weight,
                         cost.split_overhead, cost.update};
  const std::array sizes{cost.saved,        cost.saved_for_weight, cost.output,
                         cost.output_freed, cost.parameters,       cost.expert_parameters,
                         cost.gradients,    cost.optimizer,        cost.workspace};
  if (std::ranges::any_of(times, [](Duration time) { return time < Duration{0}; })) {
    fail(place, ": a time is negative");
  }
  if (std::ranges::any_of(sizes, [](Bytes size) { return size < 0; })) {
    fail(place, ": a size is negative");
  }
  if (cost.backward() < Duration{0}) {
    fail(place, ": its backward takes ", format_duration(cost.split_overhead),
         " longer in two parts than in one; expected no more than the ",
         format_duration(cost.backward_input + cost.backward_weight), " of both parts");
  }
  if (cost.selective) {
    const SelectiveCost& selective = *cost.selective;
    if (selective.again < Duration{0} || selective.again > cost.forward) {
      fail(place, ": selective recomputation takes ", format_duration(selective.again),
           "; expected a part of the forward's ", format_duration(cost.forward));
    }
    if (selective.saved < 0 || selective.saved > cost.saved) {
      fail(place, ": with selective recomputation it saves ", format_bytes(selective.saved),
           "; expected a part of the ", format_bytes(cost.saved), " it saves without");
    }
  }
  if (cost.output_freed > cost.output) {
    fail(place, ": of its output of ", format_bytes(cost.output), ", ",
         format_bytes(cost.output_freed), " are said to be freed");
  }
  if (cost.expert_parameters > cost.parameters) {
    fail(place, ": of its ", format_bytes(cost.parameters), " of parameters, ",
         format_bytes(cost.expert_parameters), " are said to be experts'");
  }
  // Far above anything real, and low enough that sums over thousands of layers stay within 64 bits.
  constexpr std::int64_t most = 1'000'000'000'000'000;
  if (std::ranges::any_of(times, [](Duration time) { return time.count() > most; })) {
    fail(place, ": a time is above ", format_duration(Duration(most)));
  }
  if (std::ranges::any_of(sizes, [](Bytes size) { return size > most; })) {
    fail(place, ": a size is above ", format_bytes(most));
  }
  if (!std::isfinite(cost.spread) || cost.spread < 0)
    fail(place, ": the spread is negative or not finite");
}

void check_ranges(const std::string& place, const Model& model, const ProfileEntry& entry) {
  if (entry.ranges.empty()) return;
  if (entry.ranges.size() != entry.layers.size()) {
    fail(place, ": expected the ranges of ", entry.layers.size(), " layers' times, found ",
         entry.ranges.size());
  }
  for (std::size_t layer = 0; layer < entry.ranges.size(); ++layer) {
    const MeasuredRanges& ranges = entry.ranges[layer];
    for (const TimeRange& range :
         {ranges.forward, ranges.backward_input, ranges.backward_weight, ranges.update}) {
      if (range.p10 >= Duration{0} && range.p10 <= range.p90) continue;
      fail(place, ": layer \"", model.layers[layer].name, "\": a tenth of its times is below ",
           format_duration(range.p10), ", and a tenth above ", format_duration(range.p90),
           "; expected the second to be no less than the first, and neither to be negative");
    }
  }
}

void check_setting(const std::string& place, const CostSetting& setting) {
  if (setting.device.empty()) fail(place, ": the device kind is missing");
  if (setting.microbatch < 1)
    fail(place, ": a microbatch has at least one sample, found ", setting.microbatch);
  if (setting.sequence < 0) fail(place, ": the sequence length is negative");
  if (setting.tensor_parallel < 1) {
    fail(place, ": a tensor-parallel degree is at least 1, found ", setting.tensor_parallel);
  }
}

/// Equal but for the device.
bool same_work(const CostSetting& a, const CostSetting& b) {
  return a.microbatch == b.microbatch && a.sequence == b.sequence &&
         a.tensor_parallel == b.tensor_parallel && a.precision == b.precision &&
         a.parallelism == b.parallelism;
}

bool is_known(const Model& model) {
  return std::ranges::none_of(model.layers,
                              [](const Layer& layer) { return layer.kind == LayerKind::opaque; });
}

std::string settings_of(const Profile& profile) {
  if (profile.entries.empty()) return "none";
  std::string text;
  for (const ProfileEntry& entry : profile.entries) {
    text += (text.empty() ? "" : "; ") + to_string(entry.setting);
  }
  return text;
}

}  // namespace

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured: return "measured";
    case Provenance::fitted: return "fitted";
    case Provenance::datasheet: return "datasheet";
  }
  return "";
}

std::string to_string(const CostSetting& setting) {
  std::string text = concat(setting.device, ", microbatch ", setting.microbatch);
  if (setting.sequence != 0) text += concat(", sequence ", setting.sequence);
  if (setting.tensor_parallel != 1) text += concat(", tensor-parallel ", setting.tensor_parallel);
  const Parallelism& parallelism = setting.parallelism;
  if (parallelism.sequence) text += ", sequence-parallel";
  if (parallelism.context != 1) text += concat(", context-parallel ", parallelism.context);
  if (parallelism.expert != 1) text += concat(", expert-parallel ", parallelism.expert);
  if (parallelism.expert_tensor != 0) {
    text += concat(", ", parallelism.expert_tensor, " to an expert");
  }
  return text + concat(", ", to_string(setting.precision));
}

LayerCost recomputed(LayerCost cost, Recomputed what) {
  const auto rebuilds = [&](Bytes kept, Duration again) {
    cost.workspace += std::max<Bytes>(cost.saved - kept, 0);
    cost.saved = kept;
    cost.backward_input += again;
  };
  switch (what) {
    case Recomputed::none: break;
    case Recomputed::selective:
      if (cost.selective) rebuilds(cost.selective->saved, cost.selective->again);
      break;
    case Recomputed::full:
    case Recomputed::with_next: rebuilds(0, cost.forward); break;
  }
  return cost;
}

Profile reordered(Profile profile, const std::vector<int>& order) {
  profile.model = reordered(std::move(profile.model), order);
  for (ProfileEntry& entry : profile.entries) {
    std::vector<LayerCost> layers;
    for (const int layer : order) layers.push_back(entry.layers[static_cast<std::size_t>(layer)]);
    entry.layers = std::move(layers);
    std::vector<MeasuredRanges> ranges;
    for (const int layer : order) {
      if (!entry.ranges.empty()) ranges.push_back(entry.ranges[static_cast<std::size_t>(layer)]);
    }
    entry.ranges = std::move(ranges);
  }
  return profile;
}

void validate(const Profile& profile) {
  validate(profile.model);
  for (const ProfileEntry& entry : profile.entries) {
    const std::string place =
        concat("profile of ", profile.model.name, " (", to_string(entry.setting), ")");
    check_setting(place, entry.setting);
    if (entry.layers.size() != profile.model.layers.size()) {
      fail(place, ": expected costs of ", profile.model.layers.size(), " layers, found ",
           entry.layers.size());
    }
    for (std::size_t layer = 0; layer < entry.layers.size(); ++layer) {
      check_cost(concat(place, ": layer \"", profile.model.layers[layer].name, "\""),
                 entry.layers[layer]);
    }
    check_ranges(place, profile.model, entry);
  }
}

std::string cluster_expression(const OwnDevices& devices) {
  return concat(devices.count, "xgeneric@", exact_bandwidth(devices.bandwidth));
}

const ProfileEntry* find_entry(const Profile& profile, const CostSetting& setting) {
  const ProfileEntry* of_any_device = nullptr;
  for (const ProfileEntry& entry : profile.entries) {
    if (!same_work(entry.setting, setting)) continue;
    if (entry.setting.device == setting.device) return &entry;
    if (of_any_device == nullptr) of_any_device = &entry;
  }
  return setting.device == "generic" ? of_any_device : nullptr;
}

std::vector<LayerCost> layer_costs(const Profile& profile, const DeviceKind& device,
                                   const CostSetting& setting) {
  CostSetting wanted = setting;
  wanted.device = device.generic ? "generic" : device.name;
  if (wanted.sequence == 0) wanted.sequence = profile.model.sequence;
  if (const ProfileEntry* entry = find_entry(profile, wanted)) return entry->layers;
  if (is_known(profile.model) && !device.generic) {
    return estimate_costs(profile.model, device, wanted);
  }
  std::vector<std::string> help;
  if (!device.generic && !profile.entries.empty()) {
    help.push_back("the device \"generic\" runs these times as they stand");
  }
  throw Error(
      ErrorKind::input,
      concat("no costs of ", profile.model.name, " for ", to_string(wanted),
             device.generic ? ", and a generic device has no datasheet to estimate them from"
                            : ", and its layers are not of a kind that can be estimated",
             "; the profile holds: ", settings_of(profile)),
      {}, std::move(help));
}

std::vector<Bytes> crossing_bytes(const Model& model, const std::vector<LayerCost>& costs) {
  assert(costs.size() == model.layers.size());
  // An output crosses all cuts from behind its layer up to its last reader.
  std::vector<int> last_reader(costs.size());
  for (const Edge& edge : model.edges) {
    int& last = last_reader[static_cast<std::size_t>(edge.from)];
    last = std::max(last, edge.to);
  }
  std::vector<Bytes> bytes(costs.size() + 1);
  for (std::size_t layer = 0; layer < costs.size(); ++layer) {
    const auto last = static_cast<std::size_t>(last_reader[layer]);
    if (last <= layer) continue;
    bytes[layer + 1] += costs[layer].output;
    bytes[last + 1] -= costs[layer].output;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

}  // namespace stagecraft
