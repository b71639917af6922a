// Other programs: shells that are started, scripts beside the script, and launches.

#include <algorithm>
#include <array>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/outcomes.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

using Flow = Outcome::Flow;

bool is_shell(std::string_view word) {
  constexpr std::array shells{"sh", "bash", "zsh", "ksh", "dash"};
  return std::ranges::count(shells, word.substr(word.find_last_of('/') + 1)) > 0;
}

bool looks_like_script(std::string_view word) {
  constexpr std::array endings{".sh", ".slurm", ".sbatch", ".bash", ".job"};
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return word.ends_with(ending); });
}

bool has_blank(const Text& text) {
  return text.characters().find_first_of(" \t\n") != std::string::npos;
}

}  // namespace

Outcome Interpreter::run_external(const std::vector<Text>& words, const Command& command,
                                  State& state) {
  if (capture_ != nullptr) capture_->is_unknown = true;
  redirect(command, words[0].characters(), words, state);
  State inside = copy_of(state, command.place);
  for (const Assignment& assignment : command.assignments) {
    assign(assignment, inside);
    inside.variables[assignment.name].is_exported = true;
  }
  if (run_called(words, command, inside)) return ended(by_program());
  Invocation invocation{.words = {}, .environment = {}, .place = command.place};
  for (const std::vector<Text>& wrapper : wrappers_) {
    for (const Text& word : wrapper) invocation.words.push_back(word);
  }
  invocation.words.insert(invocation.words.end(), words.begin(), words.end());
  for (const std::string& name : settings_.environment) {
    const auto found = inside.variables.find(name);
    if (const std::string* given = setting(name)) {
      invocation.environment[name] = Text(*given, command.place);
    } else if (found != inside.variables.end() && found->second.elements.contains(0)) {
      invocation.environment[name] = found->second.elements[0];
    }
  }
  reading_.commands.push_back(std::move(invocation));
  return ended(by_program());
}

State Interpreter::child_state(const State& state) const {
  State child;
  for (const auto& [name, variable] : state.variables) {
    if (variable.is_exported || name.starts_with("SLURM_")) child.variables[name] = variable;
  }
  child.script = state.script;
  child.source = state.source;
  child.folder = state.folder;
  child.has_arguments = true;
  return child;
}

/// Where a command starts another shell, and what that reads; `end` is behind its own words.
struct Interpreter::Called {
  std::optional<Text> source;  ///< of `-c`, or else the file that is the word `file`
  std::size_t file = 0;
  std::size_t end = 0;
  bool submits = false;      ///< to a scheduler, whose options say how many nodes there are
  bool may_be_text = false;  ///< the last word, which may be commands or not
};

std::optional<Interpreter::Called> Interpreter::called_by(const std::vector<Text>& words) {
  const std::size_t none = words.size();
  const std::string& first = words[0].characters();
  Called called{.source = {}, .file = none, .end = none};
  called.submits = first == "sbatch" || first == "srun" || first == "qsub" || first == "bsub";
  std::size_t at = 0;
  while (at < none && !is_shell(words[at].characters())) ++at;
  if (at == none && looks_like_script(first)) called.file = 0;
  for (std::size_t i = 1; called.submits && at == none && i < none; ++i) {
    if (!looks_like_script(words[i].characters())) continue;
    called.file = i;
    break;
  }
  for (std::size_t i = at + 1; at < none && i < none; ++i) {
    const std::string& word = words[i].characters();
    const bool is_string =
        word.size() >= 2 && word[0] == '-' && word[1] != '-' && word.ends_with('c');
    if (is_string && i + 1 < none) {
      called.source = words[i + 1];
      break;
    }
    if (!word.starts_with('-') && !word.starts_with('+')) {
      called.file = i;
      break;
    }
  }
  // `ssh HOST "…"`, `su - USER -c "…"`, `docker exec NAME "…"`, `xargs -I {} sh …`.
  called.may_be_text =
      !called.source && called.file == none && none > 1 && has_blank(words.back()) &&
      words.back().characters().find(" --") != std::string::npos &&
      !words.back().characters().starts_with('{') && !words.back().characters().starts_with('-') &&
      words[none - 2].characters().find("--") != 0;
  if (called.may_be_text) called.source = words.back();
  if (!called.source && called.file == none) return {};
  if (called.may_be_text) {
    called.end = none - 1;
  } else {
    called.end = called.source ? at : std::min(at, called.file);
  }
  return called;
}

