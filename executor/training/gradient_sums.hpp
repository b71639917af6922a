// What a rank adds up with others before an update, and collects from them behind it.
//
// Sums have one order, which is part of the plan: microbatches ascending, then replicas (pipe by
// pipe), then the owner and the users of a tied weight. A sharded optimizer's are the same sums,
// weight by weight: each of n members keeps the n-th part of every weight.

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
  /// `chunks`: parallel to the program's; null where another rank holds the chunk.
  GradientSums(const Training& training, const Program& program, const RankMap& ranks,
               std::span<const std::unique_ptr<TrainedChunk>> chunks, Backend& backend,
               Transport& transport);

  void begin_step();
  /// G, GS, T and P.
  void carry_out(const Work& work);
  /// Copies of the chunk's weights on this rank get the sum of their gradients, before the chunk's
  /// update makes this version. The second of two tied chunks finds it done.
  void add_local_ties(const TrainedChunk& chunk, int version);

 private:
  /// The copies of a weight on this rank, of one pipe, in model order.
  struct LocalTie {
    std::vector<Parameter*> copies;
    std::set<const TrainedChunk*> chunks;
    int version = 0;  ///< the last whose gradients have been added
  };

  void find_local_ties();
  void reduce_scatter(const Work& work);
  void reduce_tied(const Work& work);
  void keep_own_part(const TrainedChunk& chunk, Tensor& gradient);
  void gather(const Work& work);

  /// The transport's.
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
