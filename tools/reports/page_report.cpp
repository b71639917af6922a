#include "tools/reports/page_report.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/analysis/advice.hpp"
#include "planner/analysis/risk.hpp"
#include "planner/analysis/utilisation.hpp"
#include "planner/costs/compile.hpp"
#include "planner/costs/device_limits.hpp"
#include "planner/costs/program_rows.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/analyses/attribution.hpp"
#include "simulator/analyses/comparison.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"
#include "tools/build_info.hpp"
#include "tools/reports/page_alternatives.hpp"
#include "tools/reports/page_program.hpp"
#include "tools/reports/page_sources.hpp"
#include "tools/reports/page_what_if.hpp"
#include "tools/reports/results.hpp"
#include "tools/reports/serving_report.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

/// A plan, its program and its prediction.
struct Told {
  const LoadedPlan& loaded;
  Compiled compiled;
  Prediction prediction;
};

Told told(const LoadedPlan& loaded, bool folds) {
  Compiled compiled = compile_for_page(loaded, folds);
  Prediction prediction = predict(loaded.plan, compiled);
  return {loaded, std::move(compiled), std::move(prediction)};
}

// --- Figures ------------------------------------------------------------------------------------

/// Samples of a microbatch that one replica works on.
std::int64_t samples_of_replica(const Plan& plan) {
  const auto replicas = static_cast<std::int64_t>(plan.stages.front().devices.size());
  const bool splits = plan.replicas == ReplicaPolicy::split;
  return splits ? std::max<std::int64_t>(plan.batch.microbatch / replicas, 1)
                : plan.batch.microbatch;
}

ordered_json interval_json(const Told& plan) {
  const Spreads spreads =
      spreads_of(Risk{.level = risk_level("p90")}, plan.loaded.profile, plan.compiled);
  const StepInterval interval = interval_of(plan.compiled, spreads, risk_level("p90"));
  return {{"p10_ns", interval.p10.count()}, {"p90_ns", interval.p90.count()}};
}

ordered_json figures_json(const Told& plan) {
  const Prediction& prediction = plan.prediction;
  const auto utilisation =
      utilisation_of(plan.loaded.plan, plan.loaded.profile.model, plan.loaded.cluster, prediction);
  ordered_json json{{"step_ns", prediction.step.count()},
                    {"bubble", prediction.bubble},
                    {"samples_per_second", prediction.samples_per_second},
                    {"tokens_per_second", prediction.tokens_per_second},
                    {"devices", used_devices(plan.loaded.plan).size()},
                    {"device_word", device_word(plan.loaded.plan, plan.loaded.cluster)},
                    {"fits", prediction.fits},
                    {"provenance", to_string(prediction.provenance)},
                    {"interval", interval_json(plan)}};
  if (utilisation) {
    json["mfu"] = utilisation->model;
    json["mfu_causal"] = utilisation->causal;
    json["hfu"] = utilisation->hardware;
    json["peak_flops"] = utilisation->peak;
  }
  return json;
}

// --- What it is ---------------------------------------------------------------------------------

/// A layer of the model and what it costs on the first replica of its stage's device.
ordered_json layers_json(const Told& plan) {
  const Plan& of = plan.loaded.plan;
  CostBook book(plan.loaded.profile, plan.loaded.cluster, book_setting(of));
  ordered_json layers = ordered_json::array();
  for (std::size_t s = 0; s < of.stages.size(); ++s) {
    const Stage& stage = of.stages[s];
    const std::vector<int>& peers = stage.devices.front();
    const int kind = plan.loaded.cluster.devices[index(peers.front())];
    const CostTable& table = book.table(kind, of.batch.microbatch, samples_of_replica(of),
                                        static_cast<int>(peers.size()));
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      const Layer& of_model = plan.loaded.profile.model.layers[index(layer)];
      layers.push_back({{"name", of_model.name},
                        {"stage", s},
                        {"parameters", of_model.parameters},
                        {"forward_ns", table.layer(layer).forward.count()},
                        {"backward_ns", table.layer(layer).backward().count()}});
    }
  }
  return layers;
}

