// BPipe (Kim et al., ICML 2023): 1F1B whose first devices, which hold the most activations, lend
// some to the last, which hold the fewest. Device x < p/2 and device p - 1 - x are partners; no
// device ever holds more than C = ceil((p + 2) / 2) microbatches, where 1F1B needs p.
//
//   device 0   F0 F1 F2 ↑1 F3 ↑2 ↓1 B0 F4 ↑3 ↓2 B1 F5 B2 ↓3 …      p = 4, C = 3; device 3 keeps
//                                                                   one microbatch of its own and
//   ↑ evict, ↓ load                                                 what device 0 has evicted
//
// Device x with D = p - x > C microbatches in flight fills its C places, then evicts the forward
// before the latest one ahead of each further forward: the transfer runs beside the latest one. In
// the steady round of B(i) and F(i + D) it evicts one and loads the oldest that is away, which is
// needed C - 2 rounds later; in the end it only loads, into the places that backwards leave. So one
// is moved out and one back for each microbatch.
//
// The bound: an evict ends before the forward or the load that takes its place begins, so device x
// holds at most C. Away are at most D - C, and one more from an evict to the load behind it: with
// its own x + 1 microbatches the partner holds at most
//
//   x + 1 + (p - x - C) + 1 = p + 2 - C <= C      for C >= (p + 2) / 2

#include <algorithm>

#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view bpipe_name = "bpipe";

/// Puts evicts and loads into 1F1B's order of one device, which has `places` for microbatches.
class Lender {
 public:
  explicit Lender(int places) : places_(places) {}

  std::vector<Instruction> run(const std::vector<Instruction>& order) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool forward = order[i].op == Op::forward;
      const bool forward_behind = i + 1 < order.size() && order[i + 1].op == Op::forward;
      if (forward && local_ == places_) evict(order[i]);
      if (!forward && away() > 0 && forward_behind) exchange(order[i]);
      extended_.push_back(order[i]);
      local_ += forward ? 1 : -1;
      if (forward) ++forwards_;
      if (!forward && !forward_behind && away() > 0) load(order[i]);
    }
    return std::move(extended_);
  }

 private:
  int away() const { return next_evicted_ - next_loaded_; }

  /// The first to go is the forward before the latest; after it one goes after the other.
  void evict(const Instruction& where) {
    if (away() == 0 && next_evicted_ == 0) next_evicted_ = next_loaded_ = forwards_ - 2;
    extended_.push_back({Op::evict, where.stage, next_evicted_++});
    --local_;
  }

  void load(const Instruction& where) {
    extended_.push_back({Op::load, where.stage, next_loaded_++});
    ++local_;
  }

  void exchange(const Instruction& where) {
    evict(where);
    load(where);
  }

  const int places_;
  int local_ = 0;
  int forwards_ = 0;
  int next_evicted_ = 0;
  int next_loaded_ = 0;
  std::vector<Instruction> extended_;
};

}  // namespace

Schedule bpipe(const ScheduleShape& shape) {
  require_counts(bpipe_name, shape);
  refuse_virtual_stages(bpipe_name, shape);
  refuse_group(bpipe_name, shape);
  refuse_warm_up(bpipe_name, shape);
  refuse_in_flight(bpipe_name, shape);

  Schedule schedule = one_f_one_b(shape);
  schedule.name = bpipe_name;
  const int places = (shape.devices + 3) / 2;
  for (int x = 0; x < shape.devices / 2; ++x) {
    auto& order = schedule.devices[static_cast<std::size_t>(x)];
    order = Lender(places).run(order);
  }
  return schedule;
}

}  // namespace stagecraft
