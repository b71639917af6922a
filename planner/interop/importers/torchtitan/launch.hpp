// Launch lines of torchtitan: which configuration they start with, what they set over it, and on
// how many ranks.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers.hpp"
#include "planner/interop/importers/toml_settings.hpp"

namespace stagecraft {

/// The contents of a file, in any of the supported forms.
struct TitanJob {
  std::vector<TomlSetting> settings;  ///< each path once; what stands over another is behind it
  std::optional<int> ranks;           ///< nothing: all devices of the cluster
  std::vector<std::string> notes;
  std::vector<ReadText> unknown;  ///< words that are none of torchtitan's
  std::vector<OtherFile> others;
  bool since_0_3 = false;  ///< whose values what is left out has
};

/// A script or a line that starts torchtitan.
bool looks_like_titan_launch(std::string_view content);

/// TOML, a configuration in Python, or a launch of either (`torchrun … -m torchtitan.train`,
/// `run_train.sh`), with the command line's settings over it: of a script its variables, else paths
/// ("parallelism.tensor_parallel_degree"). Throws Error (input) with the place of what cannot be
/// read, and for configurations that are neither beside the script nor torchtitan's own; (usage)
/// for variables that nothing follows from.
TitanJob read_titan_job(std::string_view content, const std::string& file,
                        const ScriptVariables& variables);

}  // namespace stagecraft
