#include "profiles/steps_json.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct Figure {
  std::string_view name;
  std::int64_t Step::*member;
  std::int64_t least;
};
constexpr std::array figures{
    Figure{"outputs", &Step::outputs, 0},
    Figure{"inputs", &Step::inputs, 0},
    Figure{"copies", &Step::copies, 1},
    Figure{"active", &Step::active, 1},
    Figure{"groups", &Step::groups, 1},
    Figure{"active_groups", &Step::active_groups, 1},
    Figure{"units", &Step::units, 0},
    Figure{"heads", &Step::heads, 0},
    Figure{"key_value_heads", &Step::key_value_heads, 0},
    Figure{"score_width", &Step::score_width, 0},
    Figure{"value_width", &Step::value_width, 0},
    Figure{"window", &Step::window, 0},
    Figure{"stride", &Step::stride, 1},
    Figure{"rows", &Step::rows, 0},
};

struct Mark {
  std::string_view name;
  bool Step::*member;
};
constexpr std::array marks{
    Mark{"bias", &Step::bias},           Mark{"of_experts", &Step::of_experts},
    Mark{"tied", &Step::tied},           Mark{"shares_input", &Step::shares_input},
    Mark{"of_sample", &Step::of_sample}, Mark{"causal", &Step::causal},
};

constexpr std::array splits{Split::none, Split::outputs, Split::inputs};

/// The word among those that `text_of` gives for 0, 1, … `count` - 1.
template <class Value, class TextOf>
Value read_step_word(const Json& json, std::size_t count, TextOf text_of) {
  const std::string found = json.string();
  std::vector<std::string> known;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<Value>(i);
    if (text_of(value) == found) return value;
    known.emplace_back(text_of(value));
  }
  json.fail(concat("expected one of ", join_words(known), ", found \"", found, "\""));
}

/// Operations keep views of names, so they are those of the table.
std::string_view read_step_name(const Json& json) {
  const std::string found = json.string();
  for (const std::string_view name : step_names()) {
    if (name == found) return name;
  }
  const std::vector<std::string> known(step_names().begin(), step_names().end());
  const std::string guess = closest(found, known);
  json.fail(concat("no step is called \"", found, "\"",
                   guess.empty() ? "" : "; did you mean \"" + guess + "\"?"));
}

}  // namespace

Step read_step(const Json& json) {
  std::vector<std::string> members{"kind", "name", "split"};
  for (const Figure& figure : figures) members.emplace_back(figure.name);
  for (const Mark& mark : marks) members.emplace_back(mark.name);
  json.allow_only(members);
  constexpr std::size_t kinds = static_cast<std::size_t>(StepKind::logits) + 1;
  Step step;
  step.kind =
      read_step_word<StepKind>(json["kind"], kinds, [](StepKind kind) { return to_string(kind); });
  step.name = read_step_name(json["name"]);
  if (json.contains("split")) {
    step.split = read_step_word<Split>(json["split"], splits.size(),
                                       [](Split split) { return to_string(split); });
  }
  for (const Figure& figure : figures) {
    if (json.contains(figure.name)) step.*figure.member = json[figure.name].integer(figure.least);
  }
  for (const Mark& mark : marks) {
    if (json.contains(mark.name)) step.*mark.member = json[mark.name].boolean();
  }
  return step;
}

nlohmann::ordered_json write_step(const Step& step) {
  const Step plain;
  nlohmann::ordered_json json{{"kind", to_string(step.kind)}, {"name", step.name}};
  for (const Figure& figure : figures) {
    if (step.*figure.member != plain.*figure.member)
      json[std::string(figure.name)] = step.*figure.member;
  }
  for (const Mark& mark : marks) {
    if (step.*mark.member != plain.*mark.member) json[std::string(mark.name)] = step.*mark.member;
  }
  if (step.split != plain.split) json["split"] = to_string(step.split);
  return json;
}

}  // namespace stagecraft
