#include "planner/costs/program_rows.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

std::vector<std::vector<int>> devices_of_rows(const Plan& plan, const Compiled& compiled) {
  const std::vector<int> leads = lead_devices(plan);
  std::vector<std::vector<int>> rows(compiled.devices.size());
  for (const Stage& stage : plan.stages) {
    for (const std::vector<int>& peers : stage.devices) {
      const auto lead = static_cast<std::size_t>(
          std::lower_bound(leads.begin(), leads.end(), peers.front()) - leads.begin());
      const std::size_t row = compiled.stand_ins.empty() ? lead : index(compiled.stand_ins[lead]);
      rows[row].insert(rows[row].end(), peers.begin(), peers.end());
    }
  }
  for (std::vector<int>& row : rows) {
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return rows;
}

std::vector<std::string> row_names(const Plan& plan, const Compiled& compiled) {
  std::vector<std::string> names;
  for (const std::vector<int>& row : devices_of_rows(plan, compiled)) {
    std::string name = row.size() == 1 ? "device" : "devices";
    int runs = 0;
    for (std::size_t first = 0, end = 0; first < row.size(); first = end) {
      for (end = first + 1; end < row.size() && row[end] == row[end - 1] + 1;) ++end;
      constexpr int most_runs = 4;
      if (++runs > most_runs) {
        name += " ...";
        break;
      }
      name += concat(" ", row[first]);
      if (end > first + 1) name += concat("-", row[end - 1]);
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace stagecraft
