#include "planner/interop/importers/flag_words.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/interop/importers/arguments_dump.hpp"
#include "planner/interop/importers/common.hpp"
#include "planner/interop/importers/script_folder.hpp"
#include "planner/interop/importers/shell/reader.hpp"
#include "planner/interop/importers/yaml_words.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

std::string plain_flag_name(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '_', '-');
  return plain;
}

std::string setting_of(const FlagWord& word) {
  std::string name = word.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return word.section.empty() ? name : concat(word.section, ".", name);
}

SourcePlace place_of_set(std::string_view name) {
  return {concat("--set ", name), 0, 0};
}

namespace {

/// Without quotes around it.
std::string plain_value(const std::string& text) {
  const std::string value = trim(text);
  const bool is_quoted = value.size() > 1 && (value.front() == '"' || value.front() == '\'') &&
                         value.back() == value.front();
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

/// A switch is "true".
void add_word(std::vector<FlagWord>& words, FlagWord word) {
  if (word.value == "true" || word.value == "True") word.value.reset();
  words.push_back(std::move(word));
}

// --- Settings of the command line, over those of a recipe ---

/// "trainer.num_nodes", with or without Hydra's "+" in front.
FlagWord set_word(const std::string& key, const std::string& value) {
  const std::string path = key.substr(std::min(key.find_first_not_of('+'), key.size()));
  const std::size_t dot = path.find_last_of('.');
  const bool is_alone = dot == std::string::npos;
  return {.name = plain_flag_name(is_alone ? path : path.substr(dot + 1)),
          .value = plain_value(value),
          .place = place_of_set(key),
          .section = is_alone ? "" : path.substr(0, dot),
          .is_null = value == "null" || value == "None"};
}

std::vector<FlagWord> set_words(const ScriptVariables& variables) {
  std::vector<FlagWord> words;
  for (const auto& [key, value] : variables) add_word(words, set_word(key, value));
  return words;
}

/// Each in the place of what the file says of it; `result` learns what could be said.
void put_over(const ScriptVariables& variables, FlagLaunch& launch, FlagReading& result) {
  for (const FlagWord& word : launch.words) result.variables.push_back(setting_of(word));
  for (const auto& [key, value] : variables) {
    const FlagWord word = set_word(key, value);
    const auto is_same = [&](const FlagWord& own) {
      return own.section == word.section && own.name == word.name;
    };
    if (std::erase_if(launch.words, is_same) > 0) result.variables.push_back(key);
    add_word(launch.words, word);
  }
}

// --- JSON ---

/// Finding a place takes a look at the whole file.
constexpr std::size_t most_places = 2'000;

void read_members(const Json& json, const std::string& section, std::vector<FlagWord>& words) {
  for (const std::string& name : json.names()) {
    const Json value = json[name];
    if (value.is_object()) {
      read_members(value, section.empty() ? name : concat(section, ".", name), words);
      continue;
    }
    const std::string text = value.is_string() ? plain_value(value.string()) : value.raw().dump();
    add_word(words,
             {.name = plain_flag_name(name),
              .value = text,
              .place = words.size() < most_places ? place_of(value) : SourcePlace{json.file()},
              .section = section,
              .is_null = value.is_null()});
  }
}

// --- YAML ---

/// Whether the line is `NAME: …`.
bool is_yaml_member(std::string_view line) {
  const std::size_t start = line.find_first_not_of(" \t-");
  if (start == std::string_view::npos) return false;
  std::size_t end = start;
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  while (end < line.size() && is_letter(line[end])) ++end;
  return end > start && end < line.size() && line[end] == ':' &&
         (end + 1 == line.size() || line[end + 1] == ' ' || line[end + 1] == '\r');
}

bool is_script_by_name(std::string_view content, const std::string& file) {
  constexpr std::array endings{".sh", ".slurm", ".sbatch", ".bash", ".job"};
  return content.starts_with("#!") ||
         std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return file.ends_with(ending); });
}

bool is_yaml_by_name(const std::string& file) {
  return file.ends_with(".yaml") || file.ends_with(".yml");
}

bool looks_like_yaml(std::string_view content, const std::string& file) {
  if (is_script_by_name(content, file)) return false;
  if (is_yaml_by_name(file)) return true;
  for (const std::string& line : split(content, '\n')) {
    if (is_yaml_member(line)) return true;
    if (trim(line).starts_with("--") && trim(line) != "---") return false;
  }
  return false;
}

