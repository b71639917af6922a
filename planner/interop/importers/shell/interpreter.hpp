// The interpreter of a script's commands: its variables, and the state of conditions. For the
// sources of this folder; others call `read_script`.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/interop/importers/shell/arithmetic.hpp"
#include "planner/interop/importers/shell/reader.hpp"
#include "planner/interop/importers/shell/syntax.hpp"

namespace stagecraft::shell {

/// The answer to a condition, or the status of a command: 0 is yes.
struct Truth {
  enum class Answer { no, yes, unknown };
  Answer answer = Answer::yes;
  bool is_assumed = false;  ///< an unset variable was taken as empty
  bool is_program = false;  ///< another program answers
  std::vector<int> causes;  ///< of an unknown answer, or of an assumed one
};
Truth truth(bool yes);
Truth operator!(Truth asked);

/// How a command ended.
struct Outcome {
  enum class Flow { next, leave, back, stop, again };  ///< exit, return, break, continue
  Flow flow = Flow::next;
  int levels = 1;  ///< nesting of loops, for break and continue
  Truth status;
};

struct Variable {
  bool is_array = false;
  bool is_map = false;
  bool is_exported = false;
  std::map<std::int64_t, Text> elements;  ///< of what is no array, element 0
  std::map<std::string, Text> keyed;
  Place place;
  int order = 0;
};

/// Everything that a subshell has a copy of.
struct State {
  std::map<std::string, Variable> variables;
  std::map<std::string, std::shared_ptr<const Command>> functions;
  std::vector<Text> arguments;
  bool has_arguments = false;  ///< the script's own are not known
  Text script;                 ///< $0
  Text source;                 ///< ${BASH_SOURCE[0]}
  std::optional<Text> folder;  ///< where `cd` went
  int next_order = 0;
};

/// A piece of a word after expansion.
struct Piece {
  Text text;
  bool is_quoted = false;
  bool begins_field = false;  ///< "${X[@]}": each element is a word
};

class Interpreter {
 public:
  Interpreter(Reading& reading, const Settings& settings);

  void run_file(std::string_view content, const std::string& file, State& state);
  /// The state in which the script begins.
  State first_state(const std::string& file);
  void read_directives(std::string_view content);
  void take_over_variables(const State& state);

 private:
  struct Value {
    std::vector<Text> elements;
    bool is_list = false;  ///< all elements: ${X[@]}, "$@"
    bool joins = false;    ///< "*" in quotes: one word
    bool is_set = false;
  };

  // Unknowns.
  int add_unknown(Unknown unknown);
  Text hole(Unknown unknown);
  /// Follows from these, or is the variable `name` itself if there are none.
  Text derived(const std::string& expression, const Place& place, const std::vector<int>& causes);
  Text unset(const std::string& name, const Place& place);
  const std::string* setting(const std::string& name);
  std::vector<int> roots(const std::vector<int>& unknowns) const;
  /// The text without holes of unset variables; these are recorded in `asked`.
  Text emptied(const Text& text, Truth& asked) const;
  std::string shown(const Text& text) const;

  // Expansion (expansion.cpp).
  std::vector<Piece> expand(const Word& word, State& state);
  Text joined(const Word& word, State& state);
  std::vector<Text> fields(const std::vector<Word>& words, State& state);
  std::vector<Text> split(const std::vector<Piece>& pieces) const;
  std::vector<Word> braces(const Word& word) const;
  std::string pattern(const Word& word, State& state, std::vector<int>& unknowns);
  void expand_parameter(const Part& part, State& state, std::vector<Piece>& pieces);
  Value value_of(const Part& part, State& state);
  Value value_of(const std::string& name, const std::optional<Word>& subscript, const Place& place,
                 State& state);
  Text element_of(const Variable& variable, const Word& subscript, const Place& place,
                  State& state);
  bool expand_by_default(const Part& part, const Value& value, State& state,
                         std::vector<Piece>& pieces);
  Text changed(const Part& part, const Text& text, State& state);
  Text substring(const Part& part, const Text& text, State& state);
  Text substituted(const Part& part, State& state);
  Number number_of(const Text& expression, const Place& place, State& state);
  Text arithmetic_text(const Part& part, State& state);

  // Variables.
  void assign(const std::string& name, Text value, const Place& place, State& state);
  void assign(const Assignment& assignment, State& state);
  void assign_array(const Assignment& assignment, State& state);
  Text named_after(const std::string& name, Text value, const Place& place);

  // Conditions (conditions.cpp).
  struct Token {
    Text text;
    std::string pattern;
    std::vector<int> pattern_unknowns;
    bool is_operator = false;
  };
  struct Tokens {
    std::vector<Token> all;
    std::size_t at = 0;
    bool is_double = false;  ///< [[ … ]]
    State* state = nullptr;
    Place place;
  };
  Truth test(const std::vector<Text>& words, const Place& place, State& state);
  Truth test(const Command& condition, State& state);
  Truth any_of(Tokens& tokens);
  Truth all_of(Tokens& tokens);
  Truth one_of(Tokens& tokens);
  Truth unary(const std::string& operation, const Token& operand, Tokens& tokens);
  Truth binary(const Token& left, const std::string& operation, const Token& right, Tokens& tokens);
  Truth compare_numbers(const Token& left, const std::string& operation, const Token& right,
                        Tokens& tokens);