/// What a scheduler's options say of nodes and tasks, and the variables that it hands on.
void Interpreter::take_nodes(const std::vector<Text>& words, const Place& place, const State& state,
                             State& child) {
  const auto take = [&](const std::string& option, const Text& value) {
    if (option == "-N" || option == "--nodes") {
      assign("SLURM_NNODES", value, place, child);
      assign("SLURM_JOB_NUM_NODES", value, place, child);
    } else if (option == "-n" || option == "--ntasks") {
      assign("SLURM_NTASKS", value, place, child);
    } else if (option == "--ntasks-per-node") {
      assign("SLURM_NTASKS_PER_NODE", value, place, child);
    } else if (option == "--export") {
      for (const std::string& name : stagecraft::split(value.characters(), ',')) {
        const auto found = state.variables.find(name);
        if (found != state.variables.end()) child.variables[name] = found->second;
      }
    }
  };
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      take(word.substr(0, equals), words[i].piece(equals + 1));
    } else if (i + 1 < words.size()) {
      take(word, words[i + 1]);
    }
  }
}

/// A job has a number by then, which scripts ask for that submit themselves.
void Interpreter::number_job(const std::string& scheduler, const Place& place, State& child) {
  struct Row {
    std::string_view scheduler;
    std::string_view variable;
  };
  constexpr std::array rows{Row{"sbatch", "SLURM_JOB_ID"}, Row{"sbatch", "SLURM_JOBID"},
                            Row{"qsub", "PBS_JOBID"}, Row{"bsub", "LSB_JOBID"}};
  for (const Row& row : rows) {
    const std::string name(row.variable);
    if (row.scheduler == scheduler && !child.variables.contains(name))
      assign(name, Text("$" + name, place), place, child);
  }
}

/// A command that starts another shell: `bash -c "…"`, `srun … bash FILE`, `sbatch FILE`. False if
/// it starts none that can be read.
bool Interpreter::run_called(const std::vector<Text>& words, const Command& command, State& state) {
  const std::optional<Called> called = called_by(words);
  if (!called) return false;
  const Deeper deeper(*this, command.place);
  wrappers_.emplace_back(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(called->end));
  bool read = false;
  State child = child_state(state);
  if (called->submits) {
    take_nodes(wrappers_.back(), command.place, state, child);
    number_job(words[0].characters(), command.place, child);
  }
  try {
    if (called->may_be_text) {
      read = run_string_if_commands(*called->source, child);
    } else if (called->source) {
      read = run_string(*called->source, child);
    } else {
      Outcome outcome;
      const auto arguments = std::vector<Text>(
          words.begin() + static_cast<std::ptrdiff_t>(called->file) + 1, words.end());
      read = run_other_file(words[called->file], arguments, false, child, outcome);
    }
  } catch (...) {
    wrappers_.pop_back();
    throw;
  }
  wrappers_.pop_back();
  return read;
}

bool Interpreter::run_string(const Text& text, State& state) {
  run(*parse_script(text, syntax_), state);
  return true;
}

/// A text that may be no command line is no reason to complain.
bool Interpreter::run_string_if_commands(const Text& text, State& state) {
  std::shared_ptr<const Command> commands;
  try {
    commands = parse_script(text, syntax_);
  } catch (const Error&) {
    return false;
  }
  run(*commands, state);
  return true;
}

bool Interpreter::run_other_file(const Text& path, std::vector<Text> arguments, bool is_sourced,
                                 State& state, Outcome& outcome) {
  const Deeper deeper(*this, path.place());
  const auto document = reading_.documents.find(path.characters());
  if (document != reading_.documents.end() && looks_like_script(path.characters())) {
    const Text source = document->second;
    outcome = run(*parse_script(source, syntax_), state);
    return true;
  }
  const std::string& characters = path.characters();
  const std::size_t mark = characters.rfind(Text::hole_mark);
  std::string name =
      mark == std::string::npos ? characters : characters.substr(mark + Text::hole_size);
  const bool is_rooted = mark == std::string::npos;
  while (!is_rooted && name.starts_with('/')) name.erase(0, 1);
  if (name.empty() || name == "/dev/null" || !settings_.read_file) return false;
  const std::optional<std::string> content = settings_.read_file(name);
  if (!content) return false;
  const Text outer = state.source;
  const std::vector<Text> outer_arguments = state.arguments;
  const bool had_arguments = state.has_arguments;
  state.source = path.is_known() ? path : Text(name, path.place());
  if (!is_sourced) state.script = state.source;
  if (!is_sourced || !arguments.empty()) {
    state.arguments = std::move(arguments);
    state.has_arguments = true;
  }
  const Syntax outer_syntax = syntax_;
  run_file(*content, name, state);
  syntax_ = outer_syntax;
  state.source = outer;
  if (!is_sourced || had_arguments) {
    state.arguments = outer_arguments;
    state.has_arguments = had_arguments;
  }
  outcome = answered(true);
  return true;
}

}  // namespace stagecraft::shell
