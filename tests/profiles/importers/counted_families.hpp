// Families of Hugging Face models beside their parameters as transformers counts them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiles/importers.hpp"

namespace stagecraft::tests {

struct Counted {
  std::string family;
  std::int64_t by_default;
  std::string lacking;  ///< keys that the defaults of the library's class lack
  std::int64_t small;
  std::string keys;
};

/// Of transformers 5.23.0 on the meta device: of its class's defaults, and of a small
/// configuration.
const std::vector<Counted>& counted_families();

inline Profile import_text(const std::string& text) {
  return import_huggingface(text, "config.json");
}

inline std::string small_config(const Counted& row, const std::string& more = "") {
  return "{\"model_type\": \"" + row.family + "\", " + row.keys + more + "}";
}

}  // namespace stagecraft::tests
