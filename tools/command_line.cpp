#include "tools/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/build_info.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/launch/end_at_once.hpp"
#include "tools/options/flag_meanings.hpp"
#include "tools/reports/progress.hpp"
#include "tools/system_refusal.hpp"

namespace stagecraft {
namespace {

constexpr int exit_ok = 0;

/// A verb as CLI11 sees it, with the options all verbs share.
struct Verb {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  Action action;
  CommonOptions common;
};

std::string indented(std::string_view lines) {
  std::string text;
  for (const std::string& line : split(lines, '\n')) text += "  " + line + "\n";
  return text;
}

/// The largest integer of 64 bits is what CLI11 takes all that are larger for.
constexpr std::int64_t most_seed = std::numeric_limits<std::int64_t>::max() - 1;

void declare_common(CLI::App& app, CommonOptions& common) {
  app.add_option("-o,--output", common.output, "Write the result to FILE")
      ->type_name("FILE")
      ->group("Common");
  app.add_flag("--json", common.json, "Print one JSON document")->group("Common");
  app.add_flag("-q,--quiet", common.quiet, "Print errors and warnings only")->group("Common");
  app.add_flag("-v,--verbose", common.verbose, "Print all notes and more detail")->group("Common");
  app.add_option("--color", common.color, "Use colour: auto, always or never (auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->group("Common");
  app.add_flag("--ascii", common.ascii, "Draw with ASCII characters")->group("Common");
  app.add_option("--seed", common.seed, "Random seed (1)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, most_seed))
      ->group("Common");
  app.add_option("--threads", common.threads, "Maximum number of threads (all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096))
      ->group("Common");
}

void declare(Verb& verb, CLI::App& program, const Command& command) {
  verb.command = &command;
  verb.app = program.add_subcommand(std::string(command.name), std::string(command.summary));
  verb.app->description(concat(command.summary, "\n\nExamples:\n", indented(command.examples)));
  verb.app->group("Verbs");
  verb.app->allow_extras();
  verb.action = command.declare(*verb.app);
  declare_common(*verb.app, verb.common);
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Command& command : commands) names.emplace_back(command.name);
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// Whether a verb's argument is a plan.
bool takes_plan(const CLI::App& app) {
  return std::ranges::any_of(app.get_options(), [](const CLI::Option* option) {
    return option->get_positional() && option->get_type_name().find("PLAN") != std::string::npos;
  });
}

VerbOptions words_of(const CLI::App& app) {
  const auto verbs_with = [&app](std::string_view option) {
    std::vector<std::string> verbs;
    for (const CLI::App* verb :
         app.get_parent()->get_subcommands([](const CLI::App*) { return true; })) {
      const std::vector<std::string> names = option_names(*verb);
      if (std::ranges::find(names, option) != names.end()) verbs.push_back(verb->get_name());
    }
    return verbs;
  };
  return {.options = option_names(app), .takes_plan = takes_plan(app), .verbs_with = verbs_with};
}

/// CLI11 2.1 neither suggests names nor explains extras, so unknown words are collected and
/// explained here.
void refuse_unknown_words(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    if (!word.starts_with('-'))
      fail_usage("unexpected argument \"", word, "\"; see stagecraft ", app.get_name(), " --help");
    const std::string name = word.substr(0, word.find('='));
    const std::string meaning = option_of_same_meaning(name, words_of(app));
    if (!meaning.empty())
      fail_usage("unknown option \"", name, "\" of stagecraft ", app.get_name(), "; ", meaning);
    const std::string suggestion = closest(name, option_names(app));
    fail_usage("unknown option \"", name, "\" of stagecraft ", app.get_name(),
               suggestion.empty() ? concat("; see stagecraft ", app.get_name(), " --help")
                                  : concat("; did you mean \"", suggestion, "\"?"));
  }
}

std::string overview() {
  std::string text =
      "Stagecraft plans, simulates and runs pipeline-parallel training.\n\n"
      "  stagecraft VERB [ARGUMENTS] [OPTIONS]          stagecraft VERB --help\n\n";
  for (const Command& command : commands) {
    text += "  " + std::string(command.name) + std::string(12 - command.name.size(), ' ') +
            std::string(command.summary) + "\n";
  }
  return text +
         "\nTry:  stagecraft simulate --schedule 1f1b --stages 4 --microbatches 8 --forward 10ms "
         "--backward 20ms\n";
}

bool asks_for_json(std::span<const char* const> arguments) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [](std::string_view word) { return word == "--json"; });
}

/// What has been printed so far has been written, or an error says that it has not.
int written(int code) {
  // Of long texts std::cout wrote a part before, and remembers that it could not; errno says why.
  if (!std::cout.flush() || std::fflush(stdout) != 0) throw output_error(errno);
  return code;
}

/// The answer to `stagecraft`, `stagecraft --help` and `stagecraft --version`; a usage error for an
/// unknown verb.
std::optional<int> answer_without_verb(std::span<const char* const> arguments) {
  if (arguments.empty()) {
    std::cerr << overview();
    return exit_code(ErrorKind::usage);
  }
  const std::string_view word = arguments.front();
  if (word == "--help" || word == "-h" || word == "help") {
    std::cout << overview();
    return written(exit_ok);
  }
  if (word == "--version" || word == "version") {
    std::cout << "stagecraft " << build_info::version << "\n";
    return written(exit_ok);
  }
  const std::vector<std::string> names = verb_names();
  if (std::find(names.begin(), names.end(), word) != names.end()) return {};
  const std::string meaning = verb_of_same_meaning(word);
  if (!meaning.empty()) fail_usage("unknown verb \"", word, "\"; ", meaning);
  fail_unknown("verb", word, names);
}

Error out_of_memory() {
  return {ErrorKind::execution,
          "this machine's memory is exhausted; ask for less, or raise its limits (ulimit -v)"};
}

int run_verb(Verb& verb) {
  Console console(std::string(verb.command->name), verb.common);
  try {
    refuse_unknown_words(*verb.app);
    if (verb.common.json && verb.common.output == "-")
      fail_usage("-o - and --json both want standard output; give one of them");
    // A run reports on itself, and so do the processes that it starts.
    if (!verb.common.output.empty() && verb.common.output != "-")
      require_writable(verb.common.output);
    std::optional<EndAtOnce> end_at_once;
    if (verb.command->name != "run") end_at_once.emplace(console);
    std::optional<Progress> progress;
    if (verb.command->name != "run") progress.emplace(console, std::string(verb.command->name));
    const int code = verb.action(console);
    if (!verb.command->makes_file) console.write_printed();
    return code;
  } catch (const Error& error) {
    return console.error(error);
  } catch (const std::bad_alloc&) {
    return console.error(out_of_memory());
  } catch (const std::length_error&) {
    return console.error(out_of_memory());  // more than a container can ever hold
  } catch (const std::system_error& error) {
    return console.error(system_refusal(error));
  } catch (const std::exception& error) {
    return console.error(Error(
        ErrorKind::bug, concat("unexpected: ", error.what(), " (this is a bug in stagecraft)")));
  }
}

/// "1.000000 to 1000.000000" as "1 to 1000".
std::string without_zeros(std::string text) {
  constexpr std::string_view zeros = ".000000";
  for (std::size_t at = text.find(zeros); at != std::string::npos; at = text.find(zeros))
    text.erase(at, zeros.size());
  return text;
}

/// CLI11's "--batch: Value 4k not in range 1 to 8" as a sentence of ours; any other as it is.
std::string in_our_words(const std::string& complaint) {
  constexpr std::string_view before = ": Value ", middle = " not in range ";
  const std::size_t value = complaint.find(before), range = complaint.rfind(middle);
  if (value == std::string::npos || range == std::string::npos || range < value) return complaint;
  const std::size_t start = value + before.size();
  const std::string found = complaint.substr(start, range - start);
  const std::string whole = with_thousands_written_out(found);
  return concat(complaint.substr(0, value), ": expected a number from ",
                without_zeros(complaint.substr(range + middle.size())), ", found \"", found, "\"",
                whole == found ? "" : concat("; written out it is ", whole));
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App program;
  program.name("stagecraft");
  program.require_subcommand(1);
  std::vector<Verb> verbs(commands.size());
  for (std::size_t i = 0; i < commands.size(); ++i) declare(verbs[i], program, commands[i]);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    for (const Verb& verb : verbs) {
      if (verb.app->parsed()) std::cout << verb.app->help("", CLI::AppFormatMode::Normal);
    }
    return written(exit_ok);
  } catch (const CLI::ParseError& error) {
    fail_usage(in_our_words(error.what()), "; see stagecraft ", argv[1], " --help");
  }
  for (Verb& verb : verbs) {
    if (verb.app->parsed()) return run_verb(verb);
  }
  return exit_code(ErrorKind::usage);
}

}  // namespace

void for_each_verb(const std::function<void(const Command&, const CLI::App&)>& look) {
  CLI::App program;
  std::vector<Verb> verbs(commands.size());
  for (std::size_t i = 0; i < commands.size(); ++i) {
    declare(verbs[i], program, commands[i]);
    look(commands[i], *verbs[i].app);
  }
}

int run_command_line(int argc, const char* const* argv) {
  const std::span<const char* const> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  try {
    if (const auto answer = answer_without_verb(arguments)) return *answer;
    return parse_and_run(argc, argv);
  } catch (const Error& error) {
    return Console(arguments.empty() ? "" : arguments.front(), {.json = asks_for_json(arguments)})
        .error(error);
  }
}

}  // namespace stagecraft
