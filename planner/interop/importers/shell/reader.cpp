#include "planner/interop/importers/shell/reader.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

/// A launch script is shorter.
constexpr std::size_t largest_script = std::size_t{4} << 20;

/// Holes are marked with a character that no script has.
std::string without_marks(std::string_view content) {
  std::string result(content);
  std::replace(result.begin(), result.end(), Text::hole_mark, ' ');
  return result;
}

struct Directive {
  std::string_view option;
  std::string_view name;
};
constexpr std::array directives{
    Directive{"--nodes", "nodes"},
    Directive{"-N", "nodes"},
    Directive{"--ntasks", "ntasks"},
    Directive{"-n", "ntasks"},
    Directive{"--ntasks-per-node", "ntasks-per-node"},
    Directive{"--tasks-per-node", "ntasks-per-node"},
    Directive{"--gpus-per-node", "gpus-per-node"},
    Directive{"--gres", "gpus-per-node"},
    Directive{"-G", "gpus"},
    Directive{"--gpus", "gpus"},
};

/// "gpu:a100:8" and "8": 8.
std::string last_number(std::string_view text) {
  std::size_t begin = text.find_last_of(":=");
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  std::size_t end = begin;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

SourcePlace Reading::source_place(const Place& place) const {
  const auto file = static_cast<std::size_t>(place.file);
  return {file < files.size() ? files[file] : "", place.line, place.column};
}

std::string Reading::shown(const Text& text) const {
  const std::string& characters = text.characters();
  std::string result;
  for (std::size_t at = 0; at < characters.size();) {
    if (characters[at] != Text::hole_mark) {
      result += characters[at++];
      continue;
    }
    result += unknowns[static_cast<std::size_t>(hole_at(characters, at))].expression;
    at += Text::hole_size;
  }
  return result;
}

std::vector<int> Reading::roots(const std::vector<int>& from) const {
  std::vector<int> result;
  for (const int unknown : from) {
    const std::vector<int>& causes = unknowns[static_cast<std::size_t>(unknown)].causes;
    // Causes are roots themselves.
    for (const int root : causes.empty() ? std::vector<int>{unknown} : causes) {
      if (std::ranges::count(result, root) == 0) result.push_back(root);
    }
  }
  return result;
}

Interpreter::Interpreter(Reading& reading, const Settings& settings)
    : reading_(reading), settings_(settings) {
  syntax_.flags_with_bars = settings.flags_with_bars;
}

std::string Interpreter::shown(const Text& text) const {
  return reading_.shown(text);
}

void Interpreter::fail_at(const Place& place, const std::string& message) const {
  throw Error(ErrorKind::input, message, reading_.source_place(place));
}

State Interpreter::first_state(const std::string& file) {
  State state;
  for (const auto& [name, value] : settings_.variables) {
    const std::size_t number = name.size() == 1 && name[0] >= '1' && name[0] <= '9'
                                   ? static_cast<std::size_t>(name[0] - '0')
                                   : 0;
    if (number == 0) continue;
    state.has_arguments = true;
    if (state.arguments.size() < number) state.arguments.resize(number);
    state.arguments[number - 1] = Text(value, {});
  }
  state.script = Text(file, {});
  state.source = state.script;
  return state;
}

void Interpreter::read_directives(std::string_view content) {
  int line = 0;
  for (const std::string& text : stagecraft::split(content, '\n')) {
    ++line;
    if (!text.starts_with("#SBATCH")) continue;
    std::vector<std::string> words;
    for (std::string& word : stagecraft::split(text.substr(7), ' ')) {
      if (word.starts_with('#')) break;
      if (!trim(word).empty()) words.push_back(trim(word));
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      const std::string option = words[i].substr(0, equals);
      std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                          : i + 1 < words.size()      ? words[i + 1]
                                                      : std::string();
      for (const Directive& row : directives) {
        if (row.option != option) continue;
        if (option == "--gres" && !value.starts_with("gpu")) continue;
        value = last_number(value);
        if (!value.empty()) {
          reading_.directives[std::string(row.name)] =
              Text(value, {static_cast<int>(reading_.files.size()) - 1, line, 1});
        }
      }
    }
  }
}

void Interpreter::run_file(std::string_view content, const std::string& file, State& state) {
  if (content.size() > largest_script)
    fail(file, " has ", content.size(), " bytes, which is no launch script");
  if (reading_.files.size() >= 200) fail("the script reads more than 200 other files");
  const int number = static_cast<int>(reading_.files.size());
  reading_.files.push_back(file);
  syntax_.file = file;
  read_directives(content);
  struct Given {
    std::string_view directive;
    std::string_view variable;
  };
  constexpr std::array given{Given{"nodes", "SLURM_NNODES"},
                             Given{"nodes", "SLURM_JOB_NUM_NODES"},
                             Given{"ntasks", "SLURM_NTASKS"},
                             Given{"ntasks", "SLURM_NPROCS"},
                             Given{"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
                             Given{"gpus-per-node", "SLURM_GPUS_PER_NODE"},
                             Given{"gpus-per-node", "SLURM_GPUS_ON_NODE"}};
  for (const Given& row : given) {
    const auto found = reading_.directives.find(std::string(row.directive));
    if (found == reading_.directives.end() || state.variables.contains(std::string(row.variable)))
      continue;
    assign(std::string(row.variable), found->second, found->second.place(), state);
  }
  run(*parse_script(Text(without_marks(content), {number, 1, 1}), syntax_), state);
}

void Interpreter::take_over_variables(const State& state) {
  std::vector<std::pair<int, VariableReading>> ordered;
  for (const auto& [name, variable] : state.variables) {
    if (name.starts_with("SLURM_")) continue;
    VariableReading reading{.name = name, .words = {}, .place = variable.place};
    for (const auto& [key, text] : variable.elements) {
      for (Text& word :
           split({{text, variable.is_array && text.is_known() && text.characters().find("--") != 0,
                   false}}))
        reading.words.push_back(std::move(word));
    }
    ordered.emplace_back(variable.order, std::move(reading));
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  for (auto& [order, reading] : ordered) reading_.variables.push_back(std::move(reading));
}

Reading read_script(std::string_view content, const std::string& file, const Settings& settings) {
  Reading reading;
  Interpreter interpreter(reading, settings);
  State state = interpreter.first_state(file);
  interpreter.run_file(content, file, state);
  interpreter.take_over_variables(state);
  return reading;
}

}  // namespace stagecraft::shell
