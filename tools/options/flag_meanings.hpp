// The equivalents of other systems' flags and verbs, for error messages about flags of Megatron-LM,
// torchrun or another verb.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A verb with its options, for finding equivalents.
struct VerbOptions {
  std::vector<std::string> options;  ///< its own, "--tp"
  bool takes_plan = false;
  /// All verbs that have an option, in the order of their table.
  std::function<std::vector<std::string>(std::string_view option)> verbs_with;
};

/// A suggestion for an option that the verb does not have: its own option of the same meaning, an
/// equivalent --set, or another verb that has it; empty if none is known.
std::string option_of_same_meaning(std::string_view unknown, const VerbOptions& verb);
/// The suggestion for a verb of which only the options are known.
std::string option_of_same_meaning(std::string_view unknown,
                                   const std::vector<std::string>& options);

/// A suggestion for an unknown word in a verb's place: the equivalent command, "stagecraft plan
/// MODEL CLUSTER does that" for "optimize"; for a file, the commands for files of its kind; empty
/// if none is known.
std::string verb_of_same_meaning(std::string_view unknown);

/// The key of --set that corresponds to a framework's flag or configuration line: "tp" for
/// "--tensor-model-parallel-size" and "tensor_parallel_degree", "mbs" for
/// "config.training.local_batch_size"; empty if there is none.
std::string key_of_flag(std::string_view name);

}  // namespace stagecraft
