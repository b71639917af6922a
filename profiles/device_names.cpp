#include "profiles/device_names.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "profiles/cluster.hpp"
#include "profiles/devices/rows.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct GenerationKinds {
  std::string_view name;   ///< compute capability in tenths, or an instruction set of AMD
  std::string_view kinds;  ///< the most frequent one first
};
constexpr std::array generations{
    GenerationKinds{"60", "p100"},
    GenerationKinds{"70", "v100 v100-32gb v100-pcie v100-pcie-32gb"},
    GenerationKinds{"75", "t4"},
    GenerationKinds{"80", "a100-80gb a100 a100-pcie a100-pcie-80gb a800"},
    GenerationKinds{"86", "a10 a10g rtx3090"},
    GenerationKinds{"89", "rtx4090 l4 l40s"},
    GenerationKinds{"90", "h100 h200 h100-96gb h100-pcie h100-nvl h20 h800 gh200"},
    GenerationKinds{"100", "b200 gb200"},
    GenerationKinds{"103", "b300 gb300"},
    GenerationKinds{"120", "rtx5090"},
    GenerationKinds{"gfx90a", "mi250x"},
    GenerationKinds{"gfx942", "mi300x mi325x"},
    GenerationKinds{"gfx950", "mi355x"},
};

/// "NVIDIA A100-SXM4-80GB" as a100 sxm4 80gb; the vendors stay if `with_vendors`.
std::vector<std::string> product_words(std::string_view text, bool with_vendors = false) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool part = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    if (part) {
      words.back() += static_cast<char>(upper ? c - 'A' + 'a' : c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  if (!with_vendors) {
    std::erase_if(words, [](const std::string& word) {
      return word == "nvidia" || word == "amd" || word == "tesla" || word == "geforce";
    });
  }
  return words;
}

/// Whether the name stands behind its vendor's, and no word behind it makes it another product.
bool stands_in(const std::vector<std::string>& name, const std::vector<std::string>& words) {
  const auto is_any = [](const std::string& word, std::initializer_list<std::string_view> known) {
    return std::ranges::find(known, word) != known.end();
  };
  for (std::size_t at = 1; at + name.size() <= words.size(); ++at) {
    if (!is_any(words[at - 1], {"nvidia", "amd", "tesla", "geforce"})) continue;
    if (!std::equal(name.begin(), name.end(), words.begin() + static_cast<std::ptrdiff_t>(at)))
      continue;
    if (at + name.size() == words.size()) return true;
    const std::string& next = words[at + name.size()];
    const bool other = is_any(next, {"pcie", "nvl", "mig", "ti", "super", "d", "laptop", "max",
                                     "mobile", "ada", "grid", "hbm3", "hbm2e"}) ||
                       next.starts_with("sxm") || (next.ends_with("gb") && next.size() <= 5);
    if (!other) return true;
  }
  return false;
}

}  // namespace

std::string device_kind_named(std::string_view product) {
  const std::vector<std::string> words = product_words(product);
  for (const devices::Row& row : devices::all_rows()) {
    for (const std::string_view known : row.products)
      if (split(known, ' ') == words) return std::string(row.name);
  }
  return "";
}

std::string device_kind_in(std::string_view line) {
  const std::vector<std::string> words = product_words(line, true);
  std::string found;
  std::size_t longest = 0;
  for (const devices::Row& row : devices::all_rows()) {
    for (const std::string_view known : row.products) {
      const std::vector<std::string> name = split(known, ' ');
      if (name.size() > longest && stands_in(name, words)) {
        found = row.name;
        longest = name.size();
      }
    }
  }
  return found;
}

std::vector<std::string> device_kinds_of_generation(std::string_view generation) {
  for (const auto& [name, kinds] : generations) {
    if (name == generation) return split(kinds, ' ');
  }
  return {};
}

std::string builtin_device_kind_called(std::string_view given) {
  std::string name = lower_case(given);
  // The memory that a kind has is no part of its name where it came with one size first.
  constexpr std::array whole_names{std::pair{"a100-40gb", "a100"}, std::pair{"v100-16gb", "v100"},
                                   std::pair{"h100-80gb", "h100"}, std::pair{"h200-141gb", "h200"},
                                   std::pair{"t4-16gb", "t4"}};
  for (const auto& [whole, known] : whole_names) {
    if (name == whole) name = known;
  }
  const std::vector<std::string> known = builtin_device_kinds();
  if (std::ranges::count(known, name) > 0) return name;
  const std::string of_product = device_kind_named(given);
  return of_product.empty() ? std::string(given) : of_product;
}

std::string generation_of_device_kind(std::string_view kind) {
  for (const auto& [name, kinds] : generations) {
    const std::vector<std::string> all = split(kinds, ' ');
    if (std::ranges::count(all, kind) > 0) return std::string(name);
  }
  return {};
}

}  // namespace stagecraft
