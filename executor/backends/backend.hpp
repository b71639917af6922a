// A backend: memory and arithmetic of one device, used by one rank.
//
// Matrices are row major; a tensor of shape [samples, sequence, width] counts as a matrix of
// samples*sequence rows. Every call gives the same bits for the same values and shapes, whenever
// and on whichever rank it runs: that is what bitwise equality of differently cut models rests on.
// `accumulate` adds to the output instead of overwriting it. Shapes are the caller's promise
// (asserted). Errors (out of memory) throw Error (execution).
//
// Calls of one backend take effect in their order, but may return before they are done; numbers
// that they return may be late. Under 16-bit precisions, weights and what flows between layers are
// of that precision; gradients of weights, an optimizer's numbers, statistics and sums are of
// `precision_of_sums`.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/values/late.hpp"
#include "executor/values/tensor.hpp"
#include "simulator/values/instruction.hpp"

namespace stagecraft {

/// Hyperparameters of one optimizer step; `step` counts from 1.
struct AdamW {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.0;
};
struct Sgd {
  double learning_rate = 1e-2;
};

/// Shape of attention: query heads share key-value heads in equal groups; `causal` hides later
/// positions. CPU only: of a piece of a sequence, `past` positions come before the first query; a
/// position sees the last `window` ones, itself among them (0: all); scores are divided by the root
/// of `score_width` (0: of the head width).
struct AttentionShape {
  std::int64_t samples = 0, sequence = 0, heads = 0, key_value_heads = 0, head_width = 0;
  bool causal = true;
  std::int64_t past = 0;
  std::int64_t window = 0;
  double score_width = 0;
};

/// Which experts tokens pass: `probabilities` [tokens, experts]; in `chosen` [tokens, experts that
/// one passes] their numbers, by falling probability. A token's share of an expert is its
/// probability, divided by the sum of the chosen ones' if `shares_add_up`.
struct ExpertChoice {
  Tensor probabilities;
  Tensor chosen;
  bool shares_add_up = true;
};

/// Shape of a convolution: square images, and square kernels of odd width with zeros around the
/// image, so that it keeps its size. A tensor of images is [samples, channels x size x size].
struct ConvolutionShape {
  std::int64_t samples = 0, input_channels = 0, output_channels = 0, size = 0, kernel = 3;
};

/// Shape of a maximum pool: `size` of the input, a multiple of `window`, which is also the stride.
struct PoolShape {
  std::int64_t samples = 0, channels = 0, size = 0, window = 2;
};

/// One weight, or a part of one, in an optimizer's step: all of the same elements.
struct WeightUpdate {
  Tensor gradient;
  Tensor first_moment, second_moment;  ///< empty for SGD
  Tensor weight;                       ///< before the step
  Tensor updated;                      ///< behind it; may be the same tensor
  Tensor rounded;  ///< the same in 16 bits; empty where `updated` is what layers compute with
};

/// Memory whose places are known beforehand.
class Placement {
 public:
  virtual ~Placement() = default;
  /// Memory for the next tensor, of `bytes` bytes.
  virtual std::shared_ptr<void> place(Bytes bytes) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Uninitialised memory: in the placement, while there is one, else apart.
  Tensor allocate(std::vector<std::int64_t> shape, Precision precision);
  /// Allocates a tensor that only products and losses read: its rows may be padded.
  Tensor allocate_rows(std::vector<std::int64_t> shape, Precision precision);
  /// As this one lies in memory.
  Tensor allocate_like(const Tensor& tensor);
  /// Alignment in bytes of such rows, at which the device reads fast.
  virtual Bytes row_alignment() const { return 1; }
  /// From now on; null: none. It must outlive its use.
  void use(Placement* placement) { placement_ = placement; }
  /// Uninitialised memory of its own, counted in `allocated_bytes` until the last Tensor sharing it
  /// is gone.
  virtual Tensor allocate_apart(std::vector<std::int64_t> shape, Precision precision) = 0;
  /// False of one that only allocates, and touches no memory (backends/dry.hpp).
  virtual bool has_numbers() const { return true; }
  /// Tells the address sanitizer that this memory must not be accessed, or may be accessed again.
  virtual void forbid(const void*, Bytes) {}
  virtual void permit(const void*, Bytes) {}

