#include "planner/baselines/dnn_partitioning/cut_chains.hpp"

#include <algorithm>
#include <bit>

#include "planner/baselines/dnn_partitioning/max_load_work.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

bool has(const std::vector<std::uint64_t>& set, int node) {
  return (set[index(node) / 64] >> (node % 64) & 1U) != 0;
}

bool is_inside(const std::vector<std::uint64_t>& small, const std::vector<std::uint64_t>& large) {
  for (std::size_t w = 0; w < small.size(); ++w) {
    if ((small[w] & ~large[w]) != 0) return false;
  }
  return true;
}

}  // namespace

CutChains::CutChains(const MaxLoadProblem& problem)
    : problem_(problem), width_(index(problem.accelerators + 1)) {
  add(std::vector<bool>(problem.nodes.size(), false));
  add(std::vector<bool>(problem.nodes.size(), true));
}

void CutChains::add(const std::vector<bool>& before) {
  if (!known_.insert(before).second) return;
  Cut cut;
  cut.before.resize((before.size() + 63) / 64);
  for (std::size_t node = 0; node < before.size(); ++node) {
    if (!before[node]) continue;
    cut.before[node / 64] |= std::uint64_t{1} << (node % 64);
    cut.work += problem_.nodes[node].accelerator;
    cut.size += problem_.nodes[node].size;
  }
  for (std::size_t t = 0; t < problem_.tensors.size(); ++t) {
    const MaxLoadTensor& tensor = problem_.tensors[t];
    const auto inside = std::count_if(tensor.nodes.begin(), tensor.nodes.end(),
                                      [&](int node) { return before[index(node)]; });
    if (inside > 0 && inside < static_cast<std::ptrdiff_t>(tensor.nodes.size()))
      cut.crossing.push_back(static_cast<int>(t));
  }
  cuts_.push_back(std::move(cut));
}

bool CutChains::touches(int tensor, const Cut& from, const Cut& to) const {
  const std::vector<int>& nodes = problem_.tensors[index(tensor)].nodes;
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](int node) { return has(to.before, node) && !has(from.before, node); });
}

double CutChains::load(const Cut& from, const Cut& to) const {
  double sum = to.work - from.work;
  for (const int tensor : from.crossing) {
    if (touches(tensor, from, to)) sum += problem_.tensors[index(tensor)].cost;
  }
  for (const int tensor : to.crossing) {
    if (std::binary_search(from.crossing.begin(), from.crossing.end(), tensor)) continue;
    if (touches(tensor, from, to)) sum += problem_.tensors[index(tensor)].cost;
  }
  return sum;
}

void CutChains::extend(std::size_t from, double below) {
  const Cut& here = cuts_[from];
  if (*std::min_element(loads_.begin() + static_cast<std::ptrdiff_t>(from * width_),
                        loads_.begin() + static_cast<std::ptrdiff_t>((from + 1) * width_)) >= below)
    return;
  for (std::size_t to = from + 1; to < cuts_.size(); ++to) {
    const Cut& there = cuts_[to];
    if (there.work - here.work >= below) return;
    if (there.size - here.size > problem_.memory || !is_inside(here.before, there.before)) continue;
    ++compared_;
    const double load = this->load(here, there);
    if (load >= below) continue;
    for (std::size_t devices = 0; devices + 1 < width_; ++devices) {
      const double most = std::max(load, loads_[from * width_ + devices]);
      double& known = loads_[to * width_ + devices + 1];
      if (most >= below || most >= known) continue;
      known = most;
      from_[to * width_ + devices + 1] = from;
    }
  }
}

std::vector<std::vector<int>> CutChains::best(double below, const std::stop_token& stop) {
  // A cut inside another has less work before it, or the same and fewer nodes.
  const auto count = [](const Cut& cut) {
    int nodes = 0;
    for (const std::uint64_t word : cut.before) nodes += std::popcount(word);
    return nodes;
  };
  std::stable_sort(cuts_.begin(), cuts_.end(), [&](const Cut& a, const Cut& b) {
    return a.work != b.work ? a.work < b.work : count(a) < count(b);
  });
  loads_.assign(cuts_.size() * width_, MaxLoadWork::infinite);
  from_.assign(loads_.size(), 0);
  loads_[0] = 0;
  for (std::size_t from = 0; from < cuts_.size() && !stop.stop_requested(); ++from)
    extend(from, below);
  const auto last = loads_.end() - static_cast<std::ptrdiff_t>(width_);
  const auto found = std::min_element(last, loads_.end());
  if (*found >= below) return {};
  std::vector<std::vector<int>> parts;
  auto devices = static_cast<std::size_t>(found - last);
  for (std::size_t to = cuts_.size() - 1; devices > 0; --devices) {
    const std::size_t from = from_[to * width_ + devices];
    std::vector<int>& part = parts.emplace_back();
    for (int node = 0; node < static_cast<int>(problem_.nodes.size()); ++node) {
      if (has(cuts_[to].before, node) && !has(cuts_[from].before, node)) part.push_back(node);
    }
    to = from;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace stagecraft
