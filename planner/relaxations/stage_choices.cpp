#include "planner/relaxations/stage_choices.hpp"

#include <algorithm>

#include "profiles/index.hpp"
#include "profiles/infinite.hpp"

namespace stagecraft {

namespace {

double in_double(Bytes count) {
  return static_cast<double>(count);
}

/// The contribution of the layers' recomputation to the sum, from the prefix sums `again`.
double by_layers(const StageChoices::Choice& choice, const std::vector<double>& again) {
  if (again.empty() || choice.recompute == Recompute::full) return 0;
  return again[index(choice.end)] - again[index(choice.first)];
}

}  // namespace

void Weighting::add(const Weighting& other, double weight) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].add(other.stages[s], weight);
    cuts[s].add(other.cuts[s], weight);
  }
  constant += weight * other.constant;
}

Weighting lengths(const PassCounts& path, double tie) {
  Weighting sum(static_cast<int>(path.stages.size()));
  for (std::size_t s = 0; s < path.stages.size(); ++s) {
    const Passes& passes = path.stages[s];
    StageParts& stage = sum.stages[s];
    stage[Part::forward] = passes.forward + passes.recompute;
    stage[Part::backward] = passes.backward;
    stage[Part::backward_input] = passes.backward_input;
    stage[Part::backward_weight] = passes.backward_weight;
    stage[Part::sum] = passes.sum;
    stage[Part::update] = passes.update;
    stage[Part::collect] = passes.collect;
    CutParts& cut = sum.cuts[s];
    cut[CutPart::there_latency] = passes.there_latency;
    cut[CutPart::there_occupancy] = passes.there_occupancy;
    cut[CutPart::back_latency] = passes.back_latency;
    cut[CutPart::back_occupancy] = passes.back_occupancy;
  }
  sum.constant = path.ties * tie;
  return sum;
}

SparseWeighting::SparseWeighting(const Weighting& weights) : constant_(weights.constant) {
  for (std::size_t s = 0; s < weights.stages.size(); ++s) {
    const std::ptrdiff_t own = add(weights.stages[s]), cut = add(weights.cuts[s]);
    if (own + cut > 0) stages_.push_back({.stage = s, .own = own, .cut = cut});
  }
}

/// Adds the pairs that are not zero, and returns their number.
template <class Kind, int count>
std::ptrdiff_t SparseWeighting::add(const Parts<Kind, count>& parts) {
  std::ptrdiff_t added = 0;
  for (std::size_t place = 0; place < parts.pairs; ++place) {
    const std::array<double, 2> pair = parts.pair(place);
    if (pair == std::array<double, 2>{}) continue;
    pairs_.push_back({.place = place, .weights = pair});
    ++added;
  }
  return added;
}

double SparseWeighting::weighed(const Weighting& layout) const {
  double sum = constant_;
  auto next = pairs_.begin();
  const auto add_up = [&](const auto& parts, std::ptrdiff_t count) {
    double even = 0, odd = 0;
    for (const auto end = next + count; next != end; ++next) {
      const std::array<double, 2> pair = parts.pair(next->place);
      even += next->weights[0] * pair[0];
      odd += next->weights[1] * pair[1];
    }
    return even + odd;
  };
  for (const auto& [stage, own, cut] : stages_) {
    const double of_stage = add_up(layout.stages[stage], own);
    sum += of_stage + add_up(layout.cuts[stage], cut);
  }
  return sum;
}

StageChoices::StageChoices(const Space& space, const PipelineCosts& costs, const TimedOrder& order,
                           const std::vector<Recompute>& again)
    : costs_(&costs), places_recompute_(order.places_recompute), of_(index(costs.stages())) {
  list_layers_again(space, again);
  list(space, again);
  find_places();
  list_parts();
}

void StageChoices::list_layers_again(const Space& space, const std::vector<Recompute>& again) {
  const bool may_be_none = std::ranges::find(again, Recompute::none) != again.end();
  if (!space.layers_choose() || !may_be_none || places_recompute_) return;
  for (int s = 0; s < costs_->stages(); ++s) {
    auto& stage = layers_again_.emplace_back(index(costs_->layers()));
    for (int layer = 0; layer < costs_->layers(); ++layer) {
      const LayerCost& cost = costs_->table(s).layer(layer);
      for (const Recomputed what : space.problem().recompute_layers) {
        const LayerCost changed = recomputed(cost, what);
        if (changed.saved >= cost.saved) continue;
        const Duration longer = changed.backward_input - cost.backward_input;
        stage[index(layer)].push_back({.longer = static_cast<double>(longer.count()),
                                       .saved = in_double(cost.saved - changed.saved)});
      }
    }
  }
}

