#include "tools/reports/page_what_if.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "planner/analysis/changes.hpp"
#include "planner/costs/compile.hpp"
#include "planner/costs/cost_program.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "tools/reports/page_packing.hpp"
#include "tools/reports/page_program.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

/// All programs of a page together have at most so many instructions, the plan's own apart.
constexpr std::size_t most_instructions = 1'200'000;

/// A plan with other values, and its program.
struct Variant {
  int microbatches = 1;
  std::size_t recompute = 0;  ///< place among the ways
  Plan plan;
  Compiled compiled;
};

/// A way to recompute; `set` is empty for what the plan does.
struct RecomputeWay {
  std::string name;
  std::vector<Change> set;
};

/// What the change gives; nothing where it is refused, whose reason is kept.
std::optional<LoadedPlan> with_changes(const LoadedPlan& loaded, const std::vector<Change>& changes,
                                       std::set<std::string>& refused) {
  try {
    return changed(loaded, changes).loaded;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;
    refused.insert(error.message());
    return {};
  }
}

/// The plan's own first.
std::vector<RecomputeWay> recompute_ways_of(const LoadedPlan& loaded) {
  std::vector<RecomputeWay> ways{{.name = "as planned", .set = {}}};
  if (serves(loaded.plan)) return ways;  // without backwards nothing is done again
  std::set<std::string> refused;
  for (const std::string name : {"none", "selective", "full"}) {
    if (name == "selective" && !loaded.profile.model.transformer) continue;
    const std::vector<Change> set{{"recompute", name}};
    const auto other = with_changes(loaded, set, refused);
    if (!other) continue;
    if (other->plan.stages == loaded.plan.stages) {
      ways.front().name = name;
    } else {
      ways.push_back({name, set});
    }
  }
  return ways;
}

/// Around the plan's own number, which comes first.
std::vector<int> microbatch_counts(int now) {
  std::vector<int> counts{now};
  for (const auto& [times, divisor] :
       {std::pair{1, 4}, {1, 2}, {3, 4}, {3, 2}, {2, 1}, {3, 1}, {4, 1}}) {
    const std::int64_t count = std::int64_t{now} * times / divisor;
    const bool is_whole = std::int64_t{now} * times % divisor == 0;
    if (is_whole && count >= 1 && count <= 1'000'000) counts.push_back(static_cast<int>(count));
  }
  return counts;
}

std::vector<Change> changes_of(const LoadedPlan& loaded, int microbatches,
                               const RecomputeWay& way) {
  std::vector<Change> changes = way.set;
  if (microbatches != loaded.plan.batch.microbatches) {
    changes.push_back({"batch", std::to_string(loaded.plan.batch.microbatch * microbatches)});
  }
  return changes;
}

/// All that the schedule takes, the plan as it is first.
std::vector<Variant> variants_of(const LoadedPlan& loaded, const Compiled& compiled, bool folds,
                                 const std::vector<RecomputeWay>& ways,
                                 std::set<std::string>& refused) {
  std::vector<Variant> variants;
  std::size_t instructions = 0;
  const int now = loaded.plan.batch.microbatches;
  for (const int count : microbatch_counts(now)) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (variants.empty()) {
        variants.push_back({count, way, loaded.plan, compiled});
        continue;
      }
      const std::size_t expected = compiled.program.work.size() * index(count) / index(now);
      if (instructions + expected > most_instructions) continue;
      const auto other = with_changes(loaded, changes_of(loaded, count, ways[way]), refused);
      if (!other) continue;
      try {
        variants.push_back({count, way, other->plan, compile_for_page(*other, folds)});
        instructions += variants.back().compiled.program.work.size();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::bug) throw;
        refused.insert(error.message());
      }
    }
  }
  return variants;
}