// --- A log ---

/// Of several arguments for the chunks of a rank, Megatron-LM computes one of the others.
bool is_derived(const FlagWord& word, const std::vector<FlagWord>& all) {
  return word.name == "virtual-pipeline-model-parallel-size" &&
         std::any_of(all.begin(), all.end(), [](const FlagWord& other) {
           return (other.name == "num-layers-per-virtual-pipeline-stage" ||
                   other.name == "num-virtual-stages-per-pipeline-rank") &&
                  other.value != "None";
         });
}

std::vector<FlagWord> read_log(std::string_view content, const std::string& file) {
  std::vector<FlagWord> words;
  const std::vector<FlagWord> dumped = read_arguments_dump(content, file);
  for (const FlagWord& word : dumped) {
    const bool says_nothing = word.value == "None" || word.value == "False" || word.value == "[]";
    if (!says_nothing && !is_derived(word, dumped)) add_word(words, word);
  }
  return words;
}

// --- The shell ---

class LaunchReader {
 public:
  LaunchReader(const shell::Reading& reading) : reading_(reading) {}

  FlagLaunch launch(const shell::Invocation& invocation) {
    FlagLaunch result;
    result.place = reading_.source_place(invocation.place);
    const std::size_t program = program_of(invocation.words, result.program);
    for (const auto& [name, text] : invocation.environment)
      result.environment[name] = valued(FlagWord{.name = name}, text);
    const auto end = invocation.words.begin() + static_cast<std::ptrdiff_t>(program);
    add_launcher_flags({invocation.words.begin(), end}, result);
    add_flags({end, invocation.words.end()}, result);
    add_recipes({end, invocation.words.end()}, result);
    add_hydra_recipe({end, invocation.words.end()}, result);
    return result;
  }

  FlagLaunch variables() {
    FlagLaunch result;
    result.starts = false;
    std::vector<shell::Text> words;
    for (const shell::VariableReading& variable : reading_.variables) {
      const bool has_flags =
          std::any_of(variable.words.begin(), variable.words.end(),
                      [](const shell::Text& word) { return word.characters().starts_with("--"); });
      if (!has_flags) continue;
      if (words.empty()) result.place = reading_.source_place(variable.place);
      words.insert(words.end(), variable.words.begin(), variable.words.end());
    }
    add_flags(words, result);
    return result;
  }

 private:
  std::vector<MissingVariable> missing_in(const shell::Text& text) const {
    std::vector<MissingVariable> missing;
    for (const int root : reading_.roots(text.unknowns())) {
      const shell::Unknown& unknown = reading_.unknowns[static_cast<std::size_t>(root)];
      missing.push_back({.name = unknown.name,
                         .expression = unknown.expression,
                         .place = reading_.source_place(unknown.place),
                         .is_condition = !unknown.alternatives.empty()});
    }
    return missing;
  }

  FlagWord valued(FlagWord word, const shell::Text& text) const {
    word.value = reading_.shown(text);
    word.place = reading_.source_place(text.place());
    word.missing = missing_in(text);
    return word;
  }

