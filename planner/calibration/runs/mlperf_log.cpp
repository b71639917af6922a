// What MLPerf Training submissions log (mlcommons/logging): a line of JSON for each event,
//
//   :::MLLOG {"time_ms": 17…, "key": "global_batch_size", "value": 1152, "metadata": {…}}
//
// and what the launcher printed around it. Events say the benchmark, hence the model, the batch and
// how long steps took: `train_step_time` in tracked_stats, or blocks of training between two
// evaluations, with their counts of samples. How the model is divided they do not say: NeMo's
// "Experiment configuration" does (model.tensor_model_parallel_size: 4), or the configuration that
// was sourced before (export TENSOR_MODEL_PARALLEL=4), put in front of the log.

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/calibration/measured_runs.hpp"
#include "planner/calibration/megatron_arguments.hpp"
#include "profiles/cluster.hpp"
#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/launcher_labels.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view event_mark = ":::MLLOG ";
constexpr std::string_view machine_mark = ":::SYSJSON ";

struct Benchmark {
  std::string_view name, model;
  std::string_view left_out;  ///< why its runs cannot be predicted; empty if they can
};
constexpr std::array benchmarks{
    Benchmark{"gpt3", "gpt3-175b", ""},
    Benchmark{"llama31_405b", "llama3-405b", ""},
    Benchmark{"llama31_8b", "llama3-8b", ""},
    Benchmark{"llama2_70b_lora", "llama2-70b", "only its adapters (LoRA) are trained"},
    Benchmark{"mixtral_8x22b", "mixtral-8x22b", ""},
    Benchmark{"deepseekv3_671b", "deepseek-v3", ""},
};

/// A setting in NeMo's configuration, in the variables of NVIDIA's submissions, and in
/// Megatron-LM's arguments.
struct MlperfSetting {
  std::string_view key, variable, argument;
};
constexpr std::array mlperf_settings{
    MlperfSetting{"tensor_model_parallel_size", "TENSOR_MODEL_PARALLEL",
                  "tensor-model-parallel-size"},
    MlperfSetting{"pipeline_model_parallel_size", "PIPELINE_MODEL_PARALLEL",
                  "pipeline-model-parallel-size"},
    MlperfSetting{"virtual_pipeline_model_parallel_size", "INTERLEAVED_PIPELINE",
                  "virtual-pipeline-model-parallel-size"},
    MlperfSetting{"context_parallel_size", "CONTEXT_PARALLEL", "context-parallel-size"},
    MlperfSetting{"expert_model_parallel_size", "EXPERT_PARALLEL", "expert-model-parallel-size"},
    MlperfSetting{"micro_batch_size", "MICRO_BATCH_SIZE", "micro-batch-size"},
    MlperfSetting{"num_nodes", "DGXNNODES", "nodes"},
    MlperfSetting{"devices", "DGXNGPU", "devices"},
    MlperfSetting{"sequence_parallel", "SEQ_PARALLEL", "sequence-parallel"},
    MlperfSetting{"transformer_engine", "TRANSFORMER_ENGINE", "transformer-engine"},
    MlperfSetting{"fp8", "FP8", "fp8"},
    MlperfSetting{"fp4", "FP4", "fp4"},
    MlperfSetting{"use_distributed_optimizer", "USE_DIST_OPTIMIZER", "use-distributed-optimizer"},
    MlperfSetting{"overlap_grad_reduce", "OVERLAP_GRAD_REDUCE", "overlap-grad-reduce"},
    MlperfSetting{"overlap_param_gather", "OVERLAP_PARAM_GATHER", "overlap-param-gather"},
    MlperfSetting{"ub_tp_comm_overlap", "TP_COMM_OVERLAP", "tp-comm-overlap"},
    MlperfSetting{"overlap_p2p_comm", "OVERLAP_P2P_COMM", "overlap-p2p-communication"},
    MlperfSetting{"account_for_embedding_in_pipeline_split", "ASYM_PP_EMBED",
                  "account-for-embedding-in-pipeline-split"},
    MlperfSetting{"account_for_loss_in_pipeline_split", "ASYM_PP_LOSS",
                  "account-for-loss-in-pipeline-split"},
    MlperfSetting{"activations_checkpoint_granularity", "ACT_CKPT_GRANULARITY",
                  "recompute-granularity"},
    MlperfSetting{"activations_checkpoint_method", "ACT_CKPT_METHOD", "recompute-method"},
    MlperfSetting{"cross_entropy_loss_fusion", "CROSS_ENTROPY_LOSS_FUSION",
                  "cross-entropy-loss-fusion"},
    MlperfSetting{"cross_entropy_fusion_impl", "CE_FUSION_IMPL", "cross-entropy-fusion-impl"},
    MlperfSetting{"fp8_dot_product_attention", "FP8_DPA", "fp8-dot-product-attention"},
    MlperfSetting{"dpa_fp8_recipe", "NVTE_DPA_FP8_RECIPE", "dpa-fp8-recipe"},
    MlperfSetting{"fp8_param_gather", "FP8_PARAM_GATHER", "fp8-param-gather"},
    MlperfSetting{"fp8_params", "FP8_PARAMS", "fp8-param-gather"},
    MlperfSetting{"enable_cuda_graph", "MCORE_CUDA_GRAPH", "enable-cuda-graph"},
    MlperfSetting{"external_cuda_graph", "LAYER_CUDA_GRAPH", "external-cuda-graph"},
};

