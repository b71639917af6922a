#include "planner/interop/importers/torchtitan/launch.hpp"

#include <algorithm>
#include <charconv>

#include "planner/interop/importers/script_folder.hpp"
#include "planner/interop/importers/shell/reader.hpp"
#include "planner/interop/importers/torchtitan/python_settings.hpp"
#include "planner/interop/importers/torchtitan/registry.hpp"
#include "profiles/cluster.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

bool is_settings_path(std::string_view path) {
  return path.find('.') != std::string_view::npos &&
         path.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
             std::string_view::npos;
}

/// A word of a command line as TOML would have the value.
TomlValue value_of_word(const std::string& word) {
  if (word == "true" || word == "True") return true;
  if (word == "false" || word == "False") return false;
  std::int64_t number = 0;
  const char* end = word.data() + word.size();
  const auto [stop, fault] = std::from_chars(word.data(), end, number);
  if (fault == std::errc{} && stop == end) return number;
  return word;
}

std::string titan_path(std::string_view name) {
  std::string path(name);
  std::replace(path.begin(), path.end(), '-', '_');
  return path;
}

void put_setting(std::vector<TomlSetting>& settings, TomlSetting setting) {
  std::erase_if(settings, [&](const TomlSetting& own) { return own.path == setting.path; });
  settings.push_back(std::move(setting));
}

/// One start of torchtitan in a script.
class TitanLaunch {
 public:
  TitanLaunch(const shell::Invocation& invocation, const shell::Reading& reading)
      : words_(invocation.words),
        environment_(invocation.environment),
        reading_(reading),
        place_(reading.source_place(invocation.place)) {
    for (std::size_t i = 0; i < words_.size() && program_ == 0; ++i) {
      const std::string& word = words_[i].characters();
      const std::string base = word.substr(word.find_last_of('/') + 1);
      const bool is_script = base == "run_train.sh";
      const bool is_module = word.starts_with("torchtitan.") && word.ends_with("train");
      const bool is_file = base == "train.py" && says_settings();
      if (is_script || is_module || is_file) program_ = i + 1;
      is_run_train_ = is_script;
    }
  }

  bool is_one() const { return program_ > 0; }
  const SourcePlace& place() const { return place_; }

  /// Of the file that `--job.config_file` or CONFIG_FILE names.
  std::optional<shell::Text> toml() const {
    if (auto given = value_of({"--job.config_file", "--job.config-file"})) return given;
    return is_run_train_ ? variable("CONFIG_FILE") : std::nullopt;
  }
  std::optional<shell::Text> module() const {
    if (auto given = value_of({"--module"})) return given;
    return is_run_train_ ? variable("MODULE") : std::nullopt;
  }
  std::optional<shell::Text> config() const {
    if (auto given = value_of({"--config"})) return given;
    return is_run_train_ ? variable("CONFIG") : std::nullopt;
  }

  /// A number of devices where it is known; a note where it is said and not known.
  void count_ranks(TitanJob& job) const {
    std::optional<shell::Text> processes =
        value_of({"--nproc_per_node", "--nproc-per-node"}, program_);
    std::optional<shell::Text> nodes = value_of({"--nnodes"}, program_);
    if (!processes && is_run_train_) processes = variable("NGPU");
    if (!processes) return;
    const std::optional<int> each = count_of(*processes);
    const std::optional<int> of_nodes = nodes ? count_of(*nodes) : std::optional(1);
    if (each && of_nodes && std::int64_t{*each} * *of_nodes <= most_devices) {
      job.ranks = *each * *of_nodes;
      return;
    }
    const shell::Text& open = each ? *nodes : *processes;
    job.notes.push_back(concat(reading_.source_place(open.place()).file, ":",
                               reading_.source_place(open.place()).line, ": ", reading_.shown(open),
                               " is no number; all devices of the cluster are taken"));
  }

  void add_settings(TitanJob& job) const {
    for (std::size_t i = program_; i < words_.size(); ++i) {
      const std::string& word = words_[i].characters();
      if (!word.starts_with("--")) continue;
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      const bool is_next = equals == std::string::npos && i + 1 < words_.size() &&
                           !words_[i + 1].characters().starts_with("--");
      const bool is_base = name == "module" || name == "config" || name == "job.config_file" ||
                           name == "job.config-file";
      if (is_base) {
        i += is_next ? 1 : 0;
        continue;
      }
      if (!is_settings_path(name)) {
        job.unknown.push_back(
            {reading_.shown(words_[i]), reading_.source_place(words_[i].place())});
        continue;
      }
      std::optional<shell::Text> value;
      if (equals != std::string::npos) value = words_[i].piece(equals + 1);
      if (is_next) value = words_[++i];
      put_setting(job.settings, setting_of(name, value, words_[i]));
    }
  }

