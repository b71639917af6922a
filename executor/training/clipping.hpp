// The norm of all gradients of a step, and what it makes of them.
//
//   ranks      squares of what each holds ──→ rank 0: adds them up ──→ factor, the same everywhere
//
// Every weight counts once: of its replicas the first one's gradient, of a sharded optimizer each
// shard, of tensor-parallel peers each part, of a tied weight the owner's. Squares are added weight
// by weight, in the order of their names, and by that alone: so the norm has the same bits however
// the model is cut into stages.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "executor/driver/rank_map.hpp"
#include "executor/training/trained_chunk.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

/// What gradients are multiplied by for their norm to be at most `clip`; 1 if it is, or if `clip`
/// is 0. `squares`: of parts of the gradients, added up in this order.
double clip_factor(double clip, std::span<const double> squares);

class Clipping {
 public:
  /// `chunks`: parallel to the program's; null where another rank holds the chunk.
  Clipping(const Training& training, const RankMap& ranks,
           std::span<const std::unique_ptr<TrainedChunk>> chunks, Backend& backend,
           Transport& transport);

  void begin_step() { factor_.reset(); }
  /// All ranks call it, when each has all gradients of its weights; behind the first time in a step
  /// it does nothing. Returns when all have.
  void learn_norm();
  /// Of this step's gradients, behind that; 1 where nothing is clipped.
  double factor() const { return factor_.value_or(1); }
  /// Whether that norm is finite: so are then all gradients.
  bool is_finite() const { return is_finite_; }

 private:
  std::string own_squares() const;

  const Training& training_;
  const RankMap& ranks_;
  std::span<const std::unique_ptr<TrainedChunk>> chunks_;
  Backend& backend_;
  Transport& transport_;
  std::optional<double> factor_;
  bool is_finite_ = true;
};

}  // namespace stagecraft
