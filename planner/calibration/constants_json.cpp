// {
//   "format": "stagecraft-constants/1",
//   "sets": [
//     {"set": "vtrain-single-node",       // what they were fitted on
//      "device": "a100-80gb",             // sets of other names on such devices take them, too
//      "constants": {"product_rate": 0.91, "host_seconds": 6.3e-05},  // left out: the usual ones
//      "corrections": {"hidden 1024, tensor 1, microbatch 1": 0.94}}  // may be left out
//   ]
// }

#include <nlohmann/json.hpp>

#include "planner/calibration/ledger.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/kernel_constants_json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

NamedCalibration read_one(const Json& json) {
  json.allow_only({"set", "device", "constants", "corrections"});
  NamedCalibration result{.set = json["set"].string(), .device = json["device"].string()};
  result.calibration.constants =
      read_kernel_constants(json["constants"], usual_constants(result.device));
  if (!json.contains("corrections")) return result;
  const Json corrections = json["corrections"];
  for (const std::string& shape : corrections.names()) {
    const double factor = corrections[shape].number();
    if (factor <= 0) corrections[shape].fail(concat("expected a factor above 0, found ", factor));
    result.calibration.corrections[shape] = factor;
  }
  return result;
}

}  // namespace

std::string write_constants(const std::vector<NamedCalibration>& calibrations) {
  Value json{{"format", "stagecraft-constants/1"}, {"sets", Value::array()}};
  for (const NamedCalibration& each : calibrations) {
    Value one{{"set", each.set},
              {"device", each.device},
              {"constants", write_kernel_constants(each.calibration.constants)}};
    if (!each.calibration.corrections.empty()) one["corrections"] = each.calibration.corrections;
    json["sets"].push_back(std::move(one));
  }
  return to_text(json);
}

std::vector<NamedCalibration> read_constants(const Json& json) {
  json.expect_format("stagecraft-constants/1");
  json.allow_only({"format", "sets"});
  std::vector<NamedCalibration> result;
  for (const Json& each : json["sets"].elements()) result.push_back(read_one(each));
  return result;
}

const NamedCalibration* constants_for(const std::vector<NamedCalibration>& known,
                                      const MeasuredSet& set) {
  for (const NamedCalibration& each : known) {
    if (each.set == set.name) return &each;
  }
  for (const NamedCalibration& each : known) {
    if (each.device == set.device) return &each;
  }
  return nullptr;
}

}  // namespace stagecraft
