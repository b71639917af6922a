// How fast plans could be at best whose stages have tensor-parallel degrees of their own.
//
// One stage per device, GPipe or 1F1B: the bound of a stage is that of
// planner/relaxations/chain_bounds.hpp under the setting of its own degree. What changes is where
// stages can stand. Devices are counted in groups of the smallest degree, and a stage is of a
// *kind*: so many replicas of so many groups each. The tables go over (layer, device, kind); a
// message between two stages is taken to be the smallest that some replica needs, over the fastest
// link across the cut of devices.
//
// Peers stand within the innermost links. A replica of t groups therefore starts at a multiple of
// t, or all replicas of its stage are in one box; there one place is as good as any other.

#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "planner/relaxations/chain_bounds.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Replicas side by side.
struct StageKind {
  int setting = 0;  ///< whose degree they have
  int span = 1;     ///< groups of the smallest degree in each
  int replicas = 1;
  int devices() const { return span * replicas; }
};

class MixedBounds {
 public:
  /// Settings that differ in their degree only, the smallest first; at least two. Both must outlive
  /// this.
  MixedBounds(const Space& space, std::vector<const Setting*> settings);

  /// Whether this knows plans of such settings: chains of stages that train and flush, on devices
  /// of one kind, none excluded, whose boxes are alike and made of whole groups; and few enough of
  /// them.
  static bool applies(const Space& space, const std::vector<const Setting*>& settings);

  /// No plan takes less: its work, spread over all devices.
  Time least() const;
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
  /// Of its own setting.
  const ChainBounds& chain(const StageKind& kind) const { return *chains_[index(kind.setting)]; }
  /// Whether a stage of this kind may start there.
  bool stands(const StageKind& kind, int device) const;
  /// The number of the device among those of the kind's own setting, or that of its like.
  static int own_device(const StageKind& kind, int device) { return device / kind.span; }

  /// After probe: whether p stages could do.
  bool is_open(int stages) const;
  /// After probe: the stages of a chain of p with the shortest round trip.
  struct ChainStage {
    int kind = 0;
    LayerRange layers;
    Recompute recompute = Recompute::none;
  };
  std::vector<ChainStage> best_chain(int stages) const;

  /// Of what a replica hands to the next stage, which starts on this device, or gets back: at
  /// least.
  Time transfer(int cut, int device, int replicas, int next_replicas) const;
  /// What is known behind this stage, in front of one of so many replicas.
  Head after(const Head& head, const StageChoice& choice, int replicas, int next_device,
             int next_replicas, int cut) const;
  /// After probe: what so many stages from this layer and device on could do at best, behind one of
  /// so many replicas.
  Beyond beyond(int stages, int layer, int device, int replicas) const;

 private:
  struct Step {
    Time round_trip = never;
    int end = 0;
    Recompute recompute = Recompute::none;
  };
  struct Behind {
    Time round_trip = never;
    int kind = 0;
  };

  std::size_t at(int layer, int device) const {
    return index(layer) * index(devices_ + 1) + index(device);
  }
  std::size_t of_kind(int layer, int device, int kind) const {
    return at(layer, device) * kinds_.size() + index(kind);
  }
  std::size_t of_replicas(int layer, int device, int replicas) const {
    return at(layer, device) * index(most_replicas_ + 1) + index(replicas);
  }
  void count_work();
  std::vector<Link> links_across(int device) const;
  void time_transfers();
  bool has_room(int layer, int device, Time limit) const;
  void fill_prefix(Time limit, const std::stop_token& stop);
  void arrive(int layer, int device);
  void leave(int layer, int device, int kind, Time limit);
  void fill_suffix(int stages, Time limit, const std::stop_token& stop);
  void fill_state(int stages, int layer, int device, int kind, Time limit);
  void fill_behind(int stages);

  const Space& space_;
  std::vector<const Setting*> settings_;
  std::vector<std::unique_ptr<ChainBounds>> chains_;
  std::vector<StageKind> kinds_;
  int layers_ = 0, devices_ = 0, box_ = 1, most_stages_ = 0, most_replicas_ = 1;
  std::vector<Time> work_from_;  ///< [layer]: of one microbatch, of this layer and those behind
  /// [cut][device][replicas, next]: of the smallest message there, or back.
  std::vector<Time> transfers_;
  std::vector<Head> prefix_;                 ///< [layer, device, kind]
  std::vector<Head> leaving_;                ///< [layer, device, replicas]
  std::vector<std::vector<Step>> suffix_;    ///< [stages][layer, device, kind]
  std::vector<std::vector<Behind>> behind_;  ///< [stages][layer, device, replicas before]
  std::int64_t looked_at_ = 0;
};

}  // namespace stagecraft
