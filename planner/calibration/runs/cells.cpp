#include "planner/calibration/runs/cells.hpp"

#include <algorithm>

#include "profiles/text.hpp"

namespace stagecraft {

char separator_of(std::string_view line) {
  for (const char separator : {'\t', ';'}) {
    if (line.find(separator) != std::string_view::npos) return separator;
  }
  return ',';
}

std::vector<Cell> cells_of(const TextLine& text_line, char separator, const std::string& file) {
  const std::string_view line = text_line.text;
  std::vector<Cell> cells;
  std::size_t at = 0;
  while (at <= line.size()) {
    Cell cell{.text = {}, .place = {file, text_line.number, static_cast<int>(at) + 1}, .unit = {}};
    const std::size_t start = std::min(line.find_first_not_of(' ', at), line.size());
    bool quoted = start < line.size() && line[start] == '"';
    if (quoted) at = start + 1;
    while (at < line.size() && (quoted || line[at] != separator)) {
      const bool doubled = line[at] == '"' && at + 1 < line.size() && line[at + 1] == '"';
      if (quoted && line[at] == '"' && !doubled) {
        quoted = false;
      } else {
        cell.text += line[at];
        at += quoted && doubled ? 1 : 0;
      }
      ++at;
    }
    if (quoted) cell.fail("the quotation does not end on this line");
    cell.text = trim(cell.text);
    cells.push_back(std::move(cell));
    ++at;
  }
  return cells;
}

std::vector<TextLine> lines_of(std::string_view content) {
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
  std::vector<TextLine> lines;
  for (int number = 1; !content.empty(); ++number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view text = content.substr(0, end);
    if (text.ends_with('\r')) text.remove_suffix(1);
    const std::string plain_text = trim(text);
    if (!plain_text.empty() && plain_text.front() != '#') lines.push_back({number, text});
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return lines;
}

}  // namespace stagecraft
