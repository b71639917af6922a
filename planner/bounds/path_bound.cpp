#include "planner/bounds/path_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "planner/layouts/layouts.hpp"

namespace stagecraft {

namespace {

/// Rounds without a better bound before steps get shorter, and before the best weights are taken up
/// again.
constexpr int most_failures = 4, failures_to_return = 16;

constexpr double infinite = std::numeric_limits<double>::infinity();

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// The nearest weights that are not negative and sum to one (Held, Wolfe and Crowder 1974).
template <class Rows>
void project_on_simplex(Rows& rows) {
  std::vector<double> sorted;
  for (const auto& row : rows) sorted.push_back(row.weight);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0, level = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const double candidate = (sum - 1) / static_cast<double>(i + 1);
    if (sorted[i] > candidate) level = candidate;
  }
  double all = 0;
  for (auto& row : rows) all += row.weight = std::max(row.weight - level, 0.0);
  // After a long step, what rounding leaves of large weights must not lift the bound.
  if (all > 0) {
    for (auto& row : rows) row.weight /= all;
  } else {
    for (auto& row : rows) row.weight = 1.0 / static_cast<double>(rows.size());
  }
}

}  // namespace

PathBound::PathBound(const Space& space, const Setting& setting, const TimedOrder& order,
                     Time limit, const BlockPacking* packing)
    : space_(space),
      setting_(setting),
      order_(order),
      costs_(space, setting, limit),
      passes_(costs_, order, setting.microbatches),
      packing_(packing),
      limit_(static_cast<double>(limit)) {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    if (space.allows(recompute)) choices_.push_back(recompute);
  }
  // The schedule says when to recompute; what a layout says does not matter.
  if (order.places_recompute) choices_ = {Recompute::full};
  for (int s = 0; s < costs_.stages(); ++s) {
    may_take_no_time_.push_back(costs_.may_take_no_time(s) ? 1 : 0);
  }
  add_prices();
  // Without a limit nothing recomputes that need not.
  if (moments_.empty() && choices_.size() > 1) choices_.resize(1);
}

/// What a shortest path does not know of itself: memory, and how much a device can have.
void PathBound::add_prices() {
  for (int device = 0; device < costs_.depth(); ++device) {
    if (costs_.limit(device) == infinite) continue;
    const auto count = static_cast<int>(order_.moments[index(device)].size());
    for (int which = 0; which < count; ++which) moments_.push_back({device, which, {}});
  }
  if (packing_ == nullptr) return;
  for (const int layers : packing_->most_layers()) rooms_.push_back({std::max(layers, 1), {}});
}

bool PathBound::applies(const Space& space) {
  constexpr int most_layers = 1000;
  return space.layers() <= most_layers;
}

std::int64_t PathBound::steps_per_round() const {
  std::int64_t ranges = 0;
  for (int first = 0; first < costs_.layers(); ++first) {
    ranges += costs_.last_end(0, first) - first;
  }
  return 4 * ranges * costs_.stages() + steps_to_time() + std::int64_t{200} * costs_.stages();
}

template <class Visit>
void PathBound::for_each_price(const Visit& visit) {
  for (Moment& moment : moments_) visit(moment.price);
  for (Room& room : rooms_) visit(room.price);
}

/// Rows and prices as one weight per part of each stage.
PathBound::Weighting PathBound::combined(double Row::*weight, double Price::*price) const {
  Weighting sum{.stages = std::vector<Weights>(index(costs_.stages()))};
  for (const Row& row : rows_) {
    if (row.*weight != 0) weigh(*row.path, row.*weight, sum);
  }
  for (const Moment& moment : moments_) {
    if (moment.price.*price > 0) weigh(moment, moment.price.*price, sum);
  }
  for (std::size_t device = 0; device < rooms_.size(); ++device) {
    weigh(static_cast<int>(device), rooms_[device], rooms_[device].price.*price, sum);
  }
  return sum;
}

void PathBound::weigh(const PassCounts& path, double weight, Weighting& sum) const {
  for (std::size_t s = 0; s < sum.stages.size(); ++s) {
    add(sum.stages[s].passes, path.stages[s], weight);
  }
  sum.constant += weight * path.ties * costs_.tie();
}

