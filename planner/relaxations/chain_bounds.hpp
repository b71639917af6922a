// Lower bounds for chains, plans of one stage per device. A step T is feasible only if there is a
// chain each of whose stages is within T (planner/relaxations/stage_bounds.hpp).
//
// A *kind* of stage is a number of replicas and a tensor-parallel degree. If all stages have one
// degree, kinds differ in their replicas alone. Else devices are counted in groups of the smallest
// degree, and a replica of a kind spans several groups. Given T:
//
//   prefix(j, k, r)     least H, H + A and H + R over all ways to put layers [0, j) on k devices,
//                       each stage within T, before a stage of kind r
//   suffix(q, j, k, r)  least f + D + g over all ways to put layers [j, end) on q stages from
//                       device k on, the first of kind r, each within T behind the prefix
//
// Both are shortest paths over (layer, device, kind); stages that do not fit with their activations
// in flight are left out. If suffix(p, 0, 0, ·) is empty for every p, no plan takes T or less;
// bisection finds the best lower bound. A device's position is its number in the cluster, so uneven
// stages may span nodes. H, A and D are minimised independently, so this is a relaxation. The
// search then enumerates from the first stage on, with the true H and A, and with the suffix table
// for the stages that are left (planner/search/enumerate/chain_walk.hpp).
//
// With several degrees the bound is weaker: a message between two stages is the smallest that some
// replica needs, over the fastest link across the cut of devices; tied weights and the waits of
// GPipe's last stage are left out. Tensor-parallel peers stand within the innermost links, or fill
// several nodes. So a replica of t groups starts at a multiple of t, or all replicas of its stage
// are in one box, where all places are equivalent.

#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "planner/relaxations/stage_bounds.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// A kind of stage: a number of replicas with one degree.
struct StageKind {
  int setting = 0;  ///< index of the setting with the replicas' degree
  int span = 1;     ///< groups of the smallest degree in each replica
  int replicas = 1;
  int devices() const { return span * replicas; }
};

class ChainBounds {
 public:
  /// Bounds for one degree. The space and the setting must outlive them.
  ChainBounds(const Space& space, const Setting& setting)
      : ChainBounds(space, std::vector{&setting}) {}
  /// Bounds for several degrees: settings that differ only in their degree, the smallest degree
  /// first.
  ChainBounds(const Space& space, std::vector<const Setting*> settings);
  const Space& space() const { return space_; }

  /// Whether there are bounds for several such settings: chains of training stages with a flush, on
  /// devices of one kind, none excluded, in equal boxes that consist of whole groups; and few
  /// enough devices and layers.
  static bool applies(const Space& space, const std::vector<const Setting*>& settings);

  /// With several degrees: the bound by work, spread over all devices. With one degree: 0.
  Time least() const { return time_for(0, 0); }
  /// Fills the tables for plans of at most this step. Returns false if there are none. If a stop is
  /// requested, returns true, and no number of stages is open.
  bool probe(Time limit, const std::stop_token& stop = {});
  /// Table entries computed so far.
  std::int64_t looked_at() const { return looked_at_; }

  int devices() const { return devices_; }
  int most_stages() const { return most_stages_; }
  const std::vector<StageKind>& kinds() const { return kinds_; }
  const std::vector<const Setting*>& settings() const { return settings_; }
  /// The setting of the smallest degree, in whose groups devices are counted.
  const Setting& finest() const { return *settings_.front(); }
  const Setting& setting(const StageKind& kind) const { return *settings_[index(kind.setting)]; }
  const StageBounds& stage(const StageKind& kind) const { return *stages_[index(kind.setting)]; }
  /// Whether a stage of this kind may start at this device.
  bool stands(const StageKind& kind, int device) const;
  /// The number of the device, or of an equivalent one, in the kind's own setting.
  static int own_device(const StageKind& kind, int device) { return device / kind.span; }

  /// After probe: whether a chain of this many stages may be within the limit.
  bool is_open(int stages) const;
  /// After probe: the chain of this many stages with the shortest round trip; a promising plan.
  struct ChainStage {
    int kind = 0;
    LayerRange layers;
    Recompute recompute = Recompute::none;
  };
  std::vector<ChainStage> best_chain(int stages) const;
  /// `best_chain` as a layout; needs a single degree.
  Layout best_layout(int stages) const;

  /// Lower bound on the messages between a stage and the next one, which starts on this device, in
  /// both directions.
  HandOver transfer(int cut, int device, int replicas, int next_replicas) const;
  /// The head of the next stage, which starts on `next_device`, behind this stage.
  Head after(const Head& head, const StageChoice& choice, int replicas, int next_device,
             int next_replicas, int cut) const;
  /// After probe: lower bounds for the `stages` stages from this layer and device on, behind a
  /// stage of `replicas` replicas.
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
  /// Whether a stage on this device can have this many stages left, itself included.
  bool may_have_left(int device, int stages) const {
    return !finest().depth || device + stages == *finest().depth;
  }
  /// Bound by work: the layers from `layer` on, spread over the devices from `device` on; 0 if
  /// unknown.
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
  /// With several degrees: work of one microbatch on this layer and all behind it.
  std::vector<Time> work_from_;
  /// With several degrees, [cut][device][replicas, next]: time of the smallest message, the same in
  /// both directions.
  std::vector<Time> messages_;
  std::vector<Head> prefix_;                 ///< [layer, device, kind]
  std::vector<Head> leaving_;                ///< [layer, device, replicas]
  std::vector<std::vector<Step>> suffix_;    ///< [stages][layer, device, kind]
  std::vector<std::vector<Behind>> behind_;  ///< [stages][layer, device, replicas before]
  std::int64_t looked_at_ = 0;
};

}  // namespace stagecraft
