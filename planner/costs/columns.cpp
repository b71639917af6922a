#include "planner/costs/columns.hpp"

#include <algorithm>
#include <numeric>

#include "profiles/index.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// Whether column 0 tells about all of so many columns.
class Columns {
 public:
  Columns(const Plan& plan, const CostBook& book, int columns)
      : plan_(plan), book_(book), columns_(columns) {}

  bool are_alike() const {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      if (!have_alike_devices(plan_.stages[s])) return false;
      if (s > 0 && !have_alike_links(plan_.stages[s - 1], plan_.stages[s])) return false;
    }
    return true;
  }

 private:
  int width(const Stage& stage) const { return static_cast<int>(stage.devices.size()) / columns_; }

  /// The lead device of a column's replica.
  int lead(const Stage& stage, int column, int replica) const {
    return stage.devices[index(column * width(stage) + replica)].front();
  }

  bool have_alike_devices(const Stage& stage) const {
    const auto& kinds = book_.cluster().devices;
    for (int replica = 0; replica < width(stage); ++replica) {
      const auto& first = stage.devices[index(replica)];
      for (int column = 1; column < columns_; ++column) {
        const auto& other = stage.devices[index(column * width(stage) + replica)];
        if (other.size() != first.size()) return false;
        if (kinds[index(other.front())] != kinds[index(first.front())]) return false;
      }
    }
    return true;
  }

  bool have_alike_links(const Stage& from, const Stage& to) const {
    for (int i = 0; i < width(from); ++i) {
      for (int j = 0; j < width(to); ++j) {
        if (lead(from, 0, i) == lead(to, 0, j)) {
          if (!have_same_device(from, i, to, j)) return false;
          continue;
        }
        if (!have_link_of_first(from, i, to, j)) return false;
      }
    }
    return true;
  }

  bool have_same_device(const Stage& from, int i, const Stage& to, int j) const {
    for (int column = 1; column < columns_; ++column) {
      if (lead(from, column, i) != lead(to, column, j)) return false;
    }
    return true;
  }

  bool have_link_of_first(const Stage& from, int i, const Stage& to, int j) const {
    const auto link = [&](int a, int b) {
      return message_link(book_.profile(), book_.cluster(), a, b);
    };
    const int a = lead(from, 0, i), b = lead(to, 0, j);
    const Link there = link(a, b), back = link(b, a);
    for (int column = 1; column < columns_; ++column) {
      const int c = lead(from, column, i), d = lead(to, column, j);
      if (c == d || link(c, d) != there || link(d, c) != back) return false;
    }
    return true;
  }

  const Plan& plan_;
  const CostBook& book_;
  int columns_;
};

/// Whether rows take equal parts of every message, without rounding.
bool has_even_rows(const Plan& plan, CostBook& book) {
  const std::int64_t rows = plan.batch.microbatch;
  return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    const std::vector<int>& peers = stage.devices.front();
    const int kind = book.cluster().devices[index(peers.front())];
    return book.crossing(kind, rows, rows, static_cast<int>(peers.size()), stage.layers.end) %
               rows ==
           0;
  });
}

}  // namespace

int columns_of(const Plan& plan, CostBook& book) {
  if (plan.replicas != ReplicaPolicy::split) return 1;
  std::int64_t most = plan.batch.microbatch;
  for (const Stage& stage : plan.stages) {
    most = std::gcd(most, static_cast<std::int64_t>(stage.devices.size()));
  }
  if (most == 1 || !has_even_rows(plan, book)) return 1;
  for (std::int64_t columns = most; columns > 1; --columns) {
    if (most % columns != 0) continue;
    if (Columns(plan, book, static_cast<int>(columns)).are_alike()) {
      return static_cast<int>(columns);
    }
  }
  return 1;
}

std::vector<int> stand_ins(const Plan& plan, int columns, const std::vector<int>& first) {
  const std::vector<int> leads = lead_devices(plan);
  std::vector<int> places(leads.size());
  for (const Stage& stage : plan.stages) {
    const std::size_t width = stage.devices.size() / index(columns);
    for (std::size_t replica = 0; replica < stage.devices.size(); ++replica) {
      const int device = stage.devices[replica].front();
      const int like = stage.devices[replica % width].front();
      const auto place = std::lower_bound(leads.begin(), leads.end(), device) - leads.begin();
      const auto stand_in = std::lower_bound(first.begin(), first.end(), like) - first.begin();
      places[static_cast<std::size_t>(place)] = static_cast<int>(stand_in);
    }
  }
  return places;
}

/// Blocks and the parts of each level nest: every part is several blocks, or every block several
/// parts.
bool has_alike_blocks(const Cluster& cluster, int devices) {
  if (!cluster.overrides.empty() || !cluster.positions.empty()) return false;
  int part = 1;
  for (auto level = cluster.levels.rbegin(); level != cluster.levels.rend(); ++level) {
    // Of the outermost level some parts may be left over.
    const bool is_outermost = std::next(level) == cluster.levels.rend();
    if (is_outermost && devices % part == 0) return true;
    part *= level->count;
    if (part % devices != 0 && devices % part != 0) return false;
  }
  return true;
}

}  // namespace stagecraft
