#include "executor/driver/driver.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "executor/driver/ranks.hpp"
#include "executor/flight/observed_transport.hpp"
#include "executor/flight/watchdog.hpp"
#include "executor/training/finite_checks.hpp"
#include "executor/training/training.hpp"
#include "executor/values/packing.hpp"
#include "executor/weights/durable_file.hpp"
#include "executor/weights/gathered_weights.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

using namespace std::chrono_literals;

// --- What a rank reports of a step
// --------------------------------------------------------------

/// Moments as rank 0's clock has them.
Stamp as_rank_0_says(Stamp stamp, const Transport& transport) {
  const Duration ahead = transport.clock().ahead;
  return {.start = stamp.start - ahead, .end = stamp.end - ahead};
}

/// `stop`: the signal by which the rank was asked to stop; 0: it was not.
std::string packed_report(Stamp whole, int stop, std::span<const ChunkLoss> losses) {
  Packer packer;
  packer.put(whole);
  packer.put(stop);
  for (const ChunkLoss& loss : losses) packer.put(loss);
  return packer.take();
}

Stamp unpack_report(std::string_view report, int& stop, std::vector<ChunkLoss>& losses) {
  Unpacker unpacker(report);
  const Stamp whole = unpacker.get<Stamp>();
  stop = unpacker.get<int>();
  while (!unpacker.done()) losses.push_back(unpacker.get<ChunkLoss>());
  return whole;
}

/// Microbatch by microbatch, replica by replica, in this order: the same sum for every schedule.
double sum_of(std::vector<ChunkLoss> losses) {
  std::ranges::sort(losses);
  double sum = 0;
  for (const ChunkLoss& loss : losses) sum += loss.loss;
  return sum;
}

// --- What it has at the end
// ---------------------------------------------------------------------

/// A rank's own stamps, with their places in the program's table. Peers do the same: the first
/// one's stand for all.
std::string packed_stamps(const Program& program, const RankMap& ranks, const Transport& transport,
                          const StepRecord& record) {
  const int rank = transport.rank();
  Packer packer;
  packer.put(as_rank_0_says(record.ranks[index(rank)], transport));
  if (ranks.peer_of(rank) != 0) return packer.take();
  for (const int i : program.order[index(ranks.device_of(rank))]) {
    packer.put(i);
    packer.put(as_rank_0_says(record.work[index(i)], transport));
  }
  return packer.take();
}

StepRecord unpack_stamps(const Program& program, std::span<const std::string> of_ranks) {
  StepRecord record{.work = std::vector<Stamp>(program.work.size()), .ranks = {}};
  for (const std::string& packed : of_ranks) {
    Unpacker unpacker(packed);
    record.ranks.push_back(unpacker.get<Stamp>());
    while (!unpacker.done()) {
      const int i = unpacker.get<int>();
      record.work[index(i)] = unpacker.get<Stamp>();
    }
  }
  return record;
}

// --- The run
// --------------------------------------------------------------------------------------

/// Flight records and backends outlive the transports, whose queues may still hold their memory
/// after a failure.
class Conductor {
 public:
  Conductor(const Compiled& compiled, const RankMap& ranks, std::int64_t tokens_per_step,
            const RunOptions& options, const Machinery& machinery, const MakeWorker& make_worker,
            const Settle& settle)
      : program_(compiled.program),
        ranks_(ranks),
        tokens_per_step_(tokens_per_step),
        options_(options),
        make_worker_(make_worker),
        settle_(settle),
        limits_(limits_of(compiled, options.oversight)),
        recording_(program_, ranks.ranks(), options.steps),
        flights_(index(ranks.ranks())),
        backends_(index(ranks.ranks())),
        workers_(index(ranks.ranks())),
        handed_(index(ranks.ranks())),
        writes_checkpoint_(index(ranks.ranks())),
        transports_(machinery.make_transports(ranks.wiring())),
        of_rank_(index(ranks.ranks())) {
    for (auto& transport : transports_) {
      const int rank = transport->rank();
      backends_[index(rank)] = machinery.make_backend(rank);
      flights_[index(rank)] =
          std::make_unique<FlightRecord>(options.oversight, program_, ranks, rank);
      transport = observe(std::move(transport), ranks.wiring(), flight(rank));
      of_rank_[index(rank)] = transport.get();
      if (ranks.peer_of(rank) != 0) {
        of_peers_.emplace(rank, RunRecording(program_, ranks.ranks(), 1));
      }
    }
  }

