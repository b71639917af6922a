// The one thread of a process that talks to others.
//
// Open MPI moves messages only while somebody is inside it, and its blocking calls poll. So one
// thread issues everything, tests what is under way, and naps in between; the rank computes
// meanwhile, and waits on condition variables. One thread and a queue rather than
// MPI_THREAD_MULTIPLE: no call of the rank ever waits for a lock that somebody polls under, and an
// abort finds nobody inside MPI. Sockets are used alike.
//
//   rank        send ─┐  compute … │ wait (condition variable) ↑ there
//   this thread       └→ send, test, nap, test ────────────────┘

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/transports/processes/carrier.hpp"

namespace stagecraft::processes {

/// How often to look: a thread that has a core to itself never naps.
enum class Pace { polls, naps, dozes };

class Progress {
 public:
  using Task = std::function<void()>;
  /// How many bytes were sent or came.
  using Done = std::function<void(std::size_t bytes)>;

  /// The first things the thread does are to make its carrier and to `start`. What a task throws
  /// first, or a message fails with, goes to `failed`; who is lost, to `lost`. `round` is called in
  /// every round.
  Progress(MakeCarrier make_carrier, const Task& start,
           std::function<void(const std::string&)> failed, std::function<void(int rank)> lost,
           Task round);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Any thread: runs the task soon, in order.
  void soon(Task task);
  /// Any other thread: runs the task and waits for it. Throws what it throws.
  void now(const Task& task);
  void set_pace(Pace pace);
  /// Ends the thread; `last` is the last thing it does.
  void end(const Task& last);

  /// On the thread only.
  Carrier& carrier() { return *carrier_; }
  /// On the thread only: `done` is called when the message is complete, and may start others.
  void watch(long number, Done done) { done_.emplace(number, std::move(done)); }
  /// On the thread only: a receive that nothing will come for any more.
  void cancel(long number);

 private:
  void work();
  bool run_tasks();
  bool test();
  void rest();
  void fail(const std::string& why);

  std::function<void(const std::string&)> failed_;
  std::function<void(int rank)> lost_;
  Task round_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  Pace pace_ = Pace::naps;
  bool ended_ = false;

  // Of the thread itself:
  std::unique_ptr<Carrier> carrier_;
  std::map<long, Done> done_;  ///< by the number of the message
  std::chrono::microseconds nap_{0};

  std::thread thread_;
};

}  // namespace stagecraft::processes
