// The zero-bubble family: closed forms in their ranges, published bubble rates, automatic
// schedules.

#include <cmath>
#include <filesystem>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Times of one whole device and one microbatch.
struct Times {
  Duration forward, input, weight, transfer{0};
  Duration total() const { return forward + input + weight; }
};

/// Divisible by the numbers of virtual stages used here; short, equal and long W.
const std::vector<Times> works{{600ns, 600ns, 600ns},
                               {1200ns, 1440ns, 960ns},
                               {1200ns, 960ns, 1440ns},
                               {600ns, 120ns, 1200ns},
                               {1200ns, 600ns, 600ns}};

Timeline simulated(const Schedule& schedule, const Times& work, int virtual_stages = 1) {
  return run(schedule, split_costs(work.forward, work.input, work.weight, virtual_stages),
             work.transfer);
}

Duration longest_span(const Timeline& timeline) {
  const std::vector<Duration> spans = span_times(timeline);
  return *std::max_element(spans.begin(), spans.end());
}

std::vector<int> repeated(int devices, int value) {
  return std::vector<int>(index(devices), value);
}

/// (p, m) with p from 2 to 16 and m from `least(p)` on.
template <class Least>
std::vector<Shape> pipelines(Least least) {
  std::vector<Shape> shapes;
  for (const int p : {2, 3, 4, 5, 7, 8, 11, 16}) {
    for (const int more : {0, 1, p, 2 * p + 1}) shapes.push_back({p, least(p) + more});
  }
  return shapes;
}

/// A row of the ICLR 2024 paper: what was measured, and the published bubble rates of its
/// schedules.
struct Published {
  int devices, microbatches, virtual_stages;
  Times work;
  Bytes saved, saved_for_weight;
  Json rates;

  double rate(const Timeline& timeline) const {
    const double span = static_cast<double>(longest_span(timeline).count());
    return 1 - static_cast<double>((microbatches * work.total()).count()) / span;
  }
  ScheduleShape shape() const { return {.devices = devices, .microbatches = microbatches}; }
};

struct Named {
  const char* name;
  Schedule (*generate)(const ScheduleShape& shape);
};

std::filesystem::path published_file() {
  return std::filesystem::path(shared_folder()) / "oracles" / "zero_bubble_iclr24.json";
}

/// The paper's milliseconds have three decimals.
Duration milliseconds(const Json& json) {
  return Duration{std::llround(json.number() * 1000) * 1000};
}

std::vector<Published> published() {
  const Json file = Json::read(published_file());
  const auto times = file["table9_times_ms"].elements();
  const auto rates = file["table5_bubble_rates"].elements();
  std::vector<Published> rows;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto model = file["setup"]["models"][times[i]["model"].string()].elements();
    const int devices = times[i]["p"].small_integer(1, 1000);
    const Bytes layers = model[0].small_integer(1, 1000);
    const Bytes heads = model[1].small_integer(1, 1000);
    const Bytes hidden = model[2].small_integer(1, 100'000);
    const Bytes sequence = 1024;
    rows.push_back({.devices = devices,
                    .microbatches = times[i]["m"].small_integer(1, 1000),
                    .virtual_stages = static_cast<int>((layers + 2) / devices),
                    .work = {milliseconds(times[i]["TF"]), milliseconds(times[i]["TB"]),
                             milliseconds(times[i]["TW"]), milliseconds(times[i]["Tcomm"])},
                    // Bytes per token and layer: 34h + 5as, of which I frees all but 32h.
                    .saved = 34 * hidden + 5 * heads * sequence,
                    .saved_for_weight = 32 * hidden,
                    .rates = rates[i]});
  }
  return rows;
}

}  // namespace

