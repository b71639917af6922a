#include "planner/interop/importers/megatron_layout.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

/// A layout that unrolls to more is a slip.
constexpr std::size_t longest_layout = 100'000;

/// The number behind "*" at `at`, or 0; `at` moves behind it.
int repetitions(std::string_view text, std::size_t& at) {
  if (at + 1 >= text.size() || text[at] != '*') return 0;
  std::size_t end = at + 1;
  int count = 0;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') {
    count = std::min(10 * count + (text[end++] - '0'), static_cast<int>(longest_layout) + 1);
  }
  if (end == at + 1) return 0;
  if (count == 0) fail("the layout repeats something zero times");
  at = end;
  return count;
}

void append(std::string& text, std::string_view piece, int times) {
  for (int i = 0; i < times; ++i) {
    text += piece;
    if (text.size() > longest_layout) fail("the layout has more than ", longest_layout, " parts");
  }
}

/// "(tt|)*3" to "tt|tt|tt|".
std::string unroll_groups(std::string_view text) {
  std::string unrolled;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = text[at] == '(' ? text.find(')', at + 2) : std::string_view::npos;
    std::size_t after = close == std::string_view::npos ? text.size() : close + 1;
    const int times = repetitions(text, after);
    if (times > 0) {
      append(unrolled, text.substr(at + 1, close - at - 1), times);
      at = after;
    } else {
      append(unrolled, text.substr(at++, 1), 1);
    }
  }
  return unrolled;
}

/// "t*3" to "ttt".
std::string unroll_letters(std::string_view text) {
  std::string unrolled;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t after = at + 1;
    const int times = repetitions(text, after);
    append(unrolled, text.substr(at, 1), std::max(times, 1));
    at = after;
  }
  return unrolled;
}

/// Every word in double quotes, as JSON has it, whatever quotes it has: YAML asks for none.
std::string with_quotes(std::string_view list) {
  std::string text;
  bool inside = false;
  for (const char c : list) {
    if (c == '\'' || c == '"') continue;
    const bool is_word = c != '[' && c != ']' && c != ',' && c != ' ';
    if (is_word != inside) text += '"';
    inside = is_word;
    text += c;
  }
  return text;
}

