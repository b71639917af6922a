// Which launch of a file is meant, where it may start several, and what is missing of it.

#include <algorithm>
#include <array>

#include "planner/interop/importers/launch_parser.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

bool has_batch(const ParsedLaunch& parsed) {
  return parsed.launch.flags.microbatch || parsed.launch.flags.global_batch ||
         parsed.said.contains("micro-batch-size") || parsed.said.contains("global-batch-size");
}

/// verl trains with PyTorch's FSDP unless told otherwise.
void require_megatron(const FlagLaunch& launch, const ParsedLaunch& parsed) {
  if (parsed.dialect != Dialect::verl) return;
  const bool is_megatron = std::ranges::any_of(launch.words, [](const FlagWord& word) {
    const std::string value = word.value.value_or("");
    return word.section.find("actor.megatron") != std::string::npos ||
           (word.name == "strategy" && value == "megatron") ||
           ((word.name == "config-name" || word.name == "model-engine") &&
            value.find("megatron") != std::string::npos);
  });
  if (is_megatron) return;
  throw Error(ErrorKind::input,
              "the script trains with verl's FSDP, not with Megatron-LM: no setting of "
              "actor_rollout_ref.actor.megatron, and no strategy or configuration of that name",
              launch.place);
}

bool same_plan(const ParsedLaunch& one, const ParsedLaunch& other) {
  return one.launch.flags == other.launch.flags && one.missing == other.missing;
}

/// Flags that no other trainer has.
bool is_telling(std::string_view name) {
  const MegatronFlagKind kind = megatron_flag_kind(name);
  constexpr std::array common{"bf16",
                              "fp16",
                              "optimizer",
                              "seq-length",
                              "batch-size",
                              "gas",
                              "gradient-accumulation-steps",
                              "vocab-size",
                              "max-length"};
  return kind != MegatronFlagKind::other && !is_about_ranks(name) &&
         std::ranges::count(common, name) == 0;
}

/// Whether variables alone are a file of settings.
bool has_settings(const FlagLaunch& launch) {
  constexpr std::array names{"num-layers", "tensor-model-parallel-size",
                             "pipeline-model-parallel-size", "micro-batch-size",
                             "global-batch-size"};
  return std::ranges::any_of(
      launch.words, [&](const FlagWord& word) { return std::ranges::count(names, word.name) > 0; });
}

[[noreturn]] void refuse_absent(const NamedRecipe& recipe, std::string_view what) {
  const auto& [text, place] = recipe.said;
  throw Error(ErrorKind::input,
              concat("the script starts with ", text, ", which is not beside it, and says ", what),
              place, {"put the file where the script looks for it, or import it by itself"});
}

/// Degrees that a recipe may have, which is not there, are not one.
void require_degrees(const FlagLaunch& launch, const ParsedLaunch& parsed) {
  if (launch.recipes.empty()) return;
  constexpr std::array degrees{"tensor-model-parallel-size", "pipeline-model-parallel-size",
                               "pipeline-model-parallel-layout", "context-parallel-size",
                               "expert-model-parallel-size"};
  const bool is_any = std::ranges::any_of(
      degrees, [&](const char* degree) { return parsed.said.contains(degree); });
  if (!is_any) refuse_absent(launch.recipes.front(), "no degree of parallelism itself");
}

/// Those that train; of others of a script, such as converters of checkpoints, none are meant.
std::vector<ParsedLaunch> training_launches(const FlagReading& reading) {
  std::vector<ParsedLaunch> all;
  for (const FlagLaunch& launch : reading.launches) {
    if (!launch.starts && (!all.empty() || !has_settings(launch))) continue;
    if (launch.words.empty()) continue;
    const bool may_train = std::ranges::any_of(launch.words, [&](const FlagWord& word) {
      return word.section != "scheduler" && word.section != "launcher" && !word.is_null &&
             is_telling(word.name);
    });
    if (!may_train) continue;
    all.push_back(parse_launch(launch, reading));
    require_megatron(launch, all.back());
    require_degrees(launch, all.back());
  }
  if (std::ranges::any_of(all, has_batch))
    std::erase_if(all, [](const ParsedLaunch& one) { return !has_batch(one); });
  std::vector<ParsedLaunch> different;
  for (ParsedLaunch& one : all) {
    const bool is_new = std::ranges::none_of(
        different, [&](const ParsedLaunch& other) { return same_plan(one, other); });
    if (is_new) different.push_back(std::move(one));
  }
  return different;
}

std::string in_file(const SourcePlace& place) {
  return concat(place.file, ":", place.line);
}

[[noreturn]] void refuse_several(const std::vector<ParsedLaunch>& launches) {
  std::vector<std::string> lines;
  for (const ParsedLaunch& one : launches) {
    std::string line = concat(in_file(one.place), " (", one.launch.flags.pipeline, " x ",
                              one.launch.flags.tensor, " ranks)");
    if (lines.size() < 8 && std::ranges::count(lines, line) == 0) lines.push_back(std::move(line));
  }
  throw Error(
      ErrorKind::input,
      concat("the script starts ", launches.size(), " different trainings: ", join_words(lines)),
      launches.front().place,
      {"keep the one that is meant, or give the variables that choose among them with --set "
       "NAME=VALUE"});
}

