// The fastest pipeline of one level, by parametric search on its slowest stage.
//
// For a limit T, which numbers of machines can serve the layers up to state j with nothing above T?
// A stage alone is possible on one machine, or on any number from some m >= 2 on: its time falls
// from two machines on, but one machine needs no traffic for weights. So the numbers for state j
// are the union over states k before it of "those of k, plus one" and "anything from the least of k
// plus m on". Each probe is one pass over pairs of states. A feasible one gives a pipeline with its
// own slowest stage, to which the upper end falls; the search ends when nothing just below it is
// feasible. So the answer is exactly that of the dynamic program over machines that it replaces.

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "planner/baselines/pipedream/pipedream.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

class Search {
 public:
  explicit Search(const PipedreamLevelCosts& costs)
      : costs_(costs),
        machines_(costs.machines()),
        last_(costs.states().size() - 1),
        words_(index(machines_) / 64 + 1),
        single_(index(last_ + 1) * words_),
        any_from_(index(last_ + 1)),
        least_(index(last_ + 1)) {}

  std::optional<PipedreamPipeline> search() {
    if (!probe(std::numeric_limits<double>::max())) return {};
    PipedreamPipeline best = pipeline();
    double low = costs_.compute_after(-1) / machines_ * (1 - 1e-9);
    for (int round = 0; best.time > low; ++round) {
      const double middle = low + (best.time - low) / 2;
      const double below = std::nextafter(best.time, 0);
      const bool is_close = round >= 8 && round % 2 == 0;
      const double limit = is_close || middle <= low || middle >= below ? below : middle;
      if (probe(limit)) {
        best = pipeline();
      } else if (limit == below) {
        break;
      } else {
        low = limit;
      }
    }
    best.compared = compared_;
    return best;
  }

 private:
  // --- Numbers of machines that can serve a state ---

  bool is_reached(int state, int used) const {
    if (used >= any_from_[index(state)]) return true;
    return (single_[index(state) * words_ + index(used) / 64] >> (index(used) % 64) & 1) != 0;
  }
  void reach(int state, int used) {
    single_[index(state) * words_ + index(used) / 64] |= std::uint64_t{1} << (index(used) % 64);
    least_[index(state)] = std::min(least_[index(state)], used);
  }
  void reach_any_from(int state, int used) {
    any_from_[index(state)] = std::min(any_from_[index(state)], used);
    least_[index(state)] = std::min(least_[index(state)], used);
  }

  // --- One pass ---

  /// Whether all machines together can serve the last state within the limit.
  bool probe(double limit) {
    limit_ = limit;
    std::fill(single_.begin(), single_.end(), 0);
    std::fill(any_from_.begin(), any_from_.end(), machines_ + 1);
    std::fill(least_.begin(), least_.end(), machines_ + 1);
    for (int state = 0; state <= last_; ++state) {
      begin_with(state);
      const int most = machines_ - machines_after(state);
      for (const int from : costs_.states().before[index(state)]) add(from, state, most);
      // Theirs may leave machines idle only where there is something to cut.
      const bool idles = costs_.rules().fewer_machines && state > 0;
      if (idles && least_[index(state)] <= machines_) {
        reach_any_from(state, least_[index(state)]);
      }
    }
    return is_reached(last_, machines_);
  }

  /// Machines that the layers after the state need at least.
  int machines_after(int state) const {
    if (state == last_) return 0;
    const double full = costs_.compute_after(state) / limit_ * (1 - 1e-9);
    return std::max(1, static_cast<int>(std::min<double>(machines_, std::ceil(full))));
  }

  void begin_with(int state) {
    const int most = costs_.rules().straight ? 1 : machines_;
    for (int used = 1; used <= most; ++used) {
      ++compared_;
      if (costs_.first_stage(-1, state, used) > limit_) continue;
      if (costs_.first_stage_fits(-1, state, used)) reach(state, used);
    }
  }

