#include "simulator/views/draw_svg.hpp"

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <map>
#include <sstream>

#include "simulator/analyses/critical_path.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Xml = boost::property_tree::ptree;

/// Fails unless the text is well-formed.
Xml parse(const std::string& text) {
  std::istringstream in(text);
  Xml document;
  boost::property_tree::read_xml(in, document);
  return document.get_child("svg");
}

double number(const Xml& element, const std::string& name) {
  return element.get<double>("<xmlattr>." + name);
}

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  std::string color;
  std::string title;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct Label {
  double x = 0;
  double size = 0;
  std::string text;
};

/// The spans of one device, in order; each label belongs to the box before it.
struct Row {
  std::vector<Box> boxes;
  std::vector<std::pair<std::size_t, Label>> labels;
};

Row read_row(const Xml& group) {
  Row row;
  for (const auto& [name, element] : group) {
    if (name == "rect") {
      row.boxes.push_back({number(element, "x"), number(element, "y"), number(element, "width"),
                           number(element, "height"), element.get<std::string>("<xmlattr>.fill"),
                           element.get<std::string>("title")});
    } else if (name == "text") {
      row.labels.push_back({row.boxes.size() - 1,
                            {number(element, "x"), number(element, "font-size"), element.data()}});
    }
  }
  return row;
}

std::vector<Row> read_rows(const std::string& text) {
  std::vector<Row> rows;
  for (const auto& [name, element] : parse(text)) {
    if (name == "g" && element.get<std::string>("<xmlattr>.class") == "device")
      rows.push_back(read_row(element));
  }
  return rows;
}

/// By more than a hundredth of a pixel, the last digit.
bool overlap(const Box& a, const Box& b) {
  const double edge = 0.005;
  return a.x + edge < b.right() && b.x + edge < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

Span span(int device, Op op, int stage, int microbatch, Duration start, Duration end) {
  return {.device = device,
          .lane = lane_of(op),
          .instruction = {op, stage, microbatch},
          .start = start,
          .end = end};
}

std::size_t spans_drawn(const Timeline& timeline, int device) {
  return static_cast<std::size_t>(
      std::count_if(timeline.spans.begin(), timeline.spans.end(), [&](const Span& it) {
        return it.device == device && it.lane == Lane::compute && it.end > it.start;
      }));
}

}  // namespace

TEST_CASE("SVG: each span is one box, no two overlap, and numbers fit their boxes", "[seconds]") {
  for (const ScheduleKind& kind : schedule_kinds) {
    const ScheduleShape shape{
        .devices = 4, .microbatches = 16, .virtual_stages = fewest_virtual_stages(kind.placement)};
    const std::optional<Schedule> schedule = generated(kind, shape);
    if (!schedule) continue;
    INFO(kind.name);
    const Timeline timeline = run(*schedule, split_costs(10ms, 12ms, 8ms), 1ms);
    const std::vector<Row> rows = read_rows(draw_svg(timeline, {.transfers = true}));
    REQUIRE(rows.size() == 4);
    for (int device = 0; device < 4; ++device) {
      const Row& row = rows[index(device)];
      CHECK(row.boxes.size() == spans_drawn(timeline, device));
      for (std::size_t i = 1; i < row.boxes.size(); ++i)
        CHECK_FALSE(overlap(row.boxes[i - 1], row.boxes[i]));
      for (const auto& [box, label] : row.labels) {
        // Digits of Helvetica and Arial are 0.556 of the font's size wide.
        const double width = 0.556 * label.size * static_cast<double>(label.text.size());
        CHECK(label.x - width / 2 >= row.boxes[box].x);
        CHECK(label.x + width / 2 <= row.boxes[box].right());
        CHECK(label.size < row.boxes[box].height);
      }
    }
  }
}

TEST_CASE("SVG: boxes are as long as their time, over the whole width") {
  const Timeline timeline{
      .devices = 1,
      .stages = 1,
      .microbatches = 1,
      .spans = {span(0, Op::forward, 0, 7, 0ms, 25ms), span(0, Op::backward, 0, 7, 50ms, 100ms)},
      .memory = {}};
  const Row row = read_rows(draw_svg(timeline)).at(0);
  REQUIRE(row.boxes.size() == 2);
  const double whole = row.boxes[1].right() - row.boxes[0].x;
  CHECK(row.boxes[0].width == Approx(whole / 4).margin(0.01));
  CHECK(row.boxes[1].x - row.boxes[0].x == Approx(whole / 2).margin(0.01));
  CHECK(row.boxes[0].title == "F0.7: 0ns to 25ms");
  CHECK(row.labels.at(0).second.text == "7");
}

