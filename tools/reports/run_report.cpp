#include "tools/reports/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "executor/training/latency.hpp"
#include "profiles/error.hpp"
#include "simulator/analyses/jitter.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

Duration median(std::vector<Duration> times) {
  if (times.empty()) return Duration{0};
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
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
          {"allocated_memory_bytes", run.allocated_memory},
          {"simulated_peak_memory_bytes",
           run.simulated_memory.empty() ? simulated_peaks(prediction) : run.simulated_memory},
          {"restarts", 0}};
}

/// Of inference: how long requests took, and how many came out per second.
void add_latencies(const Plan& plan, const RunResult& run, ordered_json& result,
                   std::string& text) {
  if (!serves(plan)) return;
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

std::string summary(const RunResult& run, const Prediction& prediction,
                    const Occupation& occupation) {
  if (run.step_times.empty()) return "no steps are left\n";
  const Duration measured = median(run.step_times);
  const std::string verdict =
      is_busy(occupation)
          ? std::string("the machine was busy: no verdict")
          : signed_percent(seconds(prediction.step) / std::max(seconds(measured), 1e-9) - 1);
  std::string text =
      fmt::format("{}, median {} (predicted {}, {})", number_of(std::ssize(run.step_times), "step"),
                  format_duration(measured), format_duration(prediction.step), verdict);
  if (!run.losses.empty())
    text += fmt::format(", loss {:.4f} -> {:.4f}", run.losses.front(), run.losses.back());
  text += "\n";
  if (is_busy(occupation)) text += "busy machine: " + in_words(occupation) + "\n";
  return text;
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

}  // namespace

ordered_json report_run(Console& console, const Plan& plan, const RunResult& run,
                        const Prediction& prediction, const Occupation& occupation) {
  ordered_json result = run_json(run, prediction);
  result["machine"] = occupation_json(occupation);
  std::string text = summary(run, prediction, occupation);
  add_latencies(plan, run, result, text);
  console.print(text);
  return result;
}

std::string_view verify_run(Console& console, const LoadedPlan& loaded, const Dataset& dataset,
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
  if (!difference.empty()) {
    throw Error(ErrorKind::check,
                concat("the run differs from the single-device reference: ", difference));
  }
  console.print(console.unicode() ? "losses and weights equal the single-device run bit for bit ✔\n"
                                  : "losses and weights equal the single-device run bit for bit\n");
  return "bitwise";
}

}  // namespace stagecraft
