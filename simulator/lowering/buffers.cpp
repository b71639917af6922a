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
// leaves `saved_for_weight` for W, as does F (or R) `saved_throughout`. Where neighbouring stages
// share a device nothing is sent: the producer writes the consumer's input, and the consumer's
// backward the producer's output gradient.
//
// A stage that only passes on keeps nothing: its input ends with F, which leaves the output, and so
// do the gradients with B.
//
// Pieces of a sequence go forward in order and backward in reverse. What later ones look at, as far
// as it is no part of `saved`, lives from F to R, and its gradient from the last piece's B to its
// own.
//
// What is evicted leaves its device from EV to LD and lives with the partner from TI to GB. Without
// training, input and what is saved end with the forward. Old versions of the weights that updates
// on the way leave behind have room for as many as the chunk ever needs at once.
//
// A life may begin (end) with whichever of several messages is first (last). The program's tables
// name the first (last) one in issue order; the arena respects them all.

#include <algorithm>

#include "profiles/error.hpp"
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
    case BufferRole::saved_throughout:
    case BufferRole::saved_for_weight:
    case BufferRole::past:
    case BufferRole::past_gradients:
    case BufferRole::evicted: return MemoryCategory::activations;
    case BufferRole::output:
    case BufferRole::output_gradient:
    case BufferRole::input_gradient: return MemoryCategory::transfer;
    case BufferRole::workspace: return MemoryCategory::workspace;
  }
  return MemoryCategory::workspace;
}

using Works = std::vector<int>;

Bytes all_of(int copies, Bytes bytes) {
  Bytes product = 0;
  if (__builtin_mul_overflow(Bytes{copies}, bytes, &product)) fail("lower: needs too much memory");
  return product;
}

/// The messages of one chunk and microbatch, each list in issue order.
struct Messages {
  Works send_activation;
  Works receive_activation;
  Works send_gradient;
  Works receive_gradient;
  Works evict;
  Works take_in;
  Works give_back;
  Works load;
};

Works& list_of(Messages& messages, Op op) {
  switch (op) {
    case Op::send_activation: return messages.send_activation;
    case Op::receive_activation: return messages.receive_activation;
    case Op::send_gradient: return messages.send_gradient;
    case Op::evict: return messages.evict;
    case Op::take_in: return messages.take_in;
    case Op::give_back: return messages.give_back;
    case Op::load: return messages.load;
    default: return messages.receive_gradient;
  }
}

class BufferMaker {
 public:
  explicit BufferMaker(Draft& draft) : draft_(draft), places_(draft.passages.size(), 0) {
    const std::vector<Work>& work = draft.program.work;
    for (std::size_t i = 0; i < work.size(); ++i) note(work[i], static_cast<int>(i));
  }

