// The stand-in's inside: devices with memory, streams with queues, events and graphs. One lock
// guards it all; work is carried out under it, by whoever waits.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "tests/cuda/stand_in/streams.hpp"

namespace stagecraft::stand_in {

struct Stream;

/// What an event was last recorded for.
struct Record {
  Stream* stream = nullptr;
  bool beside_work = false;  ///< the stream was asked for more than to record events
  bool is_done = false;
  double time = 0;  ///< nanoseconds of the machine's clock
};

struct Event {
  int device = 0;
  bool has_time = true;
  std::shared_ptr<Record> latest;
};

struct Operation {
  std::string call;
  std::function<void()> work;
  double nanoseconds = 0;
  std::shared_ptr<Record> needs;    ///< to be done before
  std::shared_ptr<Record> records;  ///< done by it
};

struct Graph {
  std::vector<Operation> operations;
};

struct Stream {
  int device = 0;
  int multiprocessors = 0;
  std::deque<Operation> queue;
  double time = 0;          ///< when its last operation was over
  bool has_worked = false;  ///< was asked for more than to record events
  std::unique_ptr<Graph> recorded;
  std::string spoilt_by;  ///< a call that may not be recorded
};

struct Block {
  std::size_t bytes = 0;
  int device = 0;
  bool is_ready = false;  ///< its allocation has been carried out
  bool is_free = false;
  bool is_pinned = false;  ///< the process's
  bool is_pooled = false;
  bool has_broken_fence = false;  ///< written behind its end, and complained of
};

class State {
 public:
  explicit State(const Machine& machine);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const Machine machine;
  std::recursive_mutex mutex;
  Counts counts;
  std::vector<Launch> launches;
  std::vector<std::string> complaints;

  std::map<Stream*, std::unique_ptr<Stream>> streams;
  std::set<Event*> events;
  /// Who may look at whose memory: at what cudaMalloc gave, and at what came from a pool.
  std::set<std::pair<int, int>> peers, pool_peers;

  // Memory: addresses are never used twice.
  std::map<std::uintptr_t, Block> blocks;
  void* allocate(std::size_t bytes, const Block& like);
  /// The block that an address lies in, or at the end of; null: none of ours.
  Block* find(const void* address, std::uintptr_t* begin = nullptr);
  void release(void* address);
  /// Complains if something was written between a block's end and its neighbour.
  void look_behind(std::uintptr_t begin, Block& block);
  void look_behind_all();

  /// Carries out what the stream is asked for by now; or up to this record.
  void carry_out(Stream& stream);
  void carry_out(const Record& record);
  /// A step on any stream, for whoever only asks whether something is done.
  void nudge();

  Stream* running = nullptr;  ///< whose work is being carried out
  std::string running_call;

 private:
  bool can_go_on(const Stream& stream) const;
  void carry_out_first(Stream& stream);
  void let_others_go_first(const Stream& stream);
  void wait_until(Stream& stream, const std::function<bool()>& is_done);

  std::mt19937 generator_;
  void* region_ = nullptr;
  std::size_t used_ = 0;
};

State& state();
/// The calling thread's.
int& current_device();
/// Null, and a complaint, if it is none of the machine's.
Stream* find_stream(cudaStream_t stream, std::string_view call);
Event* find_event(cudaEvent_t event, std::string_view call);

/// Nanoseconds since the machine was set up.
double host_time();

/// Puts it on the stream, or into the graph that the stream records. True if all is well.
bool put(Stream& stream, Operation operation);
/// Complains if the stream records: the call cannot be part of a graph.
bool refuse_while_recording(Stream* stream, std::string_view call);
/// Whether the calling thread records on any stream.
int& recordings_of_thread();

}  // namespace stagecraft::stand_in
