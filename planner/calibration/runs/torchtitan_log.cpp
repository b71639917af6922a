// What torchtitan prints: its mesh, its model, how batches are cut, and a line for each step that
// it logs. `tps` is tokens per second and device, so a step's time follows.
//
//   Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1
//   CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory
//   Building llama3 8B with TransformerModelArgs(dim=4096, n_layers=32, …)
//   (since 0.3 only "Building llama3 8B" and "Model llama3 8B size: 8,030,261,248 total
//   parameters") Training starts at step 1, with local batch size 1, global batch size 8, sequence
//   length 8192 step: 10  loss: 9.87  memory: 41.2GiB(52.1%)  tps: 6,123  tflops: 354.6  mfu: 35.9%
//
// FSDP shards weights, gradients and optimizer states (ZeRO-3); behind a pipeline torchtitan keeps
// the weights whole between microbatches, which is ZeRO-1 to this ledger.

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/calibration/measured_runs.hpp"
#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr double gibi = 1024.0 * 1024 * 1024;

/// Without the escape sequences that colour a terminal.
std::string without_colours(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\x1b') {
      plain += text[at];
      continue;
    }
    while (at < text.size() && text[at] != 'm' && text[at] != '\n') ++at;
  }
  return plain;
}

/// The first line that has the words, from there on; empty if there is none.
std::string_view line_with(std::string_view content, std::string_view words) {
  const std::size_t found = content.find(words);
  if (found == std::string_view::npos) return {};
  return content.substr(found, content.find('\n', found) - found);
}

[[noreturn]] void fail_missing(const std::string& what, const std::string& file) {
  throw Error(ErrorKind::input, concat("the log does not say ", what), SourcePlace{file, 0, 0},
              {"keep the log from its first line on"});
}

int whole_after(std::string_view line, std::string_view label, int otherwise) {
  const double number = number_after(line, label).value_or(otherwise);
  return number >= 0 && number < 1e9 ? static_cast<int>(number) : otherwise;
}

struct Mesh {
  int pipeline = 1, replicate = 1, shard = 1, context = 1, tensor = 1, expert = 1;
};

/// "…: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1", or an older release's
/// "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]".
Mesh read_mesh(std::string_view content, const std::string& file) {
  Mesh mesh;
  const std::string_view now = line_with(content, "device mesh with parallelism:");
  const std::string_view before = line_with(content, "-D device mesh with [");
  if (now.empty() && before.empty()) fail_missing("its device mesh", file);
  struct Axis {
    std::string_view name;
    int Mesh::*degree;
  };
  constexpr std::array axes{Axis{"pp", &Mesh::pipeline},    Axis{"dp_replicate", &Mesh::replicate},
                            Axis{"dp_shard", &Mesh::shard}, Axis{"cp", &Mesh::context},
                            Axis{"tp", &Mesh::tensor},      Axis{"ep", &Mesh::expert},
                            Axis{"dp", &Mesh::shard}};  // the first releases'
  const std::size_t middle = before.find("], [");
  const std::vector<std::string> names = split(before.substr(0, middle), ',');
  const std::vector<std::string> degrees = middle == std::string_view::npos
                                               ? std::vector<std::string>{}
                                               : split(before.substr(middle + 3), ',');
  for (const std::string& name : names) {
    const std::size_t first = name.find('\'');
    if (first == std::string::npos) continue;
    const std::string axis = name.substr(first + 1, name.rfind('\'') - first - 1);
    if (std::ranges::count(axes, axis, &Axis::name) > 0) continue;
    throw Error(ErrorKind::input,
                concat("the device mesh has an axis \"", axis,
                       "\"; pp, dp, dp_replicate, dp_shard, cp, tp and ep are known"),
                SourcePlace{file, 0, 0});
  }
  constexpr std::int64_t most_devices = 1'000'000;
  std::int64_t devices = 1;
  for (const auto& [name, degree] : axes) {
    mesh.*degree = whole_after(now, concat(" ", name, "="), mesh.*degree);
    for (std::size_t i = 0; i < std::min(names.size(), degrees.size()); ++i) {
      if (names[i].find(concat("'", name, "'")) != std::string::npos)
        mesh.*degree = whole_after(degrees[i], i == 0 ? "[" : " ", 1);
    }
    devices *= mesh.*degree;  // of six factors below 10^9, whose product is looked at each time
    if (devices < 1 || devices > most_devices) {
      throw Error(ErrorKind::input,
                  concat("the device mesh cannot be: expected at most ", most_devices,
                         " devices, found ", name, " = ", mesh.*degree),
                  SourcePlace{file, 0, 0});
    }
  }
  return mesh;
}

