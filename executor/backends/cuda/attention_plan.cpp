// The graphs, with s = q k / sqrt(width) and everything but what has an id between operations only:
//
//   forward     s → hidden → max → e^(s - max) → sum → log_sum = max + log sum,  p = e / sum → y =
//   p v backward    row sums of dy y;  p = e^(s - log_sum) → dv = p' dy
//               dp = dy v' → ds = p (dp - row sums) / sqrt(width) → dk = ds' q, dq = ds k
//
// Query heads that share keys and values broadcast in the products; dk and dv are then reduced.

#include "executor/backends/cuda/attention_plan.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "executor/backends/cuda/check.hpp"

namespace stagecraft::cuda {

namespace {

constexpr auto fp32 = CUDNN_DATA_FLOAT;
constexpr auto bf16 = CUDNN_DATA_BFLOAT16;

/// Ids of what is stored, and of numbers.
enum Id : std::int64_t {
  query_id = 1,
  key_id,
  value_id,
  output_id,
  log_sum_id,
  output_gradient_id,
  factor_id,
  hidden_id,
  one_id,
  query_gradient_id,
  key_gradient_id,
  value_gradient_id,
  row_sums_id,
  query_gradient_sums_id,
};

/// Shapes [samples, heads, rows, columns] and their strides.
struct Layouts {
  explicit Layouts(const AttentionShape& shape)
      : samples(shape.samples),
        heads(shape.heads),
        shared(shape.key_value_heads),
        sequence(shape.sequence),
        width(shape.head_width),
        packed((heads + 2 * shared) * width) {}

  std::int64_t samples, heads, shared, sequence, width, packed;

  Extents queries() const { return {samples, heads, sequence, width}; }
  Extents keys() const { return {samples, shared, sequence, width}; }
  Extents keys_across() const { return {samples, shared, width, sequence}; }
  Extents scores() const { return {samples, heads, sequence, sequence}; }
  Extents rows() const { return {samples, heads, sequence, 1}; }

  Extents in_packed() const { return {packed * sequence, width, packed, 1}; }
  Extents in_packed_across() const { return {packed * sequence, width, 1, packed}; }
  Extents in_output() const { return {heads * width * sequence, width, heads * width, 1}; }
  Extents in_scores() const {
    return {heads * sequence * sequence, sequence * sequence, sequence, 1};
  }
  Extents in_scores_across() const {
    return {heads * sequence * sequence, sequence * sequence, 1, sequence};
  }
  Extents in_heads() const { return {heads * sequence * width, sequence * width, width, 1}; }
  Extents in_rows() const { return {heads * sequence, sequence, 1, 1}; }
};

class AttentionGraph {
 public:
  AttentionGraph(GraphBuilder& graph, const AttentionShape& shape) : graph_(graph), at_(shape) {}

  void forward() {
    const auto log_sum = graph_.stored(log_sum_id, fp32, at_.rows(), at_.in_rows());
    const auto y = graph_.stored(output_id, bf16, at_.queries(), at_.in_output());
    const auto v = graph_.stored(value_id, bf16, at_.keys(), at_.in_packed());
    const auto s = hide(scaled_scores());
    const auto top = row(), sum = row(), log = row();
    const auto below = scores(fp32), power = scores(fp32), p = scores(bf16);
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, s, top);
    graph_.pointwise(CUDNN_POINTWISE_SUB, s, top, below);
    graph_.pointwise(CUDNN_POINTWISE_EXP, below, power);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, power, sum);
    graph_.pointwise(CUDNN_POINTWISE_LOG, sum, log);
    graph_.pointwise(CUDNN_POINTWISE_ADD, top, log, log_sum);
    graph_.pointwise(CUDNN_POINTWISE_DIV, power, sum, p);
    graph_.matmul(p, v, y);
  }

