// Exporters of plans to other systems' formats. To add a format: write exporters/NAME.cpp, declare
// its function here, add a row.
//
// A plan that a format cannot express, or that its system cannot run, is refused with a sentence
// for each reason; nothing is rounded or left out. If planner/interop/importers.hpp has the format
// too, importing an exported file gives the same plan, except for its prediction.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft {

/// The text of a file. Throws Error (input) with all reasons against the plan, if there are any.
using Export = std::string (*)(const LoadedPlan& loaded);

/// One file of a format with several: its text, and the suffix of its name.
struct ExportedFile {
  std::string suffix;
  std::string content;
};
using ExportFiles = std::vector<ExportedFile> (*)(const LoadedPlan& loaded);

/// All reasons why the format's system cannot run this plan, one sentence each; empty if it can.
/// The plan must be valid, and the model in its order.
using ReasonsAgainst = std::vector<std::string> (*)(const Plan& plan, const Model& model,
                                                    const Cluster& cluster);

struct Exporter {
  std::string_view name;  ///< as in `stagecraft export NAME PLAN`
  Export write;           ///< null if the format has several files
  std::string_view summary;
  ExportFiles write_files = nullptr;
  ReasonsAgainst reasons_against = nullptr;  ///< null if every plan can be written
  /// Notes for the user of the file; null if there are never any.
  std::vector<std::string> (*notes)(const LoadedPlan& loaded) = nullptr;
};

std::string export_megatron(const LoadedPlan& loaded);
std::string export_megatron_bridge(const LoadedPlan& loaded);
std::string export_deepspeed(const LoadedPlan& loaded);
std::string export_torch(const LoadedPlan& loaded);
std::vector<ExportedFile> export_torchtitan(const LoadedPlan& loaded);
std::string export_device_map(const LoadedPlan& loaded);
std::string export_vllm(const LoadedPlan& loaded);
std::string export_csv(const LoadedPlan& loaded);
std::string export_perfetto(const LoadedPlan& loaded);
/// The trace in Perfetto's own format, a tenth as large (simulator/views/perfetto.hpp).
std::string export_perfetto_native(const LoadedPlan& loaded);
std::string export_svg(const LoadedPlan& loaded);
std::vector<ExportedFile> export_chakra(const LoadedPlan& loaded);

std::vector<std::string> reasons_against_megatron(const Plan& plan, const Model& model,
                                                  const Cluster& cluster);
std::vector<std::string> reasons_against_megatron_bridge(const Plan& plan, const Model& model,
                                                         const Cluster& cluster);
std::vector<std::string> reasons_against_torchtitan(const Plan& plan, const Model& model,
                                                    const Cluster& cluster);
std::vector<std::string> reasons_against_deepspeed(const Plan& plan, const Model& model,
                                                   const Cluster& cluster);
std::vector<std::string> reasons_against_torch(const Plan& plan, const Model& model,
                                               const Cluster& cluster);
std::vector<std::string> reasons_against_device_map(const Plan& plan, const Model& model,
                                                    const Cluster& cluster);
std::vector<std::string> reasons_against_vllm(const Plan& plan, const Model& model,
                                              const Cluster& cluster);

std::vector<std::string> notes_on_deepspeed(const LoadedPlan& loaded);
std::vector<std::string> notes_on_torch(const LoadedPlan& loaded);
std::vector<std::string> notes_on_vllm(const LoadedPlan& loaded);

inline constexpr std::array exporters{
    Exporter{"megatron", export_megatron,
             "launch script of Megatron-LM; a layout where simple flags do not do", nullptr,
             reasons_against_megatron},
    Exporter{"megatron-bridge", export_megatron_bridge, "overrides for a recipe of Megatron-Bridge",
             nullptr, reasons_against_megatron_bridge},
    Exporter{"deepspeed", export_deepspeed, "parts of a PipelineModule, and its ds_config", nullptr,
             reasons_against_deepspeed, notes_on_deepspeed},
    Exporter{"torch", export_torch,
             "modules per stage and schedule for torch.distributed.pipelining", nullptr,
             reasons_against_torch, notes_on_torch},
    Exporter{"torchtitan", nullptr, "configuration of torchtitan; -o NAME gives NAME.py …",
             export_torchtitan, reasons_against_torchtitan, notes_on_torch},
    Exporter{"hf-device-map", export_device_map, "device_map of Hugging Face's transformers",
             nullptr, reasons_against_device_map},
    Exporter{"vllm", export_vllm,
             "launch line of vLLM: transformer layers per rank, and its requests", nullptr,
             reasons_against_vllm, notes_on_vllm},
    Exporter{"csv", export_csv, "a row per stage, for spreadsheets"},
    Exporter{"perfetto", export_perfetto, "the predicted timeline, for ui.perfetto.dev"},
    Exporter{"svg", export_svg, "the predicted timeline as a drawing"},
    Exporter{"chakra", nullptr, "execution traces for ASTRA-sim; -o NAME gives NAME.0.et …",
             export_chakra},
};

/// Throws Error (usage) with the known names for an unknown one.
const Exporter& find_exporter(std::string_view name);

/// See ReasonsAgainst.
std::vector<std::string> reasons_against(const Exporter& exporter, const Plan& plan,
                                         const Model& model, const Cluster& cluster);

}  // namespace stagecraft