/// Llama's blocks; the feed-forward's width as torchtitan computes it.
Transformer read_model(std::string_view line, Recipe& recipe, const std::string& file) {
  const auto number = [&](std::string_view name, std::int64_t otherwise) {
    const auto found = number_after(line, name);
    if (!found) return otherwise;
    if (!(*found >= 1 && *found <= 1e9)) {
      throw Error(ErrorKind::input,
                  concat("the model cannot be: expected ", name, " of 1 to 10^9, found ", *found),
                  SourcePlace{file, 0, 0});
    }
    return static_cast<std::int64_t>(*found);
  };
  const std::int64_t hidden = number("(dim=", number(" dim=", 0));
  const std::int64_t heads = number("n_heads=", 0);
  recipe.blocks = static_cast<int>(number("n_layers=", 0));
  if (hidden < 1 || heads < 1 || recipe.blocks < 1)
    fail_missing("its model's dim, n_layers and n_heads", file);
  const double wide = std::floor(2.0 * 4.0 * static_cast<double>(hidden) / 3.0);
  const double factor = number_after(line, "ffn_dim_multiplier=").value_or(1);
  if (!(factor > 0 && factor <= 1000)) fail_missing("a sensible ffn_dim_multiplier", file);
  const std::int64_t multiple = std::max<std::int64_t>(1, number("multiple_of=", 256));
  const auto inner = static_cast<std::int64_t>(factor * wide);
  return {.hidden = hidden,
          .heads = heads,
          .key_value_heads = number("n_kv_heads=", heads),
          .head_width = hidden / heads,
          .feed_forward = number("hidden_dim=", (inner + multiple - 1) / multiple * multiple),
          .vocabulary = number("vocab_size=", 128256),
          .positions = number("max_seq_len=", 1),
          .norm = Transformer::Norm::rms_norm,
          .activation = Transformer::FeedForward::swiglu,
          .position = Transformer::Position::rotary,
          .attention_bias = false,
          .output_bias = false,
          .feed_forward_bias = false,
          .tied_head = false};
}

/// "Building llama3 8B" is a built-in model's name, if it has as many parameters as the log counts.
/// Throws Error (input) for others, and without that line.
Transformer read_named_model(std::string_view content, Recipe& recipe, const std::string& file) {
  std::vector<std::string> words;
  for (std::size_t at = content.find("Building "); at != std::string_view::npos && words.empty();
       at = content.find("Building ", at + 1)) {
    const std::string_view rest = content.substr(at, content.find('\n', at) - at);
    if (rest.find("device mesh") == std::string_view::npos) words = split(rest, ' ');
  }
  if (words.size() < 3) fail_missing("its model's dim, n_layers and n_heads", file);
  std::string name = concat(words[1], "-", words[2]);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  const std::vector<std::string> known = builtin_models();
  if (std::ranges::count(known, name) == 0 || !builtin_model(name).transformer) {
    throw Error(ErrorKind::input,
                concat("the log names its model \"", words[1], " ", words[2],
                       "\" without its numbers, and no built-in transformer is called ", name),
                SourcePlace{file, 0, 0},
                {"write the run as a row of a table, whose column model takes a config.json"});
  }
  const Model model = builtin_model(name);
  const std::string_view size =
      line_with(content, concat("Model ", words[1], " ", words[2], " size:"));
  const std::optional<double> count = number_after(size, "size:");
  if (count && static_cast<std::int64_t>(*count) != parameters(model)) {
    throw Error(ErrorKind::input,
                concat("the log counts ", static_cast<std::int64_t>(*count), " parameters of ",
                       name, ", which has ", parameters(model)),
                SourcePlace{file, 0, 0},
                {"write the run as a row of a table, whose column model takes a config.json"});
  }
  recipe.blocks = static_cast<int>(std::ranges::count_if(model.layers, is_block));
  Transformer transformer = *model.transformer;
  transformer.positions = model.sequence;
  return transformer;
}

/// Microbatches are what the schedule says, else whole local batches one after the other.
void read_batch(Recipe& recipe, std::string_view content, const std::string& file) {
  std::string_view line = line_with(content, "local batch size");
  if (line.empty()) fail_missing("its batch sizes", file);
  const int local = whole_after(line, "local batch size", 0);
  const int global = whole_after(line, "global batch size", 0);
  const int sequence =
      whole_after(line, "sequence length", static_cast<int>(recipe.transformer.positions));
  const std::string_view schedule = line_with(content, "Using pipeline schedule");
  const int pieces = schedule.empty() ? 1 : std::max(1, whole_after(schedule, " with ", 1));
  const std::int64_t at_once = std::int64_t{local} * recipe.data;
  if (local < 1 || global < 1 || local % pieces != 0 || global % at_once != 0) {
    throw Error(ErrorKind::input,
                concat("the batches cannot have run: local batch ", local, " of ", pieces,
                       " microbatches, global batch ", global, ", ", recipe.data, " replicas"),
                SourcePlace{file, 0, 0});
  }
  recipe.work.microbatch = local / pieces;
  recipe.microbatches = static_cast<int>(pieces * (global / at_once));
  recipe.work.sequence = recipe.transformer.positions = sequence;
}