  virtual Bytes allocated_bytes() const = 0;
  /// Highest value of `allocated_bytes` since the last reset.
  virtual Bytes peak_bytes() const = 0;
  virtual void reset_peak() = 0;

  /// Returns when everything asked for before is done, so that the process may look at its results:
  /// at the end of a step, and where bytes leave the backend for the process.
  virtual void finish() = 0;
  /// For another backend that is to look at a tensor: behind everything asked for so far. Unless a
  /// backend does better, that is done when the call returns.
  virtual SharedSignal signal() {
    finish();
    return nullptr;
  }
  /// What is asked for from now on comes behind that, whose ever work it is.
  virtual void await(const SharedSignal& signal) {
    if (signal) signal->wait();
  }
  /// When everything asked for so far is done.
  virtual Late<Moment> moment() {
    finish();
    return now();
  }
  /// What is asked for in between carries out this instruction, and comes again in the same way in
  /// other steps: a backend may collect it, and hand it to its device in one piece.
  virtual void begin_work(const Instruction&) {}
  virtual void end_work() {}
  /// All of a tensor's bytes, from and to memory of the process. Nobody else may assume that a
  /// tensor's storage is such memory. Both return when the bytes are there.
  virtual void upload(std::span<const std::byte> from, Tensor& to) = 0;
  virtual void download(const Tensor& from, std::span<std::byte> to) = 0;

  virtual void zero(Tensor& x) = 0;
  /// The same for what sums are about to be added to: a backend may leave the zeros out where the
  /// first sum overwrites all of it. Whoever hands the tensor to anybody but this backend calls
  /// `settle` before.
  virtual void zero_for_sums(Tensor& x) { zero(x); }
  virtual void settle(const Tensor&) {}
  /// `from` and `to` may be another rank's tensors, behind that rank's signal.
  virtual void copy(const Tensor& from, Tensor& to) = 0;
  /// Converts the numbers to the precision of `to`, rounded to nearest even.
  virtual void convert(const Tensor& from, Tensor& to) = 0;
  /// Whether no element is infinite or not a number.
  virtual Late<bool> is_finite(const Tensor& x) = 0;
  /// y += x.
  virtual void add(const Tensor& x, Tensor& y) = 0;
  /// y = the larger of x and y, element by element.
  virtual void largest(const Tensor& x, Tensor& y) = 0;

  /// c (+)= op(a) op(b); op transposes if asked. Leading dimensions are folded into rows.
  virtual void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                      Tensor& c, bool accumulate) = 0;
  /// x[row, :] += bias.
  virtual void add_bias(const Tensor& bias, Tensor& x) = 0;
  /// bias_gradient += sum over rows of gradient.
  virtual void bias_gradient(const Tensor& gradient, Tensor& bias_gradient) = 0;

  // Linear maps with what stands around them, so that a backend may do it where the product is
  // written (cuBLASLt calls it an epilogue). Unless a backend does better,
  // each is the calls it is described by, in this order. Weights are [inputs, outputs].

