// Version: all work on a microbatch reads the weights its policy promises, and old versions are
// kept for as long as they are read, no longer.
//
//   flush             version 0; the update makes version 1
//   stashing          the newest of the device when the forward starts
//   vertical sync     the newest of the first stage when its forward started
//   double buffered   max(0, t - 1) in batch t
//
// and every later instruction for a microbatch reads what its forward read. Where a stage only
// passes on there are no weights: version 0.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/units.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

std::string_view in_words(WeightPolicy policy) {
  switch (policy) {
    case WeightPolicy::flush: return "the flush policy";
    case WeightPolicy::stashing: return "weight stashing";
    case WeightPolicy::vertical_sync: return "vertical sync";
    case WeightPolicy::double_buffered: return "double buffering";
  }
  return "";
}

class Versions {
 public:
  explicit Versions(const Facts& facts)
      : facts_(facts), program_(facts.program), made_(program_.work.size(), 0) {
    count_updates();
  }

  Verdict run() {
    for (int work = 0; work < static_cast<int>(program_.work.size()); ++work) judge(work);
    for (int chunk = 0; chunk < static_cast<int>(program_.chunks.size()); ++chunk) {
      judge_room(chunk);
    }
    verdict_.proved(sentence());
    return verdict_;
  }

 private:
  const Work& work_at(int work) const { return program_.work[index(work)]; }
  Op op_of(int work) const { return work_at(work).instruction.op; }
  int updates_of(int chunk) const { return facts_.updates(program_.chunks[index(chunk)].stage); }
  const std::vector<int>& lane_of(int chunk) const {
    return facts_.lane(program_.chunks[index(chunk)].device, Lane::compute);
  }

  /// For each compute, the updates of its chunk in front of it.
  void count_updates() {
    std::vector<int> made(program_.chunks.size(), 0);
    for (int device = 0; device < program_.devices; ++device) {
      for (const int work : facts_.lane(device, Lane::compute)) {
        int& count = made[index(work_at(work).chunk)];
        made_[index(work)] = count;
        if (op_of(work) == Op::update) ++count;
      }
    }
  }

  void judge(int work) {
    if (!is_compute(op_of(work))) return;
    const bool update = op_of(work) == Op::update;
    const int version = work_at(work).weight_version;
    const int promised = promised_to(work);
    updates_ += update ? 1 : 0;
    if (version != promised) {
      verdict_.found(
          concat(facts_.describe(work), update ? " makes" : " reads", " weight version ", version,
                 "; ", in_words(program_.weights), " promises version ", promised),
          facts_, work);
    } else if (!update && version > made_[index(work)]) {
      verdict_.found(concat(facts_.describe(work), " reads weight version ", version,
                            ", but its device has made only ",
                            count(index(made_[index(work)]), "update"), " by then"),
                     facts_, work);
    }
    if (is_backward(op_of(work)) && !facts_.chunk_of(work).passes_on) {
      oldest_ = std::max(oldest_, facts_.update_of(work) - version);
    }
  }

  int promised_to(int work) const {
    const int k = work_at(work).instruction.microbatch;
    if (op_of(work) == Op::update) return made_[index(work)] + 1;
    if (facts_.chunk_of(work).passes_on) return 0;
    if (program_.weights == WeightPolicy::flush) return 0;
    if (program_.weights == WeightPolicy::double_buffered) {
      return std::max(facts_.update_of(work) - 1, 0);
    }
    const int chunk = program_.weights == WeightPolicy::vertical_sync
                          ? facts_.chunks_of_stage.front().front()
                          : work_at(work).chunk;
    const auto forwards = facts_.works(chunk, Op::forward, k);
    return forwards.empty() ? 0 : made_[index(forwards.front())];
  }

  // Room for old versions is room beside the parameters themselves.
  void judge_room(int chunk) {
    Bytes newest = 0, older = 0;
    for (const int id : program_.resident) {
      const Buffer& buffer = program_.buffers[index(id)];
      if (buffer.chunk != chunk || buffer.role != BufferRole::parameters) continue;
      (buffer.category == MemoryCategory::weight_versions ? older : newest) += buffer.bytes;
    }
    const Kept kept = most_kept(chunk);
    most_ = std::max(most_, kept.versions);
    const Bytes needed = (kept.versions - 1) * newest;
    if (older == needed) return;
    const Chunk& place = program_.chunks[index(chunk)];
    verdict_.found(concat("stage ", place.stage, " on device ", facts_.name_of(place.device),
                          " has ", exact_bytes(older), " for old versions of its weights, but ",
                          older < needed ? "must keep " : "never keeps more than ",
                          kept.versions - 1, " of ", exact_bytes(newest)),
                   place.device, kept.where);
  }

  struct Kept {
    int versions = 1;
    Instruction where;
  };

  /// Walks the chunk's compute with the set of versions that something will still read.
  Kept most_kept(int chunk) const {
    std::vector<int> last_reader(index(updates_of(chunk)) + 1, none);
    for (const int work : lane_of(chunk)) {
      if (reads(work, chunk)) last_reader[index(work_at(work).weight_version)] = work;
    }
    Kept most;
    int old = 0, newest = 0;
    std::vector<char> ended(last_reader.size(), 0);
    for (const int work : lane_of(chunk)) {
      if (reads(work, chunk) && last_reader[index(work_at(work).weight_version)] == work) {
        ended[index(work_at(work).weight_version)] = 1;
        if (work_at(work).weight_version != newest) --old;
      }
      if (op_of(work) != Op::update || work_at(work).chunk != chunk) continue;
      const bool needed = ended[index(newest)] == 0 && last_reader[index(newest)] != none;
      old += needed ? 1 : 0;
      newest = std::min(newest + 1, updates_of(chunk));
      if (old + 1 > most.versions) most = {old + 1, work_at(work).instruction};
    }
    return most;
  }

  bool reads(int work, int chunk) const {
    const int version = work_at(work).weight_version;
    return work_at(work).chunk == chunk && op_of(work) != Op::update && version >= 0 &&
           version <= updates_of(chunk);
  }

  std::string sentence() const {
    if (!program_.trains) return "weight versions: nothing changes them";
    if (program_.weights == WeightPolicy::flush) {
      return concat("weight versions: forward and backward read version 0, ",
                    count(updates_, "update"), updates_ == 1 ? " makes" : " make", " version 1");
    }
    return concat("weight versions: forward and backward of a microbatch read the same, gradients ",
                  "are applied at most ", count(index(oldest_), "update"), " late, at most ",
                  count(index(most_), "version"), " of a stage at once");
  }

  const Facts& facts_;
  const Program& program_;
  std::vector<int> made_;
  std::size_t updates_ = 0;
  int oldest_ = 0;
  int most_ = 1;
  Verdict verdict_{"version"};
};

}  // namespace

Verdict version(const Facts& facts) {
  return Versions(facts).run();
}

}  // namespace stagecraft::checks
