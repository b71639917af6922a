#include "planner/calibration/measured_runs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/calibration/sensitivity.hpp"
#include "profiles/cluster.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Constants that runs may tell about, besides those of shapes.
constexpr std::array candidates{"product_rate", "attention_rate",   "memory_rate", "inside_rate",
                                "between_rate", "transfer_seconds", "update_rate"};

/// The most that any row's prediction follows the constant, both on a logarithmic scale.
double influence(const MeasuredSet& set, std::string_view name) {
  constexpr double step = 0.01;
  double most = 0;
  for (const MeasuredRow& row : set.rows) {
    KernelConstants moved = set.start;
    moved.*constant_named(name).member *= 1 + step;
    const double change = std::log(row.predict(moved, 1) / row.predict(set.start, 1)) / step;
    most = std::max(most, std::abs(change));
  }
  return most;
}

void choose_unknowns(MeasuredSet& set) {
  constexpr double negligible = 0.01;
  std::vector<std::pair<double, std::string_view>> found;
  for (const std::string_view name : candidates) {
    const double most = influence(set, name);
    if (most > negligible) found.emplace_back(-most, name);
  }
  std::ranges::stable_sort(found, {}, &std::pair<double, std::string_view>::first);
  const std::size_t count = std::max<std::size_t>(1, set.rows.size() / 2);
  for (std::size_t i = 0; i < std::min(count, found.size()); ++i)
    set.unknowns.push_back(found[i].second);
}

MeasuredRow row_of(const MeasuredRun& run) {
  MeasuredRow row = recipe_row(run.recipe, run.label, run.seconds);
  row.spread = run.spread;
  row.steps = run.steps;
  row.family = run.model;
  const std::int64_t batch =
      std::int64_t{run.recipe.microbatches} * run.recipe.data * run.recipe.work.microbatch;
  row.problem = concat(run.model, ", ", device_count(run.recipe), " devices, batch ", batch,
                       ", sequence ", run.recipe.work.sequence);
  row.memory = run.memory;
  if (run.memory && run.memory_is_modelled) {
    const auto stage = static_cast<std::size_t>(run.memory_stage.value_or(0));
    row.predicted_memory = run.memory_stage ? stage_memory(run.recipe).at(stage).total()
                                            : peak_memory(run.recipe).total();
  }
  return row;
}

void add(MeasuredSet& set, const MeasuredRun& run, std::set<std::string>& labels) {
  for (const std::string& assumption : run.assumptions) {
    if (std::ranges::count(set.assumptions, assumption) == 0) set.assumptions.push_back(assumption);
  }
  if (!run.left_out.empty()) {
    set.left_out.push_back(concat(run.label, ": ", run.left_out));
    return;
  }
  MeasuredRow row = row_of(run);
  for (int again = 2; !labels.insert(row.label).second; ++again)
    row.label = concat(run.label, " (", again, ")");
  set.rows.push_back(std::move(row));
}

}  // namespace

const RunFormat* run_format_of(std::string_view content) {
  for (const RunFormat& format : run_formats) {
    if (format.looks_like(content)) return &format;
  }
  return nullptr;
}

std::vector<MeasuredSet> sets_of_runs(std::string_view format,
                                      const std::vector<MeasuredRun>& runs) {
  std::map<std::string, MeasuredSet> sets;
  std::map<std::string, std::set<std::string>> labels;
  for (const MeasuredRun& run : runs) {
    const std::string& device = run.recipe.device;
    if (!sets.contains(device)) {
      sets[device] = {.name = concat(format, "-", device),
                      .source = concat("runs of one's own (", format, ")"),
                      .device = device,
                      .start = usual_constants(device)};
    }
    add(sets[device], run, labels[device]);
  }
  std::vector<MeasuredSet> result;
  for (auto& [device, set] : sets) {
    choose_unknowns(set);
    result.push_back(std::move(set));
  }
  return result;
}

std::string reason_against_precision(const Recipe& recipe) {
  const Precision precision = recipe.work.precision;
  if (peak_flops(builtin_device_kind(recipe.device), precision) > 0) return "";
  return concat(recipe.device, " does not compute in ", to_string(precision));
}

std::string configuration_of(const Recipe& recipe) {
  const WorkSetting& work = recipe.work;
  const int devices = device_count(recipe);
  std::string text = concat(devices, devices == 1 ? " device: t" : " devices: t",
                            work.tensor_parallel, " p", recipe.pipeline, " d", recipe.data);
  if (recipe.virtual_stages > 1) text += concat(" v", recipe.virtual_stages);
  if (work.context_parallel > 1) text += concat(" c", work.context_parallel);
  if (work.expert_parallel > 1) text += concat(" e", work.expert_parallel);
  const std::int64_t batch = std::int64_t{recipe.microbatches} * recipe.data * work.microbatch;
  return text + concat(" b", work.microbatch, ", batch ", batch);
}

void set_steps(MeasuredRun& run, std::vector<double> seconds, const std::string& file) {
  if (seconds.empty())
    throw Error(ErrorKind::input, "the run has no step with a time", SourcePlace{file, 0, 0});
  const std::size_t warming =
      seconds.size() == 1 ? 0 : std::max<std::size_t>(1, seconds.size() / 10);
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(warming));
  std::ranges::sort(seconds);
  const auto at = [&](std::size_t tenths) {
    return seconds[std::min(seconds.size() - 1, seconds.size() * tenths / 10)];
  };
  run.steps = static_cast<int>(seconds.size());
  run.seconds = at(5);
  if (run.seconds <= 0)
    throw Error(ErrorKind::input, "a step of the run takes no time", SourcePlace{file, 0, 0});
  run.spread = (at(9) - at(1)) / run.seconds;
}

std::optional<double> number_after(std::string_view text, std::string_view label) {
  const std::size_t found = text.find(label);
  if (found == std::string_view::npos) return {};
  std::string digits;
  bool blank = true;
  for (const char c : text.substr(found + label.size())) {
    if (c == ',' || (c == ' ' && blank)) continue;
    if ((c < '0' || c > '9') && c != '.') break;
    blank = false;
    digits += c;
  }
  if (digits.empty() || digits.size() > 18 || std::ranges::count(digits, '.') > 1 || digits == ".")
    return {};
  return std::stod(digits);
}

std::string device_of_run(const std::string& found, const RunFileOptions& options,
                          const std::string& file) {
  const std::string name = options.device.empty() ? found : options.device;
  if (!name.empty()) return builtin_device_kind(name).name;
  throw Error(ErrorKind::input, "nothing says which device it ran on", SourcePlace{file, 0, 0},
              {"--device h100 says it for all files that do not"});
}

}  // namespace stagecraft
