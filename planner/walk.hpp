// Depth-first walks over the layouts of one setting, first stage first, that skip whatever a lower
// bound rules out.

#pragma once

#include "planner/judge.hpp"

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
  /// No plan of the setting takes less.
  Time least() const { return least_; }
  WalkEnd walk(FastClock& clock, Judge& judge, Time limit) const;

 private:
  struct Path;
  /// Layers that need at least so much device time each, of all microbatches. They cannot be cut.
  struct Heavy {
    Time work = 0;
    std::vector<int> from;  ///< how many there are from layer n on
  };
  void find_heavy(const std::vector<Time>& works);
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

/// Whether every device's memory could suffice.
bool may_fit(FastClock& clock, const Layout& layout);

/// The layout with as few layers handed on to later stages as it takes to fit in memory; nothing if
/// the last ones would not.
std::optional<Layout> made_to_fit(FastClock& clock, const Setting& setting, Layout layout);

/// Layouts near this one that the fast clock likes better, one layer moved at a time, to the next
/// stage or from the fullest device to an emptier one, until there is none. One that may fit in
/// memory stays so.
Layout improve(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
               Effort& effort);

/// The layers in `parts` of equal count; what is left over goes to the first ones.
std::vector<int> even_cuts(int layers, int parts);

/// The layout with the stages recomputing that cost least time and make it fit; nothing if none do.
std::optional<Layout> recomputed_to_fit(FastClock& clock, const Space& space,
                                        const Setting& setting, Layout layout);

/// So many stages on so many devices each, with equal time.
Layout balanced(const Space& space, const Setting& setting, const std::vector<int>& replicas);

/// The same with equal time on every device, however its stages share it: the last is larger than
/// their mean by this part of it, the first smaller.
Layout balanced_devices(const Space& space, const Setting& setting,
                        const std::vector<int>& replicas, double tilt);

/// Balanced layouts on every number of pipeline devices, with and without replicas; some may not be
/// allowed.
std::vector<Layout> usual_layouts(const Space& space, const Setting& setting, FastClock& clock);

/// Whether the layout is part of the space.
bool is_allowed(const Space& space, const Setting& setting, const Layout& layout);

}  // namespace stagecraft
