// Alpa's inter-operator plan (Zheng et al., OSDI 2022): stages on submeshes, with
//
//   latency  =  sum of t_i  +  (B - 1) max t_i
//
// over B microbatches, t_i a stage's forward and backward. Submeshes are powers of two inside a
// host, or whole hosts; every device is used; there are no transfers between stages. A stage fits
// if its resident bytes and its activations, once for itself and once for each stage after it, do.
//
// With `straight`, submeshes are single devices.
//
// Alpa asks its intra-operator pass, or a profile, what a submesh of n devices makes of a stage.
// Here that is the stage's time on one device divided by n.
//
// For a bound on max t_i the least sum is a shortest path; bounds are tried from the smallest that
// is feasible up, until (B - 1) times the bound and the least sum of all exceed the best latency.
// That is exact in this model.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/compatibility.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/infinite.hpp"

namespace stagecraft {

namespace {

struct AlpaPlan {
  double latency = infinite;
  std::vector<int> cuts;
  std::vector<int> submeshes;
};

class Alpa {
 public:
  Alpa(const Space& space, const Setting& setting)
      : space_(space),
        setting_(setting),
        layers_(space.layers()),
        devices_(space.devices(setting)),
        table_(space.whole_microbatch(setting, 0)) {
    const DeviceKind& kind = space.kind(setting, 0);
    limit_ = kind.memory_unlimited ? std::numeric_limits<Bytes>::max() : usable_memory(kind);
    most_stages_ = std::min({layers_, devices_, space.problem().max_stages.value_or(layers_)});
    find_submeshes();
    list_ranges();
  }

  AlpaPlan search(const SearchControl& control) {
    const std::vector<double> bounds = candidate_bounds();
    const auto first = std::partition_point(
        bounds.begin(), bounds.end(), [&](double bound) { return least_sum(bound) == infinite; });
    const double least = first == bounds.end() ? infinite : least_sum(bounds.back());
    const double others = setting_.microbatches - 1;
    for (auto bound = first; bound != bounds.end(); ++bound) {
      if (others * *bound + least >= best_.latency || control.stop.stop_requested()) break;
      const double sum = least_sum(*bound);
      ++tried_;
      if (sum + others * *bound < best_.latency) best_ = read_plan(sum + others * *bound, *bound);
    }
    return best_;
  }

  std::int64_t tried() const { return tried_; }

 private:
  /// What a stage of some layers takes on one device, and holds.
  struct Range {
    double seconds = 0;
    Bytes resident = 0, activations = 0, workspace = 0;
  };

  /// Alpa's shapes: 1, 2, 4, … devices of one host, then whole hosts.
  void find_submeshes() {
    if (space_.problem().straight) {
      submeshes_ = {1};
      return;
    }
    const auto& levels = space_.cluster().levels;
    const int width = levels.empty() ? 1 : levels.back().count;
    for (int size = 1; size <= std::min(width, devices_); size *= 2) submeshes_.push_back(size);
    for (int size = width; size <= devices_; size += width) {
      if (submeshes_.back() < size) submeshes_.push_back(size);
    }
  }

  void list_ranges() {
    for (int first = 0; first < layers_; ++first) {
      auto& ranges = ranges_.emplace_back();
      for (int end = first + 1; end <= layers_; ++end) {
        const LayerRange layers{first, end};
        const ChunkMemory memory = table_.memory(layers, space_.problem().optimizer.kind);
        ranges.push_back({.seconds = seconds(table_.forward(layers) + table_.backward(layers)),
                          .resident = memory.parameters + memory.gradients + memory.optimizer,
                          .activations = memory.saved + memory.input,
                          .workspace = memory.workspace});
      }
    }
  }

  const Range& range(int first, int end) const {
    return ranges_[index(first)][index(end - first - 1)];
  }

  bool fits(const Range& range, int submesh, int stages_after) const {
    if (limit_ == std::numeric_limits<Bytes>::max()) return true;
    const Bytes activations = range.activations * (stages_after + 1) / submesh;
    return range.resident + activations + range.workspace <= limit_;
  }

  /// Every time a stage could take, ascending.
  std::vector<double> candidate_bounds() const {
    std::vector<double> bounds;
    for (int first = 0; first < layers_; ++first) {
      for (int end = first + 1; end <= layers_; ++end) {
        for (const int submesh : submeshes_) bounds.push_back(range(first, end).seconds / submesh);
      }
    }
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    return bounds;
  }

  /// Least sums of so many stages from this layer on, by how many devices they have.
  double* sums(int stages, int layer) {
    return &sums_[(index(stages) * index(layers_ + 1) + index(layer)) * index(devices_ + 1)];
  }
  double whole(int stages) { return sums(stages, 0)[devices_]; }

