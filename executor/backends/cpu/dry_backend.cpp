// The dry twin of the CPU backend: asks for the memory that it would ask for.

#include "executor/backends/cpu/kernels.hpp"
#include "executor/backends/cpu/typed_tensors.hpp"
#include "executor/backends/dry.hpp"

namespace stagecraft {

namespace {

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
    allocate({cpu::experts_workspace(cpu::sizes_of(x, choice, active))}, x.precision);
  }
  void experts_input(const Tensor& dy, const ExpertChoice& choice, std::span<const Tensor>,
                     std::span<const Tensor>, const Tensor&, const Tensor& active, Tensor&, Tensor&,
                     Tensor&) override {
    allocate({cpu::experts_input_workspace(cpu::sizes_of(dy, choice, active))}, dy.precision);
  }
  void experts_weight(const Tensor& x, const Tensor&, const ExpertChoice& choice,
                      const Tensor& active, const Tensor&, std::span<Tensor>,
                      std::span<Tensor>) override {
    allocate({cpu::experts_workspace(cpu::sizes_of(x, choice, active))}, x.precision);
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

}  // namespace

std::unique_ptr<Backend> make_dry_cpu_backend() {
  return std::make_unique<DryCpuBackend>();
}

}  // namespace stagecraft
