#include "executor/backends/cuda/cuda_backend.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "executor/backends/cuda/check.hpp"
#include "executor/backends/cuda/neighbours.hpp"
#include "executor/backends/cuda/optimizers.hpp"
#include "executor/backends/cuda/ranges.hpp"
#include "executor/backends/cuda/token_lists.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

// Calls compute(T{}) with the type of the tensor's elements.
template <class Compute>
void with_type(Precision precision, Compute compute) {
  switch (precision) {
    case Precision::float32: return compute(float{});
    case Precision::bfloat16: return compute(Bfloat16{});
    case Precision::float64:
    case Precision::float16: break;
  }
  fail("the CUDA backend computes in bf16 or fp32, not in ", to_string(precision));
}

[[noreturn]] void refuse_images() {
  throw Error(ErrorKind::execution,
              "--backend cuda trains transformers: it has no layers for images; --backend cpu has");
}

// Leading dimensions folded into rows.
std::int64_t column_count(const Tensor& tensor) {
  return tensor.shape.empty() ? 0 : tensor.shape.back();
}

std::int64_t row_count(const Tensor& tensor) {
  const std::int64_t columns = column_count(tensor);
  return columns == 0 ? 0 : tensor.elements() / columns;
}

Operand operand(const Tensor& tensor, bool transposed) {
  return dense(tensor.storage.get(), tensor.precision, row_count(tensor), column_count(tensor),
               transposed);
}

/// One for each version of a chunk's weights, and more than any run has of them.
constexpr std::size_t most_tables = 256;

const float* floats(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->data<float>();
}

Graphs graphs_of(const CudaOptions& options) {
  switch (options.graphs) {
    case GraphUse::automatic: return Graphs::automatic;
    case GraphUse::on: return Graphs::on;
    case GraphUse::off: break;
  }
  return Graphs::off;
}

std::shared_ptr<Memory> memory_at(const Place& place) {
  if (place.parts == 1) return std::make_shared<Memory>(place.device);
  return std::make_shared<Memory>(place.device, Partitions::of_device(place.device, place.parts),
                                  place.part);
}

}  // namespace

CudaBackend::CudaBackend(const Place& place, const CudaOptions& options)
    : options_(options),
      memory_(memory_at(place)),
      events_(Events::of_device(place.device)),
      scratch_(std::make_shared<Scratch>(memory_)),
      inputs_(std::make_shared<Scratch>(memory_)),
      pinned_(std::make_shared<Pinned>()),
      commands_(memory_, graphs_of(options), options.remark),
      matmul_(memory_->multiprocessors()),
      attention_(commands_, scratch_, matmul_, memory_->multiprocessors(), options.deterministic) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "count the GPUs");
  open_ = open_memory_of(devices_of_ranks(options, devices), place.device);
  anchor_ = events_->anchor();
}

/// What is under way may use all that goes now. Nothing to tell anybody if it fails.
CudaBackend::~CudaBackend() {
  (void)cudaSetDevice(memory_->device());
  (void)cudaStreamSynchronize(memory_->raw_stream());
}

// --- Memory --------------------------------------------------------------------------------------

Tensor CudaBackend::allocate_apart(std::vector<std::int64_t> shape, Precision precision) {
  with_type(precision, [](auto) {});
  Bytes bytes = element_bytes(precision);
  for (const std::int64_t extent : shape) bytes *= extent;
  return {.storage = memory_->allocate(bytes), .shape = std::move(shape), .precision = precision};
}

void CudaBackend::finish() {
  check(cudaStreamSynchronize(commands_.stream()), "finish the work on the GPU");
  anchor_ = events_->anchor();
}

SharedSignal CudaBackend::signal() {
  return events_->signal(commands_.stream());
}

void CudaBackend::await(const SharedSignal& signal) {
  if (signal && !Events::await(commands_.stream(), *signal)) signal->wait();
}

Late<Moment> CudaBackend::moment() {
  return events_->moment(commands_.stream(), anchor_);
}

