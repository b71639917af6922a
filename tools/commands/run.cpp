// stagecraft run PLAN: carries the plan out, verifies it, and writes down what happened when.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "executor/execute.hpp"
#include "executor/latency.hpp"
#include "executor/weights.hpp"
#include "profiles/json.hpp"
#include "simulator/draw.hpp"
#include "simulator/jitter.hpp"
#include "simulator/schedules.hpp"
#include "tools/commands.hpp"
#include "tools/interrupt.hpp"
#include "tools/oversight_options.hpp"
#include "tools/progress.hpp"
#include "tools/results.hpp"
#include "tools/table.hpp"
#include "tools/timeline_files.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct RunArguments {
  std::string plan, data, weights, save_weights, backend = "cpu", transport = "threads";
  TimelineFiles files;
  OversightFlags oversight;
  int steps = 1;
  bool verify = false;
  double learning_rate = 0;
};

constexpr std::int64_t synthetic_tokens = 1 << 20;
constexpr std::int64_t synthetic_pictures = 512;

BackendKind read_backend(const std::string& name) {
  if (name == "cpu") return BackendKind::cpu;
  if (name == "sleep") return BackendKind::sleep;
  if (name == "cuda") return BackendKind::cuda;
  fail_usage("--backend: expected cpu, cuda or sleep, found \"", name, "\"");
}

void require_transport(const std::string& name) {
  if (name == "threads") return;
  if (name == "mpi" || name == "nccl") {
    throw Error(ErrorKind::execution, concat("--transport ", name,
                                             ": this program was built without it; --transport "
                                             "threads runs all ranks in one process"));
  }
  fail_usage("--transport: expected threads, found \"", name, "\"");
}

Dataset dataset_for(const RunArguments& arguments, const LoadedPlan& loaded, BackendKind backend,
                    std::uint64_t seed) {
  if (backend == BackendKind::sleep) return {};
  const Model& model = loaded.profile.model;
  if (const auto& picture = model.layers.front().image) {
    const std::int64_t classes = model.layers.back().output_elements;
    if (!arguments.data.empty()) return load_images(arguments.data, picture->input, classes);
    return synthetic_images(picture->input, classes, synthetic_pictures, seed);
  }
  const std::int64_t vocabulary = model.transformer ? model.transformer->vocabulary : 1;
  if (!arguments.data.empty())
    return load_dataset(arguments.data, vocabulary, loaded.plan.batch.sequence);
  return synthetic_dataset(vocabulary, synthetic_tokens, seed);
}

Duration median(std::vector<Duration> times) {
  if (times.empty()) return Duration{0};
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

/// A run is too long to find out at its end that it leads nowhere.
void require_folder(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    fail_usage("--save-weights: ", folder.string(), " is no folder");
  }
}

RunOptions run_options(const RunArguments& arguments, BackendKind backend, std::uint64_t seed) {
  RunOptions options{.steps = arguments.steps, .backend = backend, .seed = seed};
  if (arguments.learning_rate > 0) {
    options.adamw.learning_rate = arguments.learning_rate;
    options.sgd.learning_rate = arguments.learning_rate;
  }
  return options;
}

/// The run itself, with its progress line and a loss now and then.
RunResult carry_out(Console& console, const LoadedPlan& loaded, const Compiled& compiled,
                    const Dataset& dataset, RunOptions options, const Interrupt& interrupt) {
  Progress progress(console, "training");
  const int every = std::max(1, options.steps / 10);
  options.stop = interrupt.token();
  options.on_step = [&](const StepReport& step) {
    progress.update((step.step + 1.0) / options.steps,
                    fmt::format("step {} loss {:.4f}", step.step + 1, step.loss));
    if (options.backend != BackendKind::sleep &&
        (step.step % every == 0 || step.step + 1 == options.steps)) {
      console.print(fmt::format(" step {:>5}   loss {:.6f}   {}\n", step.step + 1, step.loss,
                                format_duration(step.time)));
    }
  };
  return execute(loaded.plan, loaded.profile, compiled, dataset, options);
}