  /// The least sum of stage times with none above the bound, over all numbers of stages.
  double least_sum(double bound) {
    sums_.assign(index(most_stages_ + 1) * index(layers_ + 1) * index(devices_ + 1), infinite);
    sums(0, layers_)[0] = 0;
    for (int stages = 1; stages <= most_stages_; ++stages) {
      for (int layer = layers_ - 1; layer >= 0; --layer) add_stage(stages, layer, bound);
    }
    double least = infinite;
    for (int stages = 1; stages <= most_stages_; ++stages) least = std::min(least, whole(stages));
    return least;
  }

  /// Calls `use(submesh, end, seconds)` for every stage from `layer` on that is within the bound
  /// and fits with so many stages, itself among them, until that says true.
  template <class Use>
  void for_stages(int stages, int layer, double bound, const Use& use) {
    for (const int submesh : submeshes_) {
      for (int end = layer + 1; end <= layers_; ++end) {
        const Range& range = this->range(layer, end);
        const double here = range.seconds / submesh;
        if (here > bound || !fits(range, submesh, stages - 1)) break;
        if (use(submesh, end, here)) return;
      }
    }
  }

  /// Puts a stage from `layer` on before the stages behind it.
  void add_stage(int stages, int layer, double bound) {
    double* const own = sums(stages, layer);
    for_stages(stages, layer, bound, [&](int submesh, int end, double here) {
      const double* const behind = sums(stages - 1, end);
      for (int devices = submesh; devices <= devices_; ++devices)
        own[devices] = std::min(own[devices], here + behind[devices - submesh]);
      return false;
    });
  }

  /// The path behind the last `least_sum`, which was asked with this bound.
  AlpaPlan read_plan(double latency, double bound) {
    AlpaPlan plan{.latency = latency, .cuts = {0}, .submeshes = {}};
    int stages = 1;
    for (int count = 2; count <= most_stages_; ++count) {
      if (whole(count) < whole(stages)) stages = count;
    }
    int devices = devices_;
    for (int layer = 0; layer < layers_; --stages) {
      const double least = sums(stages, layer)[devices];
      for_stages(stages, layer, bound, [&](int submesh, int end, double here) {
        if (submesh > devices || here + sums(stages - 1, end)[devices - submesh] != least)
          return false;
        plan.submeshes.push_back(submesh);
        plan.cuts.push_back(end);
        return true;
      });
      layer = plan.cuts.back();
      devices -= plan.submeshes.back();
    }
    return plan;
  }

  const Space& space_;
  const Setting& setting_;
  int layers_, devices_;
  const CostTable& table_;
  Bytes limit_ = 0;
  int most_stages_ = 1;
  std::vector<int> submeshes_;
  std::vector<std::vector<Range>> ranges_;  ///< by first layer, then by end
  std::vector<double> sums_;
  AlpaPlan best_;
  std::int64_t tried_ = 0;
};

std::vector<ForeignStage> stages_of(const AlpaPlan& plan) {
  std::vector<ForeignStage> stages;
  for (std::size_t s = 0; s < plan.submeshes.size(); ++s) {
    ForeignStage& stage = stages.emplace_back();
    stage.layers.resize(index(plan.cuts[s + 1] - plan.cuts[s]));
    std::iota(stage.layers.begin(), stage.layers.end(), plan.cuts[s]);
    stage.replicas = plan.submeshes[s];
  }
  return stages;
}

}  // namespace

SearchResult search_alpa(const Problem& problem, const SearchControl& control) {
  Problem one = problem;
  one.tensor_parallel = {1};
  const Space space(one);
  AlpaPlan best;
  std::int64_t tried = 0;
  for (const Setting& setting : space.settings()) {
    // Its cost model knows neither schedules nor how replicas share; the microbatch is what counts.
    const Setting& first = space.settings().front();
    if (setting.schedule != first.schedule || setting.replicas != first.replicas) continue;
    Alpa alpa(space, setting);
    const AlpaPlan plan = alpa.search(control);
    tried += alpa.tried();
    if (plan.latency < best.latency) best = plan;
  }
  if (best.cuts.empty()) {
    SearchResult result;
    result.strategy = "alpa";
    result.interrupted = control.stop.stop_requested();
    if (!result.interrupted) {
      result.infeasible = {.reason = "no stages on Alpa's submeshes fit in memory, or use all " +
                                     std::to_string(space.devices(space.settings().front())) +
                                     " devices",
                           .short_by = 0,
                           .remedies = {}};
    }
    return result;
  }
  const Objective objective{.name = "sum plus (B - 1) times the slowest stage",
                            .value = best.latency,
                            .unit = "s",
                            .lower_bound = control.stop.stop_requested() ? 0 : best.latency};
  return foreign_result(problem, "alpa", stages_of(best), objective, tried);
}

}  // namespace stagecraft
