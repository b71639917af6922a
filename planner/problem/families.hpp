// Lower bounds by family of plans, and the bound and scope of an answer that follow from them.
//
// A search enumerates one family: stages of consecutive layers on consecutive devices, all of one
// tensor-parallel degree, on large clusters with equally many replicas each. Plans outside it
// belong to other families, each with a bound that is often weaker. The bound of an answer is that
// of the searched family, and its scope names the families left out, if any of them may be faster
// than that. If the best plan belongs to no searched family, the bound is the lowest of all
// families.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiles/units.hpp"

namespace stagecraft {

enum class PlanFamily {
  searched,            ///< the family that the search enumerates
  several_degrees,     ///< stages with different tensor-parallel degrees
  unequal_replicas,    ///< stages with different numbers of replicas, or replicas out of step
  empty_stages,        ///< some stage has no layers
  scattered_devices,   ///< stages on devices that are not consecutive in the cluster's order or in
                       ///< another order that was tried (planner/space/device_orders.hpp)
  other_layer_orders,  ///< stages along other orders of a branching model's layers
  any_kind             ///< all other plans; only used if the best plan is one of them
};

struct FamilyBound {
  PlanFamily family = PlanFamily::searched;
  Duration lower_bound{0};    ///< no plan of the family is faster
  std::string rests_on = {};  ///< the relaxation, in words (planner/relaxations/relaxations.hpp)
  int orders = 0;             ///< for `other_layer_orders`: number of orders that were searched
  bool is_left_out() const {
    return family != PlanFamily::searched && family != PlanFamily::any_kind;
  }
};

/// A table with a row for each family that has a bound.
class FamilyBounds {
 public:
  /// Adds a row. If the family has one already, the lower bound and the smaller number of orders
  /// are kept.
  void add(FamilyBound row);
  void add(const FamilyBounds& others);
  /// Adds the rows of the families that `others` leaves out.
  void add_left_out(const FamilyBounds& others);
  /// Replaces the row of its family.
  void replace(FamilyBound row);
  void remove(PlanFamily family);
  void remove_left_out();
  /// Limits the bound of the searched family to the step of a plan that was found.
  void cap_searched(Duration step);

  const FamilyBound* find(PlanFamily family) const;
  bool has(PlanFamily family) const { return find(family) != nullptr; }
  const std::vector<FamilyBound>& rows() const { return rows_; }
  /// The bound of a family; Duration::max() if it has no row.
  Duration bound_of(PlanFamily family) const;
  Duration searched() const { return bound_of(PlanFamily::searched); }
  bool leaves_out() const;
  /// The lowest bound of the families left out; Duration::max() if there are none.
  Duration least_left_out() const;
  /// The lowest bound of all families.
  Duration least() const;
  /// The row that gives the answer's bound; null if there are no rows.
  const FamilyBound* binding() const;
  /// The plans that the bound covers, in words: "plans along 4 of the model's orders of layers
  /// whose stages all have …".
  std::string scope() const;

 private:
  std::vector<FamilyBound> rows_;
};

/// Whether this scope, as written in a plan's file, leaves out stages on devices that are not
/// consecutive.
bool is_of_consecutive_devices(std::string_view scope);

/// Counts of a search.
struct SearchCounts {
  std::int64_t candidates = 0;  ///< plans simulated
  std::int64_t pruned = 0;      ///< layouts discarded by a bound
  bool interrupted = false;
  void add(const SearchCounts& other);
};

/// Bounds and counts of a part of a search, whose plans go to the leaderboard.
struct Searched {
  FamilyBounds bounds;
  SearchCounts counts;
  void add(const Searched& other);
};

}  // namespace stagecraft
