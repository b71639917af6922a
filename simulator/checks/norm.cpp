// Norm: what each update knows of the gradients of others, and what is validated later.
//
//   global          the squares of all gradients
//   post-validated  those of its own device, and of nested sets of devices: of any two updates one
//                   knows all that the other knows. Some know all; from them a validation reaches
//                   the others before anything goes backward in the next iteration
//
// The squares are those of the layers, once; where the optimizer is sharded, of each shard.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

/// Whose squares are known: by stage, or by chunk where each has its shard.
using Squares = std::vector<bool>;

void join(Squares& squares, const Squares& more) {
  for (std::size_t i = 0; i < more.size(); ++i) squares[i] = squares[i] || more[i];
}

bool includes(const Squares& squares, const Squares& fewer) {
  for (std::size_t i = 0; i < fewer.size(); ++i) {
    if (fewer[i] && !squares[i]) return false;
  }
  return true;
}

class Norm {
 public:
  Norm(const Facts& facts, const HappensBefore& before)
      : facts_(facts),
        program_(facts.program),
        before_(before),
        shards_(program_.sharding != Sharding::none),
        nothing_(shards_ ? program_.chunks.size() : index(facts.stages_per_pipe), false),
        heard_(facts.meetings.size()),
        validated_(facts.meetings.size(), 0),
        chunks_(index(program_.devices)),
        news_(index(program_.devices)),
        validations_(index(program_.devices)),
        knows_all_(index(program_.devices), 1) {
    for (std::size_t chunk = 0; chunk < program_.chunks.size(); ++chunk) {
      chunks_[index(program_.chunks[chunk].device)].push_back(static_cast<int>(chunk));
      if (program_.chunks[chunk].passes_on) nothing_[unit_of(static_cast<int>(chunk))] = true;
    }
  }

  Verdict run() {
    for (const int work : before_.started()) hear(work);
    if (program_.norm == GradientNorm::post_validated) {
      judge_nesting();
      for (const int work : before_.started()) validate(work);
      for (const int work : before_.started()) judge_validation(work);
    }
    if (updates_ > 0) verdict_.proved(sentence());
    return verdict_;
  }

 private:
  struct Update {
    int work = 0;
    Squares known;
  };

  const Work& work_at(int work) const { return program_.work[index(work)]; }
  Op op_of(int work) const { return work_at(work).instruction.op; }
  std::string name(int work) const { return facts_.describe(work); }
  std::size_t unit_of(int chunk) const {
    return shards_ ? index(chunk)
                   : index(program_.chunks[index(chunk)].stage % facts_.stages_per_pipe);
  }
  std::string unit_text(std::size_t unit) const {
    if (!shards_) return concat("stage ", unit);
    const Chunk& chunk = program_.chunks[unit];
    return concat("the shard of stage ", chunk.stage, " on device ", facts_.name_of(chunk.device));
  }

  /// All gradients of this chunk are computed and summed when the work starts.
  bool is_complete(int chunk, int work) const {
    for (const Op op : {Op::backward, Op::backward_weight, Op::reduce_gradient, Op::reduce_scatter,
                        Op::reduce_tied}) {
      for (const int earlier : facts_.works(chunk, op)) {
        if (!before_.ended(earlier, work)) return false;
      }
    }
    return true;
  }

  Squares own(int work) const {
    Squares squares = nothing_;
    for (const int chunk : chunks_[index(facts_.device_of(work))]) {
      if (is_complete(chunk, work)) squares[unit_of(chunk)] = true;
    }
    return squares;
  }

  Squares known_at(int work) const {
    Squares squares = own(work);
    for (const int news : news_[index(facts_.device_of(work))]) {
      if (before_.ended(news, work)) join(squares, heard_[index(facts_.meeting_of[index(news)])]);
    }
    return squares;
  }

  void hear(int work) {
    const Op op = op_of(work);
    if (is_about_norm(op) && program_.norm == GradientNorm::none) {
      return verdict_.found(name(work) + " is about a norm that nothing waits for", facts_, work);
    }
    if (program_.norm == GradientNorm::none) return;
    if (op == Op::update) return judge_update(work);
    const int meeting = facts_.meeting_of[index(work)];
    if (!is_about_norm(op) || meeting == none) return;
    if (op == Op::send_norm || op == Op::reduce_norm) {
      Squares& heard = heard_[index(meeting)];
      if (heard.empty()) heard = nothing_;
      join(heard, known_at(work));
    }
    if (op == Op::receive_norm || op == Op::reduce_norm) {
      news_[index(facts_.device_of(work))].push_back(work);
    }
  }

