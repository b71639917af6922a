#include "planner/baselines/aceso/aceso_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

constexpr std::string_view attention_dropout = "enc-attention-dropout";

/// Its activations are counted at another operator.
bool keeps_nothing(std::string_view name) {
  return name == "enc-attention-softmax" || name == "bn1" || contains(name, "-bn3") ||
         (contains(name, "-downsample") && !contains(name, "0-0"));
}

bool begins_layer(std::string_view name) {
  return name == "enc-1st-layernorm" || contains(name, "-conv1");
}

/// May Aceso choose it for recomputing? It may still recompute as the next after such a one.
bool may_be_chosen(std::string_view name) {
  constexpr std::array never{"encoder-embedding", "decoder-embedding", "gpt-post-process",
                             "t5-post-process", "conv1"};
  return !begins_layer(name) && !contains(name, "-relu") &&
         std::find(never.begin(), never.end(), name) == never.end();
}

std::vector<double> sums_of(const std::vector<double>& values) {
  std::vector<double> sums(values.size() + 1, 0);
  std::partial_sum(values.begin(), values.end(), sums.begin() + 1);
  return sums;
}

}  // namespace

namespace {

std::vector<double> column(const AcesoDatabase& database, const AcesoTable& table,
                           double AcesoOperator::*member) {
  std::vector<double> values;
  for (const int row : database.chain) {
    const AcesoOperator& figures = table.operators[static_cast<std::size_t>(row)];
    values.push_back(std::round(figures.*member * aceso_thousandths));
  }
  return values;
}

}  // namespace

AcesoCosts::AcesoCosts(const AcesoDatabase& database, const AcesoTable& table)
    : chain_(database.chain),
      between_devices_(database.between_devices),
      between_nodes_(database.between_nodes),
      rows_(database.names.size()),
      state_copies_(2 + database.optimizer_ratio),
      forward_(column(database, table, &AcesoOperator::forward)),
      input_(column(database, table, &AcesoOperator::input)),
      output_(column(database, table, &AcesoOperator::output)),
      activations_(column(database, table, &AcesoOperator::activations)),
      forward_reserved_(column(database, table, &AcesoOperator::forward_reserved)),
      backward_reserved_(column(database, table, &AcesoOperator::backward_reserved)) {
  std::vector<double> work = column(database, table, &AcesoOperator::backward);
  std::vector<double> kept = activations_;
  std::vector<double> never_saved;
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    const std::string& name = database.names[index(chain_[i])];
    const bool is_last = i + 1 == chain_.size();
    kept_share_.push_back(name == attention_dropout ? 1.5 : keeps_nothing(name) ? 0 : 1);
    shares_storage_.push_back(name == attention_dropout || keeps_nothing(name));
    may_recompute_.push_back(may_be_chosen(name));
    ends_layer_.push_back(!is_last && begins_layer(database.names[index(chain_[i + 1])]));
    work[i] += forward_[i];
    kept[i] *= kept_share_[i];
    saved_.push_back(ends_layer_[i] && !shares_storage_[i] ? 0 : kept[i]);
    never_saved.push_back(kept[i] - saved_.back());
  }
  work_ = sums_of(work);
  weights_ = sums_of(column(database, table, &AcesoOperator::weights));
  kept_ = sums_of(kept);
  never_saved_ = sums_of(never_saved);
  time_per_saved_ = best_rate_of_saving();
}

/// The run of operators that saves the most for its time: the first rate is of some run; as long as
/// another run is better (the largest sum of a range), its rate is the next (Dinkelbach).
double AcesoCosts::best_rate_of_saving() const {
  double rate = std::numeric_limits<double>::infinity();
  for (int i = 0; i + 1 < size(); ++i) {
    if (saved_[index(i)] > 0)
      rate = std::min(rate, (forward_[index(i)] + forward_[index(i + 1)]) / saved_[index(i)]);
  }
  if (rate == std::numeric_limits<double>::infinity()) return rate;
  for (;;) {
    double gain = 0, time = 0, saved = 0;  // of the best run that ends before i
    double best_gain = 0, best_rate = rate;
    for (int i = 0; i < size(); ++i) {
      if (gain - forward_[index(i)] > best_gain && saved > 0) {
        best_gain = gain - forward_[index(i)];
        best_rate = (time + forward_[index(i)]) / saved;
      }
      if (gain <= 0) gain = time = saved = 0;
      time += forward_[index(i)];
      saved += saved_[index(i)];
      gain = rate * saved - time;
    }
    if (best_rate >= rate) return rate;
    rate = best_rate;
  }
}

