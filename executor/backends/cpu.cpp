// The CPU backend: its memory, sums and products, and updates of weights.

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
#include "executor/backends/cpu/cpu_backend.hpp"
#include "executor/backends/cpu/kernels.hpp"
#include "executor/backends/cpu/openblas.hpp"
#include "executor/backends/cpu/typed_tensors.hpp"

namespace stagecraft {

namespace cpu {

namespace {

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

}  // namespace

Tensor CpuBackend::allocate_apart(std::vector<std::int64_t> shape, Precision precision) {
  with_type(precision, [](auto) {});
  Tensor tensor{.storage = nullptr, .shape = std::move(shape), .precision = precision};
  Bytes bytes = element_bytes(precision);
  for (const std::int64_t extent : tensor.shape) bytes *= extent;
  tensor.storage = memory_->allocate(bytes);
  return tensor;
}

void CpuBackend::forbid(const void* memory, Bytes bytes) {
  ASAN_POISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
}

void CpuBackend::permit(const void* memory, Bytes bytes) {
  ASAN_UNPOISON_MEMORY_REGION(memory, static_cast<std::size_t>(bytes));
}

void CpuBackend::upload(std::span<const std::byte> from, Tensor& to) {
  assert(from.size() == static_cast<std::size_t>(to.bytes()));
  std::ranges::copy(from, bytes_of(to).begin());
}

void CpuBackend::download(const Tensor& from, std::span<std::byte> to) {
  assert(to.size() == static_cast<std::size_t>(from.bytes()));
  std::ranges::copy(bytes_of(from), to.begin());
}

void CpuBackend::zero(Tensor& x) {
  std::memset(x.storage.get(), 0, static_cast<std::size_t>(x.bytes()));
}

void CpuBackend::copy(const Tensor& from, Tensor& to) {
  assert(same_size(from, to));
  std::memcpy(to.storage.get(), from.storage.get(), static_cast<std::size_t>(from.bytes()));
}

void CpuBackend::convert(const Tensor& from, Tensor& to) {
  assert(from.elements() == to.elements());
  with_type(from.precision, [&]<class From>(From) {
    with_type(to.precision, [&]<class To>(To) {
      std::transform(from.data<From>(), from.data<From>() + from.elements(), to.data<To>(),
                     [](From value) { return static_cast<To>(value); });
    });
  });
}

Late<bool> CpuBackend::is_finite(const Tensor& x) {
  return with_type(x.precision, [&]<class T>(T) { return are_finite(x.data<T>(), x.elements()); });
}

void CpuBackend::add(const Tensor& x, Tensor& y) {
  assert(same_size(x, y));
  with_type(x.precision, [&]<class T>(T) { cpu::add(x.data<T>(), y.data<T>(), x.elements()); });
}

void CpuBackend::largest(const Tensor& x, Tensor& y) {
  with_type(x.precision, [&]<class T>(T) {
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      y.data<T>()[i] = std::max(x.data<T>()[i], y.data<T>()[i]);
    }
  });
}

void CpuBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                        Tensor& c, bool accumulate) {
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

// What follows a product goes over its result once, part by part; each number gets the same sums in
// the same order as from one call after another.
void CpuBackend::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Tensor& residual, Tensor& y) {
  matmul(x, false, weight, false, y, false);
  assert(bias.empty() || bias.elements() == column_count(y));
  assert(residual.empty() || same_size(residual, y));
  with_type(y.precision, [&]<class T>(T) {
    for_each_part(row_count(y), column_count(y), [&](std::int64_t first, std::int64_t end) {
      const Matrix<T> part = rows_of(matrix<T>(y), first, end);
      if (!bias.empty()) cpu::add_bias(bias.data<T>(), part);
      if (!residual.empty())
        cpu::add(matrix<T>(residual).row(first), part.data, part.rows * part.columns);
    });
  });
}

void CpuBackend::add_bias(const Tensor& bias, Tensor& x) {
  assert(bias.elements() == column_count(x));
  with_type(x.precision, [&]<class T>(T) { cpu::add_bias(bias.data<T>(), matrix<T>(x)); });
}

void CpuBackend::bias_gradient(const Tensor& gradient, Tensor& bias_gradient) {
  assert(bias_gradient.elements() == column_count(gradient));
  with_type(gradient.precision,
            [&]<class T>(T) { cpu::add_rows(matrix<T>(gradient), bias_gradient.data<T>()); });
}

void CpuBackend::adamw(const AdamW& options, int step, const Tensor& gradient, Tensor& first_moment,
                       Tensor& second_moment, const Tensor& weight, Tensor& updated) {
  assert(same_size(weight, gradient) && same_size(weight, first_moment));
  assert(same_size(weight, updated));
  with_type(weight.precision, [&]<class T>(T) {
    cpu::adamw(options, step, gradient.data<T>(),
               cpu::Moments<T>{first_moment.data<T>(), second_moment.data<T>()}, weight.data<T>(),
               updated.data<T>(), weight.elements());
  });
}

void CpuBackend::sgd(const Sgd& options, const Tensor& gradient, const Tensor& weight,
                     Tensor& updated) {
  assert(same_size(weight, gradient) && same_size(weight, updated));
  with_type(weight.precision, [&]<class T>(T) {
    cpu::sgd(options, gradient.data<T>(), weight.data<T>(), updated.data<T>(), weight.elements());
  });
}

void CpuBackend::scale(double factor, Tensor& x) {
  with_type(x.precision,
            [&]<class T>(T) { cpu::scale(static_cast<T>(factor), x.data<T>(), x.elements()); });
}

std::vector<double> CpuBackend::sums_of_squares(std::span<const Tensor> tensors) {
  std::vector<double> sums;
  for (const Tensor& tensor : tensors) {
    sums.push_back(with_type(tensor.precision, [&]<class T>(T) {
      return cpu::sum_of_squares(tensor.data<T>(), tensor.elements());
    }));
  }
  return sums;
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend() {
  // One thread per rank; a team of threads per product would fight with the other ranks for the
  // cores.
  cpu::openblas().set_num_threads(1);
  return std::make_unique<cpu::CpuBackend>();
}

}  // namespace stagecraft