void CudaBackend::begin_work(const Instruction& instruction) {
  if (options_.ranges) open_range(instruction);
  commands_.begin();
}

void CudaBackend::end_work() {
  commands_.end();
  held_inputs_.clear();
  if (options_.ranges) close_range();
}

void CudaBackend::upload(std::span<const std::byte> from, Tensor& to) {
  assert(from.size() == static_cast<std::size_t>(to.bytes()));
  check(cudaMemcpyAsync(to.storage.get(), from.data(), from.size(), cudaMemcpyHostToDevice,
                        commands_.stream()),
        "copy to the GPU");
  finish();
}

void CudaBackend::download(const Tensor& from, std::span<std::byte> to) {
  assert(to.size() == static_cast<std::size_t>(from.bytes()));
  check(cudaMemcpyAsync(to.data(), from.storage.get(), to.size(), cudaMemcpyDeviceToHost,
                        commands_.stream()),
        "copy from the GPU");
  finish();
}

void CudaBackend::zero(Tensor& x) {
  set_to_zero(commands_, x.storage.get(), x.bytes());
}

void CudaBackend::copy(const Tensor& from, Tensor& to) {
  assert(from.bytes() == to.bytes());
  copy_between(commands_, from.storage.get(), to.storage.get(), from.bytes());
}

template <class Number>
std::shared_ptr<Number> CudaBackend::room(std::int64_t count) {
  return std::static_pointer_cast<Number>(
      scratch_->allocate(count * static_cast<Bytes>(sizeof(Number))));
}

void CudaBackend::upload_now(const void* from, Bytes bytes, void* to) {
  const auto stage = pinned_->take(bytes);
  std::memcpy(stage->data(), from, static_cast<std::size_t>(bytes));
  check(cudaMemcpyAsync(to, stage->data(), static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                        commands_.stream_before()),
        "copy to the GPU");
  stage->keep_until(events_->record(commands_.stream_before(), false));
}

/// Before the list that uses it, and not part of it.
template <class Number>
std::shared_ptr<Number> CudaBackend::on_device(std::span<const Number> numbers) {
  const auto bytes = static_cast<Bytes>(numbers.size_bytes());
  auto copy = std::static_pointer_cast<Number>(inputs_->allocate(bytes));
  upload_now(numbers.data(), bytes, copy.get());
  if (commands_.collects()) held_inputs_.push_back(copy);
  return copy;
}

template <class Number>
std::shared_ptr<Number> CudaBackend::kept_on_device(std::span<const Number> numbers) {
  const auto bytes = static_cast<Bytes>(numbers.size_bytes());
  auto copy = std::static_pointer_cast<Number>(memory_->allocate(bytes));
  upload_now(numbers.data(), bytes, copy.get());
  return copy;
}

template <class Number>
std::vector<Number> CudaBackend::on_host(const Number* numbers, std::int64_t count) {
  std::vector<Number> copy(static_cast<std::size_t>(count));
  check(cudaMemcpyAsync(copy.data(), numbers, copy.size() * sizeof(Number), cudaMemcpyDeviceToHost,
                        commands_.stream()),
        "copy from the GPU");
  check(cudaStreamSynchronize(commands_.stream()), "finish the work on the GPU");
  return copy;
}

/// Numbers on their way to the process.
template <class Result, class Number, class Combine>
class Readback final : public LateSource<Result> {
 public:
  Readback(std::shared_ptr<Pinned::Block> block, std::int64_t count, Combine combine)
      : block_(std::move(block)), count_(count), combine_(combine) {}
  Pinned::Block& block() const { return *block_; }
  Result get() const override {
    block_->busy().wait();
    return combine_(std::span<const Number>(static_cast<const Number*>(block_->data()),
                                            static_cast<std::size_t>(count_)));
  }

 private:
  std::shared_ptr<Pinned::Block> block_;
  std::int64_t count_;
  Combine combine_;
};

