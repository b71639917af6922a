// What networks of images ask of the CPU backend.

#include <cassert>

#include "executor/backends/cpu/cpu_backend.hpp"
#include "executor/backends/cpu/kernels.hpp"
#include "executor/backends/cpu/typed_tensors.hpp"

namespace stagecraft::cpu {

namespace {

bool fits(const Tensor& images, const ConvolutionShape& shape, std::int64_t channels) {
  return shape.kernel % 2 == 1 &&
         images.elements() == shape.samples * channels * shape.size * shape.size;
}

}  // namespace

void CpuBackend::relu(Tensor& x) {
  with_type(x.precision, [&]<class T>(T) { cpu::relu(x.data<T>(), x.elements()); });
}

void CpuBackend::relu_input(const Tensor& dy, const Tensor& y, Tensor& dx) {
  assert(same_size(y, dy) && same_size(y, dx));
  with_type(y.precision, [&]<class T>(T) {
    cpu::relu_input(dy.data<T>(), y.data<T>(), dx.data<T>(), y.elements());
  });
}

void CpuBackend::images(std::span<const std::int32_t> pixels, Tensor& y) {
  assert(y.elements() == static_cast<std::int64_t>(pixels.size()));
  with_type(y.precision, [&]<class T>(T) { cpu::images(pixels, y.data<T>()); });
}

void CpuBackend::convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const ConvolutionShape& shape, Tensor& y) {
  assert(fits(x, shape, shape.input_channels) && fits(y, shape, shape.output_channels));
  Tensor workspace = allocate({cpu::convolution_workspace(shape)}, x.precision);
  with_type(x.precision, [&]<class T>(T) {
    cpu::convolution(x.data<T>(), weight.data<T>(), bias.data<T>(), shape, y.data<T>(),
                     workspace.data<T>());
  });
}

void CpuBackend::convolution_input(const Tensor& dy, const Tensor& weight,
                                   const ConvolutionShape& shape, Tensor& dx) {
  assert(fits(dx, shape, shape.input_channels) && fits(dy, shape, shape.output_channels));
  Tensor workspace = allocate({cpu::convolution_workspace(shape)}, dy.precision);
  with_type(dy.precision, [&]<class T>(T) {
    cpu::convolution_input(dy.data<T>(), weight.data<T>(), shape, dx.data<T>(),
                           workspace.data<T>());
  });
}

void CpuBackend::convolution_weight(const Tensor& dy, const Tensor& x,
                                    const ConvolutionShape& shape, Tensor& dweight, Tensor& dbias) {
  assert(fits(x, shape, shape.input_channels) && fits(dy, shape, shape.output_channels));
  Tensor workspace = allocate({cpu::convolution_workspace(shape)}, x.precision);
  with_type(x.precision, [&]<class T>(T) {
    cpu::convolution_weight(dy.data<T>(), x.data<T>(), shape, dweight.data<T>(), dbias.data<T>(),
                            workspace.data<T>());
  });
}

void CpuBackend::max_pool(const Tensor& x, const PoolShape& shape, Tensor& y) {
  assert(x.elements() == y.elements() * shape.window * shape.window);
  with_type(x.precision, [&]<class T>(T) { cpu::max_pool(x.data<T>(), shape, y.data<T>()); });
}

void CpuBackend::max_pool_input(const Tensor& dy, const Tensor& x, const PoolShape& shape,
                                Tensor& dx) {
  assert(same_size(x, dx) && x.elements() == dy.elements() * shape.window * shape.window);
  with_type(x.precision, [&]<class T>(T) {
    cpu::max_pool_input(dy.data<T>(), x.data<T>(), shape, dx.data<T>());
  });
}

}  // namespace stagecraft::cpu
