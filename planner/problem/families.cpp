#include "planner/problem/families.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view on_consecutive_devices = " on consecutive devices";

}  // namespace

void FamilyBounds::add(FamilyBound row) {
  const auto own = std::ranges::find(rows_, row.family, &FamilyBound::family);
  if (own == rows_.end()) {
    rows_.push_back(std::move(row));
    return;
  }
  const int orders = own->orders == 0 || row.orders == 0 ? std::max(own->orders, row.orders)
                                                         : std::min(own->orders, row.orders);
  if (row.lower_bound < own->lower_bound) *own = std::move(row);
  own->orders = orders;
}

void FamilyBounds::add(const FamilyBounds& others) {
  for (const FamilyBound& row : others.rows_) add(row);
}

void FamilyBounds::add_left_out(const FamilyBounds& others) {
  for (const FamilyBound& row : others.rows_) {
    if (row.is_left_out()) add(row);
  }
}

void FamilyBounds::replace(FamilyBound row) {
  remove(row.family);
  rows_.push_back(std::move(row));
}

void FamilyBounds::remove(PlanFamily family) {
  std::erase_if(rows_, [&](const FamilyBound& row) { return row.family == family; });
}

void FamilyBounds::remove_left_out() {
  std::erase_if(rows_, [](const FamilyBound& row) { return row.is_left_out(); });
}

void FamilyBounds::cap_searched(Duration step) {
  for (FamilyBound& row : rows_) {
    if (row.family == PlanFamily::searched) row.lower_bound = std::min(row.lower_bound, step);
  }
}

const FamilyBound* FamilyBounds::find(PlanFamily family) const {
  const auto row = std::ranges::find(rows_, family, &FamilyBound::family);
  return row == rows_.end() ? nullptr : &*row;
}

Duration FamilyBounds::bound_of(PlanFamily family) const {
  const FamilyBound* row = find(family);
  return row == nullptr ? Duration::max() : row->lower_bound;
}

bool FamilyBounds::leaves_out() const {
  return std::ranges::any_of(rows_, &FamilyBound::is_left_out);
}

Duration FamilyBounds::least_left_out() const {
  Duration least = Duration::max();
  for (const FamilyBound& row : rows_) {
    if (row.is_left_out()) least = std::min(least, row.lower_bound);
  }
  return least;
}

Duration FamilyBounds::least() const {
  return std::min({searched(), least_left_out(), bound_of(PlanFamily::any_kind)});
}

const FamilyBound* FamilyBounds::binding() const {
  const FamilyBound* all_others = find(PlanFamily::any_kind);
  if (all_others == nullptr) return find(PlanFamily::searched);
  // Of rows with equal bounds, the one of any kind is named.
  const auto lowest = std::ranges::min_element(rows_, {}, &FamilyBound::lower_bound);
  return all_others->lower_bound <= lowest->lower_bound ? all_others : &*lowest;
}

std::string FamilyBounds::scope() const {
  std::vector<std::string> all;
  if (has(PlanFamily::several_degrees)) all.emplace_back("the same tensor-parallel degree");
  if (has(PlanFamily::unequal_replicas)) all.emplace_back("equally many replicas in lockstep");
  if (has(PlanFamily::empty_stages)) all.emplace_back("layers");
  std::string along;
  if (const FamilyBound* others = find(PlanFamily::other_layer_orders)) {
    along = others->orders == 1
                ? " along the model's own order of layers"
                : concat(" along ", others->orders, " of the model's orders of layers");
  }
  const std::string whose = fmt::format(" whose stages all have {}", fmt::join(all, " and "));
  const std::string_view on =
      has(PlanFamily::scattered_devices) ? on_consecutive_devices : std::string_view();
  return concat("plans", on, along, all.empty() ? "" : whose);
}

bool is_of_consecutive_devices(std::string_view scope) {
  return scope.find(on_consecutive_devices) != std::string_view::npos;
}

void SearchCounts::add(const SearchCounts& other) {
  candidates += other.candidates;
  pruned += other.pruned;
  interrupted = interrupted || other.interrupted;
}

void Searched::add(const Searched& other) {
  bounds.add(other.bounds);
  counts.add(other.counts);
}

}  // namespace stagecraft
