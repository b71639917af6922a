#include "planner/interop/importers/shell/syntax/commands.hpp"

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "planner/interop/importers/shell/syntax/compounds.hpp"
#include "planner/interop/importers/shell/syntax/redirections.hpp"
#include "planner/interop/importers/shell/syntax/simple_command.hpp"
#include "planner/interop/importers/shell/syntax/substitutions.hpp"
#include "profiles/error.hpp"

namespace stagecraft::shell {

namespace {

std::shared_ptr<Command> parse_command(Cursor& cursor);

/// (…) or {…}.
std::shared_ptr<Command> parse_group(Cursor& cursor, Command::Kind kind, std::string_view open,
                                     std::string_view close) {
  auto group = begin_command(cursor, kind);
  cursor.skip(open.size());
  group->commands.push_back(parse_sequence(cursor, {close}));
  if (!cursor.looking_at(close))
    cursor.fail_at(group->place, concat("\"", open, "\" without \"", close, "\""));
  cursor.skip(close.size());
  parse_redirections(cursor, group);
  return group;
}

/// "NAME ()".
bool is_at_function(const Cursor& cursor) {
  const Text& text = cursor.text();
  std::size_t at = cursor.position();
  while (at < text.size() && (is_name_character(text[at]) || text[at] == '-')) ++at;
  if (at == cursor.position()) return false;
  while (at < text.size() && is_blank(text[at])) ++at;
  if (at >= text.size() || text[at] != '(') return false;
  for (++at; at < text.size() && is_blank(text[at]);) ++at;
  return at < text.size() && text[at] == ')';
}

/// From its name on.
std::shared_ptr<Command> parse_function(Cursor& cursor) {
  auto function = begin_command(cursor, Command::Kind::function);
  function->name = bare_word(cursor);
  cursor.skip(function->name.size());
  cursor.skip_blanks();
  if (cursor.peek() == '(') {
    cursor.skip();
    cursor.skip_blanks();
    if (cursor.peek() == ')') cursor.skip();
  }
  cursor.skip_lines();
  if (cursor.at_end()) cursor.fail_at(function->place, "the function has no body");
  function->commands.push_back(parse_command(cursor));
  return function;
}

/// "((…))", and not a subshell in another.
bool is_at_arithmetic(const Cursor& cursor) {
  if (!cursor.looking_at("((")) return false;
  const std::size_t outer = closing_parenthesis(cursor.text(), cursor.position());
  return outer != std::string::npos &&
         closing_parenthesis(cursor.text(), cursor.position() + 1) == outer - 1;
}

std::shared_ptr<Command> parse_command(Cursor& cursor) {
  const Cursor::Deeper deeper(cursor);
  cursor.skip_blanks();
  const std::string word = bare_word(cursor);
  if (is_at_arithmetic(cursor)) return parse_arithmetic_command(cursor);
  if (cursor.peek() == '(') return parse_group(cursor, Command::Kind::subshell, "(", ")");
  if (word == "{") return parse_group(cursor, Command::Kind::group, "{", "}");
  if (word == "if") return parse_branch(cursor);
  if (word == "while" || word == "until") return parse_loop(cursor);
  if (word == "for" || word == "select") return parse_for(cursor);
  if (word == "case") return parse_choice(cursor);
  if (word == "[[") return parse_condition(cursor);
  if (word == "function") {
    cursor.skip(word.size());
    cursor.skip_blanks();
    return parse_function(cursor);
  }
  if (is_at_function(cursor)) return parse_function(cursor);
  return parse_simple_command(cursor);
}

std::shared_ptr<Command> parse_pipeline(Cursor& cursor) {
  auto pipeline = begin_command(cursor, Command::Kind::pipeline);
  for (cursor.skip_blanks(); is_at_reserved(cursor, "!") || is_at_reserved(cursor, "time");
       cursor.skip_blanks()) {
    pipeline->is_negated = pipeline->is_negated != is_at_reserved(cursor, "!");
    cursor.skip(bare_word(cursor).size());
  }
  pipeline->commands.push_back(parse_command(cursor));
  for (cursor.skip_blanks(); cursor.peek() == '|' && cursor.peek(1) != '|'; cursor.skip_blanks()) {
    cursor.skip(cursor.peek(1) == '&' ? 2 : 1);
    cursor.skip_lines();
    if (cursor.at_end()) break;
    pipeline->commands.push_back(parse_command(cursor));
  }
  const bool is_plain = pipeline->commands.size() == 1 && !pipeline->is_negated;
  return is_plain ? std::const_pointer_cast<Command>(pipeline->commands[0]) : pipeline;
}

/// Pipelines with "&&" or "||" between them.
std::shared_ptr<Command> parse_and_or(Cursor& cursor) {
  auto list = begin_command(cursor, Command::Kind::and_or);
  const std::size_t first = cursor.position();
  list->commands.push_back(parse_pipeline(cursor));
  list->source = cursor.source_since(first);
  for (cursor.skip_blanks(); cursor.looking_at("&&") || cursor.looking_at("||");
       cursor.skip_blanks()) {
    list->operators.emplace_back(cursor.looking_at("&&") ? "&&" : "||");
    cursor.skip(2);
    cursor.skip_lines();
    if (cursor.at_end()) break;
    list->commands.push_back(parse_pipeline(cursor));
  }
  return list->commands.size() == 1 ? std::const_pointer_cast<Command>(list->commands[0]) : list;
}

}  // namespace

std::shared_ptr<const Command> parse_whole_script(Cursor& cursor) {
  auto script = parse_sequence(cursor, {});
  if (!cursor.at_end()) {
    const bool is_word = is_name_start(cursor.peek());
    cursor.fail_here(is_word ? concat("\"", bare_word(cursor), "\" without what it belongs to")
                             : concat("unexpected \"", std::string(1, cursor.peek()), "\""));
  }
  return script;
}

std::shared_ptr<Command> parse_sequence(Cursor& cursor, const Ends& ends) {
  const Cursor::Deeper deeper(cursor);
  auto sequence = begin_command(cursor, Command::Kind::sequence);
  for (cursor.skip_lines(); !cursor.at_end() && !is_at_any_of(cursor, ends); cursor.skip_lines()) {
    if (cursor.peek() == ')' || is_at_stray_word(cursor)) break;
    if (cursor.peek() == ';' || cursor.peek() == '&') {
      if (cursor.looking_at(";;") || cursor.looking_at(";&")) break;
      cursor.skip();
      continue;
    }
    sequence->commands.push_back(parse_and_or(cursor));
  }
  return sequence;
}

std::shared_ptr<Command> begin_command(const Cursor& cursor, Command::Kind kind) {
  auto command = std::make_shared<Command>();
  command->kind = kind;
  command->place = cursor.here();
  return command;
}

}  // namespace stagecraft::shell