void PathBound::weigh(const Moment& moment, double price, Weighting& sum) const {
  const double per_byte = price / costs_.limit(moment.device);
  sum.constant -= price;
  const FullMoment& full = order_.moments[index(moment.device)][index(moment.which)];
  int turn_stage = 0;
  for (int s = 0; s < costs_.stages(); ++s) {
    if (costs_.device_of(s) == moment.device && costs_.turn_of(s) == full.turn) turn_stage = s;
  }
  for (int s = 0; s < costs_.stages(); ++s) {
    if (costs_.device_of(s) != moment.device) continue;
    Weights& weights = sum.stages[index(s)];
    weights.fixed += per_byte;
    // Where the stage whose turn it is may take no time, others may hold nothing then.
    if (may_take_no_time_[index(turn_stage)] != 0 && s != turn_stage) continue;
    weights.in_flight += per_byte * full.in_flight[index(costs_.turn_of(s))];
    weights.waiting += per_byte * full.waiting[index(costs_.turn_of(s))];
    if (s == turn_stage) weights.turn += per_byte;
    if (s == turn_stage && full.splits) weights.split_turn += per_byte;
  }
}

void PathBound::weigh(int device, const Room& room, double price, Weighting& sum) const {
  sum.constant -= price;
  for (int s = 0; s < costs_.stages(); ++s) {
    if (costs_.device_of(s) == device) sum.stages[index(s)].per_layer = price / room.layers;
  }
}

std::vector<PathBound::Weighting> PathBound::weighted_paths() const {
  constexpr std::size_t most_alone = 8;
  std::vector<Weighting> sums{combined(&Row::best_weight, &Price::best)};
  std::vector<const Row*> rows;
  for (const Row& row : rows_) {
    if (row.best_weight > 0) rows.push_back(&row);
  }
  std::ranges::stable_sort(rows, std::greater<>(), &Row::best_weight);
  rows.resize(std::min(rows.size(), most_alone));
  for (const Row* row : rows) sums.push_back(alone(*row->path));
  return sums;
}

PathBound::Weighting PathBound::alone(const PassCounts& path) const {
  Weighting sum{.stages = std::vector<Weights>(index(costs_.stages()))};
  weigh(path, 1, sum);
  return sum;
}

std::vector<PathBound::Weighting> PathBound::full_moments() const {
  constexpr std::size_t most = 16;
  std::vector<const Moment*> moments;
  for (const Moment& moment : moments_) moments.push_back(&moment);
  std::ranges::stable_sort(moments, std::greater<>(),
                           [](const Moment* moment) { return moment->price.best; });
  moments.resize(std::min(moments.size(), most));
  std::vector<Weighting> sums;
  for (const Moment* moment : moments) sums.push_back(alone(*moment));
  return sums;
}

PathBound::Weighting PathBound::alone(const Moment& moment) const {
  Weighting sum{.stages = std::vector<Weights>(index(costs_.stages()))};
  weigh(moment, 1, sum);
  return sum;
}

bool PathBound::is_always_full() const {
  constexpr double rounding = 1e-9;
  return std::ranges::any_of(moments_, [&](const Moment& moment) {
    const Weighting sum = alone(moment);
    return at(least_onward(sum), 0, 0).value + sum.constant > rounding;
  });
}

double PathBound::cut_cost(const Weighting& sum, int stage, int end) const {
  if (stage + 1 == costs_.stages()) return 0;
  return time_of(sum.stages[index(stage)].passes, costs_.cut(stage, end));
}

double PathBound::cost(const Weighting& sum, int stage, int first, int end,
                       Recompute recompute) const {
  const StageCosts& costs = costs_.stage(stage, first, end);
  const Weights& weights = sum.stages[index(stage)];
  const ChunkMemory& memory = costs.memory;
  const bool full = recompute == Recompute::full;
  const auto bytes = [](Bytes count) { return static_cast<double>(count); };
  const double value =
      time_of(weights.passes, costs, full && !order_.places_recompute ? costs.forward : 0) +
      weights.per_layer * (end - first) +
      weights.fixed * bytes(memory.parameters + memory.gradients + memory.optimizer);
  // What takes no time never shows: it ends at the instant it begins.
  if (costs.backward_input == 0) return value;
  const Bytes kept = full ? 0 : memory.saved, rebuilt = full ? memory.saved : 0;
  return value + weights.in_flight * bytes(memory.input + kept) +
         weights.waiting * bytes(memory.input + memory.saved_for_weight) +
         weights.split_turn * bytes(memory.saved_for_weight) +
         weights.turn * bytes(rebuilt + memory.workspace + memory.output + memory.input);
}

/// Of a stage that weighs nothing, and may end anywhere: the best of all that can follow.
void PathBound::step_over(int stage, std::vector<Step>& steps) const {
  const int layers = costs_.layers(), last_end = layers - (costs_.stages() - 1 - stage);
  Step best{.value = infinite};
  for (int first = layers - 1; first >= 0; --first) {
    const int end = first + 1;
    const double behind = end <= last_end ? at(steps, stage + 1, end).value : infinite;
    if (behind < infinite && behind <= best.value) best = {behind, end, choices_.front()};
    const bool is_place = first >= stage && (stage > 0 || first == 0);
    if (is_place) steps[place_of(stage, first)] = best;
  }
}

