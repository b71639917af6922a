// Timelines as text.
//
//   d0 │0███1███········0▓▓▓▓▓▓▓1▓▓▓▓▓▓▓│ 75 % busy  61.2MiB ▃▅▇▅▃
//
// A column is an equal part of the time from the first start to the last end, and shows what fills
// most of it; nothing is rounded on the way, so equal timelines give equal pictures. Work too short
// to win a column takes the one it has most of if that would be idle; what still is not seen is
// counted in the legend. A work with two columns or more starts with the last digits of its
// microbatch, and always ends in the shade of its kind.
//
//   ▲  │000111111111111111100000000│ longest chain: the device it is on
//
// Digits need no colours and no particular font, and say with the row above them which work it is.

#include "simulator/views/draw.hpp"

#include <algorithm>
#include <array>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/units.hpp"
#include "profiles/wide.hpp"
#include "simulator/views/alike_rows.hpp"

namespace stagecraft {

namespace {

struct Look {
  Op op;
  std::string_view shade;
  std::string_view letter;
  std::string_view word;
  std::string_view
      color;  // Okabe and Ito's palette, which people with any colour vision can tell apart
};

constexpr std::array looks{
    Look{Op::forward, "█", "F", "forward", "0;114;178"},
    Look{Op::backward, "▓", "f", "backward", "230;159;0"},
    Look{Op::backward_input, "▚", "i", "input gradient", "213;94;0"},
    Look{Op::backward_weight, "░", "w", "weight gradient", "240;228;66"},
    Look{Op::recompute, "▒", "r", "recompute", "0;158;115"},
    Look{Op::update, "▄", "u", "update", "204;121;167"},
};
/// Of a fused pair.
constexpr Look overlapped{Op::forward, "╳", "x", "forward + backward", "86;180;233"};
constexpr std::array<std::string_view, 9> levels{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 9> ascii_levels{" ", "_", ".", ":", "-", "=", "+", "*", "#"};

constexpr int narrowest_bar = 10;
constexpr int graph_columns = 16;

const Look& look_of(Op op) {
  return *std::find_if(looks.begin(), looks.end(),
                       [op](const Look& look) { return look.op == op; });
}

/// What the picture shows as one: a span, or both of a fused pair.
struct Block {
  Duration start{0};
  Duration end{0};
  int microbatch = 0;  ///< of the forward
  const Look* look = nullptr;
  Duration time() const { return end - start; }
};

/// Columns of a UTF-8 text whose characters are all one column wide.
int columns(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, int width) {
  return text + std::string(index(std::max(0, width - columns(text))), ' ');
}

std::string padded_left(const std::string& text, int width) {
  return std::string(index(std::max(0, width - columns(text))), ' ') + text;
}

std::string without_trailing_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// Time cut into columns of equal length.
struct Scale {
  Duration start{0};
  Duration length{0};
  int columns = 0;

  /// Times `columns`, so that every boundary is a whole number.
  Wide place(Duration time) const { return static_cast<Wide>((time - start).count()) * columns; }
  Wide begin(int column) const { return static_cast<Wide>(length.count()) * column; }
  /// The column a place lies in.
  int column(Wide place) const {
    const Wide found = length.count() == 0 ? 0 : place / length.count();
    return static_cast<int>(std::clamp<Wide>(found, 0, columns - 1));
  }
};

Scale scale_of(const Timeline& timeline, int columns) {
  if (timeline.spans.empty()) return {.start = {}, .length = {}, .columns = columns};
  Duration start = Duration::max();
  Duration end = Duration::min();
  for (const Span& span : timeline.spans) {
    start = std::min(start, span.start);
    end = std::max(end, span.end);
  }
  return {.start = start, .length = end - start, .columns = columns};
}

/// One line of columns: for each the block it shows, or none where idle.
struct Bar {
  std::vector<const Block*> cells;
  int hidden = 0;
};

class BarMaker {
 public:
  explicit BarMaker(const Scale& scale) : scale_(scale) {
    bar_.cells.resize(index(scale.columns), nullptr);
    won_.resize(bar_.cells.size(), 0);
    busy_.resize(bar_.cells.size(), 0);
  }

  Bar make(const std::vector<Block>& blocks) {
    for (const Block& block : blocks)
      each_column(block, [&](int column, Wide part) { contend(block, column, part); });
    for (std::size_t column = 0; column < won_.size(); ++column) {
      const Wide idle = scale_.length.count() - busy_[column];
      if (idle > won_[column]) bar_.cells[column] = nullptr;
    }
    for (const Block& block : blocks) show(block);
    return bar_;
  }

 private:
  template <class Use>
  void each_column(const Block& block, const Use& use) const {
    const Wide first = scale_.place(block.start);
    const Wide end = scale_.place(block.end);
    if (first >= end) return;
    for (int column = scale_.column(first); column < scale_.columns && scale_.begin(column) < end;
         ++column) {
      use(column, std::min(end, scale_.begin(column + 1)) - std::max(first, scale_.begin(column)));
    }
  }

  void contend(const Block& block, int column, Wide part) {
    busy_[index(column)] += part;
    if (part <= won_[index(column)]) return;
    won_[index(column)] = part;
    bar_.cells[index(column)] = &block;
  }

  void show(const Block& block) {
    int best = -1;
    Wide most = 0;
    bool seen = false;
    each_column(block, [&](int column, Wide part) {
      seen = seen || bar_.cells[index(column)] == &block;
      if (part > most && bar_.cells[index(column)] == nullptr) {
        most = part;
        best = column;
      }
    });
    if (seen || block.start >= block.end) return;
    if (best < 0) {
      ++bar_.hidden;
    } else {
      bar_.cells[index(best)] = &block;
    }
  }

  const Scale scale_;
  Bar bar_;
  std::vector<Wide> won_;   // what the shown block fills of each column
  std::vector<Wide> busy_;  // what all blocks fill
};

std::string shade(const Look& look, const DrawOptions& options) {
  return std::string(options.unicode ? look.shade : look.letter);
}

std::string painted(const std::string& text, const Look& look, const DrawOptions& options) {
  return options.color ? concat("\x1b[38;2;", look.color, "m", text, "\x1b[0m") : text;
}

/// `width` columns of one block: the last digits of its microbatch, then its shade.
std::string block_text(const Block& block, int width, const DrawOptions& options) {
  std::string text = width < 2 ? "" : std::to_string(block.microbatch);
  if (const auto most = index(std::max(width - 1, 0)); text.size() > most)
    text = text.substr(text.size() - most);
  for (int column = columns(text); column < width; ++column) text += shade(*block.look, options);
  return painted(text, *block.look, options);
}

std::string bar_text(const Bar& bar, const DrawOptions& options) {
  std::string text;
  const auto& cells = bar.cells;
  for (std::size_t first = 0, end = 0; first < cells.size(); first = end) {
    for (end = first + 1; end < cells.size() && cells[end] == cells[first];) ++end;
    const int width = static_cast<int>(end - first);
    if (cells[first]) {
      text += block_text(*cells[first], width, options);
    } else {
      for (int column = 0; column < width; ++column) text += options.unicode ? "·" : ".";
    }
  }
  return text;
}

Bytes sum(const MemoryUse& use) {
  Bytes all = 0;
  for (const Bytes bytes : use) all += bytes;
  return all;
}

/// The most memory in use during each column.
std::vector<Bytes> memory_columns(const std::vector<MemorySample>& samples, const Scale& scale) {
  std::vector<Bytes> most(index(scale.columns), 0);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Wide first = scale.place(samples[i].time);
    const Wide last =
        i + 1 < samples.size() ? scale.place(samples[i + 1].time) - 1 : scale.begin(scale.columns);
    for (int column = scale.column(first); column <= scale.column(std::max(first, last));
         ++column) {
      most[index(column)] = std::max(most[index(column)], sum(samples[i].use));
    }
  }
  return most;
}

std::string graph(const std::vector<Bytes>& values, Bytes top, const DrawOptions& options) {
  std::string text;
  for (const Bytes value : values) {
    const Wide level = top <= 0 ? 0 : (static_cast<Wide>(value) * 8 + top - 1) / top;
    const auto index = static_cast<std::size_t>(std::clamp<Wide>(level, 0, 8));
    text += options.unicode ? levels[index] : ascii_levels[index];
  }
  return text;
}

bool in_compute(const Span& span) {
  return span.lane == Lane::compute && is_compute(span.instruction.op);
}

/// Joins a forward and the backward that runs at the same time, which comes right after it.
void append_block(std::vector<Block>& blocks, const Span& span) {
  const bool joins = !blocks.empty() && span.instruction.op == Op::backward &&
                     blocks.back().look == &look_of(Op::forward) && span.time().count() > 0 &&
                     blocks.back().start == span.start && blocks.back().end == span.end;
  if (joins) {
    blocks.back().look = &overlapped;
  } else {
    blocks.push_back({.start = span.start,
                      .end = span.end,
                      .microbatch = span.instruction.microbatch,
                      .look = &look_of(span.instruction.op)});
  }
}

/// What stands left and right of the bars, for every device; `alike` says how many devices each of
/// them stands for, and is empty where that is itself alone.
class Picture {
 public:
  Picture(const Timeline& timeline, const DrawOptions& options, std::vector<std::size_t> alike)
      : timeline_(timeline), options_(options), alike_(std::move(alike)) {
    blocks_.resize(index(timeline.devices));
    for (const Span& span : timeline.spans) {
      if (in_compute(span)) append_block(blocks_[index(span.device)], span);
    }
    int widest = 0;
    for (int device = 0; device < timeline.devices; ++device) {
      left_.push_back(concat(" d", name_of(device), times_alike(device)));
      widest = std::max(widest, columns(left_.back()));
    }
    for (auto& text : left_) text = padded(text, widest) + " ";
    note_busy();
    if (options.memory) note_memory();
  }