TEST_CASE("SVG: a range cuts off what is outside, and fills the width with the rest") {
  const Timeline timeline =
      run(one_f_one_b({.devices = 2, .microbatches = 4}), chunk_costs(10ms, 20ms));
  // Device 0: F 0-10, F 10-20, idle, B 40-60, …
  const Row row = read_rows(draw_svg(timeline, {.from = 15ms, .until = 55ms})).at(0);
  REQUIRE(row.boxes.size() == 2);
  CHECK(row.boxes[0].title == "F0.1: 10ms to 20ms");
  const double whole = row.boxes[1].right() - row.boxes[0].x;
  CHECK(row.boxes[0].width == Approx(whole * 5 / 40).margin(0.01));
  CHECK(row.boxes[1].width == Approx(whole * 15 / 40).margin(0.01));
  CHECK(message_of([&] { draw_svg(timeline, {.from = 20ms, .until = 10ms}); }) ==
        "nothing to draw from 20ms until 10ms: the step ends after 150ms");
  CHECK(message_of([&] { draw_svg(timeline, {.from = 150ms, .until = 200ms}); }) ==
        "nothing to draw from 150ms until 200ms: the step ends after 150ms");
}

TEST_CASE("SVG: overlapped work shares its row, one above the other") {
  const Timeline timeline{
      .devices = 1,
      .stages = 2,
      .microbatches = 2,
      .spans = {span(0, Op::forward, 0, 0, 0ms, 10ms), span(0, Op::forward, 0, 1, 10ms, 40ms),
                span(0, Op::backward, 1, 0, 10ms, 40ms)},
      .memory = {}};
  const Row row = read_rows(draw_svg(timeline, {.row_height = 30})).at(0);
  REQUIRE(row.boxes.size() == 3);
  CHECK(row.boxes[0].height == 30);
  CHECK(row.boxes[1].height == 15);
  CHECK(row.boxes[2].height == 15);
  CHECK(row.boxes[2].y == row.boxes[1].bottom());
  CHECK(row.boxes[1].x == row.boxes[2].x);
}

TEST_CASE("SVG: one colour per kind of work, one shade per stage of a device") {
  const Timeline timeline = run(interleaved({.devices = 2, .microbatches = 4, .virtual_stages = 2}),
                                chunk_costs(10ms, 20ms, 2));
  std::map<std::string, std::string> color_of;  // "F0" → colour
  for (const Row& row : read_rows(draw_svg(timeline))) {
    for (const Box& box : row.boxes) {
      const auto [entry, added] =
          color_of.try_emplace(box.title.substr(0, box.title.find('.')), box.color);
      CHECK(entry->second == box.color);
    }
  }
  REQUIRE(color_of.size() == 8);
  // Stages 0 and 1 are the first of their devices, 2 and 3 the second.
  CHECK(color_of["F0"] == color_of["F1"]);
  CHECK(color_of["F0"] == "#0072b2");
  CHECK(color_of["F2"] == color_of["F3"]);
  CHECK(color_of["F2"] != color_of["F0"]);
  CHECK(color_of["B0"] == "#e69f00");
}

TEST_CASE("SVG: a message is a line from its send's start to its arrival") {
  const Timeline timeline =
      run(gpipe({.devices = 2, .microbatches = 3}), chunk_costs(1ms, 2ms), 1ms);
  std::size_t lines = 0;
  for (const auto& [name, element] : parse(draw_svg(timeline, {.transfers = true}))) {
    if (name == "g" && element.get<std::string>("<xmlattr>.class") == "messages")
      lines = element.count("line");
  }
  CHECK(lines == 6);
}

TEST_CASE("SVG: nothing at all is still a document") {
  CHECK(read_rows(draw_svg({})).empty());
  CHECK(read_rows(draw_svg({.devices = 2, .spans = {}, .memory = {}})).size() == 2);
  CHECK_THROWS_AS(draw_svg({}, {.width = 10}), Error);
}