template <class Result, class Number, class Combine>
Late<Result> CudaBackend::later(std::shared_ptr<Number> room, std::int64_t count, Combine combine) {
  const auto bytes = count * static_cast<Bytes>(sizeof(Number));
  const auto readback =
      std::make_shared<Readback<Result, Number, Combine>>(pinned_->take(bytes), count, combine);
  commands_.add_behind([this, readback, room = std::move(room), bytes](cudaStream_t stream) {
    check(cudaMemcpyAsync(readback->block().data(), room.get(), static_cast<std::size_t>(bytes),
                          cudaMemcpyDeviceToHost, stream),
          "copy from the GPU");
    readback->block().keep_until(events_->record(stream, false));
  });
  return Late<Result>(readback);
}

// --- Element by element --------------------------------------------------------------------------

template <class Element>
void CudaBackend::each_element(std::int64_t count, const Element& element) {
  for_each_element(commands_, count, element);
}

void CudaBackend::convert(const Tensor& from, Tensor& to) {
  assert(from.elements() == to.elements());
  if (from.precision == to.precision) return copy(from, to);
  if (from.precision == Precision::float32 && to.precision == Precision::bfloat16) {
    return each_element(from.elements(),
                        Convert<float, Bfloat16>{from.data<float>(), to.data<Bfloat16>()});
  }
  assert(from.precision == Precision::bfloat16 && to.precision == Precision::float32);
  each_element(from.elements(), Convert<Bfloat16, float>{from.data<Bfloat16>(), to.data<float>()});
}

Late<bool> CudaBackend::is_finite(const Tensor& x) {
  auto flag = room<std::int32_t>(1);
  set_to_zero(commands_, flag.get(), sizeof(std::int32_t));
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), FindInfinite<T>{x.data<T>(), flag.get()});
  });
  return later<bool, std::int32_t>(std::move(flag), 1,
                                   [](auto flags) { return flags.front() == 0; });
}

template <class T>
void CudaBackend::add_elements(const Tensor& x, Tensor& y) {
  each_element(x.elements(), Add<T>{x.data<T>(), y.data<T>()});
}

/// Either may be another rank's. Where a kernel cannot look into the other GPU's memory, copies of
/// it are added.
void CudaBackend::add(const Tensor& x, Tensor& y) {
  assert(x.bytes() == y.bytes());
  const auto near = [&](const Tensor& tensor) {
    Tensor copy = tensor;
    if (can_use(open_, tensor.storage.get())) return copy;
    copy.storage = scratch_->allocate(tensor.bytes());
    this->copy(tensor, copy);
    return copy;
  };
  const Tensor own_x = near(x);
  Tensor own_y = near(y);
  with_type(x.precision, [&]<class T>(T) { add_elements<T>(own_x, own_y); });
  if (own_y.storage != y.storage) copy(own_y, y);
}

void CudaBackend::largest(const Tensor& x, Tensor& y) {
  assert(x.bytes() == y.bytes());
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), Largest<T>{x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::add_bias(const Tensor& bias, Tensor& x) {
  assert(bias.elements() == column_count(x));
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), AddBias<T>{bias.data<T>(), x.data<T>(), column_count(x)});
  });
}

void CudaBackend::gelu(const Tensor& x, Tensor& y) {
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), Gelu<T>{x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), GeluInput<T>{dy.data<T>(), x.data<T>(), dx.data<T>()});
  });
}

void CudaBackend::swiglu(const Tensor& x, Tensor& y) {
  with_type(x.precision, [&]<class T>(T) {
    each_element(y.elements(), Swiglu<T>{x.data<T>(), y.data<T>(), column_count(y)});
  });
}

void CudaBackend::swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  with_type(x.precision, [&]<class T>(T) {
    each_element(dy.elements(),
                 SwigluInput<T>{dy.data<T>(), x.data<T>(), dx.data<T>(), column_count(dy)});
  });
}

// --- Products and sums of rows -------------------------------------------------------------------

void CudaBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                         Tensor& c, bool accumulate) {
  matmul_.run(commands_, operand(a, transpose_a), operand(b, transpose_b), operand(c, false),
              accumulate);
}

