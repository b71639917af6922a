// A multiple-choice knapsack: distributes blocks over devices at the least cost, one item for each
// device (BlockPacking::all_choices).

#pragma once

#include <utility>
#include <vector>

namespace stagecraft {

/// A choice of a device: number of blocks and cost.
struct BlockItem {
  int blocks = 0;
  double cost = 0;
};

/// The solver. It reuses its tables from one call to the next.
class BlockCover {
 public:
  /// Chooses an item for each device so that they hold `blocks` blocks together at the least cost.
  /// False if that is impossible.
  bool solve(const std::vector<std::vector<BlockItem>>& items, int blocks);

  /// The least cost.
  double value() const { return value_; }
  /// The place of each device's item in a solution of least cost; of equal solutions, the first.
  const std::vector<int>& chosen() const { return chosen_; }
  /// The least cost of all other devices if this one has this many blocks; infinite if they cannot
  /// have the rest.
  double others(int device, int blocks);

 private:
  /// The cheapest item with a number of blocks.
  struct Count {
    int blocks = 0, item = 0;
    double cost = 0;
  };
  /// Least costs by number of blocks, from `least` on.
  struct Sums {
    int least = 0;
    std::vector<double> values;
    std::vector<int> last;  ///< the choice of the last device
  };

  void list_counts(const std::vector<BlockItem>& items, std::vector<Count>& counts);
  static void extend(const Sums& from, const std::vector<Count>& counts, int least, int most,
                     Sums& to);

  int blocks_ = 0;
  double value_ = 0;
  std::vector<int> chosen_;
  std::vector<std::vector<Count>> counts_;  ///< cheapest items per device, fewest blocks first
  std::vector<Sums> before_, after_;        ///< [device]: of the devices before it; of it and those
                                            ///< after it
  std::vector<double> others_;              ///< [device, blocks]; -1: not computed yet
  std::vector<int> cheapest_;               ///< [blocks]: an item; -1: none
};

}  // namespace stagecraft