std::vector<Bytes> simulated_peaks(const Prediction& prediction) {
  std::vector<Bytes> peaks;
  for (const MemoryPeak& peak : prediction.peaks) peaks.push_back(peak.bytes);
  return peaks;
}

ordered_json run_json(const RunResult& run, const Prediction& prediction) {
  return {{"losses", run.losses},
          {"step_ns", median(run.step_times).count()},
          {"steps_ns", nanoseconds(run.step_times)},
          {"predicted_ns", prediction.step.count()},
          {"peak_memory_bytes", run.peak_memory},
          {"simulated_peak_memory_bytes", simulated_peaks(prediction)},
          {"restarts", 0},
          {"parameters_xxh3", run.parameters_hash}};
}

/// Of inference: how long requests took, and how many came out per second.
void add_latencies(const Plan& plan, const RunResult& run, ordered_json& result,
                   std::string& text) {
  if (find_schedule(plan.schedule.name).generate != inference) return;
  const Summary times = stagecraft::summary(request_latencies(run.timeline));
  const double rate = static_cast<double>(plan.batch.microbatches) /
                      std::max(seconds(step_time(run.timeline)), 1e-9);
  result["latency"] = {
      {"p50_ns", times.p50.count()}, {"p95_ns", times.p95.count()}, {"p99_ns", times.p99.count()}};
  result["requests_per_second"] = rate;
  text +=
      fmt::format("latency p50 {}, p95 {}, p99 {}; {:.1f} requests/s\n", format_duration(times.p50),
                  format_duration(times.p95), format_duration(times.p99), rate);
}

std::string summary(const RunResult& run, const Prediction& prediction) {
  const Duration measured = median(run.step_times);
  std::string text =
      fmt::format("{} steps, median {} (predicted {}, {})", run.step_times.size(),
                  format_duration(measured), format_duration(prediction.step),
                  signed_percent(seconds(prediction.step) / std::max(seconds(measured), 1e-9) - 1));
  if (!run.losses.empty())
    text += fmt::format(", loss {:.4f} -> {:.4f}", run.losses.front(), run.losses.back());
  return text + "\n";
}

bool splits_layers(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return std::ranges::any_of(stage.devices, [](const auto& peers) { return peers.size() > 1; });
  });
}

/// Tensor-parallel peers add up in another order than one device does.
void verify_to_rounding(Console& console, Precision precision, const RunResult& run,
                        const RunResult& reference) {
  const Distance apart = distance(run, reference);
  const double tolerance = rounding_tolerance(precision);
  const std::string found =
      fmt::format("losses are {:.1e} apart from the single-device run's, weights {:.1e}",
                  apart.losses, apart.weights);
  if (!(std::max(apart.losses, apart.weights) <= tolerance)) {
    throw Error(ErrorKind::check, fmt::format("{}: more than rounding makes of sums over "
                                              "tensor-parallel peers, {:.0e}",
                                              found, tolerance));
  }
  console.print(
      fmt::format("{}, within {:.0e}{}\n", found, tolerance, console.unicode() ? " ✔" : ""));
}

/// Throws Error (check) unless the reference run ends alike: with the same bits, or to rounding
/// where layers are split. Returns which.
std::string_view verify(Console& console, const LoadedPlan& loaded, const Dataset& dataset,
                        const RunOptions& options, const RunResult& run) {
  RunOptions reference_options = options;
  reference_options.steps = static_cast<int>(run.step_times.size());
  const RunResult reference =
      run_reference(loaded.plan, loaded.profile, dataset, reference_options);
  if (splits_layers(loaded.plan)) {
    verify_to_rounding(console, loaded.plan.precision, run, reference);
    return "tolerance";
  }
  const std::string difference = first_difference(run, reference);
  if (!difference.empty())
    throw Error(ErrorKind::check,
                concat("the run differs from the single-device reference: ", difference));
  console.print(console.unicode() ? "losses and weights equal the single-device run bit for bit ✔\n"
                                  : "losses and weights equal the single-device run bit for bit\n");
  return "bitwise";
}