/// The table is by powers of two, one row lower than its header says; see above for small messages.
double AcesoCosts::transfer(double size, bool between_nodes) const {
  const std::vector<double>& rates = between_nodes ? between_nodes_ : between_devices_;
  if (size <= 0) return size;
  int row = static_cast<int>(std::log(size / aceso_thousandths) / std::log(2.0));
  const int rows = static_cast<int>(rates.size());
  if (row >= 1) --row;
  if (row < 0) row = std::max(0, rows + row);
  return size / (rates[index(std::min(row, rows - 1))] * 0.001);
}

double AcesoCosts::receive(int first, bool between_nodes) const {
  return transfer(input_[index(first)], between_nodes);
}

double AcesoCosts::send(int last, bool between_nodes) const {
  return transfer(output_[index(last)], between_nodes);
}

double AcesoCosts::reserved(int first, int end) const {
  const double forward = forward_reserved_(first, end - 1);
  const double backward = backward_reserved_(first, end - 1);
  return std::max(forward + backward, weights_[index(end)] - weights_[index(first)]);
}

double AcesoCosts::memory(int first, int end, int behind) const {
  const double weights = weights_[index(end)] - weights_[index(first)];
  const double kept = kept_[index(end)] - kept_[index(first)];
  return weights * state_copies_ + (input_[index(first)] + kept) * (behind + 1) +
         reserved(first, end);
}

double AcesoCosts::memory(int first, int end, int behind,
                          const std::vector<char>& recomputes) const {
  const Saved saved = saved_by(first, end, recomputes);
  return memory(first, end, behind) - saved.saved * (behind + 1) + saved.peak;
}

double AcesoCosts::growing_memory(int first, int end, int behind) const {
  return memory(first, end, behind) - input_[index(first)] * (behind + 1);
}

double AcesoCosts::least_memory(int first, int end, int behind) const {
  return (weights_[index(end)] - weights_[index(first)]) * state_copies_ +
         (never_saved_[index(end)] - never_saved_[index(first)]) * (behind + 1) +
         reserved(first, end);
}

AcesoCosts::Saved AcesoCosts::saved_by(int first, int end,
                                       const std::vector<char>& recomputes) const {
  Saved result;
  double run = 0;
  const auto close = [&] {
    result.peak = std::max(result.peak, run);
    run = 0;
  };
  for (int i = first; i + 1 < end; ++i) {
    if (!recomputes[index(i - first)] || !recomputes[index(i + 1 - first)]) {
      close();
      continue;
    }
    run += activations_[index(i)] * kept_share_[index(i)];
    result.saved += saved_[index(i)];
    if (shares_storage_[index(i)]) continue;
    if (ends_layer_[index(i)] || i + 2 == end) close();
  }
  return result;
}

double AcesoCosts::recompute_time(int first, const std::vector<char>& recomputes) const {
  double time = 0;
  for (std::size_t i = 0; i < recomputes.size(); ++i) {
    if (recomputes[i]) time += forward_[index(first) + i];
  }
  return time;
}

/// Operators of one name in a stage.
struct AcesoCosts::Group {
  int row = 0;
  int first = 0;
  double size = 0;  ///< of one operator, for all microbatches in flight
  int count = 0;
  bool may_recompute = false;
  bool is_done = false;
  double all() const { return size * count; }
};

/// In the order of their first operators; which one each operator is of goes to `group_of`.
std::vector<AcesoCosts::Group> AcesoCosts::groups_in(int first, int end, int behind,
                                                     std::vector<int>& group_of) const {
  std::vector<Group> groups;
  std::vector<int> of_row(index(*std::max_element(chain_.begin(), chain_.end()) + 1), -1);
  for (int i = first; i < end; ++i) {
    int& group = of_row[index(chain_[index(i)])];
    if (group < 0) {
      group = static_cast<int>(groups.size());
      groups.push_back({chain_[index(i)], i, activations_[index(i)] * (behind + 1), 0,
                        may_recompute_[index(i)] != 0, false});
    }
    ++groups[index(group)].count;
    group_of.push_back(group);
  }
  return groups;
}

