// What Megatron-LM prints (megatron/training/arguments.py, training.py and utils.py): its arguments
// between two lines of hyphens, and every few iterations their time and the memory of some ranks.
//
//   ------------------------ arguments ------------------------
//     num_layers ...................................... 32
//   -------------------- end of arguments ---------------------
//    iteration       20/     500 | … | elapsed time per iteration (ms): 1234.5 | … |
//   [Rank 0] (after 20 iterations) memory (MB) | allocated: 9000.1 | max allocated: 30000.2 | …
//
// Each rank's lines may have a prefix of the launcher. The times are means over the iterations
// between two lines; those of the last batch size count.

#include <algorithm>
#include <cmath>

#include "planner/calibration/measured_runs.hpp"
#include "planner/calibration/megatron_arguments.hpp"
#include "planner/interop/importers/arguments_dump.hpp"
#include "planner/interop/importers/flag_words.hpp"
#include "planner/interop/megatron_names.hpp"
#include "profiles/cluster.hpp"
#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view iteration_time = "elapsed time per iteration (ms):";
constexpr std::string_view memory_line = "memory (MB)";
constexpr double mebi = 1024.0 * 1024;

struct Line {
  int number = 0;
  std::string_view text;
};

/// What the log says besides its arguments.
struct Log {
  MegatronArguments arguments;
  bool has_arguments = false;
  std::vector<double> seconds;
  int batch = 0;  ///< of the iterations in `seconds`
  double memory = 0;
  int memory_rank = 0;
  std::string device;
};

void read_iteration(Log& log, std::string_view text) {
  const std::optional<double> milliseconds = number_after(text, iteration_time);
  if (!milliseconds) return;
  const int batch = static_cast<int>(number_after(text, "global batch size:").value_or(0));
  if (batch != log.batch) log.seconds.clear();
  log.batch = batch;
  log.seconds.push_back(*milliseconds / 1000);
}

void read_memory(Log& log, std::string_view text) {
  const double most = number_after(text, "| max allocated:").value_or(0) * mebi;
  if (most <= log.memory) return;
  log.memory = most;
  log.memory_rank =
      static_cast<int>(std::min<double>(number_after(text, "[Rank ").value_or(0), most_devices));
}

Log read_log(std::string_view content, const std::string& file) {
  Log log;
  log.has_arguments = has_arguments_dump(content);
  for (const FlagWord& word : read_arguments_dump(content, file))
    log.arguments.set(word.name, {word.value.value_or(""), word.place});
  for (int number = 1; !content.empty(); ++number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const Line line{number, content.substr(0, end)};
    const auto has = [&](std::string_view word) {
      return line.text.find(word) != std::string_view::npos;
    };
    if (has(iteration_time)) read_iteration(log, line.text);
    if (has(memory_line)) read_memory(log, line.text);
    if (has("> padded vocab (size:")) {
      const double words = number_after(line.text, "(new size:").value_or(0);
      if (words > 0) {
        log.arguments.set("padded-vocab-size",
                          {std::to_string(static_cast<std::int64_t>(words)), {file, number, 1}});
      }
    }
    if (has("NVIDIA ") && log.device.empty()) log.device = device_kind_in(line.text);
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return log;
}

/// Why a run cannot be predicted; empty if it can.
std::string reason_against(const MegatronArguments& arguments) {
  struct Reason {
    std::string_view argument, reason;
  };
  constexpr std::array reasons{
      Reason{"fp4", "how fast devices compute in FP4 is not known"},
      Reason{"pipeline-model-parallel-layout", "it has a layout of its own"},
      Reason{"hybrid-layer-pattern", "its layers are not all transformers"},
      Reason{"hybrid-override-pattern", "its layers are not all transformers"},
      Reason{"use-megatron-fsdp", "shards of its weights are gathered in an order of their own"},
      Reason{"use-torch-fsdp2", "shards of its weights are gathered in an order of their own"},
      Reason{"cpu-offloading", "it keeps activations in the host's memory"},
  };
  for (const auto& [argument, reason] : reasons) {
    if (arguments.flag(argument)) return std::string(reason);
  }
  if (arguments.word("recompute-method") == "block")
    return "it recomputes some of each stage's layers";
  if (arguments.has("num-experts") && arguments.has("moe-layer-freq") &&
      !leading_dense_blocks(arguments.word("moe-layer-freq")))
    return "layers with experts and without take turns (moe_layer_freq)";
  const bool in_8_bits = arguments.flag("fp8") || arguments.flag("fp8-format");
  const std::string recipe = arguments.word("fp8-recipe");
  if (in_8_bits && !float8_recipe_in_megatron(recipe))
    return concat("how its fp8 recipe (", recipe, ") scales is not known");
  const KnownLayerModules again = known_layer_modules(arguments.word("recompute-modules"));
  if (arguments.word("recompute-granularity") == "selective" && !again.unknown.empty())
    return concat("it does a module again that is not known (", again.unknown, ")");
  return "";
}

/// What a dump says and a launch line does not.
void refine(Recipe& recipe, const MegatronArguments& arguments) {
  WorkSetting& work = recipe.work;
  work.gradient_bytes = gradient_bytes_of(arguments, work.precision);
}

int needed(const MegatronArguments& arguments, std::string_view name, const std::string& file) {
  if (!arguments.has(name)) {
    throw Error(ErrorKind::input, concat("the log's arguments do not say ", name),
                SourcePlace{file, 0, 0});
  }
  return arguments.small(name);
}

}  // namespace

