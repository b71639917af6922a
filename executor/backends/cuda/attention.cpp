// The products go sample by sample. Queries are copied head by head first, so that all the heads
// that share keys are one matrix of group x sequence rows, and a product with their keys, or a sum
// over them, is one product:
//
//   scores[group x sequence, sequence] = queries keys'      a batch of key-value heads
//   dkeys = dscores' queries, dvalues = probabilities' dy   sums over the group, too

#include "executor/backends/cuda/attention.hpp"

#include <cmath>

#include "executor/backends/cuda/check.hpp"
#include "executor/backends/cuda/kernels.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

/// Sizes of one sample.
struct Sizes {
  explicit Sizes(const AttentionShape& shape)
      : sequence(shape.sequence),
        heads(shape.heads),
        shared(shape.key_value_heads),
        width(shape.head_width),
        stacked(shape.heads / shape.key_value_heads * shape.sequence),
        packed((shape.heads + 2 * shape.key_value_heads) * shape.head_width),
        factor(1.0f / std::sqrt(static_cast<float>(shape.head_width))),
        causal(shape.causal) {}

  std::int64_t sequence, heads, shared, width;
  std::int64_t stacked;  ///< rows of the queries that share keys
  std::int64_t packed;
  float factor;
  bool causal;

  std::int64_t in_heads() const { return heads * sequence * width; }
  std::int64_t in_scores() const { return heads * sequence * sequence; }
};

template <class T>
constexpr Precision precision_of = Precision::float32;
template <>
constexpr Precision precision_of<Bfloat16> = Precision::bfloat16;

/// One sample's products, with room for what is between them.
template <class T>
class Sample {
 public:
  Sample(Commands& commands, Scratch& scratch, Matmul& matmul, const AttentionShape& shape)
      : commands_(commands), scratch_(scratch), matmul_(matmul), at_(shape) {}

  const Sizes& sizes() const { return at_; }

  template <class Number>
  Number* room(std::int64_t elements) {
    rooms_.push_back(scratch_.allocate(elements * static_cast<Bytes>(sizeof(Number))));
    return static_cast<Number*>(rooms_.back().get());
  }

  /// Heads of rows with this stride, one behind the other.
  void apart(const T* rows, std::int64_t stride, T* heads) {
    const HeadsApart<T> element{rows, heads, at_.sequence, at_.width, stride};
    for_each_element(commands_, at_.in_heads(), element);
  }
  void together(const T* heads, std::int64_t stride, T* rows) {
    const HeadsApart<T> shape{nullptr, nullptr, at_.sequence, at_.width, stride};
    for_each_element(commands_, at_.in_heads(), HeadsTogether<T>{shape, heads, rows});
  }

  /// Matrices over the heads that share keys.
  Operand stacked_rows(const T* heads) const {
    return dense(heads, precision_of<T>, at_.stacked, at_.width);
  }
  template <class Number>
  Operand scores(const Number* data) const {
    return dense(data, precision_of<Number>, at_.stacked, at_.sequence);
  }
  /// Keys or values, or their gradients, in packed rows.
  Operand in_packed(const T* first) const {
    return {.data = first,
            .precision = precision_of<T>,
            .rows = at_.sequence,
            .columns = at_.width,
            .stride = at_.packed,
            .batch_stride = at_.width};
  }
  static Operand across(Operand operand) {
    operand.transposed = true;
    return operand;
  }

  void multiply(const Operand& a, const Operand& b, const Operand& c) {
    matmul_.run(commands_, a, b, c, false, at_.shared);
  }
  template <class Row>
  void each_row(const Row& row) {
    for_each_row(commands_, at_.heads * at_.sequence, at_.sequence, row);
  }

 private:
  Commands& commands_;
  Scratch& scratch_;
  Matmul& matmul_;
  Sizes at_;
  std::vector<std::shared_ptr<void>> rooms_;
};

}  // namespace

