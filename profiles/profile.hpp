// A profile: a model with what each of its layers costs, for one or several settings.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/cluster.hpp"
#include "profiles/framework.hpp"
#include "profiles/model.hpp"
#include "profiles/parallelism.hpp"
#include "profiles/recomputed.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

/// The provenance of a figure.
enum class Provenance { measured, fitted, datasheet };
std::string_view to_string(Provenance provenance);

/// A layer that keeps neither the output nor the statistics of its attention, and has the attention
/// again, from queries, keys and values, right before its backward. One of latent attention keeps
/// these, and has norms again, and queries, keys and values from their latents (DeepSeek-V3,
/// section 3.2.3). Of estimates for Megatron-LM it may be modules instead (`LayerKernels::again`).
struct SelectiveCost {
  Duration again{0};
  Bytes saved = 0;  ///< instead of `LayerCost::saved`
  bool operator==(const SelectiveCost&) const = default;
};

/// Costs of one layer for one microbatch of the setting's size on one device (with its share of a
/// tensor-parallel split). Memory figures are for the same microbatch; parameters count once per
/// device.
struct LayerCost {
  Duration forward{0};
  Duration backward_input{
      0};  ///< gradient of the layer's input (and what the weight gradient needs)
  Duration backward_weight{0};  ///< gradients of the layer's weights
  /// Extra time of both parts compared with a whole backward: both repeat common computations, and
  /// each is launched separately.
  Duration split_overhead{0};
  Duration update{0};  ///< the optimizer's step on this layer's weights
  /// The part of `forward` and of `backward_input` that is token exchange between experts, which
  /// other work may hide (`ScheduleKind::hides_messages`).
  Duration forward_exchange{0}, backward_exchange{0};

  /// Kept from forward until the input gradient is done, besides the layer's input and output: a
  /// stage keeps the tensors between its layers once (but for `output_freed`), and its own input.
  Bytes saved = 0;
  /// Kept from there until the weight gradient is done, besides the layer's input: the part of
  /// `saved` it needs, and gradients.
  Bytes saved_for_weight = 0;
  Bytes output = 0;  ///< handed to later layers, and its gradient handed back
  /// The part of `output` that no backward needs, so that a stage with its readers does not keep
  /// it: a passing residual, or the input of a softmax.
  Bytes output_freed = 0;
  Bytes parameters = 0;  ///< weights, tied copies included where they are used
  /// The experts' part of `parameters`; gradients and states have the same part.
  Bytes expert_parameters = 0;
  Bytes gradients = 0;
  Bytes optimizer =
      0;  ///< optimizer state beside the weights (for AdamW: two moments, and a master copy if any)
  Bytes workspace = 0;                          ///< needed only while the layer computes
  std::optional<SelectiveCost> selective = {};  ///< nothing: the layer has no such form

  double spread = 0;  ///< relative spread of the measured times: (p90 - p10) / median
  Provenance provenance = Provenance::datasheet;

  /// In one piece.
  Duration backward() const { return backward_input + backward_weight - split_overhead; }
  bool operator==(const LayerCost&) const = default;
};

/// The layer's cost if it does this again right before its own backward, whatever the layers around
/// it do. A full one keeps only its input, which is there anyway. What is rebuilt is workspace;
/// what the weight gradient needs stays the same. A layer without a selective form does nothing
/// again.
LayerCost recomputed(LayerCost cost, Recomputed what);

/// The properties that costs depend on besides the layer.
struct CostSetting {
  std::string device;           ///< device kind name
  std::int64_t microbatch = 1;  ///< samples
  std::int64_t sequence = 0;    ///< tokens per sample, 0 where samples are not sequences
  int tensor_parallel = 1;
  Precision precision = Precision::float32;
  Parallelism parallelism = {};
  LayerKernels kernels = {};  ///< for estimates; no effect on measured costs
  /// For estimates of inference: maximum number of a microbatch's tokens in one pass, with logits
  /// of the samples' last tokens only. 0: training, with all tokens at once.
  std::int64_t chunk = 0;
  std::int64_t ends = 0;  ///< samples that end in a pass; 0: all of the microbatch
  bool operator==(const CostSetting&) const = default;
};
std::string to_string(const CostSetting& setting);

