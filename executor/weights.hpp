// Weights from and to files of others: see weights/names.hpp for what they are called there.

#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "executor/execute.hpp"

namespace stagecraft {

/// The weights of a model by their names here, from a safetensors file (F64, F32, F16 or BF16) with
/// the names of its family; a missing "transformer." or "model." before them is no mistake. Throws
/// Error (input) naming the first tensor that is missing, has another shape or does not belong to
/// the model.
std::map<std::string, Tensor> load_weights(const std::filesystem::path& path, const Model& model,
                                           Precision precision);

/// Writes a run's final weights. Throws Error (execution) if it cannot.
void save_weights(const std::filesystem::path& path, const Model& model, const RunResult& result);

}  // namespace stagecraft
