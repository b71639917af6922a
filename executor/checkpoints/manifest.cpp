// What a checkpoint's files hold:
//
//   {
//     "format": "stagecraft-checkpoint/1",
//     "xxh3": "xxh3:9f0c…",                       of this file, as it reads without this member
//     "model": {"name": "tiny-llama", "weights": "xxh3:11aa…"},     names and shapes of its weights
//     "plan": "xxh3:77e0…",                       that trained it; any other may go on
//     "step": 123, "updates": 123,                done; of every weight that says nothing else
//     "weights": "flush",                         when they are updated; nothing but the newest
//                                                 version is stored, for steps end with no other
//     "data": {"source": "text.bin", "xxh3": "xxh3:…", "seed": 1, "samples": 984},   used so far
//     "optimizer": {"kind": "adamw", "learning_rate": 0.001, "beta1": 0.9, "beta2": 0.95,
//                   "epsilon": 1e-08, "weight_decay": 0.0},
//     "tensors": [
//       {"name": "block.0.attention.qkv.weight",  the whole weight's; tied weights are one
//        "state": "weight",                       or "first_moment", "second_moment"
//        "type": "fp32", "shape": [16, 48],       also "updates": 41, of a stage that has had fewer
//        "slices": [                              every element is in exactly one of them
//          {"elements": [0, 384],                 in row-major order, of the whole …
//           "file": "rank-0.bin", "offset": 0, "bytes": 1536, "xxh3": "xxh3:…"},
//          {"columns": [[8, 16], [24, 32]],       … or of these columns of it (or "rows")
//           "elements": [0, 256], "file": "rank-1.bin", …}]}
//     ]
//   }

#include "executor/checkpoints/manifest.hpp"

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "executor/checkpoints/slices.hpp"
#include "executor/values/ordinary_file.hpp"
#include "planner/plan/question_json.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

constexpr std::string_view format = "stagecraft-checkpoint/1";
constexpr std::string_view family = "stagecraft-checkpoint/";

StateKind read_state_kind(std::string_view name) {
  constexpr StateKind kinds[]{StateKind::weight, StateKind::first_moment, StateKind::second_moment};
  return read_choice("state", name, kinds);
}

// --- Writing
// --------------------------------------------------------------------------------------

Value optimizer_value(const Checkpoint& checkpoint) {
  Value value{{"kind", to_string(checkpoint.optimizer)}};
  if (checkpoint.optimizer == OptimizerKind::sgd) {
    value["learning_rate"] = checkpoint.sgd.learning_rate;
    return value;
  }
  const AdamW& adamw = checkpoint.adamw;
  value["learning_rate"] = adamw.learning_rate;
  value["beta1"] = adamw.beta1;
  value["beta2"] = adamw.beta2;
  value["epsilon"] = adamw.epsilon;
  value["weight_decay"] = adamw.weight_decay;
  return value;
}

Value slice_value(const StoredState& state, const StoredSlice& stored) {
  Value value = Value::object();
  if (const auto& shard = stored.slice.shard) {
    value[shard->columns ? "columns" : "rows"] = shard->ranges;
  }
  value["elements"] = {stored.slice.first, stored.slice.end};
  value["file"] = stored.file;
  value["offset"] = stored.offset;
  value["bytes"] = bytes_of(state, stored);
  value["xxh3"] = stored.hash;
  return value;
}

Value state_value(const StoredState& state, int usual_updates) {
  Value slices = Value::array();
  for (const StoredSlice& slice : state.slices) slices.push_back(slice_value(state, slice));
  Value value{{"name", state.name},
              {"state", to_string(state.kind)},
              {"type", to_string(state.precision)},
              {"shape", state.shape}};
  if (state.updates != usual_updates) value["updates"] = state.updates;
  value["slices"] = std::move(slices);
  return value;
}

/// Equal documents have equal texts.
std::string own_hash(Value document) {
  document.erase("xxh3");
  return content_hash(to_text(document));
}

// --- Reading
// --------------------------------------------------------------------------------------

void expect_known_format(const Json& json) {
  const Json member = json["format"];
  const std::string found = member.string();
  if (found == format) return;
  if (found.starts_with(family)) {
    member.fail(concat("was written by a newer stagecraft: \"", found, "\", and this one reads \"",
                       format, "\"; resume with that one"));
  }
  json.expect_format(format);
}

void read_optimizer(const Json& json, Checkpoint& checkpoint) {
  checkpoint.optimizer = read_name(json["kind"], read_optimizer_kind);
  if (checkpoint.optimizer == OptimizerKind::sgd) {
    json.allow_only({"kind", "learning_rate"});
    checkpoint.sgd = {.learning_rate = json["learning_rate"].number()};
    return;
  }
  json.allow_only({"kind", "learning_rate", "beta1", "beta2", "epsilon", "weight_decay"});
  checkpoint.adamw = {.learning_rate = json["learning_rate"].number(),
                      .beta1 = json["beta1"].number(),
                      .beta2 = json["beta2"].number(),
                      .epsilon = json["epsilon"].number(),
                      .weight_decay = json["weight_decay"].number()};
}

void read_data(const Json& json, Checkpoint& checkpoint) {
  json.allow_only({"source", "xxh3", "seed", "samples"});
  checkpoint.data_source = json["source"].string();
  checkpoint.data = json["xxh3"].string();
  if (!json["seed"].raw().is_number_unsigned()) json["seed"].fail("expected an integer >= 0");
  checkpoint.seed = json["seed"].raw().get<std::uint64_t>();
  checkpoint.position.samples = json["samples"].integer(0);
}

