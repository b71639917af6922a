// From stage to stage: messages between devices, plain waits within one.
//
// Replicas of neighbouring stages may differ in number. Under `split` every pair of replicas that
// share rows has a channel that carries just these rows; with 2 replicas before 3, and 6 rows:
//
//   stage s      [0    1    2 | 3    4    5]
//   stage s + 1  [0    1 | 2    3 | 4    5]       channels: rows 0-2, 2-3, 3-4, 4-6
//
// so a forward may wait for several receives. Under `round_robin` whole microbatches go to
// whoever's turn it is.
//
// Copies of the model have nothing to do with each other here. The pieces of a sequence meet at
// every stage, in order on the way forward and in reverse on the way back. Where outputs are fed
// back, the message of microbatch k from the last stage to the first is what the forward of
// microbatch k + feedback waits for.

#include <algorithm>

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

/// boundary × rows / all, without overflow.
Bytes share(Bytes boundary, int rows, int all) {
  return boundary / all * rows + boundary % all * rows / all;
}

IndexRange common_rows(const Chunk& a, const Chunk& b) {
  return {std::max(a.rows.first, b.rows.first), std::min(a.rows.end, b.rows.end)};
}

/// When the two replicas of neighbouring stages work on the same samples, if ever.
std::vector<int> meetings(const Draft& draft, int one, int other) {
  const Chunk& a = draft.program.chunks[index(one)];
  const Chunk& b = draft.program.chunks[index(other)];
  if (common_rows(a, b).size() <= 0) return {};
  return common_microbatches(draft, a, b);
}

int add_channel(Draft& draft, int from, int to, Cargo cargo) {
  const bool gradient = cargo == Cargo::gradient;
  const Chunk& sender = draft.program.chunks[index(from)];
  const Chunk& receiver = draft.program.chunks[index(to)];
  const int boundary_stage = gradient ? receiver.stage : sender.stage;
  const IndexRange rows = common_rows(sender, receiver);
  const Bytes boundary =
      draft.options.boundary.empty() ? 0 : draft.options.boundary[index(boundary_stage)];
  draft.program.channels.push_back({.from = from,
                                    .to = to,
                                    .cargo = cargo,
                                    .rows = rows,
                                    .bytes = share(boundary, rows.size(), draft.options.rows)});
  return static_cast<int>(draft.program.channels.size()) - 1;
}

/// Whatever begins the backward of a microbatch waits for this.
void give_gradient(Draft& draft, const Passage& receiver, int on) {
  if (receiver.coupled) add_wait(draft, *receiver.recompute, on);
  add_wait(draft, *receiver.backward, on);
}

int add_message(Draft& draft, int channel, int microbatch, int producer) {
  return add_message(draft, channel, microbatch, std::span(&producer, 1));
}

void add_messages(Draft& draft, int channel_index, const std::vector<int>& microbatches) {
  const Channel channel = draft.program.channels[index(channel_index)];
  for (const int m : microbatches) {
    const Passage& source = passage(draft, channel.from, m);
    const Passage& target = passage(draft, channel.to, m);
    if (channel.cargo == Cargo::gradient) {
      give_gradient(draft, target, add_message(draft, channel_index, m, *source.backward));
    } else {
      add_wait(draft, *target.forward, add_message(draft, channel_index, m, *source.forward));
    }
  }
}

void connect_devices(Draft& draft, int stage) {
  for (const Cargo cargo : {Cargo::activation, Cargo::gradient}) {
    if (cargo == Cargo::gradient && !draft.program.trains) break;
    for (const int before : draft.chunks_of_stage[index(stage)]) {
      for (const int after : draft.chunks_of_stage[index(stage + 1)]) {
        const std::vector<int> microbatches = meetings(draft, before, after);
        if (microbatches.empty()) continue;
        const bool back = cargo == Cargo::gradient;
        add_messages(draft, add_channel(draft, back ? after : before, back ? before : after, cargo),
                     microbatches);
      }
    }
  }
}