  /// Where the program stands, whose flags follow; 0 if there is none.
  static std::size_t program_of(const std::vector<shell::Text>& words, std::string& name) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i].characters();
      if (word.starts_with("--") && i > 0 && word.find('=') == std::string::npos) continue;
      if (word == "-m" && i + 1 < words.size()) {
        const std::string& module = words[i + 1].characters();
        const bool launches = module.starts_with("torch.distributed.") || module == "accelerate" ||
                              module == "deepspeed" || module.starts_with("accelerate.");
        if (launches) continue;
        name = module;
        return i + 2;
      }
      const std::string base = word.substr(word.find_last_of('/') + 1);
      const bool is_megatron = (base == "megatron" || base == "swift") && i + 1 < words.size() &&
                               !words[i + 1].characters().starts_with("-");
      if (is_megatron) {
        name = base + " " + words[i + 1].characters();
        return i + 2;
      }
      if (base.ends_with(".py") && !word.starts_with("-")) {
        name = base;
        return i + 1;
      }
    }
    return 0;
  }

  void add_launcher_flags(const std::vector<shell::Text>& words, FlagLaunch& launch) const {
    struct Row {
      std::string_view word;
      std::string_view name;
    };
    constexpr std::array rows{Row{"nnodes", "nnodes"},
                              Row{"nproc-per-node", "nproc-per-node"},
                              Row{"num-gpus", "nproc-per-node"},
                              Row{"num-nodes", "nnodes"},
                              Row{"num-machines", "nnodes"},
                              Row{"num-processes", "ranks"},
                              Row{"nodes", "nnodes"},
                              Row{"N", "nnodes"},
                              Row{"ntasks", "ranks"},
                              Row{"n", "ranks"},
                              Row{"np", "ranks"},
                              Row{"ntasks-per-node", "tasks-per-node"},
                              Row{"gpus-per-node", "gpus-per-node"}};
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i].characters();
      if (!word.starts_with('-')) continue;
      const std::size_t equals = word.find('=');
      const std::string name = plain_flag_name(std::string_view(word).substr(0, equals));
      for (const Row& row : rows) {
        if (row.word != name) continue;
        FlagWord flag{.name = std::string(row.name), .section = "launcher"};
        if (equals != std::string::npos) {
          launch.words.push_back(valued(flag, words[i].piece(equals + 1)));
        } else if (i + 1 < words.size()) {
          launch.words.push_back(valued(flag, words[i + 1]));
        }
      }
    }
  }

  /// "++model.data.x=2": its parts; false if it is none. Beside such ones Megatron Bridge's member
  /// without a section is one; other words may be of a wrapper, or choose a group of Hydra's.
  static bool is_override(const std::string& word, bool beside_others, std::size_t& name,
                          std::size_t& equals) {
    name = word.find_first_not_of("+~");
    equals = word.find('=');
    if (name == std::string::npos || equals == std::string::npos) return false;
    const std::string key = word.substr(name, equals - name);
    return key.find_first_not_of(
               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/@") ==
               std::string::npos &&
           (key.find('.') != std::string::npos || name > 0 ||
            (beside_others && key == "mixed_precision"));
  }

  static bool has_overrides(const std::vector<shell::Text>& words) {
    return std::ranges::any_of(words, [](const shell::Text& text) {
      const std::string& word = text.characters();
      std::size_t name = 0, equals = 0;
      return !word.starts_with("--") && is_override(word, false, name, equals);
    });
  }

  void add_override(const shell::Text& text, std::size_t name, std::size_t equals,
                    FlagLaunch& launch) const {
    const std::string key = text.characters().substr(name, equals - name);
    const std::size_t dot = key.find_last_of('.');
    FlagWord flag{.name = plain_flag_name(key.substr(dot == std::string::npos ? 0 : dot + 1)),
                  .place = reading_.source_place(text.place())};
    flag.section = dot == std::string::npos ? "" : key.substr(0, dot);
    const SourcePlace place = flag.place;
    flag = valued(std::move(flag), text.piece(equals + 1));
    flag.place = place;
    flag.value = plain_value(*flag.value);
    flag.is_null = flag.value == "null" || flag.value == "None";
    add_word(launch.words, std::move(flag));
  }

  /// NeMo Framework Launcher keeps its recipes in a folder of its own.
  void add_recipes(const std::vector<shell::Text>& words, FlagLaunch& launch) const {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i].characters();
      const std::size_t equals = word.find('=');
      const std::string key = word.substr(0, equals);
      if (key == "--config" || key == "--exp") {
        if (equals == std::string::npos && i + 1 < words.size()) {
          add_recipe(words[i], words[i + 1], launch);
        } else if (equals != std::string::npos) {
          add_recipe(words[i].piece(0, equals), words[i].piece(equals + 1), launch);
        }
        continue;
      }
      if (equals == std::string::npos || word.starts_with('-')) continue;
      const bool is_set_in = std::ranges::any_of(launch.words, [&](const FlagWord& other) {
        return other.section == key || other.section.starts_with(key + ".");
      });
      if (!is_set_in) continue;
      const std::string value = reading_.shown(words[i].piece(equals + 1));
      launch.recipes.push_back(
          {.said = {reading_.shown(words[i]), reading_.source_place(words[i].place())},
           .path = concat("launcher_scripts/conf/", key, "/", value, ".yaml"),
           .mount = key});
    }
  }

  /// `--config-path FOLDER --config-name FILE`; verl's are in its package, all degrees 1.
  void add_hydra_recipe(const std::vector<shell::Text>& words, FlagLaunch& launch) const {
    if (launch.program.starts_with("verl")) return;
    const shell::Text* flag = nullptr;
    std::optional<shell::Text> folder, name;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i].characters();
      for (auto& [key, value] : {std::pair{"--config-path", &folder}, {"--config-name", &name}}) {
        const bool is_next = word == key && i + 1 < words.size();
        if (!is_next && !word.starts_with(concat(key, "="))) continue;
        *value = is_next ? words[i + 1] : words[i].piece(word.find('=') + 1);
        if (value == &name) flag = &words[i];
      }
    }
    if (!folder || !name || flag == nullptr) return;
    const std::string file = name->characters();
    const std::string ending = is_yaml_by_name(file) ? "" : ".yaml";
    const std::string where = path_of(*folder);
    const bool is_known = file.find(shell::Text::hole_mark) == std::string::npos;
    launch.recipes.push_back(
        {.said = {concat("--config-name ", reading_.shown(*name)),
                  reading_.source_place(flag->place())},
         .path = is_known ? concat(where, where.empty() ? "" : "/", file, ending) : "",
         .mount = ""});
  }

  /// A hole in front of all is where the script's folder is; another leaves open which file it is.
  static std::string path_of(const shell::Text& text) {
    const std::string& characters = text.characters();
    const std::size_t mark = characters.rfind(shell::Text::hole_mark);
    std::string path = mark == std::string::npos ? characters : "";
    if (mark == 0) path = characters.substr(shell::Text::hole_size);
    while (mark == 0 && path.starts_with('/')) path.erase(0, 1);
    return path;
  }

  void add_recipe(const shell::Text& flag, const shell::Text& file, FlagLaunch& launch) const {
    if (!is_yaml_by_name(file.characters())) return;
    launch.recipes.push_back({.said = {concat(flag.characters(), " ", reading_.shown(file)),
                                       reading_.source_place(flag.place())},
                              .path = path_of(file),
                              .mount = ""});
  }

  /// Flags that may stand where a word is not known.
  std::vector<std::string> open_flags_of(const shell::Text& text) const {
    std::vector<std::string> flags;
    for (const int unknown : text.unknowns()) {
      for (const std::string& words :
           reading_.unknowns[static_cast<std::size_t>(unknown)].alternatives) {
        for (const std::string& word : split(words, ' ')) {
          if (word.starts_with("--"))
            flags.push_back(plain_flag_name(word.substr(0, word.find('='))));
        }
      }
    }
    return flags;
  }

  /// "--recompute-modules moe_act layernorm": a flag whose value is all the words behind it.
  static bool continues_list(const std::string& word, const FlagLaunch& launch) {
    constexpr std::array<std::string_view, 4> lists{"recompute-modules", "offload-modules",
                                                    "cuda-graph-scope", "cuda-graph-modules"};
    if (launch.words.empty() || word.empty() || word.find('=') != std::string::npos) return false;
    const FlagWord& last = launch.words.back();
    return last.is_next_word && last.value && last.missing.empty() &&
           std::ranges::find(lists, last.name) != lists.end();
  }

  void add_flags(const std::vector<shell::Text>& words, FlagLaunch& launch) const {
    bool may_take_value = false;
    const bool overrides = has_overrides(words);
    for (const shell::Text& text : words) {
      const std::string& word = text.characters();
      std::size_t name = 0;
      std::size_t equals = 0;
      if (!word.starts_with("--")) {
        if (may_take_value && !word.empty()) {
          const SourcePlace place = launch.words.back().place;
          launch.words.back() = valued(launch.words.back(), text);
          launch.words.back().is_next_word = true;
          if (text.only_unknown() >= 0) launch.words.back().open_flags = open_flags_of(text);
          // The place of a value that a variable has is the flag's.
          if (launch.words.back().place.line != place.line) launch.words.back().place = place;
        } else if (continues_list(word, launch)) {
          *launch.words.back().value += " " + reading_.shown(text);
          launch.words.back().missing = missing_in(text);
        } else if (is_override(word, overrides, name, equals)) {
          add_override(text, name, equals, launch);
        } else if (text.only_unknown() >= 0) {
          launch.open.push_back(valued(FlagWord{}, text));
          launch.open.back().open_flags = open_flags_of(text);
        }
        may_take_value = false;
        continue;
      }
      equals = word.find('=');
      // "--fp8-format hybrid" in quotes.
      const std::size_t gap = word.find(' ');
      const std::size_t end = std::min(equals, gap);
      FlagWord flag{.name = plain_flag_name(reading_.shown(text.piece(0, end))),
                    .place = reading_.source_place(text.place())};
      if (end != std::string::npos) {
        const SourcePlace place = flag.place;
        flag = valued(std::move(flag), text.piece(word.find_first_not_of(' ', end + 1)));
        flag.place = place;
        flag.is_next_word = gap < equals;
      }
      launch.words.push_back(std::move(flag));
      may_take_value = end == std::string::npos;
    }
  }

  const shell::Reading& reading_;
};

