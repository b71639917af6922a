// The norm of all gradients of a step, and the clipping factor.
//
//   ranks      squares of what each holds ──→ rank 0: adds them up ──→ factor, the same everywhere
//
// Every weight counts once: with the gradient of its first replica, or all shards of a sharded
// optimizer; with the parts of all tensor-parallel peers; a tied weight with its owner's gradient.
// Squares are added weight by weight in the order of their names, so the norm has the same bits for
// every cut of the model into stages.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "executor/driver/rank_map.hpp"
#include "executor/training/trained_chunk.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

/// The factor that reduces the norm of the gradients to at most `clip`; 1 if the norm is smaller,
/// or if `clip` is 0. `squares` of parts of the gradients are added in this order.
double clip_factor(double clip, std::span<const double> squares);

class Clipping {
 public:
  /// `chunks`: indexed like the program's chunks; null if another rank holds the chunk.
  Clipping(const Training& training, const RankMap& ranks,
           std::span<const std::unique_ptr<TrainedChunk>> chunks, Backend& backend,
           Transport& transport);

  void begin_step() { factor_.reset(); }
  /// Computes the norm. Every rank calls it once it has all gradients of its weights; later calls
  /// in the same step do nothing. Returns when all ranks have called it.
  void learn_norm();
  /// The factor of this step's gradients, after `learn_norm`; 1 without clipping.
  double factor() const { return factor_.value_or(1); }
  /// Whether the norm is finite, and so are all gradients.
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