ordered_json stages_json(const Told& plan) {
  ordered_json stages = ordered_json::array();
  const Model& model = plan.loaded.profile.model;
  const int pipeline = pipeline_devices(plan.loaded.plan);
  for (std::size_t s = 0; s < plan.loaded.plan.stages.size(); ++s) {
    const Stage& stage = plan.loaded.plan.stages[s];
    const StagePrediction& figures = plan.prediction.stages.at(s);
    std::vector<int> devices;
    for (const auto& peers : stage.devices)
      devices.insert(devices.end(), peers.begin(), peers.end());
    std::ranges::sort(devices);
    stages.push_back(
        {{"layers", layer_names(model, stage.layers)},
         {"count", stage.layers.size()},
         {"rank", device_of_stage(find_schedule(plan.loaded.plan.schedule.name).placement,
                                  static_cast<int>(s), pipeline)},
         {"devices", device_ranges(devices)},
         {"recompute", recompute_in_words(stage)},
         {"forward_ns", figures.forward.count()},
         {"backward_ns", figures.backward.count()},
         {"send_ns", figures.send.count()},
         {"idle", figures.idle}});
  }
  return stages;
}

/// The program's devices: their numbers in the cluster, all that each stands for, and its limit.
ordered_json rows_json(const Told& plan) {
  const Compiled& compiled = plan.compiled;
  const auto members = row_names(plan.loaded.plan, compiled);
  ordered_json rows = ordered_json::array();
  for (std::size_t row = 0; row < members.size(); ++row) {
    const Bytes limit = compiled.memory_limits[row];
    rows.push_back({{"device", compiled.devices[row]},
                    {"members", device_ranges(members[row])},
                    {"limit_bytes", limit == INT64_MAX ? ordered_json() : ordered_json(limit)}});
  }
  return rows;
}

/// The cluster's levels, and of each device the pipeline rank that it works for (-1: none).
ordered_json topology_json(const Told& plan) {
  const Cluster& cluster = plan.loaded.cluster;
  const Plan& of = plan.loaded.plan;
  std::vector<int> ranks(cluster.devices.size(), -1);
  const int pipeline = pipeline_devices(of);
  const StagePlacement placement = find_schedule(of.schedule.name).placement;
  for (std::size_t s = 0; s < of.stages.size(); ++s) {
    for (const auto& peers : of.stages[s].devices) {
      for (const int device : peers)
        ranks[index(device)] = device_of_stage(placement, static_cast<int>(s), pipeline);
    }
  }
  ordered_json levels = ordered_json::array();
  for (const Level& level : cluster.levels) {
    const Bandwidth rate = level.link.point_to_point;
    levels.push_back({{"count", level.count},
                      {"rate", rate.is_unlimited() ? "unlimited" : format_bandwidth(rate)},
                      {"latency", format_duration(level.link.latency)}});
  }
  return {{"levels", std::move(levels)},
          {"ranks", ranks},
          {"kind", kind_of(cluster, of.stages.front().devices.front().front()).name}};
}

ordered_json plan_json(const Told& plan) {
  const Plan& of = plan.loaded.plan;
  return {{"path", plan.loaded.path},
          {"hash", plan.loaded.hash},
          {"model", of.model},
          {"model_name", plan.loaded.profile.model.name},
          {"profile", of.profile},
          {"source", plan.loaded.profile.source},
          {"cluster", of.cluster},
          {"cluster_hash", content_hash(write_cluster(plan.loaded.cluster))},
          {"precision", to_string(of.precision)},
          {"costs", words_of_costs(of, plan.prediction.provenance)},
          {"sequence", of.batch.sequence},
          {"samples", of.batch.global},
          {"parameters", parameters(plan.loaded.profile.model)},
          {"sentence", plan_words(of, plan.loaded.profile.model)},
          {"figures", figures_json(plan)},
          {"stages", stages_json(plan)},
          {"rows", rows_json(plan)},
          {"layers", layers_json(plan)},
          {"topology", topology_json(plan)},
          {"notes", plan.prediction.notes}};
}

// --- Why ----------------------------------------------------------------------------------------

