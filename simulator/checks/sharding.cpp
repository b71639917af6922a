// Sharding: each gradient is summed once for each update. Where the optimizer is sharded, all that
// hold the same layers own a shard each, and no parameters are read, in the next iteration
// neither, before all shards of the update before are collected.

#include <algorithm>
#include <map>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

class Shards {
 public:
  Shards(const Facts& facts, const HappensBefore& before)
      : facts_(facts), program_(facts.program), before_(before) {}

  Verdict run() {
    for (int work = 0; work < static_cast<int>(program_.work.size()); ++work) judge_group(work);
    for (int chunk = 0; chunk < static_cast<int>(program_.chunks.size()); ++chunk) {
      sum_once(chunk);
      if (facts_.is_sharded(program_.chunks[index(chunk)].stage)) judge_chunk(chunk);
    }
    if (gathers_ > 0) {
      verdict_.proved(concat(count(gathers_, "shard"),
                             " of the optimizer collected before their parameters are read"));
    }
    return verdict_;
  }

 private:
  const Work& work_at(int work) const { return program_.work[index(work)]; }
  std::string name(int work) const { return facts_.describe(work); }
  int update_of(int work) const { return facts_.update_of(work); }
  int updates_of(int chunk) const { return facts_.updates(program_.chunks[index(chunk)].stage); }

  /// Owners of the shards are those that hold the layers, all of them.
  void judge_group(int work) {
    const Op op = work_at(work).instruction.op;
    if (op != Op::reduce_scatter && op != Op::gather_parameters && op != Op::reduce_gradient)
      return;
    const int stage = facts_.chunk_of(work).stage;
    const bool sharded = facts_.is_sharded(stage);
    if (op == Op::reduce_gradient) {
      if (sharded) verdict_.found(name(work) + " sums whole gradients for a shard", facts_, work);
      return;
    }
    if (!sharded) {
      verdict_.found(concat(name(work), op == Op::reduce_scatter ? " scatters" : " collects",
                            " shards, but the optimizer of stage ", stage, " is not sharded"),
                     facts_, work);
      return;
    }
    std::vector<int> members = program_.groups[index(*work_at(work).group)].chunks;
    std::sort(members.begin(), members.end());
    const std::vector<int> owners = facts_.chunks_of_copies(stage);
    if (members == owners) return;
    verdict_.found(concat(name(work), " covers ", count(members.size(), "shard"), ", but stage ",
                          stage, " is held ", owners.size(), " times"),
                   facts_, work);
  }

  void sum_once(int chunk) {
    std::map<std::pair<int, int>, int> sums;  // [update, group of tied weights or none] → how often
    for (const Op op : {Op::reduce_gradient, Op::reduce_scatter, Op::reduce_tied}) {
      for (const int work : facts_.works(chunk, op)) {
        const int tie = op == Op::reduce_tied ? *work_at(work).group : none;
        if (++sums[{update_of(work), tie}] != 2) continue;
        verdict_.found(name(work) + " sums gradients a second time", facts_, work);
      }
    }
  }

  void judge_chunk(int chunk) {
    std::vector<int> gathers(index(updates_of(chunk)), none);
    for (const int work : facts_.works(chunk, Op::gather_parameters)) {
      int& gather = gathers[index(update_of(work))];
      if (gather != none) verdict_.found(name(work) + " collects a second time", facts_, work);
      gather = work;
      ++gathers_;
    }
    for (const int update : facts_.works(chunk, Op::update)) {
      if (gathers[index(update_of(update))] != none) continue;
      verdict_.found(
          concat("the shards that ", name(update), " and others update are never ", "collected"),
          facts_, update);
    }
    for (const int work : lane_of(chunk)) {
      if (work_at(work).chunk == chunk) judge_use(work, gathers);
    }
    if (!gathers.empty() && gathers.back() != none) judge_next_iteration(chunk, gathers.back());
  }

  /// Compute reads what was gathered; an update writes what the gather before has sent.
  void judge_use(int work, const std::vector<int>& gathers) {
    const bool update = work_at(work).instruction.op == Op::update;
    const int version = work_at(work).weight_version - (update ? 1 : 0);
    if (version < 1 || version > updates_of(work_at(work).chunk)) return;
    const int gather = gathers[index(version - 1)];
    if (gather == none || before_.ended(gather, work)) return;
    verdict_.found(concat(name(work), " may start before all shards of its parameters are there: ",
                          "nothing makes it wait for ", name(gather)),
                   facts_, work);
  }

  void judge_next_iteration(int chunk, int gather) {
    const auto& lane = lane_of(chunk);
    const auto first = std::find_if(lane.begin(), lane.end(),
                                    [&](int work) { return work_at(work).chunk == chunk; });
    if (first == lane.end()) return;
    const auto holds = [&](const CarriedWait& wait) {
      return wait.on == gather && (wait.work == *first || before_.ended(wait.work, *first));
    };
    if (std::any_of(program_.carried.begin(), program_.carried.end(), [&](const auto& wait) {
          return facts_.device_of(wait.work) == facts_.device_of(gather) && holds(wait);
        })) {
      return;
    }
    verdict_.found(concat(name(*first), " of the next iteration may start before ", name(gather),
                          " has collected its parameters"),
                   facts_, *first);
  }

  const std::vector<int>& lane_of(int chunk) const {
    return facts_.lane(program_.chunks[index(chunk)].device, Lane::compute);
  }

  const Facts& facts_;
  const Program& program_;
  const HappensBefore& before_;
  std::size_t gathers_ = 0;
  Verdict verdict_{"sharding"};
};

}  // namespace

Verdict sharding(const Facts& facts, const HappensBefore& before) {
  return Shards(facts, before).run();
}

}  // namespace stagecraft::checks