/// All that is missing, in one sentence.
void require_variables(const ParsedLaunch& parsed, FlagReading::Kind kind) {
  if (parsed.missing.empty()) return;
  std::vector<std::string> names;
  std::vector<std::string> settings;
  std::vector<std::string> lines;
  for (const auto& [variable, flag] : parsed.missing) {
    if (std::ranges::count(names, variable.name) > 0) continue;
    names.push_back(variable.name);
    settings.push_back(variable.setting.empty() ? variable.name : variable.setting);
    const bool has_other_name =
        variable.expression != "$" + variable.name && variable.expression != variable.name;
    lines.push_back(concat(variable.name, " (", in_file(variable.place),
                           has_other_name ? ", " + variable.expression : "", ", for ", flag, ")"));
  }
  std::string remedy;
  for (const std::string& name : settings) {
    const bool is_plain = name.find_first_of(" $()[]\"'|&;<>`*") == std::string::npos;
    remedy += concat(" --set ", is_plain ? name : "'" + name, is_plain ? "=…" : "=…'");
  }
  throw Error(ErrorKind::input,
              concat(names.size() == 1 ? "a variable has no value: " : "variables have no value: ",
                     join_words(lines)),
              parsed.missing.front().first.place,
              {kind == FlagReading::Kind::shell
                   ? "what only the cluster knows comes with" + remedy
                   : concat("write what it stands for in the file, or say it:", remedy)});
}

void require_known(const ParsedLaunch& parsed, const std::string& file) {
  const auto& unknown = parsed.launch.unknown;
  const int count = static_cast<int>(unknown.size());
  if (count < 2 || 2 * count < parsed.flags) return;
  std::vector<std::string> shown;
  for (const ReadText& text : unknown) {
    if (shown.size() < 5) shown.push_back(text.text);
  }
  fail(count, " of the ", parsed.flags, " settings of ", file,
       " are not known, so that a plan of the others would say little: ", join_words(shown),
       unknown.size() > shown.size() ? ", …" : "");
}

void note_open(ParsedLaunch& parsed, const FlagReading& reading) {
  std::vector<std::string> unset = reading.assumed_unset;
  std::set<std::string> noted;
  for (const FlagWord& word : parsed.open) {
    for (const MissingVariable& one : word.missing) {
      if (one.is_condition) {
        std::string flags;
        for (const std::string& flag : word.open_flags) flags += " --" + flag;
        const std::string note =
            concat(in_file(one.place), ": \"", one.expression,
                   "\" is not known; what depends on it changes no flag of the plan:", flags);
        if (noted.insert(note).second) parsed.launch.notes.push_back(note);
      } else {
        unset.push_back(one.name);
      }
    }
  }
  std::sort(unset.begin(), unset.end());
  unset.erase(std::unique(unset.begin(), unset.end()), unset.end());
  std::erase_if(unset, [](const std::string& name) { return name == "#"; });
  for (std::string& name : unset) {
    if (name == "@" || name == "*") name = "the script's arguments";
  }
  if (unset.empty()) return;
  parsed.launch.notes.push_back(
      concat("taken as not set: ", join_words(unset), "; --set NAME=VALUE sets one"));
}

/// Programs beside training have the same flags.
void note_other_program(ParsedLaunch& parsed) {
  constexpr std::array parts{"generat", "inference", "infer_", "convert",  "preprocess",
                             "ptq",     "quantize",  "server", "evaluate", "export"};
  const bool is_other = std::ranges::any_of(
      parts, [&](const char* part) { return parsed.program.find(part) != std::string::npos; });
  if (is_other) {
    parsed.launch.notes.push_back(concat(parsed.program,
                                         " may not train: the plan is of a training step by its "
                                         "flags"));
  }
}

/// Where all flags may be in a file that is not there.
void require_recipes(const FlagReading& reading) {
  for (const FlagLaunch& launch : reading.launches) {
    if (!launch.recipes.empty())
      refuse_absent(launch.recipes.front(), "no flags of Megatron-LM itself");
  }
}

/// Whether a recipe has no such key, but plans follow from it: `trainer.num_nodes`.
bool is_new_setting(const FlagReading& reading, const std::string& name) {
  if (reading.kind == FlagReading::Kind::shell) return false;
  return std::ranges::any_of(reading.launches, [&](const FlagLaunch& launch) {
    return std::ranges::any_of(launch.words, [&](const FlagWord& word) {
      return word.place == place_of_set(name) && is_of_plan(word, launch, reading);
    });
  });
}

void require_used(const FlagReading& reading, const std::string& file,
                  const ScriptVariables& variables) {
  for (const auto& [name, value] : variables) {
    if (std::ranges::count(reading.variables, name) > 0 || is_new_setting(reading, name)) continue;
    const std::string near = closest(name, reading.variables);
    fail_usage("--set ", name, "=", value, ": ", file, " neither reads nor sets ", name,
               near.empty() ? "" : concat("; did you mean \"", near, "\"?"));
  }
}

}  // namespace

MegatronLaunch read_megatron_launch(std::string_view content, const std::string& file,
                                    const ScriptVariables& variables) {
  const FlagReading reading = read_flags(content, file, variables);
  require_used(reading, file, variables);
  std::vector<ParsedLaunch> launches = training_launches(reading);
  if (launches.empty()) {
    require_recipes(reading);
    fail(
        "expected Megatron-LM's flags, such as --num-layers 32 --pipeline-model-parallel-size 4; "
        "found none");
  }
  if (launches.size() > 1) refuse_several(launches);
  ParsedLaunch& parsed = launches.front();
  require_variables(parsed, reading.kind);
  require_known(parsed, file);
  note_open(parsed, reading);
  note_other_program(parsed);
  for (const std::string& section : parsed.other_models) {
    parsed.launch.notes.push_back(
        concat("the plan is of what is trained; ", section, " has ranks of its own"));
  }
  for (const std::string& note : reading.notes) parsed.launch.notes.push_back(note);
  parsed.launch.others = reading.others;
  return std::move(parsed.launch);
}

}  // namespace stagecraft