template <class Term>
void CudaBackend::sum_rows(const Tensor& rows, const Term& term, Tensor& sums) {
  const std::int64_t columns = column_count(rows);
  assert(sums.elements() == columns && sums.precision == Precision::float32);
  const auto partial = room<float>(RowChunks{row_count(rows)}.count() * columns);
  add_columns(commands_, row_count(rows), columns, term, partial.get(), sums.data<float>());
}

void CudaBackend::bias_gradient(const Tensor& gradient, Tensor& bias_gradient) {
  with_type(gradient.precision, [&]<class T>(T) {
    sum_rows(gradient, BiasTerm<T>{gradient.data<T>(), column_count(gradient)}, bias_gradient);
  });
}

void CudaBackend::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& residual, Tensor& y) {
  if (bias.empty() && residual.empty()) return matmul(x, false, weight, false, y, false);
  const Fused fused{.bias = bias.storage.get(), .residual = residual.storage.get()};
  if (matmul_.try_run(commands_, operand(x, false), operand(weight, false), operand(y, false),
                      false, fused)) {
    return;
  }
  Backend::linear(x, weight, bias, residual, y);
}

void CudaBackend::linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              Tensor& before, Tensor& y) {
  const Fused fused{
      .kind = Fused::Kind::gelu, .bias = bias.storage.get(), .before = before.storage.get()};
  if (matmul_.try_run(commands_, operand(x, false), operand(weight, false), operand(y, false),
                      false, fused)) {
    return;
  }
  Backend::linear_gelu(x, weight, bias, before, y);
}

void CudaBackend::linear_gelu_input(const Tensor& dy, const Tensor& weight, const Tensor& before,
                                    Tensor& dx) {
  const Fused fused{.kind = Fused::Kind::gelu_input, .before = before.storage.get()};
  if (matmul_.try_run(commands_, operand(dy, false), operand(weight, true), operand(dx, false),
                      false, fused)) {
    return;
  }
  Backend::linear_gelu_input(dy, weight, before, dx);
}

/// cuBLASLt sets the bias's gradient where we add to it.
void CudaBackend::linear_weight(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor& dbias) {
  if (dbias.empty()) return matmul(x, true, dy, false, dweight, true);
  const auto sums = room<float>(dbias.elements());
  const Fused fused{.kind = Fused::Kind::bias_gradient, .bias = sums.get()};
  if (matmul_.try_run(commands_, operand(x, true), operand(dy, false), operand(dweight, false),
                      true, fused)) {
    return each_element(dbias.elements(), Add<float>{sums.get(), dbias.data<float>()});
  }
  Backend::linear_weight(x, dy, dweight, dbias);
}

// --- Norms ---------------------------------------------------------------------------------------

void CudaBackend::norm(const Tensor& x, const Tensor& weight, const Tensor* bias, double epsilon,
                       Tensor& y, Tensor* mean, Tensor& scale) {
  with_type(x.precision, [&]<class T>(T) {
    const NormRows<T> row{.x = x.data<T>(),
                          .weight = weight.data<T>(),
                          .bias = bias == nullptr ? nullptr : bias->data<T>(),
                          .y = y.data<T>(),
                          .mean = mean == nullptr ? nullptr : mean->data<float>(),
                          .scale = scale.data<float>(),
                          .columns = column_count(x),
                          .epsilon = static_cast<float>(epsilon)};
    for_each_row(commands_, row_count(x), column_count(x), row);
  });
}

void CudaBackend::norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                             const Tensor* mean, const Tensor& scale, const Tensor* residual,
                             Tensor& dx) {
  with_type(x.precision, [&]<class T>(T) {
    const NormInputRows<T> row{.dy = dy.data<T>(),
                               .x = x.data<T>(),
                               .weight = weight.data<T>(),
                               .mean = floats(mean),
                               .scale = scale.data<float>(),
                               .residual = residual == nullptr ? nullptr : residual->data<T>(),
                               .dx = dx.data<T>(),
                               .columns = column_count(x)};
    for_each_row(commands_, row_count(x), column_count(x), row);
  });
}

