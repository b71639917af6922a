// Plans for others. To add a format: write exporters/NAME.cpp, declare its function here, add a
// row.
//
// A plan that a format cannot express is refused with a sentence that says what stands in the way;
// nothing is rounded or left out. Where planner/interop/importers.hpp has the format too, importing
// what was exported gives the plan again, but for its prediction.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft {

/// The text of a file. Throws Error (input) for a plan that the format cannot express.
using Export = std::string (*)(const LoadedPlan& loaded);

/// One of a format's several files: what its name adds to the one asked for.
struct ExportedFile {
  std::string suffix;
  std::string content;
};
using ExportFiles = std::vector<ExportedFile> (*)(const LoadedPlan& loaded);

struct Exporter {
  std::string_view name;  ///< as in `stagecraft export NAME PLAN`
  Export write;           ///< null where the format takes several files
  std::string_view summary;
  ExportFiles write_files = nullptr;
};

std::string export_megatron(const LoadedPlan& loaded);
std::string export_deepspeed(const LoadedPlan& loaded);
std::string export_torch(const LoadedPlan& loaded);
std::string export_device_map(const LoadedPlan& loaded);
std::string export_vllm(const LoadedPlan& loaded);
std::string export_csv(const LoadedPlan& loaded);
std::string export_perfetto(const LoadedPlan& loaded);
std::string export_svg(const LoadedPlan& loaded);
std::vector<ExportedFile> export_chakra(const LoadedPlan& loaded);

inline constexpr std::array exporters{
    Exporter{"megatron", export_megatron,
             "launch line of Megatron-LM; a layout where simple flags do not do"},
    Exporter{"deepspeed", export_deepspeed, "parts of a PipelineModule, and its ds_config"},
    Exporter{"torch", export_torch,
             "modules per stage and schedule for torch.distributed.pipelining"},
    Exporter{"hf-device-map", export_device_map, "device_map of Hugging Face's transformers"},
    Exporter{"vllm", export_vllm, "launch line of vLLM: transformer layers per rank"},
    Exporter{"csv", export_csv, "a row per stage, for spreadsheets"},
    Exporter{"perfetto", export_perfetto, "the predicted timeline, for ui.perfetto.dev"},
    Exporter{"svg", export_svg, "the predicted timeline as a drawing"},
    Exporter{"chakra", nullptr, "execution traces for ASTRA-sim; -o NAME gives NAME.0.et …",
             export_chakra},
};

}  // namespace stagecraft
