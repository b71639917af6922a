// Text tables: columns as wide as their widest cell, numbers to the right.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Whether rows that are alike are one, where there are many, or one each.
enum class TableRows { together, each };

class Table {
 public:
  /// A heading that starts with '>' aligns its column to the right.
  explicit Table(std::vector<std::string> headings);
  /// As many cells as headings.
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
/// "█████": as long as the part of the widest.
std::string bar(double part, bool unicode, int widest = 20);
/// A number as people read it, to so many significant digits: "78,380", "12.5", "0.0031"; of what
/// is less than a ten-thousandth "2.5e-06".
std::string readable(double number, int digits = 4);
/// "1,234,567".
std::string grouped(std::int64_t number);
/// "1 row", "12,000 rows": of what has a plain plural.
std::string number_of(std::int64_t count, std::string_view noun);

}  // namespace stagecraft
