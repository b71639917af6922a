// stagecraft completion: a program for a shell that completes this command line.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"
#include "tools/completion/scripts.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> shell_names() {
  std::vector<std::string> names;
  for (const Shell& shell : shells) names.emplace_back(shell.name);
  return names;
}

ordered_json options_json(const std::vector<OptionWords>& options) {
  ordered_json list = ordered_json::array();
  for (const OptionWords& option : options) {
    ordered_json json{{"names", option.names}, {"help", option.help}};
    if (!option.value.empty()) {
      json["value"] = option.value;
      json["type"] = option.type;
      json["repeated"] = option.is_repeated;
      json["required"] = option.is_required;
      json["choices"] = ordered_json::array();
      for (const Choice& choice : option.choices.words) json["choices"].push_back(choice.word);
      json["only_choices"] = option.choices.is_closed;
      json["files"] = option.choices.files;
      json["list"] = option.choices.is_list;
    }
    list.push_back(std::move(json));
  }
  return list;
}

/// The tables themselves, for programs.
ordered_json verbs_json(const std::vector<VerbWords>& verbs) {
  ordered_json list = ordered_json::array();
  for (const VerbWords& verb : verbs) {
    list.push_back({{"name", verb.name},
                    {"help", verb.help},
                    {"arguments", options_json(verb.arguments)},
                    {"options", options_json(verb.options)}});
  }
  return list;
}

int print_completion(Console& console, const std::string& name) {
  std::vector<VerbWords> verbs;
  for_each_verb([&](const Command& command, const CLI::App& app) {
    verbs.push_back(words_of(command.name, command.summary, app));
  });
  const auto shell = std::ranges::find(shells, name, &Shell::name);
  const std::string text = shell->completion(verbs);
  if (!console.artefact(text)) console.print(text);
  console.result({{"shell", name}, {"text", text}, {"verbs", verbs_json(verbs)}});
  return 0;
}

}  // namespace

Action declare_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->check(CLI::IsMember(shell_names()))
      ->required();
  return [shell](Console& console) { return print_completion(console, *shell); };
}

}  // namespace stagecraft