  RunResult run() {
    const Watchdog watchdog(watched(), limits_, options_.oversight);
    run_ranks(transports_, options_.steps,
              {.prepare =
                   [this](int rank) {
                     workers_[index(rank)] =
                         make_worker_(*backends_[index(rank)], *of_rank_[index(rank)]);
                     worker(rank).report_to(flight(rank));
                   },
               .step = [this](int rank, int i) { step(rank, i); },
               .report = [this](int rank, int step) { return report(rank, step); },
               .after_step = [this](int step, auto reports) { return after_step(step, reports); },
               .settle = [this](int rank, int step, bool goes_on) { settle(rank, step, goes_on); },
               .finish = [this](int rank) { finish(rank); },
               .describe_failure = [this](int rank) { return describe_failure(rank); },
               .on_first_failure =
                   [this](int rank, const std::string& sentence) {
                     flight(rank).fail(flight(rank).blamed(), sentence);
                   }});
    return std::move(result_);
  }

 private:
  Worker& worker(int rank) { return *workers_[index(rank)]; }
  FlightRecord& flight(int rank) const { return *flights_[index(rank)]; }

  std::vector<WatchedRank> watched() const {
    std::vector<WatchedRank> ranks;
    for (const auto& transport : transports_) {
      ranks.push_back({.flight = &flight(transport->rank()), .transport = transport.get()});
    }
    return ranks;
  }

  void step(int rank, int step) {
    flight(rank).begin_step(steps_before(options_) + step);
    try {
      worker(rank).step(step, record(rank, step));
    } catch (const NotFinite&) {
      flight(rank).blame(Cause::not_finite);
      throw;
    }
    flight(rank).begin(Doing::between);
  }

  /// Peers do the same work; what the first one's clock says of it is kept.
  StepRecord& record(int rank, int step) {
    return (ranks_.peer_of(rank) == 0 ? recording_ : of_peers_.at(rank)).step(step);
  }

  std::string report(int rank, int step) {
    const Stamp whole = record(rank, step).ranks[index(rank)];
    return packed_report(as_rank_0_says(whole, *of_rank_[index(rank)]), stop_signal(),
                         worker(rank).losses());
  }

  /// Of this process.
  int stop_signal() const {
    return options_.stop_signal == nullptr ? 0 : options_.stop_signal->load();
  }

  /// Whoever sends a signal to all ranks does so one after the other: rank 0's counts for all.
  void note_stopped(int rank, int signal) {
    for (int i = 0; i < 20 && stop_signal() == 0; ++i) std::this_thread::sleep_for(10ms);
    if (const int own = stop_signal(); own != 0) rank = 0, signal = own;
    result_.stopped = {rank, name_of_rank(program_, ranks_, rank, {}), signal};
  }

  bool after_step(int step, std::span<const std::string> reports) {
    std::vector<ChunkLoss> losses;
    std::vector<Stamp> ranks;
    for (std::size_t i = 0; i < reports.size(); ++i) {
      int stop = 0;
      ranks.push_back(unpack_report(reports[i], stop, losses));
      if (stop != 0 && !result_.stopped) note_stopped(static_cast<int>(i), stop);
    }
    StepReport told{.step = steps_before(options_) + step, .loss = 0, .time = step_time(ranks)};
    result_.step_times.push_back(told.time);
    if (!losses.empty()) {
      told.loss = sum_of(std::move(losses)) / static_cast<double>(tokens_per_step_);
      result_.losses.push_back(told.loss);
    }
    if (options_.on_step) options_.on_step(told);
    if (!options_.stop.stop_requested()) return !result_.stopped;
    // The signal may have come after the ranks reported.
    if (!result_.stopped && stop_signal() != 0) note_stopped(0, stop_signal());
    return false;
  }

  void settle(int rank, int step, bool goes_on) {
    if (!settle_) return;
    flight(rank).begin(Doing::checkpointing);
    writes_checkpoint_[index(rank)] = 1;
    try {
      settle_(*of_rank_[index(rank)], *backends_[index(rank)], worker(rank), step, goes_on);
    } catch (const NotWritten&) {
      flight(rank).blame(Cause::not_written);
      throw;
    }
    writes_checkpoint_[index(rank)] = 0;
    flight(rank).begin(Doing::between);
  }

  /// Rank 0 says which step was typical, which are traced, and whether anybody wants the weights;
  /// every rank hands in its stamps, its highest memory and, if so, its weights.
  void finish(int rank) {
    flight(rank).begin(Doing::finishing);
    hand_in(rank);
    flight(rank).begin(Doing::ended);
  }