 private:
  bool says_settings() const {
    return std::ranges::any_of(words_, [](const shell::Text& text) {
      const std::string& word = text.characters();
      return word.starts_with("--job.") || word.starts_with("--parallelism.") ||
             word.starts_with("--training.");
    });
  }

  std::optional<shell::Text> value_of(const std::vector<std::string>& flags,
                                      std::size_t end = std::string::npos) const {
    std::optional<shell::Text> found;
    for (std::size_t i = 0; i < std::min(end, words_.size()); ++i) {
      const std::string& word = words_[i].characters();
      for (const std::string& flag : flags) {
        if (word == flag && i + 1 < words_.size()) found = words_[i + 1];
        if (word.starts_with(flag + "=")) found = words_[i].piece(flag.size() + 1);
      }
    }
    return found;
  }

  std::optional<shell::Text> variable(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() ? std::nullopt : std::optional(found->second);
  }

  static std::optional<int> count_of(const shell::Text& text) {
    const TomlValue value = value_of_word(text.characters());
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || *number < 1 || *number > most_devices) return {};
    return static_cast<int>(*number);
  }

  /// A switch is on, `--table.no-name` off.
  TomlSetting setting_of(const std::string& name, const std::optional<shell::Text>& value,
                         const shell::Text& place) const {
    std::string path = titan_path(name);
    TomlSetting setting{
        .path = path, .value = true, .text = "true", .place = reading_.source_place(place.place())};
    const std::size_t no = path.find(".no_");
    if (!value && no != std::string::npos) {
      setting.path = path.substr(0, no + 1) + path.substr(no + 4);
      setting.value = false;
      setting.text = "false";
    }
    if (!value) return setting;
    require_known(*value, concat("--", name));
    setting.text = value->characters();
    setting.value = value_of_word(setting.text);
    return setting;
  }

  void require_known(const shell::Text& text, const std::string& flag) const {
    const std::vector<int> roots = reading_.roots(text.unknowns());
    if (roots.empty()) return;
    const shell::Unknown& unknown = reading_.unknowns[static_cast<std::size_t>(roots.front())];
    throw Error(ErrorKind::input, concat("a variable has no value: ", unknown.name, ", for ", flag),
                reading_.source_place(unknown.place),
                {concat("what only the cluster knows comes with --set ", unknown.name, "=…")});
  }

  const std::vector<shell::Text>& words_;
  const std::map<std::string, shell::Text>& environment_;
  const shell::Reading& reading_;
  SourcePlace place_;
  std::size_t program_ = 0;
  bool is_run_train_ = false;
};

/// The file's name behind a hole, which is the folder of torchtitan, or the script's.
std::string name_in(const shell::Text& text) {
  const std::string& characters = text.characters();
  const std::size_t mark = characters.rfind(shell::Text::hole_mark);
  std::string name =
      mark == std::string::npos ? characters : characters.substr(mark + shell::Text::hole_size);
  while (mark != std::string::npos && name.starts_with('/')) name.erase(0, 1);
  return name;
}

/// What the launch starts with.
void read_base(const TitanLaunch& launch, const shell::Reading& reading, ScriptFolder& folder,
               TitanJob& job) {
  if (const auto toml = launch.toml()) {
    const std::string name = name_in(*toml);
    const std::optional<OtherFile> file = name.empty() ? std::nullopt : folder.read(name);
    if (!file) {
      throw Error(
          ErrorKind::input,
          concat("the launch starts with ", reading.shown(*toml), ", which is not beside the file"),
          reading.source_place(toml->place()),
          {"put it where the line looks for it, or import it by itself"});
    }
    job.settings = read_toml_settings(file->content, file->path);
    return;
  }
  job.since_0_3 = true;
  const auto config = launch.config();
  if (!config) return;
  const auto module = launch.module();
  std::string path = module ? name_in(*module) : "";
  std::replace(path.begin(), path.end(), '.', '/');
  for (const char* ending : {".py", "/config_registry.py"}) {
    const std::optional<OtherFile> file = path.empty() ? std::nullopt : folder.read(path + ending);
    if (!file) continue;
    job.settings = read_titan_python(file->content, file->path, config->characters());
    return;
  }
  const SourcePlace place = reading.source_place(config->place());
  job.settings = titan_registry(config->characters(), place);
  if (!job.settings.empty()) return;
  throw Error(ErrorKind::input,
              concat("the launch starts with the configuration ", reading.shown(*config),
                     module ? concat(" of ", reading.shown(*module)) : "",
                     ", which is neither beside the file nor one that is known: ",
                     titan_registry_in_words()),
              place, {"put the module where the line looks for it, or import it by itself"});
}