/// Lines of flags alone belong to the command above: no program is called so, but a backslash may
/// be missing, or stand in front of a comment.
std::vector<shell::Invocation> with_their_flags(const shell::Reading& reading,
                                                std::vector<std::string>& notes) {
  std::vector<shell::Invocation> commands;
  for (const shell::Invocation& command : reading.commands) {
    const bool is_flags = command.words.front().characters().starts_with("--");
    if (!is_flags || commands.empty()) {
      commands.push_back(command);
      continue;
    }
    std::vector<shell::Text>& words = commands.back().words;
    const bool is_list = words.front().characters().starts_with("--");
    words.insert(words.end(), command.words.begin(), command.words.end());
    if (is_list) continue;
    const SourcePlace place = reading.source_place(command.place);
    notes.push_back(
        concat(place.file, ":", place.line, ": ", command.words.front().characters(),
               " … is read with the command above; a shell would end that before it (is "
               "a backslash missing at the end of the line?)"));
  }
  return commands;
}

/// Of DeepSpeed, beside the script; what the script writes itself is there already.
void read_configurations(const FlagLaunch& launch, ScriptFolder& folder, FlagReading& result) {
  for (const FlagWord& word : launch.words) {
    const bool names_one = word.name == "deepspeed-config" && word.value && word.missing.empty();
    if (!names_one || result.documents.contains(*word.value)) continue;
    if (auto file = folder.read(*word.value)) result.documents[*word.value] = file->content;
  }
}

