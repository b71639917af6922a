// What tests of importers share.

#pragma once

#include <string>
#include <vector>

#include "profiles/profile.hpp"
#include "tests/catch.hpp"

namespace stagecraft::tests {

/// The text with the first `old` in it changed.
inline std::string with(std::string text, const std::string& old, const std::string& changed) {
  const std::size_t place = text.find(old);
  REQUIRE(place != std::string::npos);
  return text.replace(place, old.size(), changed);
}

inline std::vector<std::string> names_of(const Profile& profile) {
  std::vector<std::string> names;
  for (const Layer& layer : profile.model.layers) names.push_back(layer.name);
  return names;
}

}  // namespace stagecraft::tests