/// From the least time that the model's products take to the step: means over devices, which add up
/// to the step.
ordered_json waterfall_json(const Told& plan) {
  const std::vector<Attribution> devices = attribution(plan.compiled.program, plan.compiled.costs);
  const auto utilisation = utilisation_of(plan.loaded.plan, plan.loaded.profile.model,
                                          plan.loaded.cluster, plan.prediction);
  const auto mean = [&](Duration Attribution::*part) {
    double sum = 0;
    for (const Attribution& device : devices) sum += static_cast<double>((device.*part).count());
    return sum / static_cast<double>(devices.size());
  };
  ordered_json bars = ordered_json::array();
  const auto add = [&](const char* name, const char* what, double time) {
    bars.push_back({{"name", name}, {"what", what}, {"ns", time}});
  };
  const double compute = mean(&Attribution::compute);
  const double step = static_cast<double>(plan.prediction.step.count());
  const double ideal = utilisation ? std::min(utilisation->model * step, compute) : compute;
  add("ideal compute",
      utilisation ? "the model's products at the devices' peak" : "forwards and backwards", ideal);
  if (utilisation) {
    add("below the peak", "products below the peak, other work, messages within layers",
        compute - ideal);
  }
  add("recompute", "forwards done again", mean(&Attribution::recompute));
  add("fill and drain", "idle in the order of work itself", mean(&Attribution::fill_drain));
  add("imbalance", "idle because devices have unequal work", mean(&Attribution::imbalance));
  add("communication", "messages and sums that compute does not hide",
      mean(&Attribution::exposed_communication));
  add("optimizer", "updates of weights", mean(&Attribution::optimizer));
  return bars;
}

// --- What to do with it -------------------------------------------------------------------------

/// Of each format that people paste; what several files make up, file by file.
ordered_json launch_json(const LoadedPlan& loaded) {
  ordered_json list = ordered_json::array();
  for (const Exporter& exporter : exporters) {
    if (exporter.reasons_against == nullptr) continue;  // drawings, tables and traces
    ordered_json entry{{"name", exporter.name}, {"summary", exporter.summary}};
    try {
      ordered_json files = ordered_json::array();
      if (exporter.write_files != nullptr) {
        for (const ExportedFile& file : exporter.write_files(loaded))
          files.push_back({{"name", concat(exporter.name, file.suffix)}, {"text", file.content}});
      } else {
        files.push_back({{"name", ""}, {"text", exporter.write(loaded)}});
      }
      entry["files"] = std::move(files);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::bug) throw;
      entry["refused"] = error.message();
    }
    list.push_back(std::move(entry));
  }
  return list;
}

// --- Beside it ----------------------------------------------------------------------------------

ordered_json measured_json(const Told& plan, const PageRun& run) {
  const Comparison comparison =
      compare(simulate(plan.compiled.program, plan.compiled.costs), run.timeline);
  ordered_json kinds = ordered_json::array();
  for (const KindDifference& kind : comparison.kinds) {
    kinds.push_back({{"what", fmt::format("stage {} {}", kind.stage, to_string(kind.op))},
                     {"count", kind.count},
                     {"predicted_ns", kind.predicted.count()},
                     {"measured_ns", kind.measured.count()}});
  }
  ordered_json shares = ordered_json::array();
  for (const Share& share : comparison.shares)
    shares.push_back({{"what", share.what}, {"extra_ns", share.extra.count()}});
  return {{"path", run.path},
          {"hash", run.hash},
          {"other_version", run.is_of_other_version},
          {"busy", run.busy},
          {"predicted_ns", comparison.predicted.count()},
          {"measured_ns", comparison.measured.count()},
          {"error", comparison.error},
          {"device", plan.compiled.devices[index(comparison.device)]},
          {"kinds", std::move(kinds)},
          {"shares", std::move(shares)},
          {"timeline", packed_timeline(run.timeline)}};
}

ordered_json against_json(const LoadedPlan& loaded) {
  const Told plan = told(loaded, true);
  ordered_json json = plan_json(plan);
  json["waterfall"] = waterfall_json(plan);
  json["timeline"] = packed_timeline(simulate(plan.compiled.program, plan.compiled.costs));
  return json;
}

/// For text between tags and in attributes.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

// --- Advice -------------------------------------------------------------------------------------

/// "tp=2, vpp=4: --tensor-model-parallel-size 4 → 2", in the words of what carries the plan out.
std::string words_of_edit(const AdvisedEdit& edit) {
  std::string words = to_string(edit.changes), flags;
  for (const FlagEdit& flag : edit.flags) {
    if (flag.name == "--set") return words;
    flags += concat(flags.empty() ? ": " : ", ", to_string(flag, true));
  }
  return words + flags;
}

