#include "tools/reports/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

namespace stagecraft {

using nlohmann::ordered_json;

namespace {

/// A part of a step, for JSON and for people.
struct Part {
  std::string_view field;
  std::string_view name;
  Duration Attribution::*time;
};
constexpr std::array parts{
    Part{"compute_ns", "compute", &Attribution::compute},
    Part{"recompute_ns", "recompute", &Attribution::recompute},
    Part{"fill_drain_ns", "fill and drain", &Attribution::fill_drain},
    Part{"imbalance_ns", "imbalance", &Attribution::imbalance},
    Part{"exposed_communication_ns", "communication", &Attribution::exposed_communication},
    Part{"waiting_memory_ns", "waiting for memory", &Attribution::waiting_memory},
    Part{"optimizer_ns", "optimizer", &Attribution::optimizer}};
constexpr auto idle_parts = std::array{parts[2], parts[3], parts[4], parts[5]};

double ratio(Duration part, Duration whole) {
  return whole.count() > 0 ? seconds(part) / seconds(whole) : 0;
}

Duration sum(const std::vector<Attribution>& devices, const Part& part) {
  Duration time{0};
  for (const Attribution& device : devices) time += device.*part.time;
  return time;
}

ordered_json run_json(const CriticalRun& run) {
  ordered_json json{{"round", run.round}, {"device", run.device}};
  if (run.peer) json["peer"] = *run.peer;
  json.update({{"op", to_string(run.op)},
               {"stage", run.stage},
               {"first_microbatch", run.first_microbatch},
               {"last_microbatch", run.last_microbatch},
               {"count", run.count},
               {"time_ns", run.time.count()}});
  return json;
}

int name_of(int device, const std::vector<int>& names) {
  return names.empty() ? device : names.at(static_cast<std::size_t>(device));
}

/// "gather parameters".
std::string in_words(Op op) {
  std::string words(to_string(op));
  std::ranges::replace(words, '_', ' ');
  return words;
}

/// "device 3", "link 0→1".
std::string place_of(const CriticalRun& run, const std::vector<int>& names, bool unicode) {
  const int device = name_of(run.device, names);
  if (!run.peer) return fmt::format("device {}", device);
  return fmt::format("link {}{}{}", device, unicode ? "→" : "->", name_of(*run.peer, names));
}

/// Where the path stays longest.
std::string longest_stay(const Explanation& explanation) {
  if (!explanation.path) return fmt::format("step {}", format_duration(explanation.step));
  std::map<std::string, Duration> stays;
  for (const CriticalRun& run : explanation.path->runs) {
    const std::string place =
        run.peer ? "messages"
                 : fmt::format("device {}", name_of(run.device, explanation.device_names));
    stays[place] += run.time;
  }
  const auto longest = std::max_element(
      stays.begin(), stays.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (longest == stays.end()) return "nothing takes any time";
  const bool plural = longest->first == "messages";
  return fmt::format("{} limit{} the step: the longest chain {} for {} of its {} ({})",
                     longest->first, plural ? "" : "s", plural ? "waits for them" : "is there",
                     format_duration(longest->second), format_duration(explanation.step),
                     percent(ratio(longest->second, explanation.step)));
}

/// "devices are idle for 27.3 % of it, most for fill and drain (25.0 %)".
std::string idle_sentence(const Explanation& explanation) {
  Duration idle{0};
  const Part* largest = &idle_parts.front();
  for (const Part& part : idle_parts) {
    const Duration time = sum(explanation.devices, part);
    idle += time;
    if (time > sum(explanation.devices, *largest)) largest = &part;
  }
  if (idle == Duration{0}) return "no device is ever idle";
  const Duration all = explanation.step * explanation.devices.size();
  return fmt::format("devices are idle for {} of it, most for {} ({})", percent(ratio(idle, all)),
                     largest->name, percent(ratio(sum(explanation.devices, *largest), all)));
}

}  // namespace

Explanation explain(const Program& program, const Costs& costs,
                    const std::optional<Environment>& environment) {
  Explanation explanation;
  if (environment) {
    explanation.devices = attribution(program, costs, *environment);
  } else {
    explanation.path = critical_path(program, costs);
    explanation.devices = attribution(program, costs);
  }
  if (!explanation.devices.empty()) explanation.step = total(explanation.devices.front());
  return explanation;
}

std::vector<char> longest_chain(const Program& program, const Costs& costs,
                                const std::optional<Environment>& environment,
                                const Timeline& timeline) {
  if (environment) return {};
  return on_path(critical_path(program, costs), program, timeline);
}

void add_explanation(ordered_json& result, const Explanation& explanation) {
  if (explanation.path) {
    ordered_json path = ordered_json::array();
    for (const CriticalRun& run : explanation.path->runs) path.push_back(run_json(run));
    result["critical_path"] = std::move(path);
  }
  ordered_json devices = ordered_json::array();
  for (std::size_t i = 0; i < explanation.devices.size(); ++i) {
    ordered_json device{{"device", i}};
    for (const Part& part : parts) {
      device[std::string(part.field)] = (explanation.devices[i].*part.time).count();
    }
    devices.push_back(std::move(device));
  }
  result["attribution"] = std::move(devices);
}

std::string shares_sentence(const std::vector<Attribution>& devices) {
  Duration all{0};
  for (const Attribution& device : devices) all += total(device);
  std::string text;
  for (const Part& part : parts) {
    const Duration time = sum(devices, part);
    if (time == Duration{0}) continue;
    text += fmt::format("{}{} {}", text.empty() ? "where the time goes: " : ", ", part.name,
                        percent(ratio(time, all)));
  }
  return text.empty() ? text : text + "\n";
}

std::vector<Effect> renamed(std::vector<Effect> effects, const std::vector<int>& device_names) {
  for (Effect& effect : effects) {
    const bool is_of_device = effect.lever == Lever::device || effect.lever == Lever::link;
    if (is_of_device) effect.index = name_of(effect.index, device_names);
    if (effect.lever == Lever::link) effect.to = name_of(effect.to, device_names);
  }
  return effects;
}

void add_what_if(ordered_json& result, const WhatIf& what_if) {
  ordered_json effects = ordered_json::array();
  for (const Effect& effect : what_if.effects) {
    if (effect.lever == Lever::channel) continue;  // links say the same for people and scripts
    effects.push_back({{"what", to_string(effect)},
                       {"step_ns", effect.step.count()},
                       {"elasticity", effect.elasticity}});
  }
  result["sensitivities"] = std::move(effects);
  if (!what_if.one_more) return;
  ordered_json more = ordered_json::array();
  ordered_json steps = ordered_json::array();
  for (const OneMore& one : *what_if.one_more) {
    more.push_back({{"device", nullptr}, {"with", one.with}, {"step_ns", one.step.count()}});
    if (!one.device) continue;
    more.back()["device"] = *one.device;
    steps.push_back(one.step.count());
  }
  result["one_more_in_flight"] = std::move(more);
  if (!steps.empty()) result["one_more_in_flight_step_ns"] = std::move(steps);
}

namespace {

/// "stage 2", "backward", "gather parameters of stage 0".
std::string in_words(const Effect& effect, const Program& program) {
  if (effect.lever == Lever::op) return in_words(effect.op);
  if (effect.lever != Lever::group) return to_string(effect);
  const Group& group = program.groups.at(static_cast<std::size_t>(effect.index));
  std::set<int> stages;
  for (const int chunk : group.chunks)
    stages.insert(program.chunks.at(static_cast<std::size_t>(chunk)).stage);
  return fmt::format("{} of stage{} {}", in_words(group.op), stages.size() == 1 ? "" : "s",
                     fmt::join(stages, ", "));
}

/// What people are not shown: it is told as +0.000 %.
constexpr double least_effect = 0.000005;
/// TableRows of effects that are read, the largest first.
constexpr std::size_t most_effects = 16;

}  // namespace

std::string effects_table(const WhatIf& what_if, const Program& program, TableRows rows,
                          bool unicode) {
  std::vector<Effect> effects;
  for (const Effect& effect : what_if.effects) {
    const bool shown = effect.lever == Lever::stage || effect.lever == Lever::op ||
                       effect.lever == Lever::link || effect.lever == Lever::group;
    const double change = std::abs(ratio(effect.step, what_if.step) - 1);
    if (shown && change >= least_effect) effects.push_back(effect);
  }
  std::stable_sort(effects.begin(), effects.end(),
                   [](const Effect& a, const Effect& b) { return a.step > b.step; });
  const auto change_of = [&](const Effect& effect) {
    return fmt::format("{:+.3f} %", 100 * (ratio(effect.step, what_if.step) - 1));
  };
  const std::size_t count = effects.size();
  const bool is_cut = rows == TableRows::together && count > most_effects;
  Table table({"1 % more of", ">step", ">change"});
  for (std::size_t i = 0; i < (is_cut ? most_effects : count); ++i)
    table.row(
        {in_words(effects[i], program), format_duration(effects[i].step), change_of(effects[i])});
  if (!is_cut) return table.text(unicode);
  return table.text(unicode) + fmt::format("and {} that change it by {} or less; -v has them\n",
                                           count - most_effects, change_of(effects[most_effects]));
}

std::string one_more_sentence(const WhatIf& what_if) {
  if (!what_if.one_more) return "";
  const std::vector<OneMore>& all = *what_if.one_more;
  if (all.empty()) return "no setting of this schedule trades memory for time\n";
  const auto best = std::min_element(
      all.begin(), all.end(), [](const OneMore& a, const OneMore& b) { return a.step < b.step; });
  if (best->step >= what_if.step) {
    return best->device ? "no device gains from memory for one more microbatch in flight\n"
                        : fmt::format("nothing is gained with {}\n", best->with);
  }
  const std::string where =
      best->device ? fmt::format("memory for one more microbatch on device {}", *best->device)
                   : fmt::format("with {}", best->with);
  return fmt::format("{}: step {} ({:+.3f} %)\n", where, format_duration(best->step),
                     100 * (ratio(best->step, what_if.step) - 1));
}

std::string limits_sentence(const Explanation& explanation) {
  return longest_stay(explanation) + "; " + idle_sentence(explanation) + "\n";
}

namespace {

/// TableRows of a longest chain that are read one by one.
constexpr std::size_t most_runs = 32;
/// Devices whose rows are read one by one, as in drawings.
constexpr std::size_t most_single_rows = 16;

/// One row of the chain's table.
struct ChainRow {
  CriticalRun run;
  int last_round = 0;
  std::string where;  ///< empty: where the run is
  std::string what;   ///< empty: what the run does
};

/// While the chain stays on one device, a row for each kind of work, unless that hardly makes them
/// fewer; all of them have the first round.
std::vector<CriticalRun> stays_together(const std::vector<CriticalRun>& runs,
                                        std::map<int, int>& last_rounds) {
  std::vector<CriticalRun> together;
  for (std::size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    const CriticalRun& first = runs[begin];
    for (end = begin + 1; end < runs.size(); ++end) {
      const CriticalRun& run = runs[end];
      if (run.device != first.device || run.peer != first.peer) break;
    }
    std::vector<CriticalRun> kinds;
    for (std::size_t i = begin; i < end; ++i) {
      const CriticalRun& run = runs[i];
      const auto alike = std::ranges::find_if(kinds, [&](const CriticalRun& other) {
        return other.op == run.op && other.stage == run.stage;
      });
      if (alike == kinds.end()) {
        kinds.push_back(run);
        continue;
      }
      alike->first_microbatch = std::min(alike->first_microbatch, run.first_microbatch);
      alike->last_microbatch = std::max(alike->last_microbatch, run.last_microbatch);
      alike->count += run.count;
      alike->time += run.time;
    }
    if (2 * kinds.size() > end - begin) {
      together.insert(together.end(), runs.begin() + static_cast<std::ptrdiff_t>(begin),
                      runs.begin() + static_cast<std::ptrdiff_t>(end));
      continue;
    }
    last_rounds[first.round] = runs[end - 1].round;
    for (CriticalRun& kind : kinds) kind.round = first.round;
    together.insert(together.end(), kinds.begin(), kinds.end());
  }
  return together;
}

/// The way of one microbatch through the stages, with its messages: forwards lead one way,
/// backwards the other. What leads nowhere has none.
enum class Way { none, forward, backward };

Way way_of(const CriticalRun& run) {
  if (run.count != 1) return Way::none;
  const auto is_one_of = [&](std::initializer_list<Op> ops) {
    return std::ranges::find(ops, run.op) != ops.end();
  };
  if (is_one_of({Op::forward, Op::send_activation})) return Way::forward;
  return is_one_of({Op::backward, Op::backward_input, Op::recompute, Op::send_gradient})
             ? Way::backward
             : Way::none;
}

/// "backwards of 7 stages with recomputation and messages".
ChainRow way_together(std::span<const CriticalRun> runs) {
  ChainRow row{.run = runs.front(), .last_round = runs.back().round, .where = {}, .what = {}};
  std::set<int> devices, stages;
  bool recomputes = false, sends = false;
  row.run.count = 0;
  row.run.time = Duration{0};
  for (const CriticalRun& run : runs) {
    row.run.first_microbatch = std::min(row.run.first_microbatch, run.first_microbatch);
    row.run.last_microbatch = std::max(row.run.last_microbatch, run.last_microbatch);
    row.run.count += run.count;
    row.run.time += run.time;
    recomputes = recomputes || run.op == Op::recompute;
    sends = sends || run.peer.has_value();
    if (run.peer) continue;
    devices.insert(run.device);
    stages.insert(run.stage);
  }
  row.where = devices.size() == 1 ? "" : number_of(std::ssize(devices), "device");
  row.what = fmt::format(
      "{} of {}{}{}{}", way_of(runs.front()) == Way::forward ? "forwards" : "backwards",
      number_of(std::ssize(stages), "stage"), recomputes || sends ? " with " : "",
      recomputes ? (sends ? "recomputation and " : "recomputation") : "", sends ? "messages" : "");
  return row;
}

/// A row for each kind of work of a stay on one device, and one for each way through the stages.
std::vector<ChainRow> chain_rows(const std::vector<CriticalRun>& all) {
  std::map<int, int> last_rounds;  // of stays, by their first
  const std::vector<CriticalRun> runs = stays_together(all, last_rounds);
  constexpr std::size_t least = 4;  // of a way
  std::vector<ChainRow> rows;
  for (std::size_t begin = 0; begin < runs.size();) {
    const auto is_alone = [&](std::size_t i) {
      return (i == 0 || runs[i - 1].round != runs[i].round) &&
             (i + 1 == runs.size() || runs[i + 1].round != runs[i].round);
    };
    std::size_t end = begin;
    while (end < runs.size() && is_alone(end) && way_of(runs[end]) != Way::none &&
           way_of(runs[end]) == way_of(runs[begin])) {
      ++end;
    }
    if (end - begin >= least) {
      rows.push_back(way_together(std::span(runs).subspan(begin, end - begin)));
    } else {
      end = begin + 1;
      const CriticalRun& run = runs[begin];
      const auto stay = last_rounds.find(run.round);
      rows.push_back({.run = run,
                      .last_round = stay == last_rounds.end() ? run.round : stay->second,
                      .where = {},
                      .what = {}});
    }
    begin = end;
  }
  return rows;
}

std::string range_of(int first, int last, std::string_view between) {
  return first == last ? std::to_string(first) : fmt::format("{}{}{}", first, between, last);
}

}  // namespace

std::string critical_path_table(const Explanation& explanation, TableRows rows, bool unicode) {
  const std::vector<CriticalRun>& runs = explanation.path->runs;
  std::vector<ChainRow> shown;
  if (rows == TableRows::together && runs.size() > most_runs) {
    shown = chain_rows(runs);
  } else {
    for (const CriticalRun& run : runs)
      shown.push_back({.run = run, .last_round = run.round, .where = {}, .what = {}});
  }
  Table table({">round", "where", "what", "microbatches", ">times", ">time"});
  for (const auto& [run, last_round, where, what] : shown) {
    table.row({range_of(run.round, last_round, "-"),
               where.empty() ? place_of(run, explanation.device_names, unicode) : where,
               what.empty() ? fmt::format("{} of stage {}", in_words(run.op), run.stage) : what,
               range_of(run.first_microbatch, run.last_microbatch, ".."), std::to_string(run.count),
               format_duration(run.time)});
  }
  if (shown.size() == runs.size()) return table.text(unicode);
  return table.text(unicode) +
         fmt::format("{} passes and messages are in {} rows; -v has a row for each\n", runs.size(),
                     shown.size());
}

std::string attribution_table(const Explanation& explanation, TableRows rows, bool unicode) {
  const std::vector<Attribution>& devices = explanation.devices;
  std::vector<Part> shown;
  std::vector<std::string> headings{">device"};
  for (const Part& part : parts) {
    if (sum(devices, part) == Duration{0}) continue;
    shown.push_back(part);
    headings.push_back(fmt::format(">{}", part.name));
  }
  // Of each row, its first device, and how many more have the same times.
  std::vector<std::pair<std::size_t, int>> groups;
  const bool together = rows == TableRows::together && devices.size() > most_single_rows;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto alike =
        together
            ? std::ranges::find_if(
                  groups, [&](const auto& group) { return devices[group.first] == devices[i]; })
            : groups.end();
    if (alike == groups.end()) {
      groups.emplace_back(i, 1);
    } else {
      ++alike->second;
    }
  }
  Table table(headings);
  for (const auto& [first, count] : groups) {
    const int name = name_of(static_cast<int>(first), explanation.device_names);
    std::vector<std::string> cells{count == 1
                                       ? std::to_string(name)
                                       : fmt::format("{} {}{}", name, unicode ? "×" : "x", count)};
    for (const Part& part : shown) {
      const Duration time = devices[first].*part.time;
      cells.push_back(fmt::format("{} {:>6}", format_duration(time),
                                  percent(ratio(time, total(devices[first])))));
    }
    table.row(std::move(cells));
  }
  return table.text(unicode);
}

}  // namespace stagecraft
