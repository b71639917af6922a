// Sums of columns on their way to gradients of weights and biases. Chunks of rows have been added
// up by then; the rest of several sums is done at once, behind the work that they belong to.
//
//   norm, back   dx, and chunks of the sums of dy z, dy and dx, with the names of dy, x and dx
//   its weight   whoever has dy and x finds the chunks of dy z and dy
//   linear map   whose output's gradient dx is finds the chunks of dx: its bias's gradient

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "executor/backends/cuda/column_sums.hpp"
#include "executor/values/tensor.hpp"

namespace stagecraft::cuda {

/// Sums of chunks of rows: some, one behind the other, [sums, chunks, columns].
struct ColumnSums {
  std::shared_ptr<float> numbers;
  std::int64_t chunks = 0;
  std::int64_t columns = 0;

  const float* of(int which) const { return numbers.get() + which * chunks * columns; }
};

/// What a norm's backward pass has added up: those that NormSums names. Tensors that somebody has
/// written to since are empty.
struct NormPass {
  Tensor dy, x, dx;
  ColumnSums sums;
};

class PendingSums {
 public:
  void note(NormPass pass) { passes_.push_back(std::move(pass)); }
  /// The pass with these tensors.
  std::optional<NormPass> pass_of(const Tensor& dy, const Tensor& x) const;
  std::optional<NormPass> pass_to(const Tensor& dx) const;
  /// Tensors that are not what they were.
  void wrote(const Tensor& tensor);
  void forget_passes() { passes_.clear(); }

  /// Sum number `which` goes there; added to what is there, or else over it.
  void add(const ColumnSums& sums, int which, float* to, bool adds);
  bool is_full() const { return list_.count == ChunkSumsList::most; }
  /// Whether one of them goes to this memory.
  bool touch(const Tensor& tensor) const;
  /// All of them, to be added up now; and what they lie in.
  std::pair<ChunkSumsList, std::vector<std::shared_ptr<float>>> take();

 private:
  std::vector<NormPass> passes_;
  ChunkSumsList list_;
  std::vector<std::shared_ptr<float>> rooms_;
};

}  // namespace stagecraft::cuda
