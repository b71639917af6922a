// The CPU backend: checks shapes and calls the kernels of backends/cpu/ in the tensors' precision.

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "executor/backends/backend.hpp"
#include "executor/backends/cpu/kernels.hpp"
#include "executor/backends/cpu/memory.hpp"
#include "executor/backends/cpu/openblas.hpp"
#include "executor/backends/dry.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

// Calls compute(T{}) with the tensor's element type.
template <class Compute>
auto with_type(Precision precision, Compute compute) {
  switch (precision) {
    case Precision::float32: return compute(float{});
    case Precision::float64: return compute(double{});
    case Precision::bfloat16:
    case Precision::float16:
    case Precision::float8:
    case Precision::float8_with_attention: break;
  }
  fail("the CPU backend computes in fp32 or fp64, not in ", to_string(precision));
}

// Leading dimensions folded into rows.
std::int64_t column_count(const Tensor& tensor) {
  return tensor.shape.empty() ? 0 : tensor.shape.back();
}

std::int64_t row_count(const Tensor& tensor) {
  const std::int64_t columns = column_count(tensor);
  return columns == 0 ? 0 : tensor.elements() / columns;
}

template <class T>
cpu::Matrix<T> matrix(Tensor& tensor) {
  return {tensor.data<T>(), row_count(tensor), column_count(tensor)};
}

template <class T>
cpu::Matrix<const T> matrix(const Tensor& tensor) {
  return {tensor.data<T>(), row_count(tensor), column_count(tensor)};
}

template <class T>
cpu::Factor<T> factor(const Tensor& tensor, bool transposed) {
  return {tensor.data<T>(), column_count(tensor), transposed};
}

bool same_size(const Tensor& a, const Tensor& b) {
  return a.elements() == b.elements() && a.precision == b.precision;
}

/// NaN and infinity have all bits of the exponent set: one more carries into the sign.
template <class T>
bool are_finite(const T* x, std::int64_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits magnitude = static_cast<Bits>(-1) >> 1;
  constexpr Bits one_more = magnitude + 1 - std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits seen = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    seen |= static_cast<Bits>((std::bit_cast<Bits>(x[i]) & magnitude) + one_more);
  }
  return (seen & ~magnitude) == 0;
}

cpu::ExpertSizes sizes_of(const Tensor& x, const ExpertChoice& choice, const Tensor& active) {
  return {.tokens = row_count(x),
          .hidden = column_count(x),
          .inner = column_count(active),
          .active = column_count(choice.chosen)};
}

template <class T>
cpu::ExpertRows<T> rows_of_experts(const ExpertChoice& choice) {
  return {matrix<T>(choice.probabilities), matrix<T>(choice.chosen), choice.shares_add_up};
}

template <class T>
std::vector<const T*> data_of(std::span<const Tensor> tensors) {
  std::vector<const T*> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.data<T>());
  return all;
}

template <class T>
std::vector<T*> data_of(std::span<Tensor> tensors) {
  std::vector<T*> all;
  for (Tensor& tensor : tensors) all.push_back(tensor.data<T>());
  return all;
}

/// The room that some calls take is part of what they allocate.
class DryCpuBackend final : public DryBackend {
 public:
  void attention(const Tensor& qkv, const AttentionShape& shape, Tensor&, Tensor&) override {
    allocate({cpu::attention_workspace(shape)}, qkv.precision);
  }
  void attention_input(const Tensor&, const Tensor& qkv, const Tensor&, const Tensor&,
                       const AttentionShape& shape, Tensor&) override {
    allocate({cpu::attention_input_workspace(shape)}, qkv.precision);
  }
  void experts(const Tensor& x, const ExpertChoice& choice, std::span<const Tensor>,
               std::span<const Tensor>, Tensor&, Tensor& active, Tensor&) override {
    allocate({cpu::experts_workspace(sizes_of(x, choice, active))}, x.precision);
  }
  void experts_input(const Tensor& dy, const ExpertChoice& choice, std::span<const Tensor>,
                     std::span<const Tensor>, const Tensor&, const Tensor& active, Tensor&, Tensor&,
                     Tensor&) override {
    allocate({cpu::experts_input_workspace(sizes_of(dy, choice, active))}, dy.precision);
  }
  void experts_weight(const Tensor& x, const Tensor&, const ExpertChoice& choice,
                      const Tensor& active, const Tensor&, std::span<Tensor>,
                      std::span<Tensor>) override {
    allocate({cpu::experts_workspace(sizes_of(x, choice, active))}, x.precision);
  }
  void convolution(const Tensor& x, const Tensor&, const Tensor&, const ConvolutionShape& shape,
                   Tensor&) override {
    allocate({cpu::convolution_workspace(shape)}, x.precision);
  }
  void convolution_input(const Tensor& dy, const Tensor&, const ConvolutionShape& shape,
                         Tensor&) override {
    allocate({cpu::convolution_workspace(shape)}, dy.precision);
  }
  void convolution_weight(const Tensor&, const Tensor& x, const ConvolutionShape& shape, Tensor&,
                          Tensor&) override {
    allocate({cpu::convolution_workspace(shape)}, x.precision);
  }
};