/// Whether a recipe is one of what Megatron-LM trains.
bool has_degrees(const std::vector<FlagWord>& words) {
  return std::ranges::any_of(words, [](const FlagWord& word) {
    return word.name == "tensor-model-parallel-size" || word.name == "pipeline-model-parallel-size";
  });
}

/// Those of the section, and of sections in it, without its name.
std::vector<FlagWord> words_below(const std::string& mount, const std::vector<FlagWord>& words) {
  if (mount.empty()) return words;
  std::vector<FlagWord> below;
  for (const FlagWord& word : words) {
    if (word.section != mount && !word.section.starts_with(mount + ".")) continue;
    below.push_back(word);
    below.back().section.erase(0, std::min(word.section.size(), mount.size() + 1));
  }
  return below;
}

void note_once(std::vector<std::string>& notes, const std::string& note) {
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
}

/// What the recipe says and the launch does not, below the recipe's mount.
std::vector<FlagWord> words_of_recipe(const NamedRecipe& recipe, const OtherFile& file,
                                      const FlagLaunch& launch, FlagReading& result) {
  std::vector<std::string> notes;
  std::vector<FlagWord> words = read_yaml_words(file.content, file.path, result.others, notes,
                                                words_below(recipe.mount, launch.words));
  for (const std::string& note : notes) note_once(result.notes, note);
  if (!has_degrees(words)) {
    note_once(result.notes, concat(file.path, ", which ", recipe.said.text,
                                   " names, sets no degree of parallelism, and is not read"));
    return {};
  }
  for (FlagWord& word : words) {
    if (!recipe.mount.empty())
      word.section = recipe.mount + (word.section.empty() ? "" : "." + word.section);
  }
  std::erase_if(words, [&](const FlagWord& word) {
    return std::ranges::any_of(launch.words, [&](const FlagWord& own) {
      return own.name == word.name && own.section == word.section;
    });
  });
  return words;
}