void CudaBackend::norm_weight(const Tensor& dy, const Tensor& x, const Tensor* mean,
                              const Tensor& scale, Tensor& dweight) {
  with_type(x.precision, [&]<class T>(T) {
    sum_rows(x,
             NormWeightTerm<T>{dy.data<T>(), x.data<T>(), floats(mean), scale.data<float>(),
                               column_count(x)},
             dweight);
  });
}

void CudaBackend::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             double epsilon, Tensor& y, Tensor& mean, Tensor& scale) {
  norm(x, weight, &bias, epsilon, y, &mean, scale);
}

void CudaBackend::layer_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                   const Tensor& mean, const Tensor& scale, Tensor& dx) {
  norm_input(dy, x, weight, &mean, scale, nullptr, dx);
}

void CudaBackend::layer_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                    const Tensor& scale, Tensor& dweight, Tensor& dbias) {
  norm_weight(dy, x, &mean, scale, dweight);
  bias_gradient(dy, dbias);
}

void CudaBackend::rms_norm(const Tensor& x, const Tensor& weight, double epsilon, Tensor& y,
                           Tensor& scale) {
  norm(x, weight, nullptr, epsilon, y, nullptr, scale);
}

void CudaBackend::rms_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                 const Tensor& scale, Tensor& dx) {
  norm_input(dy, x, weight, nullptr, scale, nullptr, dx);
}

void CudaBackend::norm_input_and_residual(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                          const Tensor& mean, const Tensor& scale,
                                          const Tensor& residual, Tensor& dx) {
  norm_input(dy, x, weight, mean.empty() ? nullptr : &mean, scale, &residual, dx);
}

void CudaBackend::rms_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& scale,
                                  Tensor& dweight) {
  norm_weight(dy, x, nullptr, scale, dweight);
}

// --- Attention -----------------------------------------------------------------------------------

/// Computed in double, as angles of late positions need it; kept for the next layer.
const Turn* CudaBackend::turns(std::int64_t sequence, std::span<const double> frequencies) {
  auto& kept = turns_[{sequence, {frequencies.begin(), frequencies.end()}}];
  if (kept == nullptr) {
    std::vector<Turn> turns;
    for (std::int64_t position = 0; position < sequence; ++position) {
      for (const double frequency : frequencies) {
        const double angle = static_cast<double>(position) * frequency;
        turns.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
      }
    }
    kept = kept_on_device(std::span<const Turn>(turns));
  }
  return kept.get();
}

void CudaBackend::rotary(Tensor& qkv, const AttentionShape& shape,
                         std::span<const double> frequencies, bool inverse) {
  const std::int64_t heads = shape.heads + shape.key_value_heads;
  const auto pairs = static_cast<std::int64_t>(frequencies.size());
  with_type(qkv.precision, [&]<class T>(T) {
    each_element(shape.samples * shape.sequence * heads * pairs,
                 Rotary<T>{.qkv = qkv.data<T>(),
                           .turns = turns(shape.sequence, frequencies),
                           .sequence = shape.sequence,
                           .heads = heads,
                           .pairs = pairs,
                           .width = column_count(qkv),
                           .direction = inverse ? -1.0f : 1.0f});
  });
}

void CudaBackend::attention(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                            Tensor& log_sum) {
  attention_.forward(qkv, shape, y, log_sum);
}

void CudaBackend::attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y,
                                  const Tensor& log_sum, const AttentionShape& shape,
                                  Tensor& dqkv) {
  attention_.backward(dy, qkv, y, log_sum, shape, dqkv);
}

// --- Images --------------------------------------------------------------------------------------

