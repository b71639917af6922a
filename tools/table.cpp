#include "tools/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "profiles/printable.hpp"

namespace stagecraft {

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    const bool right = heading.starts_with('>');
    to_the_right_.push_back(right);
    if (right) heading.erase(0, 1);
  }
}

void Table::row(std::vector<std::string> cells) {
  assert(cells.size() == headings_.size());
  // Of names from files: what will be shown of them is what the columns are as wide as.
  for (std::string& cell : cells) cell = printable(cell, false);
  rows_.push_back(std::move(cells));
}

std::string Table::text(bool unicode) const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(columns(heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string gap(widths[i] - columns(cells[i]), ' ');
      text += i == 0 ? " " : "  ";
      text += to_the_right_[i] ? gap + cells[i] : cells[i] + gap;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::size_t total = 2 * (widths.size() - 1);
  for (const std::size_t width : widths) total += width;
  std::string rule = " ";
  for (std::size_t i = 0; i < total; ++i) rule += unicode ? "─" : "-";
  std::string text = line(headings_) + rule + "\n";
  for (const auto& row : rows_) text += line(row);
  return text;
}

std::string percent(double ratio) {
  return fmt::format("{:.1f} %", 100 * ratio);
}
std::string signed_percent(double ratio) {
  return fmt::format("{:+.1f} %", 100 * ratio);
}

std::string bar(double part, bool unicode, int widest) {
  const int cells = std::clamp(static_cast<int>(std::lround(part * widest)), 1, widest);
  std::string text;
  for (int i = 0; i < cells; ++i) text += unicode ? "█" : "#";
  return text;
}

std::string readable(double number, int digits) {
  constexpr double least = 1e-4, most = 1e18;
  const double size = std::abs(number);
  if (size == 0) return "0";
  if (!(size >= least && size < most)) return fmt::format("{:.{}g}", number, digits);
  const int before_point = static_cast<int>(std::floor(std::log10(size))) + 1;
  if (before_point >= digits) {
    const double unit = std::pow(10.0, before_point - digits);
    return grouped(std::llround(std::round(number / unit) * unit));
  }
  std::string text = fmt::format("{:.{}f}", number, digits - before_point);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  constexpr double least_grouped = 999.5;  // "1,000" is rounded up to
  return text.find('.') == std::string::npos && size >= least_grouped
             ? grouped(std::llround(number))
             : text;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number < 0 ? -number : number);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return (number < 0 ? "-" : "") + digits;
}

std::string number_of(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

}  // namespace stagecraft
