// What kind of plans a setting has: that decides which searches and bounds know it.

#pragma once

#include <string>

#include "planner/space/space.hpp"

namespace stagecraft {

/// "1f1b, tensor-parallel 4, microbatches of 2": what a setting is, of each copy.
std::string to_words(const Setting& setting);

/// Whether one stage per device follows another, under GPipe or 1F1B: what `ChainBounds` knows.
bool is_chain(const Setting& setting);

/// On more devices plans are searched by columns.
inline constexpr int most_devices_walked = 16;

/// Whether there are too many devices and layers for the tables of `ChainBounds`.
bool has_many_devices(const Space& space, const Setting& setting);

/// So many can be gone through where no bound rules out many of them.
inline constexpr double most_layouts_walked = 1e6;

/// How many ways there are to give stages on so many pipeline devices their replicas and layers.
double count_layouts(const Space& space, const Setting& setting, int depth);

/// Whether all plans of the setting are columns: on two alike devices, or without replicas.
bool has_only_columns(const Space& space, const Setting& setting);

}  // namespace stagecraft
