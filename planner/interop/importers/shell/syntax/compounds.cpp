#include "planner/interop/importers/shell/syntax/compounds.hpp"

#include <algorithm>

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "planner/interop/importers/shell/syntax/commands.hpp"
#include "planner/interop/importers/shell/syntax/redirections.hpp"
#include "planner/interop/importers/shell/syntax/substitutions.hpp"
#include "planner/interop/importers/shell/syntax/words.hpp"

namespace stagecraft::shell {

namespace {

/// do … done.
void parse_body(Cursor& cursor, const std::shared_ptr<Command>& loop, std::string_view word) {
  take_reserved(cursor, "do", loop->place, word);
  loop->commands.push_back(parse_sequence(cursor, {"done"}));
  take_reserved(cursor, "done", loop->place, word);
  parse_redirections(cursor, loop);
}

/// The three expressions of for ((…;…;…)).
void parse_expressions(Cursor& cursor, Command& loop) {
  const std::size_t end = closing_parenthesis(cursor.text(), cursor.position());
  if (end == std::string::npos) cursor.fail_at(loop.place, "the parenthesis does not end");
  std::size_t begin = cursor.position() + 2;
  for (int i = 0; i < 3; ++i) {
    const std::size_t until =
        i < 2 ? std::min(cursor.text().characters().find(';', begin), end - 1) : end - 1;
    loop.words.push_back(parse_inner_quoted(cursor, begin, std::max(begin, until)));
    begin = until + 1;
  }
  cursor.move_to(end + 1);
}

/// The name of for X in …, and its words.
void parse_values(Cursor& cursor, Command& loop) {
  loop.name = bare_word(cursor);
  cursor.skip(loop.name.size());
  cursor.skip_lines();
  if (!is_at_reserved(cursor, "in")) return;
  cursor.skip(2);
  loop.has_words = true;
  for (cursor.skip_blanks(); is_at_word(cursor); cursor.skip_blanks())
    loop.words.push_back(parse_word(cursor));
}

Case parse_case(Cursor& cursor, const Place& start) {
  Case result;
  if (cursor.peek() == '(') cursor.skip();
  while (true) {
    cursor.skip_blanks();
    result.patterns.push_back(parse_word(cursor));
    cursor.skip_blanks();
    if (cursor.peek() != '|') break;
    cursor.skip();
  }
  if (cursor.peek() != ')') cursor.fail_at(start, "a pattern of the \"case\" has no \")\"");
  cursor.skip();
  result.body = parse_sequence(cursor, {"esac", ";;", ";&"});
  while (cursor.peek() == ';' || cursor.peek() == '&') cursor.skip();
  return result;
}

/// A word or an operator between [[ and ]]. Behind "=~", bars are characters.
Word parse_operand(Cursor& cursor, bool is_pattern) {
  if (cursor.looking_at("&&") || cursor.looking_at("||")) return take_operator(cursor, 2);
  if (is_operator(cursor.peek()) && !is_pattern) return take_operator(cursor, 1);
  return parse_word(cursor, is_pattern);
}

}  // namespace

std::shared_ptr<Command> parse_branch(Cursor& cursor) {
  auto branch = begin_command(cursor, Command::Kind::branch);
  cursor.skip(2);
  while (true) {
    const std::size_t begin = cursor.position();
    auto condition = parse_sequence(cursor, {"then"});
    condition->source = cursor.source_since(begin);
    while (condition->source.ends_with(';')) condition->source.pop_back();
    branch->commands.push_back(std::move(condition));
    take_reserved(cursor, "then", branch->place, "if");
    branch->commands.push_back(parse_sequence(cursor, {"elif", "else", "fi"}));
    if (!is_at_reserved(cursor, "elif")) break;
    cursor.skip(4);
  }
  if (is_at_reserved(cursor, "else")) {
    cursor.skip(4);
    branch->commands.push_back(parse_sequence(cursor, {"fi"}));
  }
  take_reserved(cursor, "fi", branch->place, "if");
  parse_redirections(cursor, branch);
  return branch;
}

std::shared_ptr<Command> parse_loop(Cursor& cursor) {
  auto loop = begin_command(cursor, Command::Kind::loop);
  const std::string word = bare_word(cursor);
  loop->operators.push_back(word);
  cursor.skip(word.size());
  const std::size_t begin = cursor.position();
  auto condition = parse_sequence(cursor, {"do"});
  condition->source = cursor.source_since(begin);
  loop->commands.push_back(std::move(condition));
  parse_body(cursor, loop, word);
  return loop;
}

std::shared_ptr<Command> parse_for(Cursor& cursor) {
  auto loop = begin_command(cursor, Command::Kind::for_each);
  cursor.skip(bare_word(cursor).size());
  cursor.skip_blanks();
  if (cursor.looking_at("((")) {
    loop->kind = Command::Kind::for_numbers;
    parse_expressions(cursor, *loop);
  } else {
    parse_values(cursor, *loop);
  }
  cursor.skip_blanks();
  if (cursor.peek() == ';') cursor.skip();
  parse_body(cursor, loop, "for");
  return loop;
}

std::shared_ptr<Command> parse_choice(Cursor& cursor) {
  auto choice = begin_command(cursor, Command::Kind::choice);
  cursor.skip(4);
  cursor.skip_lines();
  choice->words.push_back(parse_word(cursor));
  take_reserved(cursor, "in", choice->place, "case");
  for (cursor.skip_lines(); !cursor.at_end() && !is_at_reserved(cursor, "esac");
       cursor.skip_lines()) {
    choice->cases.push_back(parse_case(cursor, choice->place));
  }
  take_reserved(cursor, "esac", choice->place, "case");
  parse_redirections(cursor, choice);
  return choice;
}

std::shared_ptr<Command> parse_condition(Cursor& cursor) {
  auto condition = begin_command(cursor, Command::Kind::condition);
  const std::size_t begin = cursor.position();
  cursor.skip(2);
  bool is_pattern = false;
  for (cursor.skip_lines(); !cursor.at_end() && !is_at_reserved(cursor, "]]");
       cursor.skip_lines()) {
    condition->words.push_back(parse_operand(cursor, is_pattern));
    const Word& last = condition->words.back();
    is_pattern = last.parts.size() == 1 && last.parts[0].text.characters() == "=~";
  }
  if (cursor.at_end()) cursor.fail_at(condition->place, "\"[[\" without \"]]\"");
  cursor.skip(2);
  condition->source = cursor.source_since(begin);
  parse_redirections(cursor, condition);
  return condition;
}

std::shared_ptr<Command> parse_arithmetic_command(Cursor& cursor) {
  auto command = begin_command(cursor, Command::Kind::arithmetic);
  const std::size_t begin = cursor.position();
  const std::size_t outer = closing_parenthesis(cursor.text(), begin);
  command->words.push_back(parse_inner_quoted(cursor, begin + 2, outer - 1));
  cursor.move_to(outer + 1);
  command->source = cursor.source_since(begin);
  parse_redirections(cursor, command);
  return command;
}

}  // namespace stagecraft::shell
