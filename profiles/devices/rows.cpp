#include "profiles/devices/rows.hpp"

#include <algorithm>
#include <iterator>

namespace stagecraft::devices {

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all = nvidia_accelerators();
    for (auto* const more : {nvidia_cards, other_devices}) {
      std::vector<Row> next = more();
      std::move(next.begin(), next.end(), std::back_inserter(all));
    }
    return all;
  }();
  return rows;
}

}  // namespace stagecraft::devices
