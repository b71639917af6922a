// Where Megatron-LM puts embedding, transformer layers, modules of multi-token prediction and loss:
// from its flags, or from a layout.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/megatron_flags.hpp"

namespace stagecraft {

/// The layers of one (virtual) pipeline stage.
struct MegatronStage {
  bool embedding = false;
  int layers = 0;
  int prediction = 0;  ///< modules of multi-token prediction
  bool loss = false;   ///< and the head
  bool operator==(const MegatronStage&) const = default;
};

/// "Et*3|(tt|)*29,m|L": stages in the order of the model, `|` between them; E embedding, t
/// transformer layer, m multi-token prediction, L loss; (…)*n and then x*n repeat, commas do not
/// count (`PipelineParallelLayerLayout.parse_str_to_list`). Or a list of lists of "embedding",
/// "decoder", "mtp" and "loss". Stages between the first and the last one may be empty. Throws
/// Error (input) for what Megatron-LM would refuse: a t behind an m, or m in two stages.
std::vector<MegatronStage> read_megatron_layout(std::string_view layout);

/// The shortest such text with every stage written out: "Et*3|tt|tt|L".
std::string write_megatron_layout(const std::vector<MegatronStage>& stages);

/// All stages, chunk by chunk (stage = chunk x ranks + rank), as `get_num_layers_to_build` and the
/// layout have them; modules of multi-token prediction are with the loss unless the layout has them
/// elsewhere. Throws Error (input) with Megatron-LM's reason where it would refuse — or, in older
/// releases, silently build fewer layers.
std::vector<MegatronStage> megatron_stages(const MegatronFlags& flags, int layers);

/// As a word of a shell, in quotes if it needs them.
std::string shell_word(const std::string& text);

}  // namespace stagecraft
