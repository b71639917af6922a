// A scatter plot: each row a point, measured to the right, predicted upwards, both logarithmic.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/reports/ledger_files.hpp"

namespace stagecraft {

namespace {

constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                             "#e69f00", "#56b4e9", "#000000", "#999999"};
constexpr double size = 640, margin = 60;

/// Decades that hold all points.
struct Decades {
  double low = 0, high = 1;
  double place(double value) const { return (std::log10(value) - low) / (high - low) * size; }
  double x(double value) const { return margin + place(value); }
  double y(double value) const { return margin + size - place(value); }
};

bool is_timed(const SetResult& result) {
  return result.unit == "s";
}

Decades decades_of(const std::vector<SetResult>& results) {
  double least = 1e300, most = 0;
  for (const SetResult& result : results) {
    if (!is_timed(result)) continue;
    for (const LedgerRow& row : result.rows) {
      least = std::min({least, row.measured, row.predicted});
      most = std::max({most, row.measured, row.predicted});
    }
  }
  if (most <= 0) return {};
  return {std::floor(std::log10(least)), std::floor(std::log10(most)) + 1};
}

void add_axes(std::string& svg, const Decades& decades) {
  const double end = margin + size;
  for (double decade = decades.low; decade <= decades.high; ++decade) {
    const double value = std::pow(10, decade);
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}M{1:.1f} {3:.1f}H{2:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{4:.1f}\" text-anchor=\"middle\">{5:g} s</text>\n"
        "<text x=\"{6:.1f}\" y=\"{3:.1f}\" text-anchor=\"end\">{5:g} s</text>\n",
        decades.x(value), margin, end, decades.y(value), end + 16, value, margin - 6);
  }
  svg +=
      fmt::format("<path d=\"M{0:.1f} {1:.1f}L{1:.1f} {0:.1f}\" stroke=\"#666\"/>\n", margin, end);
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured</text>\n",
                     margin + size / 2, end + 36);
  svg += fmt::format(
      "<text transform=\"translate(16 {:.1f}) rotate(-90)\" "
      "text-anchor=\"middle\">predicted</text>\n",
      margin + size / 2);
}

}  // namespace

std::string ledger_plot(const std::vector<SetResult>& results) {
  const Decades decades = decades_of(results);
  const double width = size + 2 * margin + 320, height = size + 2 * margin;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
      "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  add_axes(svg, decades);
  double line = margin;
  std::size_t number = 0;
  for (const SetResult& result : results) {
    if (!is_timed(result)) continue;
    const char* colour = colours[number++ % colours.size()];
    for (const LedgerRow& row : result.rows) {
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" stroke=\"{}\" fill=\"{}\"/>\n",
          decades.x(row.measured), decades.y(row.predicted), colour, row.fitted ? "none" : colour);
    }
    const double x = 2 * margin + size - 40;
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}, {}: {:.1f} %</text>\n",
        x, line - 4, colour, x + 10, line, result.name, to_string(result.claim),
        100 * result.time.mape);
    line += 18;
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">hollow: fitted</text>\n</svg>\n",
                     2 * margin + size - 30, line);
  return svg;
}

}  // namespace stagecraft
