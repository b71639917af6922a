#include "tools/reports/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/costs/device_limits.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "tools/table.hpp"

namespace stagecraft {

using nlohmann::ordered_json;

namespace {

constexpr double tera = 1e12;

}  // namespace

ordered_json nanoseconds(const std::vector<Duration>& durations) {
  ordered_json list = ordered_json::array();
  for (const Duration duration : durations) list.push_back(duration.count());
  return list;
}

ordered_json timeline_json(const Timeline& timeline) {
  return {{"step_ns", step_time(timeline).count()},
          {"span_ns", nanoseconds(span_times(timeline))},
          {"busy_ns", nanoseconds(busy_times(timeline))},
          {"bubble", bubble(timeline)},
          {"span_bubble", span_bubble(timeline)},
          {"peak_in_flight", peak_in_flight(timeline, true)},
          {"peak_in_flight_weight", peak_in_flight(timeline, false)},
          {"sends_forward", messages_sent(timeline, Op::send_activation)},
          {"sends_backward", messages_sent(timeline, Op::send_gradient)}};
}

bool takes_memory(const Timeline& timeline) {
  const std::vector<MemoryPeak> peaks = memory_peaks(timeline);
  return std::any_of(peaks.begin(), peaks.end(),
                     [](const MemoryPeak& peak) { return peak.bytes > 0; });
}

void add_memory(ordered_json& result, const std::vector<MemoryPeak>& peaks) {
  ordered_json bytes = ordered_json::array();
  ordered_json memory = ordered_json::array();
  for (const MemoryPeak& peak : peaks) {
    bytes.push_back(peak.bytes);
    ordered_json by_category{{"time_ns", peak.time.count()}};
    for (std::size_t i = 0; i < memory_categories.size(); ++i) {
      by_category[concat(to_string(memory_categories[i]), "_bytes")] = peak.use[i];
    }
    memory.push_back(std::move(by_category));
  }
  result["peak_memory_bytes"] = std::move(bytes);
  result["memory"] = std::move(memory);
}

namespace {

/// For each device of the cluster that the plan uses, ascending, which of its program does its
/// work: peers have a device in common.
std::map<int, std::size_t> program_devices(const Plan& plan, const Compiled& compiled) {
  const std::vector<int>& stand_ins = compiled.stand_ins;
  const std::vector<int> leads = lead_devices(plan);
  std::map<int, std::size_t> places;
  for (const Stage& stage : plan.stages) {
    for (const auto& peers : stage.devices) {
      const auto lead = std::lower_bound(leads.begin(), leads.end(), peers.front());
      const auto place = static_cast<std::size_t>(lead - leads.begin());
      for (const int peer : peers)
        places[peer] = stand_ins.empty() ? place : static_cast<std::size_t>(stand_ins[place]);
    }
  }
  return places;
}

void rename(ordered_json& run, const char* field, const std::vector<int>& devices) {
  if (run.contains(field)) run[field] = devices.at(run[field].get<std::size_t>());
}

}  // namespace

void name_cluster_devices(ordered_json& result, const Plan& plan, const Compiled& compiled) {
  const std::map<int, std::size_t> places = program_devices(plan, compiled);
  for (const char* field :
       {"span_ns", "busy_ns", "peak_in_flight", "peak_in_flight_weight", "sends_forward",
        "sends_backward", "peak_memory_bytes", "memory", "waiting_for_memory_ns", "attribution"}) {
    if (!result.contains(field)) continue;
    ordered_json list = ordered_json::array();
    for (const auto& [device, place] : places) {
      list.push_back(result[field].at(place));
      if (list.back().is_object() && list.back().contains("device")) list.back()["device"] = device;
    }
    result[field] = std::move(list);
  }
  if (result.contains("critical_path")) {
    for (ordered_json& run : result["critical_path"]) {
      rename(run, "device", compiled.devices);
      rename(run, "peer", compiled.devices);
    }
  }
  result["devices"] = used_devices(plan);
}

std::string layer_names(const Model& model, LayerRange layers) {
  const auto name = [&](int layer) {
    return model.layers.at(static_cast<std::size_t>(layer)).name;
  };
  if (layers.size() <= 0) return "none";
  if (layers.size() == 1) return name(layers.first);
  return concat(name(layers.first), " .. ", name(layers.end - 1), " (", layers.size(), ")");
}

namespace {

/// Each replica's devices, peers joined: "0", "8-15", "0+4".
std::vector<std::string> replica_words(const Stage& stage) {
  std::vector<std::string> replicas;
  for (const auto& peers : stage.devices) {
    const bool run = peers.size() > 1 &&
                     peers.back() - peers.front() == static_cast<int>(peers.size()) - 1 &&
                     std::is_sorted(peers.begin(), peers.end());
    replicas.push_back(run ? fmt::format("{}-{}", peers.front(), peers.back())
                           : fmt::format("{}", fmt::join(peers, "+")));
  }
  return replicas;
}

/// Of the stages [first, last]: "0 1", "0-7 8-15", and of several stages, or more than a column has
/// room for, "0-7 .. 120-127".
std::string device_list(const Plan& plan, std::size_t first, std::size_t last) {
  const std::vector<std::string> replicas = replica_words(plan.stages[first]);
  std::string all = fmt::format("{}", fmt::join(replicas, " "));
  constexpr std::size_t widest = 15;
  if (first == last && all.size() <= widest) return all;
  return replicas.front() + " .. " + replica_words(plan.stages[last]).back();
}

/// The peak of a stage's fullest device, and what that may hold.
struct StagePeak {
  Bytes bytes = 0;
  std::optional<Bytes> limit;
};

/// Without limits the higher peak counts.
double used_part(const StagePeak& peak) {
  return static_cast<double>(peak.bytes) /
         static_cast<double>(std::max<Bytes>(peak.limit.value_or(INT64_MAX), 1));
}

StagePeak stage_peak(const std::vector<int>& leads, const Prediction& prediction,
                     const Stage& stage) {
  StagePeak fullest;
  for (const auto& replica : stage.devices) {
    const auto place = static_cast<std::size_t>(
        std::lower_bound(leads.begin(), leads.end(), replica.front()) - leads.begin());
    const StagePeak peak{.bytes = prediction.peaks.at(place).bytes,
                         .limit = limit_of(prediction, place)};
    if (used_part(peak) >= used_part(fullest)) fullest = peak;
  }
  return fullest;
}

/// "71.2 of 78GiB", or both with their units where these differ; without a limit "71.2GiB".
std::string peak_words(const StagePeak& peak) {
  std::string bytes = format_bytes(peak.bytes);
  if (!peak.limit) return bytes;
  const std::string limit = format_bytes(*peak.limit);
  const auto unit = [](const std::string& text) {
    return text.substr(text.find_first_not_of("0123456789."));
  };
  if (unit(bytes) == unit(limit)) bytes.resize(bytes.size() - unit(bytes).size());
  return bytes + " of " + limit;
}

/// At most so many columns of it: "Paralle…ayer.10".
std::string shortened(const std::string& name, std::size_t most, bool unicode) {
  if (name.size() <= most || columns(name) < name.size()) return name;
  const std::size_t behind = (most - 1) / 2, before = most - 1 - behind;
  return name.substr(0, before) + (unicode ? "…" : "~") + name.substr(name.size() - behind);
}

Model with_short_names(Model model, bool unicode) {
  constexpr std::size_t most = 15;
  for (Layer& layer : model.layers) layer.name = shortened(layer.name, most, unicode);
  return model;
}

Model with_numbers(Model model) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) model.layers[i].name = std::to_string(i);
  return model;
}

