#include "tools/options/change_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t most_points = 10'000;
constexpr std::int64_t most_integer = std::int64_t{1} << 40;

/// Each value of a list or range, as a change of its own.
std::vector<Change> values_of(const Change& change) {
  const std::string flag = "--set " + change.key;
  std::vector<Change> values;
  if (takes_integers(change)) {
    for (const std::string& word : read_words(flag, change.value)) {
      const std::string text = change.key == "sequence" ? with_thousands_written_out(word) : word;
      for (const std::int64_t value : read_integers(flag, text, 1, most_integer))
        values.push_back({change.key, std::to_string(value)});
    }
    return values;
  }
  for (const std::string& word : read_words(flag, change.value))
    values.push_back({change.key, word});
  return values;
}

}  // namespace

void declare_changes(CLI::App& app, ChangeFlags& flags) {
  std::string keys = "Keys of --set, by an example of each:\n";
  for (const ChangeKind& kind : change_kinds()) {
    constexpr std::size_t width = 24;
    keys += concat("  ", kind.example, std::string(width - kind.example.size(), ' '), kind.summary,
                   "\n");
  }
  app.footer(keys);
  app.add_option(
         "--set", flags.set,
         "Give a value of the plan another one: KEY=VALUE, as often as needed; simulate and "
         "compare also take a list or range (tp=1,2,4), and print a row for each value")
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
    const std::vector<Change> values = values_of(read_change(text));
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