  /// A stage between the states, if they end with at most so many machines.
  void add(int from, int state, int most) {
    const int before = least_[index(from)];
    if (before >= most) return;
    const int machines = costs_.rules().straight ? 1 : most - before;
    if (costs_.compute(from, state) > limit_ * machines * (1 + 1e-9)) return;
    ++compared_;
    if (costs_.later_stage(from, state, 1) <= limit_) add_one_machine(from, state);
    if (machines < 2 || costs_.later_stage(from, state, machines) > limit_) return;
    int enough = machines;
    for (int least = 2; least < enough;) {
      const int middle = (least + enough) / 2;
      ++compared_;
      if (costs_.later_stage(from, state, middle) <= limit_) {
        enough = middle;
      } else {
        least = middle + 1;
      }
    }
    // The fewer machines come before, the more this stage has, and the less it must stash.
    int used = before + enough;
    while (!costs_.later_stage_fits(from, state, used - before, used)) ++used;
    reach_any_from(state, used);
  }

  void add_one_machine(int from, int state) {
    int used = least_[index(from)] + 1;
    while (!costs_.later_stage_fits(from, state, 1, used)) ++used;
    if (any_from_[index(from)] < machines_) {
      reach_any_from(state, std::max(used, any_from_[index(from)] + 1));
    }
    const std::uint64_t* source = &single_[index(from) * words_];
    std::uint64_t* target = &single_[index(state) * words_];
    for (std::size_t word = index(used) / 64; word < words_; ++word) {
      std::uint64_t shifted = source[word] << 1;
      if (word > 0) shifted |= source[word - 1] >> 63;
      if (word == index(used) / 64) shifted &= ~std::uint64_t{0} << (index(used) % 64);
      target[word] |= shifted;
      if (shifted == 0) continue;
      const int first = static_cast<int>(word * 64) + std::countr_zero(shifted);
      least_[index(state)] = std::min(least_[index(state)], first);
    }
  }

  // --- Its stages ---

  /// The stages of a feasible probe, from the last one back.
  PipedreamPipeline pipeline() const {
    PipedreamPipeline result;
    int used = machines_;
    for (int state = last_; state >= 0;) {
      const PipedreamStage stage = last_stage(state, used);
      result.time = std::max(result.time, time_of(stage));
      result.stages.insert(result.stages.begin(), stage);
      state = stage.from;
      used -= stage.machines;
    }
    return result;
  }

  double time_of(const PipedreamStage& stage) const {
    return stage.from < 0 ? costs_.first_stage(-1, stage.to, stage.machines)
                          : costs_.later_stage(stage.from, stage.to, stage.machines);
  }

  /// A stage that ends at the state as machine number `used`; `used` falls to where one does.
  PipedreamStage last_stage(int state, int& used) const {
    for (; used > 0; --used) {
      const bool may_begin = used == 1 || !costs_.rules().straight;
      if (may_begin && costs_.first_stage(-1, state, used) <= limit_ &&
          costs_.first_stage_fits(-1, state, used)) {
        return {-1, state, used};
      }
      for (const int from : costs_.states().before[index(state)]) {
        const int most = costs_.rules().straight ? 1 : used - least_[index(from)];
        for (int machines = 1; machines <= std::min(most, used - 1); ++machines) {
          if (is_reached(from, used - machines) &&
              costs_.later_stage(from, state, machines) <= limit_ &&
              costs_.later_stage_fits(from, state, machines, used)) {
            return {from, state, machines};
          }
        }
      }
    }
    assert(false);  // a feasible probe has a last stage
    return {-1, state, 1};
  }

  const PipedreamLevelCosts& costs_;
  int machines_;
  int last_;
  std::size_t words_;
  std::vector<std::uint64_t> single_;  ///< per state, a bit per number of machines
  std::vector<int> any_from_;          ///< per state, it and all larger numbers are possible
  std::vector<int> least_;             ///< per state, the smallest possible number
  double limit_ = 0;
  std::int64_t compared_ = 0;
};

}  // namespace

std::optional<PipedreamPipeline> fastest_pipeline(const PipedreamLevelCosts& costs) {
  return Search(costs).search();
}

}  // namespace stagecraft
