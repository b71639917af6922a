// stagecraft profile MODEL|links --device cpu|cuda:N: measures what each layer costs on this
// machine, or what connects devices.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "executor/measurement/measure.hpp"
#include "profiles/json.hpp"
#include "profiles/profile.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/measured_device.hpp"
#include "tools/inputs/profile_links.hpp"
#include "tools/options/arguments.hpp"
#include "tools/reports/progress.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

constexpr int most_peers = 1024;

struct ProfileArguments {
  std::string model, microbatch = "1", precision = "fp32", tensor_parallel = "1";
  DeviceFlags device;
  LinkFlags links;
  std::int64_t sequence = 0, loss_rows = 0;
  int repeats = 9;
  std::vector<const CLI::Option*> of_layers;  ///< those above but the first two
};

/// "1.20 ms to 1.31 ms": a tenth of the times is below, a tenth above.
std::string range_text(const TimeRange& range) {
  return concat(format_duration(range.p10), " to ", format_duration(range.p90));
}

/// With all ranges if `detailed`; else only how far apart times of a layer are at most.
std::string cost_table(const Profile& profile, bool unicode, bool detailed) {
  std::vector<std::string> header{"layer", ">microbatch", ">tensor-parallel"};
  for (const char* const pass : {">forward", ">backward input", ">backward weight"}) {
    header.emplace_back(pass);
    if (detailed) header.emplace_back(">p10 to p90");
  }
  for (const char* const other : {">update", ">spread", ">saved", ">output", ">workspace"})
    header.emplace_back(other);
  Table table(header);
  for (const ProfileEntry& entry : profile.entries) {
    const CostSetting& setting = entry.setting;
    for (std::size_t i = 0; i < entry.layers.size(); ++i) {
      const LayerCost& cost = entry.layers[i];
      const MeasuredRanges& ranges = entry.ranges[i];
      if (i > 0 && cost == entry.layers[i - 1]) continue;
      std::vector<std::string> row{
          profile.model.layers[i].name, std::to_string(setting.microbatch),
          concat(setting.tensor_parallel, entry.has_peer_messages ? "" : " (one peer)")};
      const auto time = [&](Duration median, const TimeRange& range) {
        row.push_back(format_duration(median));
        if (detailed) row.push_back(range_text(range));
      };
      time(cost.forward, ranges.forward);
      time(cost.backward_input, ranges.backward_input);
      time(cost.backward_weight, ranges.backward_weight);
      row.insert(row.end(),
                 {format_duration(cost.update), percent(cost.spread), format_bytes(cost.saved),
                  format_bytes(cost.output), format_bytes(cost.workspace)});
      table.row(row);
    }
  }
  return table.text(unicode);
}

ordered_json layer_json(const Layer& layer, const LayerCost& cost, const MeasuredRanges& ranges) {
  return {{"name", layer.name},
          {"forward_ns", cost.forward.count()},
          {"backward_input_ns", cost.backward_input.count()},
          {"backward_weight_ns", cost.backward_weight.count()},
          {"update_ns", cost.update.count()},
          {"spread", cost.spread},
          {"forward_p10_ns", ranges.forward.p10.count()},
          {"forward_p90_ns", ranges.forward.p90.count()},
          {"backward_input_p10_ns", ranges.backward_input.p10.count()},
          {"backward_input_p90_ns", ranges.backward_input.p90.count()},
          {"backward_weight_p10_ns", ranges.backward_weight.p10.count()},
          {"backward_weight_p90_ns", ranges.backward_weight.p90.count()},
          {"update_p10_ns", ranges.update.p10.count()},
          {"update_p90_ns", ranges.update.p90.count()},
          {"saved_bytes", cost.saved},
          {"output_bytes", cost.output},
          {"parameter_bytes", cost.parameters},
          {"workspace_bytes", cost.workspace}};
}

ordered_json profile_json(const Profile& profile) {
  ordered_json entries = ordered_json::array();
  for (const ProfileEntry& entry : profile.entries) {
    ordered_json layers = ordered_json::array();
    for (std::size_t i = 0; i < entry.layers.size(); ++i) {
      layers.push_back(layer_json(profile.model.layers[i], entry.layers[i], entry.ranges[i]));
    }
    entries.push_back({{"microbatch", entry.setting.microbatch},
                       {"sequence", entry.setting.sequence},
                       {"tensor_parallel", entry.setting.tensor_parallel},
                       {"peer_messages", entry.has_peer_messages},
                       {"layers", std::move(layers)}});
  }
  ordered_json result{{"model", profile.model.name}, {"source", profile.source}};
  if (profile.hand_over) {
    result["hand_over"] = {
        {"latency_ns", profile.hand_over->latency.count()},
        {"bytes_per_second", profile.hand_over->point_to_point.bytes_per_second}};
  }
  result["entries"] = std::move(entries);
  return result;
}