/// The same of a list, [["embedding", "decoder"], ["decoder", "loss"]]: "Et|tL".
std::string letters_of_list(std::string_view list) {
  constexpr std::array<std::pair<std::string_view, char>, 4> names{
      {{"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}}};
  std::string letters;
  for (const Json& stage : Json::parse(with_quotes(list), "the layout").elements()) {
    for (const Json& layer : stage.elements()) {
      const std::string name = layer.string();
      const auto known = std::find_if(names.begin(), names.end(),
                                      [&](const auto& row) { return row.first == name; });
      if (known == names.end())
        layer.fail(concat("expected embedding, decoder, mtp or loss, found \"", name, "\""));
      letters += known->second;
    }
    letters += '|';
  }
  if (!letters.empty()) letters.pop_back();
  return letters;
}

/// Embedding first, loss last, each once.
void require_ends(std::string_view order) {
  const auto count = [&](char c) { return std::count(order.begin(), order.end(), c); };
  if (count('E') != 1 || !order.starts_with('E')) {
    fail("the layout must begin with its one E (embedding), as Megatron-LM asserts");
  }
  if (count('L') != 1 || !order.ends_with('L')) {
    fail("the layout must end with its one L (loss), as Megatron-LM asserts");
  }
}

/// Modules of multi-token prediction read what the last transformer layer says, all in one stage.
void require_prediction_behind(const std::vector<MegatronStage>& stages, std::string_view order) {
  if (order.find('t', std::min(order.find('m'), order.size())) != std::string_view::npos) {
    fail(
        "the layout has a t (transformer layer) behind an m (multi-token prediction); Megatron-LM "
        "asserts that decoder layers are placed before MTP layers");
  }
  const auto predicts = [](const MegatronStage& stage) { return stage.prediction > 0; };
  if (std::ranges::count_if(stages, predicts) < 2) return;
  fail(
      "the layout has layers m (multi-token prediction) in several stages; Megatron-LM asserts "
      "that all of them are in one");
}

std::string in_words(int layers, const MegatronSplit& split) {
  return concat(layers, " layers", split.account_for_embedding ? " and the embedding" : "",
                split.account_for_loss ? " and the loss" : "");
}

/// Of a split without words for its ends, where releases that do not check it round down
/// (NVIDIA/Megatron-LM, issues 468, 1304 and 1778).
std::string silent_loss(const MegatronFlags& flags, int trained, int layers) {
  if (flags.split != MegatronSplit{}) return {};
  return concat("releases that do not check this train ", trained, " of the ", layers,
                " layers, and say nothing");
}

[[noreturn]] void refuse(std::string message, const std::string& otherwise) {
  std::vector<std::string> help;
  if (!otherwise.empty()) help.push_back(otherwise);
  help.emplace_back(
      "say --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers, "
      "count --account-for-embedding-in-pipeline-split and "
      "--account-for-loss-in-pipeline-split, or write a "
      "--pipeline-model-parallel-layout");
  fail_with_help(ErrorKind::input, "Megatron-LM refuses: " + std::move(message), std::move(help));
}

/// What its arguments assert about each other.
void require_compatible(const MegatronFlags& flags) {
  const MegatronSplit& split = flags.split;
  const bool by_hand = split.first || split.last;
  const bool counts_ends = split.account_for_embedding || split.account_for_loss;
  const bool is_virtual = flags.layers_per_virtual_stage || flags.virtual_stages;
  if (!flags.layout.empty() && (by_hand || counts_ends || is_virtual)) {
    fail(
        "--pipeline-model-parallel-layout says all of it: Megatron-LM refuses flags for virtual "
        "stages, for the first or last stage, or --account-for-… beside it");
  }
  if (by_hand && counts_ends) {
    fail(
        "Megatron-LM refuses --account-for-… beside --decoder-first- or "
        "--decoder-last-pipeline-num-layers");
  }
  if (flags.layers_per_virtual_stage && flags.virtual_stages) {
    fail(
        "--num-layers-per-virtual-pipeline-stage and --num-virtual-stages-per-pipeline-rank say "
        "the same in two ways: Megatron-LM refuses both at once");
  }
  if (flags.layers_per_virtual_stage && by_hand) {
    fail(
        "beside --decoder-first- or --decoder-last-pipeline-num-layers, Megatron-LM wants "
        "--num-virtual-stages-per-pipeline-rank instead of "
        "--num-layers-per-virtual-pipeline-stage");
  }
  // get_transformer_layer_offset of megatron/core/transformer/transformer_layer.py divides what the
  // ends leave by the number of stages between them.
  if (split.first && split.last && flags.pipeline == 2 && flags.virtual_stages.value_or(1) > 1) {
    fail_with_help(ErrorKind::input,
                   "with virtual stages Megatron-LM ends in a division by zero: of two pipeline "
                   "ranks both sizes are said, and no stage is left between them",
                   {"leave --decoder-last-pipeline-num-layers away: it has the rest"});
  }
  if (flags.pipeline == 1 &&
      (flags.virtual_stages.value_or(1) > 1 || flags.virtual_size.value_or(1) > 1))
    fail("virtual stages need at least 2 pipeline ranks; --pipeline-model-parallel-size is 1");
}

/// Layers of each rank; embedding and loss among them where they count as layers.
std::vector<int> layers_of_ranks(const MegatronFlags& flags, int layers) {
  const MegatronSplit& split = flags.split;
  auto ranks = megatron_layers(layers, flags.pipeline, split);
  if (!ranks) {
    const std::string by_hand =
        split.first || split.last
            ? concat(" with ", split.first ? concat(*split.first, " on the first") : "",
                     split.first && split.last ? " and " : "",
                     split.last ? concat(*split.last, " on the last") : "")
            : "";
    const int middle = flags.pipeline - (split.first ? 1 : 0) - (split.last ? 1 : 0);
    if (middle > 0 && layers == split.first.value_or(0) + split.last.value_or(0)) {
      refuse(concat("no middle layers remain for ", middle, " middle pipeline ",
                    middle == 1 ? "stage" : "stages", ": of ", layers, " layers,", by_hand),
             "");
    }
    refuse(concat(in_words(layers, split), " do not divide evenly over ", flags.pipeline,
                  flags.pipeline == 1 ? " pipeline stage" : " pipeline stages", by_hand),
           silent_loss(flags, layers / flags.pipeline * flags.pipeline, layers));
  }
  if (split.account_for_embedding) ++ranks->front();
  if (split.account_for_loss) ++ranks->back();
  return *std::move(ranks);
}

/// Layers of all ranks where each has virtual stages of equally many, and the rest is lost.
int layers_of_whole(const std::vector<int>& ranks, int multiple) {
  int sum = 0;
  for (const int rank : ranks) sum += rank / multiple * multiple;
  return sum;
}

int chunks_per_rank(const MegatronFlags& flags, const std::vector<int>& ranks, int layers) {
  if (!flags.layers_per_virtual_stage)
    return flags.virtual_stages.value_or(flags.virtual_size.value_or(1));
  const int per_stage = *flags.layers_per_virtual_stage;
  if (ranks.front() % per_stage != 0) {
    refuse(concat("the ", ranks.front(),
                  " layers of a pipeline stage do not divide into virtual "
                  "stages of ",
                  per_stage),
           silent_loss(flags, layers_of_whole(ranks, per_stage), layers));
  }
  const int chunks = ranks.front() / per_stage;
  if (flags.pipeline == 1 && chunks > 1)
    fail("virtual stages need at least 2 pipeline ranks; --pipeline-model-parallel-size is 1");
  return chunks;
}

std::vector<MegatronStage> stages_by_count(const MegatronFlags& flags, int layers) {
  const std::vector<int> ranks = layers_of_ranks(flags, layers);
  const int chunks = chunks_per_rank(flags, ranks, layers);
  std::vector<MegatronStage> stages;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank] % chunks != 0) {
        refuse(concat("the ", ranks[rank], " layers of pipeline rank ", rank,
                      " do not divide into ", chunks, " virtual stages"),
               silent_loss(flags, layers_of_whole(ranks, chunks), layers));
      }
      stages.push_back({.layers = ranks[rank] / chunks});
    }
  }
  stages.front().embedding = true;
  stages.back().loss = true;
  stages.back().prediction = flags.prediction_modules;
  if (flags.split.account_for_embedding) --stages.front().layers;
  if (flags.split.account_for_loss) --stages.back().layers;
  return stages;
}

}  // namespace

