// Why nothing moves any more: from what waits to what it waits for, until that comes up again (a
// cycle) or waits for nothing (a device that has stopped, a work that nobody issues).

#include <algorithm>
#include <map>

#include "profiles/error.hpp"
#include "simulator/engines/events/engine.hpp"

namespace stagecraft::events {

bool Engine::has_come(int named, Moment moment) const {
  const Span& span = span_[index(engine_id(named))];
  return (moment == Moment::start ? span.start : span.end) != unknown;
}

Engine::Cause Engine::cause(int named) const {
  const int node = named % places_.nodes;
  const int id = engine_id(named);
  if (unmet_[index(id)] > 0) return unmet_wait(named);
  if (at(slot_of(id)).kind == Kind::receive) {
    return {named - node + precedence_.send_of[index(node)], to_string(Why::data)};
  }
  for (const int work : members_of(node)) {
    const Device& device = devices_[index(precedence_.device_of(work))];
    if (device.stops > 0) return {nobody, "has stopped"};
    if (device.wants_memory == id) return missing_memory(named);
  }
  return {nobody, "is never issued"};
}

Engine::Cause Engine::unmet_wait(int named) const {
  const int node = named % places_.nodes;
  for (const Arc& arc : precedence_.arcs) {
    const int from = named - node + arc.from - arc.later * places_.nodes;
    if (arc.to == node && from >= 0 && !has_come(from, arc.moment)) {
      return {from, to_string(arc.why)};
    }
  }
  return {nobody, "is never issued"};
}

/// The first work of its device that will free some.
Engine::Cause Engine::missing_memory(int named) const {
  const int node = named % places_.nodes;
  for (const int work : program_.order[index(precedence_.device_of(node))]) {
    const int leader = precedence_.leader[index(work)];
    const int other = named - node + leader;
    if (leader != node && open(other) && precedence_.work(work).frees.size() > 0) {
      return {other, "needs memory that is freed by"};
    }
  }
  return {nobody, "needs more memory than its device has"};
}

/// The first entry has no cause; the last one ends the story or repeats an earlier one.
std::vector<Engine::Cause> Engine::chain_from(int named) const {
  std::vector<Cause> chain{{named, ""}};
  std::vector<char> seen(index(total_), 0);
  while (chain.back().id != nobody && seen[index(chain.back().id)] == 0) {
    seen[index(chain.back().id)] = 1;
    chain.push_back(cause(chain.back().id));
  }
  return chain;
}

std::string Engine::name(int named) const {
  const int work = named % places_.nodes;
  const int device = precedence_.device_of(work);
  return concat(
      to_string(precedence_.work(work).instruction), " on device ",
      environment_.device_names.empty() ? device : environment_.device_names[index(device)]);
}

/// "A, which waits for B, which comes after C": points are left out, what leads to them stays.
std::string Engine::text_of(const std::vector<Cause>& chain, std::size_t first) const {
  std::string text;
  std::string_view how;
  for (std::size_t i = first; i < chain.size(); ++i) {
    if (how.empty()) how = chain[i].how;
    if (chain[i].id == nobody) return text + concat(", which ", chain[i].how);
    if (precedence_.is_point(chain[i].id % places_.nodes)) continue;
    if (!text.empty()) text += concat(", which ", how, " ");
    text += name(chain[i].id);
    how = "";
  }
  return text;
}

std::optional<std::string> Engine::stranded(int device) const {
  for (int base = 0; base < total_; base += places_.nodes) {
    for (const int work : program_.order[index(device)]) {
      const int named = base + precedence_.leader[index(work)];
      if (open(named)) return text_of(chain_from(named), 0);
    }
  }
  return {};
}

bool Engine::has_stopped() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const Device& device) { return device.stops > 0; });
}

void Engine::fail_stuck() const {
  const auto waits = [&](int named) {
    const int node = named % places_.nodes;
    return !precedence_.is_point(node) && is_node(node) && open(named);
  };
  int first = 0;
  while (!waits(first)) ++first;
  const std::vector<Cause> chain = chain_from(first);
  if (chain.back().id == nobody) {
    throw Error(ErrorKind::check, "simulate: the program cannot go on: " + text_of(chain, 0));
  }
  // What comes before the first mention of the last only leads to the cycle. Points do not show, so
  // it is turned until it begins with a work.
  const auto same = [&](const Cause& link) { return link.id == chain.back().id; };
  const auto begin = std::find_if(chain.begin(), chain.end(), same);
  std::vector<Cause> cycle(begin, chain.end() - 1);
  cycle.front().how = chain.back().how;
  const auto is_work = [&](const Cause& link) {
    return !precedence_.is_point(link.id % places_.nodes);
  };
  std::rotate(cycle.begin(), std::find_if(cycle.begin(), cycle.end(), is_work), cycle.end());
  cycle.push_back(cycle.front());
  throw Error(ErrorKind::check, "simulate: devices wait for each other: " + text_of(cycle, 0));
}

}  // namespace stagecraft::events
