// The possible stages of a Piper split, with their times under a memory limit.

#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "planner/baselines/piper/cover_knapsack.hpp"
#include "planner/baselines/piper/piper_split.hpp"
#include "planner/space/downsets.hpp"

namespace stagecraft {

/// The nodes that downset `above` has beyond a smaller one.
struct PiperPart {
  int above = 0;
  std::size_t first_node = 0, end_node = 0;  ///< places in the list of all parts' nodes
  std::size_t number = 0;
};

/// All pairs of nested downsets as parts, and their times, found when asked for and remembered.
class PiperParts {
 public:
  PiperParts(const PiperGraph& graph, const Lattice& lattice);

  const std::vector<int>& degrees() const { return degrees_; }
  /// Parts that begin where downset `below` ends.
  std::span<const PiperPart> beginning_at(int below) const;
  std::int64_t size() const { return static_cast<std::int64_t>(parts_.size()); }

  /// The most microbatches in flight, from `least` to `most`, with which the part takes at most
  /// `time` on `replicas` times degrees()[degree] devices; 0 if there are none.
  int most_in_flight(const PiperPart& part, std::size_t degree, int replicas, double time,
                     int least, int most);

  /// The part as a stage, with the fastest choices found that fit.
  PiperStage stage(const PiperPart& part, std::size_t degree, int replicas, int in_flight) const;

  /// Whether some choice was too hard to settle. Such a part counts as too slow, or as fast enough
  /// if one is optimistic, to get a bound.
  bool has_unsettled() const { return has_unsettled_; }
  void be_optimistic(bool optimistic) { optimistic_ = optimistic; }

 private:
  /// One node of a part, at one degree.
  struct NodeChoices {
    const std::vector<PiperChoice>* choices;  ///< none: it cannot run at this degree
    std::array<double, 2> work;  ///< per choice, seconds that replicas share: time, crossing edges
  };
  /// Bytes: per_microbatch y + fixed.
  struct Memory {
    double per_microbatch = 0;
    double fixed = 0;
  };
  /// A part at its fastest, whatever memory that takes.
  struct Fastest {
    double time = 0;
    Memory memory;
  };
  /// Sums over a part at one degree; no choice goes below `work`, `sync` and `least`.
  struct Sums {
    double work = 0;
    double sync = 0;
    Memory least;
    Memory fast;  ///< of the fastest choices without replicas
    bool is_possible = false;
    bool is_alike = false;  ///< a node's choices differ in time and memory alone
  };
  /// Lower bounds on the extra time for fitting in memory.
  struct Added {
    double lower = 0;
    double upper = -1;
    bool is_final = false;
  };

  void add_part(const Lattice& lattice, int below, int above);
  double crossing(int node, const PiperChoice& choice) const;
  NodeChoices choices_at(std::size_t entry, std::size_t degree) const;
  Sums sums_of(const PiperPart& part, std::size_t degree) const;
  static int most_microbatches(const Memory& memory, double limit, int most);
  /// Seconds to sum gradients, before the factor (d - 1) / d.
  double sync_of(const PiperChoice& choice) const;
  double time_of(const NodeChoices& node, std::size_t choice, int replicas) const;
  std::size_t fastest_choice(const NodeChoices& node, int replicas) const;
  std::uint64_t key(const PiperPart& part, std::size_t degree, int replicas) const;
  Fastest fastest(const PiperPart& part, std::size_t degree, int replicas) const;
  bool is_fast_enough(const PiperPart& part, std::size_t degree, int replicas, int in_flight,
                      double time);
  /// Which nodes take their slower choice, so that the part fits; its cost is beyond `fastest`.
  Cover choose(const PiperPart& part, std::size_t degree, int replicas, int in_flight, bool exactly,
               std::vector<int>* choices) const;

  const PiperGraph& graph_;
  std::vector<int> degrees_;
  std::vector<std::vector<std::pair<int, double>>> inputs_, readers_;  ///< neighbour and bytes
  std::vector<int> nodes_;                                             ///< part after part
  std::vector<std::array<double, 2>> work_;                            ///< per node there, degree
  std::vector<PiperPart> parts_;
  std::vector<std::size_t> first_part_;  ///< per downset
  std::vector<Sums> sums_;               ///< per part and degree
  std::vector<char> is_inside_;          ///< of the part being added
  std::unordered_map<std::uint64_t, Added> added_;
  bool has_unsettled_ = false;
  bool optimistic_ = false;
};

}  // namespace stagecraft