/// The recomputation of the layer with the least weighted sum; null: none.
const StageChoices::LayerAgain* StageChoices::best_again(int stage, int layer,
                                                         const StageParts& weights) const {
  const LayerAgain* best = nullptr;
  double least = 0;
  for (const LayerAgain& own : layers_again_[index(stage)][index(layer)]) {
    const double value = own.weighed(weights);
    if (value >= least) continue;
    least = value;
    best = &own;
  }
  return best;
}

/// Prefix sums, over layers, of the least weighted sum by recomputation. Empty if no layer
/// recomputes.
std::vector<double> StageChoices::least_again(int stage, const StageParts& weights) const {
  if (!layers_choose() || weights[Part::in_flight] == 0) return {};
  std::vector<double> sums{0};
  for (int layer = 0; layer < costs_->layers(); ++layer) {
    const LayerAgain* best = best_again(stage, layer, weights);
    sums.push_back(sums.back() + (best == nullptr ? 0 : best->weighed(weights)));
  }
  return sums;
}

/// Lists the choices. Those that no choice of the stage before leads to, or that lead to no choice
/// of the next stage, are left out at once, since there may be very many.
void StageChoices::list(const Space& space, const std::vector<Recompute>& again) {
  constexpr std::size_t most = 3'000'000;
  const int stages = costs_->stages(), layers = costs_->layers();
  // Layers at which a stage can end so that the stages before reach it, and first layers from which
  // the stages behind can continue.
  std::vector<std::vector<char>> onward(index(stages + 1), std::vector<char>(index(layers + 1)));
  onward[index(stages)][index(layers)] = 1;
  const auto goes_on = [&](int stage, int first, int end) {
    return onward[index(stage + 1)][index(end)] != 0 && space.allows(stage, {first, end});
  };
  for (int s = stages - 1; s >= 0; --s) {
    for (int first = s; first < layers; ++first) {
      const int last = costs_->last_end(s, first);
      for (int end = first + 1; end <= last && onward[index(s)][index(first)] == 0; ++end)
        onward[index(s)][index(first)] = goes_on(s, first, end) ? 1 : 0;
    }
  }
  std::vector<char> begins(index(layers + 1));
  begins.front() = 1;
  std::size_t count = 0;
  for (int s = 0; s < stages; ++s) {
    std::vector<char> ends(begins.size());
    for (int first = 0; first < layers; ++first) {
      if (begins[index(first)] == 0) continue;
      for (int end = first + 1; end <= costs_->last_end(s, first); ++end) {
        if (!goes_on(s, first, end)) continue;
        ends[index(end)] = 1;
        count += again.size();
        if (count > most) break;
        for (const Recompute recompute : again) of_[index(s)].push_back({first, end, recompute});
      }
    }
    begins = std::move(ends);
  }
  are_too_many_ = count > most;
  if (!are_too_many_) return;
  for (auto& choices : of_) choices = {};
}

void StageChoices::find_places() {
  const auto layers = index(costs_->layers());
  places_.resize(of_.size());
  for (std::size_t s = 0; s < of_.size(); ++s) {
    std::vector<std::size_t>& places = places_[s];
    places.assign(layers + 2, 0);
    for (const Choice& choice : of_[s]) ++places[index(choice.first) + 1];
    for (std::size_t layer = 0; layer <= layers; ++layer) places[layer + 1] += places[layer];
  }
}

bool StageChoices::are_none() const {
  return !are_too_many_ && std::ranges::any_of(of_, &std::vector<Choice>::empty);
}

std::size_t StageChoices::count() const {
  std::size_t count = 0;
  for (const auto& choices : of_) count += choices.size();
  return count;
}

double StageChoices::layouts() const {
  std::vector<double> behind(index(costs_->layers() + 1)), own;
  behind.back() = 1;
  for (int s = costs_->stages() - 1; s >= 0; --s) {
    own.assign(behind.size(), 0.0);
    for (const Choice& choice : of(s)) own[index(choice.first)] += behind[index(choice.end)];
    std::swap(own, behind);
  }
  return behind.front();
}

