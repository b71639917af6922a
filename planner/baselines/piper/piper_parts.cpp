#include "planner/baselines/piper/piper_parts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

double memory_of(const PiperChoice& choice, int in_flight) {
  return choice.memory_per_microbatch * in_flight + choice.memory_fixed;
}

}  // namespace

PiperParts::PiperParts(const PiperGraph& graph, const Lattice& lattice)
    : graph_(graph), inputs_(graph.nodes.size()), readers_(graph.nodes.size()) {
  std::set<int> degrees;
  for (const PiperNode& node : graph.nodes) {
    for (const auto& [degree, choices] : node.choices) degrees.insert(degree);
  }
  degrees_.assign(degrees.begin(), degrees.end());
  for (const PiperEdge& edge : graph.edges) {
    inputs_[index(edge.to)].emplace_back(edge.from, edge.bytes);
    readers_[index(edge.from)].emplace_back(edge.to, edge.bytes);
  }
  std::vector<int> reached(index(lattice.size()), -1);
  std::vector<int> queue;
  for (int below = 0; below < lattice.size(); ++below) {
    first_part_.push_back(parts_.size());
    queue.assign(1, below);
    for (std::size_t next = 0; next < queue.size(); ++next) {
      for (const LatticeStep& step : lattice.steps_from(queue[next])) {
        if (reached[index(step.to)] == below) continue;
        reached[index(step.to)] = below;
        queue.push_back(step.to);
        add_part(lattice, below, step.to);
      }
    }
  }
  first_part_.push_back(parts_.size());
}

std::span<const PiperPart> PiperParts::beginning_at(int below) const {
  const std::size_t first = first_part_[index(below)];
  return std::span(parts_).subspan(first, first_part_[index(below) + 1] - first);
}

void PiperParts::add_part(const Lattice& lattice, int below, int above) {
  const std::vector<int> nodes = lattice.difference(below, above);
  parts_.push_back({.above = above,
                    .first_node = nodes_.size(),
                    .end_node = nodes_.size() + nodes.size(),
                    .number = parts_.size()});
  nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
  is_inside_.assign(graph_.nodes.size(), 0);
  for (const int node : nodes) is_inside_[index(node)] = 1;
  for (const int node : nodes) {
    for (const int degree : degrees_) {
      std::array<double, 2> work{piper_unbounded, piper_unbounded};
      const auto choices = graph_.nodes[index(node)].choices.find(degree);
      for (std::size_t c = 0;
           choices != graph_.nodes[index(node)].choices.end() && c < choices->second.size(); ++c) {
        const PiperChoice& choice = choices->second[c];
        work[c] = choice.time + crossing(node, choice) / graph_.bandwidth;
      }
      work_.push_back(work);
    }
  }
  for (std::size_t degree = 0; degree < degrees_.size(); ++degree) {
    sums_.push_back(sums_of(parts_.back(), degree));
  }
}

double PiperParts::crossing(int node, const PiperChoice& choice) const {
  double bytes = 0;
  for (const auto& [from, edge] : inputs_[index(node)]) {
    if (is_inside_[index(from)] == 0) bytes += 2 * (edge + choice.sync_in.at(from));
  }
  for (const auto& [to, edge] : readers_[index(node)]) {
    if (is_inside_[index(to)] == 0) bytes += 2 * (edge + choice.sync_out.at(to));
  }
  return bytes;
}

PiperParts::NodeChoices PiperParts::choices_at(std::size_t entry, std::size_t degree) const {
  const auto& choices = graph_.nodes[index(nodes_[entry])].choices;
  const auto found = choices.find(degrees_[degree]);
  return {.choices = found == choices.end() ? nullptr : &found->second,
          .work = work_[entry * degrees_.size() + degree]};
}

PiperParts::Sums PiperParts::sums_of(const PiperPart& part, std::size_t degree) const {
  Sums sums{.is_possible = true, .is_alike = true};
  for (std::size_t entry = part.first_node; entry < part.end_node; ++entry) {
    const NodeChoices node = choices_at(entry, degree);
    if (node.choices == nullptr) return {};
    const PiperChoice& first = node.choices->front();
    const PiperChoice& last = node.choices->back();
    const std::size_t fast = fastest_choice(node, 1);
    sums.work += node.work[fast];
    sums.sync += std::min(sync_of(first), sync_of(last));
    sums.is_alike = sums.is_alike && first.parameters == last.parameters;
    sums.fast.per_microbatch += (*node.choices)[fast].memory_per_microbatch;
    sums.fast.fixed += (*node.choices)[fast].memory_fixed;
    sums.least.per_microbatch += std::min(first.memory_per_microbatch, last.memory_per_microbatch);
    sums.least.fixed += std::min(first.memory_fixed, last.memory_fixed);
  }
  return sums;
}

double PiperParts::sync_of(const PiperChoice& choice) const {
  return 4 * choice.parameters / graph_.microbatches / graph_.bandwidth;
}

double PiperParts::time_of(const NodeChoices& node, std::size_t choice, int replicas) const {
  return (node.work[choice] + sync_of((*node.choices)[choice]) * (replicas - 1)) / replicas;
}

std::size_t PiperParts::fastest_choice(const NodeChoices& node, int replicas) const {
  const bool has_two = node.choices->size() == 2;
  return has_two && time_of(node, 1, replicas) < time_of(node, 0, replicas) ? 1 : 0;
}

