// The CPU backend: checks shapes and calls the kernels in the tensors' precision. What layers of
// transformers call is in transformer_backend.cpp, what networks of images do in image_backend.cpp,
// the rest in backends/cpu.cpp.

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/backends/cpu/memory.hpp"

namespace stagecraft::cpu {

class CpuBackend final : public Backend {
 public:
  Tensor allocate_apart(std::vector<std::int64_t> shape, Precision precision) override;
  void forbid(const void* memory, Bytes bytes) override;
  void permit(const void* memory, Bytes bytes) override;
  Bytes allocated_bytes() const override { return memory_->allocated().now(); }
  Bytes peak_bytes() const override { return memory_->allocated().peak(); }
  void reset_peak() override { memory_->reset_peak(); }
  void finish() override {}
  void upload(std::span<const std::byte> from, Tensor& to) override;
  void download(const Tensor& from, std::span<std::byte> to) override;
  void zero(Tensor& x) override;
  void copy(const Tensor& from, Tensor& to) override;
  void convert(const Tensor& from, Tensor& to) override;
  Late<bool> is_finite(const Tensor& x) override;
  void add(const Tensor& x, Tensor& y) override;
  void largest(const Tensor& x, Tensor& y) override;
  void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
              bool accumulate) override;
  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
              Tensor& y) override;
  void add_bias(const Tensor& bias, Tensor& x) override;
  void bias_gradient(const Tensor& gradient, Tensor& bias_gradient) override;
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                  Tensor& y, Tensor& mean, Tensor& scale) override;
  void layer_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                        const Tensor& scale, Tensor& dx) override;
  void layer_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& scale,
                         Tensor& dweight, Tensor& dbias) override;
  void rms_norm(const Tensor& x, const Tensor& weight, double epsilon, Tensor& y,
                Tensor& scale) override;
  void rms_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& scale,
                      Tensor& dx) override;
  void rms_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& scale,
                       Tensor& dweight) override;
  void norm_input_and_residual(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& scale, const Tensor& residual,
                               Tensor& dx) override;
  void norm_queries_and_keys(Tensor& qkv, const AttentionShape& shape, const Tensor& query_weight,
                             const Tensor& key_weight, double epsilon, Tensor& raw,
                             Tensor& scale) override;
  void norm_queries_and_keys_input(Tensor& dqkv, const AttentionShape& shape, const Tensor& raw,
                                   const Tensor& scale, const Tensor& query_weight,
                                   const Tensor& key_weight, Tensor& dnormed) override;
  void norm_queries_and_keys_weight(const Tensor& dnormed, const AttentionShape& shape,
                                    const Tensor& raw, const Tensor& scale, Tensor& dquery_weight,
                                    Tensor& dkey_weight) override;
  void gelu(const Tensor& x, Tensor& y) override;
  void gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override;
  void swiglu(const Tensor& x, Tensor& y) override;
  void swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override;
  void exact_gelu(const Tensor& x, Tensor& y) override;
  void exact_gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override;
  void geglu(const Tensor& x, Tensor& y) override;
  void geglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override;
  void one_more(const Tensor& x, Tensor& y) override;
  void choose_experts(Tensor& logits, Tensor& chosen) override;
  void experts(const Tensor& x, const ExpertChoice& choice, std::span<const Tensor> up,
               std::span<const Tensor> down, Tensor& before, Tensor& active, Tensor& y) override;
  void experts_input(const Tensor& dy, const ExpertChoice& choice, std::span<const Tensor> up,
                     std::span<const Tensor> down, const Tensor& before, const Tensor& active,
                     Tensor& dbefore, Tensor& dx, Tensor& dlogits) override;
  void experts_weight(const Tensor& x, const Tensor& dy, const ExpertChoice& choice,
                      const Tensor& active, const Tensor& dbefore, std::span<Tensor> dup,
                      std::span<Tensor> ddown) override;
  void rotary(Tensor& qkv, const AttentionShape& shape, std::span<const double> frequencies,
              bool inverse) override;
  void attention(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                 Tensor& log_sum) override;
  void attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y, const Tensor& log_sum,
                       const AttentionShape& shape, Tensor& dqkv) override;
  void relu(Tensor& x) override;
  void relu_input(const Tensor& dy, const Tensor& y, Tensor& dx) override;
  void images(std::span<const std::int32_t> pixels, Tensor& y) override;
  void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const ConvolutionShape& shape, Tensor& y) override;
  void convolution_input(const Tensor& dy, const Tensor& weight, const ConvolutionShape& shape,
                         Tensor& dx) override;
  void convolution_weight(const Tensor& dy, const Tensor& x, const ConvolutionShape& shape,
                          Tensor& dweight, Tensor& dbias) override;
  void max_pool(const Tensor& x, const PoolShape& shape, Tensor& y) override;
  void max_pool_input(const Tensor& dy, const Tensor& x, const PoolShape& shape,
                      Tensor& dx) override;
  void embedding(std::span<const std::int32_t> tokens, const Tensor& table, std::int64_t first,
                 const Tensor& positions, std::int64_t sequence, Tensor& y) override;
  void embedding_weight(std::span<const std::int32_t> tokens, const Tensor& dy, std::int64_t first,
                        std::int64_t sequence, Tensor& dtable, Tensor& dpositions) override;
  Late<double> cross_entropy(Tensor& logits, std::span<const std::int32_t> targets,
                             double scale) override;
  void largest_logits(const Tensor& logits, Tensor& tops) override;
  void exponentials(Tensor& logits, const Tensor& tops, std::span<const std::int32_t> targets,
                    std::int64_t first, Tensor& sums) override;
  Late<double> cross_entropy_of_part(Tensor& logits, const Tensor& sums,
                                     std::span<const std::int32_t> targets, std::int64_t first,
                                     double scale) override;
  void adamw(const AdamW& options, int step, const Tensor& gradient, Tensor& first_moment,
             Tensor& second_moment, const Tensor& weight, Tensor& updated) override;
  void sgd(const Sgd& options, const Tensor& gradient, const Tensor& weight,
           Tensor& updated) override;
  void scale(double factor, Tensor& x) override;
  std::vector<double> sums_of_squares(std::span<const Tensor> tensors) override;

 private:
  // Shared with every tensor, which may outlive the backend.
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace stagecraft::cpu