/// "1-31".
std::string run_words(std::size_t first, std::size_t last) {
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

/// Stages [first, last] that share a row: each by itself where there are at most so many, else
/// those one behind the other that are alike but for their place.
std::vector<std::pair<std::size_t, std::size_t>> runs_of_stages(const Plan& plan,
                                                                const Prediction& prediction,
                                                                std::size_t most) {
  const auto alike = [&](std::size_t a, std::size_t b) {
    const Stage &one = plan.stages[a], &other = plan.stages[b];
    const StagePrediction &its = prediction.stages.at(a), &others = prediction.stages.at(b);
    return one.layers.size() == other.layers.size() && its.forward == others.forward &&
           its.backward == others.backward && its.send == others.send &&
           one.devices.size() == other.devices.size() &&
           recompute_in_words(one) == recompute_in_words(other);
  };
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages.size() > most && !runs.empty() && alike(runs.back().first, s)) {
      runs.back().second = s;
    } else {
      runs.emplace_back(s, s);
    }
  }
  return runs;
}

/// Stages that recompute nothing have no column that says so, and inference has no backward.
std::string table_of_stages(const Plan& plan, const Model& model, const Prediction& prediction,
                            std::size_t most, bool unicode) {
  const bool repeats = std::ranges::any_of(
      plan.stages, [](const Stage& stage) { return recompute_in_words(stage) != "none"; });
  std::vector<std::string> headings{">stage",    "layers", "devices", ">forward",
                                    ">backward", ">send",  ">peak",   ">idle"};
  constexpr std::ptrdiff_t backward = 4;
  const bool trains = !serves(plan);
  if (repeats) headings.insert(headings.end() - 1, "recompute");
  if (!trains) headings.erase(headings.begin() + backward);
  Table table(headings);
  const std::vector<int> leads = lead_devices(plan);
  for (const auto& [first, last] : runs_of_stages(plan, prediction, most)) {
    const Stage& stage = plan.stages[first];
    const StagePrediction& figures = prediction.stages.at(first);
    StagePeak peak;
    double least_idle = figures.idle, most_idle = figures.idle;
    for (std::size_t s = first; s <= last; ++s) {
      const StagePeak its = stage_peak(leads, prediction, plan.stages[s]);
      if (used_part(its) >= used_part(peak)) peak = its;
      least_idle = std::min(least_idle, prediction.stages.at(s).idle);
      most_idle = std::max(most_idle, prediction.stages.at(s).idle);
    }
    const LayerRange layers{stage.layers.first, plan.stages[last].layers.end};
    const std::string idle = percent(most_idle);
    std::vector<std::string> cells{
        run_words(first, last),
        layer_names(model, layers),
        device_list(plan, first, last),
        format_duration(figures.forward),
        format_duration(figures.backward),
        figures.send.count() > 0 ? format_duration(figures.send) : "-",
        peak_words(peak),
        percent(least_idle) == idle ? idle : fmt::format("{:.1f}-{}", 100 * least_idle, idle)};
    if (repeats) cells.insert(cells.end() - 1, recompute_in_words(stage));
    if (!trains) cells.erase(cells.begin() + backward);
    table.row(std::move(cells));
  }
  return table.text(unicode);
}

