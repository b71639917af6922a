// Operations of layers, but those on tokens.

#include <cmath>

#include "executor/backends/cuda/cuda_backend_parts.hpp"
#include "executor/backends/cuda/neighbours.hpp"

namespace stagecraft::cuda {

namespace {

[[noreturn]] void refuse_images() {
  throw Error(ErrorKind::execution,
              "--backend cuda trains transformers: it has no layers for images; --backend cpu has");
}

Operand operand(const Tensor& tensor, bool transposed) {
  Operand all = dense(tensor.storage.get(), tensor.precision, row_count(tensor),
                      column_count(tensor), transposed);
  all.stride = tensor.row_stride();
  return all;
}

const float* floats(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->data<float>();
}

}  // namespace

// --- Element by element --------------------------------------------------------------------------

void CudaBackend::convert(const Tensor& from, Tensor& to) {
  assert(from.elements() == to.elements());
  if (from.precision == to.precision) return copy(from, to);
  settle(from);
  settle(to);
  sums_.wrote(to);
  if (from.precision == Precision::float32 && to.precision == Precision::bfloat16) {
    return each_element(from.elements(),
                        Convert<float, Bfloat16>{from.data<float>(), to.data<Bfloat16>()});
  }
  assert(from.precision == Precision::bfloat16 && to.precision == Precision::float32);
  each_element(from.elements(), Convert<Bfloat16, float>{from.data<Bfloat16>(), to.data<float>()});
}

Late<bool> CudaBackend::is_finite(const Tensor& x) {
  settle(x);
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
  settle(x);
  settle(y);
  sums_.wrote(y);
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
  settle(x);
  settle(y);
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), Largest<T>{x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::add_bias(const Tensor& bias, Tensor& x) {
  sums_.wrote(x);
  assert(bias.elements() == column_count(x));
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), AddBias<T>{bias.data<T>(), x.data<T>(), column_count(x)});
  });
}

void CudaBackend::gelu(const Tensor& x, Tensor& y) {
  sums_.wrote(y);
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), Gelu<T>{x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  sums_.wrote(dx);
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), GeluInput<T>{dy.data<T>(), x.data<T>(), dx.data<T>()});
  });
}

void CudaBackend::swiglu(const Tensor& x, Tensor& y) {
  sums_.wrote(y);
  with_type(x.precision, [&]<class T>(T) {
    each_element(y.elements(), Swiglu<T>{x.data<T>(), y.data<T>(), column_count(y)});
  });
}

void CudaBackend::swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  sums_.wrote(dx);
  with_type(x.precision, [&]<class T>(T) {
    each_element(dy.elements(),
                 SwigluInput<T>{dy.data<T>(), x.data<T>(), dx.data<T>(), column_count(dy)});
  });
}

// --- Products and sums of rows -------------------------------------------------------------------

void CudaBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                         Tensor& c, bool accumulate) {
  sums_.wrote(c);
  const bool adds = adds_to(c) && accumulate;
  matmul_.run_in_parts(commands_, operand(a, transpose_a), operand(b, transpose_b),
                       operand(c, false), adds);
}

void CudaBackend::bias_gradient(const Tensor& gradient, Tensor& bias_gradient) {
  with_type(gradient.precision, [&]<class T>(T) {
    add_later(chunk_sums(gradient, BiasTerm<T>{gradient.data<T>(), column_count(gradient)}), 0,
              bias_gradient);
  });
}

void CudaBackend::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& residual, Tensor& y) {
  if (bias.empty() && residual.empty()) return matmul(x, false, weight, false, y, false);
  sums_.wrote(y);
  const Fused fused{.bias = bias.storage.get(), .residual = residual.storage.get()};
  if (matmul_.try_run(commands_, operand(x, false), operand(weight, false), operand(y, false),
                      false, fused)) {
    return;
  }
  Backend::linear(x, weight, bias, residual, y);
}

void CudaBackend::linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              Tensor& before, Tensor& y) {
  sums_.wrote(before);
  sums_.wrote(y);
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
  sums_.wrote(dx);
  const Fused fused{.kind = Fused::Kind::gelu_input, .before = before.storage.get()};
  if (matmul_.try_run(commands_, operand(dy, false), operand(weight, true), operand(dx, false),
                      false, fused)) {
    return;
  }
  Backend::linear_gelu_input(dy, weight, before, dx);
}

/// The bias's gradient is not left to cuBLASLt, whose epilogue for it is a kernel of its own,
/// slower than ours, and has other bits than the sums that a norm behind may have made already.
void CudaBackend::linear_weight(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor& dbias) {
  matmul(x, true, dy, false, dweight, true);
  if (dbias.empty()) return;
  if (const auto pass = sums_.pass_to(dy)) return add_later(pass->sums, NormSums::output, dbias);
  bias_gradient(dy, dbias);
}

// --- Norms ---------------------------------------------------------------------------------------

void CudaBackend::norm(const Tensor& x, const Tensor& weight, const Tensor* bias, double epsilon,
                       Tensor& y, Tensor* mean, Tensor& scale) {
  sums_.wrote(y);
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
  sums_.wrote(dx);
  const std::int64_t rows = row_count(x), columns = column_count(x);
  with_type(x.precision, [&]<class T>(T) {
    const NormInputRows<T> row{.dy = dy.data<T>(),
                               .x = x.data<T>(),
                               .weight = weight.data<T>(),
                               .mean = floats(mean),
                               .scale = scale.data<float>(),
                               .residual = residual == nullptr ? nullptr : residual->data<T>(),
                               .dx = dx.data<T>(),
                               .columns = columns};
    // The weight's gradient is asked for in the same work, and needs the same numbers.
    if (!is_backward_ || !can_go_back_in_chunks(row)) {
      return for_each_row(commands_, rows, columns, row);
    }
    const RowChunks chunks = chunks_of<T>(rows, columns);
    const ColumnSums sums{room<float>(NormSums::count * chunks.count() * columns), chunks.count(),
                          columns};
    norm_backward(commands_, chunks, row, sums.numbers.get());
    sums_.note({.dy = dy, .x = x, .dx = dx, .sums = sums});
  });
}

void CudaBackend::norm_weight(const Tensor& dy, const Tensor& x, const Tensor* mean,
                              const Tensor& scale, Tensor& dweight, Tensor* dbias) {
  const auto add_both = [&](const ColumnSums& sums) {
    add_later(sums, NormSums::weight, dweight);
    if (dbias != nullptr) add_later(sums, NormSums::bias, *dbias);
  };
  if (const auto pass = sums_.pass_of(dy, x)) return add_both(pass->sums);
  with_type(x.precision, [&]<class T>(T) {
    add_both(chunk_sums(x, NormWeightTerm<T>{dy.data<T>(), x.data<T>(), floats(mean),
                                             scale.data<float>(), column_count(x)}));
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
  norm_weight(dy, x, &mean, scale, dweight, &dbias);
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
  norm_weight(dy, x, nullptr, scale, dweight, nullptr);
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
  sums_.wrote(qkv);
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
  sums_.wrote(y);
  attention_.forward(qkv, shape, y, log_sum);
}

void CudaBackend::attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y,
                                  const Tensor& log_sum, const AttentionShape& shape,
                                  Tensor& dqkv) {
  sums_.wrote(dqkv);
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

}  // namespace stagecraft::cuda
