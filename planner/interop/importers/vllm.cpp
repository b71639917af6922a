// vLLM's launch lines (vllm/engine/arg_utils.py), as plans of what they serve.
//
//   VLLM_PP_LAYER_PARTITION=9,11,12 vllm serve MODEL --pipeline-parallel-size 3
//       --tensor-parallel-size 2 --data-parallel-size 2
//
// Embedding and head are the first and the last rank's. Without a partition each rank serves as
// many layers as the others, and one more from the last but one backwards where some are left over
// (get_pp_indices of vllm/distributed/utils.py). What says how long requests are, how many there
// are at once, how many tokens a pass has and which part of the memory is used, is the plan's
// requests. A script may start several lines, one for each node; they have to say the same.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "planner/interop/importers/script_folder.hpp"
#include "planner/interop/importers/shell/reader.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/problem/asked_requests.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr const char* partition_variable = "VLLM_PP_LAYER_PARTITION";

/// What is not there has no bearing on how long a step takes, or is not known.
constexpr std::array vllm_flags{
    KeyMeaning{"pipeline-parallel-size", Meaning::taken},
    KeyMeaning{"tensor-parallel-size", Meaning::taken},
    KeyMeaning{"data-parallel-size", Meaning::taken},
    KeyMeaning{"dtype", Meaning::taken},
    KeyMeaning{"model", Meaning::no_bearing},
    KeyMeaning{"nnodes", Meaning::no_bearing},
    KeyMeaning{"node-rank", Meaning::no_bearing},
    KeyMeaning{"master-*", Meaning::no_bearing},
    KeyMeaning{"headless", Meaning::no_bearing},
    KeyMeaning{"data-parallel-*", Meaning::no_bearing},
    KeyMeaning{"distributed-executor-backend", Meaning::no_bearing},
    KeyMeaning{"worker-use-ray", Meaning::no_bearing},
    KeyMeaning{"host", Meaning::no_bearing},
    KeyMeaning{"port", Meaning::no_bearing},
    KeyMeaning{"api-*", Meaning::no_bearing},
    KeyMeaning{"served-model-name", Meaning::no_bearing},
    KeyMeaning{"trust-remote-code", Meaning::no_bearing},
    KeyMeaning{"tokenizer*", Meaning::no_bearing},
    KeyMeaning{"hf-*", Meaning::no_bearing},
    KeyMeaning{"revision", Meaning::no_bearing},
    KeyMeaning{"download-dir", Meaning::no_bearing},
    KeyMeaning{"load-format", Meaning::no_bearing},
    KeyMeaning{"seed", Meaning::no_bearing},
    KeyMeaning{"disable-log-*", Meaning::no_bearing},
    KeyMeaning{"enable-log-*", Meaning::no_bearing},
    KeyMeaning{"uvicorn-*", Meaning::no_bearing},
    KeyMeaning{"allowed-*", Meaning::no_bearing},
    KeyMeaning{"chat-template*", Meaning::no_bearing},
    KeyMeaning{"tool-*", Meaning::no_bearing},
    KeyMeaning{"enable-auto-tool-choice", Meaning::no_bearing},
    KeyMeaning{"reasoning-parser", Meaning::no_bearing},
    KeyMeaning{"gpu-memory-utilization", Meaning::taken},
    KeyMeaning{"max-model-len", Meaning::taken},
    KeyMeaning{"max-num-batched-tokens", Meaning::taken},
    KeyMeaning{"max-num-seqs", Meaning::taken},
    KeyMeaning{"max-num-*", Meaning::not_modelled},
    KeyMeaning{"max-seq-len-to-capture", Meaning::not_modelled},
    KeyMeaning{"enable-chunked-prefill", Meaning::no_bearing},
    KeyMeaning{"no-enable-chunked-prefill", Meaning::not_modelled},
    KeyMeaning{"enable-prefix-caching", Meaning::not_modelled},
    KeyMeaning{"no-enable-prefix-caching", Meaning::no_bearing},
    KeyMeaning{"enable-expert-parallel", Meaning::not_modelled},
    KeyMeaning{"enforce-eager", Meaning::not_modelled},
    KeyMeaning{"quantization", Meaning::not_modelled},
    KeyMeaning{"kv-cache-*", Meaning::not_modelled, "auto"},
    KeyMeaning{"block-size", Meaning::not_modelled},
    KeyMeaning{"swap-space", Meaning::not_modelled},
    KeyMeaning{"cpu-offload-gb", Meaning::not_modelled, "0"},
    KeyMeaning{"decode-context-parallel-size", Meaning::not_modelled, "1"},
    KeyMeaning{"prefill-context-parallel-size", Meaning::not_modelled, "1"},
    KeyMeaning{"compilation-config", Meaning::not_modelled},
    KeyMeaning{"speculative-*", Meaning::not_modelled},
    KeyMeaning{"enable-lora", Meaning::not_modelled},
    KeyMeaning{"async-scheduling", Meaning::not_modelled},
    KeyMeaning{"all2all-backend", Meaning::not_modelled},
    KeyMeaning{"enable-eplb", Meaning::not_modelled},
    KeyMeaning{"enable-dbo", Meaning::not_modelled},
};

