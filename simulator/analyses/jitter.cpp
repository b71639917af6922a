#include "simulator/analyses/jitter.hpp"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

std::uint32_t word(int i) {
  return static_cast<std::uint32_t>(i);
}

/// What a draw is for: three words that no two works, devices or channels of a program share.
using Subject = std::array<std::uint32_t, 3>;
enum class SubjectKind : std::uint32_t { work, device, channel };

Subject subject(SubjectKind kind, int detail, int first, int second) {
  return {static_cast<std::uint32_t>(kind) << 24U | word(detail), word(first), word(second)};
}

/// Each call of the generator serves four samples.
constexpr int per_call = 4;
using Four = std::array<double, per_call>;

/// In (0, 1).
Four uniform_numbers(std::uint64_t seed, const Subject& subject, int call) {
  const r123::Philox4x32::ctr_type counter{{subject[0], subject[1], subject[2], word(call)}};
  const r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)}};
  const auto words = r123::Philox4x32{}(counter, key);
  Four numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = (words[i] + 0.5) * 0x1p-32;
  return numbers;
}

/// Two by two from uniform ones (Box and Muller, 1958).
Four normal_numbers(const Four& uniform) {
  Four numbers{};
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform[i]));
    const double angle = 2 * std::numbers::pi * uniform[i + 1];
    numbers[i] = radius * std::cos(angle);
    numbers[i + 1] = radius * std::sin(angle);
  }
  return numbers;
}

Four draw(const Jitter& jitter, const Subject& subject, double spread, int call) {
  Four numbers = uniform_numbers(jitter.seed, subject, call);
  switch (jitter.distribution) {
    case Distribution::uniform:
      for (double& number : numbers) number = 1 + spread * (2 * number - 1);
      break;
    case Distribution::log_normal:
      numbers = normal_numbers(numbers);
      for (double& number : numbers) number = std::exp(spread * number - spread * spread / 2);
      break;
  }
  return numbers;
}

void multiply(const Jitter& jitter, const Subject& subject, double spread, int first,
              std::span<double> factors) {
  if (spread == 0) return;
  for (std::size_t i = 0; i < factors.size();) {
    const int sample = first + static_cast<int>(i);
    const Four numbers = draw(jitter, subject, spread, sample / per_call);
    for (std::size_t k = index(sample % per_call); k < per_call && i < factors.size(); ++k) {
      factors[i++] *= numbers[k];
    }
  }
}

void require_sensible(const Jitter& jitter) {
  if (jitter.samples < 1) fail_usage("jitter: needs at least one sample, not ", jitter.samples);
  const double widest = jitter.distribution == Distribution::uniform ? 1 : 2;
  for (const double spread : {jitter.instruction, jitter.device, jitter.channel}) {
    if (spread >= 0 && spread <= widest) continue;
    fail_usage("jitter: a spread is ", spread, "; expected 0 to ", widest);
  }
}

/// Draws the factors of a program's works.
class Draws {
 public:
  Draws(const Program& program, const Jitter& jitter) : program_(program), jitter_(jitter) {}

  void operator()(int i, int first, std::span<double> factors) const {
    const Work& work = program_.work[index(i)];
    const Chunk& chunk = program_.chunks[index(work.chunk)];
    std::fill(factors.begin(), factors.end(), 1.0);
    const int kind = static_cast<int>(work.instruction.op) << 16 | chunk.replica;
    multiply(jitter_,
             subject(SubjectKind::work, kind, work.instruction.stage, work.instruction.microbatch),
             jitter_.instruction, first, factors);
    if (work.lane == Lane::compute) {
      multiply(jitter_, subject(SubjectKind::device, 0, chunk.device, 0), jitter_.device, first,
               factors);
    }
    if (work.channel) {
      const Channel& channel = program_.channels[index(*work.channel)];
      multiply(
          jitter_,
          subject(SubjectKind::channel, static_cast<int>(channel.cargo), channel.from, channel.to),
          jitter_.channel, first, factors);
    }
    for (double& factor : factors) {
      factor = std::min(factor, double{CompiledProgram::most_factor});
    }
  }

 private:
  const Program& program_;
  const Jitter& jitter_;
};

}  // namespace

std::vector<Duration> jittered_steps(const Program& program, const Costs& costs,
                                     const Jitter& jitter) {
  require_sensible(jitter);
  return CompiledProgram(program).samples(costs, jitter.samples, Draws(program, jitter));
}

Summary summary(std::vector<Duration> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto count = static_cast<std::int64_t>(samples.size());
  const auto percentile = [&](std::int64_t percent) {
    return samples[static_cast<std::size_t>((count * percent + 99) / 100 - 1)];
  };
  Duration above_least{0};  // the sum of samples themselves might not fit
  for (const Duration sample : samples) above_least += sample - samples.front();
  return {.mean = samples.front() + above_least / count,
          .p50 = percentile(50),
          .p95 = percentile(95),
          .p99 = percentile(99),
          .least = samples.front(),
          .most = samples.back()};
}

}  // namespace stagecraft
