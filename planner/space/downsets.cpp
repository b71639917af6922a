#include "planner/space/downsets.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#include <set>

namespace stagecraft {

namespace {

template <std::size_t words>
using Set = std::array<std::uint64_t, words>;

template <std::size_t words>
void add(Set<words>& set, int node) {
  set[static_cast<std::size_t>(node) / 64] |= std::uint64_t{1} << (node % 64);
}

template <std::size_t words>
bool is_inside(const Set<words>& small, const Set<words>& large) {
  for (std::size_t w = 0; w < words; ++w) {
    if ((small[w] & ~large[w]) != 0) return false;
  }
  return true;
}

template <std::size_t words, class Action>
void for_each(const Set<words>& set, Action action) {
  for (std::size_t w = 0; w < words; ++w) {
    for (std::uint64_t rest = set[w]; rest != 0; rest &= rest - 1) {
      action(static_cast<int>(w * 64) + std::countr_zero(rest));
    }
  }
}

template <std::size_t words>
std::size_t hash_of(const Set<words>& set) {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : set) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  }
  return static_cast<std::size_t>(hash ^ (hash >> 32U));
}

/// The downsets of one size, found by their bits: open addressing over one array, nothing allocated
/// per set.
template <std::size_t words>
class Level {
 public:
  struct Member {
    Set<words> set;
    Set<words> ready;  ///< nodes outside the set whose inputs are all inside
  };

  const std::vector<Member>& members() const { return members_; }
  Member& back() { return members_.back(); }

  /// The set's number in this level, and whether it is new.
  std::pair<std::size_t, bool> insert(const Set<words>& set) {
    if (2 * (members_.size() + 1) > slots_.size()) grow();
    const std::size_t slot = find(set);
    if (slots_[slot] >= 0) return {static_cast<std::size_t>(slots_[slot]), false};
    slots_[slot] = static_cast<std::int32_t>(members_.size());
    members_.push_back({set, {}});
    return {members_.size() - 1, true};
  }

  void clear() {
    members_.clear();
    std::fill(slots_.begin(), slots_.end(), -1);
  }

 private:
  std::size_t find(const Set<words>& set) const {
    std::size_t slot = hash_of(set) & (slots_.size() - 1);
    while (slots_[slot] >= 0 && members_[static_cast<std::size_t>(slots_[slot])].set != set) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }

  void grow() {
    slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), -1);
    for (std::size_t m = 0; m < members_.size(); ++m) {
      slots_[find(members_[m].set)] = static_cast<std::int32_t>(m);
    }
  }

  std::vector<Member> members_;
  std::vector<std::int32_t> slots_;
};

/// Level by level: every downset of size n + 1 is one of size n and a node that is ready there.
template <std::size_t words>
class DownsetEnumeration {
 public:
  explicit DownsetEnumeration(const Dag& dag)
      : inputs_(static_cast<std::size_t>(dag.nodes)), readers_(inputs_.size()) {
    for (const Edge& edge : dag.edges) {
      add(inputs_[static_cast<std::size_t>(edge.to)], edge.from);
      readers_[static_cast<std::size_t>(edge.from)].push_back(edge.to);
    }
  }

  /// `on_set(set)` for each downset in turn, after the steps of the one before it: `on_step(node,
  /// number of the larger one)`. False if there are more than `most`.
  template <class OnSet, class OnStep>
  bool run(std::int64_t most, OnSet on_set, OnStep on_step) {
    Level<words> now;
    Level<words> next;
    now.insert({});
    for (std::size_t node = 0; node < inputs_.size(); ++node) {
      if (is_inside(inputs_[node], Set<words>{})) add(now.back().ready, static_cast<int>(node));
    }
    for (std::int64_t before = 0; !now.members().empty();) {
      const auto count = static_cast<std::int64_t>(now.members().size());
      if (before + count > most) return false;
      for (const auto& member : now.members()) {
        on_set(member.set);
        for_each(member.ready, [&](int node) {
          on_step(node, before + count + static_cast<std::int64_t>(step(next, member, node)));
        });
      }
      before += count;
      std::swap(now, next);
      next.clear();
    }
    return true;
  }

 private:
  std::size_t step(Level<words>& next, const typename Level<words>::Member& member, int node) {
    Set<words> set = member.set;
    add(set, node);
    const auto [number, is_new] = next.insert(set);
    if (!is_new) return number;
    Set<words>& ready = next.back().ready;
    ready = member.ready;
    ready[static_cast<std::size_t>(node) / 64] &= ~(std::uint64_t{1} << (node % 64));
    for (const int reader : readers_[static_cast<std::size_t>(node)]) {
      if (is_inside(inputs_[static_cast<std::size_t>(reader)], set)) add(ready, reader);
    }
    return number;
  }