bool StageChoices::has(int stage, const Choice& choice) const {
  const auto& choices = of(stage);
  const auto begin = choices.begin() + static_cast<std::ptrdiff_t>(place(stage, choice.first));
  const auto end = choices.begin() + static_cast<std::ptrdiff_t>(place(stage, choice.first + 1));
  return std::find(begin, end, choice) != end;
}

StageParts StageChoices::parts(int stage, const Choice& choice) const {
  const StageCosts& costs = costs_->stage(stage, choice.first, choice.end);
  const ChunkMemory& memory = costs.memory;
  const bool full = choice.recompute == Recompute::full;
  const double again = full && !places_recompute_ ? costs.forward : 0;
  StageParts parts;
  parts[Part::forward] = costs.forward;
  parts[Part::backward] = again + costs.backward;
  parts[Part::backward_input] = again + costs.backward_input;
  parts[Part::backward_weight] = costs.backward_weight;
  parts[Part::sum] = costs.sum;
  parts[Part::update] = costs.update;
  parts[Part::collect] = costs.collect;
  parts[Part::fixed] = in_double(memory.parameters + memory.gradients + memory.optimizer);
  parts[Part::layers] = choice.end - choice.first;
  const Bytes kept = full ? 0 : memory.saved, rebuilt = full ? memory.saved : 0;
  if (memory.keeps_input) {
    parts[Part::in_flight] = in_double(memory.input + kept);
    parts[Part::waiting] = in_double(memory.input + memory.saved_for_weight);
  }
  // A backward that takes no time ends at the instant it begins, so it makes no peak.
  if (costs.backward_input == 0) return parts;
  parts[Part::busy] = 1;
  parts[Part::turn] = in_double(rebuilt + memory.workspace + memory.output + memory.input);
  parts[Part::split_turn] = in_double(memory.saved_for_weight);
  return parts;
}

StageChoices::Most StageChoices::most(int stage) const {
  Most most;
  for (const Choice& choice : of(stage)) {
    const StageParts own =
        table_ != nullptr ? (*table_)[place_of(stage, choice)] : parts(stage, choice);
    most.any.raise_to(own);
    if (own[Part::busy] == 0) most.idle.raise_to(own);
  }
  return most;
}

CutParts StageChoices::cut(int stage, int end) const {
  CutParts parts;
  if (stage + 1 == costs_->stages()) return parts;
  const CutCosts& cut = costs_->cut(stage, end);
  parts[CutPart::there_latency] = cut.there_latency;
  parts[CutPart::there_occupancy] = cut.there_occupancy;
  parts[CutPart::back_latency] = cut.back_latency;
  parts[CutPart::back_occupancy] = cut.back_occupancy;
  return parts;
}

Weighting StageChoices::parts(const std::vector<Choice>& layout, const Weighting& sum) const {
  Weighting parts(costs_->stages());
  for (int s = 0; s < costs_->stages(); ++s) {
    const Choice& choice = layout[index(s)];
    StageParts& own = parts.stages[index(s)] = this->parts(s, choice);
    parts.cuts[index(s)] = cut(s, choice.end);
    if (!layers_choose() || choice.recompute == Recompute::full) continue;
    for (int layer = choice.first; layer < choice.end; ++layer) {
      const LayerAgain* best = best_again(s, layer, sum.stages[index(s)]);
      if (best == nullptr) continue;
      own[Part::backward] += best->longer;
      own[Part::backward_input] += best->longer;
      own[Part::in_flight] -= best->saved;
    }
  }
  parts.constant = 1;
  return parts;
}

/// Computes the quantities of all ranges of layers, once for stages of equal costs, unless there
/// are too many.
void StageChoices::list_parts() {
  constexpr std::size_t most = 200'000;
  if (costs_->places() > most) return;
  auto table = std::make_shared<std::vector<StageParts>>(2 * costs_->places());
  for (int s = 0; s < costs_->stages(); ++s) {
    for (const Choice& choice : of(s)) {
      StageParts& own = (*table)[place_of(s, choice)];
      if (own[Part::layers] == 0)
        own = parts(s, choice);  // else a stage of equal costs has filled
                                 // it
    }
  }
  table_ = std::move(table);
}

template <class Keeps>
void StageChoices::keep_if(int stage, const Keeps& keeps) {
  std::vector<Choice>& choices = of_[index(stage)];
  std::size_t kept = 0;
  for (std::size_t c = 0; c < choices.size(); ++c) {
    if (keeps(c)) choices[kept++] = choices[c];
  }
  choices.resize(kept);
}

