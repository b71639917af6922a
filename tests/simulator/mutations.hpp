// Programs made wrong on purpose.

#pragma once

#include <algorithm>
#include <string>

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

namespace stagecraft::tests {

/// Device 0 wants the first microbatch's backward before it sends the second one's forward, device
/// 1 wants both forwards first.
inline Schedule circular_schedule() {
  return {
      .name = "circular",
      .stages = 2,
      .microbatches = 2,
      .device_of_stage = {0, 1},
      .devices = {
          {{Op::forward, 0, 0}, {Op::backward, 0, 0}, {Op::forward, 0, 1}, {Op::backward, 0, 1}},
          {{Op::forward, 1, 0}, {Op::forward, 1, 1}, {Op::backward, 1, 0}, {Op::backward, 1, 1}}}};
}

/// The first work of this name, on any device.
inline int find_work(const Program& program, const std::string& name) {
  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    if (to_string(program.work[index(i)].instruction) == name) return i;
  }
  FAIL("no " << name);
  return 0;
}

/// The work of this name on one device.
inline int find_work(const Program& program, const std::string& name, int device) {
  for (const int work : program.order[index(device)]) {
    if (to_string(program.work[index(work)].instruction) == name) return work;
  }
  FAIL("no " << name << " on device " << device);
  return 0;
}

inline void swap_in_order(Program& program, int a, int b) {
  auto& order = program.order[index(device_of(program, a))];
  std::iter_swap(std::find(order.begin(), order.end(), a),
                 std::find(order.begin(), order.end(), b));
}

/// `work` waits for `on` no longer.
inline void drop_wait(Program& program, int work, int on) {
  IndexRange& waits = program.work[index(work)].waits;
  const auto begin = program.waits.begin() + waits.first;
  const auto end = program.waits.begin() + waits.end;
  const auto place = std::find(begin, end, on);
  REQUIRE(place != end);
  std::iter_swap(place, end - 1);
  --waits.end;
}

inline void add_wait(Program& program, int work, int on) {
  const IndexRange old = program.work[index(work)].waits;
  const int first = static_cast<int>(program.waits.size());
  for (int i = old.first; i < old.end; ++i) program.waits.push_back(program.waits[index(i)]);
  program.waits.push_back(on);
  program.work[index(work)].waits = {first, static_cast<int>(program.waits.size())};
}

/// The program without this work, as if it had never been there.
inline Program without(const Program& program, int dropped) {
  Program result = program;
  const auto renumber = [dropped](int work) { return work > dropped ? work - 1 : work; };
  result.waits.clear();
  for (Work& work : result.work) {
    const int first = static_cast<int>(result.waits.size());
    for (int i = work.waits.first; i < work.waits.end; ++i) {
      if (program.waits[index(i)] != dropped)
        result.waits.push_back(renumber(program.waits[index(i)]));
    }
    work.waits = {first, static_cast<int>(result.waits.size())};
  }
  result.work.erase(result.work.begin() + dropped);
  std::erase_if(result.carried, [&](const CarriedWait& wait) {
    return wait.work == dropped || wait.on == dropped;
  });
  for (CarriedWait& wait : result.carried) wait = {renumber(wait.work), renumber(wait.on)};
  for (auto& order : result.order) {
    order.erase(std::remove(order.begin(), order.end(), dropped), order.end());
    std::transform(order.begin(), order.end(), order.begin(), renumber);
  }
  return result;
}

/// The same work once more, right after the first; it allocates and frees nothing.
inline void repeat(Program& program, int work) {
  Work copy = program.work[index(work)];
  copy.allocates = copy.frees = {};
  auto& order = program.order[index(device_of(program, work))];
  const auto place = std::find(order.begin(), order.end(), work);
  order.insert(place + 1, static_cast<int>(program.work.size()));
  program.work.push_back(copy);
}

}  // namespace stagecraft::tests