  /// Unless it is deterministic, blocks of keys add their parts of dq to sums in fp32.
  void backward(bool deterministic) {
    const auto y = graph_.stored(output_id, bf16, at_.queries(), at_.in_output());
    const auto dy = graph_.stored(output_gradient_id, bf16, at_.queries(), at_.in_output());
    const auto log_sum = graph_.stored(log_sum_id, fp32, at_.rows(), at_.in_rows());
    const auto sums = row_sums(y, dy);
    const auto below = scores(fp32), p = scores(fp32);
    graph_.pointwise(CUDNN_POINTWISE_SUB, scaled_scores(), log_sum, below);
    graph_.pointwise(CUDNN_POINTWISE_EXP, hide(below), p);
    shared_gradient(p, dy, value_gradient_id);

    const auto v = graph_.stored(value_id, bf16, at_.keys_across(), at_.in_packed_across());
    const auto dp = scores(fp32), difference = scores(fp32), product = scores(fp32);
    const auto ds = scores(fp32);
    graph_.matmul(dy, v, dp);
    graph_.pointwise(CUDNN_POINTWISE_SUB, dp, sums, difference);
    graph_.pointwise(CUDNN_POINTWISE_MUL, difference, p, product);
    graph_.pointwise(CUDNN_POINTWISE_MUL, product, factor_, ds);
    shared_gradient(ds, query_, key_gradient_id);

    const auto k = graph_.between(is_shared() ? bf16 : fp32, at_.keys(), at_.in_packed());
    graph_.reshape(key_, k);
    const auto dq = graph_.stored(query_gradient_id, bf16, at_.queries(), at_.in_packed());
    if (deterministic) return graph_.matmul(ds, k, dq);
    const auto dq_sums = graph_.stored(query_gradient_sums_id, fp32, at_.queries(), at_.in_heads());
    graph_.matmul(ds, k, dq_sums);
    graph_.pointwise(CUDNN_POINTWISE_IDENTITY, dq_sums, dq);
  }

 private:
  bool is_shared() const { return at_.heads != at_.shared; }
  GraphTensor scores(cudnnDataType_t type) {
    return graph_.between(type, at_.scores(), at_.in_scores());
  }
  GraphTensor row() { return graph_.between(fp32, at_.rows(), at_.in_rows()); }

  GraphTensor scaled_scores() {
    query_ = graph_.stored(query_id, bf16, at_.queries(), at_.in_packed());
    key_ = graph_.stored(key_id, bf16, at_.keys_across(), at_.in_packed_across());
    factor_ = graph_.number(factor_id);
    const auto plain = scores(fp32), scaled = scores(fp32);
    graph_.matmul(query_, key_, plain);
    graph_.pointwise(CUDNN_POINTWISE_MUL, plain, factor_, scaled);
    return scaled;
  }

  /// Minus infinity where the key comes behind the query.
  GraphTensor hide(GraphTensor s) {
    const auto row = scores(CUDNN_DATA_INT32), column = scores(CUDNN_DATA_INT32);
    const auto is_seen = scores(CUDNN_DATA_BOOLEAN);
    const auto seen = scores(fp32);
    graph_.index(s, 2, row);
    graph_.index(s, 3, column);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, is_seen, CUDNN_DATA_BOOLEAN);
    graph_.select(s, graph_.number(hidden_id), is_seen, seen);
    return seen;
  }

  GraphTensor row_sums(GraphTensor y, GraphTensor dy) {
    const auto products = graph_.between(fp32, at_.queries(), at_.in_output());
    const auto sum = row();
    const auto sums = graph_.stored(row_sums_id, fp32, at_.rows(), at_.in_rows());
    graph_.pointwise(CUDNN_POINTWISE_MUL, dy, y, products);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sum);
    graph_.pointwise(CUDNN_POINTWISE_MUL, sum, graph_.number(one_id), sums);
    return sums;
  }

  /// What keys or values get: the scores' numbers, transposed, times rows of queries; summed over
  /// the query heads that share them.
  void shared_gradient(GraphTensor of_scores, GraphTensor rows, std::int64_t id) {
    const auto across = graph_.between(bf16, at_.scores(), at_.in_scores_across());
    graph_.reshape(of_scores, across);
    const auto gradient = graph_.stored(id, bf16, at_.keys(), at_.in_packed());
    if (!is_shared()) return graph_.matmul(across, rows, gradient);
    const auto of_heads = graph_.between(bf16, at_.queries(), at_.in_heads());
    graph_.matmul(across, rows, of_heads);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, gradient);
  }

  GraphBuilder& graph_;
  Layouts at_;
  GraphTensor query_, key_, factor_;
};

}  // namespace