  std::string draw() const {
    const int around = columns(left_.front()) + 2 + columns(right_.front());
    const Scale scale = scale_of(timeline_, std::max(narrowest_bar, options_.width - around));
    const std::string wall = options_.unicode ? "│" : "|";
    std::string text;
    int hidden = 0;
    for (std::size_t device = 0; device < blocks_.size(); ++device) {
      const Bar bar = BarMaker(scale).make(blocks_[device]);
      hidden += bar.hidden;
      text.append(left_[device]).append(wall).append(bar_text(bar, options_));
      text.append(wall).append(right_[device]);
      text = without_trailing_blanks(std::move(text)) + "\n";
    }
    return text + chain(scale) + legend(scale, hidden);
  }

 private:
  int name_of(int device) const {
    return options_.device_names.empty() ? device : options_.device_names[index(device)];
  }

  /// " ×8".
  std::string times_alike(int device) const {
    if (alike_.empty() || alike_[index(device)] == 1) return "";
    return concat(options_.unicode ? " ×" : " x", alike_[index(device)]);
  }

  void note_busy() {
    const Wide step = scale_of(timeline_, 1).length.count();
    for (std::size_t device = 0; device < blocks_.size(); ++device) {
      Wide busy = 0;
      for (const Block& block : blocks_[device]) {
        if (block.look->op != Op::update) busy += block.time().count();
      }
      const Wide percent = step == 0 ? 0 : (busy * 200 + step) / (2 * step);
      const std::string number = std::to_string(static_cast<long long>(percent));
      right_.push_back(" " + padded_left(number, 3) + (device == 0 ? " % busy" : " %     "));
    }
  }