struct ShortFlag {
  std::string_view flag, name;
};
constexpr std::array short_flags{
    ShortFlag{"-tp", "tensor-parallel-size"},
    ShortFlag{"-pp", "pipeline-parallel-size"},
    ShortFlag{"-dp", "data-parallel-size"},
    ShortFlag{"-q", "quantization"},
    ShortFlag{"-ep", "enable-expert-parallel"},
    ShortFlag{"-n", "nnodes"},
    ShortFlag{"-r", "node-rank"},
    ShortFlag{"--device-memory-utilization", "gpu-memory-utilization"}};

struct VllmFlag {
  std::string name;
  std::optional<shell::Text> value;
  shell::Text word;
};

struct VllmLaunch {
  std::vector<VllmFlag> flags;
  std::optional<shell::Text> partition;
  SourcePlace place;
};

/// What a line says of the plan.
struct VllmSettings {
  int pipeline = 1, tensor = 1, data = 1;
  std::optional<Precision> precision;
  std::vector<int> partition;  ///< transformer layers of each rank; empty: not said
  /// Of a request, of a pass, and requests of a replica at once.
  std::optional<std::int64_t> length, chunk, requests;
  std::optional<double> memory;  ///< part of each device's
  bool operator==(const VllmSettings&) const = default;
};

/// Behind the program: `vllm serve`, `-m vllm.entrypoints.openai.api_server`, or the image that
/// starts it; 0 if it is none.
std::size_t behind_vllm(const std::vector<shell::Text>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    const bool serves = i + 1 < words.size() && words[i + 1].characters() == "serve" &&
                        word.substr(word.find_last_of('/') + 1) == "vllm";
    if (serves) return i + 2;
    if (word.starts_with("vllm.entrypoints.") || word.starts_with("vllm/vllm-openai")) return i + 1;
  }
  return 0;
}

VllmLaunch launch_of(const shell::Invocation& invocation, std::size_t begin,
                     const shell::Reading& reading) {
  VllmLaunch launch{.flags = {}, .partition = {}, .place = reading.source_place(invocation.place)};
  const std::vector<shell::Text>& words = invocation.words;
  const auto variable = invocation.environment.find(partition_variable);
  if (variable != invocation.environment.end()) launch.partition = variable->second;
  // env NAME=VALUE and docker run -e NAME=VALUE.
  for (std::size_t i = 0; i < begin; ++i) {
    const std::string name = concat(partition_variable, "=");
    if (words[i].characters().starts_with(name)) launch.partition = words[i].piece(name.size());
  }
  for (std::size_t i = begin; i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    const std::size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    const auto known = std::ranges::find(short_flags, std::string_view(name), &ShortFlag::flag);
    if (known != short_flags.end()) name = concat("--", known->name);
    if (!name.starts_with("--")) continue;
    std::replace(name.begin(), name.end(), '_', '-');
    VllmFlag flag{.name = name.substr(2), .value = {}, .word = words[i]};
    const bool is_next = equals == std::string::npos && i + 1 < words.size() &&
                         !words[i + 1].characters().starts_with("-");
    if (equals != std::string::npos) flag.value = words[i].piece(equals + 1);
    if (is_next) flag.value = words[++i];
    launch.flags.push_back(std::move(flag));
  }
  return launch;
}

