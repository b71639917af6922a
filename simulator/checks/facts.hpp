// Indices into the program's tables that the rules need repeatedly, built once and without any
// judgement.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "simulator/checks/check.hpp"

namespace stagecraft::checks {

/// Entry of the tables below for "no such work".
inline constexpr int none = -1;

/// Works that are executed together: a send and its receive, or one collective on all its members.
using Meeting = std::vector<int>;

struct Facts {
  /// `device_names` as in `CheckOptions`.
  explicit Facts(const Program& program, std::vector<int> device_names = {});

  const Program& program;
  std::vector<int> device_names;

  /// The name of a device in sentences.
  int name_of(int device) const {
    return device_names.empty() ? device : device_names[static_cast<std::size_t>(device)];
  }
  std::string describe(int work) const { return stagecraft::describe(program, work, device_names); }

  int device_of(int work) const;
  const Chunk& chunk_of(int work) const;
  /// Works of a lane of a device, in issue order.
  const std::vector<int>& lane(int device, Lane lane) const;
  /// Works of a chunk with this op, or this op and microbatch, ascending by microbatch.
  std::span<const int> works(int chunk, Op op) const;
  std::span<const int> works(int chunk, Op op, int microbatch) const;
  /// The works of the same device that wait for this one.
  std::span<const int> dependents(int work) const;
  /// The works of the same device that this one waits for, and those that the other half of its
  /// fused pair waits for. (A receive also waits for its send on another device.)
  std::vector<int> local_waits(int work) const;
  /// Whether both stages belong to the same copy of the model.
  bool same_pipe(int stage, int other) const {
    return stage / stages_per_pipe == other / stages_per_pipe;
  }
  /// All chunks, ascending, that hold the same layers as this stage: replicas and copies.
  std::vector<int> chunks_of_copies(int stage) const;

  /// Whether several chunks hold this stage's layers and share the optimizer's work.
  bool is_sharded(int stage) const {
    const auto columns = static_cast<std::size_t>(program.columns);
    return program.sharding != Sharding::none && chunks_of_copies(stage).size() * columns > 1 &&
           !program.chunks[static_cast<std::size_t>(chunks_of_copies(stage).front())].passes_on;
  }

  /// Microbatches whose gradients one update of the stage applies: all of them when weights are
  /// flushed.
  int update_interval(int stage) const;
  /// Updates of each of the stage's chunks; none without training.
  int updates(int stage) const;
  /// Which update of its chunk the work belongs to, from 0.
  int update_of(int work) const;

  std::vector<int> position;  ///< place of each work in its lane
  std::vector<Meeting> meetings;
  std::vector<int> meeting_of;  ///< meeting of each work; `none` for compute and for communication
                                ///< without its counterpart
  std::vector<std::vector<int>> chunks_of_stage;
  int stages_per_pipe = 1;
  IndexRange rows;  ///< all samples of a microbatch: the union over the chunks

 private:
  void find_lanes();
  void find_works_of_chunks();
  void find_dependents();
  void find_messages();
  void find_collectives();

  std::vector<std::vector<int>> lanes_;           // [device * lanes + lane]
  std::vector<std::vector<int>> works_of_chunk_;  // sorted by op, then microbatch
  std::vector<int> first_dependent_;              // per work, in dependents_; one more at the end
  std::vector<int> dependents_;
};

/// The first gap: the first part of `whole` that no piece covers; empty if there is none.
IndexRange first_gap(IndexRange whole, std::vector<IndexRange> pieces);

/// "rows [0, 2)".
std::string rows_text(IndexRange rows);
/// "1 send", "2 sends".
std::string count(std::size_t number, const std::string& noun);

}  // namespace stagecraft::checks
