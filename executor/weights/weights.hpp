// Reading and writing weights in other systems' files; their names there are in weights/names.hpp.

#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "executor/driver/execute.hpp"

namespace stagecraft {

/// The weights of a model by their names here, from a safetensors file (F64, F32, F16 or BF16), or
/// a folder or index of several (see weights/tensor_files.hpp), with the names of its family; a
/// missing "transformer." or "model." before them is no mistake. Throws Error (input) naming the
/// first tensor that is missing, has another shape or does not belong to the model.
std::map<std::string, Tensor> load_weights(const std::filesystem::path& path, const Model& model,
                                           Precision precision);

/// Of one file, where weights are dealt out to several: Hugging Face's own limit.
constexpr Bytes most_bytes_of_part = 5'000'000'000;

/// Writes a run's final weights to a file, or into a folder, if the path names one, in parts of at
/// most so many bytes. Throws Error (execution) if it cannot.
void save_weights(const std::filesystem::path& path, const Model& model, const RunResult& result,
                  Bytes most_of_part = most_bytes_of_part);

}  // namespace stagecraft
