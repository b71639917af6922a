#include "tools/reports/page_alternatives.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "planner/analysis/changes.hpp"
#include "planner/costs/device_limits.hpp"
#include "planner/space/workers.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

struct Alternative {
  std::vector<Change> changes;
  Plan plan;
  std::optional<Prediction> prediction;
};

/// Halves and doubles, and the usual schedules.
std::vector<Change> single_changes(const Plan& plan) {
  std::vector<Change> changes;
  const auto number = [&](const char* key, std::int64_t now) {
    changes.push_back({key, std::to_string(2 * now)});
    if (now % 2 == 0) changes.push_back({key, std::to_string(now / 2)});
  };
  const auto replicas = static_cast<std::int64_t>(plan.stages.front().devices.size());
  const std::int64_t shared = plan.replicas == ReplicaPolicy::split ? replicas : 1;
  number("tp", tensor_degree(plan));
  number("pp", pipeline_devices(plan));
  number("cp", plan.parallelism.context);
  if (plan.batch.microbatch % shared == 0) number("mbs", plan.batch.microbatch / shared);
  if (plan.schedule.virtual_stages > 1) number("vpp", plan.schedule.virtual_stages);
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}) {
    if (schedule != plan.schedule.name) changes.push_back({"schedule", schedule});
  }
  for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
    if (sharding != plan.optimizer.sharding)
      changes.push_back({"sharding", std::string(to_string(sharding))});
  }
  return changes;
}

std::vector<std::vector<Change>> change_lists(const LoadedPlan& loaded) {
  std::vector<Change> recompute{{"recompute", "none"}, {"recompute", "full"}};
  if (loaded.profile.model.transformer) recompute.push_back({"recompute", "selective"});
  std::vector<std::vector<Change>> lists;
  for (const Change& way : recompute) lists.push_back({way});
  for (const Change& change : single_changes(loaded.plan)) {
    lists.push_back({change});
    for (const Change& way : recompute) lists.push_back({change, way});
  }
  return lists;
}

/// Nothing for what is refused, or no other plan than the one there is.
std::optional<Alternative> alternative(const LoadedPlan& loaded,
                                       const std::vector<Change>& changes) {
  try {
    const ChangedPlan other = changed(loaded, changes);
    const Plan& plan = other.loaded.plan;
    std::int64_t passes = 0;
    for (const Stage& stage : plan.stages)
      passes += std::ssize(stage.devices) * plan.batch.microbatches;
    constexpr std::int64_t most_passes = 300'000;
    if (passes > most_passes) return {};
    return Alternative{changes, plan, predict(plan, other.loaded.profile, other.loaded.cluster)};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;
    return {};
  }
}

/// Of the fullest device.
struct Fullness {
  Bytes peak = 0;
  std::optional<Bytes> limit;
};

Fullness fullness_of(const Prediction& prediction) {
  Fullness most;
  double part = -1;
  for (std::size_t device = 0; device < prediction.peaks.size(); ++device) {
    const Bytes peak = prediction.peaks[device].bytes;
    const std::optional<Bytes> limit = limit_of(prediction, device);
    const double of_device = static_cast<double>(peak) /
                             static_cast<double>(std::max<Bytes>(limit.value_or(INT64_MAX), 1));
    if (of_device > part) {
      part = of_device;
      most = {peak, limit};
    }
  }
  return most;
}

/// Whether no other point that fits is faster and takes no more.
void mark_front(ordered_json& points) {
  for (ordered_json& point : points) {
    const auto beats = [&](const ordered_json& other) {
      const auto worse = [&](const char* field, bool more) {
        return more ? other[field].get<double>() > point[field].get<double>()
                    : other[field].get<double>() < point[field].get<double>();
      };
      const bool as_good = !worse("peak_bytes", true) && !worse("samples_per_second", false);
      return other["fits"] == true && as_good &&
             (worse("peak_bytes", false) || worse("samples_per_second", true));
    };
    point["front"] = point["fits"] == true && std::none_of(points.begin(), points.end(), beats);
  }
}

ordered_json point_json(const std::vector<Change>& changes, const Prediction& prediction) {
  const Fullness fullest = fullness_of(prediction);
  return {{"changes", to_string(changes)},
          {"step_ns", prediction.step.count()},
          {"samples_per_second", prediction.samples_per_second},
          {"peak_bytes", fullest.peak},
          {"limit_bytes", fullest.limit ? ordered_json(*fullest.limit) : ordered_json()},
          {"fits", prediction.fits}};
}

}  // namespace

ordered_json alternatives_json(const LoadedPlan& loaded, const Prediction& now, int threads) {
  const auto lists = change_lists(loaded);
  std::vector<std::optional<Alternative>> found(lists.size());
  Workers(threads).run(static_cast<int>(lists.size()), [&](int, int task) {
    const auto place = static_cast<std::size_t>(task);
    found[place] = alternative(loaded, lists[place]);
  });
  ordered_json points = ordered_json::array({point_json({}, now)});
  std::vector<Plan> seen{loaded.plan};
  for (Plan& plan : seen) {
    plan.predicted.reset();
    plan.search.reset();
  }
  for (const auto& other : found) {
    if (!other || std::ranges::find(seen, other->plan) != seen.end()) continue;
    seen.push_back(other->plan);
    points.push_back(point_json(other->changes, *other->prediction));
  }
  mark_front(points);
  return points;
}

}  // namespace stagecraft