/// Both stages have the same replicas on the same devices: each hands on to its own counterpart.
void connect_locally(Draft& draft, int stage) {
  const std::vector<int>& before = draft.chunks_of_stage[index(stage)];
  const std::vector<int>& after = draft.chunks_of_stage[index(stage + 1)];
  for (std::size_t replica = 0; replica < before.size(); ++replica) {
    for (int m = 0; m < draft.program.microbatches; ++m) {
      if (!takes_part(draft, draft.program.chunks[index(before[replica])], m)) continue;
      const Passage& earlier = passage(draft, before[replica], m);
      const Passage& later = passage(draft, after[replica], m);
      add_wait(draft, *later.forward, *earlier.forward);
      if (later.backward) give_gradient(draft, earlier, *later.backward);
    }
  }
}

/// F before R before B, I before W. The compute lane keeps this order anyway; waits say it to
/// whoever asks.
void connect_own_work(Draft& draft, const Passage& passage) {
  if (!passage.forward || !passage.backward) return;
  if (passage.recompute) add_wait(draft, *passage.recompute, *passage.forward);
  add_wait(draft, *passage.backward, passage.recompute.value_or(*passage.forward));
  if (passage.weight) add_wait(draft, *passage.weight, *passage.backward);
}

/// Microbatches whose output one chunk hands to the other, as the input of a later pass.
std::vector<int> fed_back(const Draft& draft, const Chunk& from, const Chunk& to) {
  std::vector<int> microbatches;
  const int later = draft.program.feedback;
  for (int m = 0; m + later < draft.program.microbatches; ++m) {
    if (takes_part(draft, from, m) && takes_part(draft, to, m + later)) microbatches.push_back(m);
  }
  return microbatches;
}

void feed_back(Draft& draft, int last, int first) {
  const Chunk from = draft.program.chunks[index(last)];
  const Chunk to = draft.program.chunks[index(first)];
  const bool local = from.device == to.device;
  const std::vector<int> microbatches = fed_back(draft, from, to);
  if (microbatches.empty() || common_rows(from, to).size() <= 0) return;
  const int channel = local ? 0 : add_channel(draft, last, first, Cargo::activation);
  for (const int m : microbatches) {
    const int made = *passage(draft, last, m).forward;
    const int used = *passage(draft, first, m + draft.program.feedback).forward;
    add_wait(draft, used, local ? made : add_message(draft, channel, m, made));
  }
}

/// From the last stage around to the first.
void close_circle(Draft& draft) {
  if (draft.program.feedback == 0) return;
  for (const int last : draft.chunks_of_stage.back()) {
    for (const int first : draft.chunks_of_stage.front()) feed_back(draft, last, first);
  }
}

/// A piece's forward needs the keys and values of the one before it, which needs their gradients.
void connect_pieces(Draft& draft) {
  const Program& program = draft.program;
  for (int chunk = 0; chunk < static_cast<int>(program.chunks.size()); ++chunk) {
    for (int m = 1; m < program.microbatches; ++m) {
      const Passage& here = passage(draft, chunk, m);
      if (m % program.sequence_chunks == 0 || !here.forward) continue;
      const Passage& before = passage(draft, chunk, m - 1);
      add_wait(draft, *here.forward, *before.forward);
      if (here.backward) add_wait(draft, *before.backward, *here.backward);
    }
  }
}

}  // namespace

void add_transfers(Draft& draft) {
  for (const Passage& passage : draft.passages) connect_own_work(draft, passage);
  connect_pieces(draft);
  for (int stage = 0; stage < draft.program.stages; ++stage) {
    if (!hands_on(draft.program, stage)) continue;
    if (same_device(draft.schedule, stage, stage + 1)) {
      connect_locally(draft, stage);
    } else {
      connect_devices(draft, stage);
    }
  }
  close_circle(draft);
}

}  // namespace stagecraft::lowering
