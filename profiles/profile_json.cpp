// {
//   "format": "stagecraft-profile/1",
//   "source": "measured on 4 cores of a desktop",        // in words
//   "hand_over": {"latency": "2us", "point_to_point": "8GB/s"},   // may be left out
//   "model": {"format": "stagecraft-model/1", …},
//   "entries": [                                  // may be empty: only the model is known
//     {
//       "device": "cpu", "microbatch": 2, "sequence": 64, "tensor_parallel": 1,
//       "precision": "fp32",
//       "provenance": "measured",                 // or "fitted", "datasheet"; or one for each
//       layer "forward_ns": [100, 2500, 900],           // one number for each layer of the model
//       "backward_input_ns": [0, 2600, 950], "backward_weight_ns": [120, 2400, 900],
//       "split_overhead_ns": [0, 300, 100],       // what the two take longer than one backward
//       "update_ns": […], "saved_bytes": […], "saved_for_weight_bytes": […],
//       "output_bytes": […], "parameters_bytes": […], "gradients_bytes": […],
//       "output_freed_bytes": […],                // of the output, what no backward needs
//       "expert_parameters_bytes": […],           // of the parameters, those of experts
//       "parallelism": {"sequence": true, "context": 2},    // see parallelism_json.hpp; left out
//                                                           // where only tensors are parallel
//       "optimizer_bytes": […], "workspace_bytes": […],
//       "selective_again_ns": [null, 800, null], "selective_saved_bytes": [null, 4096, null],
//                             // of layers that can have their attention again in backward
//       "spread": […],                            // what is left out is zero for every layer
//       "forward_p10_ns": […], "forward_p90_ns": […],   // a tenth of the times is below, a tenth
//                             // above; so for each pass, all eight or none
//       "peer_messages": false                    // tensor-parallel peers were not there: their
//                             // messages are not in the times, and are added from the cluster's
//                             // links; left out where they are
//     }
//   ]
// }

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/link_json.hpp"
#include "profiles/model_json.hpp"
#include "profiles/parallelism_json.hpp"
#include "profiles/profile.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

struct DurationColumn {
  const char* name;
  Duration LayerCost::*member;
};
constexpr std::array duration_columns{
    DurationColumn{"forward_ns", &LayerCost::forward},
    DurationColumn{"backward_input_ns", &LayerCost::backward_input},
    DurationColumn{"backward_weight_ns", &LayerCost::backward_weight},
    DurationColumn{"split_overhead_ns", &LayerCost::split_overhead},
    DurationColumn{"update_ns", &LayerCost::update},
    DurationColumn{"forward_exchange_ns", &LayerCost::forward_exchange},
    DurationColumn{"backward_exchange_ns", &LayerCost::backward_exchange},
};

struct RangeColumn {
  const char* name;
  TimeRange MeasuredRanges::*pass;
  Duration TimeRange::*end;
};
constexpr std::array range_columns{
    RangeColumn{"forward_p10_ns", &MeasuredRanges::forward, &TimeRange::p10},
    RangeColumn{"forward_p90_ns", &MeasuredRanges::forward, &TimeRange::p90},
    RangeColumn{"backward_input_p10_ns", &MeasuredRanges::backward_input, &TimeRange::p10},
    RangeColumn{"backward_input_p90_ns", &MeasuredRanges::backward_input, &TimeRange::p90},
    RangeColumn{"backward_weight_p10_ns", &MeasuredRanges::backward_weight, &TimeRange::p10},
    RangeColumn{"backward_weight_p90_ns", &MeasuredRanges::backward_weight, &TimeRange::p90},
    RangeColumn{"update_p10_ns", &MeasuredRanges::update, &TimeRange::p10},
    RangeColumn{"update_p90_ns", &MeasuredRanges::update, &TimeRange::p90},
};

struct BytesColumn {
  const char* name;
  Bytes LayerCost::*member;
};
constexpr std::array bytes_columns{
    BytesColumn{"saved_bytes", &LayerCost::saved},
    BytesColumn{"saved_for_weight_bytes", &LayerCost::saved_for_weight},
    BytesColumn{"output_bytes", &LayerCost::output},
    BytesColumn{"output_freed_bytes", &LayerCost::output_freed},
    BytesColumn{"parameters_bytes", &LayerCost::parameters},
    BytesColumn{"expert_parameters_bytes", &LayerCost::expert_parameters},
    BytesColumn{"gradients_bytes", &LayerCost::gradients},
    BytesColumn{"optimizer_bytes", &LayerCost::optimizer},
    BytesColumn{"workspace_bytes", &LayerCost::workspace},
};

