// A stand-in for CUDA, on the CPU: what the CUDA backend's unchanged sources are linked with, so
// that they really compute where there is no GPU.
//
// It does what CUDA may do at its worst. Work that a stream is asked for waits in a queue until
// somebody waits for it, and which stream goes first is drawn: so an event too few, or a look at
// memory too early, gives numbers that are wrong. Memory is full of what is no number before its
// first use and behind its last. What CUDA forbids is written down, with the call that did it:
//
//   cudaMemcpyAsync, cudaLaunch…  ─→ queue of the stream ─→ …     cudaStreamSynchronize: now
//   cudaStreamBeginCapture        ─→ the same calls go into a graph, cudaGraphLaunch queues it
//
// This header is the seam for whoever puts something on a stream: launches of kernels
// (launches.hpp), libraries.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::stand_in {

/// In which order queues are carried out when somebody waits for one of them.
enum class Order {
  last_moment,   ///< nothing that need not be
  others_first,  ///< everything else that can be, first
  drawn,         ///< in turns, by the seed
};

struct Machine {
  int devices = 1;
  Order order = Order::last_moment;
  unsigned seed = 1;
  bool peer_access = true;  ///< devices may look into each other's memory
  int multiprocessors = 132;
  int granularity = 8;  ///< of partitions of multiprocessors
  bool memory_pools = true;
  std::string forbidden = "";  ///< this call fails while a graph is recorded
};

/// A new machine: nothing is queued, nothing allocated, nothing counted. Nobody may use the old one
/// any more.
void set_up(const Machine& machine);

/// What has been misused since, a sentence each: "cudaMemcpyAsync: …". None if all is well.
std::vector<std::string> complaints();
void complain(std::string_view call, std::string_view what);

/// How often since the machine was set up.
struct Counts {
  long host_waits = 0;      ///< the process waited for a stream, or an event
  long clock_readings = 0;  ///< for an event of a stream that has nothing else to do: not a wait
  long launches = 0;        ///< kernels and library calls asked for one by one
  long graphs = 0;          ///< recorded
  long graph_launches = 0;
  long peer_copies = 0;  ///< between devices
};
Counts counts();

/// A kernel that has been carried out.
struct Launch {
  std::string_view kernel;  ///< such as "each_element<Add<float> >"
  dim3 grid;
  int threads = 0;  ///< of a block
};
/// All of them since the machine was set up, in their order; those of graphs each time.
std::vector<Launch> launches();

/// What a piece of work takes on the machine's own clock, which event times are read from.
struct Cost {
  double nanoseconds = 1000;
};

/// Behind what the stream was asked for before; becomes part of the graph that the stream records,
/// if it does. `call` names it in complaints. The calling thread's device must be the stream's.
void enqueue(cudaStream_t stream, std::string_view call, std::function<void()> work,
             Cost cost = {});

/// To be called from work: complains unless the calling work's device may use all of this memory
/// now. Memory of the process is none of it.
void require_usable(const void* data, std::size_t bytes);
/// The same for every address among these bytes, such as a kernel's arguments.
void require_addresses(const void* arguments, std::size_t bytes);

/// Multiprocessors that the stream may use: those of its partition, or all.
int multiprocessors_of(cudaStream_t stream);
int device_of(cudaStream_t stream);
/// Whether the stream records a graph.
bool records(cudaStream_t stream);

}  // namespace stagecraft::stand_in
