// A backend that only allocates: layers run on it to show what memory they ask for, at the speed of
// their bookkeeping and without any of that memory. None of its tensors has an address to follow.

#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "executor/backends/backend.hpp"

namespace stagecraft {

class DryBackend : public Backend {
 public:
  /// Rows are as far apart as on the backend that it stands for.
  explicit DryBackend(Bytes row_alignment = 1) : row_alignment_(row_alignment) {}
  Bytes row_alignment() const override { return row_alignment_; }

  Tensor allocate_apart(std::vector<std::int64_t> shape, Precision precision) override {
    static char nowhere = 0;
    return {.storage = std::shared_ptr<void>(&nowhere, [](void*) {}),
            .shape = std::move(shape),
            .precision = precision};
  }
  bool has_numbers() const override { return false; }
  Bytes allocated_bytes() const override { return 0; }
  Bytes peak_bytes() const override { return 0; }
  void reset_peak() override {}

  void finish() override {}
  void upload(std::span<const std::byte>, Tensor&) override {}
  void download(const Tensor&, std::span<std::byte>) override {}
  void zero(Tensor&) override {}
  void copy(const Tensor&, Tensor&) override {}
  void convert(const Tensor&, Tensor&) override {}
  Late<bool> is_finite(const Tensor&) override { return true; }
  void add(const Tensor&, Tensor&) override {}
  void largest(const Tensor&, Tensor&) override {}
  void matmul(const Tensor&, bool, const Tensor&, bool, Tensor&, bool) override {}
  void add_bias(const Tensor&, Tensor&) override {}
  void bias_gradient(const Tensor&, Tensor&) override {}
  void layer_norm(const Tensor&, const Tensor&, const Tensor&, double, Tensor&, Tensor&,
                  Tensor&) override {}
  void layer_norm_input(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        Tensor&) override {}
  void layer_norm_weight(const Tensor&, const Tensor&, const Tensor&, const Tensor&, Tensor&,
                         Tensor&) override {}
  void rms_norm(const Tensor&, const Tensor&, double, Tensor&, Tensor&) override {}
  void rms_norm_input(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      Tensor&) override {}
  void rms_norm_weight(const Tensor&, const Tensor&, const Tensor&, Tensor&) override {}
  void norm_queries_and_keys(Tensor&, const AttentionShape&, const Tensor&, const Tensor&, double,
                             Tensor&, Tensor&) override {}
  void norm_queries_and_keys_input(Tensor&, const AttentionShape&, const Tensor&, const Tensor&,
                                   const Tensor&, const Tensor&, Tensor&) override {}
  void norm_queries_and_keys_weight(const Tensor&, const AttentionShape&, const Tensor&,
                                    const Tensor&, Tensor&, Tensor&) override {}
  void gelu(const Tensor&, Tensor&) override {}
  void gelu_input(const Tensor&, const Tensor&, Tensor&) override {}
  void swiglu(const Tensor&, Tensor&) override {}
  void swiglu_input(const Tensor&, const Tensor&, Tensor&) override {}
  void exact_gelu(const Tensor&, Tensor&) override {}
  void exact_gelu_input(const Tensor&, const Tensor&, Tensor&) override {}
  void geglu(const Tensor&, Tensor&) override {}
  void geglu_input(const Tensor&, const Tensor&, Tensor&) override {}
  void one_more(const Tensor&, Tensor&) override {}
  void choose_experts(Tensor&, Tensor&) override {}
  void experts(const Tensor&, const ExpertChoice&, std::span<const Tensor>, std::span<const Tensor>,
               Tensor&, Tensor&, Tensor&) override {}
  void experts_input(const Tensor&, const ExpertChoice&, std::span<const Tensor>,
                     std::span<const Tensor>, const Tensor&, const Tensor&, Tensor&, Tensor&,
                     Tensor&) override {}
  void experts_weight(const Tensor&, const Tensor&, const ExpertChoice&, const Tensor&,
                      const Tensor&, std::span<Tensor>, std::span<Tensor>) override {}
  void rotary(Tensor&, const AttentionShape&, std::span<const double>, bool) override {}
  void attention(const Tensor&, const AttentionShape&, Tensor&, Tensor&) override {}
  void attention_input(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                       const AttentionShape&, Tensor&) override {}
  void relu(Tensor&) override {}
  void relu_input(const Tensor&, const Tensor&, Tensor&) override {}
  void images(std::span<const std::int32_t>, Tensor&) override {}
  void convolution(const Tensor&, const Tensor&, const Tensor&, const ConvolutionShape&,
                   Tensor&) override {}
  void convolution_input(const Tensor&, const Tensor&, const ConvolutionShape&, Tensor&) override {}
  void convolution_weight(const Tensor&, const Tensor&, const ConvolutionShape&, Tensor&,
                          Tensor&) override {}
  void max_pool(const Tensor&, const PoolShape&, Tensor&) override {}
  void max_pool_input(const Tensor&, const Tensor&, const PoolShape&, Tensor&) override {}
  void embedding(std::span<const std::int32_t>, const Tensor&, std::int64_t, const Tensor&,
                 std::int64_t, Tensor&) override {}
  void embedding_weight(std::span<const std::int32_t>, const Tensor&, std::int64_t, std::int64_t,
                        Tensor&, Tensor&) override {}
  Late<double> cross_entropy(Tensor&, std::span<const std::int32_t>, double) override { return 0; }
  void largest_logits(const Tensor&, Tensor&) override {}
  void exponentials(Tensor&, const Tensor&, std::span<const std::int32_t>, std::int64_t,
                    Tensor&) override {}
  Late<double> cross_entropy_of_part(Tensor&, const Tensor&, std::span<const std::int32_t>,
                                     std::int64_t, double) override {
    return 0;
  }
  void adamw(const AdamW&, int, const Tensor&, Tensor&, Tensor&, const Tensor&, Tensor&) override {}
  void sgd(const Sgd&, const Tensor&, const Tensor&, Tensor&) override {}
  void scale(double, Tensor&) override {}
  std::vector<double> sums_of_squares(std::span<const Tensor> tensors) override {
    return std::vector<double>(tensors.size());
  }

 private:
  Bytes row_alignment_;
};

}  // namespace stagecraft
