// The drawing, in pixels with two decimals (whole hundredths, so that nothing is rounded twice):
//
//   title, step, bubble, memory               what it is of
//   device 0  │ 0 │ 1 │         │   0   │     rows; each span is a <rect> and, if it fits, a
//   <text>;
//                                             small ones are areas, one <path> for each kind of
//                                             work
//   device 1      │ 0 │   0   │ 1 │
//             └────┴────┴────┴────┴────       axis
//              ■ forward ■ backward           legend
//
// Colours are Okabe and Ito's, which people with any colour vision can tell apart. The first stage
// of a device has the full colour, its others are mixed with white.

#include "simulator/views/draw_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/units.hpp"
#include "profiles/wide.hpp"
#include "simulator/views/alike_rows.hpp"

namespace stagecraft {

namespace {

struct SvgLook {
  Op op;
  std::string_view word;
  std::array<int, 3> color;
};

constexpr std::array svg_looks{
    SvgLook{Op::forward, "forward", {0, 114, 178}},
    SvgLook{Op::backward, "backward", {230, 159, 0}},
    SvgLook{Op::backward_input, "input gradient", {213, 94, 0}},
    SvgLook{Op::backward_weight, "weight gradient", {240, 228, 66}},
    SvgLook{Op::recompute, "recompute", {0, 158, 115}},
    SvgLook{Op::update, "update", {204, 121, 167}},
};

const SvgLook& svg_look_of(Op op) {
  return *std::find_if(svg_looks.begin(), svg_looks.end(),
                       [op](const SvgLook& look) { return look.op == op; });
}

constexpr int gap = 4;     // between rows
constexpr int margin = 8;  // around everything
constexpr int font = 11;   // pixels
constexpr int most_ticks = 10;
/// Of more devices alike ones share a row.
constexpr int most_rows = 200;
constexpr int least_row_height = 8;
/// Narrower boxes cannot be told apart.
constexpr int least_width = 3;
constexpr int title_size = 13;

/// A generous width of text: digits of common sans-serif fonts are 0.56 of their size.
int text_width(std::size_t characters, int size) {
  return static_cast<int>(characters) * size * 6 / 10;
}

/// Hundredths of a pixel.
struct Length {
  std::int64_t hundredths = 0;
};

std::string text_of(Length length) {
  return fmt::format("{}.{:02}", length.hundredths / 100, length.hundredths % 100);
}

struct Color {
  std::array<int, 3> rgb;
  std::string hex() const { return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]); }
  /// Black or white, whichever is read more easily on it.
  std::string_view ink() const {
    return 299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] > 125'000 ? "#000000" : "#ffffff";
  }
};

/// The `shade`-th of `shades` tints: from the full colour to 60 % white.
Color tint(const std::array<int, 3>& color, int shade, int shades) {
  Color result{color};
  if (shades < 2) return result;
  for (int& part : result.rgb) part += (255 - part) * 6 * shade / (10 * (shades - 1));
  return result;
}

/// 1, 2 or 5 times a power of ten, so that at most `most_ticks` of it fit into the length.
Duration tick_step(Duration length) {
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t digit : {1, 2, 5}) {
      if (length.count() / most_ticks <= digit * power) return Duration{digit * power};
    }
    if (power > INT64_MAX / 100) return length;
  }
}

