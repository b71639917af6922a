// Conservation: each stage does each row of each microbatch forward once and (in training) backward
// once, recomputes it at most once, and each chunk updates its weights once for each batch, unless
// it has none and only passes on. Where there are several batches all replicas have as many
// microbatches in each: their gradients weigh the same.

#include <algorithm>
#include <tuple>

#include "profiles/error.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

/// The rows of one microbatch that one work computes.
struct Piece {
  int microbatch = 0;
  IndexRange rows;
  int work = 0;
};

class Conservation {
 public:
  explicit Conservation(const Facts& facts) : facts_(facts) {}

  Verdict run() {
    const Program& program = facts_.program;
    for (int chunk = 0; chunk < static_cast<int>(program.chunks.size()); ++chunk) {
      for (const Op op :
           {Op::forward, Op::backward, Op::backward_input, Op::backward_weight, Op::recompute}) {
        none_twice(chunk, op);
      }
      each_backward(chunk);
      each_part(chunk);
      each_update(chunk);
    }
    for (int stage = 0; stage < program.stages; ++stage) partition(stage);
    verdict_.proved(concat(program.stages, " of ", program.stages,
                           " stages: ", program.microbatches, " of ", program.microbatches,
                           program.sequence_chunks > 1 ? " sequence pieces" : " microbatches",
                           program.pipes > 1 ? " of each pipe" : "", " forward",
                           program.trains ? " and backward" : ""));
    return verdict_;
  }

 private:
  std::string name(int work) const { return facts_.describe(work); }
  int microbatch(int work) const {
    return facts_.program.work[static_cast<std::size_t>(work)].instruction.microbatch;
  }
  std::string place(int chunk) const {
    const Chunk& it = facts_.program.chunks[static_cast<std::size_t>(chunk)];
    return concat("stage ", it.stage, " (replica ", it.replica, " on device ",
                  facts_.name_of(it.device), ")");
  }

  void none_twice(int chunk, Op op) {
    const auto works = facts_.works(chunk, op);
    for (std::size_t i = 1; i < works.size(); ++i) {
      if (microbatch(works[i]) == microbatch(works[i - 1])) {
        verdict_.found(concat(name(works[i]), " is done twice"), facts_, works[i]);
      }
    }
  }

  // What passes forward comes back whole (B) or in two halves (I and W); nothing comes back that
  // did not pass forward.
  void each_backward(int chunk) {
    if (!facts_.program.trains) return no_backward(chunk);
    const auto forwards = facts_.works(chunk, Op::forward);
    for (const int forward : forwards) judge_backward(chunk, forward);
    for (const Op op : {Op::backward, Op::backward_input, Op::backward_weight, Op::recompute}) {
      for (const int work : facts_.works(chunk, op)) {
        if (facts_.works(chunk, Op::forward, microbatch(work)).empty()) {
          verdict_.found(concat(name(work), " has no forward"), facts_, work);
        }
      }
    }
  }

  void judge_backward(int chunk, int forward) {
    const int k = microbatch(forward);
    const bool whole = !facts_.works(chunk, Op::backward, k).empty();
    const bool input = !facts_.works(chunk, Op::backward_input, k).empty();
    const bool weight = !facts_.works(chunk, Op::backward_weight, k).empty();
    const auto found = [&](std::string_view what) {
      verdict_.found(concat("microbatch ", k, " passes forward through ", place(chunk), " ", what),
                     facts_, forward);
    };
    if (whole && (input || weight)) {
      found("and backward twice: as a whole (B) and in parts (I, W)");
    } else if (!whole && !input && !weight) {
      found("but never backward");
    } else if (!whole && !weight) {
      found("but its weight gradient (W) is never computed");
    } else if (!whole && !input) {
      found("but its input gradient (I) is never computed");
    }
  }

  void no_backward(int chunk) {
    for (const Op op : {Op::backward, Op::backward_input, Op::backward_weight, Op::recompute}) {
      for (const int work : facts_.works(chunk, op)) {
        verdict_.found(name(work) + " goes back, but the program does not train", facts_, work);
      }
    }
  }