std::vector<MegatronStage> read_megatron_layout(std::string_view layout) {
  std::string text(layout);
  if (text.starts_with('[')) text = letters_of_list(text);
  std::erase(text, ',');
  std::vector<MegatronStage> stages(1);
  std::string order;
  for (const char c : unroll_letters(unroll_groups(text))) {
    switch (c) {
      case '|': stages.emplace_back(); continue;
      case 'E': stages.back().embedding = true; break;
      case 't': ++stages.back().layers; break;
      case 'L': stages.back().loss = true; break;
      case 'm': ++stages.back().prediction; break;
      default:
        fail("the layout has \"", c,
             "\"; known are E, t, m and L, | between stages, and (…)*n or "
             "x*n for repetition");
    }
    order += c;
  }
  require_ends(order);
  require_prediction_behind(stages, order);
  return stages;
}

std::string write_megatron_layout(const std::vector<MegatronStage>& stages) {
  std::string text;
  for (const MegatronStage& stage : stages) {
    if (stage.embedding) text += 'E';
    constexpr int shortest_repeated = 4;
    if (stage.layers >= shortest_repeated) {
      text += concat("t*", stage.layers);
    } else {
      text.append(static_cast<std::size_t>(stage.layers), 't');
    }
    text.append(static_cast<std::size_t>(stage.prediction), 'm');
    text += stage.loss ? "L|" : "|";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

namespace {

/// As many modules of multi-token prediction as the flags say, in a last virtual stage of a rank.
/// the first of several ranks.
void require_prediction(const MegatronFlags& flags, const std::vector<MegatronStage>& stages) {
  int counted = 0;
  for (const MegatronStage& stage : stages) counted += stage.prediction;
  if (counted != flags.prediction_modules) {
    fail("Megatron-LM refuses: the layout has ", counted,
         " modules of multi-token prediction (m), but --mtp-num-layers is ",
         flags.prediction_modules);
  }
  const int count = static_cast<int>(stages.size());
  for (int s = 0; s < count && flags.pipeline > 1; ++s) {
    if (stages[static_cast<std::size_t>(s)].prediction == 0) continue;
    if (s < count - flags.pipeline) {
      fail("Megatron-LM refuses: multi-token prediction must be in the last virtual stage of its ",
           "rank, and stage ", s, " of ", count, " is none of the last ", flags.pipeline);
    }
  }
}

}  // namespace

std::vector<MegatronStage> megatron_stages(const MegatronFlags& flags, int layers) {
  require_compatible(flags);
  if (flags.layout.empty()) return stages_by_count(flags, layers);
  std::vector<MegatronStage> stages = read_megatron_layout(flags.layout);
  int counted = 0;
  for (const MegatronStage& stage : stages) counted += stage.layers;
  if (counted != layers) {
    fail("Megatron-LM refuses: the layout has ", counted, " transformer layers, but there are ",
         layers);
  }
  if (stages.size() % static_cast<std::size_t>(flags.pipeline) != 0) {
    fail("Megatron-LM refuses: the layout has ", stages.size(),
         " stages, which is no multiple of --pipeline-model-parallel-size ", flags.pipeline);
  }
  if (flags.pipeline == 1 && stages.size() > 1) {
    fail("virtual stages need at least 2 pipeline ranks; the layout has ", stages.size(),
         " stages, and --pipeline-model-parallel-size is 1");
  }
  require_prediction(flags, stages);
  const int chunks = static_cast<int>(stages.size()) / flags.pipeline;
  if (flags.virtual_size && *flags.virtual_size != chunks) {
    fail("Megatron-LM refuses: virtual_pipeline_model_parallel_size is ", *flags.virtual_size,
         ", but the layout has ", chunks, " stages for each pipeline rank");
  }
  return stages;
}

std::string shell_word(const std::string& text) {
  const bool is_plain = text.find_first_of(" |()*\"'$&;<>\\") == std::string::npos;
  return is_plain ? text : "\"" + text + "\"";
}

}  // namespace stagecraft
