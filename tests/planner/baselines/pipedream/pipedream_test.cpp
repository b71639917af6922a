#include "planner/baselines/pipedream/pipedream.hpp"

#include <cmath>
#include <map>

#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "profiles/infinite.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

// --- Their model once more, straight from the formulas, without any search ---

struct Cut {
  unsigned layers = 0;  ///< a bit per layer
  double compute = 0, activations = 0, parameters = 0, output = 0;
};

/// All that a layer depends on, as bits.
std::vector<unsigned> needs_of(const Model& model) {
  std::vector<unsigned> needs(model.layers.size());
  for (std::size_t layer = 0; layer < needs.size(); ++layer) {
    for (const Edge& edge : model.edges) {
      if (edge.to != static_cast<int>(layer)) continue;
      needs[layer] |= needs[static_cast<std::size_t>(edge.from)] | 1U << edge.from;
    }
  }
  return needs;
}

/// Sets that hold what their layers read, and hang together around the first layer.
bool is_cut(const Model& model, unsigned set, const std::vector<unsigned>& needs) {
  if ((set & 1) == 0) return false;
  for (std::size_t layer = 0; layer < needs.size(); ++layer) {
    if ((set >> layer & 1) != 0 && (needs[layer] & ~set) != 0) return false;
  }
  unsigned connected = 1;
  for (unsigned before = 0; before != connected;) {
    before = connected;
    for (const Edge& edge : model.edges) {
      const unsigned ends = 1U << edge.from | 1U << edge.to;
      if ((ends & ~set) == 0 && (ends & connected) != 0) connected |= ends;
    }
  }
  return connected == set;
}

/// What crosses: ends of the set, and what is read outside of an end and of what that depends on.
bool crosses(const Model& model, unsigned set, const std::vector<unsigned>& needs,
             std::size_t layer) {
  bool is_end = true;
  bool is_open = false;
  for (const Edge& edge : model.edges) {
    if (edge.from != static_cast<int>(layer)) continue;
    if ((set >> edge.to & 1) != 0) is_end = false;
    for (std::size_t end = 0; end < needs.size(); ++end) {
      bool read_inside = false;
      for (const Edge& other : model.edges) {
        if (other.from == static_cast<int>(end) && (set >> other.to & 1) != 0) read_inside = true;
      }
      const bool of_end = (set >> end & 1) != 0 && !read_inside && (needs[end] >> layer & 1) != 0;
      if (of_end && edge.to != static_cast<int>(end) && (needs[end] >> edge.to & 1) == 0) {
        is_open = true;
      }
    }
  }
  return is_end || is_open;
}

std::vector<Cut> cuts_of(const Profile& profile) {
  const std::vector<LayerCost>& costs = profile.entries.front().layers;
  const std::vector<unsigned> needs = needs_of(profile.model);
  std::vector<Cut> cuts;
  for (unsigned set = 1; set < 1U << costs.size(); ++set) {
    if (!is_cut(profile.model, set, needs)) continue;
    Cut cut{.layers = set};
    for (std::size_t layer = 0; layer < costs.size(); ++layer) {
      if ((set >> layer & 1) == 0) continue;
      cut.compute += seconds(costs[layer].forward + costs[layer].backward());
      cut.activations += static_cast<double>(costs[layer].output + costs[layer].saved);
      cut.parameters += static_cast<double>(costs[layer].parameters);
      if (crosses(profile.model, set, needs, layer)) {
        cut.output += static_cast<double>(costs[layer].output);
      }
    }
    cuts.push_back(cut);
  }
  return cuts;  // ascending, so subsets come first
}

/// The least over all pipelines from one cut to another on exactly `machines` of the outermost of
/// these levels, each tried.
class EveryPipeline {
 public:
  EveryPipeline(std::vector<Cut> cuts, PipedreamRules rules, std::vector<PipedreamLevel> levels)
      : cuts_(std::move(cuts)), rules_(rules), levels_(std::move(levels)) {}

  double best() {
    const auto level = static_cast<int>(levels_.size()) - 1;
    const int all = levels_.back().machines;
    double least = infinite;
    for (int machines = rules_.fewer_machines ? 1 : all; machines <= all; ++machines) {
      least = std::min(least, best(level, -1, static_cast<int>(cuts_.size()) - 1, machines));
    }
    return least;
  }

 private:
  /// The time of the best pipeline on a whole unit of the level.
  double unit_time(int level, int from, int to) {
    if (level < 0) return difference(&Cut::compute, from, to);
    return best(level, from, to, levels_[static_cast<std::size_t>(level)].machines);
  }

  double best(int level, int from, int to, int machines) {
    const std::array key{level, from, to, machines};
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    const double least = try_all(level, from, from, to, machines, 0, 0);
    return known_[key] = least;
  }

  /// The rest of a pipeline that has come to `from`, `used` machines and time `slowest`.
  double try_all(int level, int start, int from, int to, int machines, int used, double slowest) {
    if (from == to) return used == machines ? slowest : infinite;
    double least = infinite;
    for (int next = from + 1; next <= to; ++next) {
      if (from >= 0 && (cut(from).layers & ~cut(next).layers) != 0) continue;
      if (next != to && (cut(next).layers & ~cut(to).layers) != 0) continue;
      const int most = rules_.straight ? 1 : machines - used;
      for (int m = 1; m <= std::min(most, machines - used); ++m) {
        const double time = stage(level, start, from, next, m, used + m);
        if (time == infinite) continue;
        least = std::min(
            least, try_all(level, start, next, to, machines, used + m, std::max(slowest, time)));
      }
    }
    return least;
  }

