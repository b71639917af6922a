// Which characters of a script stand between words, in names and between commands.

#pragma once

namespace stagecraft::shell {

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Begins the name of a variable.
constexpr bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

constexpr bool is_name_character(char c) {
  return is_name_start(c) || is_digit(c);
}

/// Ends a word that has no quotes.
constexpr bool is_operator(char c) {
  return c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == '(' || c == ')';
}

}  // namespace stagecraft::shell
