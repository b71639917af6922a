// Parts that several layers are made of: linear maps and norms, with their parameters' places in
// the layer's list.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/layer.hpp"

namespace stagecraft {

/// y = x weight + bias; the weight is [inputs, outputs].
struct Linear {
  std::size_t weight = 0;
  std::optional<std::size_t> bias;
};
Tensor linear(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
              const Tensor& x);
Tensor linear_input(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
                    const Tensor& dy);
void linear_weight(Backend& backend, const Linear& part, std::span<Parameter> parameters,
                   const Tensor& x, const Tensor& dy);

/// LayerNorm with weight and bias, or RMSNorm with a weight.
struct Norm {
  Transformer::Norm kind = Transformer::Norm::layer_norm;
  double epsilon = 1e-5;
  std::size_t weight = 0;
  std::size_t bias = 0;  ///< LayerNorm only
};
/// What a norm leaves for its backward passes; an RMSNorm's mean is empty.
struct Normed {
  Tensor y;
  Tensor mean;
  Tensor scale;
};
Normed norm(Backend& backend, const Norm& part, std::span<const Parameter> parameters,
            const Tensor& x);
/// `normed.y` is not looked at, here and below.
Tensor norm_input(Backend& backend, const Norm& part, std::span<const Parameter> parameters,
                  const Tensor& dy, const Tensor& x, const Normed& normed);
void norm_weight(Backend& backend, const Norm& part, std::span<Parameter> parameters,
                 const Tensor& dy, const Tensor& x, const Normed& normed);

/// Lists a layer's parameters while its parts are made.
class PartList {
 public:
  /// `name` is put before every parameter's name: "block.3".
  explicit PartList(std::string name) : name_(std::move(name)) {}

  std::size_t parameter(const std::string& name, std::vector<std::int64_t> shape,
                        Initialization initialization);
  Linear linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, bool bias,
                double deviation);
  Norm norm(const std::string& name, const Transformer& transformer);

  const std::vector<ParameterSpec>& specs() const { return specs_; }

 private:
  std::string name_;
  std::vector<ParameterSpec> specs_;
};

inline constexpr Initialization zeros{.kind = Initialization::Kind::zeros};
inline constexpr Initialization ones{.kind = Initialization::Kind::ones};

/// Deviation of the normal distribution that weights start from, GPT-2's.
inline constexpr double start_deviation = 0.02;

/// What each pair of a head turns by from one position to the next, Llama 3.1's change included.
std::vector<double> rotary_frequencies(const Transformer& transformer);

/// Throws Error (input) unless the model is a transformer that the executor can train.
const Transformer& trainable_transformer(const Model& model, int index);

/// The name of the token embedding's table, which a tied head uses too.
std::string token_table_name(const Model& model);

}  // namespace stagecraft
