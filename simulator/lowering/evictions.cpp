// What a schedule evicts: EV here and TI with the partner, then GB there and LD here.
//
//   device x            F2 │ F3 ───── │ B0 ── F4 …          schedule: F2 EV1 F3 EV2 LD1 B0 F4
//     EV, LD               EV1   EV2 ─ LD1
//   device p - 1 - x       TI1   TI2 ─ GB1
//
// The transfers of a device go one after the other, in the schedule's order. An evict begins as
// soon as its data exists; the forwards behind it in the schedule wait until it has ended, as they
// take its place. A load takes the place of an evict or a backward before it, so it waits for the
// transfer and for the compute before it. The partner gives back when it is asked: its GB waits for
// what the LD waits for. So neither device ever holds more than its schedule says, at any costs.

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

/// One replica of a device that evicts, walked along the schedule's order.
class Evictor {
 public:
  Evictor(Draft& draft, int pipeline_device, int replica)
      : draft_(draft), replica_(replica), partner_(partner_chunk(pipeline_device)) {}

  void take(const Instruction& instruction) {
    const int chunk = chunk_of(instruction.stage);
    if (!takes_part(draft_, draft_.program.chunks[index(chunk)], instruction.microbatch)) return;
    const Passage& here = passage(draft_, chunk, instruction.microbatch);
    switch (instruction.op) {
      case Op::evict: return evict(chunk, instruction.microbatch);
      case Op::load: return load(chunk, instruction.microbatch);
      case Op::forward:
        compute_ = here.forward;
        if (evict_) add_wait(draft_, *compute_, *evict_);
        return evict_.reset();
      case Op::backward_weight: compute_ = here.weight; return;
      default: compute_ = here.backward; return;
    }
  }

 private:
  int chunk_of(int stage) const { return draft_.chunks_of_stage[index(stage)][index(replica_)]; }

  /// The partner's copies belong to its first stage.
  int partner_chunk(int pipeline_device) const {
    const auto& homes = draft_.schedule.device_of_stage;
    const auto home =
        std::find(homes.begin(), homes.end(), partner_of(draft_.schedule, pipeline_device));
    return chunk_of(static_cast<int>(home - homes.begin()));
  }

  int add_channel(int from, int to, int lender) {
    const Chunk& place = draft_.program.chunks[index(lender)];
    const auto& memory = draft_.options.memory;
    const Bytes bytes = memory.empty() ? 0 : memory[index(place.stage)][index(place.replica)].saved;
    draft_.program.channels.push_back(
        {.from = from, .to = to, .cargo = Cargo::evicted, .rows = place.rows, .bytes = bytes});
    return static_cast<int>(draft_.program.channels.size()) - 1;
  }

  /// A message between the partners that starts after these; returns its receive.
  int move(Op send_op, Op receive_op, int channel, int microbatch,
           const std::vector<std::optional<int>>& after) {
    const Channel& way = draft_.program.channels[index(channel)];
    const int from = way.from, to = way.to;
    const auto stage = [&](int chunk) { return draft_.program.chunks[index(chunk)].stage; };
    const int send = add_work(draft_, {send_op, stage(from), microbatch}, from);
    const int receive = add_work(draft_, {receive_op, stage(to), microbatch}, to);
    draft_.program.work[index(send)].channel = channel;
    draft_.program.work[index(receive)].channel = channel;
    add_wait(draft_, receive, send);
    for (const std::optional<int>& work : after) {
      if (work) add_wait(draft_, send, *work);
    }
    return receive;
  }

  void evict(int chunk, int microbatch) {
    if (!out_.contains(chunk)) out_[chunk] = add_channel(chunk, partner_, chunk);
    const std::optional<int>& forward = passage(draft_, chunk, microbatch).forward;
    const int arrival = move(Op::evict, Op::take_in, out_[chunk], microbatch, {forward, transfer_});
    taken_in_[{chunk, microbatch}] = arrival;
    transfer_ = evict_ = arrival - 1;
  }

  void load(int chunk, int microbatch) {
    if (!back_.contains(chunk)) back_[chunk] = add_channel(partner_, chunk, chunk);
    const int load = move(Op::give_back, Op::load, back_[chunk], microbatch,
                          {taken_in_.at({chunk, microbatch}), transfer_, compute_});
    for (const std::optional<int>& work : {transfer_, compute_}) add_wait(draft_, load, *work);
    add_wait(draft_, *passage(draft_, chunk, microbatch).backward, load);
    transfer_ = load;
  }

  Draft& draft_;
  const int replica_;
  const int partner_;
  std::map<int, int> out_;                       ///< channel to the partner, by chunk
  std::map<int, int> back_;                      ///< and from there
  std::map<std::pair<int, int>, int> taken_in_;  ///< TI of chunk and microbatch
  std::optional<int> compute_;                   ///< the latest of the device
  std::optional<int> transfer_;
  std::optional<int> evict_;  ///< that the next forward waits for
};

}  // namespace

void add_evictions(Draft& draft) {
  for (std::size_t device = 0; device < draft.schedule.devices.size(); ++device) {
    const std::vector<Instruction>& order = draft.schedule.devices[device];
    const bool evicts = std::any_of(order.begin(), order.end(),
                                    [](const Instruction& it) { return it.op == Op::evict; });
    if (!evicts) continue;
    const std::size_t replicas = draft.chunks_of_stage[index(order.front().stage)].size();
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      Evictor evictor(draft, static_cast<int>(device), static_cast<int>(replica));
      for (const Instruction& instruction : order) evictor.take(instruction);
    }
  }
}

}  // namespace stagecraft::lowering