std::string escaped_text(std::string_view text) {
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

/// As high as asked for, or so that up to some 130 devices fit on a screen or two.
int row_height_of(const SvgOptions& options, int devices) {
  constexpr int most_height = 1600, high = 24;
  return options.row_height.value_or(
      std::clamp(most_height / std::max(devices, 1), least_row_height, high));
}

/// A timeline with a row for each of its devices. Its heading is of `whole`, where rows stand for
/// several devices.
class Drawing {
 public:
  Drawing(const Timeline& timeline, const SvgOptions& options, const Timeline& whole)
      : timeline_(timeline),
        whole_(whole),
        options_(options),
        row_height_(row_height_of(options, timeline.devices)) {
    find_range();
    find_stages();
    std::size_t label = 0;
    for (int device = 0; device < std::max(1, timeline.devices); ++device)
      label = std::max(label, row_name(device).size());
    left_ = margin + text_width(label, font) + 6;
    plot_width_ = options.width - left_ - 4 * margin;  // half of the last label stands out
    if (options.width < 200 || row_height_ < least_row_height) {
      fail_usage("a drawing needs at least 200 x ", least_row_height, " pixels, not ",
                 options.width, " x ", row_height_);
    }
    heading_ = heading();
    top_ = margin + (heading_.empty() ? 0 : title_size + 8);
    bottom_ = top_ + timeline.devices * (row_height_ + gap);
    find_small();
  }

  std::string draw() {
    head();
    rows();
    if (options_.transfers && !is_fine_) messages();
    axis();
    legend();
    text_ += "</svg>\n";
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void add(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Parts>(parts)...);
  }

  void find_range() {
    if (!timeline_.spans.empty()) {
      start_ = Duration::max();
      for (const Span& span : timeline_.spans) {
        start_ = std::min(start_, span.start);
        end_ = std::max(end_, span.end);
      }
    }
    const Duration last = end_;
    start_ = options_.from.value_or(start_);
    end_ = options_.until.value_or(end_);
    if (!options_.from && !options_.until) return;
    if (start_ >= end_ || start_ >= last) {
      fail_usage("nothing to draw from ", format_duration(start_), " until ", format_duration(end_),
                 ": the step ends after ", format_duration(last));
    }
  }

  void find_stages() {
    stages_.resize(index(timeline_.devices));
    for (const Span& span : timeline_.spans) {
      if (span.lane == Lane::compute) stages_[index(span.device)].insert(span.instruction.stage);
    }
  }

  bool visible(const Span& span) const {
    return span.end > span.start && span.end > start_ && span.start < end_;
  }

  bool is_critical(const Span& span) const {
    if (options_.critical.size() != timeline_.spans.size()) return false;
    return options_.critical[static_cast<std::size_t>(&span - timeline_.spans.data())] != 0;
  }

  Length x(Duration time) const {
    const Duration inside = std::clamp(time, start_, end_) - start_;
    const std::int64_t length = std::max<std::int64_t>(1, (end_ - start_).count());
    return {
        std::int64_t{100} * left_ +
        static_cast<std::int64_t>(static_cast<Wide>(inside.count()) * 100 * plot_width_ / length)};
  }
  int y(int device) const { return top_ + device * (row_height_ + gap); }

  std::string row_name(int device) const {
    return device_words(devices_of({device}, options_.row_devices));
  }

  bool is_small(const Span& span) const {
    const Duration length = end_ - start_;
    return static_cast<Wide>(span.time().count()) * plot_width_ <
           static_cast<Wide>(length.count()) * least_width;
  }

  /// Whether anything that is seen is too small to be told apart, and whether most of it is.
  void find_small() {
    std::size_t small = 0, all = 0;
    for (const Span& span : timeline_.spans) {
      if (span.lane != Lane::compute || !visible(span)) continue;
      ++all;
      if (is_small(span)) ++small;
    }
    has_shares_ = small > 0;
    is_fine_ = 2 * small > all;
  }

  /// What it is of, and the numbers that people look for; nothing of an empty timeline.
  std::string heading() const {
    if (whole_.spans.empty()) return options_.title;
    std::string text = options_.title.empty() ? "" : options_.title + ": ";
    text +=
        fmt::format("step {}, bubble {:.1f} %", time_text(step_time(whole_)), 100 * bubble(whole_));
    Bytes most = 0;
    for (const MemoryPeak& peak : memory_peaks(whole_)) most = std::max(most, peak.bytes);
    if (most > 0) text += fmt::format(", peak memory {}", format_bytes(most));
    return text;
  }

  Color color_of(const Span& span) const {
    const std::set<int>& stages = stages_[index(span.device)];
    const auto place = std::distance(stages.begin(), stages.find(span.instruction.stage));
    return tint(svg_look_of(span.instruction.op).color, static_cast<int>(place),
                static_cast<int>(stages.size()));
  }

  void head() {
    const int height = bottom_ + 2 * font + 14 + margin + (font + 8) + (has_shares_ ? font + 6 : 0);
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" "
        "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{2}\">\n",
        options_.width, height, font);
    add("<rect class=\"paper\" width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", options_.width,
        height);
    if (heading_.empty()) return;
    add("<title>{0}</title>\n<text class=\"heading\" x=\"{1}\" y=\"{2}\" font-size=\"{3}\" "
        "font-weight=\"bold\">{0}</text>\n",
        escaped_text(heading_), margin, margin + title_size - 2, title_size);
  }

  void rows() {
    std::vector<std::vector<const Span*>> compute(index(timeline_.devices));
    for (const Span& span : timeline_.spans) {
      if (span.lane == Lane::compute && visible(span)) compute[index(span.device)].push_back(&span);
    }
    for (int device = 0; device < timeline_.devices; ++device) {
      if (device % names_every() == 0) {
        add("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left_ - 6,
            y(device) + (row_height_ + font) / 2 - 2, escaped_text(row_name(device)));
      }
      add("<rect class=\"row\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f2f2f2\"/>\n",
          left_, y(device), plot_width_, row_height_);
      add("<g class=\"device\">\n");
      shares(device, compute[index(device)]);
      row(device, compute[index(device)]);
      add("</g>\n");
    }
    if (outlines_.empty()) return;
    add("<g class=\"critical\" fill=\"none\" stroke=\"#000000\" stroke-width=\"2\">\n{}</g>\n",
        outlines_);
  }

  /// Of low rows not every one has room for its name.
  int names_every() const { return (font + 2 + row_height_) / (row_height_ + gap); }

  /// Covered hundredths of each pixel by the small spans, per kind of work.
  std::array<std::vector<std::int64_t>, svg_looks.size()> covered_by_small(
      const std::vector<const Span*>& spans) const {
    std::array<std::vector<std::int64_t>, svg_looks.size()> covered;
    for (const Span* span : spans) {
      if (!is_small(*span)) continue;
      auto& of_kind =
          covered[static_cast<std::size_t>(&svg_look_of(span->instruction.op) - svg_looks.data())];
      of_kind.resize(index(plot_width_));
      const std::int64_t from = x(span->start).hundredths - std::int64_t{100} * left_;
      const std::int64_t until = x(span->end).hundredths - std::int64_t{100} * left_;
      for (std::int64_t pixel = from / 100; pixel < plot_width_ && 100 * pixel < until; ++pixel) {
        of_kind[static_cast<std::size_t>(pixel)] +=
            std::min(until, 100 * (pixel + 1)) - std::max(from, 100 * pixel);
      }
    }
    return covered;
  }

  /// Small spans as areas: at each pixel as high as they take part of its time.
  void shares(int device, const std::vector<const Span*>& spans) {
    const auto covered = covered_by_small(spans);
    std::vector<int> below(index(plot_width_), 0);  // half pixels, from the row's bottom
    for (std::size_t kind = 0; kind < covered.size(); ++kind) {
      if (covered[kind].empty()) continue;
      std::string path;
      for (std::size_t first = 0, end = 0; first < covered[kind].size(); first = end) {
        const auto above = [&](std::size_t pixel) {
          const std::int64_t height = std::int64_t{2} * row_height_ * covered[kind][pixel] / 100;
          return static_cast<int>(std::min(below[pixel] + height, std::int64_t{2} * row_height_));
        };
        const std::pair area(below[first], above(first));
        for (end = first + 1; end < covered[kind].size(); ++end) {
          if (std::pair(below[end], above(end)) != area) break;
        }
        for (std::size_t pixel = first; pixel < end; ++pixel) below[pixel] = area.second;
        if (area.first == area.second) continue;
        const int row_bottom = 2 * (y(device) + row_height_);
        fmt::format_to(std::back_inserter(path), "M{} {:g}V{:g}h{}V{:g}z", index(left_) + first,
                       (row_bottom - area.first) / 2.0, (row_bottom - area.second) / 2.0,
                       end - first, (row_bottom - area.first) / 2.0);
      }
      if (path.empty()) continue;
      add("<path class=\"shares\" fill=\"{}\" d=\"{}\"/>\n", Color{svg_looks[kind].color}.hex(),
          path);
    }
  }

  /// Spans in order of their start; those that overlap share the height.
  void row(int device, const std::vector<const Span*>& spans) {
    for (std::size_t first = 0, end = 0; first < spans.size(); first = end) {
      Duration until = spans[first]->end;
      for (end = first + 1; end < spans.size() && spans[end]->start < until; ++end) {
        until = std::max(until, spans[end]->end);
      }
      const int shares = static_cast<int>(end - first);
      for (int share = 0; share < shares; ++share) {
        const int top = row_height_ * share / shares;
        const int bottom = row_height_ * (share + 1) / shares;
        box(*spans[first + index(share)], y(device) + top, bottom - top);
      }
    }
  }

  void box(const Span& span, int top, int height) {
    if (is_small(span)) return;
    const Length from = x(span.start);
    const Length width{x(span.end).hundredths - from.hundredths};
    const Color color = color_of(span);
    add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#ffffff\" "
        "stroke-width=\"0.5\"><title>{}: {} to {}</title></rect>\n",
        text_of(from), top, text_of(width), height, color.hex(), to_string(span.instruction),
        time_text(span.start), time_text(span.end));
    if (is_critical(span) && !is_fine_) {
      outlines_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                               text_of(from), top, text_of(width), height);
    }
    const std::string number = std::to_string(span.instruction.microbatch);
    const int size = std::min(font, height - 1);
    const bool numbered =
        span.instruction.op != Op::update && size >= 6 &&
        std::int64_t{100} * (text_width(number.size(), size) + 2) <= width.hundredths;
    if (!numbered) return;
    add("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n",
        text_of({from.hundredths + width.hundredths / 2}), top + (height + size) / 2 - 1, size,
        color.ink(), number);
  }

  /// From the sender's row where sending starts to the receiver's where the data is there.
  void messages() {
    add("<g class=\"messages\" stroke=\"#555555\" stroke-width=\"0.6\">\n");
    for (const Span& span : timeline_.spans) {
      if (!is_receive(span.instruction.op) || !span.peer) continue;
      if (span.end < start_ || span.start > end_) continue;
      const bool down = *span.peer < span.device;
      const int from = y(*span.peer) + (down ? row_height_ : 0);
      const int to = y(span.device) + (down ? 0 : row_height_);
      add("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", text_of(x(span.start)), from,
          text_of(x(span.end)), to,
          is_critical(span) ? " stroke=\"#000000\" stroke-width=\"2\"" : "");
    }
    add("</g>\n");
  }

  std::string time_text(Duration time) const {
    if (!options_.unit) return format_duration(time);
    return fmt::format(
        "{:g}", static_cast<double>(time.count()) / static_cast<double>(options_.unit->count()));
  }

  void axis() {
    add("<g class=\"axis\" stroke=\"#000000\" stroke-width=\"0.8\">\n");
    add("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", left_, bottom_, left_ + plot_width_,
        bottom_);
    std::string labels;
    const Duration step = std::max(Duration{1}, tick_step(end_ - start_));
    for (std::int64_t i = (start_.count() + step.count() - 1) / step.count();
         i * step.count() <= end_.count(); ++i) {
      const Duration time = step * i;
      const std::string place = text_of(x(time));
      add("<line x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\"/>\n", place, bottom_, bottom_ + 4);
      labels += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", place,
                            bottom_ + 6 + font, time.count() == 0 ? "0" : time_text(time));
    }
    add("</g>\n{}", labels);
  }

  void legend() {
    int place = left_;
    const int top = bottom_ + font + 14;
    add("<g class=\"legend\">\n");
    const auto entry = [&](const std::array<int, 3>& color, std::string_view word) {
      add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", place, top, font,
          font, Color{color}.hex());
      add("<text x=\"{}\" y=\"{}\">{}</text>\n", place + font + 4, top + font - 2, word);
      place += font + 4 + text_width(word.size(), font) + 14;
    };
    for (const SvgLook& look : svg_looks) {
      const bool used = std::any_of(
          timeline_.spans.begin(), timeline_.spans.end(),
          [&](const Span& span) { return span.instruction.op == look.op && visible(span); });
      if (used) entry(look.color, look.word);
    }
    const auto fewer = [](const std::set<int>& a, const std::set<int>& b) {
      return a.size() < b.size();
    };
    const auto most = std::max_element(stages_.begin(), stages_.end(), fewer);
    std::vector<std::string> remarks;
    if (most != stages_.end() && most->size() > 1)
      remarks.emplace_back("lighter: later stages of the device");
    if (!outlines_.empty()) remarks.emplace_back("outlined: the longest chain");
    if (options_.unit) remarks.emplace_back("time: one forward = 1");
    if (timeline_.devices < whole_.devices)
      remarks.emplace_back("devices that do the same at the same times share a row");
    add("<text x=\"{}\" y=\"{}\">{}</text>\n", place, top + font - 2, fmt::join(remarks, "; "));
    if (has_shares_) {
      add("<text class=\"remark\" x=\"{}\" y=\"{}\">{}</text>\n", left_, top + 2 * font + 4,
          is_fine_ ? "boxes below 3 pixels are shares of time, and messages are left out; "
                     "stagecraft simulate --svg FILE --range FROM..UNTIL draws a part"
                   : "boxes below 3 pixels are shares of time");
    }
    add("</g>\n");
  }

  const Timeline& timeline_;
  const Timeline& whole_;
  const SvgOptions& options_;
  const int row_height_;
  Duration start_{0};
  Duration end_{0};
  std::vector<std::set<int>> stages_;  // per device, those it computes
  std::string heading_;
  bool is_fine_ = false;     // most boxes are too small to be told apart
  bool has_shares_ = false;  // some are
  int top_ = 0;              // of the first row
  int left_ = 0;
  int plot_width_ = 0;
  int bottom_ = 0;
  std::string text_;
  std::string outlines_;
};

}  // namespace

std::string draw_svg(const Timeline& timeline, const SvgOptions& options) {
  if (timeline.devices <= most_rows) return Drawing(timeline, options, timeline).draw();
  AlikeRows rows = alike_rows(timeline, options.critical);
  SvgOptions merged = options;
  merged.critical = std::move(rows.critical);
  merged.row_devices.clear();
  for (const std::vector<int>& members : rows.members)
    merged.row_devices.push_back(devices_of(members, options.row_devices));
  return Drawing(rows.timeline, merged, timeline).draw();
}

}  // namespace stagecraft