/// A tenth of the measured times is below the first, a tenth above the second.
struct TimeRange {
  Duration p10{0};
  Duration p90{0};
  bool operator==(const TimeRange&) const = default;
};

/// The spread of the times whose medians are a layer's cost.
struct MeasuredRanges {
  TimeRange forward, backward_input, backward_weight, update;
  bool operator==(const MeasuredRanges&) const = default;
};

struct ProfileEntry {
  CostSetting setting;
  std::vector<LayerCost> layers;  ///< one per layer of the model
  /// Whether the times include the messages of tensor-parallel peers. If not, they are added by the
  /// cluster's links (peer_messages.hpp).
  bool has_peer_messages = true;
  std::vector<MeasuredRanges> ranges = {};  ///< one per layer, or none
  bool operator==(const ProfileEntry&) const = default;
};

/// The devices, all equal, that a file of another planner names beside its model.
struct OwnDevices {
  int count = 1;
  int processors = 0;                            ///< CPUs beside them
  Bandwidth bandwidth = Bandwidth::unlimited();  ///< between any two
  Bytes memory = 0;                              ///< of each device
  int microbatches = 0;                          ///< per step; 0 where the file does not say
  bool operator==(const OwnDevices&) const = default;
};
/// They as CLUSTER: "6xgeneric@2GiB/s". Memory and CPUs have no place in it.
std::string cluster_expression(const OwnDevices& devices);

struct Profile {
  Model model;
  std::vector<ProfileEntry>
      entries;                    ///< none where only the model is known; then costs are estimated
  std::optional<Link> hand_over;  ///< measured between ranks of the profiled machine
  std::optional<OwnDevices> devices;  ///< only where the imported file has them; never written
  std::string source;  ///< how it came about, in words: "PipeDream graph.txt", "measured on …"
  std::vector<std::string> warnings;  ///< oddities of the imported file; never written
  bool operator==(const Profile&) const = default;
};

/// Throws Error (input) unless every entry has one valid cost per layer (no negative figure).
void validate(const Profile& profile);

/// The profile with its layers in this order, a permutation of their indices.
Profile reordered(Profile profile, const std::vector<int>& order);

/// The entry for the setting, or nullptr. Device "generic" matches entries of any device (the first
/// that fits otherwise). A microbatch, sequence length, degree or precision that was not measured
/// is never invented here.
const ProfileEntry* find_entry(const Profile& profile, const CostSetting& setting);

/// The layer costs for planner and simulator: the profile's entry for the setting, else the
/// datasheet estimate, without peers' messages. Throws Error (input), listing the profile's
/// entries, if there is neither (opaque layers, generic device).
std::vector<LayerCost> layer_costs(const Profile& profile, const DeviceKind& device,
                                   const CostSetting& setting);

/// Datasheet estimate of every layer: the larger of FLOPs over effective rate and bytes over memory
/// bandwidth, plus a launch floor. Exact byte counts for known transformers. Throws Error (input)
/// for opaque layers without measurements.
std::vector<LayerCost> estimate_costs(const Model& model, const DeviceKind& device,
                                      const CostSetting& setting);

/// Bytes that cross each cut, from 0 to the number of layers, for one microbatch: the outputs of
/// `crossing(model, cut)`; none at both ends.
std::vector<Bytes> crossing_bytes(const Model& model, const std::vector<LayerCost>& costs);

// stagecraft-profile/1; the annotated example opens profile_json.cpp.
Profile read_profile(const class Json& json);
std::string write_profile(const Profile& profile);

/// MODEL of the command line: a built-in name, or a file recognised by its content (our model or
/// profile, and what the importers table knows). A model without costs is a profile without
/// entries; `contents_hash` is over the file's bytes (or the built-in name's canonical text).
struct LoadedProfile {
  Profile profile;
  std::string path;  ///< as given
  std::string hash;
  std::string content;  ///< hash of the file; empty for a built-in model
};
LoadedProfile load_profile(std::string_view argument);

}  // namespace stagecraft