  /// y = x weight, + bias and + residual unless they are empty.
  virtual void linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& residual, Tensor& y);
  /// before = x weight, + bias unless it is empty; y = gelu(before).
  virtual void linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           Tensor& before, Tensor& y);
  /// dx = gelu'(before) times dy weight transposed: from the gradient of what comes behind the
  /// activation to that of what it was of.
  virtual void linear_gelu_input(const Tensor& dy, const Tensor& weight, const Tensor& before,
                                 Tensor& dx);
  /// dweight += x transposed dy; dbias += sum over rows of dy, unless it is empty.
  virtual void linear_weight(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor& dbias);

  /// Statistics: mean and 1/deviation per row (LayerNorm), or 1/root-mean-square per row (RMSNorm;
  /// `mean` unused).
  virtual void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                          Tensor& y, Tensor& mean, Tensor& scale) = 0;
  virtual void layer_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& scale, Tensor& dx) = 0;
  virtual void layer_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                 const Tensor& scale, Tensor& dweight, Tensor& dbias) = 0;
  virtual void rms_norm(const Tensor& x, const Tensor& weight, double epsilon, Tensor& y,
                        Tensor& scale) = 0;
  virtual void rms_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                              const Tensor& scale, Tensor& dx) = 0;
  virtual void rms_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& scale,
                               Tensor& dweight) = 0;
  /// The gradient of an input that also goes past the norm, with this gradient: that of above, plus
  /// it. `mean`: empty for RMSNorm.
  virtual void norm_input_and_residual(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                       const Tensor& mean, const Tensor& scale,
                                       const Tensor& residual, Tensor& dx);

  /// RMSNorms of queries and of keys in place inside packed rows [q heads | kv heads | kv heads],
  /// each over as many neighbouring numbers as its weight has: a head's, or all heads'. `raw`, of
  /// the same rows: what queries and keys were. `scale`: one number for each norm of a row,
  /// queries' first. CPU only.
  virtual void norm_queries_and_keys(Tensor& qkv, const AttentionShape& shape,
                                     const Tensor& query_weight, const Tensor& key_weight,
                                     double epsilon, Tensor& raw, Tensor& scale);
  /// From the gradients of normed queries and keys to those of raw ones, in place inside `dqkv`;
  /// `dnormed`, as wide as `raw`: what they were.
  virtual void norm_queries_and_keys_input(Tensor& dqkv, const AttentionShape& shape,
                                           const Tensor& raw, const Tensor& scale,
                                           const Tensor& query_weight, const Tensor& key_weight,
                                           Tensor& dnormed);
  virtual void norm_queries_and_keys_weight(const Tensor& dnormed, const AttentionShape& shape,
                                            const Tensor& raw, const Tensor& scale,
                                            Tensor& dquery_weight, Tensor& dkey_weight);

  /// The tanh form (GPT-2).
  virtual void gelu(const Tensor& x, Tensor& y) = 0;
  virtual void gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) = 0;
  /// y = silu(gate) * up, with x = [gate | up] of twice y's width.
  virtual void swiglu(const Tensor& x, Tensor& y) = 0;
  virtual void swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) = 0;

  // CPU only, from here to the experts:

  /// By the error function.
  virtual void exact_gelu(const Tensor& x, Tensor& y);
  virtual void exact_gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx);
  /// y = gelu(gate) * up, with x = [gate | up] of twice y's width.
  virtual void geglu(const Tensor& x, Tensor& y);
  virtual void geglu_input(const Tensor& dy, const Tensor& x, Tensor& dx);
  /// y = 1 + x.
  virtual void one_more(const Tensor& x, Tensor& y);

  /// Logits [tokens, experts] become probabilities; `chosen` as in ExpertChoice, of equally
  /// probable ones the first.
  virtual void choose_experts(Tensor& logits, Tensor& chosen);
  /// y = sum over a token's experts of share x swiglu(x up) down. `up` and `down` by expert. In
  /// `before` and `active` rows of experts, one expert's behind another's: what SwiGLU is of, and
  /// what it makes.
  virtual void experts(const Tensor& x, const ExpertChoice& choice, std::span<const Tensor> up,
                       std::span<const Tensor> down, Tensor& before, Tensor& active, Tensor& y);
  /// The gradients of `before`, of x by way of the experts, and of the logits.
  virtual void experts_input(const Tensor& dy, const ExpertChoice& choice,
                             std::span<const Tensor> up, std::span<const Tensor> down,
                             const Tensor& before, const Tensor& active, Tensor& dbefore,
                             Tensor& dx, Tensor& dlogits);
  /// Adds to the gradients of the experts' weights.
  virtual void experts_weight(const Tensor& x, const Tensor& dy, const ExpertChoice& choice,
                              const Tensor& active, const Tensor& dbefore, std::span<Tensor> dup,
                              std::span<Tensor> ddown);

  /// Rotates query and key heads in place inside packed rows [q heads | kv heads | kv heads]: at
  /// position p the pair (i, i + frequencies) by p x frequencies[i]. `inverse` is its transpose.
  /// With fewer than head_width / 2 frequencies (CPU only) the rest of a head stays. The first of a
  /// sample's `sequence` rows is at position `past`.
  virtual void rotary(Tensor& qkv, const AttentionShape& shape, std::span<const double> frequencies,
                      bool inverse) = 0;
  /// qkv: packed rows as above, of each sample past + sequence of them; of the past ones only keys
  /// and values are looked at, and the gradients of their queries are zero. `log_sum`: [samples,
  /// heads, sequence], kept for backward instead of the probabilities.
  virtual void attention(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                         Tensor& log_sum) = 0;
  virtual void attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y,
                               const Tensor& log_sum, const AttentionShape& shape,
                               Tensor& dqkv) = 0;

  /// x = max(0, x); its gradient is dy where y > 0.
  virtual void relu(Tensor& x) = 0;
  virtual void relu_input(const Tensor& dy, const Tensor& y, Tensor& dx) = 0;

  /// y = pixel / 127.5 - 1.
  virtual void images(std::span<const std::int32_t> pixels, Tensor& y) = 0;
  /// Image by image, so that no image's result depends on the others. `weight`: [output channels,
  /// input channels, kernel, kernel].
  virtual void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const ConvolutionShape& shape, Tensor& y) = 0;
  virtual void convolution_input(const Tensor& dy, const Tensor& weight,
                                 const ConvolutionShape& shape, Tensor& dx) = 0;
  /// Adds to both.
  virtual void convolution_weight(const Tensor& dy, const Tensor& x, const ConvolutionShape& shape,
                                  Tensor& dweight, Tensor& dbias) = 0;
  /// The gradient goes to the first largest number of each window, row by row.
  virtual void max_pool(const Tensor& x, const PoolShape& shape, Tensor& y) = 0;
  virtual void max_pool_input(const Tensor& dy, const Tensor& x, const PoolShape& shape,
                              Tensor& dx) = 0;

  /// y[i, :] = table[tokens[i] - first, :] (+ positions[i mod sequence, :] unless that table is
  /// empty). `table` may be a part of the vocabulary's, from token `first` on; tokens elsewhere
  /// count as zeros.
  virtual void embedding(std::span<const std::int32_t> tokens, const Tensor& table,
                         std::int64_t first, const Tensor& positions, std::int64_t sequence,
                         Tensor& y) = 0;
  virtual void embedding_weight(std::span<const std::int32_t> tokens, const Tensor& dy,
                                std::int64_t first, std::int64_t sequence, Tensor& dtable,
                                Tensor& dpositions) = 0;

  /// Sum over rows of -log softmax(logits)[target], added up in row order; leaves softmax -
  /// one-hot, times `scale`, in logits.
  virtual Late<double> cross_entropy(Tensor& logits, std::span<const std::int32_t> targets,
                                     double scale) = 0;

  /// The same where `logits` are those of a part of the vocabulary only, from token `first` on, in
  /// three steps with sums over the parts between them: each row's largest logit; then e^(logit -
  /// top) in the logits' place, and in `sums` [rows, 2] their sum and the target's logit - top (0
  /// if it is elsewhere); then, from the whole `sums`, the loss and the part's gradient.
  virtual void largest_logits(const Tensor& logits, Tensor& tops) = 0;
  virtual void exponentials(Tensor& logits, const Tensor& tops,
                            std::span<const std::int32_t> targets, std::int64_t first,
                            Tensor& sums) = 0;
  virtual Late<double> cross_entropy_of_part(Tensor& logits, const Tensor& sums,
                                             std::span<const std::int32_t> targets,
                                             std::int64_t first, double scale) = 0;

  /// updated = weight after a step; both may be the same tensor.
  virtual void adamw(const AdamW& options, int step, const Tensor& gradient, Tensor& first_moment,
                     Tensor& second_moment, const Tensor& weight, Tensor& updated) = 0;
  virtual void sgd(const Sgd& options, const Tensor& gradient, const Tensor& weight,
                   Tensor& updated) = 0;

  /// A step of many weights at once, their gradients taken times `factor`. Unless a backend does
  /// better: weight by weight, the gradient scaled in its place unless the factor is 1.
  virtual void adamw_step(const AdamW& options, int step, double factor,
                          std::span<WeightUpdate> updates);
  virtual void sgd_step(const Sgd& options, double factor, std::span<WeightUpdate> updates);

  /// x *= factor.
  virtual void scale(double factor, Tensor& x) = 0;
  /// The sum of squares of each tensor's elements, in an order that depends only on their number.
  virtual std::vector<double> sums_of_squares(std::span<const Tensor> tensors) = 0;

 private:
  Placement* placement_ = nullptr;
};

/// OpenBLAS (one thread) and plain loops; float32 and float64.
std::unique_ptr<Backend> make_cpu_backend();
/// Asks for the same memory at the same calls, and does nothing else.
std::unique_ptr<Backend> make_dry_cpu_backend();

}  // namespace stagecraft
