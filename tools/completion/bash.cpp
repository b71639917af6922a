// Completion for bash. What is static in it is below as text; the tables of verbs come before it.

#include <fmt/format.h>

#include "tools/build_info.hpp"
#include "tools/completion/scripts.hpp"

namespace stagecraft {

namespace {

// Bash breaks words at "=" and ":", so that `--batch=6` are three words.
constexpr std::string_view bash_functions = R"bash(
# Adds to COMPREPLY what a place may hold. Its last word may be one of a list, or have a count
# before it.
_stagecraft_reply() {
  local cur=$1 words= files= folders= list= counted= before= word IFS=$' \t\n'
  _stagecraft_choices "$2"
  [[ $list && $cur == *,* ]] && before=${cur%,*},
  [[ $counted && $cur =~ ^([0-9]+x)+ ]] && before=${BASH_REMATCH[0]}
  cur=${cur#"$before"}
  for word in $words; do
    [[ $word == "$cur"* ]] || continue
    COMPREPLY+=("$before$word")
    [[ $list || $word == *[=:] ]] && compopt -o nospace 2>/dev/null
  done
  [[ $before ]] && return
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
  elif [[ $folders ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur")
  fi
}

_stagecraft() {
  local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} flag= word place=0 i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$_stagecraft_verbs" -- "$cur")
    return
  fi
  # Which flag the word is for, or else which argument it is.
  for ((i = 2; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue
    elif [[ $flag ]]; then
      flag=
    elif [[ $word == -?* ]]; then
      [[ " $(_stagecraft_flags "$verb" valued) " == *" $word "* ]] && flag=$word
    else
      ((++place))
    fi
  done
  [[ $cur == = ]] && cur=
  if [[ $flag ]]; then
    _stagecraft_reply "$cur" "$(_stagecraft_place "$verb" "$flag")"
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_stagecraft_flags "$verb")" -- "$cur")
  else
    _stagecraft_reply "$cur" "$(_stagecraft_place "$verb" "$place")"
  fi
}

complete -F _stagecraft stagecraft
)bash";

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// The flags of each verb; those that take a value alone, if asked for.
std::string bash_flags(const std::vector<VerbWords>& verbs) {
  std::string text = "_stagecraft_flags() {\n  case \"$1 $2\" in\n";
  for (const VerbWords& verb : verbs) {
    std::vector<std::string> all, valued;
    for (const OptionWords& option : verb.options) {
      for (const std::string& name : option.names) {
        if (name.starts_with("--")) all.push_back(name);
        if (!option.value.empty()) valued.push_back(name);
      }
    }
    text += fmt::format("    '{0} ') echo '{1}' ;;\n    '{0} valued') echo '{2}' ;;\n", verb.name,
                        joined(all), joined(valued));
  }
  return text + "  esac\n}\n";
}

/// The number of what a flag, or an argument by its place, may be.
std::string bash_places(const std::vector<VerbWords>& verbs, NumberedChoices& choices) {
  std::string text = "_stagecraft_place() {\n  case \"$1 $2\" in\n";
  for (const VerbWords& verb : verbs) {
    for (const OptionWords& option : verb.options) {
      const std::size_t number = choices.number(option.choices);
      if (number == 0) continue;
      std::string names;
      for (const std::string& name : option.names)
        names += fmt::format("{}'{} {}'", names.empty() ? "" : "|", verb.name, name);
      text += fmt::format("    {}) echo {} ;;\n", names, number);
    }
    for (std::size_t place = 0; place < verb.arguments.size(); ++place) {
      const OptionWords& argument = verb.arguments[place];
      const std::size_t number = choices.number(argument.choices);
      if (number == 0) continue;
      text += argument.is_repeated
                  ? fmt::format("    '{} '[0-9]*) echo {} ;;\n", verb.name, number)
                  : fmt::format("    '{} {}') echo {} ;;\n", verb.name, place, number);
    }
  }
  return text + "  esac\n}\n";
}

std::string bash_choices(const NumberedChoices& choices) {
  std::string text = "_stagecraft_choices() {\n  case $1 in\n";
  std::size_t number = 0;
  for (const Choices& each : choices.all()) {
    std::vector<std::string> words;
    for (const Choice& choice : each.words) words.push_back(choice.word);
    text += fmt::format("    {}) words='{}'{}{}{}{} ;;\n", ++number, joined(words),
                        each.files ? " files=1" : "", each.folders ? " folders=1" : "",
                        each.is_list ? " list=1" : "", each.counted ? " counted=1" : "");
  }
  return text + "  esac\n}\n";
}

}  // namespace

std::string bash_completion(const std::vector<VerbWords>& verbs) {
  NumberedChoices choices;
  std::vector<std::string> names;
  for (const VerbWords& verb : verbs) names.push_back(verb.name);
  const std::string places = bash_places(verbs, choices);
  return fmt::format(
             "# Bash completion of stagecraft {}, written by `stagecraft completion bash`.\n\n"
             "_stagecraft_verbs='{}'\n\n",
             build_info::version, joined(names)) +
         bash_flags(verbs) + "\n" + places + "\n" + bash_choices(choices) +
         std::string(bash_functions);
}

}  // namespace stagecraft