/// What NVIDIA's submissions have where no variable says otherwise (their conf/custom.yaml).
constexpr std::array usual{
    std::pair{"sequence-parallel", "True"},
    std::pair{"transformer-engine", "True"},
    std::pair{"use-distributed-optimizer", "True"},
    std::pair{"overlap-grad-reduce", "True"},
    std::pair{"overlap-param-gather", "True"},
    std::pair{"cross-entropy-loss-fusion", "True"},
    std::pair{"accumulate-allreduce-grads-in-fp32", "False"},
    std::pair{"devices", "8"},
};

struct MlperfEvent {
  std::string key;
  double milliseconds = 0;
  double samples = 0;  ///< trained so far, where it says so
  double tokens = 0;   ///< of the block that it opens, where it says so (GPT-3's "epoch_count")
};

struct MlperfLog {
  MegatronArguments arguments;
  bool has_configuration = false;
  std::string benchmark, device;
  std::int64_t batch = 0, sequence = 0;
  std::vector<MlperfEvent> events;
  std::vector<double> seconds;  ///< that steps say themselves to have taken
};

[[noreturn]] void refuse_mlperf(const std::string& message, const std::string& file,
                                std::vector<std::string> remedies = {}) {
  throw Error(ErrorKind::input, message, SourcePlace{file, 0, 0}, std::move(remedies));
}

