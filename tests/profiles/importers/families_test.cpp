// Parameters of each family's models, as transformers 5.23.0 counts them on the meta device
// (tools/peers/check_parameters.py draws many more): of its class's defaults, and of a small
// configuration.

#include "profiles/devices.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/operations.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/profiles/importers/counted_families.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::int64_t own_count(const Model& model) {
  return parameters(model) - prediction_parameters(model);
}

}  // namespace

TEST_CASE("every family is counted as transformers counts it, to the unit") {
  std::vector<std::string> tested;
  for (const Counted& row : counted_families()) {
    INFO(row.family);
    tested.push_back(row.family);
    const std::string lacking = row.lacking.empty() ? "" : ", " + row.lacking;
    // The language part of a larger model's file has only what differs from the class's defaults.
    const Profile by_default =
        import_text("{\"text_config\": {\"model_type\": \"" + row.family + "\"" + lacking + "}}");
    CHECK(own_count(by_default.model) == row.by_default);
    CHECK(own_count(import_text(small_config(row)).model) == row.small);
  }
  for (const std::string& family : huggingface_families()) {
    INFO(family);
    CHECK(std::find(tested.begin(), tested.end(), family) != tested.end());
  }
}

TEST_CASE(
    "layers of every family have operations that hold their weights, and survive their file") {
  for (const Counted& row : counted_families()) {
    INFO(row.family);
    const Model model = import_text(small_config(row)).model;
    CHECK_NOTHROW(validate(model));
    CHECK(read_model(Json::parse(write_model(model), "m.json")) == model);
    const WorkSetting setting{.sequence = model.sequence};
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const Layer& layer = model.layers[i];
      if (layer.steps.empty() || layer.kind == LayerKind::prediction) continue;
      INFO(layer.name);
      std::int64_t held = layer.parameters;
      for (const Tie& tie : model.ties)
        held += tie.user == static_cast<int>(i) ? tie.parameters : 0;
      const LayerOperations work = layer_operations(*model.transformer, layer, setting);
      CHECK(work.weights == held);
      double forward = 0, backward = 0;
      for (const Operation& operation : work.operations)
        (operation.pass == Pass::forward ? forward : backward) += operation.bytes;
      CHECK(forward > 0);
      CHECK(backward > 0);
    }
  }
}

TEST_CASE("layers of every family have costs, which peers share") {
  const DeviceKind device = builtin_device_kind("h100");
  for (const Counted& row : counted_families()) {
    INFO(row.family);
    const Model model = import_text(small_config(row)).model;
    Bytes whole = 0;
    for (const int degree : {1, 2}) {
      if (model.transformer->heads % degree != 0) continue;
      const CostSetting setting{.tensor_parallel = degree, .precision = Precision::bfloat16};
      Bytes held = 0;
      for (const LayerCost& cost : estimate_costs(model, device, setting)) {
        CHECK(cost.forward > Duration{0});
        CHECK(cost.saved >= 0);
        held += cost.parameters;
      }
      if (degree == 1) whole = held;
      if (degree == 2) CHECK((held > whole / 4 && held < whole));
    }
  }
}

TEST_CASE("a key that no family knows is refused by name, a silent or harmless one is not") {
  for (const Counted& row : counted_families()) {
    INFO(row.family);
    const std::string complaint =
        message_of([&] { import_text(small_config(row, ", \"use_hypernetwork\": 7")); });
    CHECK_THAT(complaint, ContainsSubstring("the key \"use_hypernetwork\" with the value 7 is not "
                                            "known for \"" +
                                            row.family + "\" models"));
    CHECK_NOTHROW(import_text(small_config(
        row,
        R"(, "use_gates": false, "extras": [], "eos_token_id": [1, 2], "some_dropout": 0.1)")));
  }
}
