#include "simulator/lowering/passes.hpp"

#include <algorithm>

namespace stagecraft::lowering {

int add_work(Draft& draft, Instruction instruction, int chunk) {
  draft.program.work.push_back(
      {.instruction = instruction, .chunk = chunk, .lane = lane_of(instruction.op)});
  return static_cast<int>(draft.program.work.size()) - 1;
}

int add_group(Draft& draft, Op op, std::vector<int> chunks, Bytes bytes) {
  draft.program.groups.push_back({.op = op, .chunks = std::move(chunks), .bytes = bytes});
  return static_cast<int>(draft.program.groups.size()) - 1;
}

int add_member(Draft& draft, int group, int chunk, int microbatch) {
  const Op op = draft.program.groups[index(group)].op;
  const int stage = draft.program.chunks[index(chunk)].stage;
  const int work = add_work(draft, {op, stage, microbatch}, chunk);
  draft.program.work[index(work)].group = group;
  return work;
}

namespace {

struct Ends {
  Op send;
  Op receive;
};

/// What is evicted has four.
Ends ends_of(Cargo cargo) {
  switch (cargo) {
    case Cargo::activation: return {Op::send_activation, Op::receive_activation};
    case Cargo::gradient: return {Op::send_gradient, Op::receive_gradient};
    case Cargo::evicted: return {Op::evict, Op::take_in};
    case Cargo::norm: return {Op::send_norm, Op::receive_norm};
    case Cargo::validation: return {Op::send_validation, Op::receive_validation};
  }
  return {};
}

}  // namespace

int add_message(Draft& draft, int channel_index, int microbatch, std::span<const int> producers) {
  const Channel channel = draft.program.channels[index(channel_index)];
  const Ends ends = ends_of(channel.cargo);
  const int from_stage = draft.program.chunks[index(channel.from)].stage;
  const int to_stage = draft.program.chunks[index(channel.to)].stage;
  const int send = add_work(draft, {ends.send, from_stage, microbatch}, channel.from);
  const int receive = add_work(draft, {ends.receive, to_stage, microbatch}, channel.to);
  draft.program.work[index(send)].channel = channel_index;
  draft.program.work[index(receive)].channel = channel_index;
  for (const int producer : producers) add_wait(draft, send, producer);
  add_wait(draft, receive, send);
  return receive;
}

bool takes_part(const Draft& draft, const Chunk& chunk, int microbatch) {
  return draft.options.replica_policy == ReplicaPolicy::split ||
         microbatch / draft.program.sequence_chunks % chunk.replicas == chunk.replica;
}

std::span<const int> working_chunks(const Draft& draft, int stage, int microbatch) {
  const std::span<const int> chunks = draft.chunks_of_stage[index(stage)];
  if (draft.options.replica_policy == ReplicaPolicy::split) return chunks;
  return chunks.subspan(index(microbatch / draft.program.sequence_chunks) % chunks.size(), 1);
}

std::vector<int> common_microbatches(const Draft& draft, const Chunk& one, const Chunk& other) {
  std::vector<int> common;
  const bool all = draft.options.replica_policy == ReplicaPolicy::split;
  // The one whose turn comes more rarely says which to look at.
  const Chunk& rarer = one.replicas >= other.replicas ? one : other;
  const Chunk& often = one.replicas >= other.replicas ? other : one;
  const int pieces = draft.program.sequence_chunks;
  const int first = all ? 0 : rarer.replica * pieces;
  const int step = all ? pieces : rarer.replicas * pieces;
  for (int turn = first; turn < draft.program.microbatches; turn += step) {
    if (!takes_part(draft, often, turn)) continue;
    for (int piece = 0; piece < pieces; ++piece) common.push_back(turn + piece);
  }
  return common;
}

std::vector<int> chunks_of_copies(const Draft& draft, int stage) {
  const int stages = draft.program.stages / draft.program.pipes;
  std::vector<int> chunks;
  for (int copy = stage % stages; copy < draft.program.stages; copy += stages) {
    const std::vector<int>& replicas = draft.chunks_of_stage[index(copy)];
    chunks.insert(chunks.end(), replicas.begin(), replicas.end());
  }
  return chunks;
}

int holders(const Draft& draft, int stage) {
  return static_cast<int>(chunks_of_copies(draft, stage).size()) * draft.options.columns;
}

int expert_holders(const Draft& draft, int stage) {
  const std::vector<int>& experts = draft.options.expert_holders;
  return experts.empty() ? holders(draft, stage) : experts[index(stage)];
}

bool passes_on(const Draft& draft, int stage) {
  return draft.program.chunks[index(draft.chunks_of_stage[index(stage)].front())].passes_on;
}

bool is_sharded(const Draft& draft, int stage) {
  return draft.program.sharding != Sharding::none && holders(draft, stage) > 1 &&
         !passes_on(draft, stage);
}

bool is_message(const Draft& draft, const Wait& wait) {
  const Work& receive = draft.program.work[index(wait.work)];
  const Work& send = draft.program.work[index(wait.on)];
  return is_receive(receive.instruction.op) && is_send(send.instruction.op) &&
         receive.channel == send.channel;
}

int updates(const Program& program, int stage) {
  return program.trains ? program.microbatches / update_interval(program, stage) : 0;
}

int update_interval(const Program& program, int stage) {
  return program.weights == WeightPolicy::flush ? program.microbatches
                                                : program.update_every[index(stage)];
}

int most_updates(const Program& program) {
  if (program.weights == WeightPolicy::flush) return program.trains ? 1 : 0;
  return program.microbatches / *std::ranges::min_element(program.update_every);
}

std::size_t place_of_update(const Draft& draft, int chunk, int update) {
  return index(chunk) * index(most_updates(draft.program)) + index(update);
}

bool same_device(const Schedule& schedule, int stage, int other) {
  return schedule.device_of_stage[index(stage)] == schedule.device_of_stage[index(other)];
}

Grouped group_by_key(const std::vector<KeyedValue>& rows, std::size_t keys) {
  Grouped grouped;
  grouped.ranges.resize(keys);
  for (const KeyedValue& row : rows) ++grouped.ranges[index(row.key)].end;
  int first = 0;
  for (IndexRange& range : grouped.ranges) {
    const int size = range.end;
    range = {first, first};
    first += size;
  }
  grouped.values.resize(rows.size());
  for (const KeyedValue& row : rows) {
    grouped.values[index(grouped.ranges[index(row.key)].end++)] = row.value;
  }
  return grouped;
}

}  // namespace stagecraft::lowering
