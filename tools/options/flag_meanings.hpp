// What flags and verbs of other systems are called here: whoever types Megatron-LM's or torchrun's,
// or a flag of another verb, is told ours.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A verb, as far as it matters to what its flags mean.
struct VerbOptions {
  std::vector<std::string> options;  ///< its own, "--tp"
  bool takes_plan = false;
  /// All verbs that have an option, in the order of their table.
  std::function<std::vector<std::string>(std::string_view option)> verbs_with;
};

/// What to say instead of an option that the verb does not have: its own of the same meaning, a
/// --set that changes the same, or another verb that has it; empty where nothing known means the
/// same.
std::string option_of_same_meaning(std::string_view unknown, const VerbOptions& verb);
/// The same of a verb of which only its options are known.
std::string option_of_same_meaning(std::string_view unknown,
                                   const std::vector<std::string>& options);

/// The command that does what a word in a verb's place asks for, "stagecraft plan MODEL CLUSTER
/// does that" for "optimize"; of a file, what there is for files of its kind; empty where nothing
/// is known of it.
std::string verb_of_same_meaning(std::string_view unknown);

/// The key of --set that changes what a framework's flag or line of a configuration says: "tp" of
/// "--tensor-model-parallel-size", of "tensor_parallel_degree" and of
/// "config.training.local_batch_size" "mbs"; empty where no key does.
std::string key_of_flag(std::string_view name);

}  // namespace stagecraft
