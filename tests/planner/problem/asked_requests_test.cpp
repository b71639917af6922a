// Requests as they are said, and what gives way where positions end.

#include "planner/problem/asked_requests.hpp"

#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Llama 3 8B has 8192 rotary positions, GPT-2 1024 learned ones.
Profile profile_of_model(const char* name) {
  Profile profile;
  profile.model = builtin_model(name);
  return profile;
}

AskedRequests asked_requests(const SaidOfRequests& said, const char* model = "llama3-8b") {
  const Profile profile = profile_of_model(model);
  return asked_requests(said, profile, usual_requests(profile.model, profile.model.sequence), "--");
}

std::string refused(const SaidOfRequests& said, const char* model = "llama3-8b") {
  return message_of([&] { asked_requests(said, model); });
}

}  // namespace

TEST_CASE("what is not said of requests gives way to what is") {
  CHECK(asked_requests({}).prompt == 8192 - 256);
  CHECK(asked_requests({}).requests == Requests{.output = 256, .chunk = 8192, .memory = 0.92});
  CHECK(asked_requests({.output = 1024}).prompt == 7168);
  CHECK(asked_requests({.prompt = 8000}).requests.output == 192);
  CHECK(asked_requests({.prompt = 100}).requests.output == 256);
  CHECK(asked_requests({.prompt = 8000, .output = 192, .chunk = 512}).requests.chunk == 512);
  // A quarter of few positions is for what is made.
  CHECK(asked_requests({}, "tiny-gpt").prompt == 48);
  CHECK(asked_requests({}, "tiny-gpt").requests.output == 16);
}

TEST_CASE("a sequence is a prompt, as long as positions leave it") {
  CHECK(asked_requests({.sequence = 2048}).prompt == 2048);
  CHECK(asked_requests({.sequence = 8192}).prompt == 7936);
  CHECK(asked_requests({.output = 1024, .sequence = 8192}).prompt == 7168);
  // Rotary positions go on, learned ones do not.
  CHECK(asked_requests({.sequence = 65536}).prompt == 65536);
  CHECK(asked_requests({.sequence = 65536}).requests.output == 256);
  CHECK(asked_requests({.sequence = 65536}, "gpt2-124m").prompt == 768);
}

TEST_CASE("requests that positions do not hold are refused with both numbers") {
  CHECK(refused({.prompt = 8192}) ==
        "--prompt-tokens 8192: llama3-8b has 8192 positions for a prompt and what follows it; "
        "leave it one at least");
  CHECK(refused({.output = 8192}) ==
        "--output-tokens 8192: llama3-8b has 8192 positions for a prompt and what follows it; "
        "leave a prompt one at least");
  CHECK(refused({.prompt = 8000, .output = 200}) ==
        "--prompt-tokens 8000 and --output-tokens 200 are 8200 tokens, and llama3-8b has 8192 "
        "positions for a prompt and what follows it");
  CHECK(refused({.output = 4}, "bert-large") ==
        "--output-tokens: bert-large makes no tokens one after the other, so that it has no "
        "requests");
}

TEST_CASE("a plan's requests change without the rest, which is forgotten where it was predicted") {
  const Profile profile = profile_of_model("llama3-8b");
  Plan plan;
  plan.schedule.name = "inference";
  plan.batch.sequence = 2048;
  plan.requests = Requests{.output = 64, .chunk = 1024, .memory = 0.5};
  plan.predicted = PredictedFigures{};
  set_requests({}, profile, plan, "--");
  set_requests({.output = 64}, profile, plan, "--");
  CHECK(plan.predicted);
  set_requests({.prompt = 4096}, profile, plan, "--");
  CHECK(plan.batch.sequence == 4096);
  CHECK(plan.requests == Requests{.output = 64, .chunk = 1024, .memory = 0.5});
  CHECK_FALSE(plan.predicted);
  // A prompt beyond positions stays as long.
  plan.batch.sequence = 65536;
  set_requests({.output = 32}, profile, plan, "--");
  CHECK(plan.batch.sequence == 65536);
  plan.schedule.name = "1f1b";
  CHECK(message_of([&] { set_requests({.output = 4}, profile, plan, "--set "); }) ==
        "--set output-tokens: only plans for inference have requests; this one trains (1f1b)");
}