/// Throws Error (input) for a text that only a variable says.
const std::string& known_text(const shell::Text& text, std::string_view what,
                              const shell::Reading& reading) {
  const std::vector<int> roots = reading.roots(text.unknowns());
  if (roots.empty()) return text.characters();
  const shell::Unknown& unknown = reading.unknowns[static_cast<std::size_t>(roots.front())];
  throw Error(ErrorKind::input, concat("a variable has no value: ", unknown.name, ", for ", what),
              reading.source_place(unknown.place),
              {concat("what only the cluster knows comes with --set ", unknown.name, "=…")});
}

int whole_number(const std::string& text, int least, std::string_view what,
                 const SourcePlace& place) {
  int number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc{} && end == text.data() + text.size() && number >= least &&
      number <= most_devices)
    return number;
  throw Error(
      ErrorKind::input,
      concat(what, ": expected a whole number of at least ", least, ", found \"", text, "\""),
      place);
}

std::optional<Precision> precision_of_dtype(const std::string& word, const SourcePlace& place) {
  if (word == "auto") return {};
  if (word == "bfloat16") return Precision::bfloat16;
  if (word == "half" || word == "float16") return Precision::float16;
  if (word == "float" || word == "float32") return Precision::float32;
  throw Error(ErrorKind::input,
              concat("--dtype: expected auto, bfloat16, float16, half, float or float32, found \"",
                     word, "\""),
              place);
}

/// As vLLM reads numbers of tokens: 1k are 1,000 and 1K are 1,024 (`human_readable_int` of
/// vllm/utils/argparse_utils.py); nothing for "auto".
std::optional<std::int64_t> token_count(const std::string& text, std::string_view what,
                                        const SourcePlace& place) {
  if (text == "auto" || text == "-1") return {};
  constexpr std::array<std::pair<char, double>, 4> units{
      {{'k', 1e3}, {'K', 1024}, {'m', 1e6}, {'M', 1024.0 * 1024}}};
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, fault] = std::from_chars(text.data(), end, number);
  const auto* unit = std::ranges::find_if(
      units, [&](const auto& of) { return stopped + 1 == end && *stopped == of.first; });
  if (unit != units.end()) number *= unit->second;
  const bool is_whole = number == std::floor(number) && number >= 1 && number <= 1e12;
  if (fault == std::errc{} && is_whole && (stopped == end || unit != units.end()))
    return static_cast<std::int64_t>(number);
  throw Error(
      ErrorKind::input,
      concat(what, ": expected a number of tokens such as 8192 or 8K, found \"", text, "\""),
      place);
}

double part_of_memory(const std::string& text, const SourcePlace& place) {
  double part = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, fault] = std::from_chars(text.data(), end, part);
  if (fault == std::errc{} && stopped == end && part > 0 && part <= 1) return part;
  throw Error(
      ErrorKind::input,
      concat("--gpu-memory-utilization: expected more than 0 and at most 1, found \"", text, "\""),
      place);
}

/// Whether the flag is one of requests, which is taken over.
bool take_of_requests(const std::string& name, const std::string& text, const SourcePlace& place,
                      VllmSettings& settings) {
  if (name == "gpu-memory-utilization") {
    settings.memory = part_of_memory(text, place);
    return true;
  }
  std::optional<std::int64_t>* number = name == "max-model-len"            ? &settings.length
                                        : name == "max-num-batched-tokens" ? &settings.chunk
                                        : name == "max-num-seqs"           ? &settings.requests
                                                                           : nullptr;
  if (number == nullptr) return false;
  *number = token_count(text, concat("--", name), place);
  return true;
}

VllmSettings settings_of(const VllmLaunch& launch, const shell::Reading& reading) {
  VllmSettings settings;
  for (const VllmFlag& flag : launch.flags) {
    const std::string shown = concat("--", flag.name);
    const KeyMeaning* row = meaning_of(vllm_flags, flag.name);
    if (row == nullptr || row->meaning != Meaning::taken) continue;
    const SourcePlace place = reading.source_place(flag.word.place());
    if (!flag.value) throw Error(ErrorKind::input, concat(shown, " has no value"), place);
    const std::string& text = known_text(*flag.value, shown, reading);
    if (flag.name == "dtype") {
      settings.precision = precision_of_dtype(text, place);
      continue;
    }
    if (take_of_requests(flag.name, text, place, settings)) continue;
    int& degree = flag.name == "pipeline-parallel-size" ? settings.pipeline
                  : flag.name == "tensor-parallel-size" ? settings.tensor
                                                        : settings.data;
    degree = whole_number(text, 1, shown, place);
  }
  if (!launch.partition) return settings;
  const SourcePlace place = reading.source_place(launch.partition->place());
  for (const std::string& text :
       split(known_text(*launch.partition, partition_variable, reading), ','))
    settings.partition.push_back(whole_number(trim(text), 0, partition_variable, place));
  if (static_cast<int>(settings.partition.size()) != settings.pipeline) {
    throw Error(ErrorKind::input,
                concat("vLLM refuses: ", partition_variable, " is for ", settings.partition.size(),
                       " ranks, and --pipeline-parallel-size is ", settings.pipeline),
                place);
  }
  return settings;
}