Provenance read_provenance(const Json& json) {
  constexpr std::array all{Provenance::measured, Provenance::fitted, Provenance::datasheet};
  std::vector<std::string> known;
  for (const Provenance provenance : all) {
    if (to_string(provenance) == json.string()) return provenance;
    known.emplace_back(to_string(provenance));
  }
  json.fail(concat("expected one of ", join_words(known), ", found \"", json.string(), "\""));
}

/// Calls `set(layer, element)` for each layer's element of a column, if the column is there.
template <class Set>
void read_column(const Json& entry, const char* name, std::size_t layers, Set set) {
  if (!entry.contains(name)) return;
  const std::vector<Json> column = entry[name].elements();
  if (column.size() != layers) {
    entry[name].fail(
        concat("expected ", layers, " values, one for each layer, found ", column.size()));
  }
  for (std::size_t layer = 0; layer < layers; ++layer) set(layer, column[layer]);
}

void read_provenances(ProfileEntry& entry, const Json& json) {
  if (json["provenance"].is_string()) {
    const Provenance all = read_provenance(json["provenance"]);
    for (LayerCost& cost : entry.layers) cost.provenance = all;
    return;
  }
  read_column(json, "provenance", entry.layers.size(), [&](std::size_t layer, const Json& value) {
    entry.layers[layer].provenance = read_provenance(value);
  });
}

CostSetting read_setting(const Json& json) {
  CostSetting setting;
  setting.device = json["device"].string();
  setting.microbatch = json["microbatch"].integer(1);
  if (json.contains("sequence")) setting.sequence = json["sequence"].integer(0);
  if (json.contains("tensor_parallel")) {
    setting.tensor_parallel = json["tensor_parallel"].small_integer(1, 1 << 20);
  }
  if (json.contains("parallelism")) setting.parallelism = read_parallelism(json["parallelism"]);
  const Json precision = json["precision"];
  try {
    setting.precision = read_precision(precision.string());
  } catch (const Error& error) {
    if (error.place()) throw;
    precision.fail(error.message());
  }
  return setting;
}

constexpr const char* selective_again = "selective_again_ns";
constexpr const char* selective_saved = "selective_saved_bytes";
constexpr const char* peer_messages = "peer_messages";

std::vector<std::string> entry_members() {
  std::vector<std::string> names{"device",        "microbatch", "sequence",   "tensor_parallel",
                                 "parallelism",   "precision",  "provenance", selective_again,
                                 selective_saved, "spread",     peer_messages};
  for (const auto& column : range_columns) names.emplace_back(column.name);
  for (const auto& column : duration_columns) names.emplace_back(column.name);
  for (const auto& column : bytes_columns) names.emplace_back(column.name);
  return names;
}

/// Both columns have a value for the same layers.
void read_selective(ProfileEntry& entry, const Json& json) {
  const std::size_t layers = entry.layers.size();
  read_column(json, selective_again, layers, [&](std::size_t layer, const Json& value) {
    if (!value.is_null()) entry.layers[layer].selective = {.again = value.duration()};
  });
  if (json.contains(selective_again) != json.contains(selective_saved)) {
    json.fail(concat(selective_again, " and ", selective_saved,
                     " come together: expected both, or neither"));
  }
  read_column(json, selective_saved, layers, [&](std::size_t layer, const Json& value) {
    std::optional<SelectiveCost>& selective = entry.layers[layer].selective;
    if (value.is_null() == selective.has_value()) {
      value.fail(concat("expected ", selective ? "bytes" : "null", " for layer ", layer, ", as in ",
                        selective_again));
    }
    if (selective) selective->saved = value.bytes();
  });
}

/// All columns are there, or none.
void read_ranges(ProfileEntry& entry, const Json& json) {
  const auto found = std::ranges::count_if(
      range_columns, [&](const RangeColumn& column) { return json.contains(column.name); });
  if (found == 0) return;
  entry.ranges.resize(entry.layers.size());
  for (const RangeColumn& column : range_columns) {
    if (!json.contains(column.name)) {
      json.fail(concat("expected ", column.name, " beside the other tenths of times"));
    }
    read_column(json, column.name, entry.layers.size(), [&](std::size_t layer, const Json& value) {
      entry.ranges[layer].*column.pass.*column.end = value.duration();
    });
  }
}