  void note_memory() {
    if (timeline_.memory.size() != blocks_.size() || blocks_.empty()) return;
    const Scale scale = scale_of(timeline_, graph_columns);
    std::vector<std::vector<Bytes>> columns_of;
    std::vector<std::string> peaks;
    Bytes top = 0;
    int width = 0;
    for (const auto& samples : timeline_.memory) {
      columns_of.push_back(memory_columns(samples, scale));
      const Bytes peak = *std::max_element(columns_of.back().begin(), columns_of.back().end());
      top = std::max(top, peak);
      peaks.push_back(format_bytes(peak));
      width = std::max(width, columns(peaks.back()));
    }
    const int room =
        options_.width - columns(left_.front()) - columns(right_.front()) - 2 - narrowest_bar;
    for (std::size_t device = 0; device < peaks.size(); ++device) {
      if (room >= width + 2) right_[device] += "  " + padded_left(peaks[device], width);
      if (room >= width + 3 + graph_columns)
        right_[device] += " " + graph(columns_of[device], top, options_);
    }
  }

  /// The last digit of the device that the longest chain is on, or an arrow where it is on its way
  /// between two.
  std::string chain(const Scale& scale) const {
    if (options_.critical.size() != timeline_.spans.size() || timeline_.spans.empty()) return "";
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < timeline_.spans.size(); ++i) {
      const Span& span = timeline_.spans[i];
      if (options_.critical[i] == 0 || !in_compute(span)) continue;
      blocks.push_back({.start = span.start, .end = span.end, .microbatch = name_of(span.device)});
    }
    std::string text;
    for (const Block* block : BarMaker(scale).make(blocks).cells) {
      text += block ? std::to_string(block->microbatch % 10) : options_.unicode ? "→" : ">";
    }
    const std::string wall = options_.unicode ? "│" : "|";
    return padded(options_.unicode ? " ▲" : " ^", columns(left_.front())) + wall + text + wall +
           " longest chain: its device\n";
  }