/// Numbers of devices have at most 20 bits.
std::uint64_t PiperParts::key(const PiperPart& part, std::size_t degree, int replicas) const {
  return (part.number * degrees_.size() + degree) << 20U | static_cast<std::uint64_t>(replicas);
}

PiperParts::Fastest PiperParts::fastest(const PiperPart& part, std::size_t degree,
                                        int replicas) const {
  const Sums& sums = sums_[part.number * degrees_.size() + degree];
  if (sums.is_alike) return {(sums.work + sums.sync * (replicas - 1)) / replicas, sums.fast};
  Fastest fastest;
  for (std::size_t n = part.first_node; n < part.end_node; ++n) {
    const NodeChoices node = choices_at(n, degree);
    const std::size_t c = fastest_choice(node, replicas);
    fastest.time += time_of(node, c, replicas);
    fastest.memory.per_microbatch += (*node.choices)[c].memory_per_microbatch;
    fastest.memory.fixed += (*node.choices)[c].memory_fixed;
  }
  return fastest;
}

Cover PiperParts::choose(const PiperPart& part, std::size_t degree, int replicas, int in_flight,
                         bool exactly, std::vector<int>* choices) const {
  std::vector<CoverItem> items;
  std::vector<std::size_t> entries;
  double memory = 0;
  for (std::size_t n = part.first_node; n < part.end_node; ++n) {
    const NodeChoices node = choices_at(n, degree);
    const std::size_t fast = fastest_choice(node, replicas);
    const double held = memory_of((*node.choices)[fast], in_flight);
    memory += held;
    if (choices != nullptr) choices->push_back(static_cast<int>(fast));
    if (node.choices->size() < 2) continue;
    const double saved = held - memory_of((*node.choices)[1 - fast], in_flight);
    if (saved <= 0) continue;
    items.push_back({time_of(node, 1 - fast, replicas) - time_of(node, fast, replicas), saved});
    entries.push_back(n - part.first_node);
  }
  const double needed = memory - graph_.memory;
  Cover cover = exactly ? least_cover(items, needed) : greedy_cover(items, needed);
  for (std::size_t i = 0; choices != nullptr && i < items.size(); ++i) {
    if (cover.taken[i] != 0) (*choices)[entries[i]] = 1 - (*choices)[entries[i]];
  }
  return cover;
}

/// Where choices differ in work alone, their differences shrink with the replicas, and one knapsack
/// serves all numbers of these.
bool PiperParts::is_fast_enough(const PiperPart& part, std::size_t degree, int replicas,
                                int in_flight, double time) {
  const bool is_alike = sums_[part.number * degrees_.size() + degree].is_alike;
  const int asked = is_alike ? 1 : replicas;
  const std::uint64_t place = key(part, degree, asked) << 20U;
  Added& added = added_[place | static_cast<std::uint64_t>(in_flight)];
  const double room = (time - fastest(part, degree, replicas).time) * (is_alike ? replicas : 1);
  const auto find = [&](bool exactly) {
    const Cover cover = choose(part, degree, asked, in_flight, exactly, nullptr);
    added = {.lower = cover.lower_bound, .upper = cover.cost, .is_final = exactly};
  };
  if (added.upper < 0) find(false);
  if (added.lower <= room && room < added.upper && !added.is_final) find(true);
  if (added.upper <= room) return true;
  if (added.lower > room) return false;
  has_unsettled_ = true;
  return optimistic_;
}

/// The most y, up to `most`, that leaves the memory within the limit; 0 if there is none.
int PiperParts::most_microbatches(const Memory& memory, double limit, int most) {
  const auto fits = [&](int y) { return memory.per_microbatch * y + memory.fixed <= limit; };
  if (fits(most)) return most;
  if (!fits(1)) return 0;
  int y = static_cast<int>((limit - memory.fixed) / memory.per_microbatch);
  while (!fits(y)) --y;
  return y;
}

int PiperParts::most_in_flight(const PiperPart& part, std::size_t degree, int replicas, double time,
                               int least, int most) {
  const Sums& sums = sums_[part.number * degrees_.size() + degree];
  if (!sums.is_possible) return 0;
  const double bound = (sums.work + sums.sync * (replicas - 1)) / replicas;
  if (bound > time * (1 + 1e-9)) return 0;
  const int possible = most_microbatches(sums.least, graph_.memory, most);
  if (possible < least) return 0;
  const Fastest fast = fastest(part, degree, replicas);
  if (fast.time > time) return 0;
  int good = most_microbatches(fast.memory, graph_.memory, most);
  int bad = possible + 1;
  if (good < least) {
    if (!is_fast_enough(part, degree, replicas, least, time)) return 0;
    good = least;
  }
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (is_fast_enough(part, degree, replicas, middle, time) ? good : bad) = middle;
  }
  return good;
}

PiperStage PiperParts::stage(const PiperPart& part, std::size_t degree, int replicas,
                             int in_flight) const {
  PiperStage stage{.nodes = {},
                   .choices = {},
                   .data_parallel = replicas,
                   .tensor_parallel = degrees_[degree],
                   .in_flight = in_flight};
  for (std::size_t n = part.first_node; n < part.end_node; ++n) stage.nodes.push_back(nodes_[n]);
  choose(part, degree, replicas, in_flight, true, &stage.choices);
  measure(graph_, stage);
  return stage;
}

}  // namespace stagecraft
