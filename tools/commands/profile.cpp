// stagecraft profile MODEL --device cpu|cuda:N: measures what each layer costs on this machine.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "executor/backends/cuda.hpp"
#include "executor/measure.hpp"
#include "executor/measure_ways.hpp"
#include "profiles/cluster.hpp"
#include "profiles/json.hpp"
#include "profiles/profile.hpp"
#include "tools/arguments.hpp"
#include "tools/commands.hpp"
#include "tools/progress.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

constexpr int most_peers = 1024;

struct ProfileArguments {
  std::string model, device = "cpu", microbatch = "1", precision = "fp32";
  std::string tensor_parallel = "1", gpus;
  std::int64_t sequence = 0, loss_rows = 0;
  int repeats = 9, partitions = 1;
};

/// "1.20 ms to 1.31 ms": a tenth of the times is below, a tenth above.
std::string range_text(const TimeRange& range) {
  return concat(format_duration(range.p10), " to ", format_duration(range.p90));
}

std::string cost_table(const Profile& profile, bool unicode) {
  Table table({"layer", ">microbatch", ">tensor-parallel", ">forward", ">p10 to p90",
               ">backward input", ">p10 to p90", ">backward weight", ">p10 to p90", ">update",
               ">saved", ">output", ">workspace"});
  for (const ProfileEntry& entry : profile.entries) {
    const CostSetting& setting = entry.setting;
    for (std::size_t i = 0; i < entry.layers.size(); ++i) {
      const LayerCost& cost = entry.layers[i];
      const MeasuredRanges& ranges = entry.ranges[i];
      if (i > 0 && cost == entry.layers[i - 1]) continue;
      table.row({profile.model.layers[i].name, std::to_string(setting.microbatch),
                 concat(setting.tensor_parallel, entry.has_peer_messages ? "" : " (one peer)"),
                 format_duration(cost.forward), range_text(ranges.forward),
                 format_duration(cost.backward_input), range_text(ranges.backward_input),
                 format_duration(cost.backward_weight), range_text(ranges.backward_weight),
                 format_duration(cost.update), format_bytes(cost.saved), format_bytes(cost.output),
                 format_bytes(cost.workspace)});
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

/// The N of "cuda:N"; "cuda" is the first.
int gpu_number(const std::string& device) {
  if (device == "cuda") return 0;
  constexpr std::string_view prefix = "cuda:";
  int number = -1;
  if (device.starts_with(prefix)) {
    const char* end = device.data() + device.size();
    const auto [read, error] = std::from_chars(device.data() + prefix.size(), end, number);
    if (error != std::errc{} || read != end) number = -1;
  }
  if (number < 0) fail_usage("--device: expected cpu or cuda:N, found \"", device, "\"");
  return number;
}

/// "h200" for "NVIDIA H200": the kind with the longest name that is part of it.
std::string kind_of_gpu(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::erase(name, ' ');
  std::string kind;
  for (const std::string& each : builtin_device_kinds()) {
    if (name.find(each) != std::string::npos && each.size() > kind.size()) kind = each;
  }
  return kind.empty() ? "generic" : kind;
}

/// The GPUs of rank 0, 1 …, of all that the machine has: those asked for, or the first one, then
/// the others.
std::vector<int> gpus_of(const ProfileArguments& arguments, int count) {
  const int first = gpu_number(arguments.device);
  std::vector<int> gpus;
  if (!arguments.gpus.empty()) {
    gpus = read_small_integers("--gpus", arguments.gpus, 0, 1023);
    if (gpus.front() != first && arguments.device != "cuda") {
      fail_usage("--gpus ", arguments.gpus, " begins with another GPU than --device ",
                 arguments.device, "; leave its number out");
    }
  } else {
    for (int i = 0; i < count; ++i) gpus.push_back((first + i) % count);
  }
  for (const int gpu : {first, *std::ranges::max_element(gpus)}) {
    if (gpu < count) continue;
    throw Error(ErrorKind::execution, concat("--device ", arguments.device, ": there is no GPU ",
                                             gpu, "; the last GPU here is cuda:", count - 1,
                                             "; --device cpu works everywhere"));
  }
  return gpus;
}

MeasuredDevice measured_gpu(const ProfileArguments& arguments) {
  const auto refuse = [&](const auto&... why) {
    throw Error(ErrorKind::execution, concat("--device ", arguments.device, ": ", why...,
                                             "; --device cpu works everywhere"));
  };
  gpu_number(arguments.device);
  const CudaReport report = describe_cuda();
  if (report.driver.empty()) refuse("this machine has no NVIDIA driver");
  if (report.devices.empty()) refuse("there is no GPU that can be used");
  const std::vector<int> gpus = gpus_of(arguments, static_cast<int>(report.devices.size()));
  const CudaDevice& found = report.devices[static_cast<std::size_t>(gpus.front())];
  const auto count = static_cast<int>(std::set<int>(gpus.begin(), gpus.end()).size());
  const int parts = arguments.partitions;
  const CudaOptions options{.asked_for = "--device " + arguments.device,
                            .gpus = gpus,
                            .partitions = parts > 1,
                            .ranks = parts > 1 ? parts * count : std::max(count, 2)};
  return {.kind = kind_of_gpu(found.name),
          .description =
              concat("GPU ", gpus.front(), " (", found.name, " at up to ", found.clock_megahertz,
                     " MHz, memory ", found.memory_clock_megahertz, " MHz)",
                     parts > 1 ? concat(", one of ", parts, " parts of it") : "", ", CUDA ",
                     report.runtime, ", cuBLASLt ", report.cublas, ", cuDNN ", report.cudnn),
          .devices = parts * count,
          .make_backend = [options](int rank) { return make_cuda_backend(rank, options); }};
}

/// Of all that the options say.
MeasuredDevice measured_device(const ProfileArguments& arguments) {
  if (arguments.device != "cpu") return measured_gpu(arguments);
  if (!arguments.gpus.empty()) fail_usage("--gpus is about GPUs; give --device cuda, too");
  if (arguments.partitions > 1) fail_usage("--partitions is about GPUs; give --device cuda, too");
  return {};
}

/// What copies cost: `profile links`.
int measure_links(Console& console, const MeasuredDevice& device) {
  Table table({"way", ">latency", ">bandwidth", ">worst error", ">largest copy", ">took"});
  ordered_json ways = ordered_json::array();
  for (const MeasuredWay& way : measure_ways(device)) {
    const TimedCopy& largest = way.copies.back();
    table.row({way.name, format_duration(way.fit.latency), format_bandwidth(way.fit.bandwidth),
               percent(way.fit.worst_error), format_bytes(largest.bytes),
               format_duration(largest.time)});
    ordered_json copies = ordered_json::array();
    for (const TimedCopy& copy : way.copies) {
      copies.push_back({{"bytes", copy.bytes}, {"time_ns", copy.time.count()}});
    }
    ways.push_back({{"name", way.name},
                    {"latency_ns", way.fit.latency.count()},
                    {"bytes_per_second", way.fit.bandwidth.bytes_per_second},
                    {"worst_error", way.fit.worst_error},
                    {"copies", std::move(copies)}});
  }
  console.print(table.text(console.unicode()));
  console.result({{"device", device.is_cpu() ? "this machine's CPU" : device.description},
                  {"ways", std::move(ways)}});
  return 0;
}

int measure(Console& console, const ProfileArguments& arguments) {
  const MeasuredDevice device = measured_device(arguments);
  if (arguments.model == "links") return measure_links(console, device);
  const Precision precision = read_precision(arguments.precision);
  if (precision == (device.is_cpu() ? Precision::bfloat16 : Precision::float64)) {
    fail_usage("--precision ", arguments.precision, ": --device ", arguments.device,
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
  app.add_option("model", arguments->model,
                 "A built-in name or a file; links: what copies cost, to and from the device, "
                 "within it and between ranks")
      ->type_name("MODEL|links")
      ->required();
  app.add_option("--device", arguments->device, "cpu, or cuda:N for GPU N (cpu)")
      ->type_name("DEVICE");
  app.add_option("--microbatch", arguments->microbatch,
                 "Samples per microbatch; a list measures each (1)")
      ->type_name("N,...");
  app.add_option("--tensor-parallel", arguments->tensor_parallel,
                 "Measure layers as one of N peers has them; a list measures each (1). Peers work "
                 "at once, as --threads, GPUs or parts of one allow, and their sums are part of "
                 "the times; else one works alone, and plans add the messages")
      ->type_name("N,...");
  app.add_option("--gpus", arguments->gpus, "The GPUs of peers, each its own (all, from DEVICE on)")
      ->type_name("N,...");
  app.add_option("--partitions", arguments->partitions,
                 "Cut each GPU into N equal parts, and measure one of them (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_option("--sequence", arguments->sequence, "Tokens per sample, instead of the model's own")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--precision", arguments->precision, "fp32; fp64 on CPUs, bf16 on GPUs (fp32)")
      ->type_name("P")
      ->check(CLI::IsMember({"fp32", "fp64", "bf16"}));
  app.add_option("--loss-rows", arguments->loss_rows,
                 "The head makes logits of at most N tokens at a time, as run --loss-rows does")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--repeats", arguments->repeats, "Measurements of each, after the warm-up (9)")
      ->type_name("N")
      ->check(CLI::Range(1, 10'000));
  return [arguments](Console& console) { return measure(console, *arguments); };
}

}  // namespace stagecraft