  void make() {
    const int chunks = static_cast<int>(draft_.program.chunks.size());
    for (int chunk = 0; chunk < chunks; ++chunk) make_resident(chunk);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int m = 0; m < draft_.program.microbatches; ++m) {
        if (passage(draft_, chunk, m).forward) make_microbatch(chunk, m);
        make_evicted(chunk, m);
      }
    }
  }

 private:
  void note(const Work& work, int i) {
    if (!work.channel || is_about_norm(work.instruction.op)) return;
    int& place = places_[place_of(work.chunk, work.instruction.microbatch)];
    if (place == 0) {
      place = static_cast<int>(messages_.size());
      messages_.emplace_back();
    }
    list_of(messages_[index(place)], work.instruction.op).push_back(i);
  }

  std::size_t place_of(int chunk, int microbatch) const {
    return index(chunk) * index(draft_.program.microbatches) + index(microbatch);
  }
  const Messages& messages_of(int chunk, int microbatch) const {
    return messages_[index(places_[place_of(chunk, microbatch)])];
  }

  const ChunkMemory& memory_of(int chunk) const {
    const Chunk& place = draft_.program.chunks[index(chunk)];
    return draft_.options.memory[index(place.stage)][index(place.replica)];
  }

  /// The chunk `distance` stages on, if it is on the same device.
  std::optional<int> local_chunk(int chunk, int distance) const {
    const Chunk& place = draft_.program.chunks[index(chunk)];
    const int stage = place.stage + distance;
    if (stage < 0 || !hands_on(draft_.program, std::min(stage, place.stage))) return {};
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

  void keep(int chunk, BufferRole role, MemoryCategory category, Bytes bytes) {
    if (bytes == 0) return;
    const int buffer = add(role, chunk, 0, bytes);
    draft_.program.buffers[index(buffer)].category = category;
    draft_.program.resident.push_back(buffer);
  }

  void make_resident(int chunk) {
    const ChunkMemory& memory = memory_of(chunk);
    const int older = draft_.versions_held[index(chunk)] - 1;
    const int stage = draft_.program.chunks[index(chunk)].stage;
    const Sharding sharding = is_sharded(draft_, stage) ? draft_.program.sharding : Sharding::none;
    const ChunkMemory kept =
        shard_of(memory, sharding, holders(draft_, stage), expert_holders(draft_, stage));
    keep(chunk, BufferRole::parameters, MemoryCategory::parameters, kept.parameters);
    keep(chunk, BufferRole::parameters, MemoryCategory::weight_versions,
         all_of(older, kept.parameters));
    if (!draft_.program.trains) {
      // Keys and values of all requests; further passes of a request add to its own.
      const int fed_back = draft_.schedule.feedback;
      const int requests = fed_back > 0 ? fed_back : draft_.program.microbatches;
      int here = 0;
      for (int m = 0; m < requests; ++m) here += passage(draft_, chunk, m).forward ? 1 : 0;
      keep(chunk, BufferRole::past, MemoryCategory::activations, all_of(here, memory.past));
      return;
    }
    keep(chunk, BufferRole::gradients, MemoryCategory::gradients, kept.gradients);
    keep(chunk, BufferRole::optimizer, MemoryCategory::optimizer, kept.optimizer);
  }

  void live(BufferRole role, int chunk, int microbatch, Bytes bytes, const Works& from,
            const Works& until) {
    if (bytes == 0 || from.empty() || until.empty()) return;
    const int buffer = add(role, chunk, microbatch, bytes);
    for (const int work : from) draft_.begins.push_back({buffer, work});
    for (const int work : until) draft_.ends.push_back({buffer, work});
  }

  void make_microbatch(int chunk, int microbatch) {
    const ChunkMemory& memory = memory_of(chunk);
    const Passage& here = passage(draft_, chunk, microbatch);
    const Messages& messages = messages_of(chunk, microbatch);
    const int forward = *here.forward;
    const auto lives = [&](BufferRole role, Bytes bytes, const Works& from, const Works& until) {
      live(role, chunk, microbatch, bytes, from, until);
    };

    const int last_reader = here.weight.value_or(here.backward.value_or(forward));
    lives(BufferRole::input, memory.input, input_arrives(chunk, microbatch),
          {memory.keeps_input ? last_reader : forward});
    const bool keeps = !here.recompute && here.backward;
    if (!keeps && !memory.forward_alone) {
      lives(BufferRole::workspace, memory.saved, {forward}, {forward});
    }
    if (here.backward) {
      const Works saves{here.recompute.value_or(forward)};
      const Works away = messages.evict.empty() ? Works{*here.backward} : messages.evict;
      lives(BufferRole::saved, memory.saved, saves, away);
      lives(BufferRole::saved, memory.saved, messages.load, {*here.backward});
      lives(BufferRole::saved_throughout, memory.saved_throughout, saves,
            {here.weight.value_or(*here.backward)});
    }
    if (here.backward) make_past(chunk, microbatch);
    if (here.weight) {
      lives(BufferRole::saved_for_weight, memory.saved_for_weight, {*here.backward},
            {*here.weight});
    }
    lives(BufferRole::output, memory.output, {forward}, messages.send_activation);
    if (here.backward) {
      const bool stays = here.weight && memory.weight_reads_output_gradient;
      lives(BufferRole::output_gradient, memory.output, gradient_arrives(chunk, microbatch),
            {stays ? *here.weight : *here.backward});
      lives(BufferRole::input_gradient, memory.input, {*here.backward}, messages.send_gradient);
    }
    lives(BufferRole::workspace,
          keeps ? memory.workspace : memory.forward_alone.value_or(memory.workspace), {forward},
          {forward});
    for (const std::optional<int>& work : {here.recompute, here.backward, here.weight}) {
      if (work) lives(BufferRole::workspace, memory.workspace, {*work}, {*work});
    }
  }

  /// What pieces of one sequence have of each other.
  void make_past(int chunk, int microbatch) {
    const int pieces = draft_.program.sequence_chunks;
    const int last = microbatch / pieces * pieces + pieces - 1;
    if (microbatch == last) return;
    const ChunkMemory& memory = memory_of(chunk);
    const Passage& here = passage(draft_, chunk, microbatch);
    if (here.recompute) {
      live(BufferRole::past, chunk, microbatch, memory.past, {*here.forward}, {*here.recompute});
    }
    live(BufferRole::past_gradients, chunk, microbatch, memory.past_gradients,
         {*passage(draft_, chunk, last).backward}, {*here.backward});
  }

  /// What this chunk's device keeps for its partner.
  void make_evicted(int chunk, int microbatch) {
    const Messages& messages = messages_of(chunk, microbatch);
    if (messages.take_in.empty()) return;
    const Work& arrival = draft_.program.work[index(messages.take_in.front())];
    live(BufferRole::evicted, chunk, microbatch,
         draft_.program.channels[index(*arrival.channel)].bytes, messages.take_in,
         messages.give_back);
  }

  /// What writes the input: receives, the stage before on this device, or (stage 0) the forward,
  /// from the data set, unless an earlier microbatch's output is fed back.
  Works input_arrives(int chunk, int microbatch) {
    if (draft_.program.chunks[index(chunk)].stage == 0) return first_input(chunk, microbatch);
    if (const auto before = local_chunk(chunk, -1)) {
      return {*passage(draft_, *before, microbatch).forward};
    }
    const Works& receives = messages_of(chunk, microbatch).receive_activation;
    if (receives.empty()) return {*passage(draft_, chunk, microbatch).forward};
    return receives;
  }

  Works first_input(int chunk, int microbatch) {
    const int source = microbatch - draft_.program.feedback;
    if (draft_.program.feedback == 0 || source < 0) {
      return {*passage(draft_, chunk, microbatch).forward};
    }
    const Works& receives = messages_of(chunk, source).receive_activation;
    if (!receives.empty()) return receives;
    const int replica = draft_.program.chunks[index(chunk)].replica;
    return {*passage(draft_, draft_.chunks_of_stage.back()[index(replica)], source).forward};
  }

  /// What writes the gradient of the output; nothing does at the last stage.
  Works gradient_arrives(int chunk, int microbatch) {
    if (const auto after = local_chunk(chunk, 1)) {
      return {*passage(draft_, *after, microbatch).backward};
    }
    return messages_of(chunk, microbatch).receive_gradient;
  }

  Draft& draft_;
  std::vector<int> places_;  ///< parallel to Draft::passages: in `messages_`
  /// Of those that have any; the first has none. With many replicas that take turns most have none.
  std::vector<Messages> messages_{Messages{}};
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
