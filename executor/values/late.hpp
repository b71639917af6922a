// A number that a device may still be computing, and a place in a device's work: what ranks hand
// each other so that nobody waits before somebody really wants to know.

#pragma once

#include <memory>
#include <vector>

#include "profiles/units.hpp"

namespace stagecraft {

/// A moment of the machine's steady clock: nanoseconds since its epoch. Only differences mean
/// something.
using Moment = Duration;
Moment now();

/// Where a late number comes from.
template <class T>
class LateSource {
 public:
  virtual ~LateSource() = default;
  /// Waits for it. Throws Error (execution) if the device has failed.
  virtual T get() const = 0;
};

template <class T>
class Late {
 public:
  Late(T value = {}) : value_(value) {}
  explicit Late(std::shared_ptr<const LateSource<T>> source) : source_(std::move(source)) {}

  /// Waits, unless it is there.
  T get() const { return source_ ? source_->get() : value_; }
  operator T() const { return get(); }
  /// False of one that has to be asked for.
  bool is_there() const { return source_ == nullptr; }

 private:
  T value_{};
  std::shared_ptr<const LateSource<T>> source_;
};

/// Added up in their order.
Late<double> sum_of(std::vector<Late<double>> numbers);

/// A place in a backend's work, behind everything that it was asked for by then.
class Signal {
 public:
  virtual ~Signal() = default;
  /// Returns when that is done.
  virtual void wait() const = 0;
};
/// Null: it is done.
using SharedSignal = std::shared_ptr<const Signal>;

}  // namespace stagecraft