/// Whose costs are the same whatever the bandwidths: the same tables for the same layers.
bool costs_alike(const Variant& a, const Variant& b) {
  const Program& one = a.compiled.program;
  const Program& other = b.compiled.program;
  return a.recompute == b.recompute && one.chunks == other.chunks &&
         one.channels == other.channels && one.groups == other.groups &&
         a.compiled.costs == b.compiled.costs;
}

/// The bandwidth of a level of the cluster, in per cent of what it is.
struct Axis {
  std::string key;
  std::string name;
  std::vector<int> percent;
  bool matters = false;  ///< whether any cost depends on it
  std::size_t at() const {
    return static_cast<std::size_t>(std::ranges::find(percent, 100) - percent.begin());
  }
};

std::string level_name(std::size_t level, std::size_t levels) {
  if (levels == 1) return "bandwidth";
  if (level + 1 == levels) return "innermost bandwidth";
  return level == 0 ? "outermost bandwidth" : concat("bandwidth of level ", level);
}

/// Of the limited levels, the outermost few: each one more multiplies the combinations.
std::vector<Axis> axes_of(const Cluster& cluster) {
  std::vector<Axis> axes;
  for (std::size_t level = 0; level < cluster.levels.size(); ++level) {
    const Level& of_level = cluster.levels[level];
    if (of_level.link.point_to_point.is_unlimited() || of_level.count == 1) continue;
    axes.push_back({concat("link", level), level_name(level, cluster.levels.size()), {}});
  }
  constexpr std::size_t most_axes = 3;
  if (axes.size() > most_axes) axes.resize(most_axes);
  for (Axis& axis : axes) {
    axis.percent = axes.size() < 3 ? std::vector{10, 20,  30,  40,  50,  60,  70, 80,
                                                 90, 100, 125, 150, 200, 300, 400}
                                   : std::vector{20, 40, 60, 80, 100, 200, 400};
  }
  return axes;
}

/// Costs at every combination, the last axis fastest.
using GridOfCosts = std::vector<std::vector<std::int64_t>>;

class Grid {
 public:
  explicit Grid(const std::vector<Axis>& axes) : axes_(axes) {
    for (const Axis& axis : axes) size_ *= axis.percent.size();
  }
  std::size_t size() const { return size_; }

  std::vector<std::size_t> positions(std::size_t place) const {
    std::vector<std::size_t> positions(axes_.size());
    for (std::size_t axis = axes_.size(); axis-- > 0;) {
      positions[axis] = place % axes_[axis].percent.size();
      place /= axes_[axis].percent.size();
    }
    return positions;
  }

  /// How far one position of the axis is from the next.
  std::size_t stride(std::size_t axis) const {
    std::size_t stride = 1;
    for (std::size_t later = axis + 1; later < axes_.size(); ++later)
      stride *= axes_[later].percent.size();
    return stride;
  }

  std::vector<Change> changes(std::size_t place) const {
    const std::vector<std::size_t> at = positions(place);
    std::vector<Change> changes;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const int percent = axes_[axis].percent[at[axis]];
      if (percent != 100) changes.push_back({axes_[axis].key, concat(percent, "%")});
    }
    return changes;
  }

 private:
  const std::vector<Axis>& axes_;
  std::size_t size_ = 1;
};

/// Of each class of variants.
std::vector<GridOfCosts> costs_over(const Grid& grid, const LoadedPlan& loaded,
                                    const std::vector<const Variant*>& classes) {
  std::vector<GridOfCosts> costs(classes.size());
  for (std::size_t place = 0; place < grid.size(); ++place) {
    const auto changes = grid.changes(place);
    const Cluster cluster =
        changes.empty() ? loaded.cluster : changed(loaded, changes).loaded.cluster;
    CostBook book(loaded.profile, cluster, book_setting(loaded.plan));
    for (std::size_t i = 0; i < classes.size(); ++i) {
      costs[i].push_back(listed_costs(cost_program(classes[i]->compiled, classes[i]->plan, book)));
    }
  }
  return costs;
}

