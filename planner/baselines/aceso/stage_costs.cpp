#include "planner/baselines/aceso/stage_costs.hpp"

#include <algorithm>
#include <limits>

namespace stagecraft {

namespace {

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

AcesoStageCosts::AcesoStageCosts(const AcesoDatabase& database, const AcesoQuestion& question,
                                 int microbatch)
    : machine_(question.machine),
      limit_(question.machine.memory * aceso_thousandths),
      operators_(static_cast<int>(database.chain.size())),
      microbatch_(microbatch) {
  for (int devices = 1; devices <= machine_.devices; devices *= 2) {
    for (const AcesoTable& table : database.tables) {
      const int degree = table.tensor_parallel;
      if (degree > machine_.devices_per_node || devices % degree != 0) continue;
      const int replicas = devices / degree;
      const bool is_share = table.microbatch * replicas == microbatch;
      if (!is_share || !contains(question.degrees, degree)) continue;
      if (!question.may_replicate && replicas > 1) continue;
      options_.push_back({degree, replicas, AcesoCosts(database, table), {}, {}});
      Option& option = options_.back();
      for (int i = 0; i < operators_; ++i) {
        for (const bool between_nodes : {false, true}) {
          option.receive[between_nodes].push_back(option.costs.receive(i, between_nodes));
          option.send[between_nodes].push_back(option.costs.send(i, between_nodes));
        }
      }
    }
  }
  for (int i = 0; i < operators_ && !options_.empty(); ++i) {
    double least = std::numeric_limits<double>::infinity();
    for (const Option& option : options_) least = std::min(least, option.costs.work(i, i + 1));
    least_work_ += least;
  }
  find_repeats(database);
}

/// Each operator is compared with the one of its name before it.
void AcesoStageCosts::find_repeats(const AcesoDatabase& database) {
  alike_.resize(index(operators_));
  alike_length_.assign(index(operators_), 0);
  std::vector<int> last(database.names.size(), -1);
  std::vector<int> distance(index(operators_) + 1, 0);
  for (int i = 0; i < operators_; ++i) {
    int& before = last[index(database.chain[index(i)])];
    if (before >= 0) distance[index(i)] = i - before;
    before = i;
  }
  for (int i = operators_ - 1; i >= 0; --i) {
    const bool goes_on = i + 1 < operators_ && distance[index(i)] == distance[index(i + 1)];
    if (distance[index(i)] > 0)
      alike_length_[index(i)] = goes_on ? alike_length_[index(i + 1)] + 1 : 1;
  }
  for (int i = 0; i < operators_; ++i) {
    const int before = i - distance[index(i)];
    const bool goes_on = distance[index(i)] > 0 && distance[index(before)] == distance[index(i)];
    alike_[index(i)] = goes_on ? alike_[index(before)] : before;
  }
}

int AcesoStageCosts::first_alike(int first, int end) const {
  return alike_length_[index(first)] >= end - first ? alike_[index(first)] : first;
}

double AcesoStageCosts::time(int first, int end, int option, int devices_before) const {
  const Option& way = options_[index(option)];
  const bool from_node = devices_before > 0 && devices_before % machine_.devices_per_node == 0;
  const bool to_node = (devices_before + devices(option)) % machine_.devices_per_node == 0;
  return way.costs.work(first, end) + way.receive[from_node][index(first)] +
         way.send[to_node][index(end - 1)];
}

double AcesoStageCosts::recompute(int first, int end, int option, int behind, Effort& effort) {
  const AcesoCosts& costs = options_[index(option)].costs;
  if (costs.memory(first, end, behind) <= limit_) return 0;
  const int start = first_alike(first, end);
  std::uint64_t key = static_cast<std::uint64_t>(start);
  for (const int part : {end - first, behind, option}) {
    constexpr unsigned bits = 16;
    key = key << bits | static_cast<std::uint64_t>(part);
  }
  const auto [place, is_new] = recomputed_.try_emplace(key, 0);
  if (is_new) {
    constexpr std::int64_t steps_per_operator = 4;
    effort.spend(steps_per_operator * (end - first));
    const AcesoRecompute found = costs.recompute(start, start + end - first, behind, limit_);
    place->second = found.memory <= limit_ ? found.time : std::numeric_limits<double>::infinity();
  }
  return place->second;
}

AcesoStage AcesoStageCosts::stage(int first, int end, int option) const {
  const Option& way = options_[index(option)];
  return {first, end, way.tensor_parallel, way.data_parallel, {}};
}

std::vector<bool> AcesoStageCosts::recomputes(const AcesoStage& stage, int behind) const {
  std::vector<bool> result(index(stage.end - stage.first), false);
  for (const Option& option : options_) {
    const bool is_it = option.tensor_parallel == stage.tensor_parallel &&
                       option.data_parallel == stage.data_parallel;
    if (!is_it) continue;
    const AcesoRecompute found = option.costs.recompute(stage.first, stage.end, behind, limit_);
    std::copy(found.operators.begin(), found.operators.end(), result.begin());
  }
  return result;
}

double AcesoStageCosts::least_recompute(int first, int end, int option, int behind) const {
  const AcesoCosts& costs = options_[index(option)].costs;
  const double excess = costs.memory(first, end, behind) - limit_;
  return excess > 0 ? costs.least_time_to_save(excess / (behind + 1)) : 0;
}

bool AcesoStageCosts::is_too_much(int first, int end, int option, int behind, double time) const {
  const AcesoCosts& costs = options_[index(option)].costs;
  const double work = costs.work(first, end);
  if (work > time || costs.least_memory(first, end, behind) > limit_) return true;
  const double excess = costs.growing_memory(first, end, behind) - limit_;
  return excess > 0 && work + costs.least_time_to_save(excess / (behind + 1)) > time;
}

int AcesoStageCosts::furthest_end(int first, int option, int behind, double time) const {
  int good = first;
  int bad = operators_ + 1;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    (is_too_much(first, middle, option, behind, time) ? bad : good) = middle;
  }
  return good;
}

int AcesoStageCosts::nearest_first(int end, int option, int behind, double time) const {
  int good = end;
  int bad = -1;
  while (good - bad > 1) {
    const int middle = good - (good - bad) / 2;
    (is_too_much(middle, end, option, behind, time) ? bad : good) = middle;
  }
  return good;
}

}  // namespace stagecraft