class CpuBackend : public Backend {
 public:
  Tensor allocate_apart(std::vector<std::int64_t> shape, Precision precision) override {
    with_type(precision, [](auto) {});
    Tensor tensor{.storage = nullptr, .shape = std::move(shape), .precision = precision};
    Bytes bytes = element_bytes(precision);
    for (const std::int64_t extent : tensor.shape) bytes *= extent;
    tensor.storage = memory_->allocate(bytes);
    return tensor;
  }

  void forbid(const void* memory, Bytes bytes) override {
    ASAN_POISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
  }
  void permit(const void* memory, Bytes bytes) override {
    ASAN_UNPOISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
  }

  Bytes allocated_bytes() const override { return memory_->allocated().now(); }
  Bytes peak_bytes() const override { return memory_->allocated().peak(); }
  void reset_peak() override { memory_->reset_peak(); }

  void finish() override {}

  void upload(std::span<const std::byte> from, Tensor& to) override {
    assert(from.size() == static_cast<std::size_t>(to.bytes()));
    std::ranges::copy(from, bytes_of(to).begin());
  }

  void download(const Tensor& from, std::span<std::byte> to) override {
    assert(to.size() == static_cast<std::size_t>(from.bytes()));
    std::ranges::copy(bytes_of(from), to.begin());
  }

  void zero(Tensor& x) override {
    std::memset(x.storage.get(), 0, static_cast<std::size_t>(x.bytes()));
  }

  void copy(const Tensor& from, Tensor& to) override {
    assert(same_size(from, to));
    std::memcpy(to.storage.get(), from.storage.get(), static_cast<std::size_t>(from.bytes()));
  }

  void convert(const Tensor& from, Tensor& to) override {
    assert(from.elements() == to.elements());
    with_type(from.precision, [&]<class From>(From) {
      with_type(to.precision, [&]<class To>(To) {
        std::transform(from.data<From>(), from.data<From>() + from.elements(), to.data<To>(),
                       [](From value) { return static_cast<To>(value); });
      });
    });
  }

  Late<bool> is_finite(const Tensor& x) override {
    return with_type(x.precision,
                     [&]<class T>(T) { return are_finite(x.data<T>(), x.elements()); });
  }

  void add(const Tensor& x, Tensor& y) override {
    assert(same_size(x, y));
    with_type(x.precision, [&]<class T>(T) { cpu::add(x.data<T>(), y.data<T>(), x.elements()); });
  }
  void largest(const Tensor& x, Tensor& y) override {
    with_type(x.precision, [&]<class T>(T) {
      for (std::int64_t i = 0; i < x.elements(); ++i) {
        y.data<T>()[i] = std::max(x.data<T>()[i], y.data<T>()[i]);
      }
    });
  }

