// The sums of gradients with other ranks before an update, and the collection of sharded weights
// after it.
//
// The order of sums is part of the plan: microbatches ascending, then replicas (pipe by pipe), then
// the owner and the users of a tied weight. A sharded optimizer has the same sums, weight by
// weight: each of n members keeps the n-th part of every weight.

#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "executor/driver/rank_map.hpp"
#include "executor/training/trained_chunk.hpp"

namespace stagecraft {

class GradientSums {
 public:
  /// `chunks`: indexed like the program's chunks; null if another rank holds the chunk.
  GradientSums(const Training& training, const Program& program, const RankMap& ranks,
               std::span<const std::unique_ptr<TrainedChunk>> chunks, Backend& backend,
               Transport& transport);

  void begin_step();
  /// Executes the operations G, GS, T and P.
  void carry_out(const Work& work);
  /// Gives copies of the chunk's weights on this rank the sum of their gradients, before the
  /// chunk's update to this version. Called for both of two tied chunks; the second call does
  /// nothing.
  void add_local_ties(const TrainedChunk& chunk, int version);

 private:
  /// The copies of a weight on this rank, within one pipe, in model order.
  struct LocalTie {
    std::vector<Parameter*> copies;
    std::set<const TrainedChunk*> chunks;
    int version = 0;  ///< the last version whose gradients have been summed
  };

  void find_local_ties();
  void reduce_scatter(const Work& work);
  void reduce_tied(const Work& work);
  void keep_own_part(const TrainedChunk& chunk, Tensor& gradient);
  void gather(const Work& work);

  /// The transport's group of a work.
  int group_of(const Work& work) const { return ranks_.group_of(transport_.rank(), *work.group); }
  TrainedChunk& chunk_of(const Work& work) const {
    return *chunks_[static_cast<std::size_t>(work.chunk)];
  }

  const Training& training_;
  const Program& program_;
  const RankMap& ranks_;
  std::span<const std::unique_ptr<TrainedChunk>> chunks_;
  Backend& backend_;
  Transport& transport_;
  std::vector<LocalTie> ties_;
};

}  // namespace stagecraft
