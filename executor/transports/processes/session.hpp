// This process among those of the run, from the first message to the last, and who hears of a
// failure.
//
//   a rank      abort ──reason─→ rank 0 ──verdict─→ all: the first reason that rank 0 heard
//   all others  arrive ────────→ rank 0 ──farewell with its exit code─→ all
//   each        pulse ─────────→ rank 0 ──pulse─→ each, once a second from the meeting to the end
//
// So nobody waits for ever for a process that was stopped, or for one beyond a network that is
// down, whatever it waits for. Behind the farewell there are no more pulses, and the library takes
// leave within a limit.

#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/transports/processes.hpp"
#include "executor/transports/processes/messenger.hpp"

namespace stagecraft::processes {

class Session final : public Processes {
 public:
  /// Meets the other processes.
  explicit Session(MakeCarrier make_carrier);

  int rank() const override { return rank_; }
  int count() const override { return count_; }
  std::string library() const override { return library_; }
  ClockOffset clock() const override { return clock_; }
  std::vector<std::string> gather(std::string said) override;
  std::string broadcast(std::string said) override;
  std::vector<std::unique_ptr<Transport>> make_transports(const Wiring& wiring) override;
  std::string abort(const std::string& reason) override { return abort(*world_, reason); }
  int part(int exit_code) override;

  std::string abort(World& world, const std::string& reason);

 private:
  void start();
  void hear_alarms();
  void decide(int world, const std::string& reason);
  void hear_verdict(int world, const std::string& reason);
  void lose(int rank);
  void lose(int rank, const std::string& reason);
  void keep_pulse();
  void hear_pulse(int from);
  void send_pulse(int to);
  void hear_arrivals();
  void hear_farewell();
  void await_others(int exit_code);
  void bid_farewell(int exit_code);
  void enter_next_world();
  Conversation lobby();
  void finish(int exit_code);
  [[noreturn]] void end_by_force(int exit_code);

  int rank_ = 0;
  int count_ = 1;
  std::string library_;
  ClockOffset clock_;

  std::shared_ptr<World> world_ = std::make_shared<World>(1);
  bool used_ = false;  ///< whether the world has its transport

  // Of the progress thread, by rank; those that neither send to this one nor hear from it say
  // nothing:
  std::vector<Moment> heard_;  ///< the last sign of life
  std::vector<char> pulse_is_under_way_;
  Moment last_look_{0}, next_pulse_{0};
  bool keeps_pulse_ = false;

  // Guarded by `mutex_`:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::string> verdicts_;  ///< by world
  std::set<int> arrived_;                ///< on rank 0: others that are about to part, or lost
  std::set<int> lost_;                   ///< others that have gone, or are silent
  std::optional<int> farewell_;          ///< elsewhere: rank 0's exit code
  std::string last_words_;               ///< the cause, where rank 0 has gone without a farewell

  std::shared_ptr<Messenger> control_messenger_, alarm_messenger_;
  Progress progress_;  ///< last: it uses all the others
};

/// The transport of this process's rank through two spaces of all ranks of the wiring.
std::unique_ptr<Transport> make_transport(const Wiring& wiring,
                                          std::shared_ptr<const Messenger> data,
                                          std::shared_ptr<const Messenger> control,
                                          Session& session, Progress& progress,
                                          std::shared_ptr<World> world);

}  // namespace stagecraft::processes
