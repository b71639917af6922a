// The order of DualPipe (DeepSeek-V3 technical report, 2024) and DualPipeV, after the released
// code. Two directions pass a device: "in" starts at the outer end, "out" comes from the turn. With
// n devices on the way to the turn, r of them further out, and M microbatches each way, the device
// does
//
//   2(n - r - 1) times        F(in)
//   r + 1 times               F(in) F(out)
//   n - r - 1 times           I(out) W(out) F(out)
//   M - 2n + r + 1 times      F(in)+B(out) F(out)+B(in)      + for a fused pair; at the turn the
//   n - r - 1 times           B(out) F(out)+B(in)              first one is not fused
//   r + 1 times               B(out) B(in)                   the later half of them are I, with …
//   n - r - 1 times           W I(in)                        … W deferred until here, first come
//   r + 1 times               W                              first served
//
// Direction "in" is DualPipe's own pipe in the first half of the devices, and DualPipeV's way down.

#include "simulator/schedules/overlapped.hpp"

#include <array>
#include <cstddef>

namespace stagecraft {

namespace {

enum Direction : std::size_t { in, out };

class Device {
 public:
  explicit Device(const OverlappedPlace& place)
      : place_(place), beyond_(place.length - place.place - 1) {}

  OverlappedOrder order() {
    start();
    overlap();
    drain();
    return std::move(order_);
  }

 private:
  void start() {
    for (int i = 0; i < 2 * beyond_; ++i) forward(in);
    for (int i = 0; i <= place_.place; ++i) {
      forward(in);
      forward(out);
    }
    for (int i = 0; i < beyond_; ++i) {
      backward_input(out);
      weight();
      forward(out);
    }
  }

  void overlap() {
    const int pairs = place_.microbatches - 2 * place_.length + place_.place + 1;
    for (int i = 0; i < pairs; ++i) {
      if (i > 0 || beyond_ > 0) mark_fused();
      forward(in);
      backward(out);
      forward_and_backward(out, in);
    }
    for (int i = 0; i < beyond_; ++i) {
      backward(out);
      forward_and_backward(out, in);
    }
  }

  void drain() {
    const int last = place_.place + 1;
    bool split = false;
    for (int i = 0; i < last; ++i) {
      const bool half = i == last / 2;
      split = split || (half && place_.place % 2 == 1);
      split ? backward_input(out) : backward(out);
      split = split || half;
      split ? backward_input(in) : backward(in);
    }
    for (int i = 0; i < beyond_; ++i) {
      weight();
      backward_input(in);
    }
    for (int i = 0; i < last; ++i) weight();
  }

  int stage(Direction direction) const { return direction == in ? place_.inward : place_.outward; }
  void add(Op op, Direction direction, int microbatch) {
    order_.instructions.push_back({op, stage(direction), microbatch});
  }

  void forward(Direction direction) { add(Op::forward, direction, forwards_[direction]++); }
  void backward(Direction direction) { add(Op::backward, direction, backwards_[direction]++); }
  void backward_input(Direction direction) {
    const int microbatch = backwards_[direction]++;
    add(Op::backward_input, direction, microbatch);
    deferred_.push_back({Op::backward_weight, stage(direction), microbatch});
  }
  /// The oldest one that was put off.
  void weight() { order_.instructions.push_back(deferred_[next_weight_++]); }

  void mark_fused() { order_.fused.push_back(static_cast<int>(order_.instructions.size())); }
  void forward_and_backward(Direction one, Direction other) {
    mark_fused();
    forward(one);
    backward(other);
  }

  OverlappedPlace place_;
  int beyond_;  ///< devices between this one and the turn
  std::array<int, 2> forwards_{};
  std::array<int, 2> backwards_{};
  std::vector<Instruction> deferred_;
  std::size_t next_weight_ = 0;
  OverlappedOrder order_;
};

}  // namespace

OverlappedOrder overlapped_order(const OverlappedPlace& place) {
  return Device(place).order();
}

}  // namespace stagecraft
