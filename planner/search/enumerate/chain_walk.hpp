// Depth-first enumeration of chains of one stage per device, from the first stage on, with the true
// fill and drain of the stages in front and the tables of ChainBounds for the stages behind.

#pragma once

#include <vector>

#include "planner/relaxations/chain_bounds.hpp"

namespace stagecraft {

class ChainWalk {
 public:
  /// `bounds` must have been probed at the limit or above.
  ChainWalk(const Space& space, const ChainBounds& bounds) : space_(space), bounds_(bounds) {}
  virtual ~ChainWalk() = default;
  /// Enumerates all chains of this many stages within the limit.
  void walk(int stages);

 protected:
  /// A stage of the current partial chain.
  struct Place {
    int kind = 0;
    int device = 0;
    LayerRange layers;
    Head head;
    StageChoice choice;
  };

  virtual Time limit() const = 0;
  /// Whether the enumeration ends; asked before each node.
  virtual bool gives_up() = 0;
  virtual void count_step() = 0;
  virtual void count_pruned() = 0;
  /// Called when the path is a complete chain whose stages are all within the limit.
  virtual void visit() = 0;

  const StageKind& kind_of(const Place& place) const { return bounds_.kinds()[index(place.kind)]; }

  const Space& space_;
  const ChainBounds& bounds_;
  std::vector<Place> path_;

 private:
  void choose_kind(int layer, int device);
  void choose_end(int first);

  int stages_ = 0;
};

}  // namespace stagecraft
