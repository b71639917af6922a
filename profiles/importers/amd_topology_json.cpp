// The JSON of AMD's tools. `amd-smi topology --json`, from ROCm 6.1.1 on, from ROCm 7 on inside of
// {"gpu_data": …}, and before:
//
//   [{"gpu": 0, "bdf": "0000:01:00.0", "links": [
//      {"gpu": 1, "bdf": "0001:01:00.0", "link_type": "XGMI", "num_hops": 1,
//       "bandwidth": "50000-100000"}, …]}, …]
//   [{"gpu": 0, "link_type": {"gpu_0": "SELF", "gpu_1": "XGMI"}, "hops": {"gpu_0": 0, …},
//     "numa_bandwidth": {"gpu_0": "N/A", …}}, …]
//
// and `rocm-smi --showtopo --json`, which tells each pair once:
//
//   {"card0": {"(Topology) Numa Node": "0", …}, "system": {
//      "(Topology) Link type between DRM devices 0 and 1": "XGMI",
//      "(Topology) Hops between DRM devices 0 and 1": "1", …}}

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "profiles/error.hpp"
#include "profiles/importers/amd_topology.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view wrapper = "gpu_data";
constexpr int most_numbered = 1024;
constexpr std::string_view numa_node = "(Topology) Numa Node";

using Matrix = AmdTopologyTables::Matrix;

/// A string, or a number as it is written.
std::string text_of(const Json& json) {
  return json.is_string() ? json.string() : json.raw().dump();
}

Matrix empty_matrix(std::size_t devices) {
  return {devices, std::vector<std::string>(devices)};
}

/// Whether something is told of each pair of devices, or of none.
bool is_whole(const Matrix& matrix, bool& is_empty) {
  std::size_t told = 0, pairs = 0;
  for (std::size_t a = 0; a < matrix.size(); ++a) {
    for (std::size_t b = 0; b < matrix.size(); ++b) {
      if (a == b) continue;
      ++pairs;
      if (!matrix[a][b].empty()) ++told;
    }
  }
  is_empty = told == 0;
  return told == 0 || told == pairs;
}

/// Drops hops and bandwidths of which nothing is told; refuses what lacks some pairs.
void require_whole(AmdTopologyTables& tables, const Json& place) {
  for (Matrix* matrix : {&tables.types, &tables.hops, &tables.bandwidths}) {
    bool is_empty = true;
    if (!is_whole(*matrix, is_empty))
      place.fail("some pairs of devices are not told: expected all", {"give the file all devices"});
    if (!is_empty || matrix->size() < 2) continue;
    if (matrix == &tables.types)
      place.fail("the types of links are not told", {"print the topology without options"});
    matrix->clear();
  }
}

void require_count(std::size_t devices, const Json& place) {
  if (devices < 1 || devices > static_cast<std::size_t>(most_numbered))
    place.fail(concat("expected from 1 to ", most_numbered, " devices, found ", devices));
}

/// `amd-smi topology --json`.
class AmdSmiJson {
 public:
  explicit AmdSmiJson(const Json& devices) : json_(devices), devices_(devices.elements()) {
    require_count(devices_.size(), json_);
    for (const Json& device : devices_)
      numbers_.push_back(device["gpu"].small_integer(0, most_numbered));
    tables_.types = tables_.hops = tables_.bandwidths = empty_matrix(devices_.size());
  }