void CudaBackend::relu(Tensor&) {
  refuse_images();
}
void CudaBackend::relu_input(const Tensor&, const Tensor&, Tensor&) {
  refuse_images();
}
void CudaBackend::images(std::span<const std::int32_t>, Tensor&) {
  refuse_images();
}
void CudaBackend::convolution(const Tensor&, const Tensor&, const Tensor&, const ConvolutionShape&,
                              Tensor&) {
  refuse_images();
}
void CudaBackend::convolution_input(const Tensor&, const Tensor&, const ConvolutionShape&,
                                    Tensor&) {
  refuse_images();
}
void CudaBackend::convolution_weight(const Tensor&, const Tensor&, const ConvolutionShape&, Tensor&,
                                     Tensor&) {
  refuse_images();
}
void CudaBackend::max_pool(const Tensor&, const PoolShape&, Tensor&) {
  refuse_images();
}
void CudaBackend::max_pool_input(const Tensor&, const Tensor&, const PoolShape&, Tensor&) {
  refuse_images();
}

// --- Tokens and losses ---------------------------------------------------------------------------

void CudaBackend::embedding(std::span<const std::int32_t> tokens, const Tensor& table,
                            std::int64_t first, const Tensor& positions, std::int64_t sequence,
                            Tensor& y) {
  const auto there = on_device(tokens);
  with_type(table.precision, [&]<class T>(T) {
    each_element(y.elements(), Embedding<T>{.tokens = there.get(),
                                            .table = table.data<T>(),
                                            .positions = positions.data<T>(),
                                            .y = y.data<T>(),
                                            .first = first,
                                            .rows = row_count(table),
                                            .columns = column_count(table),
                                            .sequence = sequence});
  });
}

void CudaBackend::embedding_weight(std::span<const std::int32_t> tokens, const Tensor& dy,
                                   std::int64_t first, std::int64_t sequence, Tensor& dtable,
                                   Tensor& dpositions) {
  const std::int64_t columns = column_count(dtable);
  const TokenLists lists = token_lists(tokens, first, row_count(dtable));
  const auto places = on_device(std::span<const std::int32_t>(lists.places));
  const auto starts = on_device(std::span<const std::int32_t>(lists.starts));
  const auto rows = on_device(std::span<const std::int32_t>(lists.rows));
  with_type(dy.precision, [&]<class T>(T) {
    each_element(static_cast<std::int64_t>(lists.places.size()) * columns,
                 EmbeddingWeight<T>{dy.data<T>(), places.get(), starts.get(), rows.get(),
                                    dtable.data<float>(), columns});
    if (dpositions.empty()) return;
    each_element(sequence * columns,
                 PositionWeight<T>{dy.data<T>(), dpositions.data<float>(), columns, sequence,
                                   row_count(dy) / sequence});
  });
}

Late<double> CudaBackend::cross_entropy(Tensor& logits, std::span<const std::int32_t> targets,
                                        double scale) {
  const std::int64_t rows = row_count(logits);
  const auto there = on_device(targets);
  auto losses = room<double>(rows);
  with_type(logits.precision, [&]<class T>(T) {
    for_each_row(commands_, rows, column_count(logits),
                 CrossEntropyRows<T>{logits.data<T>(), there.get(), losses.get(),
                                     column_count(logits), static_cast<float>(scale)});
  });
  return later<double, double>(std::move(losses), rows, [](auto of_rows) {
    double sum = 0;
    for (const double loss : of_rows) sum += loss;
    return sum;
  });
}

void CudaBackend::largest_logits(const Tensor& logits, Tensor& tops) {
  with_type(logits.precision, [&]<class T>(T) {
    for_each_row(commands_, row_count(logits), column_count(logits),
                 LargestRows<T>{logits.data<T>(), tops.data<float>(), column_count(logits)});
  });
}

void CudaBackend::exponentials(Tensor& logits, const Tensor& tops,
                               std::span<const std::int32_t> targets, std::int64_t first,
                               Tensor& sums) {
  const auto there = on_device(targets);
  with_type(logits.precision, [&]<class T>(T) {
    for_each_row(commands_, row_count(logits), column_count(logits),
                 ExponentialRows<T>{logits.data<T>(), tops.data<float>(), there.get(),
                                    sums.data<float>(), first, column_count(logits)});
  });
}

