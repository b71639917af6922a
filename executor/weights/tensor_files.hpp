// Weights in one safetensors file, or dealt out to several as Hugging Face's libraries do it:
//
//   FOLDER/model.safetensors                        all of them, or
//   FOLDER/model-00001-of-00002.safetensors         a part
//   FOLDER/model-00002-of-00002.safetensors         the rest
//   FOLDER/model.safetensors.index.json             {"weight_map": {"lm_head.weight":
//   "model-0000…", …}}

#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "executor/weights/safetensors.hpp"

namespace stagecraft {

/// The headers of all files; tensors are read one by one, when they are asked for.
struct TensorFiles {
  std::filesystem::path path;  ///< what people call them: the one file, or the index
  std::vector<TensorFile> files;
};

/// A tensor, and the file it is in; both null if there is none.
struct FoundTensor {
  const TensorFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

/// Opens a safetensors file, an index, or the one of the two that a folder holds. Throws Error
/// (input) with one sentence: as `open_tensor_file`, and unless the index and its files say the
/// same, each tensor is in one file, and no part lies beside them that the index leaves out.
TensorFiles open_tensor_files(const std::filesystem::path& path);

FoundTensor find(const TensorFiles& files, std::string_view name);

/// Whether weights that are saved to this path go into a folder: it is one, or ends in "/".
bool names_folder(const std::filesystem::path& path);

/// Writes the tensors into the folder, which is made if it is not there: in their order, no file
/// with more than `most` bytes of data (but for a single larger tensor), the index last. What
/// weights the folder held before go. Throws Error (execution).
void write_tensor_files(const std::filesystem::path& folder, std::vector<NamedTensor> tensors,
                        Bytes most, SystemCalls& calls = system_calls());

}  // namespace stagecraft