  void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
              bool accumulate) override {
    const std::int64_t inner = transpose_a ? row_count(a) : column_count(a);
    assert(inner == (transpose_b ? column_count(b) : row_count(b)));
    assert(row_count(c) == (transpose_a ? column_count(a) : row_count(a)));
    assert(column_count(c) == (transpose_b ? row_count(b) : column_count(b)));
    with_type(c.precision, [&]<class T>(T) {
      cpu::multiply(1, factor<T>(a, transpose_a), factor<T>(b, transpose_b), inner,
                    accumulate ? 1 : 0,
                    {c.data<T>(), column_count(c), row_count(c), column_count(c)});
    });
  }

  void add_bias(const Tensor& bias, Tensor& x) override {
    assert(bias.elements() == column_count(x));
    with_type(x.precision, [&]<class T>(T) { cpu::add_bias(bias.data<T>(), matrix<T>(x)); });
  }

  void bias_gradient(const Tensor& gradient, Tensor& bias_gradient) override {
    assert(bias_gradient.elements() == column_count(gradient));
    with_type(gradient.precision,
              [&]<class T>(T) { cpu::add_rows(matrix<T>(gradient), bias_gradient.data<T>()); });
  }

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                  Tensor& y, Tensor& mean, Tensor& scale) override {
    assert(same_size(x, y) && weight.elements() == column_count(x));
    with_type(x.precision, [&]<class T>(T) {
      cpu::layer_norm(matrix<T>(x), weight.data<T>(), bias.data<T>(), static_cast<T>(epsilon),
                      y.data<T>(), mean.data<T>(), scale.data<T>());
    });
  }

  void layer_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                        const Tensor& scale, Tensor& dx) override {
    assert(same_size(x, dy) && same_size(x, dx));
    with_type(x.precision, [&]<class T>(T) {
      cpu::layer_norm_input(dy.data<T>(), matrix<T>(x), weight.data<T>(), mean.data<T>(),
                            scale.data<T>(), dx.data<T>());
    });
  }

  void layer_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& scale,
                         Tensor& dweight, Tensor& dbias) override {
    assert(same_size(x, dy) && dweight.elements() == column_count(x));
    with_type(x.precision, [&]<class T>(T) {
      cpu::layer_norm_weight(dy.data<T>(), matrix<T>(x), mean.data<T>(), scale.data<T>(),
                             dweight.data<T>(), dbias.data<T>());
    });
  }

  void rms_norm(const Tensor& x, const Tensor& weight, double epsilon, Tensor& y,
                Tensor& scale) override {
    assert(same_size(x, y) && weight.elements() == column_count(x));
    with_type(x.precision, [&]<class T>(T) {
      cpu::rms_norm(matrix<T>(x), weight.data<T>(), static_cast<T>(epsilon), y.data<T>(),
                    scale.data<T>());
    });
  }

  void rms_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& scale,
                      Tensor& dx) override {
    assert(same_size(x, dy) && same_size(x, dx));
    with_type(x.precision, [&]<class T>(T) {
      cpu::rms_norm_input(dy.data<T>(), matrix<T>(x), weight.data<T>(), scale.data<T>(),
                          dx.data<T>());
    });
  }

  void rms_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& scale,
                       Tensor& dweight) override {
    assert(same_size(x, dy) && dweight.elements() == column_count(x));
    with_type(x.precision, [&]<class T>(T) {
      cpu::rms_norm_weight(dy.data<T>(), matrix<T>(x), scale.data<T>(), dweight.data<T>());
    });
  }

  void norm_queries_and_keys(Tensor& qkv, const AttentionShape& shape, const Tensor& query_weight,
                             const Tensor& key_weight, double epsilon, Tensor& raw,
                             Tensor& scale) override {
    assert(fits(qkv, shape, 0));
    with_type(qkv.precision, [&]<class T>(T) {
      const auto [query, key] = norms_of(shape, query_weight, key_weight);
      cpu::norms_of_rows(qkv.data<T>(), query, query_weight.data<T>(), static_cast<T>(epsilon),
                         raw.data<T>(), scale.data<T>());
      const std::int64_t keys = first_key(shape);
      cpu::norms_of_rows(qkv.data<T>() + keys, key, key_weight.data<T>(), static_cast<T>(epsilon),
                         raw.data<T>() + keys, scale.data<T>() + query.norms);
    });
  }

  void norm_queries_and_keys_input(Tensor& dqkv, const AttentionShape& shape, const Tensor& raw,
                                   const Tensor& scale, const Tensor& query_weight,
                                   const Tensor& key_weight, Tensor& dnormed) override {
    assert(fits(dqkv, shape, 0) && same_size(raw, dnormed));
    with_type(dqkv.precision, [&]<class T>(T) {
      const auto [query, key] = norms_of(shape, query_weight, key_weight);
      cpu::norms_of_rows_input(dqkv.data<T>(), query, raw.data<T>(), scale.data<T>(),
                               query_weight.data<T>(), dnormed.data<T>());
      const std::int64_t keys = first_key(shape);
      cpu::norms_of_rows_input(dqkv.data<T>() + keys, key, raw.data<T>() + keys,
                               scale.data<T>() + query.norms, key_weight.data<T>(),
                               dnormed.data<T>() + keys);
    });
  }

  void norm_queries_and_keys_weight(const Tensor& dnormed, const AttentionShape& shape,
                                    const Tensor& raw, const Tensor& scale, Tensor& dquery_weight,
                                    Tensor& dkey_weight) override {
    assert(same_size(raw, dnormed));
    with_type(raw.precision, [&]<class T>(T) {
      const auto [query, key] = norms_of(shape, dquery_weight, dkey_weight);
      cpu::norms_of_rows_weight(dnormed.data<T>(), query, raw.data<T>(), scale.data<T>(),
                                dquery_weight.data<T>());
      const std::int64_t keys = first_key(shape);
      cpu::norms_of_rows_weight(dnormed.data<T>() + keys, key, raw.data<T>() + keys,
                                scale.data<T>() + query.norms, dkey_weight.data<T>());
    });
  }

  void gelu(const Tensor& x, Tensor& y) override {
    assert(same_size(x, y));
    with_type(x.precision, [&]<class T>(T) { cpu::gelu(x.data<T>(), y.data<T>(), x.elements()); });
  }

  void gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    assert(same_size(x, dy) && same_size(x, dx));
    with_type(x.precision, [&]<class T>(T) {
      cpu::gelu_input(dy.data<T>(), x.data<T>(), dx.data<T>(), x.elements());
    });
  }

  void swiglu(const Tensor& x, Tensor& y) override {
    assert(column_count(x) == 2 * column_count(y) && row_count(x) == row_count(y));
    with_type(x.precision, [&]<class T>(T) { cpu::swiglu(matrix<T>(x), y.data<T>()); });
  }

  void swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    assert(column_count(x) == 2 * column_count(dy) && same_size(x, dx));
    with_type(x.precision,
              [&]<class T>(T) { cpu::swiglu_input(dy.data<T>(), matrix<T>(x), dx.data<T>()); });
  }

  void exact_gelu(const Tensor& x, Tensor& y) override {
    assert(same_size(x, y));
    with_type(x.precision,
              [&]<class T>(T) { cpu::exact_gelu(x.data<T>(), y.data<T>(), x.elements()); });
  }

  void exact_gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    assert(same_size(x, dy) && same_size(x, dx));
    with_type(x.precision, [&]<class T>(T) {
      cpu::exact_gelu_input(dy.data<T>(), x.data<T>(), dx.data<T>(), x.elements());
    });
  }

  void geglu(const Tensor& x, Tensor& y) override {
    assert(column_count(x) == 2 * column_count(y) && row_count(x) == row_count(y));
    with_type(x.precision, [&]<class T>(T) { cpu::geglu(matrix<T>(x), y.data<T>()); });
  }

  void geglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    assert(column_count(x) == 2 * column_count(dy) && same_size(x, dx));
    with_type(x.precision,
              [&]<class T>(T) { cpu::geglu_input(dy.data<T>(), matrix<T>(x), dx.data<T>()); });
  }

  void one_more(const Tensor& x, Tensor& y) override {
    assert(same_size(x, y));
    with_type(x.precision,
              [&]<class T>(T) { cpu::one_more(x.data<T>(), y.data<T>(), x.elements()); });
  }

  void choose_experts(Tensor& logits, Tensor& chosen) override {
    assert(row_count(logits) == row_count(chosen));
    with_type(logits.precision, [&]<class T>(T) {
      cpu::choose_experts(matrix<T>(logits), column_count(chosen), chosen.data<T>());
    });
  }

  void experts(const Tensor& x, const ExpertChoice& choice, std::span<const Tensor> up,
               std::span<const Tensor> down, Tensor& before, Tensor& active, Tensor& y) override {
    assert(same_size(x, y) && row_count(active) == choice.chosen.elements());
    const cpu::ExpertSizes sizes = sizes_of(x, choice, active);
    Tensor workspace = allocate({cpu::experts_workspace(sizes)}, x.precision);
    with_type(x.precision, [&]<class T>(T) {
      cpu::experts<T>(x.data<T>(), sizes, rows_of_experts<T>(choice), data_of<T>(up),
                      data_of<T>(down), before.data<T>(), active.data<T>(), y.data<T>(),
                      workspace.data<T>());
    });
  }

  void experts_input(const Tensor& dy, const ExpertChoice& choice, std::span<const Tensor> up,
                     std::span<const Tensor> down, const Tensor& before, const Tensor& active,
                     Tensor& dbefore, Tensor& dx, Tensor& dlogits) override {
    assert(same_size(dy, dx) && same_size(before, dbefore));
    assert(same_size(choice.probabilities, dlogits));
    const cpu::ExpertSizes sizes = sizes_of(dy, choice, active);
    Tensor workspace = allocate({cpu::experts_input_workspace(sizes)}, dy.precision);
    with_type(dy.precision, [&]<class T>(T) {
      cpu::experts_input<T>(dy.data<T>(), sizes, rows_of_experts<T>(choice), data_of<T>(up),
                            data_of<T>(down), before.data<T>(), active.data<T>(), dbefore.data<T>(),
                            dx.data<T>(), dlogits.data<T>(), workspace.data<T>());
    });
  }

  void experts_weight(const Tensor& x, const Tensor& dy, const ExpertChoice& choice,
                      const Tensor& active, const Tensor& dbefore, std::span<Tensor> dup,
                      std::span<Tensor> ddown) override {
    assert(same_size(x, dy) && dup.size() == ddown.size());
    const cpu::ExpertSizes sizes = sizes_of(x, choice, active);
    Tensor workspace = allocate({cpu::experts_workspace(sizes)}, x.precision);
    with_type(x.precision, [&]<class T>(T) {
      cpu::experts_weight<T>(x.data<T>(), dy.data<T>(), sizes, rows_of_experts<T>(choice),
                             active.data<T>(), dbefore.data<T>(), data_of<T>(dup),
                             data_of<T>(ddown), workspace.data<T>());
    });
  }

  void rotary(Tensor& qkv, const AttentionShape& shape, std::span<const double> frequencies,
              bool inverse) override {
    assert(fits(qkv, shape, 0));
    assert(2 * static_cast<std::int64_t>(frequencies.size()) <= shape.head_width);
    with_type(qkv.precision,
              [&]<class T>(T) { cpu::rotary(qkv.data<T>(), shape, frequencies, inverse); });
  }

  void attention(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                 Tensor& log_sum) override {
    assert(fits(qkv, shape, shape.past));
    Tensor workspace = allocate({cpu::attention_workspace(shape)}, qkv.precision);
    with_type(qkv.precision, [&]<class T>(T) {
      cpu::attention(qkv.data<T>(), shape, y.data<T>(), log_sum.data<T>(), workspace.data<T>());
    });
  }

  void attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y, const Tensor& log_sum,
                       const AttentionShape& shape, Tensor& dqkv) override {
    assert(fits(qkv, shape, shape.past) && same_size(y, dy) && same_size(qkv, dqkv));
    Tensor workspace = allocate({cpu::attention_input_workspace(shape)}, qkv.precision);
    with_type(qkv.precision, [&]<class T>(T) {
      cpu::attention_input(dy.data<T>(), qkv.data<T>(), y.data<T>(), log_sum.data<T>(), shape,
                           dqkv.data<T>(), workspace.data<T>());
    });
  }

  void relu(Tensor& x) override {
    with_type(x.precision, [&]<class T>(T) { cpu::relu(x.data<T>(), x.elements()); });
  }

  void relu_input(const Tensor& dy, const Tensor& y, Tensor& dx) override {
    assert(same_size(y, dy) && same_size(y, dx));
    with_type(y.precision, [&]<class T>(T) {
      cpu::relu_input(dy.data<T>(), y.data<T>(), dx.data<T>(), y.elements());
    });
  }

  void images(std::span<const std::int32_t> pixels, Tensor& y) override {
    assert(y.elements() == static_cast<std::int64_t>(pixels.size()));
    with_type(y.precision, [&]<class T>(T) { cpu::images(pixels, y.data<T>()); });
  }

  void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const ConvolutionShape& shape, Tensor& y) override {
    assert(fits(x, shape, shape.input_channels) && fits(y, shape, shape.output_channels));
    Tensor workspace = allocate({cpu::convolution_workspace(shape)}, x.precision);
    with_type(x.precision, [&]<class T>(T) {
      cpu::convolution(x.data<T>(), weight.data<T>(), bias.data<T>(), shape, y.data<T>(),
                       workspace.data<T>());
    });
  }

  void convolution_input(const Tensor& dy, const Tensor& weight, const ConvolutionShape& shape,
                         Tensor& dx) override {
    assert(fits(dx, shape, shape.input_channels) && fits(dy, shape, shape.output_channels));
    Tensor workspace = allocate({cpu::convolution_workspace(shape)}, dy.precision);
    with_type(dy.precision, [&]<class T>(T) {
      cpu::convolution_input(dy.data<T>(), weight.data<T>(), shape, dx.data<T>(),
                             workspace.data<T>());
    });
  }

  void convolution_weight(const Tensor& dy, const Tensor& x, const ConvolutionShape& shape,
                          Tensor& dweight, Tensor& dbias) override {
    assert(fits(x, shape, shape.input_channels) && fits(dy, shape, shape.output_channels));
    Tensor workspace = allocate({cpu::convolution_workspace(shape)}, x.precision);
    with_type(x.precision, [&]<class T>(T) {
      cpu::convolution_weight(dy.data<T>(), x.data<T>(), shape, dweight.data<T>(), dbias.data<T>(),
                              workspace.data<T>());
    });
  }

  void max_pool(const Tensor& x, const PoolShape& shape, Tensor& y) override {
    assert(x.elements() == y.elements() * shape.window * shape.window);
    with_type(x.precision, [&]<class T>(T) { cpu::max_pool(x.data<T>(), shape, y.data<T>()); });
  }

  void max_pool_input(const Tensor& dy, const Tensor& x, const PoolShape& shape,
                      Tensor& dx) override {
    assert(same_size(x, dx) && x.elements() == dy.elements() * shape.window * shape.window);
    with_type(x.precision, [&]<class T>(T) {
      cpu::max_pool_input(dy.data<T>(), x.data<T>(), shape, dx.data<T>());
    });
  }

  void embedding(std::span<const std::int32_t> tokens, const Tensor& table, std::int64_t first,
                 const Tensor& positions, std::int64_t sequence, Tensor& y) override {
    assert(row_count(y) == static_cast<std::int64_t>(tokens.size()));
    assert(positions.empty() || sequence <= row_count(positions));
    with_type(table.precision, [&]<class T>(T) {
      cpu::embedding(tokens, matrix<T>(table), first, matrix<T>(positions), sequence, y.data<T>());
    });
  }

  void embedding_weight(std::span<const std::int32_t> tokens, const Tensor& dy, std::int64_t first,
                        std::int64_t sequence, Tensor& dtable, Tensor& dpositions) override {
    assert(row_count(dy) == static_cast<std::int64_t>(tokens.size()));
    with_type(dtable.precision, [&]<class T>(T) {
      cpu::embedding_weight(tokens, dy.data<T>(), first, sequence, matrix<T>(dtable),
                            matrix<T>(dpositions));
    });
  }

  Late<double> cross_entropy(Tensor& logits, std::span<const std::int32_t> targets,
                             double scale) override {
    assert(row_count(logits) == static_cast<std::int64_t>(targets.size()));
    return with_type(logits.precision, [&]<class T>(T) {
      return cpu::cross_entropy(matrix<T>(logits), targets, scale);
    });
  }

  void largest_logits(const Tensor& logits, Tensor& tops) override {
    assert(tops.elements() == row_count(logits));
    with_type(logits.precision,
              [&]<class T>(T) { cpu::largest_logits(matrix<T>(logits), tops.data<T>()); });
  }

  void exponentials(Tensor& logits, const Tensor& tops, std::span<const std::int32_t> targets,
                    std::int64_t first, Tensor& sums) override {
    assert(sums.elements() == 2 * row_count(logits));
    with_type(logits.precision, [&]<class T>(T) {
      cpu::exponentials(matrix<T>(logits), tops.data<T>(), targets, first, matrix<T>(sums));
    });
  }

  Late<double> cross_entropy_of_part(Tensor& logits, const Tensor& sums,
                                     std::span<const std::int32_t> targets, std::int64_t first,
                                     double scale) override {
    return with_type(logits.precision, [&]<class T>(T) {
      return cpu::cross_entropy_of_part(matrix<T>(logits), matrix<T>(sums), targets, first, scale);
    });
  }

  void adamw(const AdamW& options, int step, const Tensor& gradient, Tensor& first_moment,
             Tensor& second_moment, const Tensor& weight, Tensor& updated) override {
    assert(same_size(weight, gradient) && same_size(weight, first_moment));
    assert(same_size(weight, updated));
    with_type(weight.precision, [&]<class T>(T) {
      cpu::adamw(options, step, gradient.data<T>(),
                 cpu::Moments<T>{first_moment.data<T>(), second_moment.data<T>()}, weight.data<T>(),
                 updated.data<T>(), weight.elements());
    });
  }

  void sgd(const Sgd& options, const Tensor& gradient, const Tensor& weight,
           Tensor& updated) override {
    assert(same_size(weight, gradient) && same_size(weight, updated));
    with_type(weight.precision, [&]<class T>(T) {
      cpu::sgd(options, gradient.data<T>(), weight.data<T>(), updated.data<T>(), weight.elements());
    });
  }

  void scale(double factor, Tensor& x) override {
    with_type(x.precision,
              [&]<class T>(T) { cpu::scale(static_cast<T>(factor), x.data<T>(), x.elements()); });
  }

  std::vector<double> sums_of_squares(std::span<const Tensor> tensors) override {
    std::vector<double> sums;
    for (const Tensor& tensor : tensors) {
      sums.push_back(with_type(tensor.precision, [&]<class T>(T) {
        return cpu::sum_of_squares(tensor.data<T>(), tensor.elements());
      }));
    }
    return sums;
  }

 private:
  static bool fits(const Tensor& qkv, const AttentionShape& shape, std::int64_t past) {
    return shape.heads % shape.key_value_heads == 0 &&
           row_count(qkv) == shape.samples * (past + shape.sequence) &&
           column_count(qkv) == (shape.heads + 2 * shape.key_value_heads) * shape.head_width;
  }

  /// Where the keys begin in a row of queries and keys.
  static std::int64_t first_key(const AttentionShape& shape) {
    return shape.heads * shape.head_width;
  }

  /// The norms of queries and those of keys.
  static std::pair<cpu::NormsOfRows, cpu::NormsOfRows> norms_of(const AttentionShape& shape,
                                                                const Tensor& query_weight,
                                                                const Tensor& key_weight) {
    const std::int64_t queries = first_key(shape);
    const std::int64_t keys = shape.key_value_heads * shape.head_width;
    assert(queries % query_weight.elements() == 0 && keys % key_weight.elements() == 0);
    cpu::NormsOfRows query{.rows = shape.samples * shape.sequence,
                           .norms = queries / query_weight.elements(),
                           .width = query_weight.elements(),
                           .stride = queries + 2 * keys,
                           .raw_stride = queries + keys};
    cpu::NormsOfRows key = query;
    key.norms = keys / key_weight.elements();
    key.width = key_weight.elements();
    query.scale_stride = key.scale_stride = query.norms + key.norms;
    return {query, key};
  }

  static bool fits(const Tensor& images, const ConvolutionShape& shape, std::int64_t channels) {
    return shape.kernel % 2 == 1 &&
           images.elements() == shape.samples * channels * shape.size * shape.size;
  }

  // Shared with every tensor, which may outlive the backend.
  std::shared_ptr<cpu::Memory> memory_ = std::make_shared<cpu::Memory>();
};

}  // namespace

std::unique_ptr<Backend> make_dry_cpu_backend() {
  return std::make_unique<DryCpuBackend>();
}

std::unique_ptr<Backend> make_cpu_backend() {
  // One thread per rank; a team of threads per product would fight with the other ranks for the
  // cores.
  cpu::openblas().set_num_threads(1);
  return std::make_unique<CpuBackend>();
}

}  // namespace stagecraft
