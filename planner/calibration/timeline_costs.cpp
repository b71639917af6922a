#include "planner/calibration/timeline_costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "planner/calibration/timeline_links.hpp"
#include "planner/costs/cost_book.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/values/cost_of.hpp"

namespace stagecraft {

namespace {

/// Everything that costs the same: a stage of the plan on devices of one kind, with equally many
/// rows of a microbatch.
struct Place {
  int kind = 0;
  std::int64_t rows = 0;
  int degree = 1;
  int stage = 0;
  auto operator<=>(const Place&) const = default;
};

struct Measured {
  std::vector<Duration> times, overheads;
  Duration before{0};  ///< sum over the times
};

using MeasuredPlaces = std::map<Place, std::map<Op, Measured>>;

/// Tensor-parallel peers of the replica that this device leads.
int degree_of(const Plan& plan, int lead) {
  for (const Stage& stage : plan.stages) {
    for (const std::vector<int>& peers : stage.devices) {
      if (peers.front() == lead) return static_cast<int>(peers.size());
    }
  }
  return 1;
}

Place place_of(const Plan& plan, const Compiled& compiled, const Cluster& cluster,
               const Chunk& chunk) {
  const int lead = compiled.devices[index(chunk.device)];
  return {.kind = cluster.devices[index(lead)],
          .rows = chunk.rows.size(),
          .degree = degree_of(plan, lead),
          .stage = chunk.stage % static_cast<int>(plan.stages.size())};
}

/// How many chunks share the update of a chunk's weights: those of all replicas and copies.
int shards_of(const Plan& plan, const Program& program, const Chunk& chunk) {
  if (program.sharding == Sharding::none) return 1;
  const int stages = static_cast<int>(plan.stages.size());
  return static_cast<int>(std::ranges::count_if(program.chunks, [&](const Chunk& other) {
    return other.stage % stages == chunk.stage % stages;
  }));
}

/// Without those whose time is far from the median: what is left has its sums right, rare waits
/// included, which medians of single instructions have not.
std::vector<MeasuredStep> middle_half(std::vector<MeasuredStep> steps) {
  std::ranges::stable_sort(steps, {}, &MeasuredStep::time);
  const auto cut = static_cast<std::ptrdiff_t>((steps.size() + 1) / 4);
  return {steps.begin() + cut, steps.end() - cut};
}

Duration mean(const std::vector<Duration>& times) {
  return std::accumulate(times.begin(), times.end(), Duration{0}) /
         static_cast<std::int64_t>(times.size());
}

MeasuredPlaces collect(const Plan& plan, const Compiled& compiled, const Cluster& cluster,
                       const std::vector<MeasuredStep>& steps) {
  const Program& program = compiled.program;
  MeasuredPlaces places;
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    const Work& work = program.work[i];
    if (!is_compute(work.instruction.op)) continue;
    const Chunk& chunk = program.chunks[index(work.chunk)];
    const int whole = work.instruction.op == Op::update ? shards_of(plan, program, chunk) : 1;
    Measured& measured = places[place_of(plan, compiled, cluster, chunk)][work.instruction.op];
    for (const MeasuredStep& step : steps) {
      measured.times.push_back(step.work[i].time() * whole);
      measured.overheads.push_back(step.work[i].overhead());
      measured.before +=
          cost_of(compiled.costs.chunks[index(work.chunk)], work.instruction.op) * whole;
    }
  }
  return places;
}

// --- Layers
// ---------------------------------------------------------------------------------------

using Pass = Duration LayerCost::*;

/// Sets the passes of a stage's layers to parts of `whole`.
void share_out(Duration whole, const LayerRange& layers, const std::vector<Pass>& passes,
               std::vector<LayerCost>& costs) {
  std::vector<Duration> weights;
  for (int layer = layers.first; layer < layers.end; ++layer)
    for (const Pass pass : passes) weights.push_back(costs[index(layer)].*pass);
  const std::vector<Duration> parts = split(whole, weights);
  auto part = parts.begin();
  for (int layer = layers.first; layer < layers.end; ++layer)
    for (const Pass pass : passes) costs[index(layer)].*pass = *part++;
}

Duration in_parts(const LayerCost& cost) {
  return cost.backward_input + cost.backward_weight;
}

/// What the two parts of a backward take longer than one is the same share of them as before.
void keep_overhead(Duration before, LayerCost& cost) {
  if (cost.split_overhead == Duration{0}) return;
  const double factor = seconds(in_parts(cost)) / seconds(before);
  cost.split_overhead =
      std::min(in_parts(cost),
               Duration(std::llround(factor * static_cast<double>(cost.split_overhead.count()))));
}

/// How much longer the two parts of the layers' backwards take than the backwards.
double longer_in_parts(const LayerRange& layers, const std::vector<LayerCost>& costs) {
  Duration parts{0}, whole{0};
  for (int layer = layers.first; layer < layers.end; ++layer) {
    parts += in_parts(costs[index(layer)]);
    whole += costs[index(layer)].backward();
  }
  return whole > Duration{0} ? seconds(parts) / seconds(whole) : 1;
}

void set_times(const std::map<Op, Measured>& by_op, const LayerRange& layers,
               std::vector<LayerCost>& costs) {
  const auto set = [&](const std::vector<Duration>& times, const std::vector<Pass>& passes) {
    if (!times.empty()) share_out(mean(times), layers, passes, costs);
  };
  const auto times_of = [&](Op op) {
    const auto found = by_op.find(op);
    return found == by_op.end() ? std::vector<Duration>{} : found->second.times;
  };
  std::vector<Duration> forwards = times_of(Op::forward);
  std::ranges::copy(times_of(Op::recompute), std::back_inserter(forwards));
  set(forwards, {&LayerCost::forward});
  const std::vector<LayerCost> before = costs;
  if (by_op.contains(Op::backward_input) && by_op.contains(Op::backward_weight)) {
    set(times_of(Op::backward_input), {&LayerCost::backward_input});
    set(times_of(Op::backward_weight), {&LayerCost::backward_weight});
  } else {
    std::vector<Duration> backwards = times_of(Op::backward);
    const double longer = longer_in_parts(layers, costs);
    for (Duration& time : backwards) {
      time = Duration(std::llround(longer * static_cast<double>(time.count())));
    }
    set(backwards, {&LayerCost::backward_input, &LayerCost::backward_weight});
  }
  for (int layer = layers.first; layer < layers.end; ++layer) {
    keep_overhead(in_parts(before[index(layer)]), costs[index(layer)]);
  }
  set(times_of(Op::update), {&LayerCost::update});
  for (int layer = layers.first; layer < layers.end; ++layer) {
    Provenance& provenance = costs[index(layer)].provenance;
    provenance = std::min(provenance, Provenance::fitted);
  }
}

/// A layer of another microbatch size, by the factors by which the measured one has changed.
void follow(const LayerCost& before, const LayerCost& after, LayerCost& other) {
  const Duration parts = in_parts(other);
  for (const Pass pass : {&LayerCost::forward, &LayerCost::backward_input,
                          &LayerCost::backward_weight, &LayerCost::update}) {
    if ((before.*pass).count() == 0) continue;
    other.*pass = Duration(std::llround(seconds(other.*pass) / seconds(before.*pass) *
                                        static_cast<double>((after.*pass).count())));
  }
  keep_overhead(parts, other);
  other.provenance = std::max(other.provenance, Provenance::fitted);
}

bool differ_in_microbatch_only(CostSetting a, const CostSetting& b) {
  if (a.microbatch == b.microbatch) return false;
  a.microbatch = b.microbatch;
  return a == b;
}

struct Change {
  ProfileEntry before, after;
  int kind = 0;  ///< of the devices
  int degree = 1;
};

/// Puts the changed entries into the profile; of several, sizes that were not measured follow the
/// largest.
void put_into(const std::vector<Change>& changes, const CostBook& book, Profile& profile) {
  const auto is_measured = [&](const ProfileEntry& entry) {
    return std::ranges::any_of(
        changes, [&](const Change& change) { return change.after.setting == entry.setting; });
  };
  for (ProfileEntry& entry : profile.entries) {
    if (is_measured(entry)) continue;
    const Change* closest = nullptr;
    for (const Change& change : changes) {
      if (differ_in_microbatch_only(change.after.setting, entry.setting)) closest = &change;
    }
    if (closest == nullptr) continue;
    // What peers told each other was measured, too.
    if (!entry.has_peer_messages) {
      const std::int64_t samples = entry.setting.microbatch;
      entry = book.entry_for(closest->kind, samples, samples, closest->degree);
    }
    for (std::size_t layer = 0; layer < entry.layers.size(); ++layer)
      follow(closest->before.layers[layer], closest->after.layers[layer], entry.layers[layer]);
    entry.ranges.clear();  // of what was measured before
  }
  for (const Change& change : changes) {
    const auto known =
        std::ranges::find(profile.entries, change.after.setting, &ProfileEntry::setting);
    if (known == profile.entries.end()) {
      profile.entries.push_back(change.after);
    } else {
      *known = change.after;
    }
  }
}

void set_layers(const Plan& plan, const MeasuredPlaces& places, CostBook& book, Profile& profile) {
  std::vector<Change> changes;
  // In the order of places: kinds, then rows, ascending.
  std::optional<std::tuple<int, std::int64_t, int>> last;
  for (const auto& [place, by_op] : places) {
    const std::tuple setting(place.kind, place.rows, place.degree);
    if (last != setting) {
      const ProfileEntry entry =
          book.entry_for(place.kind, plan.batch.microbatch, place.rows, place.degree);
      changes.push_back({entry, entry, place.kind, place.degree});
      last = setting;
    }
    set_times(by_op, plan.stages[index(place.stage)].layers, changes.back().after.layers);
  }
  put_into(changes, book, profile);
}

std::vector<InstructionTimes> instruction_times(const MeasuredPlaces& places) {
  std::map<std::pair<int, Op>, Measured> all;
  for (const auto& [place, by_op] : places) {
    for (const auto& [op, measured] : by_op) {
      Measured& sum = all[{place.stage, op}];
      std::ranges::copy(measured.times, std::back_inserter(sum.times));
      std::ranges::copy(measured.overheads, std::back_inserter(sum.overheads));
      sum.before += measured.before;
    }
  }
  std::vector<InstructionTimes> list;
  for (const auto& [key, measured] : all) {
    const auto count = static_cast<int>(measured.times.size());
    list.push_back({.stage = key.first,
                    .op = key.second,
                    .count = count,
                    .before = measured.before / count,
                    .measured = mean(measured.times),
                    .overhead = mean(measured.overheads)});
  }
  return list;
}

}  // namespace

