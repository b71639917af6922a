// Gradients summed over the replicas of a stage and of its copies in other pipes (G), and over
// stages that hold the same weights (T), in each pipe alike. Where the optimizer is sharded each
// chunk keeps the sums of its shard only (GS in place of G), and T gives each those of its own.
//
// Stages that only pass on have none. Once for each update. A chunk's G may start right after its
// last backward, while its device goes on with other chunks. T follows the G of all its members.
// Tied stages on one device need no message: their updates just wait for both gradients.

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

/// Per update (see Draft::gradients_complete), the work after which its gradient is complete, so
/// far.
using Completion = std::vector<std::vector<int>>;

/// The last B or W for each update in its device's order; none for a replica that never had a turn.
Completion last_backwards(const Draft& draft) {
  Completion last(draft.program.chunks.size() * index(most_updates(draft.program)));
  for (const auto& order : draft.compute) {
    for (const int item : order) {
      const Work& work = draft.program.work[index(item)];
      if (!is_backward(work.instruction.op)) continue;
      const Instruction& it = work.instruction;
      const int update = it.microbatch / update_interval(draft.program, it.stage);
      last[place_of_update(draft, work.chunk, update)] = {item};
    }
  }
  return last;
}

/// The group's work for each update, one item per member; afterwards the members' gradients are
/// complete when it has ended.
void add_collective(Draft& draft, Op op, const std::vector<int>& chunks, Bytes bytes,
                    Completion& completion) {
  const int group = add_group(draft, op, chunks, bytes);
  const int stage = draft.program.chunks[index(chunks.front())].stage;
  for (int update = 0; update < updates(draft.program, stage); ++update) {
    const int microbatch = (update + 1) * update_interval(draft.program, stage) - 1;
    for (const int chunk : chunks) {
      const int work = add_member(draft, group, chunk, microbatch);
      std::vector<int>& complete = completion[place_of_update(draft, chunk, update)];
      for (const int on : complete) add_wait(draft, work, on);
      complete = {work};
    }
  }
}

Bytes gradient_bytes(const Draft& draft, int stage) {
  return draft.options.memory.empty() ? 0 : draft.options.memory[index(stage)].front().gradients;
}

void reduce_tie(Draft& draft, const StageTie& tie, Completion& completion) {
  std::vector<int> members = draft.chunks_of_stage[index(tie.owner)];
  const std::vector<int>& users = draft.chunks_of_stage[index(tie.user)];
  members.insert(members.end(), users.begin(), users.end());
  add_collective(draft, Op::reduce_tied, members, tie.bytes, completion);
}

/// Both stages are complete when both gradients are. (Ties imply a flush: one update.)
void join_tie(const Draft& draft, const StageTie& tie, Completion& completion) {
  const std::vector<int>& owners = draft.chunks_of_stage[index(tie.owner)];
  const std::vector<int>& users = draft.chunks_of_stage[index(tie.user)];
  for (std::size_t replica = 0; replica < owners.size(); ++replica) {
    std::vector<int>& owner = completion[index(owners[replica])];
    std::vector<int>& user = completion[index(users[replica])];
    owner.insert(owner.end(), user.begin(), user.end());
    user = owner;
  }
}

}  // namespace

void add_reductions(Draft& draft) {
  if (!draft.program.trains) return;
  Completion completion = last_backwards(draft);
  const int stages = stages_per_pipe(draft.schedule);
  for (int stage = 0; stage < stages; ++stage) {
    if (holders(draft, stage) < 2 || passes_on(draft, stage)) continue;
    const Op op = is_sharded(draft, stage) ? Op::reduce_scatter : Op::reduce_gradient;
    add_collective(draft, op, chunks_of_copies(draft, stage), gradient_bytes(draft, stage),
                   completion);
  }
  for (StageTie tie : draft.options.ties) {
    for (int pipe = 0; pipe < draft.program.pipes; ++pipe) {
      if (same_device(draft.schedule, tie.owner, tie.user)) {
        join_tie(draft, tie, completion);
      } else {
        reduce_tie(draft, tie, completion);
      }
      tie.owner += stages;
      tie.user += stages;
    }
  }
  draft.gradients_complete = std::move(completion);
}

}  // namespace stagecraft::lowering
