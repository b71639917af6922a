// What lives in memory, and from when to when.
//
// For one microbatch of a chunk between two devices, without and with full recomputation:
//
//   work               RF      F      SF      RB      B      SB          RF   F   SF   RB   R   B
//   input              [---------------------------------]               [----------------------]
//   saved                      [-------------------------]                                  [---]
//   output                     [-------]                                      [----]
//   output gradient                           [----------]                              [-------]
//   input gradient                                       [----]                             [- - -
//   workspace                  [-]                       [-]                  [-]           [-][-]
//
// A forward that is recomputed later leaves nothing: what it would have saved is workspace, too.
// With the backward split in two, I takes B's place, the input stays until W has ended, and I
// leaves `saved_for_weight` for W. Where neighbouring stages share a device nothing is sent: the
// producer writes the consumer's input, and the consumer's backward the producer's output gradient.
//
// A life may begin (end) with whichever of several messages is first (last). The program's tables
// name the first (last) one in issue order; the arena respects them all.

#include <algorithm>

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

MemoryCategory category_of(BufferRole role) {
  switch (role) {
    case BufferRole::parameters: return MemoryCategory::parameters;
    case BufferRole::gradients: return MemoryCategory::gradients;
    case BufferRole::optimizer: return MemoryCategory::optimizer;
    case BufferRole::input:
    case BufferRole::saved:
    case BufferRole::saved_for_weight: return MemoryCategory::activations;
    case BufferRole::output:
    case BufferRole::output_gradient:
    case BufferRole::input_gradient: return MemoryCategory::transfer;
    case BufferRole::workspace: return MemoryCategory::workspace;
  }
  return MemoryCategory::workspace;
}

using Works = std::vector<int>;

/// The messages of one chunk and microbatch, each list in issue order.
struct Messages {
  Works send_activation;
  Works receive_activation;
  Works send_gradient;
  Works receive_gradient;
};

class BufferMaker {
 public:
  explicit BufferMaker(Draft& draft) : draft_(draft), messages_(draft.passages.size()) {
    const std::vector<Work>& work = draft.program.work;
    for (std::size_t i = 0; i < work.size(); ++i) note(work[i], static_cast<int>(i));
  }

