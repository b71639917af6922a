// The syntax of shell scripts, as POSIX (IEEE 1003.1, "Shell Command Language") and the manual of
// bash have it, without what launch scripts have no use for (coproc, select).

#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/interop/importers/shell/text.hpp"

namespace stagecraft::shell {

struct Part;
struct Command;

/// Parts that stand together without a blank.
struct Word {
  std::vector<Part> parts;
  Place place;
};

/// A piece of a word, in quotes or not.
struct Part {
  enum class Kind { literal, parameter, substitution, arithmetic, process };
  Kind kind = Kind::literal;
  bool quoted = false;
  /// The characters of a literal; else the source, "$(date)", for messages.
  Text text;
  std::string name;                     ///< of a parameter: "X", "1", "@"
  std::optional<Word> subscript;        ///< ${X[…]}
  bool counts = false;                  ///< ${#X}
  bool refers = false;                  ///< ${!X}
  std::string operation;                ///< ":-", "##", "/", …; empty: none
  std::vector<Word> arguments;          ///< what follows it, and of "/" and ":" the second
  std::shared_ptr<const Command> body;  ///< of a substitution
};

struct Element {
  std::optional<Word> key;  ///< [key]=value
  Word value;
};

/// NAME=value, NAME+=value, NAME[…]=value, NAME=(…).
struct Assignment {
  std::string name;
  std::optional<Word> subscript;
  bool appends = false;
  bool is_array = false;
  Word value;
  std::vector<Element> elements;
  Place place;
};

struct Redirection {
  std::string operation;  ///< ">", "<<", …
  Word target;
  std::optional<Word> document;  ///< of "<<" and "<<<": what is read
};

struct Case {
  std::vector<Word> patterns;
  std::shared_ptr<const Command> body;
};

/// One command; which members count follows from its kind.
struct Command {
  enum class Kind {
    simple,       ///< assignments, words
    pipeline,     ///< commands, is_negated
    and_or,       ///< commands, with "&&" or "||" before each but the first
    sequence,     ///< commands
    group,        ///< commands[0]
    subshell,     ///< commands[0]
    branch,       ///< condition, body, condition, body, …, perhaps the body of else
    loop,         ///< condition, body; operators[0] is "while" or "until"
    for_each,     ///< name, words (if has_words), commands[0]
    for_numbers,  ///< words: the three expressions; commands[0]
    choice,       ///< words[0], cases
    function,     ///< name, commands[0]
    condition,    ///< words between [[ and ]]
    arithmetic,   ///< words[0] between (( and ))
  };
  Kind kind = Kind::simple;
  Place place;
  std::string source;  ///< of conditions, for messages
  std::vector<Assignment> assignments;
  std::vector<Word> words;
  std::vector<Redirection> redirections;
  std::vector<std::shared_ptr<const Command>> commands;
  std::vector<std::string> operators;
  std::vector<Case> cases;
  std::string name;
  bool has_words = false;
  bool is_negated = false;
};

/// How a script is to be read.
struct Syntax {
  /// Flags whose value may have bars, parentheses and stars without quotes, as `ps` prints them.
  std::set<std::string> flags_with_bars;
  std::string file;  ///< what errors call it
};

/// The whole text. Throws Error (input) with the place of quotes, parentheses or compound commands
/// that do not end, or that are nested too deeply.
std::shared_ptr<const Command> parse_script(const Text& text, const Syntax& syntax);

/// A text as between double quotes: a here-document, or an arithmetic expression.
Word parse_quoted(const Text& text, const Syntax& syntax);

bool is_name(std::string_view text);

}  // namespace stagecraft::shell