namespace {

/// Hands out places by what they are worth, the most first, of equals the first. Few are taken.
class MostFirst {
 public:
  void add(double worth, int place) { places_.emplace_back(-worth, place); }
  void begin() { std::ranges::make_heap(places_, std::greater<>()); }
  bool is_empty() const { return places_.empty(); }
  int take() {
    std::ranges::pop_heap(places_, std::greater<>());
    const int place = places_.back().second;
    places_.pop_back();
    return place;
  }

 private:
  std::vector<std::pair<double, int>> places_;
};

}  // namespace

AcesoRecompute AcesoCosts::recompute(int first, int end, int behind, double limit) const {
  const double without = memory(first, end, behind);
  AcesoRecompute result{.time = 0, .memory = without, .operators = {}};
  if (without <= limit) return result;
  std::vector<int> group_of;
  std::vector<Group> groups = groups_in(first, end, behind, group_of);
  MostFirst largest_first;
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    const Group& group = groups[index(g)];
    if (group.may_recompute && group.all() > 0) largest_first.add(group.all(), g);
  }
  largest_first.begin();
  result.operators.assign(index(end - first), 0);
  double most_saved = 0;  // of one microbatch, whatever stays as a run's peak
  const auto mark = [&](int i) {
    char& recomputes = result.operators[index(i - first)];
    if (recomputes == 0) most_saved += saved_[index(i)];
    recomputes = 1;
  };
  const auto look = [&] { result.memory = memory(first, end, behind, result.operators); };
  while (!largest_first.is_empty()) {
    Group& largest = groups[index(largest_first.take())];
    if (largest.is_done) continue;
    largest.is_done = true;
    if (largest.first + 1 >= end) break;
    groups[index(group_of[index(largest.first + 1 - first)])].is_done = true;
    // All of them, or as many from the front as would cover the excess.
    if (largest.count > 1) look();
    const double excess = result.memory - limit;
    double taken = 0;
    int left = largest.count;
    for (int i = largest.first; left > 0 && (largest.all() < excess || taken <= excess); ++i) {
      if (chain_[index(i)] != largest.row) continue;
      taken += largest.size;
      --left;
      mark(i);
      if (i + 1 < end) mark(i + 1);
    }
    // A look takes as long as all the rest, so not while it cannot be enough.
    constexpr double rounding = 1 + 1e-9;
    if (without - most_saved * (behind + 1) > limit * rounding) continue;
    look();
    if (result.memory <= limit) break;
  }
  look();
  result.time = recompute_time(first, result.operators);
  return result;
}

namespace {

const AcesoTable& table_for(const AcesoDatabase& database, int microbatch, int degree) {
  for (const AcesoTable& table : database.tables) {
    if (table.microbatch == microbatch && table.tensor_parallel == degree) return table;
  }
  fail(database.family, "_", database.size, " has no table for microbatch ", microbatch,
       ", tensor-parallel ", degree);
}

}  // namespace

AcesoFigures evaluate(const AcesoDatabase& database, const AcesoMachine& machine,
                      std::int64_t global_batch, const AcesoPlan& plan) {
  AcesoFigures figures;
  int devices = 0;
  int behind = static_cast<int>(plan.stages.size());
  const auto ends_node = [&] { return devices % machine.devices_per_node == 0; };
  for (const AcesoStage& stage : plan.stages) {
    const AcesoCosts costs(database, table_for(database, plan.microbatch / stage.data_parallel,
                                               stage.tensor_parallel));
    const std::vector<char> recomputes(stage.recomputes.begin(), stage.recomputes.end());
    const bool enters_node = devices > 0 && ends_node();
    devices += stage.devices();
    const double time =
        costs.work(stage.first, stage.end) + costs.receive(stage.first, enters_node) +
        costs.send(stage.end - 1, ends_node()) + costs.recompute_time(stage.first, recomputes);
    figures.stage_times.push_back(time * 1e-9);
    figures.memory.push_back(costs.memory(stage.first, stage.end, --behind, recomputes) /
                             aceso_thousandths);
    figures.reserved.push_back(costs.reserved(stage.first, stage.end) / aceso_thousandths);
  }
  const double sum = std::accumulate(figures.stage_times.begin(), figures.stage_times.end(), 0.0);
  const std::int64_t microbatches = global_batch / plan.microbatch;
  const auto batches = static_cast<double>(microbatches);
  figures.time =
      (batches - 1) * *std::max_element(figures.stage_times.begin(), figures.stage_times.end()) +
      sum;
  return figures;
}

}  // namespace stagecraft
