// A scatter plot: each row a point, measured to the right, predicted upwards, both logarithmic.
// Bands hold what is within 10 and 20 per cent; those farthest off have a number, and a line beside
// the plot says which rows they are.

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
constexpr double size = 640, margin = 76;
constexpr double line_height = 18;
constexpr std::size_t most_characters = 60;  // of a row's label

/// A generous width of text of 12 pixels.
double text_width(std::size_t characters) {
  return 7.2 * static_cast<double>(characters);
}

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

/// The digits of each decade that have room for their labels: 1, 2 and 5, or 1 alone.
std::vector<int> labelled_digits(const Decades& decades) {
  const double decade = size / (decades.high - decades.low);
  const double label = text_width(std::string_view("200 ms").size()) + 6;
  if (decade * std::log10(2.0) >= label) return {1, 2, 5};
  return {1};
}

/// Of labels at each power of ten, one of so many has room.
int labelled_decades(const Decades& decades) {
  const double decade = size / (decades.high - decades.low);
  return static_cast<int>(std::ceil((text_width(std::string_view("200 ms").size()) + 6) / decade));
}

/// A line at 1, 2 and 5 of each decade, a short line at the digits between, and numbers where there
/// is room.
void add_ticks(std::string& svg, const Decades& decades) {
  const double end = margin + size;
  const std::vector<int> labelled = labelled_digits(decades);
  const int every = labelled_decades(decades);
  int count = 0;
  for (double decade = decades.low; decade < decades.high + 0.5; ++decade, ++count) {
    for (const int digit : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
      const double value = digit * std::pow(10, decade);
      if (std::log10(value) > decades.high + 1e-9) break;
      const double x = decades.x(value), y = decades.y(value);
      const bool ruled = digit == 1 || digit == 2 || digit == 5;
      if (ruled) {
        svg += fmt::format(
            "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}M{1:.1f} {3:.1f}H{2:.1f}\" stroke=\"{4}\"/>\n", x,
            margin, end, y, digit == 1 ? "#ccc" : "#eee");
      }
      svg +=
          fmt::format("<path d=\"M{0:.1f} {1:.1f}v{2}M{3:.1f} {4:.1f}h-{2}\" stroke=\"#666\"/>\n",
                      x, end, ruled ? 6 : 3, margin, y);
      if (std::ranges::count(labelled, digit) == 0 || count % every != 0) continue;
      svg += fmt::format(
          "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n"
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
      "<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">predicted "
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

/// At most so many characters (code points), the last of them "…".
std::string shortened(const std::string& text) {
  std::size_t characters = 0;
  for (std::size_t place = 0; place < text.size(); ++place) {
    if ((static_cast<unsigned char>(text[place]) & 0xC0U) == 0x80U) continue;
    if (++characters == most_characters) {
      std::size_t next = place + 1;
      while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0U) == 0x80U)
        ++next;
      return next == text.size() ? text : text.substr(0, place) + "…";
    }
  }
  return text;
}

struct Spot {
  double x = 0, y = 0;
};

/// Where rows are, measured to the right and predicted upwards.
std::vector<Spot> spots_of_points(const std::vector<SetResult>& results, const Decades& decades) {
  std::vector<Spot> spots;
  for (const SetResult& result : results) {
    if (!is_timed(result)) continue;
    for (const LedgerRow& row : result.rows)
      spots.push_back({decades.x(row.measured), decades.y(row.predicted)});
  }
  return spots;
}

/// Places around a point, the nearest first.
std::vector<Spot> around(const Spot& point) {
  std::vector<Spot> places;
  for (const double away : {10.0, 16.0, 24.0, 34.0, 46.0, 60.0}) {
    for (const auto& [right, down] : {std::pair{1.0, 0.0},
                                      {-1.0, 0.0},
                                      {0.0, 1.0},
                                      {0.0, -1.0},
                                      {0.7, 0.7},
                                      {0.7, -0.7},
                                      {-0.7, 0.7},
                                      {-0.7, -0.7}})
      places.push_back({point.x + right * away, point.y + down * away});
  }
  return places;
}

/// A place for a number beside the point of each row: on no other number, and on no point if there
/// is room.
std::vector<Spot> spots_of_numbers(const std::vector<const LedgerRow*>& rows,
                                   const std::vector<Spot>& points, const Decades& decades) {
  constexpr double wide = 10, high = 12;  // of a digit
  std::vector<Spot> spots;
  for (const LedgerRow* row : rows) {
    const std::vector<Spot> places = around({decades.x(row->measured), decades.y(row->predicted)});
    const auto covers = [](const Spot& place, const std::vector<Spot>& others, double part) {
      return std::ranges::any_of(others, [&](const Spot& other) {
        return std::abs(other.x - place.x) < part * wide &&
               std::abs(other.y - place.y) < part * high;
      });
    };
    const auto is_inside = [](const Spot& place) {
      return place.y > margin && place.y < margin + size && place.x > margin &&
             place.x < margin + size;
    };
    const auto is_legible = [&](const Spot& place) {
      return is_inside(place) && !covers(place, spots, 1);
    };
    auto found = std::ranges::find_if(places, [&](const Spot& place) {
      return is_legible(place) && !covers(place, points, 0.75);
    });
    if (found == places.end()) found = std::ranges::find_if(places, is_legible);
    spots.push_back(found == places.end() ? places.front() : *found);
  }
  return spots;
}

/// What stands right of the plot, line by line.
struct Legend {
  std::string svg;
  double line = margin;
  std::size_t widest = 0;  ///< characters

  void add(const std::string& text, const std::string& number = {}) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", margin + size + 30, line,
                       xml_text(text));
    if (!number.empty()) {
      svg += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" font-weight=\"bold\" text-anchor=\"middle\">{}</text>\n",
          margin + size + 20, line, number);
    }
    widest = std::max(widest, text.size());
    line += line_height;
  }
};

}  // namespace

