// The one thread of a process that talks to MPI.
//
// Open MPI moves messages only while somebody is inside it, and its blocking calls poll. So one
// thread issues everything, tests what is under way, and naps in between; the rank computes
// meanwhile, and waits on condition variables. One thread and a queue rather than
// MPI_THREAD_MULTIPLE: no call of the rank ever waits for a lock that somebody polls under, and an
// abort finds nobody inside MPI.
//
//   rank        send ─┐  compute … │ wait (condition variable) ↑ there
//   this thread       └→ MPI_Isend, MPI_Testsome, nap, MPI_Testsome ─┘

#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace stagecraft::mpi {

/// Throws Error (execution) with MPI's own words unless the code is MPI_SUCCESS.
void check(int code, std::string_view doing);

/// How often to look: a thread that has a core to itself never naps.
enum class Pace { polls, naps, dozes };

class Progress {
 public:
  using Task = std::function<void()>;
  /// `code` is MPI_SUCCESS, or why the request failed.
  using Done = std::function<void(const MPI_Status& status, int code)>;

  /// `start` is the first thing the thread does. The first that a task throws later goes to
  /// `failed`.
  Progress(const Task& start, std::function<void(const std::string&)> failed);
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

  /// On the thread only: watches a request; `done` is called when it is complete, and may start
  /// others. Returns a number to cancel it by.
  long watch(MPI_Request request, Done done);
  /// On the thread only: a receive that nothing will come for any more.
  void cancel(long number);

 private:
  void work();
  bool run_tasks();
  bool test();
  void rest();
  void fail(const std::string& why);

  std::function<void(const std::string&)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  Pace pace_ = Pace::naps;
  bool ended_ = false;

  // Of the thread itself:
  std::vector<MPI_Request> requests_;
  std::vector<Done> done_;  ///< parallel
  std::vector<long> numbers_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
  long next_number_ = 0;
  std::chrono::microseconds nap_{0};

  std::thread thread_;
};

}  // namespace stagecraft::mpi
