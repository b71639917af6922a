#include "profiles/steps.hpp"

#include <algorithm>
#include <array>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct NamedStepKind {
  StepKind kind;
  std::string_view name;
};
constexpr std::array step_kinds{
    NamedStepKind{StepKind::norm, "norm"},
    NamedStepKind{StepKind::product, "product"},
    NamedStepKind{StepKind::lookup, "lookup"},
    NamedStepKind{StepKind::attention, "attention"},
    NamedStepKind{StepKind::recurrence, "recurrence"},
    NamedStepKind{StepKind::convolution, "convolution"},
    NamedStepKind{StepKind::activation, "activation"},
    NamedStepKind{StepKind::numbers, "numbers"},
    NamedStepKind{StepKind::dispatch, "dispatch"},
    NamedStepKind{StepKind::combine, "combine"},
    NamedStepKind{StepKind::logits, "logits"},
};

void expect_step_range(const Step& step, std::string_view what, std::int64_t value,
                       std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  fail("step \"", step.name, "\": ", what, " must be from ", least, " to ", most, ", found ",
       value);
}

/// Keys that one token sees.
double keys_seen(const Step& step, double tokens) {
  if (step.rows > 0) return static_cast<double>(step.rows);
  const double keys = tokens / static_cast<double>(step.stride);
  return step.window > 0 ? std::min(keys, static_cast<double>(step.window)) : keys;
}

std::string attention_in_words(const Step& step) {
  const bool chooses = step.value_width == 0 && step.rows == 0;
  std::string text = chooses ? "indexer" : std::string(step.name);
  if (step.window > 0) text += concat(" over ", step.window, step.stride > 1 ? " keys" : " tokens");
  if (step.stride > 1) text += concat(" of ", step.stride, " tokens each");
  return text;
}

}  // namespace

std::string_view to_string(StepKind kind) {
  return step_kinds[static_cast<std::size_t>(kind)].name;
}

std::string_view to_string(Split split) {
  switch (split) {
    case Split::none: return "none";
    case Split::outputs: return "outputs";
    case Split::inputs: return "inputs";
  }
  return "";
}

const std::vector<std::string_view>& step_names() {
  static const std::vector<std::string_view> names{"first norm",
                                                   "second norm",
                                                   "third norm",
                                                   "fourth norm",
                                                   "last norm",
                                                   "embedding norm",
                                                   "state norm",
                                                   "query norm",
                                                   "key norm",
                                                   "value norm",
                                                   "output norm",
                                                   "norm gate",
                                                   "norm",
                                                   "query",
                                                   "key",
                                                   "value",
                                                   "query key value",
                                                   "attention output",
                                                   "attention gate",
                                                   "query down",
                                                   "query up",
                                                   "key value down",
                                                   "key value up",
                                                   "output down",
                                                   "output up",
                                                   "attention",
                                                   "cross attention",
                                                   "sinks",
                                                   "rotary positions",
                                                   "position biases",
                                                   "position keys",
                                                   "position queries",
                                                   "position scores",
                                                   "indexer query",
                                                   "indexer key",
                                                   "indexer norm",
                                                   "indexer weights",
                                                   "indexer",
                                                   "compressor",
                                                   "compressor gate",
                                                   "compressor norm",
                                                   "compressed attention",
                                                   "up",
                                                   "activation",
                                                   "relu",
                                                   "down",
                                                   "latent down",
                                                   "latent up",
                                                   "router",
                                                   "choice of experts",
                                                   "dispatch",
                                                   "expert up",
                                                   "expert activation",
                                                   "expert down",
                                                   "combine",
                                                   "experts of images",
                                                   "shared expert gate",
                                                   "router bias",
                                                   "expert scales",
                                                   "mixer input",
                                                   "mixer convolution",
                                                   "mixer numbers",
                                                   "mamba",
                                                   "mixer output",
                                                   "mixer norm",
                                                   "mixer gate",
                                                   "gated delta rule",
                                                   "lightning attention",
                                                   "linear recurrence",
                                                   "short convolution",
                                                   "step size",
                                                   "words",
                                                   "positions",
                                                   "token types",
                                                   "patches",
                                                   "class token",
                                                   "per-layer words",
                                                   "per-layer projection",
                                                   "per-layer gate",
                                                   "embedding projection",
                                                   "join",
                                                   "hyper-connections",
                                                   "alternating updates",
                                                   "low-rank residual",
                                                   "residual",
                                                   "pooler",
                                                   "transform",
                                                   "logits",
                                                   "sentence classes",
                                                   "head projection",
                                                   "multipliers"};
  return names;
}