  void judge_update(int work) {
    ++updates_;
    const int device = facts_.device_of(work);
    Update update{work, known_at(work)};
    const auto missing = std::find(update.known.begin(), update.known.end(), false);
    if (missing != update.known.end()) knows_all_[index(device)] = 0;
    if (program_.norm == GradientNorm::global) {
      if (missing == update.known.end()) return;
      return report(work, static_cast<std::size_t>(missing - update.known.begin()));
    }
    for (const int chunk : chunks_[index(device)]) {
      if (!update.known[unit_of(chunk)]) return report(work, unit_of(chunk));
    }
    nested_.push_back(std::move(update));
  }

  void report(int work, std::size_t unit) {
    verdict_.found(concat(name(work), " may start before the squares of the gradients of ",
                          unit_text(unit), " are known to its device"),
                   facts_, work);
  }

  void judge_nesting() {
    const auto size = [](const Update& update) {
      return std::count(update.known.begin(), update.known.end(), true);
    };
    std::stable_sort(nested_.begin(), nested_.end(),
                     [&](const Update& a, const Update& b) { return size(a) < size(b); });
    for (std::size_t i = 1; i < nested_.size(); ++i) {
      if (includes(nested_[i].known, nested_[i - 1].known)) continue;
      verdict_.found(concat(name(nested_[i - 1].work), " and ", name(nested_[i].work),
                            " update by different parts of the norm: neither knows all that the ",
                            "other one knows"),
                     facts_, nested_[i].work);
    }
    if (nested_.empty()) return;
    const Squares& most = nested_.back().known;
    const auto missing = std::find(most.begin(), most.end(), false);
    if (missing == most.end()) return;
    verdict_.found(concat("no device ever knows the whole norm: ", name(nested_.back().work),
                          " knows most, but not ",
                          unit_text(static_cast<std::size_t>(missing - most.begin()))),
                   facts_, nested_.back().work);
  }

  /// Who sends a validation has known all in the iteration before, or was told.
  void validate(int work) {
    const int meeting = facts_.meeting_of[index(work)];
    if (meeting == none) return;
    const int device = facts_.device_of(work);
    if (op_of(work) == Op::receive_validation) validations_[index(device)].push_back(work);
    if (op_of(work) != Op::send_validation) return;
    const bool whole = knows_all_[index(device)] != 0 && follows_iteration(work);
    validated_[index(meeting)] = whole || is_validated(work) ? 1 : 0;
  }

  /// All updates of the iteration before have ended when this starts: some compute is before it in
  /// this one, or it waits for the last update.
  bool follows_iteration(int work) const {
    const auto& compute = facts_.lane(facts_.device_of(work), Lane::compute);
    if (compute.empty()) return false;
    return before_.ended(compute.front(), work) ||
           std::find(program_.carried.begin(), program_.carried.end(),
                     CarriedWait{work, compute.back()}) != program_.carried.end();
  }

  bool is_validated(int work) const {
    const auto& validations = validations_[index(facts_.device_of(work))];
    return std::any_of(validations.begin(), validations.end(), [&](int it) {
      return before_.ended(it, work) && validated_[index(facts_.meeting_of[index(it)])] != 0;
    });
  }

  void judge_validation(int work) {
    if (!is_backward(op_of(work)) && op_of(work) != Op::update) return;
    if (knows_all_[index(facts_.device_of(work))] != 0 || is_validated(work)) return;
    verdict_.found(name(work) + " may start before the update of the step before is validated",
                   facts_, work);
  }

  std::string sentence() const {
    if (program_.norm == GradientNorm::global) {
      return count(updates_, "update") + " after the norm of all gradients is known";
    }
    return count(updates_, "update") +
           " by the norm of the devices so far, validated before the next step goes backward";
  }

  const Facts& facts_;
  const Program& program_;
  const HappensBefore& before_;
  bool shards_;
  Squares nothing_;              // but what is zero for want of weights
  std::vector<Squares> heard_;   // by meeting
  std::vector<char> validated_;  // by meeting
  std::vector<std::vector<int>> chunks_, news_, validations_;  // by device
  std::vector<char> knows_all_;                                // by device: each of its updates
  std::vector<Update> nested_;
  std::size_t updates_ = 0;
  Verdict verdict_{"norm"};
};

}  // namespace

Verdict norm(const Facts& facts, const HappensBefore& before) {
  return Norm(facts, before).run();
}

}  // namespace stagecraft::checks