void require_titan_used(const shell::Reading& reading, const std::string& file,
                        const ScriptVariables& variables) {
  const std::vector<std::string> used(reading.used.begin(), reading.used.end());
  for (const auto& [name, value] : variables) {
    if (reading.used.contains(name)) continue;
    const std::string near = closest(name, used);
    fail_usage("--set ", name, "=", value, ": ", file, " neither reads nor sets ", name,
               near.empty() ? "" : concat("; did you mean \"", near, "\"?"));
  }
}

TitanJob read_titan_script(std::string_view content, const std::string& file,
                           const ScriptVariables& variables) {
  TitanJob job;
  ScriptFolder folder(file, job.others);
  shell::Settings settings;
  settings.variables = variables;
  settings.read_file = [&](const std::string& name) {
    const std::optional<OtherFile> read = folder.read(name);
    return read ? std::optional(read->content) : std::nullopt;
  };
  settings.environment = {"NGPU", "CONFIG_FILE", "MODULE", "CONFIG"};
  const shell::Reading reading = shell::read_script(content, file, settings);
  require_titan_used(reading, file, variables);
  std::vector<TitanLaunch> launches;
  for (const shell::Invocation& invocation : reading.commands) {
    TitanLaunch launch(invocation, reading);
    if (launch.is_one()) launches.push_back(std::move(launch));
  }
  if (launches.empty()) {
    throw Error(ErrorKind::input, "nothing in it starts torchtitan.train or run_train.sh",
                SourcePlace{file, 0, 0});
  }
  if (launches.size() > 1) {
    throw Error(ErrorKind::input,
                concat("the script starts torchtitan ", launches.size(),
                       " times, and a plan is of one training"),
                launches[1].place(),
                {"keep the one that is meant, or give the variables that choose among them with "
                 "--set NAME=VALUE"});
  }
  job.notes = reading.notes;
  read_base(launches.front(), reading, folder, job);
  launches.front().count_ranks(job);
  launches.front().add_settings(job);
  return job;
}

/// `--set parallelism.tensor_parallel_degree=4`.
void put_over(TitanJob& job, const ScriptVariables& variables) {
  for (const auto& [name, value] : variables) {
    if (!is_settings_path(name)) {
      fail_usage("--set ", name, "=", value,
                 ": a setting of torchtitan has a table in front, such as "
                 "parallelism.tensor_parallel_degree");
    }
    put_setting(job.settings, {.path = titan_path(name),
                               .value = value_of_word(value),
                               .text = value,
                               .place = {concat("--set ", name), 0, 0}});
  }
}

}  // namespace

bool looks_like_titan_launch(std::string_view content) {
  const auto has = [&](std::string_view words) {
    return content.find(words) != std::string_view::npos;
  };
  return has("torchtitan.train") || has("torchtitan/train.py") ||
         (has("run_train.sh") && (has("--parallelism.") || has("--training.") ||
                                  has("CONFIG_FILE") || has("CONFIG=") || has("MODULE=")));
}

TitanJob read_titan_job(std::string_view content, const std::string& file,
                        const ScriptVariables& variables) {
  TitanJob job;
  if (looks_like_titan_python(content)) {
    job.settings = read_titan_python(content, file);
    job.since_0_3 = true;
  } else if (looks_like_titan_launch(content) && !file.ends_with(".toml")) {
    return read_titan_script(content, file, variables);
  } else {
    job.settings = read_toml_settings(content, file);
  }
  put_over(job, variables);
  return job;
}

}  // namespace stagecraft