void validate(const Step& step) {
  constexpr std::int64_t widest = std::int64_t{1} << 28U;
  constexpr std::int64_t most = std::int64_t{1} << 50U;
  expect_step_range(step, "outputs", step.outputs, 0,
                    step.kind == StepKind::numbers ? most : widest);
  expect_step_range(step, "inputs", step.inputs, 0, widest);
  expect_step_range(step, "copies", step.copies, 1, 1 << 16);
  expect_step_range(step, "active", step.active, 1, step.copies);
  expect_step_range(step, "groups", step.groups, 1, step.copies);
  expect_step_range(step, "active_groups", step.active_groups, 1, step.groups);
  expect_step_range(step, "units", step.units, 0, 1 << 16);
  expect_step_range(step, "heads", step.heads, 0, 1 << 20);
  expect_step_range(step, "key_value_heads", step.key_value_heads, 0, 1 << 20);
  expect_step_range(step, "score_width", step.score_width, 0, 1 << 20);
  expect_step_range(step, "value_width", step.value_width, 0, 1 << 20);
  expect_step_range(step, "window", step.window, 0, most);
  expect_step_range(step, "stride", step.stride, 1, widest);
  expect_step_range(step, "rows", step.rows, 0, widest);
  if (step.inputs > 0 && step.outputs > most / step.inputs / step.copies) {
    fail("step \"", step.name, "\": ", step.copies, " x ", step.outputs, " x ", step.inputs,
         " weights are more than anyone can store");
  }
}

std::int64_t parameters(const Step& step) {
  const std::int64_t biases = step.bias ? step.copies : 0;
  switch (step.kind) {
    case StepKind::product:
    case StepKind::logits:
      return (step.tied ? 0 : step.copies * step.outputs * step.inputs) + biases * step.outputs;
    case StepKind::lookup: return step.tied ? 0 : step.outputs * step.inputs;
    case StepKind::convolution: return step.inputs * step.outputs + biases * step.inputs;
    case StepKind::norm:
    case StepKind::attention:
    case StepKind::numbers: return step.outputs;
    case StepKind::recurrence:
    case StepKind::activation:
    case StepKind::dispatch:
    case StepKind::combine: return 0;
  }
  return 0;
}

std::int64_t parameters(const std::vector<Step>& steps) {
  std::int64_t sum = 0;
  for (const Step& step : steps) sum += parameters(step);
  return sum;
}

double linear_flops(const Step& step, double tokens) {
  const double read = step.rows > 0 ? static_cast<double>(step.rows) : tokens;
  const double rows = step.of_sample ? 1 : read;
  const double weights = static_cast<double>(step.outputs) * static_cast<double>(step.inputs);
  switch (step.kind) {
    case StepKind::product:
    case StepKind::logits: return 2 * rows * static_cast<double>(step.active) * weights;
    case StepKind::convolution: return 2 * rows * weights;
    // A state is scaled, has the token's outer product added, and is read.
    case StepKind::recurrence: return 6 * rows * static_cast<double>(step.heads) * weights;
    case StepKind::norm:
    case StepKind::lookup:
    case StepKind::attention:
    case StepKind::activation:
    case StepKind::numbers:
    case StepKind::dispatch:
    case StepKind::combine: return 0;
  }
  return 0;
}

double attention_flops(const Step& step, double tokens) {
  if (step.kind != StepKind::attention) return 0;
  return 2 * tokens * keys_seen(step, tokens) *
         static_cast<double>(step.heads * (step.score_width + step.value_width));
}

std::string in_words(const std::vector<Step>& steps) {
  std::vector<std::string> words;
  const auto add = [&](std::string word) {
    if (std::find(words.begin(), words.end(), word) == words.end())
      words.push_back(std::move(word));
  };
  for (const Step& step : steps) {
    if (step.kind == StepKind::attention) add(attention_in_words(step));
    if (step.kind == StepKind::recurrence) add(std::string(step.name));
    if (step.kind == StepKind::convolution && step.name == "short convolution")
      add(std::string(step.name));
    if (step.kind == StepKind::dispatch) add(concat(step.active, " of ", step.copies, " experts"));
    if (step.kind == StepKind::activation && (step.name == "activation" || step.name == "relu"))
      add("feed-forward");
  }
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace stagecraft