/// Whether the entry changes along the axis anywhere.
bool changes_along(const GridOfCosts& costs, const Grid& grid, std::size_t axis,
                   std::size_t entry) {
  for (std::size_t place = 0; place < costs.size(); ++place) {
    const std::size_t first = place - grid.positions(place)[axis] * grid.stride(axis);
    if (costs[place][entry] != costs[first][entry]) return true;
  }
  return false;
}

/// Entries; each: along which axes it changes (a bit each), its values + 1 at their combinations.
std::string packed_costs(const GridOfCosts& costs, const Grid& grid, std::vector<Axis>& axes) {
  PackedTable table;
  table.add(costs.front().size());
  for (std::size_t entry = 0; entry < costs.front().size(); ++entry) {
    std::uint64_t along = 0;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      if (!changes_along(costs, grid, axis, entry)) continue;
      along |= std::uint64_t{1} << axis;
      axes[axis].matters = true;
    }
    table.add(along);
    for (std::size_t place = 0; place < costs.size(); ++place) {
      const auto at = grid.positions(place);
      bool is_first = true;  // of those that differ in other axes only
      for (std::size_t axis = 0; axis < axes.size(); ++axis)
        is_first = is_first && ((along >> axis & 1U) != 0 || at[axis] == 0);
      if (is_first) table.add(static_cast<std::uint64_t>(costs[place][entry] + 1));
    }
  }
  return table.text();
}

ordered_json axes_json(const std::vector<Axis>& axes, const Cluster& cluster) {
  ordered_json list = ordered_json::array();
  for (const Axis& axis : axes) {
    const auto level = static_cast<std::size_t>(std::stoi(axis.key.substr(4)));
    list.push_back({{"key", axis.key},
                    {"name", axis.name},
                    {"rate", format_bandwidth(cluster.levels[level].link.point_to_point)},
                    {"percent", axis.percent},
                    {"at", axis.at()},
                    {"matters", axis.matters}});
  }
  return list;
}

}  // namespace

Compiled compile_for_page(const LoadedPlan& loaded, bool folds) {
  validate(loaded.plan, loaded.profile.model, loaded.cluster);
  CostBook book(loaded.profile, loaded.cluster, book_setting(loaded.plan));
  return folds ? compile_whole_column(loaded.plan, book) : compile_valid(loaded.plan, book);
}

ordered_json what_if_json(const LoadedPlan& loaded, const Compiled& compiled, bool folds) {
  std::set<std::string> refused;
  const std::vector<RecomputeWay> ways = recompute_ways_of(loaded);
  const std::vector<Variant> variants = variants_of(loaded, compiled, folds, ways, refused);
  std::vector<const Variant*> classes;
  ordered_json programs = ordered_json::array();
  std::set<int> counts;
  for (const Variant& variant : variants) {
    const auto same = std::ranges::find_if(
        classes, [&](const Variant* other) { return costs_alike(*other, variant); });
    const auto of_class = same - classes.begin();
    if (same == classes.end()) classes.push_back(&variant);
    counts.insert(variant.microbatches);
    programs.push_back({{"microbatches", variant.microbatches},
                        {"recompute", variant.recompute},
                        {"costs", of_class},
                        {"program", packed_program(variant.compiled)}});
  }
  std::vector<Axis> axes = axes_of(loaded.cluster);
  const Grid grid(axes);
  ordered_json costs = ordered_json::array();
  for (const GridOfCosts& of_class : costs_over(grid, loaded, classes))
    costs.push_back(packed_costs(of_class, grid, axes));
  ordered_json recompute = ordered_json::array();
  for (const RecomputeWay& way : ways)
    recompute.push_back({{"name", way.name}, {"set", to_string(way.set)}});
  return {{"axes", axes_json(axes, loaded.cluster)},
          {"microbatches", counts},
          {"samples", loaded.plan.batch.microbatch},
          {"recompute", std::move(recompute)},
          {"programs", std::move(programs)},
          {"costs", std::move(costs)},
          {"refused", refused}};
}

}  // namespace stagecraft
