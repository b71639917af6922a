// What a rank holds at most where it has no arena, counted by its backend, against what the
// simulator says.
//
// They differ by two things. The simulator counts the largest workspace of a stage's layers on top
// of all that is saved, while a backward has already freed the later layers' when it comes to the
// earlier ones: never more than predicted. And a message stays with a sender that is ahead until
// its receiver offers memory: more than predicted, by a few messages.

#include "executor/measure.hpp"
#include "simulator/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Bytes measured layer by layer, as a profile holds them.
Profile measured_profile() {
  return measure_profile(tiny_model(Style::gpt2, true),
                         {.microbatches = {1, 2}, .repeats = 1, .warm_up = 0, .busy_ranks = 1});
}

/// `more`: what a rank may hold beyond that.
void check_peaks(const Setting& setting, const Profile& profile, Bytes more = 0) {
  INFO(describe(setting));
  Prepared prepared = prepare(setting);
  prepared.profile = profile;
  prepared.compiled = compile(prepared.plan, profile, parse_cluster(prepared.plan.cluster));
  const RunResult result = run(prepared, {.steps = 3});
  const auto simulated = memory_peaks(simulate(prepared.compiled.program, prepared.compiled.costs));
  const Bytes message = Bytes{setting.rows} * 8 * 16 * element_bytes(setting.precision);
  REQUIRE(result.peak_memory.size() == simulated.size());
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    const auto peak = static_cast<double>(simulated[i].bytes);
    CHECK(static_cast<double>(result.peak_memory[i]) >= 0.95 * peak);
    CHECK(result.peak_memory[i] <=
          simulated[i].bytes + Bytes{2} * setting.microbatches * message + more);
  }
}

}  // namespace

TEST_CASE("pieces of sequences hold more by what they leave each other") {
  const Profile profile = measured_profile();
  for (const int pieces : {2, 4}) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      const Setting setting{
          .schedule = "seq1f1b", .devices = 2, .recompute = recompute, .sequence_chunks = pieces};
      // Packed queries, keys and values of a microbatch, at one block: 3 x 16 numbers a token.
      const Bytes packed = Bytes{setting.rows} * 8 * 48 * 4;
      // Of 3 blocks a stage: gradients of them, or with recomputation the rows themselves, too; and
      // of the one at work all rows so far, with their gradients.
      const Bytes kept = recompute == Recompute::full ? 2 * 3 * packed : 3 * packed;
      check_peaks(setting, profile, kept + 2 * packed);
    }
  }
}
