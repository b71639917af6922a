// Text as a table of cells, each with its place.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

/// What stands between two separators, without blanks and quotes around it.
struct Cell {
  std::string text;
  SourcePlace place;
  std::string unit;  ///< that the header gives all cells below it

  /// Throws Error (input) at the cell.
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::input, message, place);
  }
};

struct TextLine {
  int number = 0;
  std::string_view text;  ///< into the content
};

/// Lines that are neither empty nor comments (#).
std::vector<TextLine> lines_of(std::string_view content);

/// A tab or semicolon if the line has one, else a comma.
char separator_of(std::string_view line);

/// The line's cells; a quoted one may hold separators, and "" is a quote in it. Throws Error
/// (input) for a quotation that does not end.
std::vector<Cell> cells_of(const TextLine& line, char separator, const std::string& file);

}  // namespace stagecraft