TEST_CASE("ZB-H1 takes m(f + i + w) + (p - 1)(f + max(0, i - w)), not less for a long W") {
  for (const auto& [p, m] : pipelines([](int devices) { return devices; })) {
    const Schedule schedule = zb_h1({.devices = p, .microbatches = m});
    CHECK(peak_in_flight(schedule, false) == repeated(p, p));
    for (const Times& work : works) {
      CAPTURE(p, m, work.input.count(), work.weight.count());
      const Timeline timeline = simulated(schedule, work);
      CHECK(step_time(timeline) ==
            m * work.total() + (p - 1) * (work.forward + std::max(0ns, work.input - work.weight)));
      // The paper's formula is the same only while w <= i.
      const Duration paper = m * work.total() + (p - 1) * (work.forward + work.input - work.weight);
      CHECK((step_time(timeline) == paper) == (work.weight <= work.input));
    }
  }
}

TEST_CASE("ZB-H2 leaves (p - 1)max(0, f + i - 2w) of span and (p - 1)max(f, f + i - 2w) of step") {
  for (const auto& [p, m] : pipelines([](int devices) { return 2 * devices - 1; })) {
    const Schedule schedule = zb_h2({.devices = p, .microbatches = m});
    CHECK(peak_in_flight(schedule, false) == repeated(p, 2 * p - 1));
    for (const Times& work : works) {
      CAPTURE(p, m, work.input.count(), work.weight.count());
      const Duration excess = work.forward + work.input - 2 * work.weight;
      const Timeline timeline = simulated(schedule, work);
      CHECK(longest_span(timeline) == m * work.total() + (p - 1) * std::max(0ns, excess));
      CHECK(step_time(timeline) == m * work.total() + (p - 1) * std::max(work.forward, excess));
    }
  }
}

TEST_CASE("interleaved-zb takes m(f + i + w) + (p - 1)(f + max(0, i - w)) / v for groups of p") {
  for (const auto& [p, rounds] :
       std::vector<Shape>{{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 2}, {16, 1}}) {
    for (const int v : {1, 2, 3, 4}) {
      const int m = rounds * p;
      const Schedule schedule =
          interleaved_zb({.devices = p, .microbatches = m, .virtual_stages = v});
      CHECK(peak_in_flight(schedule, false) == repeated(p, p * v));
      for (const Times& work : works) {
        CAPTURE(p, m, v, work.input.count(), work.weight.count());
        CHECK(step_time(simulated(schedule, work, v)) ==
              m * work.total() +
                  (p - 1) * (work.forward + std::max(0ns, work.input - work.weight)) / v);
      }
    }
  }
}

TEST_CASE("the last iteration apart, ZB-H2 and ZB-V work without a break when f = i = w") {
  const Times equal = works.front();
  for (const int p : {2, 4, 7}) {
    const int m = 2 * p;
    for (const auto& [schedule, v] :
         {std::pair(zb_h2({.devices = p, .microbatches = m}), 1),
          std::pair(zb_v({.devices = p, .microbatches = m, .virtual_stages = 2}), 2)}) {
      CAPTURE(schedule.name, p);
      const Program program = lower(schedule);
      const Costs costs =
          uniform(program, split_costs(equal.forward, equal.input, equal.weight, v));
      const Timeline four = simulate(program, costs, {.iterations = 4, .barrier = false});
      const Timeline five = simulate(program, costs, {.iterations = 5, .barrier = false});
      CHECK(step_time(five) - step_time(four) == m * equal.total());
    }
  }
}

TEST_CASE("published bubble rates of 1F1B, ZB-H1 and ZB-H2 are ours to four decimals") {
  if (!std::filesystem::exists(published_file())) SKIP("no reference data at " + shared_folder());
  for (const Published& row : published()) {
    CAPTURE(row.devices, row.microbatches);
    for (const auto& [name, generate] :
         std::vector<Named>{{"1F1B", one_f_one_b}, {"ZB-H1", zb_h1}, {"ZB-H2", zb_h2}}) {
      const double rate = row.rate(simulated(generate(row.shape()), row.work));
      CHECK(rate == Approx(row.rates[name].number()).margin(1e-4));
    }
  }
}

