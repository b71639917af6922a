// Blocks shared out among devices at the least cost: a knapsack over what each of them can have
// (BlockPacking::all_choices).

#pragma once

#include <utility>
#include <vector>

namespace stagecraft {

/// One of the things a device can have.
struct BlockItem {
  int blocks = 0;
  double cost = 0;
};

/// Keeps its tables from one question to the next.
class BlockCover {
 public:
  /// So many blocks in all, an item for each device. False if devices cannot have that many.
  bool solve(const std::vector<std::vector<BlockItem>>& items, int blocks);

  /// The least sum.
  double value() const { return value_; }
  /// An item of each device, by its place, which together have that sum; of equal ones the first.
  const std::vector<int>& chosen() const { return chosen_; }
  /// The least sum of all other devices where this one has so many blocks; infinite if they cannot
  /// have the rest.
  double others(int device, int blocks);

 private:
  /// The cheapest item of so many blocks.
  struct Count {
    int blocks = 0, item = 0;
    double cost = 0;
  };
  /// Sums by blocks, from `least` on.
  struct Sums {
    int least = 0;
    std::vector<double> values;
    std::vector<int> last;  ///< which of the last device's counts
  };

  void list_counts(const std::vector<BlockItem>& items, std::vector<Count>& counts);
  static void extend(const Sums& from, const std::vector<Count>& counts, int least, int most,
                     Sums& to);

  int blocks_ = 0;
  double value_ = 0;
  std::vector<int> chosen_;
  std::vector<std::vector<Count>> counts_;  ///< per device, fewest blocks first
  std::vector<Sums> before_, after_;        ///< of the devices before one; of it and those after
  std::vector<double> others_;              ///< [device, blocks]; -1: not asked for yet
  std::vector<int> cheapest_;               ///< [blocks]: an item; -1: none
};

}  // namespace stagecraft