void StageChoices::leave_out_single(int stage, const StageParts& weights, double most) {
  const std::vector<Choice>& choices = of(stage);
  const std::vector<double> again = least_again(stage, weights);
  keep_if(stage, [&](std::size_t c) {
    return weighed(weights, parts(stage, choices[c])) + by_layers(choices[c], again) <= most;
  });
  find_places();
}

void StageChoices::keep(int stage, const std::function<bool(const Choice&)>& keeps) {
  const std::vector<Choice>& choices = of(stage);
  keep_if(stage, [&](std::size_t c) { return keeps(choices[c]); });
  find_places();
}

/// The sum of each choice of a stage with the cut behind it.
void StageChoices::weigh(int stage, const Weighting& sum, std::vector<double>& costs) const {
  const std::vector<Choice>& choices = of(stage);
  const StageParts& weights = sum.stages[index(stage)];
  const CutParts& cut_weights = sum.cuts[index(stage)];
  costs.assign(choices.size(), 0.0);
  // In a sum of a memory peak only the device's own stages have weights.
  if (weights == StageParts{} && cut_weights == CutParts{}) return;
  std::vector<double> cuts(index(costs_->layers() + 1));
  for (int end = 1; end < costs_->layers(); ++end)
    cuts[index(end)] = weighed(cut_weights, cut(stage, end));
  const std::vector<double> again = least_again(stage, weights);
  for (std::size_t c = 0; c < choices.size(); ++c) {
    const Choice& choice = choices[c];
    const double own = table_ != nullptr ? weighed(weights, (*table_)[place_of(stage, choice)])
                                         : weighed(weights, parts(stage, choice));
    costs[c] = own + by_layers(choice, again) + cuts[index(choice.end)];
  }
}

void StageChoices::weigh(const Weighting& sum, Onward& onward) const {
  const int stages = costs_->stages();
  const auto places = index(costs_->layers() + 1);
  onward.costs.resize(of_.size());
  onward.least.resize(of_.size() + 1);
  onward.least.back().assign(places, infinite);
  onward.least.back().back() = 0;
  for (int s = stages - 1; s >= 0; --s) {
    const std::vector<Choice>& choices = of(s);
    std::vector<double>&costs = onward.costs[index(s)], &least = onward.least[index(s)];
    const std::vector<double>& behind = onward.least[index(s + 1)];
    weigh(s, sum, costs);
    least.assign(places, infinite);
    for (std::size_t c = 0; c < choices.size(); ++c) {
      double& own = least[index(choices[c].first)];
      own = std::min(own, costs[c] + behind[index(choices[c].end)]);
    }
  }
}

StageChoices::Onward StageChoices::onward(const Weighting& sum) const {
  Onward onward;
  weigh(sum, onward);
  return onward;
}

StageChoices::Least StageChoices::least(const Weighting& sum, double most, Onward& scratch) {
  weigh(sum, scratch);
  Least found{.value = sum.constant + scratch.least.front().front(), .layout = {}};
  // Forward distances, too: the least sum of the stages before a first layer.
  std::vector<double> before(index(costs_->layers() + 1), infinite), after;
  before.front() = sum.constant;
  int next = 0;
  bool goes = false;
  for (int s = 0; s < costs_->stages(); ++s) {
    const std::vector<Choice>& choices = of(s);
    const std::vector<double>&costs = scratch.costs[index(s)], &least = scratch.least[index(s)],
          &behind = scratch.least[index(s + 1)];
    after.assign(before.size(), infinite);
    const Choice* taken = nullptr;
    const std::size_t count = choices.size();
    std::vector<char> keeps(count);
    for (std::size_t c = 0; c < count; ++c) {
      const auto& [first, end, recompute] = choices[c];
      const double onward = costs[c] + behind[index(end)];
      if (first == next && taken == nullptr && onward == least[index(first)]) taken = &choices[c];
      const double so_far = before[index(first)];
      if (so_far + onward > most || so_far + onward == infinite) continue;
      keeps[c] = 1;
      after[index(end)] = std::min(after[index(end)], so_far + costs[c]);
    }
    if (taken != nullptr) {
      found.layout.push_back(*taken);
      next = taken->end;
    }
    const std::size_t kept = static_cast<std::size_t>(std::ranges::count(keeps, 1));
    if (kept < count) {
      keep_if(s, [&](std::size_t c) { return keeps[c] != 0; });
      goes = true;
    }
    std::swap(before, after);
  }
  if (goes) find_places();
  return found;
}

}  // namespace stagecraft