/// What `advise` says: edits that make the step shorter, or the plan fit, best first.
ordered_json page_advice_json(const LoadedPlan& loaded, int threads) {
  constexpr std::size_t most = 8;
  const AdviceQuestion question{.target = target_of(loaded.plan),
                                .script = {},
                                .keep = {},
                                .top = most,
                                .threads = threads,
                                .stop = {}};
  const Advice advice = advise(loaded, question);
  std::vector<AdvisedEdit> edits = advice.singles;
  edits.insert(edits.end(), advice.pairs.begin(), advice.pairs.end());
  std::ranges::stable_sort(edits, {}, [](const AdvisedEdit& edit) { return edit.prediction.step; });
  if (advice.together) edits.insert(edits.begin(), *advice.together);
  if (edits.size() > most) edits.resize(most);
  auto rows = ordered_json::array();
  for (const AdvisedEdit& edit : edits) {
    const FullestDevice fullest = fullest_device(edit.prediction);
    ordered_json row{{"edit", words_of_edit(edit)},
                     {"step_ns", edit.prediction.step.count()},
                     {"peak_bytes", fullest.peak}};
    if (fullest.limit) row["limit_bytes"] = *fullest.limit;
    rows.push_back(std::move(row));
  }
  return {{"tried", advice.tried}, {"edits", std::move(rows)}};
}

// --- The file -----------------------------------------------------------------------------------

/// Inside of <script> no text may look like a tag; as \u003c it is the same to a reader of JSON.
std::string embedded(const ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

/// The template with each `{{name}}` replaced, once; what is put in is not looked at again.
std::string filled(std::string_view text,
                   const std::vector<std::pair<std::string_view, std::string>>& contents) {
  std::string result;
  while (true) {
    const std::size_t open = text.find("{{");
    if (open == std::string_view::npos) return result += text;
    const std::size_t close = text.find("}}", open);
    const std::string_view name = text.substr(open + 2, close - open - 2);
    result += text.substr(0, open);
    for (const auto& [place, content] : contents) {
      if (place == name) result += content;
    }
    text.remove_prefix(close + 2);
  }
}

}  // namespace

ordered_json page_json(const PageQuestion& question) {
  // What was measured is held against all devices.
  const bool folds = !question.measured;
  const Told plan = told(question.loaded, folds);
  ordered_json json{
      {"format", "stagecraft-report/1"},
      {"version", build_info::version},
      {"plan", plan_json(plan)},
      {"what_if", what_if_json(question.loaded, plan.compiled, folds)},
      {"waterfall", waterfall_json(plan)},
      {"alternatives", alternatives_json(question.loaded, plan.prediction, question.threads)},
      {"advice", page_advice_json(question.loaded, question.threads)},
      {"launch", launch_json(question.loaded)}};
  if (const auto served =
          serving_for(question.loaded.plan, question.loaded.profile, question.loaded.cluster)) {
    json["serving"] = serving_json(*served);
    json["serving"]["choices"] =
        choices_json(serving_choices(question.loaded, device_count(question.loaded.cluster), {}));
  }
  const auto room =
      room_for_requests(question.loaded.plan, question.loaded.profile, question.loaded.cluster);
  if (room && json.contains("serving")) {
    json["serving"]["memory"] = room_json(*room);
    json["serving"]["memory_part"] = requests_of(question.loaded.plan).memory;
  }
  if (question.measured) json["measured"] = measured_json(plan, *question.measured);
  if (question.against != nullptr) json["against"] = against_json(*question.against);
  return json;
}

std::string page_text(const ordered_json& json) {
  const auto& plan = json["plan"];
  const std::string title = concat(plan["model"].get<std::string>(), " on ",
                                   plan["cluster"].get<std::string>(), " · Stagecraft");
  return filled(page_sources::html, {{"title", escaped(title)},
                                     {"style", std::string(page_sources::style)},
                                     {"data", embedded(json)},
                                     {"packing", std::string(page_sources::packing)},
                                     {"clock", std::string(page_sources::clock)},
                                     {"elements", std::string(page_sources::elements)},
                                     {"timeline", std::string(page_sources::timeline)},
                                     {"memory", std::string(page_sources::memory)},
                                     {"figures", std::string(page_sources::figures)},
                                     {"page", std::string(page_sources::page)}});
}

}  // namespace stagecraft
