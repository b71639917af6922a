#include "planner/relaxations/path_bound.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/layouts/layouts.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Weights within this of the optimum count as optimal.
constexpr double close = 1e-3;

/// The recomputation that a stage may choose. There is no choice if the schedule itself places
/// recomputation, or if memory is unlimited, so that no stage recomputes unless it must.
std::vector<Recompute> recompute_choices(const Space& space, const TimedOrder& order,
                                         const PipelineCosts& costs) {
  if (order.places_recompute) return {Recompute::full};
  std::vector<Recompute> choices;
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    if (space.allows(recompute)) choices.push_back(recompute);
  }
  bool has_moments = false;
  for (int device = 0; device < costs.depth(); ++device) {
    has_moments = has_moments ||
                  (std::isfinite(costs.limit(device)) && !order.moments[index(device)].empty());
  }
  if (!has_moments && choices.size() > 1) choices.resize(1);
  return choices;
}

}  // namespace

PathBound::PathBound(const Space& space, const Setting& setting, const TimedOrder& order,
                     Time limit, const BlockPacking* packing)
    : space_(space),
      setting_(setting),
      order_(order),
      costs_(space, setting, limit),
      passes_(costs_, order, setting.microbatches),
      limit_(static_cast<double>(limit)),
      unit_(limit_),
      again_(stagecraft::recompute_choices(space, order, costs_)),
      choices_(space, costs_, order, again_) {
  spent_ += choices_.steps();
  add_moments();
  if (packing != nullptr) add_rooms(*packing);
}

bool PathBound::applies(const Space& space) {
  constexpr int most_layers = 1000;
  return space.layers() <= most_layers;
}

// --- Paths ---

void PathBound::add_row(const PassCounts& path) {
  Weighting unit(costs_.stages());
  unit.add(lengths(path, costs_.tie()), 1 / unit_);
  rows_.push_back(std::make_shared<Row>(
      Row{.unit = std::move(unit), .is_time = true, .path = path, .used = games_}));
}

void PathBound::know(const std::vector<PassCounts>& paths) {
  known_ = paths;
}

std::vector<PassCounts> PathBound::useful_paths() const {
  constexpr std::size_t most = 64;
  return latest_paths(rows_, most);
}

/// The initial paths: the longest through each device in a good layout, and those that pass all
/// work of a stage or of a device.
void PathBound::begin() {
  if (start_.cuts.empty())
    start_ = balanced(space_, setting_, std::vector<int>(index(costs_.depth()), 1));
  // A good layout may have stages above the limit, so its costs are computed without one.
  std::optional<PipelineCosts> unlimited;
  if (!has_costs(start_)) unlimited.emplace(space_, setting_, never - 1);
  CriticalPasses passes(unlimited ? *unlimited : costs_, order_, setting_.microbatches);
  double step = 0;
  passes.of(start_, step);
  if (limit_ > static_cast<double>(never) / 2) unit_ = std::max(step, 1.0);
  for (int device = 0; device < costs_.depth(); ++device) add_row(passes.through(device, start_));
  for (const RowRef& row : rows_) weights_.push_back({row, 1.0 / costs_.depth()});
  if (setting_.placement != StagePlacement::bidirectional) {
    for (const PassCounts& path : backward_paths(costs_, order_)) add_row(path);
  }
  for (const PassCounts& path : device_paths(costs_, order_)) add_row(path);
  for (const PassCounts& path : known_) add_row(path);
  spent_ += (costs_.depth() + 3) * static_cast<std::int64_t>(order_.order.size()) / 2;
}

bool PathBound::has_costs(const Layout& layout) const {
  for (int s = 0; s < costs_.stages(); ++s) {
    if (layout.cuts[index(s) + 1] > costs_.last_end(s, layout.cuts[index(s)])) return false;
  }
  return true;
}

Layout PathBound::layout_of(const Chosen& chosen) const {
  Layout layout{.replicas = std::vector<int>(index(costs_.depth()), 1), .cuts = {0}};
  for (const StageChoices::Choice& choice : chosen) {
    layout.cuts.push_back(choice.end);
    layout.recompute.push_back(choice.recompute);
  }
  return layout;
}

// --- Weights ---

