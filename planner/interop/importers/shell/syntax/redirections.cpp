#include "planner/interop/importers/shell/syntax/redirections.hpp"

#include <array>

#include "planner/interop/importers/shell/syntax/characters.hpp"
#include "planner/interop/importers/shell/syntax/words.hpp"

namespace stagecraft::shell {

namespace {

/// The document that the last redirection of the command names.
void await_document(Cursor& cursor, const std::shared_ptr<Command>& command, bool strips_tabs) {
  HereDocument document{.end = {},
                        .strips_tabs = strips_tabs,
                        .is_quoted = false,
                        .command = command,
                        .redirection = command->redirections.size() - 1};
  for (const Part& part : command->redirections.back().target.parts) {
    document.end += part.text.characters();
    document.is_quoted = document.is_quoted || part.quoted;
  }
  cursor.await(std::move(document));
}

}  // namespace

bool parse_redirection(Cursor& cursor, const std::shared_ptr<Command>& command) {
  std::size_t digits = 0;
  while (is_digit(cursor.peek(digits))) ++digits;
  constexpr std::array operations{"<<<", "<<-", "<<", "<&", "<>", "&>>",
                                  "&>",  ">>",  ">&", ">|", "<",  ">"};
  for (const std::string_view operation : operations) {
    if (!cursor.looking_at(operation, digits)) continue;
    const bool is_process = operation.size() == 1 && cursor.peek(digits + 1) == '(';  // <(…), >(…)
    if (is_process) return false;
    cursor.skip(digits + operation.size());
    cursor.skip_blanks();
    Redirection redirection{.operation = std::string(operation), .target = {}, .document = {}};
    if (is_at_word(cursor)) redirection.target = parse_word(cursor);
    command->redirections.push_back(std::move(redirection));
    if (operation == "<<<") {
      command->redirections.back().document = command->redirections.back().target;
    } else if (operation.starts_with("<<")) {
      await_document(cursor, command, operation == "<<-");
    }
    return true;
  }
  return false;
}

void parse_redirections(Cursor& cursor, const std::shared_ptr<Command>& command) {
  for (cursor.skip_blanks(); parse_redirection(cursor, command); cursor.skip_blanks()) {
  }
}

}  // namespace stagecraft::shell
