// stagecraft profile MODEL --device cpu: measures what each layer costs on this machine.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "executor/measure.hpp"
#include "profiles/json.hpp"
#include "profiles/profile.hpp"
#include "tools/arguments.hpp"
#include "tools/commands.hpp"
#include "tools/progress.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ProfileArguments {
  std::string model, device = "cpu", microbatch = "1", precision = "fp32";
  std::int64_t sequence = 0;
  int repeats = 9;
};

std::string cost_table(const Profile& profile, bool unicode) {
  Table table({"layer", ">microbatch", ">forward", ">backward input", ">backward weight", ">update",
               ">spread", ">saved", ">output"});
  for (const ProfileEntry& entry : profile.entries) {
    for (std::size_t i = 0; i < entry.layers.size(); ++i) {
      const LayerCost& cost = entry.layers[i];
      if (i > 0 && cost == entry.layers[i - 1]) continue;
      table.row({profile.model.layers[i].name, std::to_string(entry.setting.microbatch),
                 format_duration(cost.forward), format_duration(cost.backward_input),
                 format_duration(cost.backward_weight), format_duration(cost.update),
                 percent(cost.spread), format_bytes(cost.saved), format_bytes(cost.output)});
    }
  }
  return table.text(unicode);
}

ordered_json profile_json(const Profile& profile) {
  ordered_json entries = ordered_json::array();
  for (const ProfileEntry& entry : profile.entries) {
    ordered_json layers = ordered_json::array();
    for (std::size_t i = 0; i < entry.layers.size(); ++i) {
      const LayerCost& cost = entry.layers[i];
      layers.push_back({{"name", profile.model.layers[i].name},
                        {"forward_ns", cost.forward.count()},
                        {"backward_input_ns", cost.backward_input.count()},
                        {"backward_weight_ns", cost.backward_weight.count()},
                        {"update_ns", cost.update.count()},
                        {"spread", cost.spread},
                        {"saved_bytes", cost.saved},
                        {"output_bytes", cost.output},
                        {"parameter_bytes", cost.parameters}});
    }
    entries.push_back({{"microbatch", entry.setting.microbatch},
                       {"sequence", entry.setting.sequence},
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

int measure(Console& console, const ProfileArguments& arguments) {
  if (arguments.device.starts_with("cuda")) {
    throw Error(ErrorKind::execution,
                concat("--device ", arguments.device,
                       ": layers are measured on CPUs only; --device cpu works everywhere"));
  }
  if (arguments.device != "cpu")
    fail_usage("--device: expected cpu, found \"", arguments.device, "\"");
  const LoadedProfile loaded = load_profile(arguments.model);
  console.input(loaded.path, loaded.hash);
  Progress progress(console, "measuring");
  MeasureOptions options{
      .microbatches = read_integers("--microbatch", arguments.microbatch, 1, 1'000'000),
      .sequence = arguments.sequence,
      .precision = read_precision(arguments.precision),
      .repeats = arguments.repeats};
  options.busy_ranks = console.options().threads;
  options.progress = [&](double done, const std::string& what) { progress.update(done, what); };
  const Profile profile = measure_profile(loaded.profile.model, options);
  const std::string file = write_profile(profile);
  if (console.artefact(file) || console.person_reads_output()) {
    console.print(cost_table(profile, console.unicode()));
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
  app.add_option("model", arguments->model, "A built-in name or a file")
      ->type_name("MODEL")
      ->required();
  app.add_option("--device", arguments->device, "cpu")->type_name("DEVICE");
  app.add_option("--microbatch", arguments->microbatch,
                 "Samples per microbatch; a list measures each (1)")
      ->type_name("N,...");
  app.add_option("--sequence", arguments->sequence, "Tokens per sample, instead of the model's own")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--precision", arguments->precision, "fp32 or fp64")
      ->type_name("P")
      ->check(CLI::IsMember({"fp32", "fp64"}));
  app.add_option("--repeats", arguments->repeats, "Measurements of each, after the warm-up (9)")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000));
  return [arguments](Console& console) { return measure(console, *arguments); };
}

}  // namespace stagecraft
