#include "executor/backends/cuda/events.hpp"

#include <cmath>
#include <map>

#include "executor/backends/cuda/check.hpp"

namespace stagecraft::cuda {

namespace {

using namespace std::chrono_literals;

/// So long an anchor is good for: a float of milliseconds then tells 8 ns apart.
constexpr Duration longest_distance = 100ms;

/// Clocks that are closer than this, beyond what measuring them takes, need not be set.
constexpr Duration clocks_agree = 50us;

Duration distance(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "take the time on the GPU");
  return Duration(std::llround(static_cast<double>(milliseconds) * 1e6));
}

class EventSignal final : public Signal {
 public:
  explicit EventSignal(std::shared_ptr<Event> event) : event_(std::move(event)) {}
  void wait() const override { event_->wait(); }
  cudaEvent_t event() const { return event_->get(); }

 private:
  std::shared_ptr<Event> event_;
};

}  // namespace

// --- One event -----------------------------------------------------------------------------------

Event::Event(std::shared_ptr<Events> events, cudaEvent_t event, bool with_time)
    : events_(std::move(events)), event_(event), with_time_(with_time) {}

Event::~Event() {
  const std::lock_guard lock(events_->mutex_);
  events_->free_[with_time_ ? 1 : 0].push_back(event_);
}

bool Event::is_done() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check(status, "do what the GPU was asked for");
  return true;
}

void Event::wait() const {
  if (!is_done()) check(cudaEventSynchronize(event_), "do what the GPU was asked for");
}

// --- All of a GPU --------------------------------------------------------------------------------

class Events::MomentOfEvent final : public LateSource<Moment> {
 public:
  MomentOfEvent(std::shared_ptr<Event> event, SharedAnchor anchor)
      : event_(std::move(event)), anchor_(std::move(anchor)) {}

  Moment get() const override {
    event_->wait();
    return anchor_->moment + distance(anchor_->event, event_->get());
  }

 private:
  std::shared_ptr<Event> event_;
  SharedAnchor anchor_;
};

std::shared_ptr<Events> Events::of_device(int device) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Events>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Events> events = all[device].lock();
  if (!events) {
    events = std::make_shared<Events>(device);
    all[device] = events;
  }
  return events;
}

Events::Events(int device) : device_(device) {
  check(cudaSetDevice(device), "use the GPU");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
}

Events::~Events() {
  (void)cudaSetDevice(device_);
  for (const auto& events : free_) {
    for (cudaEvent_t event : events) (void)cudaEventDestroy(event);
  }
  (void)cudaStreamDestroy(stream_);
}

std::shared_ptr<Event> Events::record(cudaStream_t stream, bool with_time) {
  check(cudaSetDevice(device_), "use the GPU");
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto& free = free_[with_time ? 1 : 0];
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
    }
  }
  if (event == nullptr) {
    check(cudaEventCreateWithFlags(&event, with_time ? cudaEventDefault : cudaEventDisableTiming),
          "make an event");
  }
  auto owned = std::make_shared<Event>(shared_from_this(), event, with_time);
  check(cudaEventRecord(event, stream), "record an event");
  return owned;
}

SharedSignal Events::signal(cudaStream_t stream) {
  return std::make_shared<EventSignal>(record(stream, false));
}

bool Events::await(cudaStream_t stream, const Signal& signal) {
  const auto* event = dynamic_cast<const EventSignal*>(&signal);
  if (event == nullptr) return false;
  check(cudaStreamWaitEvent(stream, event->event(), 0), "wait for an event");
  return true;
}

Late<Moment> Events::moment(cudaStream_t stream, SharedAnchor anchor) {
  return Late<Moment>(std::make_shared<MomentOfEvent>(record(stream, true), std::move(anchor)));
}

Events::SharedAnchor Events::anchor() {
  const std::lock_guard lock(mutex_);
  if (anchor_ && now() - anchor_->moment < longest_distance) return anchor_;
  anchor_ = make_anchor();
  return anchor_;
}

/// The best of three: an event that was recorded and awaited happened in between. It is placed by
/// the GPU's own clock from the one before, unless the process's contradicts: so ranks with
/// different anchors agree.
Events::SharedAnchor Events::make_anchor() const {
  check(cudaSetDevice(device_), "use the GPU");
  std::shared_ptr<Anchor> best;
  Duration least = Duration::max();
  for (int i = 0; i < 3; ++i) {
    auto anchor = std::make_shared<Anchor>();
    check(cudaEventCreate(&anchor->event), "make an event");
    const Moment before = now();
    check(cudaEventRecord(anchor->event, stream_), "record an event");
    check(cudaEventSynchronize(anchor->event), "take the time on the GPU");
    const Duration taken = now() - before;
    if (taken >= least) continue;
    least = taken;
    anchor->moment = before + taken / 2;
    best = std::move(anchor);
  }
  if (!anchor_) return best;
  const Moment by_gpu = anchor_->moment + distance(anchor_->event, best->event);
  if (std::chrono::abs(by_gpu - best->moment) <= least / 2 + clocks_agree) best->moment = by_gpu;
  return best;
}

}  // namespace stagecraft::cuda