  void make() {
    const int chunks = static_cast<int>(draft_.program.chunks.size());
    for (int chunk = 0; chunk < chunks; ++chunk) make_resident(chunk);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int m = 0; m < draft_.program.microbatches; ++m) {
        if (passage(draft_, chunk, m).forward) make_microbatch(chunk, m);
      }
    }
  }

 private:
  void note(const Work& work, int i) {
    if (!work.channel) return;
    Messages& messages = messages_of(work.chunk, work.instruction.microbatch);
    if (work.instruction.op == Op::send_activation) messages.send_activation.push_back(i);
    if (work.instruction.op == Op::receive_activation) messages.receive_activation.push_back(i);
    if (work.instruction.op == Op::send_gradient) messages.send_gradient.push_back(i);
    if (work.instruction.op == Op::receive_gradient) messages.receive_gradient.push_back(i);
  }

  Messages& messages_of(int chunk, int microbatch) {
    return messages_[index(chunk) * index(draft_.program.microbatches) + index(microbatch)];
  }

  const ChunkMemory& memory_of(int chunk) const {
    const Chunk& place = draft_.program.chunks[index(chunk)];
    return draft_.options.memory[index(place.stage)][index(place.replica)];
  }

  /// The chunk `distance` stages on, if it is on the same device.
  std::optional<int> local_chunk(int chunk, int distance) const {
    const Chunk& place = draft_.program.chunks[index(chunk)];
    const int stage = place.stage + distance;
    if (stage < 0 || stage >= draft_.program.stages) return {};
    if (!same_device(draft_.schedule, place.stage, stage)) return {};
    return draft_.chunks_of_stage[index(stage)][index(place.replica)];
  }

  int add(BufferRole role, int chunk, int microbatch, Bytes bytes) {
    draft_.program.buffers.push_back({.device = draft_.program.chunks[index(chunk)].device,
                                      .category = category_of(role),
                                      .bytes = bytes,
                                      .offset = 0,
                                      .role = role,
                                      .chunk = chunk,
                                      .microbatch = microbatch});
    return static_cast<int>(draft_.program.buffers.size()) - 1;
  }

  void make_resident(int chunk) {
    const ChunkMemory& memory = memory_of(chunk);
    const auto keep = [&](BufferRole role, Bytes bytes) {
      if (bytes > 0) draft_.program.resident.push_back(add(role, chunk, 0, bytes));
    };
    keep(BufferRole::parameters, memory.parameters);
    keep(BufferRole::gradients, memory.gradients);
    keep(BufferRole::optimizer, memory.optimizer);
  }

  void make_microbatch(int chunk, int microbatch) {
    const ChunkMemory& memory = memory_of(chunk);
    const Passage& here = passage(draft_, chunk, microbatch);
    const Messages& messages = messages_of(chunk, microbatch);
    const int forward = *here.forward;
    const int backward = *here.backward;
    const auto live = [&](BufferRole role, Bytes bytes, const Works& from, const Works& until) {
      if (bytes == 0 || from.empty() || until.empty()) return;
      const int buffer = add(role, chunk, microbatch, bytes);
      for (const int work : from) draft_.begins.push_back({buffer, work});
      for (const int work : until) draft_.ends.push_back({buffer, work});
    };

    live(BufferRole::input, memory.input, input_arrives(chunk, microbatch),
         {here.weight.value_or(backward)});
    if (here.recompute) live(BufferRole::workspace, memory.saved, {forward}, {forward});
    live(BufferRole::saved, memory.saved, {here.recompute.value_or(forward)}, {backward});
    if (here.weight) {
      live(BufferRole::saved_for_weight, memory.saved_for_weight, {backward}, {*here.weight});
    }
    live(BufferRole::output, memory.output, {forward}, messages.send_activation);
    live(BufferRole::output_gradient, memory.output, gradient_arrives(chunk, microbatch),
         {backward});
    live(BufferRole::input_gradient, memory.input, {backward}, messages.send_gradient);
    for (const std::optional<int>& work :
         {here.forward, here.recompute, here.backward, here.weight}) {
      if (work) live(BufferRole::workspace, memory.workspace, {*work}, {*work});
    }
  }

  /// What writes the input: receives, the stage before on this device, or (stage 0) the forward,
  /// from the data set.
  Works input_arrives(int chunk, int microbatch) {
    if (const auto before = local_chunk(chunk, -1)) {
      return {*passage(draft_, *before, microbatch).forward};
    }
    const Works& receives = messages_of(chunk, microbatch).receive_activation;
    if (receives.empty()) return {*passage(draft_, chunk, microbatch).forward};
    return receives;
  }

  /// What writes the gradient of the output; nothing does at the last stage.
  Works gradient_arrives(int chunk, int microbatch) {
    if (const auto after = local_chunk(chunk, 1)) {
      return {*passage(draft_, *after, microbatch).backward};
    }
    return messages_of(chunk, microbatch).receive_gradient;
  }

  Draft& draft_;
  std::vector<Messages> messages_;  ///< parallel to Draft::passages
};

/// For each work its buffers as a range of one flat table; `range` says which member holds the
/// range.
std::vector<int> write_table(std::vector<Work>& work, const std::vector<KeyedValue>& rows,
                             IndexRange Work::*range) {
  Grouped grouped = group_by_key(rows, work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (grouped.ranges[i].size() > 0) work[i].*range = grouped.ranges[i];
  }
  return std::move(grouped.values);
}

/// (work, buffer) for every buffer: `pick` chooses among the works at one end of its life.
template <class Pick>
std::vector<KeyedValue> by_work(const std::vector<KeyedValue>& lives, std::size_t buffers,
                                Pick pick) {
  std::vector<std::optional<int>> chosen(buffers);
  for (const auto& [buffer, work] : lives) {
    std::optional<int>& best = chosen[index(buffer)];
    best = best ? pick(*best, work) : work;
  }
  std::vector<KeyedValue> rows;
  for (std::size_t buffer = 0; buffer < buffers; ++buffer) {
    if (chosen[buffer]) rows.push_back({*chosen[buffer], static_cast<int>(buffer)});
  }
  return rows;
}

}  // namespace

void add_buffers(Draft& draft) {
  if (draft.options.memory.empty()) return;
  BufferMaker(draft).make();
  Program& program = draft.program;
  const std::size_t buffers = program.buffers.size();
  const auto first = [](int a, int b) { return std::min(a, b); };
  const auto last = [](int a, int b) { return std::max(a, b); };
  program.allocations =
      write_table(program.work, by_work(draft.begins, buffers, first), &Work::allocates);
  program.releases = write_table(program.work, by_work(draft.ends, buffers, last), &Work::frees);
}

}  // namespace stagecraft::lowering
