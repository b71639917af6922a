#include "planner/baselines/aceso/stage_bounds.hpp"

#include <algorithm>

#include "profiles/infinite.hpp"

namespace stagecraft {

AcesoBounds::AcesoBounds(const AcesoStageCosts& costs, int devices, int most_stages)
    : costs_(costs),
      operators_(costs.size()),
      devices_(devices),
      most_stages_(most_stages),
      least_time_(find_least_time()) {}

/// How far the devices before can get; -1 if nowhere.
AcesoBounds::Reach AcesoBounds::furthest(double time) const {
  Reach reach(index(most_stages_ + 1), std::vector<int>(index(devices_ + 1), -1));
  for (int behind = most_stages_; behind >= 0; --behind) {
    reach[index(behind)][0] = 0;
    if (behind == most_stages_) continue;
    for (int d = 1; d <= devices_; ++d) {
      int& here = reach[index(behind)][index(d)];
      for (int option = 0; option < costs_.options(); ++option) {
        if (costs_.devices(option) > d) continue;
        const int first = reach[index(behind + 1)][index(d - costs_.devices(option))];
        if (first >= 0) here = std::max(here, costs_.furthest_end(first, option, behind, time));
      }
    }
  }
  return reach;
}

/// How near to the front the stages behind can begin; above the last operator if nowhere.
AcesoBounds::Reach AcesoBounds::nearest(double time) const {
  Reach reach(index(most_stages_ + 1), std::vector<int>(index(devices_ + 1), operators_ + 1));
  reach[0][index(devices_)] = operators_;
  for (int behind = 1; behind <= most_stages_; ++behind) {
    for (int d = 0; d < devices_; ++d) {
      int& here = reach[index(behind)][index(d)];
      for (int option = 0; option < costs_.options(); ++option) {
        if (d + costs_.devices(option) > devices_) continue;
        const int end = reach[index(behind - 1)][index(d + costs_.devices(option))];
        if (end <= operators_)
          here = std::min(here, costs_.nearest_first(end, option, behind - 1, time));
      }
    }
  }
  return reach;
}

double AcesoBounds::find_least_time() const {
  const auto is_possible = [&](double time) {
    return furthest(time)[0][index(devices_)] >= operators_;
  };
  double bad = costs_.least_work() / devices_;
  double good = std::max(bad, 1.0);
  constexpr double most = 1e18;
  for (double step = 0.02; !is_possible(good); step *= 2) {
    bad = good;
    good *= 1 + step;
    if (good > most) return infinite;
  }
  constexpr double narrow = 1e-4;
  while (good - bad > narrow * good) {
    const double middle = bad + (good - bad) / 2;
    (is_possible(middle) ? good : bad) = middle;
  }
  return bad;
}

bool AcesoBounds::prepare(double time, const std::stop_token& stop) {
  const Reach last = furthest(time);
  const Reach first = nearest(time);
  windows_.assign(index(most_stages_ + 1), std::vector<AcesoWindow>(index(devices_ + 1)));
  before_.assign(index(most_stages_ + 1), {});
  for (int behind = most_stages_; behind >= 0; --behind) {
    for (int d = 0; d <= devices_; ++d) {
      AcesoWindow& window = windows_[index(behind)][index(d)];
      window = {first[index(behind)][index(d)], last[index(behind)][index(d)] + 1};
      // Only no devices are before the first operator, and only all of them before no more.
      if (d > 0) window.first = std::max(window.first, 1);
      if (d < devices_) window.end = std::min(window.end, operators_);
      if (behind > 0 && d == devices_) window.end = 0;
      window.end = std::max(window.first, window.end);
      before_[index(behind)].emplace_back(index(window.end - window.first));
      if (d == 0 && window.first == 0 && window.end > 0) before_[index(behind)][0][0] = {0, 0};
    }
    for (int d = 0; d < devices_ && behind < most_stages_; ++d) {
      for (int option = 0; option < costs_.options() && !stop.stop_requested(); ++option) {
        if (d + costs_.devices(option) <= devices_) bound_after(behind, d, option, time);
      }
    }
  }
  return window(0, devices_).end > operators_ && before(0, devices_, operators_).slowest < infinite;
}

/// Stages after `devices`, with so many stages behind them.
void AcesoBounds::bound_after(int behind, int devices, int option, double time) {
  const int next = devices + costs_.devices(option);
  const AcesoWindow& from = window(behind + 1, devices);
  const AcesoWindow& to = window(behind, next);
  for (int first = from.first; first < from.end; ++first) {
    const AcesoBefore here = before(behind + 1, devices, first);
    if (here.slowest == infinite) continue;
    for (int end = std::max(first + 1, to.first); end < to.end; ++end) {
      if (costs_.is_too_much(first, end, option, behind, time)) break;
      const double least = costs_.time(first, end, option, devices) +
                           costs_.least_recompute(first, end, option, behind);
      if (least > time) continue;
      AcesoBefore& bound = before_[index(behind)][index(next)][index(end - to.first)];
      bound.slowest = std::min(bound.slowest, std::max(here.slowest, least));
      bound.sum = std::min(bound.sum, here.sum + least);
    }
  }
}

}  // namespace stagecraft
