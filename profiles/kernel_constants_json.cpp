#include "profiles/kernel_constants_json.hpp"

#include <nlohmann/json.hpp>

#include "profiles/error.hpp"

namespace stagecraft {

KernelConstants read_kernel_constants(const Json& json, KernelConstants usual) {
  std::vector<std::string> names;
  for (const KernelConstant& constant : kernel_constants) names.emplace_back(constant.name);
  json.allow_only(names);
  for (const KernelConstant& constant : kernel_constants) {
    if (!json.contains(constant.name)) continue;
    const Json value = json[constant.name];
    const double number = value.number();
    if (number < constant.least || number > constant.most) {
      value.fail(
          concat("expected from ", constant.least, " to ", constant.most, ", found ", number));
    }
    usual.*constant.member = number;
  }
  return usual;
}

nlohmann::ordered_json write_kernel_constants(const KernelConstants& constants) {
  auto json = nlohmann::ordered_json::object();
  for (const KernelConstant& constant : kernel_constants) {
    json[std::string(constant.name)] = constants.*constant.member;
  }
  return json;
}

}  // namespace stagecraft