  // Each batch is applied once, and nothing else is.
  void each_update(int chunk) {
    const Chunk& it = facts_.program.chunks[static_cast<std::size_t>(chunk)];
    const int interval = facts_.update_interval(it.stage), updates = facts_.updates(it.stage);
    for (int update = 0; update < updates; ++update) {
      const int last = (update + 1) * interval - 1;
      const auto works = facts_.works(chunk, Op::update, last);
      if (works.size() == (it.passes_on ? 0U : 1U)) continue;
      const std::string batch = updates == 1 ? "" : concat(" after microbatch ", last);
      if (works.empty()) {
        verdict_.found(concat("the weights of ", place(chunk), " are never updated", batch),
                       it.device, {Op::update, it.stage, last});
      } else {
        const std::string_view what =
            it.passes_on ? ", which only passes on, are updated " : " are updated ";
        verdict_.found(
            concat("the weights of ", place(chunk), what, count(works.size(), "time"), batch),
            facts_, works.back());
      }
    }
    for (const int work : facts_.works(chunk, Op::update)) {
      if (facts_.program.trains && microbatch(work) % interval == interval - 1) continue;
      verdict_.found(name(work) + " stands where no update is due", facts_, work);
    }
  }

  /// The chunk's microbatches in each update of its stage.
  std::vector<int> parts(int chunk) const {
    const int stage = facts_.program.chunks[static_cast<std::size_t>(chunk)].stage;
    std::vector<int> parts(static_cast<std::size_t>(facts_.updates(stage)), 0);
    for (const int forward : facts_.works(chunk, Op::forward)) {
      ++parts[static_cast<std::size_t>(facts_.update_of(forward))];
    }
    return parts;
  }

  void each_part(int chunk) {
    if (facts_.program.weights == WeightPolicy::flush) return;
    const Chunk& it = facts_.program.chunks[static_cast<std::size_t>(chunk)];
    const int first = facts_.chunks_of_stage[static_cast<std::size_t>(it.stage)].front();
    const std::vector<int> own = parts(chunk), others = parts(first);
    const auto [differs, other] = std::ranges::mismatch(own, others);
    if (differs == own.end()) return;
    const int update = static_cast<int>(differs - own.begin());
    const int last = (update + 1) * facts_.update_interval(it.stage) - 1;
    verdict_.found(concat("the update of ", place(chunk), " after microbatch ", last, " sums ",
                          *differs, " of its own microbatches, and ", *other, " of ", place(first)),
                   it.device, {Op::update, it.stage, last});
  }

  void partition(int stage) {
    std::vector<Piece> pieces;
    for (const int chunk : facts_.chunks_of_stage[static_cast<std::size_t>(stage)]) {
      const IndexRange rows = facts_.program.chunks[static_cast<std::size_t>(chunk)].rows;
      for (const int work : facts_.works(chunk, Op::forward)) {
        // A repetition was reported already.
        if (!pieces.empty() && pieces.back().rows == rows &&
            pieces.back().microbatch == microbatch(work) &&
            facts_.program.work[static_cast<std::size_t>(pieces.back().work)].chunk == chunk) {
          continue;
        }
        pieces.push_back({microbatch(work), rows, work});
      }
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return std::tie(a.microbatch, a.rows.first, a.rows.end, a.work) <
             std::tie(b.microbatch, b.rows.first, b.rows.end, b.work);
    });
    auto piece = pieces.begin();
    for (int k = 0; k < facts_.program.microbatches; ++k) {
      const auto first = piece;
      while (piece != pieces.end() && piece->microbatch == k) ++piece;
      partition(stage, k, {first, piece});
    }
  }

  void partition(int stage, int k, std::span<const Piece> pieces) {
    int covered = facts_.rows.first;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].rows.first > covered) return missing(stage, k, {covered, pieces[i].rows.first});
      if (pieces[i].rows.first < covered) {
        const IndexRange both{pieces[i].rows.first, std::min(covered, pieces[i].rows.end)};
        return verdict_.found(
            concat(rows_text(both), " of microbatch ", k, " pass stage ", stage, " twice: in ",
                   name(pieces[i - 1].work), " and in ", name(pieces[i].work)),
            facts_, pieces[i].work);
      }
      covered = pieces[i].rows.end;
    }
    if (covered < facts_.rows.end) missing(stage, k, {covered, facts_.rows.end});
  }

  void missing(int stage, int k, IndexRange rows) {
    const auto& chunks = facts_.chunks_of_stage[static_cast<std::size_t>(stage)];
    const int device =
        chunks.empty() ? 0 : facts_.program.chunks[static_cast<std::size_t>(chunks.front())].device;
    const std::string what = rows == facts_.rows
                                 ? concat("microbatch ", k, " never passes")
                                 : concat(rows_text(rows), " of microbatch ", k, " never pass");
    verdict_.found(concat(what, " forward through stage ", stage), device, {Op::forward, stage, k});
  }

  const Facts& facts_;
  Verdict verdict_{"conservation"};
};

}  // namespace

Verdict conservation(const Facts& facts) {
  return Conservation(facts).run();
}

}  // namespace stagecraft::checks
