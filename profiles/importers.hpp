// Files of others. To add one: write importers/NAME.cpp, declare its two functions here, add a row.

#pragma once

#include <array>
#include <string>
#include <string_view>

#include "profiles/profile.hpp"

namespace stagecraft {

/// Does this content look like the format? Cheap, and never throws.
using Recognise = bool (*)(std::string_view content);
/// Reads the content of `file` (its name serves errors and the model's name). Throws Error (input)
/// with the place.
using Import = Profile (*)(std::string_view content, const std::string& file);

struct Importer {
  std::string_view name;  ///< as in `stagecraft import NAME FILE`
  Recognise recognise;
  Import import;
  std::string_view summary;
};

bool looks_like_huggingface(std::string_view content);
Profile import_huggingface(std::string_view content, const std::string& file);
/// "model_type" of the families whose layers are known.
std::vector<std::string> huggingface_families();
bool looks_like_pipedream(std::string_view content);
Profile import_pipedream(std::string_view content, const std::string& file);
bool looks_like_piper(std::string_view content);
Profile import_piper(std::string_view content, const std::string& file);
bool looks_like_dnn_partitioning(std::string_view content);
Profile import_dnn_partitioning(std::string_view content, const std::string& file);
bool looks_like_aceso(std::string_view content);
Profile import_aceso(std::string_view content, const std::string& file);
bool looks_like_kineto(std::string_view content);
Profile import_kineto(std::string_view content, const std::string& file);
bool looks_like_chimera(std::string_view content);
Profile import_chimera(std::string_view content, const std::string& file);

inline constexpr std::array importers{
    Importer{
        "huggingface", looks_like_huggingface, import_huggingface,
        "config.json of a model of one of the known families (stagecraft model list): layers and "
        "parameters, no costs"},
    Importer{"pipedream", looks_like_pipedream, import_pipedream,
             "graph.txt of the PipeDream profiler: milliseconds and bytes per minibatch"},
    Importer{"piper", looks_like_piper, import_piper,
             "input of Piper, with its devices: seconds and bytes per microbatch"},
    Importer{"dnn-partitioning", looks_like_dnn_partitioning, import_dnn_partitioning,
             "input of dnn-partitioning, with its devices: milliseconds and bytes; a forward node "
             "and its backward partners become one layer"},
    Importer{"aceso", looks_like_aceso, import_aceso,
             "a table of Aceso's profile database, with the model's other tables beside it: "
             "microseconds and MiB per microbatch"},
    Importer{"kineto", looks_like_kineto, import_kineto,
             "a trace of PyTorch's profiler: kernels of each layer that a record_function range "
             "names, forward and backward; or the folder of a run's traces that train.py --kineto "
             "wrote: its timeline, for compare and calibrate"},
    Importer{"chimera", looks_like_chimera, import_chimera,
             "a layer profile of Chimera (CSV): milliseconds and MiB of a block for each "
             "microbatch size"},
};

}  // namespace stagecraft
