// Causal attention in bf16 as execution plans of cuDNN. Its one-operation form cannot hide later
// positions before 9.21, so the graph is spelt out; cuDNN's engines know the pattern and fuse it.
// The backward pass is the deterministic one, or one with atomic sums.

#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/backends/cuda/graph.hpp"

namespace stagecraft::cuda {

enum class AttentionPass { forward, backward };

/// Addresses on the GPU; those of the forward pass, and behind them what only backward has.
struct AttentionPointers {
  const void* qkv = nullptr;  ///< packed rows, bf16
  const void* y = nullptr;
  const void* log_sum = nullptr;  ///< fp32
  const void* dy = nullptr;
  const void* dqkv = nullptr;
  const void* row_sums = nullptr;             ///< room for samples x heads x sequence fp32 numbers
  const void* query_gradient_sums = nullptr;  ///< fp32, as large as the queries; zeros
  void* workspace = nullptr;
};

/// What the plan is for: the device of a handle, or one described in JSON as cuDNN wants it, to be
/// looked at where there is none.
struct AttentionTarget {
  cudnnHandle_t handle = nullptr;
  std::string device;
  int multiprocessors = 0;    ///< that it may use; 0: all
  bool deterministic = true;  ///< of the backward pass
};

class AttentionPlan {
 public:
  /// Tries what cuDNN suggests until a plan can be finished.
  AttentionPlan(const AttentionShape& shape, AttentionPass pass, const AttentionTarget& target);

  /// Whether it can be run; otherwise `refusal` says why not.
  bool is_ready() const { return plan_ != nullptr; }
  const std::string& refusal() const { return refusal_; }
  std::int64_t operations() const { return operations_; }
  std::int64_t engines() const { return static_cast<std::int64_t>(configurations_.size()); }
  Bytes workspace_bytes() const;
  /// Of the queries' gradients that are added up in any order; 0: in one order.
  Bytes sum_bytes() const;

  void run(cudnnHandle_t handle, const AttentionPointers& pointers) const;

 private:
  void ask_for_engines();
  void finish_plan(const AttentionTarget& target);

  AttentionShape shape_;
  AttentionPass pass_;
  bool deterministic_;
  std::int64_t operations_ = 0;
  GraphBuilder builder_;
  std::unique_ptr<Descriptor> graph_;
  std::unique_ptr<Descriptor> device_;
  std::unique_ptr<Descriptor> heuristics_;
  std::vector<std::unique_ptr<Descriptor>> configurations_;
  std::unique_ptr<Descriptor> plan_;
  std::string refusal_;
};

}  // namespace stagecraft::cuda