std::vector<std::int64_t> read_shape(const Json& json) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (const Json& extent : json.elements()) {
    shape.push_back(extent.integer(1));
    // Even as bytes they can be counted.
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || elements > INT64_MAX / 16) {
      json.fail("its elements are more than can be counted");
    }
  }
  if (shape.empty()) json.fail("expected at least one extent");
  return shape;
}

/// [first, end), not beyond `most`.
std::pair<std::int64_t, std::int64_t> read_range(const Json& json, std::int64_t most) {
  if (json.elements().size() != 2) json.fail("expected where it begins and ends");
  const std::int64_t first = json[0].integer(0, most);
  return {first, json[1].integer(first, most)};
}

std::optional<WeightShard> read_shard(const Json& json, const std::vector<std::int64_t>& shape) {
  const bool columns = json.contains("columns");
  if (!columns && !json.contains("rows")) return {};
  WeightShard shard{.whole = shape, .columns = columns};
  const std::int64_t most = columns ? shape.back() : elements_of(shape) / shape.back();
  for (const Json& range : json[columns ? "columns" : "rows"].elements()) {
    shard.ranges.push_back(read_range(range, most));
  }
  return shard;
}

StoredSlice read_slice(const Json& json, const StoredState& state) {
  json.allow_only({"columns", "rows", "elements", "file", "offset", "bytes", "xxh3"});
  StoredSlice stored;
  stored.slice.shard = read_shard(json, state.shape);
  std::tie(stored.slice.first, stored.slice.end) =
      read_range(json["elements"], elements_of_part(stored.slice.shard, state.shape));
  stored.file = json["file"].string();
  if (stored.file.empty() || stored.file.find('/') != std::string::npos) {
    json["file"].fail("expected the name of a file beside this one");
  }
  stored.offset = json["offset"].integer(0, INT64_MAX / 2);
  stored.hash = json["xxh3"].string();
  const Bytes bytes = bytes_of(state, stored);
  if (json["bytes"].integer(0) != bytes) {
    json["bytes"].fail(concat("its elements need ", bytes, " bytes"));
  }
  return stored;
}

StoredState read_tensor_state(const Json& json, int usual_updates) {
  json.allow_only({"name", "state", "type", "shape", "updates", "slices"});
  StoredState state{.name = json["name"].string(),
                    .kind = read_name(json["state"], read_state_kind),
                    .precision = read_name(json["type"], read_precision),
                    .shape = read_shape(json["shape"]),
                    .slices = {},
                    .updates = usual_updates};
  if (json.contains("updates")) state.updates = json["updates"].small_integer(0, INT_MAX);
  for (const Json& slice : json["slices"].elements()) {
    state.slices.push_back(read_slice(slice, state));
  }
  return state;
}

void require_own_hash(const Json& json) {
  const std::string hash = own_hash(json.raw());
  if (hash != json["xxh3"].string()) {
    json["xxh3"].fail(
        concat("the manifest has been changed since it was written: its hash is ", hash));
  }
}

}  // namespace

std::string_view to_string(StateKind kind) {
  switch (kind) {
    case StateKind::weight: return "weight";
    case StateKind::first_moment: return "first_moment";
    case StateKind::second_moment: return "second_moment";
  }
  return "";
}

std::string hash_of(std::vector<WholeShape> shapes) {
  std::ranges::sort(shapes);
  std::string text;
  for (const auto& [name, shape] : shapes) text += name + " " + to_text(shape) + "\n";
  return content_hash(text);
}

Bytes bytes_of(const StoredState& state, const StoredSlice& slice) {
  return slice.slice.elements() * element_bytes(state.precision);
}

std::string write_manifest(const Checkpoint& checkpoint) {
  Value tensors = Value::array();
  for (const StoredState& state : checkpoint.states) {
    tensors.push_back(state_value(state, checkpoint.position.updates));
  }
  Value document{{"format", format},
                 {"xxh3", ""},
                 {"model", {{"name", checkpoint.model}, {"weights", checkpoint.shapes}}},
                 {"plan", checkpoint.plan},
                 {"step", checkpoint.position.steps},
                 {"updates", checkpoint.position.updates},
                 {"weights", to_string(checkpoint.weights)},
                 {"data",
                  {{"source", checkpoint.data_source},
                   {"xxh3", checkpoint.data},
                   {"seed", checkpoint.seed},
                   {"samples", checkpoint.position.samples}}},
                 {"optimizer", optimizer_value(checkpoint)},
                 {"tensors", std::move(tensors)}};
  document["xxh3"] = own_hash(document);
  return to_text(document);
}

Checkpoint read_manifest(const std::filesystem::path& path) {
  const Json json = Json::parse(read_ordinary_file(path), path.string());
  expect_known_format(json);
  json.allow_only({"format", "xxh3", "model", "plan", "step", "updates", "weights", "data",
                   "optimizer", "tensors"});
  const Json model = json["model"];
  model.allow_only({"name", "weights"});
  Checkpoint checkpoint{.folder = path.parent_path(),
                        .model = model["name"].string(),
                        .shapes = model["weights"].string(),
                        .plan = json["plan"].string(),
                        .weights = read_name(json["weights"], read_weight_policy),
                        .position = {.steps = json["step"].small_integer(0, INT_MAX),
                                     .updates = json["updates"].small_integer(0, INT_MAX)}};
  read_data(json["data"], checkpoint);
  read_optimizer(json["optimizer"], checkpoint);
  for (const Json& state : json["tensors"].elements()) {
    checkpoint.states.push_back(read_tensor_state(state, checkpoint.position.updates));
  }
  require_own_hash(json);
  return checkpoint;
}

}  // namespace stagecraft
