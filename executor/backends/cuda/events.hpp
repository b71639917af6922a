// Events: signals between streams, and moments of the device on the process's clock.

#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "executor/values/late.hpp"

namespace stagecraft::cuda {

/// An event of one GPU, taken from those that are not in use.
class Event;

/// The events of one GPU, and when they happened. Shared by the ranks that share the GPU, so that
/// their times fit together; any thread may use it.
class Events : public std::enable_shared_from_this<Events> {
 public:
  static std::shared_ptr<Events> of_device(int device);

  explicit Events(int device);
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  ~Events();

  /// Behind what the stream, of this GPU, has been asked for.
  SharedSignal signal(cudaStream_t stream);
  /// Makes the stream, of any GPU, wait for a signal; false if the signal is no event.
  static bool await(cudaStream_t stream, const Signal& signal);

  /// The same moment on both clocks.
  struct Anchor {
    Anchor() = default;
    Anchor(const Anchor&) = delete;
    Anchor& operator=(const Anchor&) = delete;
    ~Anchor() { (void)cudaEventDestroy(event); }
    cudaEvent_t event = nullptr;
    Moment moment{0};
  };
  using SharedAnchor = std::shared_ptr<const Anchor>;

  /// When the stream has done what it was asked for by now, counted from this anchor. Moments that
  /// are compared to the nanosecond have the same one.
  Late<Moment> moment(cudaStream_t stream, SharedAnchor anchor);
  /// The newest; makes one if the last was long ago, for times become coarser with the distance
  /// (they are floats of milliseconds).
  SharedAnchor anchor();

  std::shared_ptr<Event> record(cudaStream_t stream, bool with_time);

 private:
  friend class Event;
  class MomentOfEvent;

  SharedAnchor make_anchor() const;

  int device_;
  cudaStream_t stream_ = nullptr;  ///< of the anchors
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_[2];  ///< without times, and with
  SharedAnchor anchor_;
};

class Event {
 public:
  Event(std::shared_ptr<Events> events, cudaEvent_t event, bool with_time);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  cudaEvent_t get() const { return event_; }
  bool is_done() const;
  /// Waits for it, unless it is done.
  void wait() const;

 private:
  std::shared_ptr<Events> events_;
  cudaEvent_t event_;
  bool with_time_;
};

}  // namespace stagecraft::cuda
