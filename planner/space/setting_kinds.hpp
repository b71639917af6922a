// Properties of a setting that decide which searches and relaxations apply.

#pragma once

#include <string>

#include "planner/space/space.hpp"

namespace stagecraft {

/// A setting in words, per pipeline replica, as "1f1b, tensor-parallel 4, microbatches of 2".
std::string to_words(const Setting& setting);

/// Whether the setting's plans are chains of one stage per device under GPipe or 1F1B, which
/// `ChainBounds` supports.
bool is_chain(const Setting& setting);

/// On more devices, plans are searched by columns.
inline constexpr int most_devices_walked = 16;

/// Whether devices and layers are too many for the tables of `ChainBounds`.
bool has_many_devices(const Space& space, const Setting& setting);

/// Maximum number of layouts to enumerate with weak bounds.
inline constexpr double most_layouts_walked = 1e6;

/// Number of layouts on `depth` pipeline devices, by replicas and cuts.
double count_layouts(const Space& space, const Setting& setting, int depth);

/// Whether all plans of the setting are columns: on two equal devices, or without replicas.
bool has_only_columns(const Space& space, const Setting& setting);

}  // namespace stagecraft
