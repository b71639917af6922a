// Completion for fish: a line for each verb, option and argument.

#include <fmt/format.h>

#include "tools/build_info.hpp"
#include "tools/completion/scripts.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view fish_functions = R"fish(
# Whether a word of this verb is completed.
function __stagecraft_verb
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

# Whether it is the verb's argument of this number; options and their values do not count.
function __stagecraft_argument
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]; or return 1
    set -l valued (__stagecraft_valued $argv[1])
    set -l place 0
    set -l skip 0
    for word in $words[3..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            contains -- $word $valued; and set skip 1
        else
            set place (math $place + 1)
        end
    end
    test $argv[2] = any; or test $place = $argv[2]
end

# The words of a list, after what has been typed of it.
function __stagecraft_list
    set -l before (commandline -ct | string match -r '.*,')
    printf "$before%s\n" $argv
end

# Words that may have a count before them.
function __stagecraft_counted
    set -l before (commandline -ct | string match -r '^(?:[0-9]+x)+')
    printf "$before%s\n" $argv
end
)fish";

/// A word for fish's own list of candidates: a tabulator parts it from its help.
std::string candidate(const Choice& choice) {
  return choice.help.empty() ? choice.word : choice.word + "\t" + choice.help;
}

std::string fish_choices(const NumberedChoices& choices) {
  std::string text;
  std::size_t number = 0;
  for (const Choices& each : choices.all()) {
    if (each.words.empty()) {
      ++number;
      continue;
    }
    const char* print = each.is_list   ? "__stagecraft_list"
                        : each.counted ? "__stagecraft_counted"
                                       : "printf '%s\\n'";
    text += fmt::format("function __stagecraft_choices_{}\n    {}", ++number, print);
    for (const Choice& choice : each.words)
      text += " \\\n        " + in_fish_quotes(candidate(choice));
    text += "\nend\n";
  }
  return text;
}

/// The options of `complete` that say what a place may hold.
std::string fish_words(const Choices& choices, NumberedChoices& numbered) {
  std::string text;
  const std::size_t number = numbered.number(choices);
  if (choices.files) text += " -F";
  if (choices.folders) text += " -f -a '(__fish_complete_directories)'";
  if (!choices.words.empty()) text += fmt::format(" -a '(__stagecraft_choices_{})'", number);
  return text;
}

std::string fish_option(const VerbWords& verb, const OptionWords& option,
                        NumberedChoices& numbered) {
  std::string text = fmt::format("complete -c stagecraft -n '__stagecraft_verb {}'", verb.name);
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    text += (is_long ? " -l " : " -s ") + name.substr(is_long ? 2 : 1);
  }
  if (!option.value.empty()) {
    text += option.choices.files ? " -r" : " -x";
    text += fish_words(option.choices, numbered);
  }
  return text + " -d " + in_fish_quotes(option.help) + "\n";
}

std::string fish_argument(const VerbWords& verb, std::size_t place, const OptionWords& argument,
                          NumberedChoices& numbered) {
  if (argument.choices == Choices{}) return "";
  return fmt::format("complete -c stagecraft -n '__stagecraft_argument {} {}'{}\n", verb.name,
                     argument.is_repeated ? "any" : std::to_string(place),
                     fish_words(argument.choices, numbered));
}

}  // namespace

std::string fish_completion(const std::vector<VerbWords>& verbs) {
  NumberedChoices numbered;
  std::string lines = "complete -c stagecraft -f\n";
  std::string valued = "function __stagecraft_valued\n    switch $argv[1]\n";
  for (const VerbWords& verb : verbs) {
    lines += fmt::format(
        "complete -c stagecraft -n 'test (count (commandline -opc)) -eq 1' -a {} -d {}\n",
        verb.name, in_fish_quotes(verb.help));
    valued += fmt::format("        case {}\n            printf '%s\\n'", verb.name);
    for (const OptionWords& option : verb.options) {
      lines += fish_option(verb, option, numbered);
      for (const std::string& name : option.names) {
        if (!option.value.empty()) valued += " " + name;
      }
    }
    valued += "\n";
    for (std::size_t place = 0; place < verb.arguments.size(); ++place)
      lines += fish_argument(verb, place, verb.arguments[place], numbered);
  }
  valued += "    end\nend\n";
  return fmt::format(
             "# Fish completion of stagecraft {}, written by `stagecraft completion fish`.\n",
             build_info::version) +
         std::string(fish_functions) + "\n" + valued + "\n" + fish_choices(numbered) + "\n" + lines;
}

}  // namespace stagecraft
