// Parts of layers: linear maps and norms, with the indices of their parameters in the layer's list.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/layers/layer.hpp"

namespace stagecraft {

/// y = x weight + bias; the weight is [inputs, outputs].
struct Linear {
  std::size_t weight = 0;
  std::optional<std::size_t> bias;
};
/// The linear map, plus `residual` unless it is empty.
Tensor linear(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
              const Tensor& x, const Tensor& residual = {});
/// The linear map if `peers` (or null) hold other rows of the weight and columns of x: the products
/// are summed over peers before bias and residual are added.
Tensor linear_of_rows(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
                      const Tensor& x, const Tensor& residual, TensorPeers* peers);
Tensor linear_input(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
                    const Tensor& dy);
/// The input gradient if `peers` hold other columns of the weight and of dy.
Tensor linear_input_of_columns(Backend& backend, const Linear& part,
                               std::span<const Parameter> parameters, const Tensor& dy,
                               TensorPeers* peers);
void linear_weight(Backend& backend, const Linear& part, std::span<Parameter> parameters,
                   const Tensor& x, const Tensor& dy);

/// A linear map followed by GELU.
struct Activated {
  Tensor before;
  Tensor y;
};
Activated linear_gelu(Backend& backend, const Linear& part, std::span<const Parameter> parameters,
                      const Tensor& x);
/// The gradient of `before`, through GELU and the linear map after it.
Tensor linear_gelu_input(Backend& backend, const Linear& part,
                         std::span<const Parameter> parameters, const Tensor& dy,
                         const Tensor& before);

/// LayerNorm with weight and bias, or RMSNorm with a weight.
struct Norm {
  Transformer::Norm kind = Transformer::Norm::layer_norm;
  double epsilon = 1e-5;
  std::size_t weight = 0;
  std::size_t bias = 0;   ///< LayerNorm only
  bool from_one = false;  ///< RMSNorm: the factor is 1 + weight
};
/// The factors of the norm.
Tensor norm_weights(Backend& backend, const Norm& part, std::span<const Parameter> parameters);
/// The tensors that a norm saves for its backward passes; an RMSNorm's mean is empty.
struct Normed {
  Tensor y;
  Tensor mean;
  Tensor scale;
};
Normed norm(Backend& backend, const Norm& part, std::span<const Parameter> parameters,
            const Tensor& x);
/// The input gradient of a norm. `normed.y` is not read, here and below.
Tensor norm_input(Backend& backend, const Norm& part, std::span<const Parameter> parameters,
                  const Tensor& dy, const Tensor& x, const Normed& normed);
/// The input gradient of a norm plus this gradient of the residual connection.
Tensor norm_input_and_residual(Backend& backend, const Norm& part,
                               std::span<const Parameter> parameters, const Tensor& dy,
                               const Tensor& x, const Normed& normed, const Tensor& residual);
void norm_weight(Backend& backend, const Norm& part, std::span<Parameter> parameters,
                 const Tensor& dy, const Tensor& x, const Normed& normed);

/// Collects a layer's parameters while its parts are made.
class PartList {
 public:
  /// `name` is the prefix of every parameter's name: "block.3". With `peers`, linear maps are
  /// divided.
  explicit PartList(std::string name, const TensorPeers* peers = nullptr)
      : name_(std::move(name)), peers_(peers) {}

  std::size_t parameter(const std::string& name, std::vector<std::int64_t> shape,
                        Initialization initialization);
  Linear linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, bool bias,
                double deviation);
  /// With peers, this peer has its share of each of the `outputs`: queries, keys and values.
  Linear linear_of_columns(const std::string& name, std::int64_t inputs,
                           const std::vector<std::int64_t>& outputs, bool bias, double deviation);
  /// With peers, this peer has its share of the inputs, and the whole bias.
  Linear linear_of_rows(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                        bool bias, double deviation);
  Norm norm(const std::string& name, const Transformer& transformer);
  /// An RMSNorm of `width` numbers, whole on every peer.
  Norm rms_norm(const std::string& name, std::int64_t width, const Transformer& transformer);

  const std::vector<ParameterSpec>& specs() const { return specs_; }

 private:
  std::string name_;
  const TensorPeers* peers_ = nullptr;
  std::vector<ParameterSpec> specs_;
};

inline constexpr Initialization zeros{.kind = Initialization::Kind::zeros};
inline constexpr Initialization ones{.kind = Initialization::Kind::ones};

/// This peer's share [first, end) of `whole` items; all of them without peers.
std::pair<std::int64_t, std::int64_t> share_of(std::int64_t whole, const TensorPeers* peers);

/// The part of a weight that has these ranges of its rows or columns; the whole without peers.
void cut(ParameterSpec& spec, bool columns,
         std::vector<std::pair<std::int64_t, std::int64_t>> ranges, const TensorPeers* peers);

/// Deviation of the normal distribution that weights start from, GPT-2's.
inline constexpr double start_deviation = 0.02;

/// What each pair of a head turns by from one position to the next, Llama 3.1's change included;
/// where attention sees a window only, or all.
std::vector<double> rotary_frequencies(const Transformer& transformer, bool window = false);

/// Throws Error (input) unless the model is a transformer that the executor can train.
const Transformer& trainable_transformer(const Model& model, int index);

/// The name of the token embedding's table, which a tied head uses too.
std::string token_table_name(const Model& model);

}  // namespace stagecraft
