#include <cmath>
#include <numbers>
#include <random>

#include "planner/calibration/ledger.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;

namespace {

/// Of a normal variable, the same with every library (Box and Muller).
double normal(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11U) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

/// Rows of so many kernels each on the host, `noise` off, and their families `apart`.
MeasuredSet noisy(int families, int rows, double noise, double apart, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MeasuredSet set{.name = "noisy", .device = "a100-80gb"};
  set.unknowns = {"host_seconds"};
  set.start.host_seconds = 1e-5;
  for (int family = 0; family < families; ++family) {
    const double shift = apart * normal(random);
    for (int i = 0; i < rows; ++i) {
      const double kernels = 1000.0 * (i + 1);
      MeasuredRow row{.label = concat(family, '/', i), .family = concat(family)};
      row.kind = row.family;
      row.seconds = 2e-5 * kernels * std::exp(shift + noise * normal(random));
      row.predict = [kernels](const KernelConstants& constants, double) {
        return constants.host_seconds * kernels;
      };
      set.rows.push_back(std::move(row));
    }
  }
  return set;
}

/// Means over sets that differ in their noise alone.
struct Means {
  double interval = 0, covered = 0;
};
Means means_of(int families, int rows, double noise, double apart, Claim claim, int sets = 60) {
  Means means;
  for (int seed = 1; seed <= sets; ++seed) {
    const auto at = static_cast<std::uint64_t>(seed);
    const SetResult result = replay(noisy(families, rows, noise, apart, at), claim, at);
    REQUIRE(result.interval);
    means.interval += *result.interval / sets;
    means.covered += result.covered / sets;
  }
  return means;
}

}  // namespace

TEST_CASE("four of five rows that were not fitted lie within the interval whatever the noise is") {
  for (const double noise : {0.01, 0.05, 0.2}) {
    if (is_watched && noise != 0.05) continue;
    INFO("noise " << noise);
    const Means means = means_of(10, 8, noise, 0, Claim::in_family);
    CHECK(means.covered > 0.76);
    CHECK(means.covered < 0.87);
    // p90 is 1.28 standard deviations away.
    CHECK(std::log1p(means.interval) == Approx(1.2816 * noise).epsilon(0.15));
  }
}

TEST_CASE("out of family the interval holds what families differ by") {
  const Means out = means_of(40, 4, 0.02, 0.1, Claim::out_of_family);
  CHECK(out.covered > 0.7);
  CHECK(out.covered < 0.9);
  CHECK(std::log1p(out.interval) == Approx(1.2816 * std::hypot(0.02, 0.1)).epsilon(0.25));
}

TEST_CASE("from three rows an interval is wider than from thirty") {
  const Means few = means_of(1, 12, 0.05, 0, Claim::in_family, is_watched ? 40 : 400);
  const Means many = means_of(1, 120, 0.05, 0, Claim::in_family, is_watched ? 10 : 60);
  CHECK(few.interval > many.interval);
  if (is_watched) return;  // too few for means
  CHECK(few.covered > 0.76);
  CHECK(few.covered < 0.88);
}

TEST_CASE("one row has no interval and neither has one family or what nothing was fitted for") {
  MeasuredSet set = noisy(1, 8, 0.05, 0, 1);
  set.fit_on = set.rows.front().label;
  CHECK(!replay(set, Claim::one_row, 1).interval);
  CHECK(!replay_with(set, {.constants = set.start}).interval);
  // Of how families differ, one family says nothing.
  CHECK(!replay(noisy(5, 8, 0.05, 0.1, 1), Claim::out_of_family, 1).interval);
  CHECK(replay(noisy(8, 8, 0.05, 0.1, 1), Claim::out_of_family, 1).interval);
}
