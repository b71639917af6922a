// Depth-first walks over the layouts of one setting, first stage first, that skip whatever a lower
// bound rules out.

#pragma once

#include "planner/relaxations/chain_bounds.hpp"
#include "planner/search/evaluator.hpp"

namespace stagecraft {

/// How a walk ended.
enum class WalkEnd { complete, gave_up };

/// Everything of at most `limit` with one stage per device; `bounds` has been probed at `limit` or
/// above.
WalkEnd walk_chain(const Space& space, const Setting& setting, const ChainBounds& bounds,
                   FastClock& clock, Judge& judge, Time limit);

/// The same with several stages per device, or under schedules of which less is known. The bound is
/// weaker: the stages of a device do not follow each other, so only loads, the fill and the drain
/// of the first round are known.
class LoopedWalk {
 public:
  LoopedWalk(const Space& space, const Setting& setting);
  /// The same on another space of the problem.
  LoopedWalk(const LoopedWalk& other, const Space& space)
      : space_(space),
        setting_(other.setting_),
        work_before_(other.work_before_),
        heavy_(other.heavy_),
        least_(other.least_) {}
  /// No plan of the setting takes less.
  Time least() const { return least_; }
  WalkEnd walk(FastClock& clock, Judge& judge, Time limit) const;
  /// Only on so few pipeline devices that there are not too many layouts.
  void walk_shallow(FastClock& clock, Judge& judge, Time limit) const;

 private:
  struct Path;
  /// Layers that need at least so much device time each, of all microbatches. They cannot be cut.
  struct Heavy {
    Time work = 0;
    std::vector<int> from;  ///< how many there are from layer n on
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
