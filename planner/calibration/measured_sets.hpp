// Public measurements that predictions are held against: whatever a file of them is called, its
// content says which format it has.
//
// To add a format write `sets/NAME.cpp` with two functions and add a row: the first looks at a
// parsed document, the second makes sets of measured rows of it. A row says what was measured and
// carries a function that predicts it from constants; nothing else knows what it is about.

#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/calibration/recipe.hpp"
#include "profiles/json.hpp"
#include "profiles/kernel_times.hpp"

namespace stagecraft {

/// One measurement, with what we say to it.
struct MeasuredRow {
  std::string label;    ///< unique in its set
  std::string family;   ///< rows of one are neighbours: fitted all or not at all, out of family
  std::string kind;     ///< kind of the family: fitted families are of as many kinds as possible
  std::string problem;  ///< rows of one are choices for the same task, for ranks and regret
  std::string shape;    ///< shape of its layers on a device: rows of one shape share a correction
                        ///< in family
  double seconds = 0;   ///< measured, in the set's unit
  double spread = 0;    ///< spread of the steps whose median it is: (p90 - p10) / median
  int steps = 0;        ///< number of these steps; 0 if unknown
  /// Predicted from constants, and a factor on the time of the blocks (1 without corrections).
  std::function<double(const KernelConstants&, double)> predict;
  std::optional<Bytes> memory;            ///< measured peak of the heaviest device
  std::optional<Bytes> predicted_memory;  ///< no constant enters
  bool in_8_bits = false;                 ///< products are
  std::string predicted_by;  ///< the recipe's kernels, framework and overlaps, in words
};

/// Measurements of one kind on one machine, that the same constants describe.
struct MeasuredSet {
  std::string name;    ///< "vtrain-single-node"
  std::string source;  ///< as the file gives it
  std::string device;  ///< kind
  std::string unit = "s";
  std::vector<MeasuredRow> rows;
  std::vector<std::string_view> unknowns;  ///< names of `kernel_constants` to fit; may be none
  KernelConstants start;                   ///< the others stay as here
  /// The row to calibrate on, where a claim names it; else a quarter is drawn.
  std::optional<std::string> fit_on;
  std::vector<std::string> assumptions;  ///< assumptions about properties that the file leaves open
  std::vector<std::string> left_out;     ///< rows that cannot be predicted, each with the reason
};

/// A way to write measurements down.
struct SetFormat {
  std::string_view name;
  bool (*looks_like)(const Json& json);
  std::vector<MeasuredSet> (*read)(const Json& json);
  std::string_view summary;  ///< the members it is known by
};

bool is_vtrain(const Json& json);
std::vector<MeasuredSet> read_vtrain(const Json& json);
bool is_simumax(const Json& json);
std::vector<MeasuredSet> read_simumax(const Json& json);
bool is_megatron_core_table(const Json& json);
std::vector<MeasuredSet> read_megatron_core_table(const Json& json);
bool is_megatron_ci(const Json& json);
std::vector<MeasuredSet> read_megatron_ci(const Json& json);
bool is_megatron_sc21(const Json& json);
std::vector<MeasuredSet> read_megatron_sc21(const Json& json);
bool is_selective_recomputation(const Json& json);
std::vector<MeasuredSet> read_selective_recomputation(const Json& json);
bool is_nccl_tests(const Json& json);
std::vector<MeasuredSet> read_nccl_tests(const Json& json);
bool is_production_runs(const Json& json);
std::vector<MeasuredSet> read_production_runs(const Json& json);
bool is_recipes(const Json& json);
std::vector<MeasuredSet> read_recipes(const Json& json);

inline constexpr std::array set_formats{
    SetFormat{"vtrain", is_vtrain, read_vtrain,
              "\"single_node\", \"multi_node\": rows with \"# GPUs\" and \"iteration time (ms)\""},
    SetFormat{"simumax", is_simumax, read_simumax,
              "\"rows\" with \"case\", \"real_ms\" and \"real_alloc_gib\""},
    SetFormat{"megatron-core-table", is_megatron_core_table, read_megatron_core_table,
              "\"rows\" with \"model\", \"TP\", \"PP\", \"DP\" and \"tflops_per_gpu\""},
    SetFormat{"megatron-ci", is_megatron_ci, read_megatron_ci,
              "\"rows\" with \"args\" and \"iter_time_median_s\""},
    SetFormat{"megatron-sc21", is_megatron_sc21, read_megatron_sc21,
              "\"table1\" and \"figures_approx\""},
    SetFormat{"selective-recomputation", is_selective_recomputation, read_selective_recomputation,
              "\"table5_iteration_s\" by model, \"full\" and \"seqsel\""},
    SetFormat{"nccl-tests", is_nccl_tests, read_nccl_tests,
              "\"columns\" and \"data\" by device and number of members"},
    SetFormat{"production-runs", is_production_runs, read_production_runs,
              "\"llama3_405B\" with \"table4\" and \"fields\""},
    SetFormat{"recipes", is_recipes, read_recipes,
              "\"format\": \"stagecraft-measured/1\", for measurements of your own"},
};

/// The sets of a file; empty if its content is of no known format. Throws Error (input) where a
/// row of a known one cannot be understood.
std::vector<MeasuredSet> read_measured(const Json& json);

/// A row that predicts with `recipe`, its memory too where it was measured.
MeasuredRow recipe_row(const Recipe& recipe, std::string label, double seconds);
/// "hidden 2048, tensor 4, microbatch 2".
std::string shape_of(const Recipe& recipe);
/// "closed form; Megatron-LM's kernels, fused attention, bf16; overlaps gradients, gathers".
std::string prediction_in_words(const Recipe& recipe);

}  // namespace stagecraft
