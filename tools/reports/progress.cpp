#include "tools/reports/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

constexpr int bar_width = 24;
constexpr std::string_view clear_line = "\r\x1b[K";
constexpr auto before_drawing = 1s;
constexpr auto before_first_line = 2s;
constexpr auto between_lines = 5s;
constexpr auto between_drawings = 100ms;
constexpr auto between_ticks = 500ms;

/// The innermost. Verbs make and end them on one thread.
Progress* shown = nullptr;

/// "45s", "3min 20s", "2h 05min".
std::string in_words(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}min {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}min", whole / 3600, whole % 3600 / 60);
}

/// Nobody may be there to see it: standard error may be closed, or a file on a disk that is full,
/// which is no reason to end. (fmt::print throws then.)
void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(const Console& console, std::string what, TimeLeft time_left)
    : what_(std::move(what)),
      time_left_(time_left),
      draws_(console.person_reads_errors()),
      unicode_(console.unicode()),
      start_(Clock::now()) {
  const char* wish = std::getenv("STAGECRAFT_PROGRESS");
  const bool is_unwanted = wish != nullptr && std::string_view(wish) == "never";
  enabled_ = !console.options().quiet && (draws_ || (!console.json() && !is_unwanted));
  next_ = start_ + (draws_ ? before_drawing : before_first_line);
  outer_ = std::exchange(shown, this);
  if (outer_ != nullptr) outer_->hide(true);
  if (!enabled_) return;
  try {
    ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
  } catch (const std::system_error&) {
    // Without a thread there are lines only where there is news.
  }
}

void Progress::hide(bool hidden) {
  clear();
  const std::lock_guard lock(mutex_);
  hidden_ = hidden;
}

void Progress::clear_shown() {
  if (shown != nullptr) shown->clear();
}

Progress::~Progress() {
  if (ticker_.joinable()) {
    ticker_.request_stop();
    ticker_.join();
  }
  clear();
  shown = outer_;
  if (outer_ != nullptr) outer_->hide(false);
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (drawn_) say(clear_line);
  drawn_ = false;
}

void Progress::update(double done, std::string_view detail) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  done_ = done;
  detail_ = detail;
  if (const auto now = Clock::now(); now >= next_) show(now);
}

/// News may take long to come.
void Progress::tick(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    ticks_.wait_for(lock, stop, between_ticks, [] { return false; });
    const auto now = Clock::now();
    if (!stop.stop_requested() && !hidden_ && now >= next_) show(now);
  }
}

std::string Progress::times(Clock::time_point now) const {
  const double gone = std::chrono::duration<double>(now - start_).count();
  constexpr double enough = 0.01;
  if (time_left_ == TimeLeft::in_proportion && done_ >= enough)
    return fmt::format("{}, about {} left", in_words(gone), in_words(gone * (1 - done_) / done_));
  return in_words(gone);
}

void Progress::show(Clock::time_point now) {
  const double part = std::clamp(done_, 0.0, 1.0);
  if (!draws_) {
    next_ = now + between_lines;
    const std::string done = done_ < 0 ? "" : fmt::format(": {:.0f} %", 100 * part);
    say(concat(what_, done, detail_.empty() ? "" : ", ", detail_, " (", times(now), ")\n"));
    return;
  }
  next_ = now + between_drawings;
  drawn_ = true;
  if (done_ < 0) {
    say(concat(clear_line, what_, " ", times(now)));
    return;
  }
  const int full = static_cast<int>(part * bar_width);
  std::string bar;
  for (int i = 0; i < bar_width; ++i)
    bar += i < full ? (unicode_ ? "█" : "#") : (unicode_ ? "░" : ".");
  say(fmt::format("{}{} {} {:3.0f} %  {}  {}", clear_line, what_, bar, 100 * part, detail_,
                  times(now)));
}

}  // namespace stagecraft