Late<double> CudaBackend::cross_entropy_of_part(Tensor& logits, const Tensor& sums,
                                                std::span<const std::int32_t> targets,
                                                std::int64_t first, double scale) {
  const auto there = on_device(targets);
  with_type(logits.precision, [&]<class T>(T) {
    each_element(logits.elements(),
                 GradientOfPart<T>{logits.data<T>(), sums.data<float>(), there.get(), first,
                                   column_count(logits), static_cast<float>(scale)});
  });
  // The tensor itself stays until it has been read.
  return later<double, float>(
      std::shared_ptr<float>(sums.storage, const_cast<float*>(sums.data<float>())), sums.elements(),
      [](auto numbers) {
        double loss = 0;
        for (std::size_t i = 0; i < numbers.size(); i += 2) {
          loss += std::log(static_cast<double>(numbers[i])) - static_cast<double>(numbers[i + 1]);
        }
        return loss;
      });
}

// --- Optimizers ----------------------------------------------------------------------------------

TensorTable CudaBackend::on_device(const std::vector<UpdatedTensor>& table) {
  auto kept = std::ranges::find(tables_, table, [](const auto& each) { return each.first; });
  if (kept == tables_.end()) {
    if (tables_.size() == most_tables) tables_.erase(tables_.begin());
    tables_.emplace_back(table, kept_on_device(std::span<const UpdatedTensor>(table)));
    kept = tables_.end() - 1;
  }
  return {kept->second.get(), static_cast<std::int32_t>(table.size())};
}

template <class Step>
void CudaBackend::take_step(const Step& step, std::span<WeightUpdate> updates) {
  assert(std::ranges::all_of(updates, [](const WeightUpdate& each) {
    return each.updated.precision == Precision::float32;
  }));
  const std::vector<UpdatedTensor> table = table_of(updates);
  const auto numbers = on_device(std::span<const Step>(&step, 1));
  for_each_row(commands_, part_count(table), part_elements,
               StepOfParts<Step>{on_device(table), numbers.get()});
}

void CudaBackend::adamw_step(const AdamW& options, int step, double factor,
                             std::span<WeightUpdate> updates) {
  take_step(step_numbers(options, step, factor), updates);
}

void CudaBackend::sgd_step(const Sgd& options, double factor, std::span<WeightUpdate> updates) {
  take_step(step_numbers(options, factor), updates);
}

void CudaBackend::adamw(const AdamW& options, int step, const Tensor& gradient,
                        Tensor& first_moment, Tensor& second_moment, const Tensor& weight,
                        Tensor& updated) {
  WeightUpdate update{.gradient = gradient,
                      .first_moment = first_moment,
                      .second_moment = second_moment,
                      .weight = weight,
                      .updated = updated,
                      .rounded = {}};
  take_step(step_numbers(options, step, 1), {&update, 1});
}

void CudaBackend::sgd(const Sgd& options, const Tensor& gradient, const Tensor& weight,
                      Tensor& updated) {
  WeightUpdate update{.gradient = gradient,
                      .first_moment = {},
                      .second_moment = {},
                      .weight = weight,
                      .updated = updated,
                      .rounded = {}};
  take_step(step_numbers(options, 1), {&update, 1});
}

void CudaBackend::scale(double factor, Tensor& x) {
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), Scale<T>{x.data<T>(), static_cast<float>(factor)});
  });
}

std::vector<double> CudaBackend::sums_of_squares(std::span<const Tensor> tensors) {
  assert(std::ranges::all_of(
      tensors, [](const Tensor& each) { return each.precision == Precision::float32; }));
  const std::vector<UpdatedTensor> table = table_of(tensors);
  const std::int64_t parts = part_count(table);
  const auto sums = room<float>(parts);
  for_each_row(commands_, parts, part_elements, SquaresOfParts{on_device(table), sums.get()});
  return sums_of_tensors(tensors, on_host(sums.get(), parts));
}

}  // namespace stagecraft::cuda
