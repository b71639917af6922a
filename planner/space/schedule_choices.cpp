#include "planner/space/schedule_choices.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

constexpr std::array plain{"1f1b", "gpipe"};
constexpr std::array smaller_bubbles{"interleaved", "zb-h1", "zb-h2", "interleaved-zb", "zb-v"};
constexpr std::array rarer{"looped-bfs"};

std::vector<int> virtual_stages(const ScheduleKind& kind) {
  switch (kind.placement) {
    case StagePlacement::loop: return {2, 3, 4};
    case StagePlacement::wave: return {2, 4};
    default: return {fewest_virtual_stages(kind.placement)};
  }
}

template <class Names>
void add(std::vector<ScheduleChoice>& choices, const Names& names) {
  for (const std::string_view name : names) {
    for (const ScheduleChoice& choice : schedule_choices(name)) choices.push_back(choice);
  }
}

}  // namespace

bool is_only_simulated(const ScheduleChoice& choice) {
  constexpr std::array unknown{bpipe, dualpipev, seq1f1b, zb_auto, zbv_auto};
  const ScheduleKind& kind = find_schedule(choice.name);
  return kind.placement == StagePlacement::bidirectional ||
         std::ranges::find(unknown, kind.generate) != unknown.end();
}

bool cuts_microbatches(const ScheduleChoice& choice) {
  const auto generate = find_schedule(choice.name).generate;
  return generate == chimera_halving || generate == seq1f1b;
}

std::vector<ScheduleChoice> schedule_choices(std::string_view name) {
  const ScheduleKind& kind = find_schedule(name);
  std::vector<ScheduleChoice> choices;
  for (const int v : virtual_stages(kind)) {
    for (const int pieces : kind.generate == seq1f1b ? std::vector{2, 4, 8} : std::vector{1}) {
      choices.push_back({.name = std::string(kind.name),
                         .virtual_stages = v,
                         .group = {},
                         .sequence_chunks = pieces});
    }
  }
  return choices;
}

std::vector<ScheduleChoice> all_schedule_choices() {
  std::vector<ScheduleChoice> choices;
  add(choices, plain);
  add(choices, smaller_bubbles);
  return choices;
}

std::vector<ScheduleChoice> rarer_schedule_choices() {
  std::vector<ScheduleChoice> choices;
  add(choices, rarer);
  return choices;
}

std::vector<ScheduleChoice> finer_schedule_choices() {
  std::vector<ScheduleChoice> choices;
  for (const int per_device : {6, 8})
    choices.push_back({.name = "interleaved", .virtual_stages = per_device});
  return choices;
}

std::vector<ScheduleChoice> usual_schedule_choices(const Problem& problem) {
  constexpr int most_devices_of_rarer = 64;
  const int devices = problem.devices.value_or(device_count(problem.cluster)) -
                      static_cast<int>(problem.excluded.size());
  std::vector<ScheduleChoice> choices = all_schedule_choices();
  if (devices <= most_devices_of_rarer) add(choices, rarer);
  return choices;
}

std::vector<ScheduleChoice> plain_choices(std::vector<ScheduleChoice> choices) {
  const auto is_plain = [](const ScheduleChoice& choice) {
    return std::ranges::find(plain, choice.name) != plain.end();
  };
  if (std::ranges::any_of(choices, is_plain)) std::erase_if(choices, std::not_fn(is_plain));
  std::erase_if(choices, is_only_simulated);
  return choices.empty() ? schedule_choices(plain.front()) : choices;
}

}  // namespace stagecraft
