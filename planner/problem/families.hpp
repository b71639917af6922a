// What is known of each family of plans that a question allows, and what follows for its answer.
//
// A search goes through one family: stages of consecutive layers on consecutive devices, all of one
// tensor-parallel degree, on large clusters with equally many replicas each. Plans that it leaves
// out are families of their own, each with a bound that is often weaker. The bound of an answer is
// that of the searched family, and its scope names the families that are left out, if any of them
// may be faster than that. Where the best plan is of none of the searched ones, the bound is the
// least of all.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiles/units.hpp"

namespace stagecraft {

enum class PlanFamily {
  searched,            ///< what the search goes through
  several_degrees,     ///< of tensor parallelism, in stages of one plan
  unequal_replicas,    ///< stages with unlike numbers of replicas, or replicas out of step
  empty_stages,        ///< some stage has no layers
  scattered_devices,   ///< stages on other than consecutive devices, in the cluster's order or one
                       ///< of those that were tried (planner/space/device_orders.hpp)
  other_layer_orders,  ///< stages along other orders of a branching model's layers
  any_kind             ///< everything else, where the best plan is such a one
};

struct FamilyBound {
  PlanFamily family = PlanFamily::searched;
  Duration lower_bound{0};    ///< no plan of the family is faster
  std::string rests_on = {};  ///< the relaxation, in words (planner/relaxations/relaxations.hpp)
  int orders = 0;  ///< of `other_layer_orders`: along so many orders all others are searched
  bool is_left_out() const {
    return family != PlanFamily::searched && family != PlanFamily::any_kind;
  }
};

/// A row for each family of which something is known.
class FamilyBounds {
 public:
  /// Of two rows of a family the lower one stays, and the fewer orders of layers.
  void add(FamilyBound row);
  void add(const FamilyBounds& others);
  /// The families that `others` leaves out.
  void add_left_out(const FamilyBounds& others);
  /// The row in place of what was known of its family.
  void replace(FamilyBound row);
  void remove(PlanFamily family);
  void remove_left_out();
  /// Plans of the searched family were found that take this.
  void cap_searched(Duration step);

  const FamilyBound* find(PlanFamily family) const;
  bool has(PlanFamily family) const { return find(family) != nullptr; }
  const std::vector<FamilyBound>& rows() const { return rows_; }
  /// Duration::max() where nothing is known of the family.
  Duration bound_of(PlanFamily family) const;
  Duration searched() const { return bound_of(PlanFamily::searched); }
  bool leaves_out() const;
  /// Of the families that are left out; Duration::max() if there are none.
  Duration least_left_out() const;
  /// Of all families.
  Duration least() const;
  /// The row that bounds the answer; null where nothing is known.
  const FamilyBound* binding() const;
  /// The plans that are not left out: "plans along 4 of the model's orders of layers whose stages
  /// all have …".
  std::string scope() const;

 private:
  std::vector<FamilyBound> rows_;
};

/// Whether such a scope, in a plan's file, leaves out stages on other than consecutive devices.
bool is_of_consecutive_devices(std::string_view scope);

/// What a search has gone through.
struct SearchCounts {
  std::int64_t candidates = 0;  ///< simulated
  std::int64_t pruned = 0;      ///< discarded by their bound
  bool interrupted = false;
  void add(const SearchCounts& other);
};

/// What part of a search has shown. Plans go to the leaderboard.
struct Searched {
  FamilyBounds bounds;
  SearchCounts counts;
  void add(const Searched& other);
};

}  // namespace stagecraft
