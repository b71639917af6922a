// Depth-first enumeration of the layouts of one setting, from the first stage on, pruned by lower
// bounds.

#pragma once

#include "planner/relaxations/chain_bounds.hpp"
#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// How a walk ended.
enum class WalkEnd { complete, gave_up };

/// Enumerates all layouts of at most `limit` with one stage per device; `bounds` must have been
/// probed at `limit` or above. The judge times each layout.
WalkEnd walk_chain(const Space& space, const Setting& setting, const ChainBounds& bounds,
                   FastClock& clock, Judge& judge, Time limit);

/// Enumerates layouts with several stages per device, or under schedules without chain bounds. Its
/// bound is weaker: the stages of a device are not consecutive, so only loads, and the fill and
/// drain of the first round, are known.
class LoopedWalk {
 public:
  LoopedWalk(const Space& space, const Setting& setting);
  /// A copy on another space of the same problem.
  LoopedWalk(const LoopedWalk& other, const Space& space)
      : space_(space),
        setting_(other.setting_),
        work_before_(other.work_before_),
        heavy_(other.heavy_),
        least_(other.least_) {}
  /// Lower bound on all plans of the setting.
  Time least() const { return least_; }
  WalkEnd walk(FastClock& clock, Judge& judge, Time limit) const;
  /// Enumerates only layouts on few pipeline devices, so that there are not too many.
  void walk_shallow(FastClock& clock, Judge& judge, Time limit) const;

 private:
  struct Path;
  /// Layers that need at least `work` device time each, for all microbatches. A layer cannot be
  /// divided, which bounds the devices that share them.
  struct Heavy {
    Time work = 0;
    std::vector<int> from;  ///< number of such layers from layer n on
  };
  void find_heavy(const std::vector<Time>& works);
  static bool gives_up(Path& path);
  void choose_replicas(Path& path, int pipeline_devices, int used) const;
  void choose_cuts(Path& path) const;
  std::optional<std::vector<Time>> rooms(const Path& path) const;
  bool is_within(const Path& path, int end) const;
  int own_microbatches(int replicas, int replica) const;
  std::vector<Time> passes(const LayerRange& layers, int device, int replicas) const;
  std::vector<Time> loads(const LayerRange& layers, int device, int replicas) const;
  Time passing(const LayerRange& layers, int device, int replicas) const;

  const Space& space_;
  const Setting& setting_;
  std::vector<Time>
      work_before_;  ///< device time that the first n layers need at least, of all microbatches
  std::vector<Heavy> heavy_;
  Time least_ = 0;
};

}  // namespace stagecraft
