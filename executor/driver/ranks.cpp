#include "executor/driver/ranks.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// The first failure, of any process; later ones are its consequences.
class FirstFailure {
 public:
  /// `own`: what a rank of this process failed with; `first`: what the first of all did.
  void set(std::string first, const std::string& own, ErrorKind kind) {
    const std::lock_guard lock(mutex_);
    if (first == own) kind_ = kind;
    sentence_ = std::move(first);
  }
  void rethrow() const {
    if (sentence_) throw Error(kind_, *sentence_);
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> sentence_;
  ErrorKind kind_ = ErrorKind::execution;
};

/// The exception being handled, in words.
std::string current_reason() {
  try {
    throw;
  } catch (const Error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no std::exception was thrown";
  }
}

/// What a rank read may be wrong; whatever else it meets, it failed to carry out.
ErrorKind current_kind() {
  try {
    throw;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::input ? ErrorKind::input : ErrorKind::execution;
  } catch (...) {
    return ErrorKind::execution;
  }
}

/// What is given back is asked for: it keeps its place.
bool hands_over_early(Op op) {
  return is_send(op) && op != Op::give_back;
}

class Run {
 public:
  Run(std::span<const std::unique_ptr<Transport>> transports, int steps, const RankDuty& duty)
      : transports_(transports), steps_(steps), duty_(duty) {}

  void run() {
    {
      std::vector<std::jthread> threads;
      for (const auto& transport : transports_) {
        threads.emplace_back([this, &transport] { guarded(*transport); });
      }
    }
    failure_.rethrow();
  }

 private:
  void guarded(Transport& transport) {
    try {
      live(transport);
    } catch (...) {
      const std::string reason = current_reason();
      const std::string sentence = concat(duty_.describe_failure(transport.rank()), ": ", reason);
      const std::string first = transport.abort(sentence);
      if (first == sentence) duty_.on_first_failure(transport.rank(), sentence);
      failure_.set(first, sentence, current_kind());
    }
  }

  void live(Transport& transport) {
    duty_.prepare(transport.rank());
    bool goes_on = steps_ > 0;
    for (int step = 0; goes_on; ++step) {
      transport.barrier();
      duty_.step(transport.rank(), step);
      goes_on = agree(transport, step);
      if (duty_.settle) duty_.settle(transport.rank(), step, goes_on);
    }
    duty_.finish(transport.rank());
  }

  /// Rank 0 hears what all have to say, and says whether there is another step.
  bool agree(Transport& transport, int step) {
    const std::vector<std::string> reports = transport.gather(duty_.report(transport.rank(), step));
    const bool goes_on =
        transport.rank() == 0 && duty_.after_step(step, reports) && step + 1 < steps_;
    return !transport.broadcast(goes_on ? "on" : "").empty();
  }

  std::span<const std::unique_ptr<Transport>> transports_;
  int steps_;
  const RankDuty& duty_;
  FirstFailure failure_;
};

}  // namespace

void run_ranks(std::span<const std::unique_ptr<Transport>> transports, int steps,
               const RankDuty& duty) {
  Run(transports, steps, duty).run();
}

std::vector<int> order_of_device(const Program& program, int device) {
  const std::vector<int>& issued = program.order[index(device)];
  std::map<int, std::size_t> place;  // in `issued`
  std::vector<std::vector<int>> sends_behind(issued.size());
  std::size_t latest = 0;  // sends keep their order
  for (std::size_t i = 0; i < issued.size(); ++i) {
    const Work& work = program.work[index(issued[i])];
    place[issued[i]] = i;
    if (!hands_over_early(work.instruction.op)) continue;
    for (int w = work.waits.first; w < work.waits.end; ++w) {
      const auto found = place.find(program.waits[index(w)]);
      if (found != place.end()) latest = std::max(latest, found->second);
    }
    sends_behind[latest].push_back(issued[i]);
  }
  std::vector<int> order;
  for (std::size_t i = 0; i < issued.size(); ++i) {
    const Op op = program.work[index(issued[i])].instruction.op;
    if (!hands_over_early(op)) order.push_back(issued[i]);
    order.insert(order.end(), sends_behind[i].begin(), sends_behind[i].end());
  }
  return order;
}

std::string name_of_rank(const Program& program, const RankMap& ranks, int rank,
                         std::optional<int> chunk) {
  const std::string peer =
      ranks.degree_of(rank) > 1 ? concat(", tensor-parallel peer ", ranks.peer_of(rank)) : "";
  std::vector<std::string> places;
  for (std::size_t i = 0; i < program.chunks.size(); ++i) {
    const Chunk& place = program.chunks[i];
    if (place.device != ranks.device_of(rank) || (chunk && index(*chunk) != i)) continue;
    places.push_back(concat("stage ", place.stage, ", replica ", place.replica, peer));
  }
  return concat("rank ", rank, " (", join_words(places), ")");
}

std::string describe_rank_failure(const Program& program, const RankMap& ranks, int rank,
                                  std::optional<int> work) {
  if (!work)
    return concat(name_of_rank(program, ranks, rank, {}), " failed outside of its program");
  const Work& item = program.work[index(*work)];
  return concat(name_of_rank(program, ranks, rank, item.chunk), " failed during ",
                to_string(item.instruction));
}

}  // namespace stagecraft