AttentionPlan::AttentionPlan(const AttentionShape& shape, AttentionPass pass,
                             const AttentionTarget& target)
    : shape_(shape), pass_(pass), deterministic_(target.deterministic) {
  AttentionGraph graph(builder_, shape);
  pass == AttentionPass::forward ? graph.forward() : graph.backward(deterministic_);
  operations_ = builder_.operations();
  graph_ = builder_.finish(target.handle);
  if (!target.device.empty()) {
    device_ = std::make_unique<Descriptor>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    // Its text ends with a zero.
    device_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<std::int64_t>(target.device.size()) + 1, target.device.c_str());
    device_->finalize();
  }
  heuristics_ = std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics_->set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph_);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristics_->set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device_) heuristics_->set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device_);
  if (target.multiprocessors > 0) {
    const std::int32_t count = target.multiprocessors;
    heuristics_->set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &count);
  }
  heuristics_->finalize();
  ask_for_engines();
  finish_plan(target);
}

void AttentionPlan::ask_for_engines() {
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(heuristics_->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
        "ask cuDNN for engines");
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations_.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(configurations_.back()->get());
  }
  if (raw.empty()) return;
  std::int64_t found = 0;
  check(cudnnBackendGetAttribute(heuristics_->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &found, raw.data()),
        "ask cuDNN for engines");
  configurations_.resize(static_cast<std::size_t>(found));
}

void AttentionPlan::finish_plan(const AttentionTarget& target) {
  refusal_ = "cuDNN has no engine for it";
  for (const auto& configuration : configurations_) {
    auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configuration);
    if (target.handle != nullptr) {
      plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
    }
    const cudnnStatus_t status = cudnnBackendFinalize(plan->get());
    if (status == CUDNN_STATUS_SUCCESS) {
      plan_ = std::move(plan);
      refusal_.clear();
      return;
    }
    std::array<char, 1024> details{};
    cudnnGetLastErrorString(details.data(), details.size());
    refusal_ = std::string(cudnnGetErrorString(status)) + ": " + details.data();
  }
}

Bytes AttentionPlan::workspace_bytes() const {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(plan_->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &count, &bytes),
        "ask cuDNN for its workspace");
  return bytes;
}

Bytes AttentionPlan::sum_bytes() const {
  if (pass_ == AttentionPass::forward || deterministic_) return 0;
  return shape_.samples * shape_.heads * shape_.sequence * shape_.head_width *
         static_cast<Bytes>(sizeof(float));
}

void AttentionPlan::run(cudnnHandle_t handle, const AttentionPointers& pointers) const {
  const auto part = [&](const void* packed, std::int64_t heads) {
    constexpr std::int64_t element = 2;
    return static_cast<const std::byte*>(packed) + heads * shape_.head_width * element;
  };
  const std::int64_t keys = shape_.heads;
  const std::int64_t values = shape_.heads + shape_.key_value_heads;
  const float factor = 1.0f / std::sqrt(static_cast<float>(shape_.head_width));
  const float hidden = -std::numeric_limits<float>::infinity();
  const float one = 1;
  std::vector<std::int64_t> ids{query_id,   key_id,    value_id, output_id,
                                log_sum_id, factor_id, hidden_id};
  std::vector<const void*> addresses{part(pointers.qkv, 0),
                                     part(pointers.qkv, keys),
                                     part(pointers.qkv, values),
                                     pointers.y,
                                     pointers.log_sum,
                                     &factor,
                                     &hidden};
  if (pass_ == AttentionPass::backward) {
    ids.insert(ids.end(), {output_gradient_id, one_id, row_sums_id, query_gradient_id,
                           key_gradient_id, value_gradient_id});
    addresses.insert(addresses.end(), {pointers.dy, &one, pointers.row_sums, part(pointers.dqkv, 0),
                                       part(pointers.dqkv, keys), part(pointers.dqkv, values)});
  }
  if (sum_bytes() > 0) {
    ids.push_back(query_gradient_sums_id);
    addresses.push_back(pointers.query_gradient_sums);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<std::int64_t>(addresses.size()), addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &pointers.workspace);
  pack.finalize();
  check(cudnnBackendExecute(handle, plan_->get(), pack.get()), "run attention");
}

}  // namespace stagecraft::cuda