ProfileEntry read_entry(const Json& json, std::size_t layers) {
  json.allow_only(entry_members());
  ProfileEntry entry;
  entry.setting = read_setting(json);
  entry.layers.resize(layers);
  read_provenances(entry, json);
  for (const auto& column : duration_columns) {
    read_column(json, column.name, layers, [&](std::size_t layer, const Json& value) {
      entry.layers[layer].*column.member = value.duration();
    });
  }
  for (const auto& column : bytes_columns) {
    read_column(json, column.name, layers, [&](std::size_t layer, const Json& value) {
      entry.layers[layer].*column.member = value.bytes();
    });
  }
  read_selective(entry, json);
  read_column(json, "spread", layers, [&](std::size_t layer, const Json& value) {
    entry.layers[layer].spread = value.number();
    if (entry.layers[layer].spread < 0) value.fail("expected a number >= 0");
  });
  read_ranges(entry, json);
  if (json.contains(peer_messages)) entry.has_peer_messages = json[peer_messages].boolean();
  return entry;
}

/// Adds the column unless it is zero for every layer.
template <class Get>
void write_column(Value& json, const char* name, const ProfileEntry& entry, Get get) {
  Value column = Value::array();
  bool zero = true;
  for (const LayerCost& cost : entry.layers) {
    column.push_back(get(cost));
    zero = zero && get(cost) == 0;
  }
  if (!zero) json[name] = std::move(column);
}

void write_ranges(Value& json, const ProfileEntry& entry) {
  if (entry.ranges.empty()) return;
  for (const RangeColumn& column : range_columns) {
    Value values = Value::array();
    for (const MeasuredRanges& ranges : entry.ranges) {
      values.push_back((ranges.*column.pass.*column.end).count());
    }
    json[column.name] = std::move(values);
  }
}

void write_selective(Value& json, const ProfileEntry& entry) {
  Value again = Value::array(), saved = Value::array();
  for (const LayerCost& cost : entry.layers) {
    again.push_back(cost.selective ? Value(cost.selective->again.count()) : Value());
    saved.push_back(cost.selective ? Value(cost.selective->saved) : Value());
  }
  const bool none = std::ranges::all_of(saved, [](const Value& value) { return value.is_null(); });
  if (none) return;
  json[selective_again] = std::move(again);
  json[selective_saved] = std::move(saved);
}

Value write_provenances(const ProfileEntry& entry) {
  Value column = Value::array();
  for (const LayerCost& cost : entry.layers) column.push_back(to_string(cost.provenance));
  const bool one =
      std::ranges::all_of(column, [&](const Value& value) { return value == column[0]; });
  return one && !column.empty() ? column[0] : column;
}

Value write_entry(const ProfileEntry& entry) {
  const CostSetting& setting = entry.setting;
  Value json{{"device", setting.device}, {"microbatch", setting.microbatch}};
  if (setting.sequence != 0) json["sequence"] = setting.sequence;
  json["tensor_parallel"] = setting.tensor_parallel;
  if (setting.parallelism != Parallelism{}) {
    json["parallelism"] = parallelism_value(setting.parallelism);
  }
  json["precision"] = to_string(setting.precision);
  json["provenance"] = write_provenances(entry);
  for (const auto& column : duration_columns) {
    write_column(json, column.name, entry,
                 [&](const LayerCost& cost) { return (cost.*column.member).count(); });
  }
  for (const auto& column : bytes_columns) {
    write_column(json, column.name, entry,
                 [&](const LayerCost& cost) { return cost.*column.member; });
  }
  write_selective(json, entry);
  write_column(json, "spread", entry, [](const LayerCost& cost) { return cost.spread; });
  write_ranges(json, entry);
  if (!entry.has_peer_messages) json[peer_messages] = false;
  return json;
}

}  // namespace

Profile read_profile(const Json& json) {
  json.expect_format("stagecraft-profile/1");
  json.allow_only({"format", "source", "hand_over", "model", "entries"});
  Profile profile;
  profile.model = read_model(json["model"]);
  if (json.contains("source")) profile.source = json["source"].string();
  if (json.contains("hand_over")) profile.hand_over = read_link(json["hand_over"]);
  for (const Json& entry : json["entries"].elements()) {
    profile.entries.push_back(read_entry(entry, profile.model.layers.size()));
  }
  return profile;
}

std::string write_profile(const Profile& profile) {
  Value json{{"format", "stagecraft-profile/1"}, {"source", profile.source}};
  if (profile.hand_over) json["hand_over"] = write_link(*profile.hand_over);
  json["model"] = model_to_json(profile.model);
  json["entries"] = Value::array();
  for (const ProfileEntry& entry : profile.entries) json["entries"].push_back(write_entry(entry));
  return to_text(json);
}

}  // namespace stagecraft