/// Finds a layout of least sum, and removes choices by reduced-cost fixing. False if nothing is
/// left.
bool PathBound::weigh(const Weights& weights, SeenLayout& found) {
  Weighting sum(costs_.stages());
  double time = 0, moments = 0;
  for (const auto& [row, weight] : weights) {
    sum.add(row->unit, weight * scale(*row));
    (row->is_time ? time : moments) += weight * scale(*row);
  }
  spent_ += choices_.steps() + static_cast<std::int64_t>(weights.size()) * costs_.stages();
  StageChoices::Least least =
      choices_.least(sum, safe * (time * (limit_ / unit_) + moments), scratch_);
  if (choices_.are_none()) return false;
  found.parts = choices_.parts(least.layout, sum);
  found.choices = std::move(least.layout);
  if (least.value > value_) {
    value_ = least.value;
    weights_ = weights;
  }
  constexpr double tiny = 1e-6;  // least weight of paths to divide by
  if (time > tiny) bound_ = std::max(bound_, (least.value - moments) / time);
  return true;
}

double PathBound::value(const Row& row, const Weighting& parts) const {
  return scale(row) * row.sparse.weighed(parts);
}

void PathBound::try_out(const Chosen& chosen, const VisitTimed& visit) {
  const Layout layout = layout_of(chosen);
  double step = 0;
  add_row(passes_.of(layout, step));
  spent_ += static_cast<std::int64_t>(order_.order.size()) / 2;
  visit(layout, step);
}

bool PathBound::is_left(const Chosen& chosen) const {
  for (int s = 0; s < costs_.stages(); ++s) {
    if (!choices_.has(s, chosen[index(s)])) return false;
  }
  return true;
}

/// Adds a layout to the game, and drops layouts with removed choices.
void PathBound::add(Seen& seen, SeenLayout found) const {
  seen.keep_if([&](const SeenLayout& layout) { return is_left(layout.choices); });
  seen.let_go_of_idle(games_);
  seen.add(std::move(found), games_, value_of());
}

void PathBound::take_part(Seen& seen, const RowRef& row) const {
  seen.take_part(row, value_of());
}

double PathBound::play(Seen& seen, Weights& weights) {
  const double value = seen.play(++games_, weights);
  spent_ += seen.take_steps();
  return value;
}

Weighting PathBound::mean(const Seen& seen) const {
  Weighting mean(costs_.stages());
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    if (seen.mixture()[i] > 0) mean.add(seen.layouts()[i].parts, seen.mixture()[i]);
  }
  return mean;
}

/// The critical path of the mean layout; `step` becomes its length there.
PassCounts PathBound::path_of(const Weighting& mean, double& step) {
  std::vector<StageTimes> stages;
  std::vector<CutCosts> cuts;
  for (const StageParts& parts : mean.stages) {
    stages.push_back({.forward = parts[Part::forward],
                      .backward = parts[Part::backward],
                      .backward_input = parts[Part::backward_input],
                      .backward_weight = parts[Part::backward_weight],
                      .sum = parts[Part::sum],
                      .update = parts[Part::update],
                      .collect = parts[Part::collect]});
  }
  for (const CutParts& parts : mean.cuts) {
    cuts.push_back({.there_latency = parts[CutPart::there_latency],
                    .there_occupancy = parts[CutPart::there_occupancy],
                    .back_latency = parts[CutPart::back_latency],
                    .back_occupancy = parts[CutPart::back_occupancy]});
  }
  spent_ += static_cast<std::int64_t>(order_.order.size()) / 2;
  return passes_.of(stages, cuts, step);
}

/// Solves the game, adding rows and critical paths of the mean layout until the value is at least
/// as close to the optimum over all paths as to the bound.
double PathBound::play_with_paths(Seen& seen, Weights& weights) {
  constexpr double tiny = 1e-5, part = 4;
  constexpr int most_rows = 60, most_paths = 20;
  double value = play(seen, weights);
  for (int paths = 0, rows = 0; rows < most_rows; ++rows) {
    const Weighting mean = this->mean(seen);
    const double enough = value + std::max((value - value_) / part, tiny);
    RowRef best;
    double most = value + tiny;
    for (const auto* list : {&rows_, &moments_}) {
      for (const RowRef& row : *list) {
        const double own = this->value(*row, mean);
        if (own <= most || seen.has_part(row)) continue;
        most = own;
        best = row;
      }
      spent_ += static_cast<std::int64_t>(list->size()) * costs_.stages() * 2;
    }
    if (best == nullptr) {
      if (++paths > most_paths) break;
      double step = 0;
      add_row(path_of(mean, step));
      if (step / unit_ < enough) break;
      best = rows_.back();
    }
    best->used = games_;
    take_part(seen, best);
    value = play(seen, weights);
  }
  return value;
}

/// Removes the rows that have had no weight for longest.
void PathBound::drop_idle_rows() {
  constexpr std::size_t most = 256, kept = 128;
  if (rows_.size() <= most) return;
  keep_latest(rows_, kept);
}