Attention::Attention(Commands& commands, std::shared_ptr<Scratch> scratch, Matmul& matmul,
                     int multiprocessors, bool deterministic,
                     std::function<void(const std::string&)> remark)
    : commands_(commands),
      scratch_(std::move(scratch)),
      matmul_(matmul),
      multiprocessors_(multiprocessors),
      deterministic_(deterministic),
      remark_(std::move(remark)) {}

Attention::~Attention() {
  plans_.clear();
  if (cudnn_ != nullptr) (void)cudnnDestroy(cudnn_);
}

const AttentionPlan* Attention::plan_for(const Tensor& qkv, const AttentionShape& shape,
                                         AttentionPass pass) {
  if (qkv.precision != Precision::bfloat16 || !shape.causal) return nullptr;
  // The graph promises addresses that 16 divides, for keys and values too.
  if (shape.head_width % 8 != 0) return nullptr;
  const Key key{shape.samples,         shape.sequence,   shape.heads,
                shape.key_value_heads, shape.head_width, pass};
  std::unique_ptr<AttentionPlan>& plan = plans_[key];
  if (plan == nullptr) {
    const cudaStream_t stream = commands_.stream_before();
    if (cudnn_ == nullptr) {
      check(cudnnCreate(&cudnn_), "start cuDNN");
      check(cudnnSetStream(cudnn_, stream), "start cuDNN");
    }
    plan = std::make_unique<AttentionPlan>(shape, pass,
                                           AttentionTarget{.handle = cudnn_,
                                                           .device = {},
                                                           .multiprocessors = multiprocessors_,
                                                           .deterministic = deterministic_});
    if (!plan->is_ready() && remark_) {
      remark_(concat("attention of ", shape.samples, " x ", shape.sequence, " tokens, ",
                     shape.heads, " heads of ", shape.head_width,
                     pass == AttentionPass::forward ? "" : ", back",
                     ", goes by products and not by cuDNN, which is several times as slow: ",
                     plan->refusal()));
    }
  }
  return plan->is_ready() ? plan.get() : nullptr;
}

void Attention::run(const AttentionPlan& plan, AttentionPointers pointers) {
  const auto workspace = scratch_->allocate(plan.workspace_bytes());
  pointers.workspace = workspace.get();
  // What is added up in any order begins with zeros.
  std::shared_ptr<void> sums;
  if (const Bytes bytes = plan.sum_bytes(); bytes > 0) {
    sums = scratch_->allocate(bytes);
    pointers.query_gradient_sums = sums.get();
    set_to_zero(commands_, sums.get(), bytes);
  }
  struct Arguments {
    const AttentionPlan* plan;
    AttentionPointers pointers;
  };
  commands_.add(kind_of<Attention>(), Arguments{&plan, pointers},
                [this, &plan, pointers](cudaStream_t) { plan.run(cudnn_, pointers); });
}

void Attention::forward(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                        Tensor& log_sum) {
  if (const AttentionPlan* plan = plan_for(qkv, shape, AttentionPass::forward)) {
    return run(*plan,
               {.qkv = qkv.storage.get(), .y = y.storage.get(), .log_sum = log_sum.storage.get()});
  }
  qkv.precision == Precision::bfloat16 ? multiply_forward<Bfloat16>(qkv, shape, y, log_sum)
                                       : multiply_forward<float>(qkv, shape, y, log_sum);
}

void Attention::backward(const Tensor& dy, const Tensor& qkv, const Tensor& y,
                         const Tensor& log_sum, const AttentionShape& shape, Tensor& dqkv) {
  if (const AttentionPlan* plan = plan_for(qkv, shape, AttentionPass::backward)) {
    const auto row_sums = scratch_->allocate(log_sum.bytes());
    return run(*plan, {.qkv = qkv.storage.get(),
                       .y = y.storage.get(),
                       .log_sum = log_sum.storage.get(),
                       .dy = dy.storage.get(),
                       .dqkv = dqkv.storage.get(),
                       .row_sums = row_sums.get()});
  }
  qkv.precision == Precision::bfloat16 ? multiply_backward<Bfloat16>(dy, qkv, log_sum, shape, dqkv)
                                       : multiply_backward<float>(dy, qkv, log_sum, shape, dqkv);
}