double number_in(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return 0;
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::int64_t count_in(const nlohmann::json& event, const SourcePlace& place) {
  const double value = number_in(event, "value");
  if (value < 1 || value > 1e9) {
    throw Error(ErrorKind::input,
                concat(event.value("key", ""), ": expected a number from 1 to 10^9"), place);
  }
  return static_cast<std::int64_t>(value);
}

std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// "128xNVIDIA GB200", "8xMI355X_2xEPYC_9575F": nodes or devices are counted before names.
void name_device(MlperfLog& log, const std::string& text) {
  std::string plain;
  for (const char c : text) {
    const bool is_part = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (!is_part && !plain.empty() && plain.back() != ' ') plain += ' ';
    const bool counted = plain.find_first_not_of("0123456789", plain.rfind(' ') + 1) == plain.npos;
    if (c == 'x' && !plain.empty() && plain.back() != ' ' && counted) {
      plain.resize(plain.rfind(' ') + 1);
    } else if (is_part) {
      plain += c;
    }
  }
  if (log.device.empty()) log.device = device_kind_in(plain);
  for (const std::string& word : split(plain, ' ')) {
    if (log.device.empty() && !word.empty()) log.device = device_kind_named(word);
  }
}

/// Lines of several ranks may run into each other: what is no JSON tells nothing.
void read_event(MlperfLog& log, std::string_view text, const SourcePlace& place) {
  const auto event = nlohmann::json::parse(text, nullptr, false);
  if (!event.is_object()) return;
  const std::string key = text_in(event, "key");
  const nlohmann::json metadata = event.value("metadata", nlohmann::json::object());
  if (key == "submission_benchmark") log.benchmark = text_in(event, "value");
  if (key == "submission_platform") name_device(log, text_in(event, "value"));
  if (key == "global_batch_size") log.batch = count_in(event, place);
  if (key == "max_sequence_length") log.sequence = count_in(event, place);
  if (key == "tracked_stats") {
    const double seconds = number_in(event.value("value", nlohmann::json()), "train_step_time");
    if (seconds > 0) log.seconds.push_back(seconds);
  }
  log.events.push_back({key, number_in(event, "time_ms"),
                        std::max(number_in(metadata, "samples_count"), 0.0),
                        std::max(number_in(metadata, "epoch_count"), 0.0)});
}

void read_machine(MlperfLog& log, std::string_view text) {
  const auto machine = nlohmann::json::parse(text, nullptr, false);
  if (machine.is_object()) name_device(log, text_in(machine, "accelerator_model_name"));
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                      text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// "8", or what stands behind ":-" or ":=" in "${NAME:-8}", with or without quotes.
std::string value_of(std::string_view text) {
  text = without_quotes(without_blanks(text.substr(0, text.find(" #"))));
  const std::size_t otherwise = std::min(text.find(":-"), text.find(":="));
  if (text.starts_with("${") && text.ends_with('}') && otherwise != text.npos)
    text = without_quotes(text.substr(otherwise + 2, text.size() - otherwise - 3));
  if (text == "true" || text == "1.0") return "True";
  if (text == "false") return "False";
  if (text == "null" || text == "none") return "None";
  return std::string(text);
}

/// How replicas sum and collect, as NeMo says when it sets that up:
/// "DistributedDataParallelConfig(grad_reduce_in_fp32=False, …)", until 2024 "grad_sync_dtype:
/// bf16".
void read_sums(MlperfLog& log, std::string_view line, const SourcePlace& place) {
  const auto word_after = [&](std::string_view name) {
    const std::size_t at = line.find(name);
    if (at == line.npos) return std::string();
    const std::string_view rest = line.substr(at + name.size());
    return std::string(rest.substr(0, rest.find_first_of(" ,)\r")));
  };
  const auto set = [&](std::string_view argument, const std::string& word) {
    if (!word.empty()) log.arguments.set(argument, {word, place});
  };
  constexpr std::string_view wide_sums = "accumulate-allreduce-grads-in-fp32";
  if (line.find("DistributedDataParallelConfig(") != line.npos) {
    set(wide_sums, word_after("grad_reduce_in_fp32="));
    set("fp8-param-gather", word_after("fp8_param_gather="));
  }
  const std::string precision = word_after("grad_sync_dtype: ");
  if (precision == "bf16" || precision == "fp32")
    set(wide_sums, precision == "fp32" ? "True" : "False");
}

/// A line of NeMo's configuration, or an exported variable. Later ones count, as they do there.
void read_setting(MlperfLog& log, std::string_view line, bool in_configuration,
                  const SourcePlace& place) {
  line = without_blanks(line);
  if (line.starts_with("+ ")) line.remove_prefix(2);
  const bool exports = line.starts_with("export ");
  if (exports) line = without_blanks(line.substr(7));
  if (!exports && !in_configuration) return;
  const std::size_t end = line.find(exports ? '=' : ':');
  if (end == line.npos) return;
  for (const auto& [key, variable, argument] : mlperf_settings) {
    if (line.substr(0, end) != (exports ? variable : key)) continue;
    log.has_configuration = true;
    log.arguments.set(argument, {value_of(line.substr(end + 1)), place});
  }
}

MlperfLog read_mlperf(std::string_view content, const std::string& file) {
  MlperfLog log;
  for (const auto& [name, value] : usual) log.arguments.set(name, {value, {file, 0, 0}});
  constexpr int longest_configuration = 1000;
  int configuration = 0;  // lines left of it
  for (const PlainLine& line : lines_without_labels(content)) {
    const SourcePlace place{file, line.number, 1};
    const std::size_t event = line.text.find(event_mark);
    const std::size_t machine = line.text.find(machine_mark);
    if (event != std::string_view::npos) {
      read_event(log, line.text.substr(event + event_mark.size()), place);
    } else if (machine != std::string_view::npos) {
      read_machine(log, line.text.substr(machine + machine_mark.size()));
    } else {
      if (line.text.find("Experiment configuration") != std::string_view::npos)
        configuration = longest_configuration;
      read_setting(log, line.text, configuration-- > 0, place);
      read_sums(log, line.text, place);
      configuration = std::max(configuration, 0);
    }
  }
  return log;
}

/// Of blocks of training: the samples of each are what the next event counts that counts more, or
/// the tokens that its own start tells, over the sequence's length.
std::vector<double> steps_of_blocks(const MlperfLog& log, std::int64_t sequence) {
  std::vector<double> seconds;
  const std::vector<MlperfEvent>& events = log.events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].key != "block_start") continue;
    const auto stop = std::find_if(events.begin() + static_cast<std::ptrdiff_t>(i), events.end(),
                                   [](const MlperfEvent& e) { return e.key == "block_stop"; });
    if (stop == events.end()) break;
    double samples = events[i].tokens / static_cast<double>(sequence);
    if (samples == 0) {
      const auto counted = std::find_if(
          stop, events.end(), [&](const MlperfEvent& e) { return e.samples > events[i].samples; });
      if (counted == events.end()) break;
      samples = counted->samples - events[i].samples;
    }
    seconds.push_back((stop->milliseconds - events[i].milliseconds) / 1000 /
                      (samples / static_cast<double>(log.batch)));
  }
  return seconds;
}

