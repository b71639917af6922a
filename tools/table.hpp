// Text tables: columns are as wide as their widest cell, and numbers are aligned to the right.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Whether equal rows are merged if there are many, or shown one by one.
enum class TableRows { together, each };

class Table {
 public:
  /// A '>' at the start of a heading aligns the column to the right.
  explicit Table(std::vector<std::string> headings);
  /// Adds a row, with one cell per heading.
  void row(std::vector<std::string> cells);
  /// Two spaces between columns, a rule under the headings (─, or - without unicode).
  std::string text(bool unicode) const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> to_the_right_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns a UTF-8 text takes on a terminal (one per code point).
std::size_t columns(const std::string& text);

/// "27.3 %".
std::string percent(double ratio);
/// "+3.4 %".
std::string signed_percent(double ratio);
/// A bar "█████" whose length is `part` of `widest`.
std::string bar(double part, bool unicode, int widest = 20);
/// A number with this many significant digits: "78,380", "12.5", "0.0031"; below a ten-thousandth
/// "2.5e-06".
std::string readable(double number, int digits = 4);
/// "1,234,567".
std::string grouped(std::int64_t number);
/// "1 row", "12,000 rows": for nouns with a regular plural.
std::string number_of(std::int64_t count, std::string_view noun);

}  // namespace stagecraft
