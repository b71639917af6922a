#include "planner/problem/asked_requests.hpp"

#include <algorithm>

#include "planner/problem/defaults.hpp"
#include "profiles/error.hpp"
#include "profiles/served_costs.hpp"

namespace stagecraft {

namespace {

/// The names of the requests that were set, as flags.
std::string names_of(const SaidOfRequests& said, std::string_view flag) {
  std::string names;
  const auto add = [&](const std::optional<std::int64_t>& number, std::string_view name) {
    if (number) names += concat(names.empty() ? "" : ", ", flag, name);
  };
  add(said.prompt, "prompt-tokens");
  add(said.output, "output-tokens");
  add(said.chunk, "chunk-tokens");
  add(said.sequence, "sequence");
  return names;
}

void require_answers(const SaidOfRequests& said, const Profile& profile, std::string_view flag) {
  if (!said.any() || answers_requests(profile)) return;
  const bool is_measured = profile.model.transformer && !estimates_kernels(profile);
  fail_usage(names_of(said, flag), ": ", profile.model.name,
             is_measured ? " has measured costs, which are of whole samples and know no requests"
                         : " makes no tokens one after the other, so that it has no requests");
}

std::int64_t tokens_of(const AskedRequests& asked) {
  return asked.prompt + asked.requests.output;
}

}  // namespace

bool answers_requests(const Profile& profile) {
  const auto& transformer = profile.model.transformer;
  return transformer && transformer->causal && estimates_kernels(profile);
}

AskedRequests usual_requests(const Model& model, std::int64_t sequence) {
  const std::int64_t positions = model.transformer ? model.transformer->positions : 0;
  const std::int64_t most =
      positions > 0 ? std::max<std::int64_t>(positions / 4, 1) : usual_output_tokens;
  return {.prompt = sequence,
          .requests = {.output = std::min(usual_output_tokens, most),
                       .chunk = usual_chunk_tokens,
                       .memory = usual_serving_memory}};
}

AskedRequests asked_requests(const SaidOfRequests& said, const Profile& profile,
                             const AskedRequests& usual, std::string_view flag) {
  require_answers(said, profile, flag);
  if (said.chunk && !reads_in_chunks(profile.model)) {
    fail_usage(flag, "chunk-tokens: ", profile.model.name,
               " reads prompts whole, since their tokens look at later ones");
  }
  const Transformer& transformer = *profile.model.transformer;
  const std::int64_t positions = transformer.positions;
  AskedRequests asked{.prompt = said.prompt.value_or(said.sequence.value_or(usual.prompt)),
                      .requests = {.output = said.output.value_or(usual.requests.output),
                                   .chunk = said.chunk.value_or(usual.requests.chunk),
                                   .memory = usual.requests.memory}};
  const bool is_longer = !said.prompt && asked.prompt > positions &&
                         transformer.position != Transformer::Position::learned;
  if (positions <= 0 || is_longer || tokens_of(asked) <= positions) return asked;
  const std::string room =
      concat(profile.model.name, " has ", positions, " positions for a prompt and what follows it");
  if (said.prompt && said.output) {
    fail_usage(flag, "prompt-tokens ", *said.prompt, " and ", flag, "output-tokens ", *said.output,
               " are ", tokens_of(asked), " tokens, and ", room);
  }
  if (said.prompt) {
    asked.requests.output = positions - *said.prompt;
    if (asked.requests.output < 1)
      fail_usage(flag, "prompt-tokens ", *said.prompt, ": ", room, "; leave it one at least");
    return asked;
  }
  asked.prompt = positions - asked.requests.output;
  if (asked.prompt > 0) return asked;
  if (said.output)
    fail_usage(flag, "output-tokens ", *said.output, ": ", room, "; leave a prompt one at least");
  asked.prompt = std::min(said.sequence.value_or(usual.prompt), positions);
  asked.requests.output = positions - asked.prompt;
  return asked;
}

std::string requests_beyond_positions(const Plan& plan, const Model& model) {
  const std::int64_t positions = model.transformer ? model.transformer->positions : 0;
  const std::int64_t tokens = plan.batch.sequence + requests_of(plan).output;
  if (!plan.requests || positions <= 0 || tokens <= positions) return "";
  return concat("requests of ", tokens, " tokens are longer than the ", positions, " positions of ",
                model.name, "; vLLM takes them where the model's configuration scales its ",
                "positions, or with VLLM_ALLOW_LONG_MAX_MODEL_LEN=1");
}

void set_requests(const SaidOfRequests& said, const Profile& profile, Plan& plan,
                  std::string_view flag) {
  if (!said.any()) return;
  if (!serves(plan)) {
    fail_usage(names_of(said, flag), ": only plans for inference have requests; this one trains (",
               plan.schedule.name, ")");
  }
  const std::int64_t sequence =
      plan.batch.sequence > 0 ? plan.batch.sequence : profile.model.sequence;
  AskedRequests usual = usual_requests(profile.model, sequence);
  if (plan.requests) usual.requests = *plan.requests;
  const AskedRequests asked = asked_requests(said, profile, usual, flag);
  if (plan.requests == asked.requests && plan.batch.sequence == asked.prompt) return;
  plan.batch.sequence = asked.prompt;
  plan.requests = asked.requests;
  plan.predicted.reset();
  plan.search.reset();
}

}  // namespace stagecraft