int needed_setting(const MegatronArguments& arguments, std::string_view name,
                   const std::string& file) {
  if (arguments.has(name)) return arguments.small(name);
  refuse_mlperf(
      concat("events of MLPerf do not say ", name, ", and no configuration does"), file,
      {"keep the lines behind NeMo's \"Experiment configuration\", or put the variables of the "
       "launch in front: cat config_*.sh result_0.txt > run.log"});
}

const Benchmark& benchmark_of(const MlperfLog& log, const std::string& file) {
  const auto found = std::ranges::find(benchmarks, log.benchmark, &Benchmark::name);
  if (found != benchmarks.end()) return *found;
  std::vector<std::string> known;
  for (const Benchmark& each : benchmarks) known.emplace_back(each.name);
  refuse_mlperf(
      log.benchmark.empty()
          ? "the log does not say its benchmark (submission_benchmark)"
          : concat("of MLPerf's benchmarks ", join_words(known), " are known, not ", log.benchmark),
      file, {"write the run as a row of a table, whose column model takes a config.json"});
}

Recipe recipe_of(const MlperfLog& log, const Benchmark& benchmark) {
  const Model model = builtin_model(std::string(benchmark.model));
  MegatronArguments arguments = log.arguments;
  const auto set = [&](std::string_view name, const std::string& value) {
    arguments.set(name, {value, {}});
  };
  set("hidden-size", std::to_string(model.transformer->hidden));
  set("num-attention-heads", std::to_string(model.transformer->heads));
  set("num-layers", std::to_string(std::ranges::count_if(model.layers, is_block)));
  set("seq-length", std::to_string(log.sequence > 0 ? log.sequence : model.sequence));
  set("bf16", "True");
  set("hidden-dropout", "0.0");
  set("attention-dropout", "0.0");
  if (arguments.flag("transformer-engine")) set("transformer-impl", "transformer_engine");
  if (arguments.word("overlap-p2p-communication") == "False")
    set("no-overlap-p2p-communication", "True");
  if (arguments.small("tensor-model-parallel-size") == 1) set("sequence-parallel", "False");
  // Transformer Engine's last word on attention.
  if (arguments.word("dpa-fp8-recipe") == "F16") set("fp8-dot-product-attention", "False");
  Recipe recipe = stagecraft::recipe_of(arguments);
  recipe.transformer = *model.transformer;
  recipe.transformer.positions = recipe.work.sequence;
  recipe.work.gradient_bytes = gradient_bytes_of(arguments, recipe.work.precision);
  return recipe;
}

}  // namespace

bool is_mlperf_log(std::string_view content) {
  return content.find(event_mark) != std::string_view::npos;
}

std::vector<MeasuredRun> read_mlperf_log(std::string_view content, const std::string& file,
                                         const RunFileOptions& options) {
  MlperfLog log = read_mlperf(content, file);
  const Benchmark& benchmark = benchmark_of(log, file);
  if (log.batch == 0) refuse_mlperf("the log does not say its global_batch_size", file);
  MeasuredRun run;
  run.model = benchmark.model;
  run.left_out = benchmark.left_out;
  run.recipe.device = device_of_run(log.device, options, file);
  if (!run.left_out.empty()) {
    run.label = concat(run.model, ", batch ", log.batch);
    return {run};
  }
  for (const char* name :
       {"tensor-model-parallel-size", "pipeline-model-parallel-size", "micro-batch-size", "nodes"})
    needed_setting(log.arguments, name, file);
  const std::int64_t world =
      std::int64_t{log.arguments.small("nodes")} * log.arguments.small("devices");
  if (world < 1 || world > most_devices) {
    refuse_mlperf(concat("expected from 1 to ", most_devices, " devices, found ", world), file);
  }
  const std::string device = run.recipe.device;
  run.recipe = recipe_of(log, benchmark);
  run.recipe.device = device;
  run.recipe.devices_per_node = builtin_links(device).box;
  if (log.arguments.flag("fp4")) run.left_out = "how fast devices compute in FP4 is not known";
  if (log.arguments.word("recompute-method") == "block")
    run.left_out = "it recomputes some of each stage's layers";
  if (run.left_out.empty()) run.left_out = reason_against_precision(run.recipe);
  if (!spread(run.recipe, static_cast<int>(world), static_cast<int>(log.batch)) &&
      run.left_out.empty()) {
    refuse_mlperf(
        concat("its configuration cannot have run: ", world, " devices, batch ", log.batch, " and ",
               run.recipe.blocks, " layers are not divided by its degrees"),
        file);
  }
  run.label = concat(run.model, ", ", configuration_of(run.recipe));
  set_steps(run, log.seconds.empty() ? steps_of_blocks(log, run.recipe.work.sequence) : log.seconds,
            file);
  run.assumptions = {
      "what no variable says of MLPerf runs is as in NVIDIA's submissions; steps of means over "
      "several are one each"};
  return {run};
}

}  // namespace stagecraft
