// All-reduces measured by nccl-tests inside one node: rows of bytes and nanoseconds by device and
// number of members. They fit the constants of messages apart from any model.

#include <cmath>
#include <numeric>

#include "planner/calibration/measured_sets.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/nvlink.hpp"

namespace stagecraft {

namespace {

constexpr std::array nccl_unknowns{"message_seconds", "peer_seconds", "inside_rate"};

std::string kind_named(std::string_view device) {
  return device == "a100" ? "a100-80gb" : std::string(device);
}

/// Eight V100 stand in a hybrid cube mesh: the first of them reach what rings over the NVLinks
/// among them do, of which eight have six.
Link link_among(const std::string& device, int members, Link link) {
  if (device != "v100" || members < 2 || members > 8) return link;
  const NvlinkMatrix links = hybrid_cube_mesh();
  std::vector<int> all(8), devices(static_cast<std::size_t>(members));
  std::iota(all.begin(), all.end(), 0);
  std::iota(devices.begin(), devices.end(), 0);
  const double part = nvlink_bus_links(links, devices) / nvlink_bus_links(links, all);
  link.collective = {std::llround(static_cast<double>(link.collective.bytes_per_second) * part)};
  return link;
}

MeasuredRow row_of(const std::string& device, int members, const Json& row) {
  const double bytes = row[std::size_t{0}].number();
  MeasuredRow result;
  result.label = concat(device, ", ", members, " members, ",
                        static_cast<std::int64_t>(bytes) / (1 << 20), " MiB");
  result.family = concat(members, " members");
  result.problem = concat(members, " members");
  result.seconds = row[1].number() / 1e9;
  const KindLinks links = builtin_links(kind_named(device));
  const GroupPlace place{.members = members,
                         .in_node = members,
                         .inside = link_among(device, members, links.inside),
                         .between = links.between};
  result.predict = [bytes, place](const KernelConstants& constants, double) {
    return collective_seconds(OperationKind::all_reduce, bytes, place, constants);
  };
  return result;
}

}  // namespace

bool is_nccl_tests(const Json& json) {
  if (!json.contains("columns") || !json.contains("data")) return false;
  if (!json["columns"].is_array() || !json["data"].is_object()) return false;
  const std::vector<Json> columns = json["columns"].elements();
  return columns.size() >= 2 && columns[0].is_string() && columns[0].string() == "bytes";
}

static int count_of_members(const Json& rows, const std::string& members) {
  const bool is_count = !members.empty() && members.size() < 7 &&
                        members.find_first_not_of("0123456789") == std::string::npos;
  if (!is_count)
    rows.fail(concat("expected a number of devices as its name, found \"", members, "\""));
  return std::stoi(members);
}

std::vector<MeasuredSet> read_nccl_tests(const Json& json) {
  std::vector<MeasuredSet> sets;
  for (const std::string& device : json["data"].names()) {
    MeasuredSet set{.name = "nccl-all-reduce-" + device,
                    .source = json["source"].string(),
                    .device = kind_named(device),
                    .unknowns = {nccl_unknowns.begin(), nccl_unknowns.end()},
                    .start = usual_constants(kind_named(device))};
    for (const std::string& members : json["data"][device].names()) {
      const Json rows = json["data"][device][members];
      const std::size_t count = rows.elements().size();
      // Sizes by powers of two: 1 MiB, 2 MiB, 4 MiB …; the others lie between them.
      for (std::size_t i = 1; i <= count; i *= 2)
        set.rows.push_back(row_of(device, count_of_members(rows, members), rows[i - 1]));
    }
    set.assumptions = {"of the sizes, each power of two"};
    if (device == "v100")
      set.assumptions.push_back("the first members of a DGX-1, whose NVLinks join pairs");
    sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace stagecraft