void PathBound::raise(int rounds, std::int64_t effort, const Visit& visit,
                      const std::stop_token& stop) {
  if (choices_.are_too_many() || choices_.are_none()) return;
  if (rows_.empty()) begin();
  const std::int64_t last = spent_ + effort;
  Seen seen;
  for (const Weight& own : weights_) take_part(seen, own.row);
  Weights weights = weights_;
  value_ = 0;
  const auto pass_on = [&](const Layout& layout, double) { visit(layout); };
  for (int round = 0; round < rounds && spent_ <= last && !stop.stop_requested(); ++round) {
    if (play_round(seen, weights, pass_on)) continue;
    if (choices_.are_none()) return;
    // If memory stays within its limits, the bound is the weighted sum of the paths alone, so
    // memory rows are scaled to the bound.
    double moments = 0;
    for (const Weight& own : weights_) moments += own.row->is_time ? 0 : own.weight;
    if (moments < close || bound_ > (1 - close) * moment_scale_) break;
    moment_scale_ = bound_;
    value_ = 0;
    seen.begin_anew(value_of());
    weights = weights_;
  }
  visit_mean(seen, visit);
}

/// One round of the relaxation. False if weights cannot improve, or if nothing is left.
bool PathBound::play_round(Seen& seen, Weights& weights, const VisitTimed& visit) {
  SeenLayout found;
  if (!weigh(weights, found)) return false;
  add(seen, found);
  drop_idle_rows();
  try_out(found.choices, visit);
  take_part(seen, rows_.back());
  Weights best;
  if (play_with_paths(seen, best) < value_ + close) return false;
  weights = Seen::half_way(weights_, best);
  return true;
}

/// Visits the mean layout of the latest game, rounded to whole layers.
void PathBound::visit_mean(const Seen& seen, const Visit& visit) const {
  const int stages = costs_.stages();
  std::vector<double> ends(index(stages)), again(index(stages));
  for (std::size_t i = 0; i < seen.mixture().size(); ++i) {
    for (std::size_t s = 0; s < ends.size(); ++s) {
      const StageChoices::Choice& choice = seen.layouts()[i].choices[s];
      ends[s] += seen.mixture()[i] * choice.end;
      again[s] += choice.recompute == Recompute::full ? seen.mixture()[i] : 0;
    }
  }
  if (seen.mixture().empty()) return;
  constexpr double half = 0.5;
  Chosen chosen;
  int first = 0;
  for (int s = 0; s < stages; ++s) {
    const int last = costs_.layers() - (stages - s - 1);
    const int end = s + 1 == stages ? last
                                    : std::clamp(static_cast<int>(std::lround(ends[index(s)])),
                                                 first + 1, last);
    if (end > costs_.last_end(s, first) || !space_.allows(s, {first, end})) return;
    chosen.push_back(
        {first, end,
         again[index(s)] > half || again_.size() == 1 ? again_.back() : again_.front()});
    first = end;
  }
  visit(layout_of(chosen));
}

// --- Results ---

Time PathBound::bound() const {
  if (choices_.are_none()) return static_cast<Time>(limit_) + 1;
  const double bound = bound_ * unit_ / safe;
  if (bound > limit_) return static_cast<Time>(limit_) + 1;
  return static_cast<Time>(std::floor(std::max(bound, 0.0)));
}

LayoutSum PathBound::alone(const PassCounts& path) const {
  return {.weighting = lengths(path, costs_.tie()), .per_time = 1};
}

std::vector<LayoutSum> PathBound::sums() const {
  constexpr std::size_t most_paths = 8, most_moments = 16;
  LayoutSum whole{.weighting = Weighting(costs_.stages())};
  for (const auto& [row, weight] : weights_) {
    whole.weighting.add(row->unit, weight * scale(*row));
    (row->is_time ? whole.per_time : whole.constant) += weight * scale(*row);
  }
  whole.per_time /= unit_;
  std::vector<LayoutSum> sums{std::move(whole)};
  Weights heaviest = weights_;
  std::ranges::stable_sort(heaviest, std::greater<>(), &Weight::weight);
  std::size_t paths = 0;
  for (const auto& [row, weight] : heaviest) {
    if (row->is_time && ++paths <= most_paths) sums.push_back(alone(row->path));
  }
  std::vector<RowRef> moments = moments_;
  std::ranges::stable_sort(moments, std::greater<>(), &Row::used);
  moments.resize(std::min(moments.size(), most_moments));
  for (const RowRef& row : moments) sums.push_back({.weighting = row->unit, .constant = 1});
  return sums;
}

}  // namespace stagecraft