  /// The typical one, then those that are traced.
  std::vector<int> steps_to_hand_in() const {
    const int all = static_cast<int>(result_.step_times.size());
    if (all == 0) return {};
    std::vector<int> steps{typical_step(result_.step_times)};
    const int first = std::max(first_kept(all), all - options_.traced_steps);
    for (int step = first; step < all; ++step) steps.push_back(step);
    return steps;
  }

  /// Of a device's peers the most.
  void note_memory(std::span<const std::string> of_ranks) {
    const auto raise = [](Bytes& most, Bytes bytes) { most = std::max(most, bytes); };
    result_.peak_memory.resize(index(program_.devices));
    result_.allocated_memory.resize(index(program_.devices));
    for (std::size_t i = 0; i < of_ranks.size(); ++i) {
      const std::size_t device = index(ranks_.device_of(static_cast<int>(i)));
      Unpacker memory(of_ranks[i]);
      raise(result_.peak_memory[device], memory.get<Bytes>());
      raise(result_.allocated_memory[device], memory.get<Bytes>());
    }
  }

  /// Ranks of rank 0's process leave their tensors here, others say what is in them.
  void hand_in_weights(int rank) {
    std::vector<HandedWeight> weights = hand_over(*backends_[index(rank)], worker(rank).weights());
    const bool is_near = of_rank_.front() != nullptr;
    std::string said = is_near ? std::string() : packed_weights(weights);
    if (is_near) handed_[index(rank)] = std::move(weights);
    const std::vector<std::string> of_ranks = of_rank_[index(rank)]->gather(std::move(said));
    for (std::size_t i = 0; i < of_ranks.size(); ++i) {
      if (!of_ranks[i].empty()) handed_[i] = unpack_weights(of_ranks[i]);
    }
    if (rank != 0) return;
    auto gathered = put_together(program_, ranks_, handed_);
    if (!gathered.empty()) set_parameters(result_, std::move(gathered));
  }

  void hand_in(int rank) {
    Transport& transport = *of_rank_[index(rank)];
    Packer chosen;
    if (rank == 0) {
      chosen.put(options_.gathers_weights);
      chosen.put_list(steps_to_hand_in());
    }
    const std::string heard = transport.broadcast(chosen.take());
    Unpacker asked(heard);
    const bool gathers_weights = asked.get<bool>();
    std::vector<StepRecord> records;
    for (const int step : asked.get_list<int>()) {
      const std::vector<std::string> stamps =
          transport.gather(packed_stamps(program_, ranks_, transport, record(rank, step)));
      if (rank == 0) records.push_back(unpack_stamps(program_, stamps));
    }
    Packer memory;
    memory.put(worker(rank).peak_memory());
    memory.put(worker(rank).allocated_memory());
    const std::vector<std::string> memories = transport.gather(memory.take());
    if (gathers_weights) hand_in_weights(rank);
    if (rank != 0) return;
    if (!records.empty()) {
      result_.timeline = timeline_of(program_, std::span(records).first(1));
      result_.traced = timeline_of(program_, std::span(records).subspan(1));
    }
    note_memory(memories);
  }

  std::string describe_failure(int rank) const {
    const std::string name = name_of_rank(program_, ranks_, rank, {});
    if (!workers_[index(rank)]) return name + " failed before it began";
    if (writes_checkpoint_[index(rank)] != 0) return name + " failed while it wrote a checkpoint";
    return describe_rank_failure(program_, ranks_, rank, flight(rank).current_work());
  }

  const Program& program_;
  const RankMap& ranks_;
  std::int64_t tokens_per_step_;
  const RunOptions& options_;
  const MakeWorker& make_worker_;
  const Settle& settle_;
  Limits limits_;
  RunRecording recording_;
  std::map<int, RunRecording> of_peers_;  ///< by rank: of all but the first, nobody looks at it
  std::vector<std::unique_ptr<FlightRecord>> flights_;  ///< by rank, of those in this process
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::vector<HandedWeight>> handed_;  ///< by rank, for rank 0; each by its own thread
  std::vector<char> writes_checkpoint_;            ///< by rank, each by its own thread
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Transport*> of_rank_;
  RunResult result_;
};

}  // namespace

RunResult conduct(const Compiled& compiled, const RankMap& ranks, std::int64_t tokens_per_step,
                  const RunOptions& options, const Machinery& machinery,
                  const MakeWorker& make_worker, const Settle& settle) {
  return Conductor(compiled, ranks, tokens_per_step, options, machinery, make_worker, settle).run();
}

}  // namespace stagecraft