TEST_CASE("published bubble rates of interleaved 1F1B are ours but for how transfers count") {
  if (!std::filesystem::exists(published_file())) SKIP("no reference data at " + shared_folder());
  for (const Published& row : published()) {
    CAPTURE(row.devices, row.microbatches, row.virtual_stages);
    // Times that virtual stages divide: a share of each, rounded, times their number.
    const int v = row.virtual_stages;
    const Times work{row.work.forward / v * v, row.work.input / v * v, row.work.weight / v * v,
                     row.work.transfer};
    ScheduleShape shape = row.shape();
    shape.virtual_stages = v;
    const double rate = row.rate(simulated(interleaved(shape), work, v));
    const double expected = row.rates["1F1B-I"].number();
    CHECK(rate == Approx(expected).margin(0.004));
    // The paper counts p messages less on the way than there are.
    const int p = row.devices;
    const double all = static_cast<double>((row.microbatches * row.work.total()).count());
    const double ramp = static_cast<double>((p - 1) * row.work.total().count()) / v;
    const double paper =
        ramp + (2.0 * (p * v - 1) - p) * static_cast<double>(row.work.transfer.count());
    CHECK(paper / (all + paper) == Approx(expected).margin(1e-4));
  }
}

TEST_CASE("zb-1p and zb-2p are no worse than the published automatic schedules", "[seconds]") {
  if (!std::filesystem::exists(published_file())) SKIP("no reference data at " + shared_folder());
  for (const Published& row : published()) {
    CAPTURE(row.devices, row.microbatches);
    ScheduleShape shape = row.shape();
    shape.hints = {.forward = row.work.forward,
                   .backward_input = row.work.input,
                   .backward_weight = row.work.weight,
                   .transfer = row.work.transfer,
                   .saved = row.saved,
                   .saved_for_weight = row.saved_for_weight};
    for (const auto& [name, generate] : std::vector<Named>{{"ZB-1p", zb_1p}, {"ZB-2p", zb_2p}}) {
      const double rate = row.rate(simulated(generate(shape), row.work));
      CHECK(rate <= row.rates[name].number() + 0.002);
    }
  }
}

TEST_CASE("zb-auto keeps to its memory, and more memory never makes it slower") {
  for (const int p : {1, 2, 4, 5}) {
    for (const int m : {1, p, 3 * p}) {
      Duration before = Duration::max();
      for (int in_flight = 1; in_flight <= 2 * p; ++in_flight) {
        CAPTURE(p, m, in_flight);
        const Schedule schedule =
            zb_auto({.devices = p, .microbatches = m, .in_flight = in_flight});
        for (const int peak : peak_in_flight(schedule, false)) CHECK(peak <= in_flight);
        const Timeline timeline = simulated(schedule, works.front());
        const Duration score = step_time(timeline) + longest_span(timeline);
        CHECK(score <= before);
        before = score;
      }
    }
  }
}

TEST_CASE("zb-auto is at least as good as ZB-H1 and ZB-H2 in their memory") {
  for (const Times& work : works) {
    const ScheduleHints hints{
        .forward = work.forward, .backward_input = work.input, .backward_weight = work.weight};
    const auto score = [&](const Schedule& schedule) {
      const Timeline timeline = simulated(schedule, work);
      return step_time(timeline) + longest_span(timeline);
    };
    for (const int p : {3, 6}) {
      ScheduleShape shape{.devices = p, .microbatches = 3 * p};
      const Duration h1 = score(zb_h1(shape));
      const Duration h2 = score(zb_h2(shape));
      shape.hints = hints;
      CHECK(score(zb_1p(shape)) <= h1);
      CHECK(score(zb_2p(shape)) <= h2);
    }
  }
}

TEST_CASE("memory for microbatches in flight is refused where nothing asks for it") {
  for (const ScheduleKind& kind : schedule_kinds) {
    ScheduleShape shape{.devices = 2, .microbatches = 4};
    shape.virtual_stages = fewest_virtual_stages(kind.placement);
    shape.in_flight = 3;
    const bool automatic = kind.name == "zb-auto" || kind.name == "zbv-auto";
    CAPTURE(std::string(kind.name));
    CHECK(generated(kind, shape).has_value() == automatic);
    shape.in_flight = 0;
    CHECK_FALSE(generated(kind, shape));
  }
}
