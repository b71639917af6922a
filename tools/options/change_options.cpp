#include "tools/options/change_options.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/flag_meanings.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t most_points = 10'000;
constexpr std::int64_t most_integer = std::int64_t{1} << 40;

/// "12.5GB/s": the number, and its unit.
struct Measure {
  double number = 0;
  std::string unit;
};

Measure read_measure(const std::string& flag, const std::string& range, const std::string& text) {
  const std::string trimmed = trim(text);
  std::size_t used = 0;
  double number = -1;
  try {
    number = std::stod(trimmed, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used == trimmed.size() || !(number >= 0)) {
    fail_usage(flag, ": expected a range such as 10GB/s..80GB/s, which doubles, or 25%..100%:25%, ",
               "found \"", range, "\"");
  }
  return {number, trim(trimmed.substr(used))};
}

/// "FIRST..LAST" doubles, "FIRST..LAST:STEP" adds, all in one unit.
std::vector<std::string> measures_of_range(const std::string& flag, const std::string& range) {
  const std::size_t dots = range.find("..");
  const std::size_t colon = range.find(':', dots);
  const bool has_step = colon != std::string::npos;
  const Measure first = read_measure(flag, range, range.substr(0, dots));
  const Measure last =
      read_measure(flag, range, range.substr(dots + 2, has_step ? colon - dots - 2 : colon));
  const Measure step = has_step ? read_measure(flag, range, range.substr(colon + 1)) : last;
  if (first.unit != last.unit || step.unit != last.unit)
    fail_usage(flag, ": the range \"", range, "\" has several units; give all of it in one");
  if (last.number < first.number) fail_usage(flag, ": the range \"", range, "\" is empty");
  if (has_step && step.number == 0)
    fail_usage(flag, ": the range \"", range, "\" never ends in steps of 0; give a larger step");
  if (!has_step && first.number == 0) {
    fail_usage(flag, ": the range \"", range, "\" doubles, which leads nowhere from 0; give it a ",
               "step, such as ", range, ":", fmt::format("{:.12g}", last.number / 2), last.unit);
  }
  const double most = last.number * (1 + 1e-9);  // 0.1 + 0.2 is not quite 0.3
  std::vector<std::string> values;
  for (double value = first.number; value <= most;) {
    values.push_back(fmt::format("{:.12g}{}", value, last.unit));
    if (values.size() > most_points)
      fail_usage(flag, ": the range \"", range, "\" has more than ", most_points, " values");
    value = has_step ? first.number + step.number * static_cast<double>(values.size()) : 2 * value;
  }
  return values;
}

/// Whether values have units: those of links and devices, and sizes.
bool takes_measures(const Change& change) {
  return numbered_key(change.key, "link") || numbered_key(change.key, "device") ||
         change.key == "gradient-bucket";
}

/// "4k..32k:4k", with every number of it written out.
std::string range_written_out(const std::string& word) {
  const std::size_t dots = word.find("..");
  if (dots == std::string::npos) return with_thousands_written_out(word);
  const std::size_t colon = std::min(word.find(':', dots), word.size());
  std::string text = concat(with_thousands_written_out(word.substr(0, dots)), "..",
                            with_thousands_written_out(word.substr(dots + 2, colon - dots - 2)));
  if (colon < word.size()) text += ":" + with_thousands_written_out(word.substr(colon + 1));
  return text;
}

/// A change by its key here, or a word of what it is called here.
Change read_named(const std::string& text) {
  try {
    return read_change(text);
  } catch (const Error& error) {
    const std::string flag = concat("--", trim(text.substr(0, text.find('='))));
    const std::string here = option_of_same_meaning(flag, {"--set", "--replan"});
    if (here.empty()) throw;
    fail_usage("--set ", text, ": ", here);
  }
}

/// Each value of a list or range, as a change of its own.
std::vector<Change> values_of(const Change& change) {
  const std::string flag = "--set " + change.key;
  std::vector<Change> values;
  if (takes_integers(change)) {
    for (const std::string& word : read_words(flag, change.value)) {
      const bool are_tokens = change.key == "sequence" || change.key.ends_with("-tokens");
      const std::string text = are_tokens ? range_written_out(word) : word;
      for (const std::int64_t value : read_integers(flag, text, 1, most_integer))
        values.push_back({change.key, std::to_string(value)});
    }
    return values;
  }
  for (const std::string& word : read_words(flag, change.value)) {
    const bool is_range = takes_measures(change) && word.find("..") != std::string::npos;
    for (const std::string& value : is_range ? measures_of_range(flag, word) : std::vector{word})
      values.push_back({change.key, value});
  }
  return values;
}

}  // namespace

void declare_changes(CLI::App& app, ChangeFlags& flags) {
  std::string keys = "Keys of --set, by an example of each:\n";
  std::size_t width = 0;
  for (const ChangeKind& kind : change_kinds()) width = std::max(width, kind.example.size() + 2);
  for (const ChangeKind& kind : change_kinds()) {
    keys += concat("  ", kind.example, std::string(width - kind.example.size(), ' '), kind.summary,
                   "\n");
  }
  app.footer(keys);
  app.add_option(
         "--set", flags.set,
         "Change a property of the plan: KEY=VALUE, may be repeated; simulate and "
         "compare also take a list or range (tp=1,2,4, link0=25%..100%:25%), and print a row for "
         "each value")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->group("What if, with a plan");
  app.add_flag("--replan", flags.replan,
               "After --set, move layers between the stages until the step is shortest")
      ->group("What if, with a plan");
}

std::vector<std::vector<Change>> change_sets(const ChangeFlags& flags) {
  std::vector<std::vector<Change>> sets{{}};
  for (const std::string& text : flags.set) {
    const std::vector<Change> values = values_of(read_named(text));
    if (values.size() * sets.size() > most_points) {
      fail_usage("--set: the lists make more than ", most_points, " combinations");
    }
    std::vector<std::vector<Change>> longer;
    for (const std::vector<Change>& set : sets) {
      for (const Change& value : values) {
        longer.push_back(set);
        longer.back().push_back(value);
      }
    }
    sets = std::move(longer);
  }
  return sets;
}

std::vector<Change> one_change_set(const ChangeFlags& flags, const std::string& verb) {
  const auto sets = change_sets(flags);
  if (sets.size() > 1) {
    fail_usage(verb, " takes one value of each --set, not ", sets.size(),
               " combinations; stagecraft simulate makes sweeps");
  }
  return sets.front();
}

ChangedPlan apply(const ChangeFlags& flags, const std::vector<Change>& changes, LoadedPlan loaded) {
  if (!flags.any()) return {.loaded = std::move(loaded), .slow = {}, .notes = {}};
  return changed(std::move(loaded), changes, flags.replan);
}

ConditionOptions with_slow_devices(ConditionOptions conditions, const ChangedPlan& changed) {
  const std::vector<int> used = used_devices(changed.loaded.plan);
  for (const SlowDevice& slow : changed.slow) {
    if (std::ranges::find(used, slow.device) == used.end())
      fail_usage("--set device", slow.device, ".slow: the plan does not use that device");
    conditions.slow += concat(conditions.slow.empty() ? "" : ",", slow.device, ":", slow.percent);
  }
  return conditions;
}

}  // namespace stagecraft