/// Puts what the launch's recipes say in front of what it says itself, which stands over them, as
/// the last recipe does over those before it.
void read_recipes(FlagLaunch& launch, ScriptFolder& folder, FlagReading& result) {
  std::vector<NamedRecipe> absent;
  for (auto recipe = launch.recipes.rbegin(); recipe != launch.recipes.rend(); ++recipe) {
    const std::optional<OtherFile> file = folder.read(recipe->path);
    if (!file) {
      absent.insert(absent.begin(), *recipe);
      continue;
    }
    const std::vector<FlagWord> words = words_of_recipe(*recipe, *file, launch, result);
    launch.words.insert(launch.words.begin(), words.begin(), words.end());
  }
  launch.recipes = absent;
}

FlagReading read_shell(std::string_view content, const std::string& file,
                       const ScriptVariables& variables) {
  FlagReading result;
  ScriptFolder folder(file, result.others);
  shell::Settings settings;
  settings.variables = variables;
  settings.read_file = [&](const std::string& name) {
    const std::optional<OtherFile> read = folder.read(name);
    return read ? std::optional(read->content) : std::nullopt;
  };
  settings.flags_with_bars = {"--pipeline-model-parallel-layout",
                              "--pipeline_model_parallel_layout", "--hybrid-layer-pattern",
                              "--hybrid-override-pattern"};
  settings.environment = {"NPROC_PER_NODE", "NNODES"};
  const shell::Reading reading = shell::read_script(content, file, settings);
  LaunchReader launches(reading);
  for (const auto& [name, text] : reading.documents)
    result.documents[reading.shown(shell::Text(name, {}))] = reading.shown(text);
  for (const shell::Invocation& invocation : with_their_flags(reading, result.notes)) {
    FlagLaunch launch = launches.launch(invocation);
    for (const auto& [name, flag] : {std::pair{"nodes", "nnodes"}, std::pair{"ntasks", "ranks"},
                                     std::pair{"ntasks-per-node", "tasks-per-node"},
                                     std::pair{"gpus-per-node", "gpus-per-node"}}) {
      const auto found = reading.directives.find(name);
      if (found == reading.directives.end()) continue;
      launch.words.insert(launch.words.begin(),
                          {.name = flag,
                           .value = found->second.characters(),
                           .place = reading.source_place(found->second.place()),
                           .section = "scheduler"});
    }
    read_configurations(launch, folder, result);
    read_recipes(launch, folder, result);
    result.launches.push_back(std::move(launch));
  }
  result.launches.push_back(launches.variables());
  result.notes.insert(result.notes.end(), reading.notes.begin(), reading.notes.end());
  result.assumed_unset.assign(reading.assumed_unset.begin(), reading.assumed_unset.end());
  result.variables.assign(reading.used.begin(), reading.used.end());
  return result;
}

}  // namespace

FlagReading read_flags(std::string_view content, const std::string& file,
                       const ScriptVariables& variables) {
  FlagReading result;
  const bool is_dump = has_arguments_dump(content) && !is_script_by_name(content, file);
  // GPT-NeoX writes its YAML as JSON, with comments.
  const bool is_json = !is_yaml_by_name(file) && trim(content.substr(0, 4096)).starts_with('{');
  if (!is_dump && !is_json && !looks_like_yaml(content, file))
    return read_shell(content, file, variables);
  if (is_dump && !variables.empty()) {
    fail_usage("--set gives variables of a script, or settings of a recipe, their values, and ",
               file, " is the log of a run: leave --set ", variables.begin()->first, " away");
  }
  FlagLaunch launch;
  launch.place = {file, 0, 0};
  if (is_dump) {
    result.kind = FlagReading::Kind::log;
    launch.words = read_log(content, file);
  } else if (is_json) {
    result.kind = FlagReading::Kind::json;
    read_members(Json::parse(std::string(content), file), "", launch.words);
  } else {
    result.kind = FlagReading::Kind::yaml;
    launch.words =
        read_yaml_words(content, file, result.others, result.notes, set_words(variables));
  }
  put_over(variables, launch, result);
  for (const auto& [key, value] : variables) {
    const bool is_referred_to = content.find(concat("${", key, "}")) != std::string_view::npos;
    if (is_referred_to) result.variables.push_back(key);
  }
  result.launches.push_back(std::move(launch));
  return result;
}

}  // namespace stagecraft