std::size_t width(const std::string& table) {
  const std::size_t rule = table.find('\n') + 1;
  return columns(table.substr(rule, table.find('\n', rule) - rule));
}

}  // namespace

std::string plan_table(const Plan& plan, const Model& model, const Prediction& prediction,
                       TableRows rows, bool unicode) {
  constexpr std::size_t widest = 100, readable = 24;
  const std::size_t most = rows == TableRows::each ? plan.stages.size() : readable;
  std::string table;
  for (const Model& named : {model, with_short_names(model, unicode), with_numbers(model)}) {
    table = table_of_stages(plan, named, prediction, most, unicode);
    if (width(table) <= widest) break;
  }
  const bool joins = runs_of_stages(plan, prediction, most).size() < plan.stages.size();
  if (joins) table += "a row of several stages has their highest peak; -v has a row for each\n";
  return table;
}

std::string highest_peak(const Prediction& prediction) {
  StagePeak fullest;
  for (std::size_t device = 0; device < prediction.peaks.size(); ++device) {
    fullest = std::max(
        fullest, {.bytes = prediction.peaks[device].bytes, .limit = limit_of(prediction, device)},
        [](const StagePeak& a, const StagePeak& b) { return used_part(a) < used_part(b); });
  }
  return peak_words(fullest);
}

std::string tensor_degrees(const Plan& plan) {
  std::vector<int> degrees;
  for (const Stage& stage : plan.stages)
    degrees.push_back(tensor_degree(plan.parallelism, stage.devices.front().size()));
  const bool alike = std::equal(degrees.begin() + 1, degrees.end(), degrees.begin());
  return alike ? fmt::format("{}", degrees.front()) : fmt::format("{}", fmt::join(degrees, "-"));
}

std::string_view device_word(const Plan& plan, const Cluster& cluster) {
  const DeviceKind& kind = kind_of(cluster, used_devices(plan).front());
  return kind.generic || kind.name == "cpu" ? "device" : "GPU";
}

std::string words_of_costs(const Plan& plan, Provenance provenance) {
  std::vector<std::string> of;
  if (plan.kernels.framework == Framework::torch) of.emplace_back("PyTorch's kernels");
  if (plan.kernels.dispatcher == Dispatcher::deepep) of.emplace_back("DeepEP");
  if (plan.kernels.dispatcher == Dispatcher::hybridep) of.emplace_back("HybridEP");
  if (plan.kernels.graphs == CudaGraphs::layers) of.emplace_back("layers in CUDA graphs");
  if (plan.kernels.graphs == CudaGraphs::step) of.emplace_back("a step in a CUDA graph");
  if (plan.kernels.float8_recipe)
    of.push_back(fmt::format("fp8 scaled {}", to_string(*plan.kernels.float8_recipe)));
  if (plan.kernels.fused_loss == FusedLoss::native) of.emplace_back("a compiled loss");
  if (plan.kernels.fused_loss == FusedLoss::te) of.emplace_back("a fused loss");
  if (plan.kernels.router_fusion == RouterFusion::on) of.emplace_back("a fused router");
  if (plan.kernels.overlap.tensor && tensor_degree(plan) > 1)
    of.emplace_back("tensor messages overlapped");
  if (exchanges_beside(plan)) of.emplace_back("experts' messages overlapped");
  const std::string_view with = plan.kernels.framework == Framework::torch ? " of " : " with ";
  return fmt::format("{} costs{}{}", to_string(provenance), of.empty() ? "" : with,
                     fmt::join(of, ", "));
}