template <class T>
void Attention::multiply_forward(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                                 Tensor& log_sum) {
  Sample<T> sample(commands_, *scratch_, matmul_, shape);
  const Sizes& at = sample.sizes();
  T* queries = sample.template room<T>(at.in_heads());
  T* mixed = sample.template room<T>(at.in_heads());
  float* scores = sample.template room<float>(at.in_scores());
  T* probabilities = sample.template room<T>(at.in_scores());
  for (std::int64_t i = 0; i < shape.samples; ++i) {
    const T* packed = qkv.data<T>() + i * at.sequence * at.packed;
    const T* keys = packed + at.heads * at.width;
    const T* values = keys + at.shared * at.width;
    sample.apart(packed, at.packed, queries);
    sample.multiply(sample.stacked_rows(queries), sample.across(sample.in_packed(keys)),
                    sample.scores(scores));
    sample.each_row(AttentionRows<T>{scores, probabilities,
                                     log_sum.data<float>() + i * at.heads * at.sequence,
                                     at.sequence, at.causal, at.factor});
    sample.multiply(sample.scores(probabilities), sample.in_packed(values),
                    sample.stacked_rows(mixed));
    sample.together(mixed, at.heads * at.width, y.data<T>() + i * at.in_heads());
  }
}

template <class T>
void Attention::multiply_backward(const Tensor& dy, const Tensor& qkv, const Tensor& log_sum,
                                  const AttentionShape& shape, Tensor& dqkv) {
  Sample<T> sample(commands_, *scratch_, matmul_, shape);
  const Sizes& at = sample.sizes();
  T* queries = sample.template room<T>(at.in_heads());
  T* gradients = sample.template room<T>(at.in_heads());
  float* scores = sample.template room<float>(at.in_scores());
  float* dp = sample.template room<float>(at.in_scores());
  T* probabilities = sample.template room<T>(at.in_scores());
  T* dscores = sample.template room<T>(at.in_scores());
  for (std::int64_t i = 0; i < shape.samples; ++i) {
    const std::int64_t start = i * at.sequence * at.packed;
    const T* packed = qkv.data<T>() + start;
    const T* keys = packed + at.heads * at.width;
    const T* values = keys + at.shared * at.width;
    T* dpacked = dqkv.data<T>() + start;
    T* dkeys = dpacked + at.heads * at.width;
    T* dvalues = dkeys + at.shared * at.width;
    sample.apart(packed, at.packed, queries);
    sample.apart(dy.data<T>() + i * at.in_heads(), at.heads * at.width, gradients);
    sample.multiply(sample.stacked_rows(queries), sample.across(sample.in_packed(keys)),
                    sample.scores(scores));
    sample.multiply(sample.stacked_rows(gradients), sample.across(sample.in_packed(values)),
                    sample.scores(dp));
    sample.each_row(
        AttentionInputRows<T>{scores, dp, log_sum.data<float>() + i * at.heads * at.sequence,
                              probabilities, dscores, at.sequence, at.causal, at.factor});
    sample.multiply(sample.across(sample.scores(probabilities)), sample.stacked_rows(gradients),
                    sample.in_packed(dvalues));
    sample.multiply(sample.across(sample.scores(dscores)), sample.stacked_rows(queries),
                    sample.in_packed(dkeys));
    // The queries' gradients take the place of dy's copy, which nobody needs any more.
    sample.multiply(sample.scores(dscores), sample.in_packed(keys), sample.stacked_rows(gradients));
    sample.together(gradients, at.packed, dpacked);
  }
}

}  // namespace stagecraft::cuda