  std::vector<Set<words>> inputs_;
  std::vector<std::vector<int>> readers_;
};

template <std::size_t words>
std::optional<std::int64_t> count_of(const Dag& dag, std::int64_t most) {
  std::int64_t count = 0;
  const auto nothing = [](int /*node*/, std::int64_t /*to*/) {};
  const bool complete = DownsetEnumeration<words>(dag).run(
      most, [&](const Set<words>&) { ++count; }, nothing);
  if (!complete) return {};
  return count;
}

/// Lists of larger sets take so much memory that they are begun only if they can be completed.
constexpr std::size_t words_of_small_sets = 8;

template <std::size_t words>
std::optional<Lattice> lattice_of(const Dag& dag, std::int64_t most) {
  if (words > words_of_small_sets && !count_of<words>(dag, most)) return {};
  Lattice lattice{.nodes = dag.nodes, .words = words};
  const bool complete = DownsetEnumeration<words>(dag).run(
      most,
      [&](const Set<words>& set) {
        lattice.bits.insert(lattice.bits.end(), set.begin(), set.end());
        lattice.first_step.push_back(lattice.steps.size());
      },
      [&](int node, std::int64_t to) {
        lattice.steps.push_back({node, static_cast<int>(to)});
      });
  if (!complete) return {};
  lattice.first_step.push_back(lattice.steps.size());
  return lattice;
}

constexpr std::size_t words_for(int nodes) {
  return std::bit_ceil(std::max<std::size_t>(1, (static_cast<std::size_t>(nodes) + 63) / 64));
}

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

}  // namespace

std::vector<int> Lattice::difference(int from, int to) const {
  std::vector<int> result;
  for (int node = 0; node < nodes; ++node) {
    if (contains(to, node) && !contains(from, node)) result.push_back(node);
  }
  return result;
}

std::optional<Lattice> downset_lattice(const Dag& dag, std::int64_t most) {
  switch (words_for(dag.nodes)) {
    case 1: return lattice_of<1>(dag, most);
    case 2: return lattice_of<2>(dag, most);
    case 4: return lattice_of<4>(dag, most);
    case 8: return lattice_of<8>(dag, most);
    case 16: return lattice_of<16>(dag, most);
    case 32: return lattice_of<32>(dag, most);
    default: return {};
  }
}

std::optional<std::int64_t> count_downsets(const Dag& dag, std::int64_t most) {
  switch (words_for(dag.nodes)) {
    case 1: return count_of<1>(dag, most);
    case 2: return count_of<2>(dag, most);
    case 4: return count_of<4>(dag, most);
    case 8: return count_of<8>(dag, most);
    case 16: return count_of<16>(dag, most);
    case 32: return count_of<32>(dag, most);
    default: return {};
  }
}

Lattice linear_lattice(const Dag& dag, const std::vector<int>& order) {
  Lattice lattice{.nodes = dag.nodes, .words = words_for(dag.nodes)};
  std::vector<std::uint64_t> set(lattice.words, 0);
  lattice.bits = set;
  lattice.first_step.push_back(0);
  for (const int node : order) {
    set[static_cast<std::size_t>(node) / 64] |= std::uint64_t{1} << (node % 64);
    lattice.bits.insert(lattice.bits.end(), set.begin(), set.end());
    lattice.steps.push_back({node, static_cast<int>(lattice.steps.size()) + 1});
    lattice.first_step.push_back(lattice.steps.size());
  }
  lattice.first_step.push_back(lattice.steps.size());
  return lattice;
}

std::vector<int> depth_first_order(const Dag& dag) {
  Graph graph(static_cast<std::size_t>(dag.nodes));
  for (const Edge& edge : dag.edges) {
    boost::add_edge(static_cast<std::size_t>(edge.from), static_cast<std::size_t>(edge.to), graph);
  }
  std::vector<std::size_t> reversed;
  boost::topological_sort(graph, std::back_inserter(reversed));
  return {reversed.rbegin(), reversed.rend()};
}

std::vector<int> order_by_number(const Dag& dag) {
  std::vector<int> missing(static_cast<std::size_t>(dag.nodes), 0);
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(dag.nodes));
  for (const Edge& edge : dag.edges) {
    ++missing[static_cast<std::size_t>(edge.to)];
    readers[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  }
  std::set<int> ready;
  for (int node = 0; node < dag.nodes; ++node) {
    if (missing[static_cast<std::size_t>(node)] == 0) ready.insert(node);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(*ready.begin());
    ready.erase(ready.begin());
    for (const int reader : readers[static_cast<std::size_t>(order.back())]) {
      if (--missing[static_cast<std::size_t>(reader)] == 0) ready.insert(reader);
    }
  }
  return order;
}

}  // namespace stagecraft