Duration typical_time(std::vector<Duration> times) {
  std::ranges::sort(times);
  const std::size_t cut = (times.size() + 1) / 4;
  const auto first = times.begin() + static_cast<std::ptrdiff_t>(cut);
  const auto end = times.end() - static_cast<std::ptrdiff_t>(cut);
  return std::accumulate(first, end, Duration{0}) / (end - first);
}

std::vector<Duration> split(Duration whole, const std::vector<Duration>& weights) {
  const Duration sum = std::accumulate(weights.begin(), weights.end(), Duration{0});
  const auto all = static_cast<double>(sum.count() > 0 ? sum.count()
                                                       : static_cast<std::int64_t>(weights.size()));
  std::vector<Duration> parts;
  Duration given{0};
  double so_far = 0;
  for (const Duration weight : weights) {
    so_far += sum.count() > 0 ? static_cast<double>(weight.count()) : 1;
    const Duration until(std::llround(static_cast<double>(whole.count()) * (so_far / all)));
    parts.push_back(until - given);
    given = until;
  }
  return parts;
}

TimelineCosts costs_from_timeline(const Plan& plan, const Compiled& compiled,
                                  const Profile& profile, const Cluster& cluster,
                                  const std::vector<MeasuredStep>& steps) {
  if (compiled.program.sequence_chunks > 1) {
    fail("the plan cuts each sequence into ", compiled.program.sequence_chunks,
         " pieces, which differ in time; measure a run of whole sequences");
  }
  TimelineCosts result{.profile = profile, .cluster = cluster, .instructions = {}, .links = {}};
  CostBook book(profile, cluster, book_setting(plan));
  const MeasuredPlaces places = collect(plan, compiled, cluster, middle_half(steps));
  set_layers(plan, places, book, result.profile);
  result.instructions = instruction_times(places);
  result.links = fit_links(compiled, steps, result.profile, result.cluster);
  return result;
}

}  // namespace stagecraft