/// Throws Error (usage) where flags about layers were given to what measures links.
void require_links(const ProfileArguments& arguments) {
  for (const CLI::Option* option : arguments.of_layers) {
    if (option->count() == 0) continue;
    fail_usage(option->get_name(),
               " is about layers, which `stagecraft profile MODEL` measures; leave it out");
  }
}

int measure(Console& console, const ProfileArguments& arguments) {
  if (arguments.model == "links") {
    require_links(arguments);
    return profile_links(console, arguments.device, arguments.links);
  }
  require_layers(arguments.links);
  const MeasuredDevice device = measured_device(arguments.device);
  const Precision precision = read_named("--precision", arguments.precision, read_precision);
  if (precision == (device.is_cpu() ? Precision::bfloat16 : Precision::float64)) {
    fail_usage("--precision ", arguments.precision, ": --device ", arguments.device.device,
               " computes in ", device.is_cpu() ? "fp32 and fp64" : "fp32 and bf16");
  }
  const LoadedProfile loaded = load_profile(arguments.model);
  console.input(loaded.path, loaded.hash);
  Progress progress(console, "measuring");
  MeasureOptions options{
      .device = device,
      .microbatches = read_integers("--microbatch", arguments.microbatch, 1, 1'000'000),
      .tensor_parallel =
          read_small_integers("--tensor-parallel", arguments.tensor_parallel, 1, most_peers),
      .sequence = arguments.sequence,
      .precision = precision,
      .loss_rows = arguments.loss_rows,
      .repeats = arguments.repeats};
  options.busy_ranks = console.options().threads;
  options.progress = [&](double done, const std::string& what) { progress.update(done, what); };
  console.warn_if_unseen("the profile");
  const Profile profile = measure_profile(loaded.profile.model, options);
  const std::string file = write_profile(profile);
  if (console.artefact(file) || console.person_reads_output()) {
    console.print(cost_table(profile, console.unicode(), console.options().verbose > 0));
    if (profile.hand_over) {
      console.print(fmt::format("hand-over between ranks: {} + {}\n",
                                format_duration(profile.hand_over->latency),
                                format_bandwidth(profile.hand_over->point_to_point)));
    }
  } else {
    console.print(file);
  }
  console.result(profile_json(profile));
  return 0;
}

}  // namespace

Action declare_profile(CLI::App& app) {
  auto arguments = std::make_shared<ProfileArguments>();
  app.add_option("model", arguments->model,
                 "Built-in name or file of a model; links: measure copies, messages and sums, and "
                 "with -o write a cluster with these links")
      ->type_name("MODEL|links")
      ->required();
  declare_device(app, arguments->device);
  declare_links(app, arguments->links);
  app.add_option("--microbatch", arguments->microbatch,
                 "Samples per microbatch; a list measures each size (1)")
      ->type_name("N,...");
  app.add_option("--tensor-parallel", arguments->tensor_parallel,
                 "Tensor-parallel degree to measure; a list measures each (1). If --threads, GPUs "
                 "or parts of one suffice, all peers run at once and their sums are part of the "
                 "times; otherwise one peer runs alone, and plans add the messages")
      ->type_name("N,...");
  in_thousands(app.add_option("--sequence", arguments->sequence,
                              "Tokens per sample, 32k for 32768 (the model's)"))
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--precision", arguments->precision,
                 "Precision: fp32, fp64 (CPUs) or bf16 (GPUs) (fp32)")
      ->type_name("P")
      ->check(CLI::IsMember({"fp32", "fp64", "bf16"}));
  app.add_option(
         "--loss-rows", arguments->loss_rows,
         "Maximum number of tokens whose logits the head computes at once, as run --loss-rows")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--repeats", arguments->repeats,
                 "Number of measurements per pass, after the warm-up (9)")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000));
  for (const char* const flag : {"--microbatch", "--tensor-parallel", "--sequence", "--precision",
                                 "--loss-rows", "--repeats"})
    arguments->of_layers.push_back(app.get_option(flag));
  return [arguments](Console& console) { return measure(console, *arguments); };
}

}  // namespace stagecraft
