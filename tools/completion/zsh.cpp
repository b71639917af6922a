// Completion for zsh: a function for each set of choices, and _arguments for each verb.

#include <fmt/format.h>

#include "tools/build_info.hpp"
#include "tools/completion/scripts.hpp"

namespace stagecraft {

namespace {

/// In a specification of _arguments, and in a row of _describe, colons and brackets mean something.
std::string without_meaning(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_row(const Choice& choice) {
  const std::string word = without_meaning(choice.word, ":\\");
  return in_single_quotes(choice.help.empty() ? word : word + ":" + choice.help);
}

/// _stagecraft_choices_N completes what a place may hold.
std::string zsh_choices(const NumberedChoices& choices) {
  std::string text;
  std::size_t number = 0;
  for (const Choices& each : choices.all()) {
    text += fmt::format("_stagecraft_choices_{}() {{\n", ++number);
    if (each.is_list) text += "  compset -P '*,'\n";
    if (each.counted) text += "  compset -P '([0-9]##x)##'\n";
    if (!each.words.empty()) {
      // What takes more behind it gets no space.
      std::vector<Choice> open, closed;
      for (const Choice& choice : each.words) {
        const bool is_open =
            each.is_list || choice.word.ends_with('=') || choice.word.ends_with(':');
        (is_open ? open : closed).push_back(choice);
      }
      for (const auto* words : {&closed, &open}) {
        if (words->empty()) continue;
        text += "  local -a choices=(\n";
        for (const Choice& choice : *words) text += "    " + zsh_row(choice) + "\n";
        text += fmt::format("  )\n  _describe value choices{}\n", words == &open ? " -S ''" : "");
      }
    }
    if (each.files) text += "  _files\n";
    if (each.folders) text += "  _files -/\n";
    text += "}\n";
  }
  return text;
}

std::string zsh_value(const OptionWords& option, NumberedChoices& choices) {
  if (option.value.empty()) return "";
  const std::size_t number = choices.number(option.choices);
  const std::string action = number == 0 ? " " : fmt::format("_stagecraft_choices_{}", number);
  return ":" + without_meaning(option.value, ":\\") + ":" + action;
}

/// "'(-o --output)'{-o,--output}'[help]:FILE:…'".
std::string zsh_option(const OptionWords& option, NumberedChoices& choices) {
  const std::string rest = in_single_quotes("[" + without_meaning(option.help, "[]:\\") + "]" +
                                            zsh_value(option, choices));
  if (option.is_repeated || option.names.size() == 1) {
    std::string all;
    for (const std::string& name : option.names) {
      if (!all.empty()) all += " ";
      all += in_single_quotes((option.is_repeated ? "*" : "") + name);
      all += rest;
    }
    return all;
  }
  std::string excluded, names;
  for (const std::string& name : option.names) {
    excluded += (excluded.empty() ? "" : " ") + name;
    names += (names.empty() ? "" : ",") + name;
  }
  return fmt::format("'({})'{{{}}}{}", excluded, names, rest);
}

std::string verb_case(const VerbWords& verb, NumberedChoices& choices) {
  std::string text = fmt::format("    {})\n      _arguments -S \\\n", verb.name);
  for (const OptionWords& option : verb.options)
    text += "        " + zsh_option(option, choices) + " \\\n";
  for (std::size_t place = 0; place < verb.arguments.size(); ++place) {
    const OptionWords& argument = verb.arguments[place];
    const std::string which = argument.is_repeated ? "*" : std::to_string(place + 1);
    text += "        " + in_single_quotes(which + zsh_value(argument, choices)) + " \\\n";
  }
  text.resize(text.size() - 3);
  return text + "\n      ;;\n";
}

}  // namespace

std::string zsh_completion(const std::vector<VerbWords>& verbs) {
  NumberedChoices choices;
  std::string names, cases;
  for (const VerbWords& verb : verbs) {
    names += "      " + zsh_row({verb.name, verb.help}) + "\n";
    cases += verb_case(verb, choices);
  }
  return fmt::format(
             "#compdef stagecraft\n"
             "# Zsh completion of stagecraft {}, written by `stagecraft completion zsh`.\n\n",
             build_info::version) +
         zsh_choices(choices) +
         "\n_stagecraft() {\n"
         "  setopt localoptions extendedglob\n"
         "  if ((CURRENT == 2)); then\n"
         "    local -a verbs=(\n" +
         names +
         "    )\n"
         "    _describe verb verbs\n"
         "    return\n"
         "  fi\n"
         "  local verb=$words[2]\n"
         "  shift words\n"
         "  ((CURRENT -= 1))\n"
         "  case $verb in\n" +
         cases +
         "  esac\n}\n\n"
         "if [[ $funcstack[1] == _stagecraft ]]; then\n"
         "  _stagecraft \"$@\"\n"
         "else\n"
         "  compdef _stagecraft stagecraft\n"
         "fi\n";
}

}  // namespace stagecraft