std::string prediction_sentence(const Plan& plan, const Cluster& cluster,
                                const Prediction& prediction) {
  std::string text = fmt::format("step {}, {} samples/s", format_duration(prediction.step),
                                 readable(prediction.samples_per_second));
  const double tokens = prediction.tokens_per_second;
  if (tokens > 0) text += fmt::format(", {} tokens/s", readable(tokens));
  const auto devices = static_cast<double>(used_devices(plan).size());
  if (tokens > 0 && devices > 1) {
    text +=
        fmt::format(" ({} tokens/s/{})", readable(tokens / devices), device_word(plan, cluster));
  }
  return text + fmt::format(", bubble {} ({})", percent(prediction.bubble),
                            words_of_costs(plan, prediction.provenance));
}

std::string utilisation_sentence(const Plan& plan, const Cluster& cluster,
                                 const std::optional<Utilisation>& utilisation) {
  if (!utilisation) return "";
  const bool repeats = utilisation->hardware > utilisation->model;
  const double peak = utilisation->peak / static_cast<double>(used_devices(plan).size()) / tera;
  return fmt::format(
      "{} TFLOP/s/{}, MFU {}{} of {} TFLOP/s, dense {}\n", readable(utilisation->model * peak),
      device_word(plan, cluster), percent(utilisation->model),
      repeats ? fmt::format(" (HFU {} with recomputation)", percent(utilisation->hardware)) : "",
      readable(peak), to_string(plan.precision));
}

std::string fit_sentence(const Plan& plan, const Prediction& prediction) {
  if (prediction.fits) return "";
  std::size_t fullest = 0;
  const auto excess = [&](std::size_t device) {
    const std::optional<Bytes> limit = limit_of(prediction, device);
    return limit ? prediction.peaks[device].bytes - *limit : Bytes{0};
  };
  for (std::size_t device = 1; device < prediction.peaks.size(); ++device) {
    if (excess(device) > excess(fullest)) fullest = device;
  }
  if (prediction.peaks.empty()) return "does not fit in memory\n";
  const Bytes limit = limit_of(prediction, fullest).value_or(0);
  return fmt::format("does not fit in memory: device {} needs {}\n", lead_devices(plan)[fullest],
                     needed_of(prediction.peaks[fullest].bytes, limit));
}

Duration shortest_step(const Prediction& prediction,
                       const std::optional<Utilisation>& utilisation) {
  if (!utilisation) return Duration{0};
  const double part = std::min(1.0, std::max(utilisation->hardware, utilisation->model));
  return Duration{std::llround(static_cast<double>(prediction.step.count()) * part)};
}

void add_rates(ordered_json& result, const Plan& plan, const Prediction& prediction,
               const std::optional<Utilisation>& utilisation) {
  const auto devices = static_cast<double>(used_devices(plan).size());
  if (prediction.tokens_per_second > 0)
    result["tokens_per_second_per_device"] = prediction.tokens_per_second / devices;
  if (utilisation) {
    result["tflops_per_second_per_device"] =
        utilisation->model * utilisation->peak / devices / tera;
  }
}

void add_utilisation(ordered_json& result, const std::optional<Utilisation>& utilisation) {
  if (!utilisation) return;
  result["mfu"] = utilisation->model;
  result["hfu"] = utilisation->hardware;
  result["peak_flops"] = utilisation->peak;
}

void add_memory_limits(ordered_json& result, const Plan& plan, const Prediction& prediction) {
  ordered_json limits = ordered_json::array();
  for (const std::optional<Bytes> limit : device_limits(plan, prediction)) {
    limits.push_back(limit ? ordered_json(*limit) : ordered_json());
  }
  result["memory_limit_bytes"] = std::move(limits);
}

std::string device_ranges(const std::vector<int>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t end = i + 1;
    while (end < devices.size() && devices[end] == devices[end - 1] + 1) ++end;
    text += concat(text.empty() ? "" : " ", devices[i]);
    if (end > i + 1) text += concat("-", devices[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace stagecraft