void list_flags(const VllmLaunch& launch, const shell::Reading& reading, ImportedPlan& imported) {
  for (const VllmFlag& flag : launch.flags) {
    const std::string value = flag.value ? reading.shown(*flag.value) : std::string();
    const KeyMeaning* row = meaning_of(vllm_flags, flag.name);
    const bool as_modelled = row != nullptr && !value.empty() && value == row->as_modelled;
    list_text(imported, row, as_modelled,
              {concat("--", flag.name, value.empty() ? "" : " ", value),
               reading.source_place(flag.word.place())});
  }
}

/// As get_pp_indices divides them.
std::vector<int> even_partition(int blocks, int ranks) {
  std::vector<int> counts(static_cast<std::size_t>(ranks), blocks / ranks);
  for (int more = 0; more < blocks % ranks; ++more)
    ++counts[static_cast<std::size_t>(ranks - 2 - more)];
  return counts;
}

std::vector<ForeignStage> stages_of_vllm(const VllmSettings& settings, const Model& model) {
  const LayerRange blocks = decoder_layers(model);
  std::vector<int> counts = settings.partition;
  if (counts.empty()) counts = even_partition(blocks.size(), settings.pipeline);
  int sum = 0;
  for (const int count : counts) sum += count;
  if (sum != blocks.size()) {
    fail("vLLM refuses: ", partition_variable, " has ", sum, " layers, and the model \"",
         model.name, "\" has ", blocks.size());
  }
  const Degrees degrees{
      .pipeline = settings.pipeline, .data = settings.data, .tensor = settings.tensor};
  std::vector<ForeignStage> stages;
  int first = 0, block = blocks.first;
  for (int rank = 0; rank < settings.pipeline; ++rank) {
    block += counts[static_cast<std::size_t>(rank)];
    const bool is_last = rank + 1 == settings.pipeline;
    const int end = is_last ? static_cast<int>(model.layers.size()) : block;
    stages.push_back({.layers = layers_between(first, end),
                      .replicas = settings.data,
                      .tensor_parallel = settings.tensor,
                      .devices = ranks_of(degrees, rank)});
    first = end;
  }
  return stages;
}

/// Tokens of a pass of vLLM's server where nothing is said (`get_batch_defaults` of
/// vllm/engine/arg_utils.py, 0.33.0).
std::int64_t usual_tokens_of_pass(const DeviceKind& kind) {
  constexpr Bytes gib = Bytes{1} << 30;
  if (kind.memory_unlimited) return usual_chunk_tokens;
  if (kind.memory >= 160 * gib) return 16'384;
  return kind.memory >= 70 * gib && kind.name.find("a100") == std::string::npos ? 8'192 : 2'048;
}

/// A length is of prompt and output together: what is said of prompts divides it, else the usual
/// number of tokens made, or half of it.
void set_requests_of_vllm(const VllmSettings& settings, const PlanQuestion& question, Plan& plan) {
  if (!answers_requests(question.profile)) return;
  const std::int64_t positions = question.profile.model.transformer->positions;
  const std::int64_t usual = question.options.sequence
                                 ? *question.options.sequence + usual_output_tokens
                             : positions > 0 ? positions
                                             : question.profile.model.sequence;
  const std::int64_t length =
      settings.length.value_or(positions > 0 ? std::min(usual, positions) : usual);
  const std::int64_t prompt =
      question.options.sequence.value_or(length - std::min(usual_output_tokens, (length + 1) / 2));
  if (prompt < 1 || prompt >= length) {
    fail("vLLM answers requests of ", length, " tokens here, which leaves ", length - prompt,
         " for what follows a prompt of ", prompt, "; --sequence says how long prompts are");
  }
  plan.batch.sequence = prompt;
  plan.requests = Requests{.output = length - prompt,
                           .chunk = settings.chunk.value_or(usual_tokens_of_pass(
                               kind_of(question.cluster, used_devices(plan).front()))),
                           .memory = settings.memory.value_or(usual_serving_memory)};
}