  std::string legend(const Scale& scale, int hidden) const {
    std::string text = padded("", columns(left_.front()) + 1) + "digit = microbatch,";
    for (const Look& look : looks) text += entry(look);
    text += entry(overlapped);
    text += options_.unicode ? " · idle" : " . idle";
    if (scale.length.count() > 0)
      text += concat(", ", scale.columns, " columns = ", format_duration(scale.length));
    if (timeline_.repeat) {
      const Repeat& repeat = *timeline_.repeat;
      text += concat(" without ", repeat.times, " x ", repeat.microbatches, " microbatches of ",
                     format_duration(repeat.time), " each that repeat");
    }
    if (hidden > 0) text += concat(", ", hidden, " too short to show");
    if (!alike_.empty()) {
      text += concat("\n", padded("", columns(left_.front()) + 1), options_.unicode ? "×" : "x",
                     "N: a row for N replicas, which do the same at the same times");
    }
    return text + "\n";
  }

  std::string entry(const Look& look) const {
    const auto shown = [&](const Block& block) {
      return block.look == &look && block.time().count() > 0;
    };
    const bool used = std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& blocks) {
      return std::any_of(blocks.begin(), blocks.end(), shown);
    });
    return used ? concat(" ", painted(shade(look, options_), look, options_), " ", look.word) : "";
  }

  const Timeline& timeline_;
  const DrawOptions& options_;
  const std::vector<std::size_t> alike_;
  std::vector<std::vector<Block>> blocks_;  // per device, its compute
  std::vector<std::string> left_, right_;
};

bool several_stages(const std::vector<Instruction>& order) {
  return std::any_of(order.begin(), order.end(),
                     [&](const Instruction& it) { return it.stage != order[0].stage; });
}

bool starts_pair(const Schedule& schedule, std::size_t device, std::size_t position) {
  if (schedule.fused.empty()) return false;
  const std::vector<int>& pairs = schedule.fused[device];
  return std::binary_search(pairs.begin(), pairs.end(), static_cast<int>(position));
}

}  // namespace

std::string draw(const Timeline& timeline, const DrawOptions& options) {
  if (timeline.devices < 1) return "";
  constexpr int most_rows = 16;
  if (timeline.devices <= most_rows) return Picture(timeline, options, {}).draw();
  AlikeRows rows = alike_rows(timeline, options.critical);
  if (rows.timeline.devices == timeline.devices) return Picture(timeline, options, {}).draw();
  DrawOptions merged = options;
  merged.critical = std::move(rows.critical);
  merged.device_names.clear();
  std::vector<std::size_t> alike;
  for (const std::vector<int>& members : rows.members) {
    const int first = members.front();
    merged.device_names.push_back(
        options.device_names.empty() ? first : options.device_names[index(first)]);
    alike.push_back(members.size());
  }
  return Picture(rows.timeline, merged, alike).draw();
}

std::string draw(const Schedule& schedule, const DrawOptions& options) {
  const bool stages = std::any_of(schedule.devices.begin(), schedule.devices.end(), several_stages);
  const std::string last = concat(" d", schedule.devices.empty() ? 0 : schedule.devices.size() - 1);
  std::string text;
  for (std::size_t device = 0; device < schedule.devices.size(); ++device) {
    text += padded(concat(" d", device), columns(last)) + (options.unicode ? " │" : " |");
    const std::vector<Instruction>& order = schedule.devices[device];
    const auto name = [&](const Instruction& it) {
      return painted(concat(stages ? std::to_string(it.stage) : "", letter(it.op), it.microbatch),
                     look_of(it.op), options);
    };
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (starts_pair(schedule, device, i)) {
        text += concat(" (", name(order[i]), ";", name(order[i + 1]), ")");
        ++i;
      } else {
        text += " " + name(order[i]);
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace stagecraft