  double stage(int level, int start, int from, int to, int m, int used) {
    const PipedreamLevel& here = levels_[static_cast<std::size_t>(level)];
    const bool first = from == start;
    const double weights = difference(&Cut::parameters, from, to);
    const double copies = std::ceil(static_cast<double>(here.machines - (first ? m : used)) / m);
    const double stash = copies * (difference(&Cut::activations, from, to) + weights);
    if (rules_.memory && stash > *rules_.memory) return infinite;
    const double compute = unit_time(level - 1, from, to);
    const bool released = rules_.cost == PipedreamCost::released;
    double traffic = (released ? 4 : 2) * (m - 1) * weights / (here.bandwidth * m);
    if (first && level > 0) {
      traffic /= levels_[static_cast<std::size_t>(level) - 1].machines;
    }
    double time = (released ? compute + traffic : std::max(compute, traffic)) / m;
    if (first || !rules_.charges_activations) return time;
    time = std::max(time, 2 * cut(from).output / (here.bandwidth * m));
    const bool last = to == static_cast<int>(cuts_.size()) - 1;
    return last ? time : std::max(time, 2 * cut(to).output / (here.bandwidth * m));
  }

  const Cut& cut(int i) const { return cuts_[static_cast<std::size_t>(i)]; }
  double difference(double Cut::*figure, int from, int to) const {
    return cut(to).*figure - (from < 0 ? 0 : cut(from).*figure);
  }

  std::vector<Cut> cuts_;
  PipedreamRules rules_;
  std::vector<PipedreamLevel> levels_;
  std::map<std::array<int, 4>, double> known_;
};

Profile random_chain(Random& random, int most) {
  std::vector<LayerCost> costs;
  const int layers = random.between(1, most);
  for (int i = 0; i < layers; ++i) costs.push_back(random_cost(random));
  return profile_of(std::move(costs));
}

/// Layers that read one to three of those before, so that all depend on the first; sometimes with
/// further sources.
Profile random_graph(Random& random, int most) {
  Profile profile = random_chain(random, most);
  profile.model.edges.clear();
  for (int to = 1; to < static_cast<int>(profile.model.layers.size()); ++to) {
    if (random.chance(10)) continue;
    for (int from = 0; from < to; ++from) {
      if (from == to - 1 ? random.chance(70) : random.chance(25)) {
        profile.model.edges.push_back({from, to});
      }
    }
  }
  return profile;
}

PipedreamRules random_rules(Random& random) {
  PipedreamRules rules;
  if (random.chance(40)) rules.cost = PipedreamCost::paper;
  rules.charges_activations = random.chance(70);
  rules.straight = random.chance(20);
  if (random.chance(40)) rules.memory = random.between(2000, 60000);
  return rules;
}

PipedreamLevel random_level(Random& random, int most) {
  return {random.between(1, most), random.chance(5) ? infinite : 2e7 * random.between(1, 20)};
}

std::optional<PipedreamPlan> plan_of(const Profile& profile, const PipedreamRules& rules,
                                     const std::vector<PipedreamLevel>& levels) {
  const auto states =
      pipedream_states(profile.model, profile.entries.front().layers, 0, 1000).value();
  return pipedream_plan(states, rules, levels, static_cast<int>(profile.model.layers.size()));
}

void check_against_every_pipeline(const Profile& profile, const PipedreamRules& rules,
                                  const std::vector<PipedreamLevel>& levels) {
  const double expected = EveryPipeline(cuts_of(profile), rules, levels).best();
  const auto plan = plan_of(profile, rules, levels);
  if (expected == infinite) {
    CHECK_FALSE(plan);
  } else {
    REQUIRE(plan);
    CHECK(plan->time == Approx(expected).epsilon(1e-9).margin(0));
  }
}

}  // namespace

TEST_CASE("PipeDream: the search finds the best of all pipelines of chains", "[pipedream]") {
  Random random(1);
  for (int i = 0; i < 4000; ++i) {
    INFO("case " << i);
    const Profile profile = random_chain(random, 8);
    const PipedreamRules rules = random_rules(random);
    check_against_every_pipeline(profile, rules, {random_level(random, 6)});
  }
}

TEST_CASE("PipeDream: the search finds the best of all pipelines of branching models",
          "[pipedream]") {
  Random random(2);
  for (int i = 0; i < 4000; ++i) {
    INFO("case " << i);
    const Profile profile = random_graph(random, 7);
    PipedreamRules rules = random_rules(random);
    rules.fewer_machines = !rules.memory && random.chance(20);
    const PipedreamLevel level = random_level(random, 5);
    // Theirs lets machines idle only where there is something to cut.
    if (cuts_of(profile).size() == 1) rules.fewer_machines = false;
    check_against_every_pipeline(profile, rules, {level});
  }
}

TEST_CASE("PipeDream: nested networks have the best of all nested pipelines of chains",
          "[pipedream]") {
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    INFO("case " << i);
    const Profile profile = random_chain(random, 6);
    const PipedreamRules rules = random_rules(random);
    std::vector<PipedreamLevel> levels{random_level(random, 3), random_level(random, 3)};
    if (random.chance(10)) levels.push_back(random_level(random, 2));
    check_against_every_pipeline(profile, rules, levels);
  }
}
