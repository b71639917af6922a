// The functions of CUDA's runtime that the backend calls: streams, events and graphs.

#include "tests/cuda/stand_in/machine.hpp"

using namespace stagecraft;
using namespace stagecraft::stand_in;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

/// A recorded graph that can be launched: of one device.
struct Executable {
  Graph graph;
};

std::set<Graph*>& graphs() {
  static std::set<Graph*> all;
  return all;
}

std::set<Executable*>& executables() {
  static std::set<Executable*> all;
  return all;
}

}  // namespace

extern "C" {

// --- Streams -------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  const Lock lock(state().mutex);
  if (flags != cudaStreamNonBlocking) {
    complain("cudaStreamCreateWithFlags", "makes a stream that waits for the default stream");
  }
  auto stream = std::make_unique<Stream>();
  stream->device = current_device();
  stream->multiprocessors = state().machine.multiprocessors;
  Stream* own = stream.get();
  state().streams.emplace(own, std::move(stream));
  *made = reinterpret_cast<cudaStream_t>(own);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaStreamDestroy");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  state().carry_out(*stream);
  state().streams.erase(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaStreamSynchronize");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (refuse_while_recording(stream, "cudaStreamSynchronize")) {
    return cudaErrorStreamCaptureUnsupported;
  }
  ++state().counts.host_waits;
  state().carry_out(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Lock lock(state().mutex);
  const Stream* stream = find_stream(handle, "cudaStreamQuery");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->queue.empty()) return cudaSuccess;
  state().nudge();
  return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaStreamWaitEvent");
  const Event* event = find_event(event_handle, "cudaStreamWaitEvent");
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  // Nothing that happens outside can be part of a graph.
  if (refuse_while_recording(stream, "cudaStreamWaitEvent")) return cudaErrorStreamCaptureIsolation;
  if (event->latest == nullptr) {
    complain("cudaStreamWaitEvent", "waits for an event that was never recorded");
    return cudaSuccess;
  }
  put(*stream,
      {.call = "cudaStreamWaitEvent", .work = {}, .needs = event->latest, .records = nullptr});
  return cudaSuccess;
}

// --- Events --------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  const Lock lock(state().mutex);
  auto* event = new Event{.device = current_device(),
                          .has_time = (flags & cudaEventDisableTiming) == 0,
                          .latest = nullptr};
  state().events.insert(event);
  *made = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* made) {
  return cudaEventCreateWithFlags(made, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const Lock lock(state().mutex);
  Event* event = find_event(handle, "cudaEventDestroy");
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  state().events.erase(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaEventRecord");
  Event* event = find_event(event_handle, "cudaEventRecord");
  if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->device != stream->device) {
    complain("cudaEventRecord", "records an event of another device than the stream's");
    return cudaErrorInvalidResourceHandle;
  }
  if (refuse_while_recording(stream, "cudaEventRecord")) return cudaErrorStreamCaptureUnsupported;
  event->latest = std::make_shared<Record>();
  event->latest->stream = stream;
  event->latest->beside_work = stream->has_worked;
  put(*stream, {.call = "cudaEventRecord", .work = {}, .needs = nullptr, .records = event->latest});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const Lock lock(state().mutex);
  const Event* event = find_event(handle, "cudaEventSynchronize");
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  const bool for_time = event->has_time && event->latest && !event->latest->beside_work;
  ++(for_time ? state().counts.clock_readings : state().counts.host_waits);
  if (event->latest && !event->latest->is_done) state().carry_out(*event->latest);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const Lock lock(state().mutex);
  const Event* event = find_event(handle, "cudaEventQuery");
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->latest == nullptr || event->latest->is_done) return cudaSuccess;
  state().nudge();
  return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Lock lock(state().mutex);
  const Event* first = find_event(from, "cudaEventElapsedTime");
  const Event* last = find_event(to, "cudaEventElapsedTime");
  if (first == nullptr || last == nullptr) return cudaErrorInvalidResourceHandle;
  if (first->device != last->device || !first->has_time || !last->has_time) {
    complain("cudaEventElapsedTime", "compares events of two devices, or without times");
    return cudaErrorInvalidResourceHandle;
  }
  if (!first->latest || !last->latest || !first->latest->is_done || !last->latest->is_done) {
    return cudaErrorNotReady;
  }
  *milliseconds = static_cast<float>((last->latest->time - first->latest->time) / 1e6);
  return cudaSuccess;
}

// --- Graphs --------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaStreamBeginCapture");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->recorded) {
    complain("cudaStreamBeginCapture", "on a stream that records already");
    return cudaErrorIllegalState;
  }
  stream->recorded = std::make_unique<Graph>();
  stream->spoilt_by.clear();
  ++recordings_of_thread();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
  const Lock lock(state().mutex);
  *made = nullptr;
  Stream* stream = find_stream(handle, "cudaStreamEndCapture");
  if (stream == nullptr || !stream->recorded) return cudaErrorIllegalState;
  --recordings_of_thread();
  const std::unique_ptr<Graph> graph = std::move(stream->recorded);
  if (!stream->spoilt_by.empty()) return cudaErrorStreamCaptureInvalidated;
  auto* kept = new Graph(std::move(*graph));
  graphs().insert(kept);
  ++state().counts.graphs;
  *made = reinterpret_cast<cudaGraph_t>(kept);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t handle, unsigned long long) {
  const Lock lock(state().mutex);
  auto* graph = reinterpret_cast<Graph*>(handle);
  if (!graphs().contains(graph)) {
    complain("cudaGraphInstantiate", "of a graph that is destroyed");
    return cudaErrorInvalidValue;
  }
  auto* executable = new Executable{*graph};
  executables().insert(executable);
  *made = reinterpret_cast<cudaGraphExec_t>(executable);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const Lock lock(state().mutex);
  auto* executable = reinterpret_cast<Executable*>(handle);
  Stream* stream = find_stream(stream_handle, "cudaGraphLaunch");
  if (stream == nullptr || !executables().contains(executable)) {
    complain("cudaGraphLaunch", "of a graph that is destroyed");
    return cudaErrorInvalidResourceHandle;
  }
  ++state().counts.graph_launches;
  for (const Operation& operation : executable->graph.operations) put(*stream, operation);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  const Lock lock(state().mutex);
  auto* graph = reinterpret_cast<Graph*>(handle);
  if (graphs().erase(graph) == 0) return cudaErrorInvalidValue;
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  const Lock lock(state().mutex);
  auto* executable = reinterpret_cast<Executable*>(handle);
  if (executables().erase(executable) == 0) return cudaErrorInvalidValue;
  delete executable;
  return cudaSuccess;
}

}  // extern "C"