/// Why a run cannot be predicted; empty if it can.
std::string reason_against(std::string_view content, const Mesh& mesh) {
  const auto has = [&](std::string_view words) { return content.find(words) != std::string::npos; };
  if (has("moe_args=") || has("n_routed_experts=") || mesh.expert > 1)
    return "its experts are not described by the log";
  if (mesh.replicate > 1 && mesh.shard > 1)
    return "shards of some replicas (HSDP) are not modelled";
  const std::string_view schedule = line_with(content, "Using pipeline schedule");
  if (schedule.empty()) return "";
  for (const std::string_view known : {"1F1B", "Interleaved1F1B"}) {
    if (schedule.find(concat("schedule ", known, " ")) != std::string_view::npos) return "";
  }
  return "the closed form does not hold for its pipeline schedule";
}

Recipe read_recipe(std::string_view content, const Mesh& mesh, const std::string& file) {
  Recipe recipe;
  const std::string_view model = line_with(content, "ModelArgs(");
  recipe.transformer =
      model.empty() ? read_named_model(content, recipe, file) : read_model(model, recipe, file);
  recipe.pipeline = mesh.pipeline;
  recipe.data = mesh.replicate * mesh.shard;
  const std::string_view schedule = line_with(content, "Using pipeline schedule");
  recipe.virtual_stages =
      std::max(1, whole_after(schedule, "microbatches and ", mesh.pipeline) / mesh.pipeline);
  recipe.work.tensor_parallel = mesh.tensor;
  recipe.work.context_parallel = mesh.context;
  recipe.work.sequence_parallel = mesh.tensor > 1;
  const bool narrow = content.find("Float8") != std::string_view::npos ||
                      content.find("MXFP8") != std::string_view::npos;
  if (narrow) recipe.work.precision = Precision::float8;
  read_batch(recipe, content, file);
  const bool shards = mesh.shard * mesh.context > 1;
  recipe.sharded_optimizer = shards;
  recipe.sharded_gradients = recipe.sharded_parameters = shards && mesh.pipeline == 1;
  recipe.overlapped_gradients = recipe.overlapped_parameters = true;
  recipe.work.framework = Framework::torch;
  // The fp32 weights are what is sharded: there is no half as precise copy of them besides.
  if (shards) recipe.optimizer_bytes = 10;
  if (content.find("Applied full activation checkpointing") != std::string_view::npos)
    recipe.work.recompute = Recomputed::full;
  if (content.find("Applied selective activation checkpointing") != std::string_view::npos)
    recipe.work.recompute = Recomputed::selective;
  return recipe;
}

/// Seconds of each step that is logged, once, and the most memory of any rank.
void read_steps(MeasuredRun& run, std::string_view content, const std::string& file) {
  const double tokens = static_cast<double>(run.recipe.microbatches) * run.recipe.data *
                        static_cast<double>(run.recipe.work.microbatch * run.recipe.work.sequence);
  std::vector<double> seconds;
  std::set<double> known;
  double memory = 0;
  for (std::size_t at = content.find("step:"); at != std::string_view::npos;
       at = content.find("step:", at + 1)) {
    const std::string_view line = content.substr(at, content.find('\n', at) - at);
    const std::optional<double> rate = number_after(line, "tps:");
    const std::optional<double> step = number_after(line, "step:");
    if (!rate || !step || *rate <= 0 || line.find("loss:") == std::string_view::npos) continue;
    memory = std::max(memory, number_after(line, "memory:").value_or(0) * gibi);
    if (known.insert(*step).second) seconds.push_back(tokens / (*rate * device_count(run.recipe)));
  }
  set_steps(run, std::move(seconds), file);
  if (memory > 0) run.memory = static_cast<Bytes>(std::llround(memory));
}

}  // namespace

bool is_torchtitan_log(std::string_view content) {
  const auto has = [&](std::string_view words) { return content.find(words) != std::string::npos; };
  return has("tps:") && has("step:") && (has("device mesh with") || has("[titan]"));
}

std::vector<MeasuredRun> read_torchtitan_log(std::string_view coloured, const std::string& file,
                                             const RunFileOptions& options) {
  const std::string content = without_colours(coloured);
  const Mesh mesh = read_mesh(content, file);
  MeasuredRun run;
  run.left_out = reason_against(content, mesh);
  run.recipe = read_recipe(content, mesh, file);
  run.recipe.device = device_of_run(device_kind_in(line_with(content, "capacity:")), options, file);
  run.recipe.devices_per_node = builtin_links(run.recipe.device).box;
  if (run.left_out.empty()) run.left_out = reason_against_precision(run.recipe);
  run.model = concat("hidden ", run.recipe.transformer.hidden, " x ", run.recipe.blocks);
  run.label = concat(run.model, ", ", configuration_of(run.recipe));
  // Selective checkpointing keeps every second product: recipes do not know what that leaves.
  run.memory_is_modelled = run.recipe.work.recompute != Recomputed::selective;
  read_steps(run, content, file);
  run.assumptions = {
      "nodes of as many devices as usual of their kind; selective checkpointing counts as "
      "attention recomputed"};
  return {run};
}

}  // namespace stagecraft
