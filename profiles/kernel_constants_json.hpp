// Constants as the members of an object, in clusters and files of constants.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "profiles/json.hpp"
#include "profiles/kernel_constants.hpp"

namespace stagecraft {

/// Constants that the object leaves out are taken from `usual`. Throws Error (input) at an unknown
/// name, or a number out of its range.
KernelConstants read_kernel_constants(const Json& json, KernelConstants usual);
nlohmann::ordered_json write_kernel_constants(const KernelConstants& constants);

}  // namespace stagecraft