bool is_megatron_log(std::string_view content) {
  return content.find(iteration_time) != std::string_view::npos || has_arguments_dump(content);
}

std::vector<MeasuredRun> read_megatron_log(std::string_view content, const std::string& file,
                                           const RunFileOptions& options) {
  Log log = read_log(content, file);
  const MegatronArguments& arguments = log.arguments;
  if (!log.has_arguments) {
    throw Error(ErrorKind::input,
                "the log has iterations but no arguments: they say what was trained",
                SourcePlace{file, 0, 0},
                {"keep the lines from \"---- arguments ----\" to \"---- end of arguments ----\""});
  }
  const int world = needed(arguments, "world-size", file);
  if (world < 1 || world > most_devices) {
    throw Error(ErrorKind::input,
                concat("world-size: expected from 1 to ", most_devices, " devices, found ", world),
                SourcePlace{file, 0, 0});
  }
  if (log.batch == 0) log.batch = needed(arguments, "global-batch-size", file);
  needed(arguments, "num-layers", file);
  MeasuredRun run;
  run.recipe = recipe_of(arguments);
  refine(run.recipe, arguments);
  run.recipe.device = device_of_run(log.device, options, file);
  // NVLink joins the hosts of a rack.
  run.recipe.devices_per_node = builtin_links(run.recipe.device).box;
  run.model = concat("hidden ", run.recipe.transformer.hidden, " x ", run.recipe.blocks);
  run.left_out = reason_against(arguments);
  if (run.left_out.empty()) run.left_out = reason_against_precision(run.recipe);
  run.recipe.workspace =
      product_workspace(run.recipe.device, {.transformer_engine = run.recipe.weight_stubs,
                                            .grouped = arguments.flag("moe-grouped-gemm"),
                                            .deterministic = arguments.flag("deterministic-mode")});
  const bool fits = spread(run.recipe, world, log.batch);
  if (!fits && run.left_out.empty()) {
    throw Error(ErrorKind::input,
                concat("the arguments cannot have run: world size ", world, ", batch ", log.batch,
                       " and ", run.recipe.blocks, " layers are not divided by their degrees"),
                SourcePlace{file, 0, 0});
  }
  run.label = concat(run.model, ", ", configuration_of(run.recipe));
  set_steps(run, log.seconds, file);
  if (log.memory > 0) {
    run.memory = static_cast<Bytes>(std::llround(log.memory));
    run.memory_stage = std::min(run.recipe.pipeline - 1,
                                log.memory_rank / std::max(1, world / run.recipe.pipeline));
  }
  const int node = run.recipe.devices_per_node;
  run.assumptions = {concat("nodes of ", node == 8 ? "eight" : std::to_string(node),
                            " devices; Adam with master weights")};
  return {run};
}

}  // namespace stagecraft