int run_plan(Console& console, const RunArguments& arguments, const FlightFolder& folder) {
  const BackendKind backend = read_backend(arguments.backend);
  require_transport(arguments.transport);
  if (backend == BackendKind::sleep) {
    const auto refuse = [](const char* option) {
      fail_usage(option, " needs a backend that computes; sleep does not");
    };
    if (arguments.verify) refuse("--verify");
    if (!arguments.weights.empty()) refuse("--weights");
    if (!arguments.save_weights.empty()) refuse("--save-weights");
  }
  require_folder(arguments.save_weights);
  require_valid(arguments.files);
  const LoadedPlan loaded = load_plan(arguments.plan);
  console.input(loaded.path, loaded.hash);
  const Interrupt interrupt;
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  const Prediction prediction = predict(loaded.plan, compiled);
  const std::uint64_t seed = console.options().seed;
  const Dataset dataset = dataset_for(arguments, loaded, backend, seed);
  RunOptions options = run_options(arguments, backend, seed);
  options.oversight =
      oversight_of(console, arguments.oversight, folder, loaded.hash, prediction.step);
  if (!arguments.weights.empty()) {
    options.weights = load_weights(arguments.weights, loaded.profile.model,
                                   precision_of_sums(loaded.plan.precision));
  }
  console.print(plan_sentence(loaded.plan) +
                (backend != BackendKind::sleep ? "; data: " + dataset.source : std::string()) +
                "\n");
  const RunResult run = carry_out(console, loaded, compiled, dataset, options, interrupt);
  write_timeline_files(
      arguments.files, run.timeline,
      {{"kind", "measured"}, {"plan", loaded.hash}, {"backend", arguments.backend}});
  ordered_json result = run_json(run, prediction);
  result["restarts"] = arguments.oversight.attempt;
  std::string text = summary(run, prediction);
  add_latencies(loaded.plan, run, result, text);
  console.print(text);
  if (arguments.verify) {
    result["verified"] = verify(console, loaded, dataset, options, run);
  }
  if (!arguments.save_weights.empty()) {
    save_weights(arguments.save_weights, loaded.profile.model, run);
  }
  console.result(result);
  return interrupt.interrupted() ? 130 : 0;
}

}  // namespace

Action declare_run(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  app.add_option("plan", arguments->plan, "The plan")->type_name("PLAN")->required();
  app.add_option("--steps", arguments->steps, "Optimizer steps (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option(
         "--data", arguments->data,
         "A text (a token per byte) or a .bin of uint16 or uint32 tokens; for networks of images, "
         "labels and pixels in CIFAR-10's binary form; default: synthetic")
      ->type_name("FILE");
  app.add_option("--weights", arguments->weights,
                 "Start from these weights: safetensors with Hugging Face's names")
      ->type_name("FILE");
  app.add_option("--save-weights", arguments->save_weights,
                 "Write the final weights, as safetensors")
      ->type_name("FILE");
  app.add_option("--backend", arguments->backend,
                 "cpu, cuda, or sleep: every instruction sleeps for its predicted time")
      ->type_name("NAME");
  app.add_option("--transport", arguments->transport,
                 "threads: every rank is a thread of this process")
      ->type_name("NAME");
  app.add_flag(
      "--verify", arguments->verify,
      "Repeat on a single device and compare losses and weights bit for bit (where layers are "
      "split over tensor-parallel devices, to rounding)");
  declare_timeline_files(app, arguments->files);
  declare_oversight(app, arguments->oversight);
  app.add_option("--learning-rate", arguments->learning_rate,
                 "Of the optimizer (AdamW 0.001, SGD 0.01)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  return [arguments](Console& console) {
    if (arguments->oversight.restarts && arguments->plan == "-") {
      fail_usage("--restarts: standard input can be read only once; give the plan as a file");
    }
    return run_under_oversight(console, arguments->oversight, "", [&](const FlightFolder& folder) {
      return run_plan(console, *arguments, folder);
    });
  };
}

}  // namespace stagecraft