  // Commands (commands.cpp, simple_commands.cpp).
  Outcome run(const Command& command, State& state);
  Outcome run_sequence(const Command& command, State& state);
  Outcome run_and_or(const Command& command, State& state);
  Outcome run_pipeline(const Command& command, State& state);
  Outcome run_branch(const Command& command, std::size_t index, State& state);
  Outcome run_choice(const Command& command, std::size_t index, const Text& text, State& state);
  Outcome run_loop(const Command& command, State& state);
  Outcome run_for_each(const Command& command, State& state);
  Outcome run_for_numbers(const Command& command, State& state);
  Outcome run_simple(const Command& command, State& state);
  Outcome run_words(std::vector<Text> words, const Command& command, State& state);
  std::optional<Outcome> run_builtin(const std::string& name, const std::vector<Text>& words,
                                     const Command& command, State& state);
  // Builtins (builtins.cpp): nothing where the command is none of them.
  std::optional<Outcome> run_control(const std::string& name, const std::vector<Text>& words,
                                     const Command& command, State& state);
  std::optional<Outcome> run_on_variables(const std::string& name, const std::vector<Text>& words,
                                          const Command& command, State& state);
  void declare(const std::string& name, const std::vector<Text>& words, const Command& command,
               State& state);
  Outcome run_read(const std::vector<Text>& words, const Command& command, State& state);
  Outcome run_source(const std::vector<Text>& words, State& state);
  void change_folder(const std::vector<Text>& words, State& state);
  std::optional<Outcome> run_output(const std::string& name, const std::vector<Text>& words,
                                    const Command& command, State& state);
  // Other programs (programs.cpp, filters.cpp).
  Outcome run_external(const std::vector<Text>& words, const Command& command, State& state);
  struct Called;
  static std::optional<Called> called_by(const std::vector<Text>& words);
  void take_nodes(const std::vector<Text>& words, const Place& place, const State& state,
                  State& child);
  void number_job(const std::string& scheduler, const Place& place, State& child);
  bool run_called(const std::vector<Text>& words, const Command& command, State& state);
  bool run_string(const Text& text, State& state);
  bool run_string_if_commands(const Text& text, State& state);
  bool run_other_file(const Text& path, std::vector<Text> arguments, bool is_sourced, State& state,
                      Outcome& outcome);
  std::optional<std::int64_t> counted(const std::vector<Text>& words, const Text& input) const;
  std::optional<Text> calculated(const Text& expression, const std::vector<Text>& words,
                                 const Place& place);
  std::vector<std::int64_t> counted_up(const std::vector<Text>& operands, const Place& place);
  void run_filter(const std::string& name, const std::vector<Text>& words, const Command& command);
  void redirect(const Command& command, const std::string& name, const std::vector<Text>& words,
                State& state);
  // Two ways to go (ways.cpp).
  Truth decide(Truth asked, const std::string& source) const;
  Outcome either(const std::function<Outcome(State&)>& one,
                 const std::function<Outcome(State&)>& other, const Truth& asked,
                 const std::string& source, const Place& place, State& state);
  Outcome merge(Outcome one, State& first, Outcome other, State& second, const Truth& asked,
                const std::string& source, const Place& place);
  void merge_variables(State& first, State& second, const std::vector<int>& causes,
                       const std::string& source, const Place& place);
  Text merged_text(const std::string& name, const Text& one, const Text& other,
                   const std::vector<int>& causes, const std::string& source, const Place& place);

  void step(const Place& place);
  void deepen(const Place& place);
  /// Of bytes that are made or looked at; like steps, there may be only so many.
  void work(std::size_t bytes, const Place& place);
  /// For commands whose changes are theirs alone.
  State copy_of(const State& state, const Place& place);
  void note_assumed(const Truth& asked);
  [[noreturn]] void fail_at(const Place& place, const std::string& message) const;
  State child_state(const State& state) const;

  /// One more script, function, command or substitution in another, as long as it lives. Throws
  /// Error (input) where there are too many, as where a script calls itself.
  struct Deeper {
    Deeper(Interpreter& of, const Place& place) : interpreter(of) { of.deepen(place); }
    ~Deeper() { --interpreter.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Interpreter& interpreter;
  };

  Reading& reading_;
  const Settings& settings_;
  Syntax syntax_;
  std::vector<std::vector<Text>> wrappers_;
  /// The output of a substitution's commands.
  struct Capture {
    Text text;
    bool is_unknown = false;
    Text input;  ///< from the command in front, in a pipeline
  };
  Capture* capture_ = nullptr;
  int depth_ = 0;             ///< of commands in each other
  int expression_depth_ = 0;  ///< of variables in arithmetic, and of parentheses in conditions
  int steps_ = 0;
  std::size_t work_ = 0;
  int next_unknown_ = 0;
};

}  // namespace stagecraft::shell
