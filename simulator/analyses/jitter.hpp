// Monte Carlo simulation of jitter: many samples of the same program with random times.
//
// Random numbers come from a counter-based generator (Philox-4x32: Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011), whose input is the seed, the sample and the instruction. So
// a sample does not depend on the order of computation, and compared programs get the same random
// times: F3.7 is equally slow under every schedule.

#pragma once

#include <cstdint>
#include <vector>

#include "simulator/engines/compiled.hpp"

namespace stagecraft {

enum class Distribution {
  uniform,     ///< between 1 - spread and 1 + spread
  log_normal,  ///< spread is the standard deviation of the logarithm; the mean is 1
};

/// Random factors of mean 1 by which times are multiplied. A spread of 0 means no variation.
struct Jitter {
  Distribution distribution = Distribution::uniform;
  double instruction = 0;  ///< spread of each computation, message and collective, independently
  double device = 0;       ///< spread of a device's factor, common to all its computations
  double channel = 0;      ///< spread of a channel's factor, common to all its messages
  int samples = 1000;
  std::uint64_t seed = 0;
};

/// The step of each sample. Throws Error (usage) for negative or too large spreads (uniform: above
/// 1; log-normal: above 2 in all) and for fewer than one sample; Error (input) as CompiledProgram.
std::vector<Duration> jittered_steps(const Program& program, const Costs& costs,
                                     const Jitter& jitter);

/// Mean and percentiles of samples. A percentile is the smallest sample that at least this
/// percentage of all samples does not exceed.
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
