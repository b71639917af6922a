// A training run as Megatron-LM's arguments describe it: what `megatron/training/arguments.py` and
// `megatron/core` take them for, with that release's defaults.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/calibration/recipe.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

/// Arguments by name ("num-layers"), as text whatever they mean. One that is "None" is not there.
class MegatronArguments {
 public:
  struct Value {
    std::string text;
    SourcePlace place;
  };

  /// `name` may begin with two hyphens and have underscores.
  void set(std::string_view name, Value value);

  bool has(std::string_view name) const { return values_.contains(name); }
  /// On unless it is missing or false.
  bool flag(std::string_view name) const;
  /// Throws Error (input) at its place unless it is a whole number.
  std::int64_t number(std::string_view name, std::int64_t otherwise) const;
  int small(std::string_view name, int otherwise = 1) const {
    return static_cast<int>(number(name, otherwise));
  }
  std::string word(std::string_view name) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

/// The recipe that the arguments describe, except the device, replicas and microbatches.
Recipe recipe_of(const MegatronArguments& arguments);

/// Of an element of the sums of gradients: as `--accumulate-allreduce-grads-in-fp32` of a dump of
/// all arguments says, in which it is never missing.
Bytes gradient_bytes_of(const MegatronArguments& arguments, Precision precision);

/// The CUDA graphs of the arguments: of layers (--external-cuda-graph, --enable-cuda-graph,
/// --cuda-graph-impl local or transformer_engine), or of a step (full_iteration, which is a scope
/// in older releases).
CudaGraphs graphs_of(const MegatronArguments& arguments);

/// Of `--moe-layer-freq`: how many blocks come before those with experts, in "1" and nothing none,
/// in "([0]*3+[1]*58)" and "[0, 0, 0, 1, 1]" three; nothing where both kinds take turns.
std::optional<std::int64_t> leading_dense_blocks(std::string_view frequency);

/// Sets the replicas and microbatches of a step on `world` devices; false if the degrees and the
/// batch do not divide the devices, or if there are more stages than blocks.
bool spread(Recipe& recipe, int world, int batch);

}  // namespace stagecraft
