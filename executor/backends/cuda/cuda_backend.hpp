// The CUDA backend: one rank on a GPU or on a part of one, with one stream.
//
// Calls return when they are asked for; the process waits in `finish`, `download`, and where a late
// number is looked at before the GPU has got there.

#pragma once

#include <cudnn.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/backends/cuda.hpp"
#include "executor/backends/cuda/attention.hpp"
#include "executor/backends/cuda/events.hpp"
#include "executor/backends/cuda/kernels.hpp"
#include "executor/backends/cuda/matmul.hpp"
#include "executor/backends/cuda/memory.hpp"
#include "executor/backends/cuda/pending_sums.hpp"
#include "executor/backends/cuda/pending_zeros.hpp"
#include "executor/backends/cuda/pinned.hpp"
#include "executor/backends/cuda/places.hpp"
#include "executor/backends/cuda/scratch.hpp"

namespace stagecraft::cuda {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const Place& place, const CudaOptions& options = {});
  ~CudaBackend() override;

  Tensor allocate_apart(std::vector<std::int64_t> shape, Precision precision) override;
  Bytes row_alignment() const override { return cuda_row_alignment; }
  Bytes allocated_bytes() const override { return memory_->allocated().now(); }
  Bytes peak_bytes() const override { return memory_->allocated().peak(); }
  void reset_peak() override { memory_->reset_peak(); }

  void finish() override;
  SharedSignal signal() override;
  void await(const SharedSignal& signal) override;
  Late<Moment> moment() override;
  void begin_work(const Instruction& instruction) override;
  void end_work() override;
  void upload(std::span<const std::byte> from, Tensor& to) override;
  void download(const Tensor& from, std::span<std::byte> to) override;
  void zero(Tensor& x) override;
  void zero_for_sums(Tensor& x) override;
  void settle(const Tensor& x) override;
  void copy(const Tensor& from, Tensor& to) override;
  void convert(const Tensor& from, Tensor& to) override;
  Late<bool> is_finite(const Tensor& x) override;
  void add(const Tensor& x, Tensor& y) override;
  void largest(const Tensor& x, Tensor& y) override;

  void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
              bool accumulate) override;
  void add_bias(const Tensor& bias, Tensor& x) override;
  void bias_gradient(const Tensor& gradient, Tensor& bias_gradient) override;
  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
              Tensor& y) override;
  void linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& before,
                   Tensor& y) override;
  void linear_gelu_input(const Tensor& dy, const Tensor& weight, const Tensor& before,
                         Tensor& dx) override;
  void linear_weight(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor& dbias) override;

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

  void gelu(const Tensor& x, Tensor& y) override;
  void gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override;
  void swiglu(const Tensor& x, Tensor& y) override;
  void swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override;
  void rotary(Tensor& qkv, const AttentionShape& shape, std::span<const double> frequencies,
              bool inverse) override;
  void attention(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                 Tensor& log_sum) override;
  void attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y, const Tensor& log_sum,
                       const AttentionShape& shape, Tensor& dqkv) override;

  // Networks of images are refused.
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
  void adamw_step(const AdamW& options, int step, double factor,
                  std::span<WeightUpdate> updates) override;
  void sgd_step(const Sgd& options, double factor, std::span<WeightUpdate> updates) override;
  void scale(double factor, Tensor& x) override;
  std::vector<double> sums_of_squares(std::span<const Tensor> tensors) override;

 private:
  /// Numbers on the GPU for the length of a call.
  template <class Number>
  std::shared_ptr<Number> room(std::int64_t count);
  /// What differs from step to step: uploaded now, and kept until the work ends.
  template <class Number>
  std::shared_ptr<Number> on_device(std::span<const Number> numbers);
  /// What stays.
  template <class Number>
  std::shared_ptr<Number> kept_on_device(std::span<const Number> numbers);
  /// Waits for them.
  template <class Number>
  std::vector<Number> on_host(const Number* numbers, std::int64_t count);
  /// A result made of these numbers when they have come from the GPU; `room` is kept until then.
  template <class Result, class Number, class Combine>
  Late<Result> later(std::shared_ptr<Number> room, std::int64_t count, Combine combine);
  void upload_now(const void* from, Bytes bytes, void* to);
  template <class T>
  void add_elements(const Tensor& x, Tensor& y);

  /// For a sum into all of x: whether it has to be added to what is there.
  bool adds_to(const Tensor& x);
  template <class Element>
  void each_element(std::int64_t count, const Element& element);
  template <class Term>
  ColumnSums chunk_sums(const Tensor& rows, const Term& term);
  /// Sum number `which` of them, behind the work.
  void add_later(const ColumnSums& sums, int which, Tensor& to);
  void add_pending_sums();
  /// mean, bias: null for RMSNorm.
  void norm(const Tensor& x, const Tensor& weight, const Tensor* bias, double epsilon, Tensor& y,
            Tensor* mean, Tensor& scale);
  void norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor* mean,
                  const Tensor& scale, const Tensor* residual, Tensor& dx);
  void norm_weight(const Tensor& dy, const Tensor& x, const Tensor* mean, const Tensor& scale,
                   Tensor& dweight, Tensor* dbias);
  const Turn* turns(std::int64_t sequence, std::span<const double> frequencies);
  TensorTable on_device(const std::vector<UpdatedTensor>& table);
  template <class Step>
  void take_step(const Step& step, std::span<WeightUpdate> updates);

  CudaOptions options_;
  std::shared_ptr<Memory> memory_;  ///< shared with every tensor, which may outlive the backend
  std::set<int> open_;              ///< GPUs whose memory this one's kernels can use
  std::shared_ptr<Events> events_;
  Events::SharedAnchor anchor_;  ///< of all moments until the next `finish`
  std::shared_ptr<Scratch> scratch_;
  std::shared_ptr<Scratch> inputs_;  ///< of the work: nothing else is written there
  std::vector<std::shared_ptr<void>> held_inputs_;
  std::shared_ptr<Pinned> pinned_;
  Commands commands_;
  PendingZeros zeros_;
  PendingSums sums_;
  bool works_ = false;        ///< between begin_work and end_work
  bool is_backward_ = false;  ///< and that is a whole backward pass
  Matmul matmul_;
  Attention attention_;
  std::map<std::pair<std::int64_t, std::vector<double>>, std::shared_ptr<Turn>> turns_;
  /// Tables of tensors, which are the same step by step, and their copies on the GPU.
  std::vector<std::pair<std::vector<UpdatedTensor>, std::shared_ptr<UpdatedTensor>>> tables_;
};

}  // namespace stagecraft::cuda
