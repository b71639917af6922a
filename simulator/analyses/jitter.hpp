// What varying times do to a step: many samples of the same program, each time drawn anew.
//
// Draws come from a counter-based generator (Philox-4x32: Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", 2011), whose input is the seed, the sample and what the instruction is. So a
// sample is the same in whatever order and company it is computed, and programs that are compared
// meet the same luck: F3.7 is as slow under one schedule as under the other.

#pragma once

#include <cstdint>
#include <vector>

#include "simulator/engines/compiled.hpp"

namespace stagecraft {

enum class Distribution {
  uniform,     ///< between 1 - spread and 1 + spread
  log_normal,  ///< spread is the standard deviation of the logarithm; the mean is 1
};

/// Every time is multiplied with factors of mean 1. A spread of 0 leaves it as it is.
struct Jitter {
  Distribution distribution = Distribution::uniform;
  double instruction = 0;  ///< spread of each computation, message and collective on its own
  double device = 0;       ///< of a device: one factor for all its computations
  double channel = 0;      ///< of a channel: one factor for all its messages
  int samples = 1000;
  std::uint64_t seed = 0;
};

/// The step of each sample. Throws Error (usage) for negative or too wide spreads (uniform: 1;
/// log-normal: 2 in all) and fewer samples than one; Error (input) as CompiledProgram.
std::vector<Duration> jittered_steps(const Program& program, const Costs& costs,
                                     const Jitter& jitter);

/// Percentiles are the smallest sample that so many per cent of all do not exceed.
struct Summary {
  Duration mean{0};
  Duration p50{0};
  Duration p95{0};
  Duration p99{0};
  Duration least{0};
  Duration most{0};
  bool operator==(const Summary&) const = default;
};
Summary summary(std::vector<Duration> samples);

}  // namespace stagecraft
