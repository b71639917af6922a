#include "tools/reports/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

constexpr int bar_width = 24;
constexpr std::string_view clear_line = "\r\x1b[K";

}  // namespace

Progress::Progress(const Console& console, std::string what)
    : what_(std::move(what)),
      enabled_(console.person_reads_errors() && !console.options().quiet && !console.json()),
      unicode_(console.unicode()),
      next_(Clock::now() + 1s) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "{}", clear_line);
}

void Progress::update(double done, std::string_view detail) {
  const auto now = Clock::now();
  if (!enabled_ || now < next_) return;
  next_ = now + 100ms;
  drawn_ = true;
  const int full = static_cast<int>(std::clamp(done, 0.0, 1.0) * bar_width);
  std::string bar;
  for (int i = 0; i < bar_width; ++i)
    bar += i < full ? (unicode_ ? "█" : "#") : (unicode_ ? "░" : ".");
  fmt::print(stderr, "{}{} {} {:3.0f} %  {}", clear_line, what_, bar, 100 * done, detail);
  std::fflush(stderr);
}

}  // namespace stagecraft