/// Requests of all replicas at once, where nobody says how many samples a batch has.
std::optional<std::int64_t> batch_of_vllm(const VllmSettings& settings,
                                          const PlanQuestion& question) {
  if (question.options.batch || !settings.requests) return question.options.batch;
  return *settings.requests * settings.data;
}

/// The lines that serve, each with the words behind the program.
std::vector<VllmLaunch> launches_of(const shell::Reading& reading) {
  std::vector<VllmLaunch> launches;
  for (const shell::Invocation& invocation : reading.commands) {
    const std::size_t begin = behind_vllm(invocation.words);
    if (begin > 0) launches.push_back(launch_of(invocation, begin, reading));
  }
  return launches;
}

void require_devices(const VllmSettings& settings, const Cluster& cluster) {
  const std::int64_t wanted = std::int64_t{settings.pipeline} * settings.tensor * settings.data;
  const int devices = device_count(cluster);
  if (wanted <= devices) return;
  fail_with_help(ErrorKind::input,
                 concat("vLLM serves on ", wanted, " devices here, ", settings.pipeline, " x ",
                        settings.tensor, " x ", settings.data, ", and the cluster has ", devices),
                 {"--cluster with as many devices"});
}

shell::Reading read_vllm_script(std::string_view content, const std::string& file,
                                const ScriptVariables& variables, ImportedPlan& imported) {
  ScriptFolder folder(file, imported.others);
  shell::Settings settings;
  settings.variables = variables;
  settings.read_file = [&](const std::string& name) {
    const std::optional<OtherFile> read = folder.read(name);
    return read ? std::optional(read->content) : std::nullopt;
  };
  settings.environment = {partition_variable};
  shell::Reading reading = shell::read_script(content, file, settings);
  for (const auto& [name, value] : variables) {
    if (!reading.used.contains(name))
      fail_usage("--set ", name, "=", value, ": ", file, " neither reads nor sets ", name);
  }
  return reading;
}

}  // namespace

bool looks_like_vllm(std::string_view content) {
  return content.find("vllm serve ") != std::string_view::npos ||
         content.find("vllm.entrypoints.") != std::string_view::npos ||
         content.find("vllm/vllm-openai") != std::string_view::npos;
}

std::string open_in_vllm(std::string_view content, const std::string& /*file*/) {
  return content.find("--max-num-seqs") == std::string_view::npos ? "--batch N" : "";
}

ImportedPlan import_vllm(std::string_view content, const std::string& file,
                         const PlanQuestion& question) {
  ImportedPlan imported;
  const shell::Reading reading = read_vllm_script(content, file, question.variables, imported);
  const std::vector<VllmLaunch> launches = launches_of(reading);
  if (launches.empty()) {
    fail("expected a line that starts vLLM, such as vllm serve MODEL --pipeline-parallel-size 2; ",
         "found none");
  }
  const VllmSettings settings = settings_of(launches.front(), reading);
  for (const VllmLaunch& other : launches) {
    if (settings_of(other, reading) == settings) continue;
    throw Error(ErrorKind::input,
                "the script starts vLLM in several ways, and a plan is of one: lines of one "
                "service differ in --node-rank and --headless alone",
                other.place, {"keep the one that is meant"});
  }
  list_flags(launches.front(), reading, imported);
  imported.notes = reading.notes;
  if (!question.options.replicas.empty())
    fail_usage("replicas follow from --data-parallel-size; leave --replicas away");
  require_devices(settings, question.cluster);
  PlanQuestion settled = question;
  settled.options.precision =
      said_once(settings.precision, "--dtype", question.options.precision, "--precision");
  imported.plan = begin_plan(settled);
  set_stages(imported.plan, stages_of_vllm(settings, question.profile.model));
  set_schedule(imported.plan, schedule_name(question, "inference"));
  imported.plan.batch = batch_of(settled, batch_of_vllm(settings, question),
                                 question.options.microbatch, settings.data);
  set_requests_of_vllm(settings, question, imported.plan);
  return imported;
}

}  // namespace stagecraft
