// All-reduces measured by nccl-tests inside one node: rows of bytes and nanoseconds by device and
// number of members. They fit the constants of messages apart from any model.

#include <cmath>

#include "planner/ledger/measured_sets.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array unknowns{"message_seconds", "peer_seconds", "inside_rate"};

std::string kind_named(std::string_view device) {
  return device == "a100" ? "a100-80gb" : std::string(device);
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
  const GroupPlace place{
      .members = members, .in_node = members, .inside = links.inside, .between = links.between};
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

std::vector<MeasuredSet> read_nccl_tests(const Json& json) {
  std::vector<MeasuredSet> sets;
  for (const std::string& device : json["data"].names()) {
    MeasuredSet set{.name = "nccl-all-reduce-" + device,
                    .source = json["source"].string(),
                    .device = kind_named(device),
                    .unknowns = {unknowns.begin(), unknowns.end()},
                    .start = usual_constants(kind_named(device))};
    for (const std::string& members : json["data"][device].names()) {
      const Json rows = json["data"][device][members];
      const std::size_t count = rows.elements().size();
      // Sizes by powers of two: 1 MiB, 2 MiB, 4 MiB …; the others lie between them.
      for (std::size_t i = 1; i <= count; i *= 2)
        set.rows.push_back(row_of(device, std::stoi(members), rows[i - 1]));
    }
    set.assumptions = {"of the sizes, each power of two"};
    sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace stagecraft
