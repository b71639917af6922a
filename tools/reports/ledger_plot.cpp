// A scatter plot: each row a point, measured to the right, predicted upwards, both logarithmic.
// Bands hold what is within 10 and 20 per cent; points farther off say which rows they are.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

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

/// "20 ms", "5 s", "300 s"
std::string tick_text(double value) {
  if (value < 1e-3) return fmt::format("{:g} µs", value * 1e6);
  return value < 1 ? fmt::format("{:g} ms", value * 1e3) : fmt::format("{:g} s", value);
}

/// A strip along the diagonal: predictions within this part of what was measured.
void add_band(std::string& svg, const Decades& decades, double part, const char* colour) {
  const double low = std::pow(10, decades.low), high = std::pow(10, decades.high);
  svg += fmt::format(
      "<path class=\"band\" clip-path=\"url(#plot)\" fill=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} "
      "{:.1f}L{:.1f} "
      "{:.1f}L{:.1f} {:.1f}z\"><title>within {:.0f} %</title></path>\n",
      colour, decades.x(low), decades.y(low * (1 + part)), decades.x(high),
      decades.y(high * (1 + part)), decades.x(high), decades.y(high * (1 - part)), decades.x(low),
      decades.y(low * (1 - part)), 100 * part);
}

/// A line and a number at 1, 2 and 5 of each decade, a short line at the digits between.
void add_ticks(std::string& svg, const Decades& decades) {
  const double end = margin + size;
  for (double decade = decades.low; decade < decades.high + 0.5; ++decade) {
    for (const int digit : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
      const double value = digit * std::pow(10, decade);
      if (std::log10(value) > decades.high + 1e-9) break;
      const double x = decades.x(value), y = decades.y(value);
      const bool named = digit == 1 || digit == 2 || digit == 5;
      if (named) {
        svg += fmt::format(
            "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}M{1:.1f} {3:.1f}H{2:.1f}\" stroke=\"{4}\"/>\n", x,
            margin, end, y, digit == 1 ? "#ccc" : "#eee");
      }
      svg +=
          fmt::format("<path d=\"M{0:.1f} {1:.1f}v{2}M{3:.1f} {4:.1f}h-{2}\" stroke=\"#666\"/>\n",
                      x, end, named ? 6 : 3, margin, y);
      if (!named) continue;
      svg += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n"
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          x, end + 18, tick_text(value), margin - 9, y + 4, tick_text(value));
    }
  }
}

void add_axes(std::string& svg, const Decades& decades) {
  const double end = margin + size;
  svg += fmt::format(
      "<clipPath id=\"plot\"><rect x=\"{0:g}\" y=\"{0:g}\" width=\"{1:g}\" height=\"{1:g}\"/>"
      "</clipPath>\n",
      margin, size);
  add_band(svg, decades, 0.2, "#e8eef5");
  add_band(svg, decades, 0.1, "#cfdfee");
  add_ticks(svg, decades);
  svg +=
      fmt::format("<path d=\"M{0:.1f} {1:.1f}L{1:.1f} {0:.1f}\" stroke=\"#666\"/>\n", margin, end);
  svg +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">measured step</text>\n",
                  margin + size / 2, end + 40);
  svg += fmt::format(
      "<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">predicted "
      "step</text>\n",
      margin + size / 2);
}

std::string xml_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      default: result += c;
    }
  }
  return result;
}

/// The rows that are farthest off, of those beyond the bands.
std::vector<const LedgerRow*> farthest_rows(const std::vector<SetResult>& results) {
  std::vector<const LedgerRow*> rows;
  for (const SetResult& result : results) {
    if (!is_timed(result)) continue;
    for (const LedgerRow& row : result.rows) {
      if (std::abs(row.error()) > 0.2) rows.push_back(&row);
    }
  }
  std::ranges::stable_sort(rows, std::greater<>(),
                           [](const LedgerRow* row) { return std::abs(row->error()); });
  constexpr std::size_t most_named = 6;
  if (rows.size() > most_named) rows.resize(most_named);
  return rows;
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
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" stroke=\"{}\" fill=\"{}\">"
          "<title>{}: {:+.1f} %</title></circle>\n",
          decades.x(row.measured), decades.y(row.predicted), colour, row.fitted ? "none" : colour,
          xml_text(row.label), 100 * row.error());
    }
    const double x = 2 * margin + size - 40;
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}, {}: {:.1f} %</text>\n",
        x, line - 4, colour, x + 10, line, xml_text(result.name), to_string(result.claim),
        100 * result.time.mape);
    line += 18;
  }
  for (const LedgerRow* row : farthest_rows(results)) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" fill=\"#444\">{}</text>\n",
                       decades.x(row->measured) + 5, decades.y(row->predicted) + 3,
                       xml_text(row->label));
  }
  svg += fmt::format(
      "<text x=\"{0:.1f}\" y=\"{1:.1f}\">hollow: fitted</text>\n"
      "<text x=\"{0:.1f}\" y=\"{2:.1f}\">bands: within 10 and 20 %</text>\n</svg>\n",
      2 * margin + size - 30, line, line + 18);
  return svg;
}

}  // namespace stagecraft
