// Attention on a GPU: cuDNN's fused plans for causal bf16, and products with a softmax between them
// for everything else.

#pragma once

#include <cudnn.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "executor/backends/cuda/attention_plan.hpp"
#include "executor/backends/cuda/matmul.hpp"
#include "executor/backends/cuda/scratch.hpp"

namespace stagecraft::cuda {

class Attention {
 public:
  /// `multiprocessors`: that plans are made for; 0: all there are. `remark` is told once for each
  /// shape that cuDNN refuses; may be empty.
  Attention(Commands& commands, std::shared_ptr<Scratch> scratch, Matmul& matmul,
            int multiprocessors, bool deterministic,
            std::function<void(const std::string&)> remark);
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;
  ~Attention();

  /// As Backend's.
  void forward(const Tensor& qkv, const AttentionShape& shape, Tensor& y, Tensor& log_sum);
  void backward(const Tensor& dy, const Tensor& qkv, const Tensor& y, const Tensor& log_sum,
                const AttentionShape& shape, Tensor& dqkv);

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         AttentionPass>;

  /// Null where products have to do.
  const AttentionPlan* plan_for(const Tensor& qkv, const AttentionShape& shape, AttentionPass pass);
  void run(const AttentionPlan& plan, AttentionPointers pointers);
  template <class T>
  void multiply_forward(const Tensor& qkv, const AttentionShape& shape, Tensor& y, Tensor& log_sum);
  template <class T>
  void multiply_backward(const Tensor& dy, const Tensor& qkv, const Tensor& log_sum,
                         const AttentionShape& shape, Tensor& dqkv);

  Commands& commands_;
  std::shared_ptr<Scratch> scratch_;
  Matmul& matmul_;
  int multiprocessors_;
  bool deterministic_;
  std::function<void(const std::string&)> remark_;
  cudnnHandle_t cudnn_ = nullptr;  ///< made when it is first needed
  std::map<Key, std::unique_ptr<AttentionPlan>> plans_;
};

}  // namespace stagecraft::cuda
