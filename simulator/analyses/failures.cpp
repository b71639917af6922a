#include "simulator/analyses/failures.hpp"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Below, a run may take longer than anybody waits, simulated or not.
constexpr double least_goodput = 1e-3;

void require_sensible(const FailureModel& model) {
  if (model.devices < 1) fail_usage("failures: needs at least one device, not ", model.devices);
  if (model.between_failures <= Duration{0}) fail_usage("failures: never any time between them");
  if (model.interval <= Duration{0}) fail_usage("failures: no work between checkpoints");
  if (model.checkpoint < Duration{0} || model.recovery < Duration{0}) {
    fail_usage("failures: checkpoint and recovery take 0 or more");
  }
}

/// Nanoseconds between failures of the whole run.
double mean_time(const FailureModel& model) {
  return static_cast<double>(model.between_failures.count()) / model.devices;
}

double nanoseconds(Duration duration) {
  return static_cast<double>(duration.count());
}

Duration add(Duration a, Duration b) {
  Duration::rep sum = 0;
  if (__builtin_add_overflow(a.count(), b.count(), &sum)) {
    fail("failures: the run takes more than 292 years");
  }
  return Duration{sum};
}

/// Times of failures of one sample, one after the other.
class Failures {
 public:
  Failures(const FailureModel& model, std::uint64_t seed, int sample)
      : mean_(mean_time(model)),
        key_{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)}},
        sample_(static_cast<std::uint32_t>(sample)) {
    next_ = draw();
  }

  Duration next() const { return next_; }
  int count() const { return static_cast<int>(drawn_) - 1; }
  void strike() { next_ = add(next_, draw()); }

 private:
  Duration draw() {
    const auto words = r123::Philox4x32{}({{sample_, drawn_++, 0, 0}}, key_);
    const std::uint64_t bits = (std::uint64_t{words[0]} << 32U | words[1]) >> 11U;
    const double uniform = (static_cast<double>(bits) + 0.5) * 0x1p-53;  // in (0, 1)
    const double time = -std::log(uniform) * mean_;
    return time < 0x1p63 ? Duration{static_cast<Duration::rep>(time)} : Duration::max();
  }

  double mean_;
  r123::Philox4x32::key_type key_;
  std::uint32_t sample_;
  std::uint32_t drawn_ = 0;
  Duration next_{0};
};

/// When the work is done.
Duration finish(const FailureModel& model, Duration work, Failures& failures) {
  Duration now{0};
  Duration done{0};  // and safe
  while (done < work) {
    const Duration piece = std::min(model.interval, work - done);
    const bool last = done + piece == work;
    const Duration end = add(now, last ? piece : add(piece, model.checkpoint));
    if (end <= failures.next()) {
      now = end;
      done += piece;
      continue;
    }
    do {
      now = add(failures.next(), model.recovery);
      failures.strike();
    } while (failures.next() < now);
  }
  return now;
}

/// The smallest that `percent` of all do not exceed.
double percentile(const std::vector<double>& sorted, double percent) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

double goodput(const FailureModel& model) {
  require_sensible(model);
  const double mean = mean_time(model);
  const double interval = nanoseconds(model.interval);
  return interval / (mean * std::exp(nanoseconds(model.recovery) / mean) *
                     std::expm1((interval + nanoseconds(model.checkpoint)) / mean));
}

Duration young_interval(const FailureModel& model) {
  require_sensible(model);
  return Duration{std::llround(std::sqrt(2 * nanoseconds(model.checkpoint) * mean_time(model)))};
}

Duration daly_interval(const FailureModel& model) {
  require_sensible(model);
  const double mean = mean_time(model);
  const double checkpoint = nanoseconds(model.checkpoint);
  if (checkpoint >= 2 * mean) return Duration{std::llround(mean)};
  const double ratio = checkpoint / (2 * mean);
  return Duration{std::llround(
      std::sqrt(2 * checkpoint * mean) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - checkpoint)};
}

/// So many checkpoints and failures take some seconds.
constexpr double most_events = 1e8;

/// Throws Error (input) for runs that have more of them, all samples together.
static void require_events(const FailureModel& model, const FailureOptions& options) {
  const double work = nanoseconds(options.work);
  const double checkpoints = work / std::max(1.0, nanoseconds(model.interval));
  const double failures = work / goodput(model) / std::max(1.0, mean_time(model));
  const double events = (checkpoints + failures) * options.samples;
  if (events <= most_events) return;
  fail("failures: ", options.samples, " runs of ", format_duration(options.work), " have about ",
       static_cast<std::int64_t>(std::min(events, 1e18)),
       " checkpoints and failures, more than the ", static_cast<std::int64_t>(most_events),
       " that are simulated; ask for shorter runs, fewer samples, or longer between checkpoints");
}

GoodputSamples simulate_failures(const FailureModel& model, const FailureOptions& options) {
  require_sensible(model);
  if (options.samples < 1) fail_usage("failures: needs at least one sample");
  if (options.work <= Duration{0}) fail_usage("failures: no work to be done");
  if (goodput(model) < least_goodput) {
    fail("failures: they are so frequent that less than ", least_goodput,
         " of the time is work; checkpoint more often, or recover faster");
  }
  require_events(model, options);
  GoodputSamples result;
  std::vector<double> rates;
  for (int sample = 0; sample < options.samples; ++sample) {
    Failures failures(model, options.seed, sample);
    const Duration time = finish(model, options.work, failures);
    rates.push_back(nanoseconds(options.work) / nanoseconds(time));
    result.mean += rates.back() / options.samples;
    result.failures += static_cast<double>(failures.count()) / options.samples;
  }
  std::sort(rates.begin(), rates.end());
  result.p5 = percentile(rates, 5);
  result.p50 = percentile(rates, 50);
  result.p95 = percentile(rates, 95);
  return result;
}

}  // namespace stagecraft