  AmdTopologyTables tables() {
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      const Json& device = devices_[a];
      tables_.devices.push_back(device.contains("bdf") ? device["bdf"].string()
                                                       : concat("GPU", numbers_[a]));
      if (device.contains("links")) {
        for (const Json& link : device["links"].elements()) take_link(a, link);
      } else {
        take_row(tables_.types[a], device, "link_type");
        take_row(tables_.hops[a], device, "hops");
        take_row(tables_.bandwidths[a], device, "numa_bandwidth");
      }
    }
    require_whole(tables_, json_);
    return std::move(tables_);
  }

 private:
  void take_link(std::size_t a, const Json& link) {
    const int number = link["gpu"].small_integer(0, most_numbered);
    const auto found = std::ranges::find(numbers_, number);
    if (found == numbers_.end()) link["gpu"].fail(concat("no device of the file is ", number));
    const auto b = static_cast<std::size_t>(found - numbers_.begin());
    const auto take = [&](std::string& cell, std::string_view key) {
      if (link.contains(key)) cell = text_of(link[key]);
    };
    take(tables_.types[a][b], "link_type");
    take(tables_.hops[a][b], "num_hops");
    take(tables_.bandwidths[a][b], "bandwidth");
  }

  /// {"gpu_0": …, "gpu_1": …}
  void take_row(std::vector<std::string>& row, const Json& device, std::string_view key) const {
    if (!device.contains(key)) return;
    const Json cells = device[key];
    for (std::size_t b = 0; b < devices_.size(); ++b) {
      const std::string name = concat("gpu_", numbers_[b]);
      if (cells.contains(name)) row[b] = text_of(cells[name]);
    }
  }

  Json json_;
  std::vector<Json> devices_;
  std::vector<int> numbers_;
  AmdTopologyTables tables_;
};

/// A key of `rocm-smi --json`: "(Topology) Hops between DRM devices 0 and 1".
struct PairKey {
  std::string what;  ///< "hops", in lower case
  int first = 0, second = 0;
};
std::optional<PairKey> pair_key(std::string_view key) {
  constexpr std::string_view front = "(Topology) ", between = " between DRM devices ",
                             and_ = " and ";
  const std::size_t middle = key.find(between);
  if (!key.starts_with(front) || middle == std::string_view::npos) return {};
  PairKey found;
  for (const char c : key.substr(front.size(), middle - front.size()))
    found.what += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string_view pair = key.substr(middle + between.size());
  const char* const end = pair.data() + pair.size();
  const auto first = std::from_chars(pair.data(), end, found.first);
  if (first.ec != std::errc{} || !std::string_view(first.ptr, end).starts_with(and_)) return {};
  const auto second = std::from_chars(first.ptr + and_.size(), end, found.second);
  if (second.ec != std::errc{} || second.ptr != end) return {};
  return found;
}

AmdTopologyTables rocm_smi_tables(const Json& json) {
  const Json system = json["system"];
  std::set<int> numbers;
  std::vector<std::pair<PairKey, std::string>> told;
  for (const std::string& name : system.names()) {
    const auto key = pair_key(name);
    if (!key) continue;
    numbers.insert({key->first, key->second});
    told.emplace_back(*key, text_of(system[name]));
  }
  require_count(numbers.size(), system);
  AmdTopologyTables tables;
  for (const int number : numbers) {
    tables.devices.push_back(concat("GPU", number));
    const std::string card = concat("card", number);
    if (json.contains(card) && json[card].contains(numa_node))
      tables.numa_nodes.push_back(text_of(json[card][numa_node]));
  }
  tables.types = tables.hops = empty_matrix(numbers.size());
  for (const auto& [key, value] : told) {
    const auto place = [&](int number) {
      return static_cast<std::size_t>(std::distance(numbers.begin(), numbers.find(number)));
    };
    const std::size_t a = place(key.first), b = place(key.second);
    if (key.what == "link type") tables.types[a][b] = tables.types[b][a] = value;
    if (key.what == "hops") tables.hops[a][b] = tables.hops[b][a] = value;
  }
  require_whole(tables, system);
  return tables;
}

}  // namespace

bool is_amd_topology_json(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (content[first] != '[' && content[first] != '{'))
    return false;
  return content.find("\"link_type\"") != std::string_view::npos ||
         content.find("between DRM devices") != std::string_view::npos;
}

AmdTopologyTables read_amd_topology_json(std::string_view content, const std::string& file) {
  const Json json = Json::parse(std::string(content), file);
  if (json.is_array()) return AmdSmiJson(json).tables();
  if (json.contains(wrapper)) return AmdSmiJson(json[wrapper]).tables();
  return rocm_smi_tables(json);
}

}  // namespace stagecraft