TEST_CASE("SVG: what is on the longest chain is outlined, its messages are thick") {
  const Program program = lower(one_f_one_b({.devices = 4, .microbatches = 8}));
  const Costs costs = uniform(program, chunk_costs(10ms, 20ms), 1ms);
  const Timeline timeline = simulate(program, costs);
  const std::vector<char> marks = on_path(critical_path(program, costs), program, timeline);
  const std::string drawn = draw_svg(timeline, {.transfers = true, .critical = marks});
  int outlines = 0, thick = 0, computes = 0, messages = 0;
  for (const auto& [name, element] : parse(drawn)) {
    if (name != "g") continue;
    const auto kind = element.get<std::string>("<xmlattr>.class");
    if (kind == "critical") outlines = static_cast<int>(element.count("rect"));
    if (kind != "messages") continue;
    for (const auto& [line, attributes] : element) {
      if (line == "line" && attributes.get("<xmlattr>.stroke-width", 0.0) > 1) ++thick;
    }
  }
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (marks[i] == 0 || span.time() == 0ns) continue;
    computes += span.lane == Lane::compute ? 1 : 0;
    messages += is_receive(span.instruction.op) ? 1 : 0;
  }
  CHECK(outlines == computes);
  CHECK(thick == messages);
  CHECK(messages == 2 * (10 - 10 / 4));  // latencies in the step
  CHECK(drawn.find("outlined: the longest chain") != std::string::npos);
  CHECK(draw_svg(timeline).find("critical") == std::string::npos);
}

namespace {

// Of a device's areas, in pixels.
double area_of(const Xml& group) {
  double area = 0;
  for (const auto& [name, element] : group) {
    if (name != "path") continue;
    std::istringstream in(element.get<std::string>("<xmlattr>.d"));
    char command = 0;
    double x = 0, bottom = 0, top = 0, width = 0, again = 0;
    while (in >> command >> x >> bottom >> command >> top >> command >> width >> command >> again >>
           command) {
      area += (bottom - top) * width;
    }
  }
  return area;
}

}  // namespace

TEST_CASE("SVG: boxes below 3 pixels become areas of the time they take, without messages") {
  const Timeline timeline =
      run(one_f_one_b({.devices = 4, .microbatches = 400}), chunk_costs(10ms, 20ms));
  const SvgOptions options{.transfers = true, .title = "<a & b>", .row_devices = {{0, 1, 2, 3}}};
  const std::string drawn = draw_svg(timeline, options);
  CHECK(drawn.size() < 150'000);
  CHECK(drawn.find("class=\"messages\"") == std::string::npos);
  CHECK(drawn.find("--range FROM..UNTIL") != std::string::npos);
  CHECK(drawn.find("&lt;a &amp; b&gt;: step 12.09s, bubble 0.7 %") != std::string::npos);
  CHECK(drawn.find("devices 0-3") != std::string::npos);
  std::vector<Xml> rows;
  double whole = 0;  // pixels of a row
  for (const auto& [name, element] : parse(drawn)) {
    if (name == "rect" && element.get<std::string>("<xmlattr>.class") == "row")
      whole = number(element, "width") * number(element, "height");
    if (name == "g" && element.get<std::string>("<xmlattr>.class") == "device")
      rows.push_back(element);
  }
  REQUIRE(rows.size() == 4);
  for (const Xml& row : rows) {
    CHECK(read_row(row).boxes.empty());
    // Busy for 12 s of 12.09 s; heights are whole half pixels.
    CHECK(area_of(row) / whole == Approx(12.0 / 12.09).margin(0.06));
  }
  // A part of it has boxes again.
  CHECK_FALSE(read_rows(draw_svg(timeline, {.from = 1s, .until = 2s})).at(0).boxes.empty());
}

TEST_CASE("SVG: of many devices, replicas share a row, which names them all") {
  const Timeline single =
      run(one_f_one_b({.devices = 4, .microbatches = 8}), chunk_costs(10ms, 20ms));
  const Timeline many = replicated(single, 64);  // replicas of stage 0 are devices 0 to 63
  std::vector<std::vector<int>> peers;           // each a group of four
  for (int device = 0; device < many.devices; ++device) {
    const int first = 4 * device;
    peers.push_back({first, first + 1, first + 2, first + 3});
  }
  const std::string text = draw_svg(many, {.transfers = true, .row_devices = peers});
  REQUIRE(read_rows(text).size() == 4);
  CHECK(read_rows(text)[1].boxes.size() == spans_drawn(single, 1));
  CHECK(text.find(">devices 0-255<") != std::string::npos);
  CHECK(text.find(">devices 768-1023<") != std::string::npos);
  CHECK(text.find("share a row") != std::string::npos);
}

TEST_CASE("SVG: rows are high enough to be seen, however many differ") {
  const Timeline timeline =
      run(gpipe({.devices = 300, .microbatches = 2}), chunk_costs(10ms, 20ms));
  int rows = 0;
  for (const auto& [name, element] : parse(draw_svg(timeline))) {
    if (name != "rect" || element.get<std::string>("<xmlattr>.class") != "row") continue;
    ++rows;
    CHECK(number(element, "height") == 8);
  }
  CHECK(rows == 300);
}
