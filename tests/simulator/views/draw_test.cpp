#include "simulator/views/draw.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using std::chrono::milliseconds;

namespace {

Span span(int device, Op op, int microbatch, int start, int end) {
  return {.device = device,
          .lane = lane_of(op),
          .instruction = {op, device, microbatch},
          .start = milliseconds(start),
          .end = milliseconds(end)};
}

/// Two devices, two microbatches; one unit of time is one column of a bar of 20.
Timeline pipeline() {
  return {.devices = 2,
          .stages = 2,
          .microbatches = 2,
          .spans = {span(0, Op::forward, 0, 0, 3), span(0, Op::send_activation, 0, 3, 4),
                    span(0, Op::forward, 1, 3, 6), span(0, Op::backward, 0, 10, 14),
                    span(0, Op::backward, 1, 16, 20), span(1, Op::forward, 0, 3, 6),
                    span(1, Op::backward, 0, 6, 10), span(1, Op::forward, 1, 10, 12),
                    span(1, Op::backward, 1, 12, 16)}};
}

/// Width of a picture of these devices without memory whose bars have so many columns.
constexpr int width_for(int bar) {
  return 17 + bar;
}

int columns(const std::string& line) {
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::string> lines(const std::string& text) {
  auto result = split(text, '\n');
  REQUIRE(!result.empty());
  REQUIRE(result.back().empty());
  result.pop_back();
  return result;
}

}  // namespace

TEST_CASE("draw: a pipeline, one column per millisecond") {
  CHECK(draw(pipeline(), {.width = width_for(20)}) ==
        " d0 │0██1██····0▓▓▓··1▓▓▓│  70 % busy\n"
        " d1 │···0██0▓▓▓1█1▓▓▓····│  65 %\n"
        "     digit = microbatch, █ forward ▓ backward · idle, 20 columns = 20ms\n");
}

TEST_CASE("draw: the same in ASCII") {
  CHECK(draw(pipeline(), {.width = width_for(20), .unicode = false}) ==
        " d0 |0FF1FF....0fff..1fff|  70 % busy\n"
        " d1 |...0FF0fff1F1fff....|  65 %\n"
        "     digit = microbatch, F forward f backward . idle, 20 columns = 20ms\n");
}

TEST_CASE(
    "draw: half the columns; each shows what fills most of it, and one column has no room for a "
    "digit") {
  // d0's second column holds F0's last millisecond and F1's first: the earlier one wins a tie.
  CHECK(draw(pipeline(), {.width = width_for(10)}) ==
        " d0 │0██··0▓·1▓│  70 % busy\n"
        " d1 │·0█0▓█1▓··│  65 %\n"
        "     digit = microbatch, █ forward ▓ backward · idle, 10 columns = 20ms\n");
}

TEST_CASE("draw: what wins no column takes an idle one, and what stays unseen is counted") {
  const Timeline timeline{
      .devices = 1,
      .stages = 1,
      .microbatches = 3,
      .spans = {span(0, Op::forward, 0, 0, 1), span(0, Op::forward, 1, 12, 13),
                span(0, Op::backward, 0, 30, 33), span(0, Op::forward, 2, 33, 34),
                span(0, Op::backward, 1, 34, 40), span(0, Op::update, 2, 40, 40)}};
  CHECK(draw(timeline, {.width = width_for(10)}) ==
        " d0 │█··█···▓1▓│  30 % busy\n"
        "     digit = microbatch, █ forward ▓ backward · idle, 10 columns = 40ms, 1 too short to "
        "show\n");
}

TEST_CASE("draw: split backwards, recomputation and updates have looks of their own") {
  const Timeline timeline{
      .devices = 1,
      .stages = 1,
      .microbatches = 13,
      .spans = {span(0, Op::forward, 12, 0, 3), span(0, Op::recompute, 12, 3, 5),
                span(0, Op::backward_input, 12, 5, 9), span(0, Op::backward_weight, 12, 9, 11),
                span(0, Op::update, 12, 11, 12)}};
  // Three columns hold both digits, two only the last. An update is no work on the batch: 11 of 12
  // columns are.
  CHECK(draw(timeline, {.width = width_for(12)}) ==
        " d0 │12█2▒12▚▚2░▄│  92 % busy\n"
        "     digit = microbatch, █ forward ▚ input gradient ░ weight gradient ▒ recompute ▄ "
        "update · idle, 12 columns = "
        "12ms\n");
  CHECK(split(draw(timeline, {.width = width_for(12), .unicode = false}), '\n')[0] ==
        " d0 |12F2r12ii2wu|  92 % busy");
}

TEST_CASE("draw: memory stands at the right, on one scale for all devices") {
  Timeline timeline = pipeline();
  const auto bytes = [](Bytes activations) { return MemoryUse{0, 0, 0, 0, activations, 0, 0}; };
  timeline.memory = {
      {{milliseconds(0), bytes(8)}, {milliseconds(10), bytes(4)}, {milliseconds(15), bytes(2)}},
      {{milliseconds(5), bytes(1)}, {milliseconds(20), bytes(0)}}};
  const std::string text = draw(timeline, {.width = width_for(20) + 21});
  CHECK(split(text, '\n')[0] == " d0 │0██1██····0▓▓▓··1▓▓▓│  70 % busy  8B ████████▄▄▄▄▂▂▂▂");
  CHECK(split(text, '\n')[1] == " d1 │···0██0▓▓▓1█1▓▓▓····│  65 %       1B     ▁▁▁▁▁▁▁▁▁▁▁▁");
  const std::string plain = draw(timeline, {.width = width_for(20) + 21, .unicode = false});
  CHECK(split(plain, '\n')[0] == " d0 |0FF1FF....0fff..1fff|  70 % busy  8B ########----....");
  CHECK(draw(timeline, {.width = width_for(20), .memory = false}) ==
        draw(pipeline(), {.width = width_for(20)}));
}

TEST_CASE("draw: the graph goes first where it gets narrow, then the figure") {
  Timeline timeline = pipeline();
  timeline.memory = {{{milliseconds(0), MemoryUse{7}}}, {{milliseconds(0), MemoryUse{7}}}};
  CHECK_THAT(draw(timeline, {.width = 52}), ContainsSubstring("█"));
  const auto ending = [&](int width) {
    const std::string line = split(draw(timeline, {.width = width}), '\n')[0];
    return line.substr(line.find("busy"));
  };
  CHECK(ending(48) == "busy  7B ████████████████");
  CHECK(ending(47) == "busy  7B");
  CHECK(ending(30) == "busy");
}

TEST_CASE("draw: nothing at all is drawn as idle") {
  const Timeline timeline{.devices = 2, .stages = 2, .microbatches = 1};
  CHECK(draw(timeline, {.width = width_for(12)}) ==
        " d0 │············│   0 % busy\n"
        " d1 │············│   0 %\n"
        "     digit = microbatch, · idle\n");
  CHECK(draw(Timeline{}).empty());
}

TEST_CASE("draw: colours follow the shades and never replace them") {
  const std::string colored = draw(pipeline(), {.width = width_for(20), .color = true});
  const std::string plain = draw(pipeline(), {.width = width_for(20)});
  CHECK_THAT(colored, ContainsSubstring("\x1b[38;2;0;114;178m0██\x1b[0m"));
  std::string stripped;
  for (std::size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\x1b')
      i = colored.find('m', i);
    else
      stripped += colored[i];
  }
  CHECK(stripped == plain);
}

TEST_CASE("draw: whatever the timeline, lines are as wide as asked and hold no escapes") {
  std::mt19937 random(7);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  for (int round = 0; round < 200; ++round) {
    Timeline timeline{.devices = 1 + below(12), .stages = 12, .microbatches = 100};
    for (int device = 0; device < timeline.devices; ++device) {
      int time = below(50);
      for (int count = below(40); count > 0; --count) {
        const int start = time + below(4);
        time = start + below(9);
        timeline.spans.push_back(span(device, static_cast<Op>(below(5)), below(100), start, time));
      }
      if (round % 2 == 0)
        timeline.memory.push_back({{milliseconds(below(9)), MemoryUse{below(1000)}}});
    }
    const DrawOptions options{.width = 50 + below(100), .unicode = below(2) == 0};
    const auto picture = lines(draw(timeline, options));
    REQUIRE(picture.size() == static_cast<std::size_t>(timeline.devices) + 1);
    const std::string wall = options.unicode ? "│" : "|";
    for (int device = 0; device < timeline.devices; ++device) {
      const std::string& line = picture[static_cast<std::size_t>(device)];
      CHECK(columns(line) <= options.width);
      const auto first = line.find(wall);
      const auto last = line.rfind(wall);
      CHECK(columns(line.substr(first, last - first)) ==
            columns(picture[0].substr(picture[0].find(wall),
                                      picture[0].rfind(wall) - picture[0].find(wall))));
    }
    CHECK(draw(timeline, options).find('\x1b') == std::string::npos);
    CHECK(draw(timeline, options) == draw(timeline, options));
  }
}

TEST_CASE("draw: times far beyond a day do not overflow") {
  const Timeline timeline{.devices = 1,
                          .stages = 1,
                          .microbatches = 1,
                          .spans = {{.instruction = {Op::forward, 0, 0},
                                     .start = Duration(0),
                                     .end = Duration(INT64_MAX / 2)},
                                    {.instruction = {Op::backward, 0, 0},
                                     .start = Duration(INT64_MAX / 2),
                                     .end = Duration::max()}}};
  CHECK(split(draw(timeline, {.width = width_for(10)}), '\n')[0] == " d0 │0████0▓▓▓▓│ 100 % busy");
}

TEST_CASE("draw: a schedule is one line of instructions per device") {
  Schedule schedule{
      .stages = 2,
      .microbatches = 1,
      .device_of_stage = {0, 1},
      .devices = {{{Op::forward, 0, 0}, {Op::backward_input, 0, 0}, {Op::backward_weight, 0, 0}},
                  {{Op::forward, 1, 0}, {Op::backward, 1, 0}}}};
  CHECK(draw(schedule) ==
        " d0 │ F0 I0 W0\n"
        " d1 │ F0 B0\n");
  schedule.devices = {
      {{Op::forward, 0, 0}, {Op::forward, 1, 0}, {Op::backward, 1, 0}, {Op::backward, 0, 0}}};
  CHECK(draw(schedule, {.unicode = false}) == " d0 | 0F0 1F0 1B0 0B0\n");
}

TEST_CASE("a drawing's last line says which device the longest chain is on") {
  const Timeline timeline = pipeline();
  // F0.0, its message, F1.0 … B1.1, B0.1; from 3 to 4 on its way.
  Timeline late = timeline;
  for (Span& moved : late.spans) {
    if (moved.device != 1) continue;
    moved.start += milliseconds(1);
    moved.end += milliseconds(1);
  }
  const std::vector<char> critical{1, 1, 0, 0, 1, 1, 1, 1, 1};
  const auto drawn = lines(draw(timeline, {.width = width_for(20), .critical = critical}));
  CHECK(drawn[2] == " ▲  │00011111111111110000│ longest chain: its device");
  const auto moved =
      lines(draw(late, {.width = width_for(20), .unicode = false, .critical = critical}));
  CHECK(moved[2] == " ^  |000>1111111111110000| longest chain: its device");
  // Nothing to say without marks, or with those of another timeline.
  CHECK(lines(draw(timeline, {.width = width_for(20)})).size() == 3);
  CHECK(lines(draw(timeline, {.width = width_for(20), .critical = {1, 1}})).size() == 3);
}

TEST_CASE("draw: of more than 16 devices, replicas share a row, which says how many they are") {
  const Timeline single =
      run(one_f_one_b({.devices = 2, .microbatches = 4}), chunk_costs(10ms, 20ms));
  CHECK(lines(draw(replicated(single, 8))).size() == 16 + 1);
  std::vector<int> names;
  for (int device = 0; device < 34; ++device) names.push_back(8 * device);
  const Timeline many = replicated(single, 17);
  std::vector<char> critical;  // what the last replica of the last stage does
  for (const Span& span : many.spans) critical.push_back(span.device == 33 ? 1 : 0);
  const auto drawn = lines(draw(many, {.critical = critical, .device_names = names}));
  REQUIRE(drawn.size() == 2 + 1 + 2);
  CHECK(drawn[0].starts_with(" d0 ×17   │"));
  CHECK(drawn[1].starts_with(" d136 ×17 │"));
  CHECK(drawn[2].find('6') != std::string::npos);
  CHECK(drawn[4].ends_with("×N: a row for N replicas, which do the same at the same times"));
}