std::string ledger_plot(const std::vector<SetResult>& results) {
  const Decades decades = decades_of(results);
  std::string points;
  Legend legend;
  std::size_t number = 0;
  for (const SetResult& result : results) {
    if (!is_timed(result)) continue;
    const char* colour = colours[number++ % colours.size()];
    for (const LedgerRow& row : result.rows) {
      points += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" stroke=\"{}\" fill=\"{}\">"
          "<title>{}: {:+.1f} %</title></circle>\n",
          decades.x(row.measured), decades.y(row.predicted), colour, row.fitted ? "none" : colour,
          xml_text(row.label), 100 * row.error());
    }
    legend.svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n",
                              margin + size + 20, legend.line - 4, colour);
    legend.add(fmt::format("{}, {}: {:.1f} %", result.name, to_string(result.claim),
                           100 * result.time.mape));
  }
  legend.add("hollow: fitted");
  legend.add("bands: within 10 and 20 %");
  const std::vector<const LedgerRow*> farthest = farthest_rows(results);
  const std::vector<Spot> spots =
      spots_of_numbers(farthest, spots_of_points(results, decades), decades);
  if (!farthest.empty()) {
    legend.line += line_height / 2;
    legend.add("farthest off:");
  }
  for (std::size_t i = 0; i < farthest.size(); ++i) {
    points += fmt::format(
        "<text class=\"number\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"11\" font-weight=\"bold\" "
        "text-anchor=\"middle\">{}</text>\n",
        spots[i].x, spots[i].y + 4, i + 1);
    legend.add(
        fmt::format("{}: {:+.0f} %", shortened(farthest[i]->label), 100 * farthest[i]->error()),
        std::to_string(i + 1));
  }
  const double width = margin + size + 40 + text_width(legend.widest);
  const double height = std::max(size + 2 * margin, legend.line + margin);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
      "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  add_axes(svg, decades);
  return svg + points + legend.svg + "</svg>\n";
}

}  // namespace stagecraft
