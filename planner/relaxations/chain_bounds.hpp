// Bounds of chains: how fast a plan of one stage per device could be at best. T is feasible only if
// some chain of stages has every one of them within T (planner/relaxations/stage_bounds.hpp).
//
// Stages are of *kinds*: so many replicas, each of a tensor-parallel degree. Where all stages have
// one degree, kinds differ in their replicas alone. Else devices are counted in groups of the
// smallest degree, and a kind spans several of them. Given T:
//
//   prefix(j, k, r)     least H, H + A and H + R over all ways to put layers [0, j) on k devices,
//                       each stage within T, before a stage of kind r
//   suffix(q, j, k, r)  least f + D + g over all ways to put layers [j, end) on q stages from
//                       device k on, the first of kind r, each within T behind the prefix
//
// Both are shortest paths over (layer, device, kind); stages that cannot hold what they have in
// flight are left out. If suffix(p, 0, 0, ·) is empty for every p, no plan takes T or less: a lower
// bound, found by bisection. A device's position is its number in the cluster, so uneven stages may
// span nodes. Since H, A and D are minimised apart from each other, this is a bound and not yet an
// answer. The search then walks down from the first stage with the true H and A, and with the
// suffix table for what is left (planner/search/enumerate/chain_walk.hpp).
//
// Of several degrees less is known: a message between two stages is taken to be the smallest that
// some replica needs, over the fastest link across the cut of devices; ties and what GPipe's last
// stage waits for are left out. Peers stand within the innermost links, or fill several nodes. A
// replica of t groups therefore starts at a multiple of t, or all replicas of its stage are in one
// box; there one place is as good as any other.

#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "planner/relaxations/stage_bounds.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Replicas side by side.
struct StageKind {
  int setting = 0;  ///< whose degree they have
  int span = 1;     ///< groups of the smallest degree in each
  int replicas = 1;
  int devices() const { return span * replicas; }
};

class ChainBounds {
 public:
  /// Of one degree. The space and the setting must outlive this.
  ChainBounds(const Space& space, const Setting& setting)
      : ChainBounds(space, std::vector{&setting}) {}
  /// Settings that differ in their degree only, the smallest first.
  ChainBounds(const Space& space, std::vector<const Setting*> settings);
  const Space& space() const { return space_; }

  /// Whether this knows plans of several such settings: chains of stages that train and flush, on
  /// devices of one kind, none excluded, whose boxes are alike and made of whole groups; and few
  /// enough of them.
  static bool applies(const Space& space, const std::vector<const Setting*>& settings);

  /// Of several degrees: no plan takes less, its work spread over all devices. Else 0.
  Time least() const { return time_for(0, 0); }
  /// Fills the tables for plans of at most this time. False if there are none. Once a stop is
  /// requested it is not known, and nothing is open.
  bool probe(Time limit, const std::stop_token& stop = {});
  /// Entries of the tables looked at so far.
  std::int64_t looked_at() const { return looked_at_; }

  int devices() const { return devices_; }
  int most_stages() const { return most_stages_; }
  const std::vector<StageKind>& kinds() const { return kinds_; }
  const std::vector<const Setting*>& settings() const { return settings_; }
  /// Of the smallest degree, in whose groups devices are counted.
  const Setting& finest() const { return *settings_.front(); }
  const Setting& setting(const StageKind& kind) const { return *settings_[index(kind.setting)]; }
  const StageBounds& stage(const StageKind& kind) const { return *stages_[index(kind.setting)]; }
  /// Whether a stage of this kind may start there.
  bool stands(const StageKind& kind, int device) const;
  /// The number of the device among those of the kind's own setting, or that of its like.
  static int own_device(const StageKind& kind, int device) { return device / kind.span; }

  /// After probe: whether p stages could do.
  bool is_open(int stages) const;
  /// After probe: the stages of a chain of p with the shortest round trip; a promising plan.
  struct ChainStage {
    int kind = 0;
    LayerRange layers;
    Recompute recompute = Recompute::none;
  };
  std::vector<ChainStage> best_chain(int stages) const;
  /// The same as a layout, of one degree.
  Layout best_layout(int stages) const;

  /// Of what a stage hands to the next one, which starts on this device, and gets back: at least.
  HandOver transfer(int cut, int device, int replicas, int next_replicas) const;
  /// The head of the next stage, of so many replicas from this device on, behind this one.
  Head after(const Head& head, const StageChoice& choice, int replicas, int next_device,
             int next_replicas, int cut) const;
  /// After probe: what so many stages from this layer and device on could do at best, behind one of
  /// so many replicas.
  Beyond beyond(int stages, int layer, int device, int replicas) const;

 private:
  struct Step {
    Beyond best{never, never, 0, {never, never}};
    int end = 0;
    Recompute recompute = Recompute::none;
  };
  struct Behind {
    Beyond best{never, never, 0, {never, never}};
    int kind = 0;
  };

  bool has_one_degree() const { return settings_.size() == 1; }
  std::size_t at(int layer, int device) const {
    return index(layer) * index(devices_ + 1) + index(device);
  }
  std::size_t of_kind(int layer, int device, int kind) const {
    return at(layer, device) * kinds_.size() + index(kind);
  }
  std::size_t of_replicas(int layer, int device, int replicas) const {
    return at(layer, device) * index(most_replicas_ + 1) + index(replicas);
  }
  /// Whether a stage on this device can have so many stages left, itself included.
  bool may_have_left(int device, int stages) const {
    return !finest().depth || device + stages == *finest().depth;
  }
  /// The layers from here on, spread over the devices from here on; 0 where it is not known.
  Time time_for(int layer, int device) const {
    if (work_from_.empty()) return 0;
    return finest().microbatches * work_from_[index(layer)] / std::max(devices_ - device, 1);
  }
  void count_work();
  std::vector<Link> links_across(int device) const;
  void time_messages();
  void fill_prefix(Time limit, const std::stop_token& stop);
  void arrive(int layer, int device);
  void leave(int layer, int device, int kind, Time limit);
  void fill_suffix(int stages, Time limit, const std::stop_token& stop);
  void fill_state(int stages, int layer, int device, int kind, Time limit);
  void fill_behind(int stages);

  const Space& space_;
  std::vector<const Setting*> settings_;
  std::vector<std::unique_ptr<StageBounds>> stages_;  ///< per setting
  std::vector<StageKind> kinds_;
  int layers_ = 0, devices_ = 0, box_ = 1, most_stages_ = 0, most_replicas_ = 1;
  /// Of several degrees, by layer: of one microbatch, of this layer and those behind.
  std::vector<Time> work_from_;
  /// Of several degrees, [cut][device][replicas, next]: of the smallest message there, or back.
  std::vector<Time> messages_;
  std::vector<Head> prefix_;                 ///< [layer, device, kind]
  std::vector<Head> leaving_;                ///< [layer, device, replicas]
  std::vector<std::vector<Step>> suffix_;    ///< [stages][layer, device, kind]
  std::vector<std::vector<Behind>> behind_;  ///< [stages][layer, device, replicas before]
  std::int64_t looked_at_ = 0;
};

}  // namespace stagecraft
