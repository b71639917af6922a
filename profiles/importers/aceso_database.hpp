// Aceso's profile database (Liu et al., EuroSys 2024) as its files have it; Mist's is the same.
//
// A folder has one table per model, microbatch size and tensor-parallel degree,
// `gpt_1_3B_mbs1_tp2_algo0.csv`, each with the same operators; repeated layers are listed once.
// `p2p_intra_node.csv` and `p2p_inter_node.csv` have the bandwidth between two devices by message
// size. Aceso also measured a second way to split each operator (algo1) and the collectives that
// change between the two (prim_…); within one way they are not needed, and we read algo0 only.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// One operator for one microbatch on one device. Times in microseconds, sizes in MiB.
struct AcesoOperator {
  double forward = 0;
  double backward = 0;
  double input = 0;   ///< handed over where a stage begins before it
  double output = 0;  ///< handed over where a stage ends after it
  double weights = 0;
  double activations = 0;       ///< kept from forward until backward
  double forward_reserved = 0;  ///< what the allocator holds beside them while it computes
  double backward_reserved = 0;
};

struct AcesoTable {
  int microbatch = 1;  ///< samples on the device
  int tensor_parallel = 1;
  std::vector<AcesoOperator> operators;  ///< one per name of the database
};

struct AcesoDatabase {
  std::string family;                   ///< "gpt", "t5", "resnet"
  std::string size;                     ///< "1_3B"
  std::vector<std::string> names;       ///< of the operators listed
  std::vector<int> chain;               ///< the model: indices into `names`, layers repeated
  std::vector<AcesoTable> tables;       ///< by microbatch, then by degree
  std::vector<double> between_devices;  ///< GB/s inside a node for 1, 2, 4, … MB; may be missing
  std::vector<double> between_nodes;    ///< the same between nodes
  /// Bytes of optimizer state, a master copy included, per byte of weights.
  double optimizer_ratio = 0;
};

/// The table `content` of `file`, and from the file's folder the other tables of its model and the
/// bandwidths. Throws Error (input) with file, line and expectation.
AcesoDatabase read_aceso_database(std::string_view content, const std::string& file);

/// The operators in order for a model of so many layers: those before, the layers, those after; for
/// t5 encoder and decoder.
std::vector<int> aceso_chain(const std::string& family, int operators, int layers);

}  // namespace stagecraft
