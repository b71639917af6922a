// Every plan of the space, simulated. Nothing is clever here, so that the clever strategies have
// something to be compared with.

#include <algorithm>
#include <limits>

#include "planner/searches/leaderboard.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/orders.hpp"
#include "planner/space/space.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

class BruteForce {
 public:
  BruteForce(const Problem& problem, const SearchControl& control)
      : space_(problem), control_(control), board_(control.top) {}

  /// Every plan, on the devices in their own order.
  void search() {
    for (const Setting& setting : space_.settings()) {
      search(setting);
      for (const Setting& copy : space_.copies(setting)) search(copy);
    }
  }

  const Space& space() const { return space_; }
  bool is_complete() const { return !interrupted_; }
  std::int64_t candidates() const { return candidates_; }
  std::vector<Candidate> take() { return board_.take(); }

 private:
  bool stopped() {
    if (control_.stop.stop_requested()) interrupted_ = true;
    return interrupted_;
  }

  void search(const Setting& setting) {
    for (int p = 1; p <= space_.most_pipeline_devices(setting); ++p) {
      Layout layout;
      choose_replicas(setting, layout, p, 0);
    }
  }

  void choose_replicas(const Setting& setting, Layout& layout, int pipeline_devices, int used) {
    if (layout.pipeline_devices() == pipeline_devices) {
      const int stages = pipeline_devices * setting.schedule.virtual_stages;
      if (!space_.may_end_at(setting, used) || !space_.allows_stages(stages)) return;
      if (!space_.wants(setting, layout.replicas) || !space_.schedule(setting, layout.replicas)) {
        return;
      }
      layout.cuts = {0};
      return choose_cuts(setting, layout, stages);
    }
    for (int count = 1; count <= space_.most_replicas(setting); ++count) {
      if (used + count > space_.devices(setting)) break;
      layout.replicas.push_back(count);
      choose_replicas(setting, layout, pipeline_devices, used + count);
      layout.replicas.pop_back();
    }
  }

  void choose_cuts(const Setting& setting, Layout& layout, int stages) {
    const int stage = layout.stages();
    const int first = layout.cuts.back();
    if (stage == stages) {
      if (first == space_.layers()) choose_recompute(setting, layout);
      return;
    }
    for (int end = space_.first_end(first); end <= space_.layers(); ++end) {
      if (!space_.allows(stage, {first, end})) continue;
      layout.cuts.push_back(end);
      choose_cuts(setting, layout, stages);
      layout.cuts.pop_back();
    }
  }

  void choose_recompute(const Setting& setting, Layout& layout) {
    if (static_cast<int>(layout.recompute.size()) == layout.stages()) {
      return evaluate(setting, layout);
    }
    for (const Recompute recompute : space_.problem().recompute) {
      layout.recompute.push_back(recompute);
      layout.again.emplace_back();
      choose_recompute(setting, layout);
      layout.again.pop_back();
      layout.recompute.pop_back();
    }
    if (!space_.layers_choose() || !space_.allows(Recompute::none)) return;
    const auto stage = layout.recompute.size();
    layout.recompute.push_back(Recompute::none);
    layout.again.emplace_back(static_cast<std::size_t>(layout.cuts[stage + 1] - layout.cuts[stage]),
                              Recomputed::none);
    choose_layers(setting, layout, 0);
    layout.again.pop_back();
    layout.recompute.pop_back();
  }

  /// From this layer of the last stage on.
  void choose_layers(const Setting& setting, Layout& layout, std::size_t layer) {
    if (layer == layout.again.back().size()) {
      const auto idle = std::ranges::count(layout.again.back(), Recomputed::none);
      if (idle < std::ssize(layout.again.back())) choose_recompute(setting, layout);
      return;
    }
    choose_layers(setting, layout, layer + 1);
    const std::size_t stage = layout.again.size() - 1;
    for (const Recomputed what : space_.problem().recompute_layers) {
      layout.again[stage][layer] = what;
      choose_layers(setting, layout, layer + 1);
      layout.again[stage][layer] = Recomputed::none;
    }
  }

  void evaluate(const Setting& setting, const Layout& layout) {
    if (stopped()) return;
    const Candidate candidate = space_.evaluate("brute-force", space_.plan(setting, layout));
    ++candidates_;
    board_.add(candidate);
  }

  Space space_;
  const SearchControl& control_;
  Leaderboard board_;
  std::int64_t candidates_ = 0;
  bool interrupted_ = false;
};

/// Of a model that branches: the layers could be cut in other orders, too
/// (planner/space/orders.hpp).
void say_one_order(SearchResult& result) {
  constexpr std::string_view which = "the model's own order of layers";
  if (result.infeasible) {
    result.infeasible->reason += concat(", in ", which, "; brute-force tries no other");
    result.infeasible->remedies.emplace_back("--strategy exact, which tries other orders, too");
  }
  for (Candidate& candidate : result.plans) {
    if (!candidate.prediction) continue;
    candidate.prediction->notes.push_back(
        concat("brute-force searched ", which, " only; --strategy exact tries others, too"));
  }
}

}  // namespace

SearchResult search_brute_force(const Problem& problem, const SearchControl& control) {
  BruteForce own(problem, control);
  own.search();
  Leaderboard board(control.top);
  for (const Candidate& candidate : own.take()) board.add(candidate);
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = "brute-force"};
  result.candidates = own.candidates();
  result.interrupted = !own.is_complete();
  for (const std::vector<int>& order : asked_device_orders(problem).orders) {
    const Problem ordered = in_device_order(problem, order);
    BruteForce other(ordered, control);
    other.search();
    result.candidates += other.candidates();
    result.interrupted = result.interrupted || !other.is_complete();
    for (const Candidate& candidate : other.take()) {
      board.add(own.space().evaluate(candidate.name, renumbered(candidate.plan, order)));
    }
  }
  const bool complete = !result.interrupted;
  result.lower_bound = Duration{complete ? std::numeric_limits<std::int64_t>::max() : 0};
  result = finish(board, std::move(result));
  if (result.plans.empty() && complete) {
    result.infeasible = explain_infeasible(problem, own.space(), control.stop);
  }
  if (!other_orders(problem, {}, 1).empty()) say_one_order(result);
  return result;
}

}  // namespace stagecraft