/// Over all ends of a stage and all it may do again.
void PathBound::step_through(const Weighting& sum, int stage, std::vector<Step>& steps) const {
  const int layers = costs_.layers();
  const bool last = stage + 1 == costs_.stages();
  const int last_first = stage == 0 ? 0 : layers - 1;
  for (int first = stage; first <= last_first; ++first) {
    Step& best = steps[place_of(stage, first)];
    const int last_end =
        std::min(costs_.last_end(stage, first), layers - (costs_.stages() - 1 - stage));
    for (int end = last ? layers : first + 1; end <= last_end; ++end) {
      const double behind = at(steps, stage + 1, end).value;
      if (behind == infinite || !space_.allows(stage, {first, end})) continue;
      const double onward = behind + cut_cost(sum, stage, end);
      for (const Recompute recompute : choices_) {
        const double value = onward + cost(sum, stage, first, end, recompute);
        if (value < best.value) best = {value, end, recompute};
      }
    }
  }
}

std::vector<PathBound::Step> PathBound::least_onward(const Weighting& sum) const {
  const int stages = costs_.stages(), layers = costs_.layers();
  std::vector<Step> steps(index(stages + 1) * index(layers + 1), Step{.value = infinite});
  steps[place_of(stages, layers)].value = 0;
  const Problem& problem = space_.problem();
  const bool allows_all = problem.fixed.empty() && problem.min_layers_per_stage <= 1;
  for (int s = stages - 1; s >= 0; --s) {
    // Of a moment only the stages of its device weigh anything.
    const bool is_free = sum.stages[index(s)] == Weights{} && s + 1 < stages;
    if (is_free && allows_all && costs_.last_end(s, 0) >= layers) {
      step_over(s, steps);
    } else {
      step_through(sum, s, steps);
    }
  }
  return steps;
}

/// Finds the layout with the least weighted sum, and gives that; infinite if there is none.
double PathBound::solve() {
  const Weighting sum = combined(&Row::weight, &Price::now);
  const std::vector<Step> steps = least_onward(sum);
  const double value = at(steps, 0, 0).value;
  if (value == infinite) return infinite;
  layout_ = {};
  layout_.replicas.assign(index(costs_.depth()), 1);
  layout_.cuts = {0};
  for (int s = 0; s < costs_.stages(); ++s) {
    const Step& step = at(steps, s, layout_.cuts.back());
    layout_.cuts.push_back(step.end);
    layout_.recompute.push_back(step.recompute);
  }
  return value + sum.constant;
}

double PathBound::excess_of(const Moment& moment) const {
  const FullMoment& full = order_.moments[index(moment.device)][index(moment.which)];
  std::vector<ChunkMemory> stages;
  std::vector<Recompute> recompute;
  bool computes = true;
  for (int s = 0; s < costs_.stages(); ++s) {
    if (costs_.device_of(s) != moment.device) continue;
    const StageCosts& costs = costs_.stage(s, layout_.cuts[index(s)], layout_.cuts[index(s) + 1]);
    stages.push_back(costs.memory);
    recompute.push_back(layout_.recompute[index(s)]);
    if (costs_.turn_of(s) == full.turn) computes = costs.backward_input > 0;
  }
  const double limit = costs_.limit(moment.device);
  return static_cast<double>(bytes_at(full, stages, recompute, computes)) / limit - 1;
}

/// Times the latest layout, and weighs it.
void PathBound::measure() {
  for (Row& row : rows_) row.length = length(*row.path, costs_, order_, layout_);
  Row row;
  row.path = std::make_shared<PassCounts>(passes_.of(layout_, row.length));
  rows_.push_back(std::move(row));
  for (Moment& moment : moments_) moment.price.excess = excess_of(moment);
  std::vector<int> layers(index(costs_.depth()));
  for (int s = 0; s < costs_.stages(); ++s) {
    layers[index(costs_.device_of(s))] += layout_.cuts[index(s) + 1] - layout_.cuts[index(s)];
  }
  for (std::size_t device = 0; device < rooms_.size(); ++device) {
    Room& room = rooms_[device];
    room.price.excess = static_cast<double>(layers[device] - room.layers) / room.layers;
  }
}

/// One step towards the goal along the subgradient; towards a bit more if the goal is close, or
/// prices would take long to rise.
void PathBound::move(double value, double goal) {
  constexpr double least_way = 0.05;
  const double way = pace_ * std::max(goal - value, least_way * goal);
  const double unit = limit_;
  double mean = 0, square = 0;
  for (const Row& row : rows_) mean += row.weight * row.length;
  for (const Row& row : rows_) {
    const double slope = (row.length - mean) / unit;
    if (row.weight > 0 || slope > 0) square += slope * slope;
  }
  for_each_price([&](Price& price) {
    if (price.now > 0 || price.excess > 0) square += price.excess * price.excess;
  });
  if (square == 0) return;
  const double step = way / unit / square;
  for (Row& row : rows_) row.weight += step * (row.length - mean) / unit;
  project_on_simplex(rows_);
  for_each_price(
      [&](Price& price) { price.now = std::max(price.now + step * price.excess * unit, 0.0); });
}

/// Keeps the best weights. Without a better bound for long, steps of `move` get shorter; for longer
/// still, they begin at the best weights again, and the value is theirs.
void PathBound::take_note(double& value) {
  if (value > bound_) {
    bound_ = value;
    failures_ = 0;
    for (Row& row : rows_) row.best_weight = row.weight;
    for_each_price([](Price& price) { price.best = price.now; });
    return;
  }
  ++failures_;
  if (failures_ % most_failures == 0) pace_ /= 2;
  if (failures_ < failures_to_return) return;
  failures_ = 0;
  for (Row& row : rows_) row.weight = row.best_weight;
  for_each_price([](Price& price) { price.now = price.best; });
  value = solve();
}

void PathBound::drop_idle_rows() {
  constexpr std::size_t most = 96;
  constexpr std::ptrdiff_t latest = 24;  // which may yet get weights
  if (rows_.size() <= most) return;
  const auto is_idle = [](const Row& row) { return row.weight == 0 && row.best_weight == 0; };
  rows_.erase(std::remove_if(rows_.begin(), rows_.end() - latest, is_idle), rows_.end() - latest);
}

/// For each device, the critical path of a good layout that the device has most part in: together
/// they are about as long as that layout's step, whatever the layout.
void PathBound::begin() {
  if (layout_.cuts.empty()) {
    layout_ = balanced(space_, setting_, std::vector<int>(index(costs_.depth()), 1));
  }
  // A good layout may have stages that are too long for the limit.
  std::optional<PipelineCosts> unlimited;
  if (!has_costs(layout_)) unlimited.emplace(space_, setting_, never - 1);
  CriticalPasses passes(unlimited ? *unlimited : costs_, order_, setting_.microbatches);
  std::vector<Path> device_rows, stage_rows;
  for (int device = 0; device < costs_.depth(); ++device) {
    device_rows.push_back(std::make_shared<PassCounts>(passes.through(device, layout_)));
  }
  if (setting_.placement != StagePlacement::bidirectional) {
    for (const PassCounts& path : backward_paths(costs_, order_))
      stage_rows.push_back(std::make_shared<PassCounts>(path));
  }
  begin_with(device_rows);
  for (const PassCounts& path : device_paths(costs_, order_))
    add_row(std::make_shared<PassCounts>(path));
  // Better weights to begin with, it may be: those of the best bound so far are taken.
  if (stage_rows.empty()) return;
  double value = 0;
  for (const auto* paths : {&device_rows, &stage_rows}) {
    if (paths != &device_rows) begin_with(*paths);
    value = solve();
    take_note(value);
  }
  for (Row& row : rows_) row.weight = row.best_weight;
  failures_ = 0;
}

/// These paths, with equal weights; others lose theirs.
void PathBound::begin_with(const std::vector<Path>& paths) {
  for (Row& row : rows_) row.weight = 0;
  for (const Path& path : paths) {
    add_row(path);
    rows_.back().weight = 1.0 / static_cast<double>(paths.size());
  }
}

bool PathBound::has_costs(const Layout& layout) const {
  for (int s = 0; s < costs_.stages(); ++s) {
    if (layout.cuts[index(s) + 1] > costs_.last_end(s, layout.cuts[index(s)])) return false;
  }
  return true;
}

int PathBound::raise(int rounds, Time enough, const std::function<void(const Layout&)>& visit,
                     const std::stop_token& stop) {
  if (rows_.empty()) begin();
  const auto goal = static_cast<double>(enough);
  for (int round = 0; round < rounds; ++round) {
    if (stop.stop_requested()) return round;
    double value = solve();
    take_note(value);
    if (exceeds(goal)) return round;
    measure();
    visit(layout_);
    move(value, goal);
    drop_idle_rows();
  }
  return rounds;
}

/// Rounding of the sums must not lift the bound.
double PathBound::safe_bound() const {
  return (1 - 1e-9) * bound_;
}

Time PathBound::bound() const {
  if (exceeds(limit_)) return static_cast<Time>(limit_) + 1;
  return static_cast<Time>(std::floor(safe_bound()));
}

}  // namespace stagecraft
