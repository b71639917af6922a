#include "planner/analysis/change_kinds.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// What else a key of `change_kinds` is called.
struct OtherName {
  std::string_view name;
  std::string_view key;
};

constexpr std::array other_names{
    OtherName{"gbs", "batch"},
    OtherName{"global-batch", "batch"},
    OtherName{"micro-batch", "mbs"},
    OtherName{"virtual", "vpp"},
    OtherName{"virtual-stages", "vpp"},
    OtherName{"tensor-parallel", "tp"},
    OtherName{"stages", "pp"},
    OtherName{"pipeline-parallel", "pp"},
    OtherName{"data-parallel", "dp"},
    OtherName{"replicas", "dp"},
    OtherName{"context-parallel", "cp"},
    OtherName{"expert-parallel", "ep"},
    OtherName{"sequence-parallel", "sp"},
    OtherName{"seq", "sequence"},
    OtherName{"prompt", "prompt-tokens"},
    OtherName{"output", "output-tokens"},
    OtherName{"chunk", "chunk-tokens"},
    OtherName{"max-num-batched-tokens", "chunk-tokens"},
    OtherName{"overlap-gradients", "gradient-bucket"},
    OtherName{"moe-dispatcher", "dispatcher"},
    OtherName{"graphs", "cuda-graphs"},
    OtherName{"float8-recipe", "fp8-recipe"},
    OtherName{"cross-entropy-loss-fusion", "fused-loss"},
    OtherName{"moe-router-fusion", "router-fusion"},
};

/// What people look for that is no key, and where it is.
struct Elsewhere {
  std::string_view name;
  std::string_view sentence;
};

constexpr std::string_view of_links =
    "links have numbers, outermost first: --set link0=50% halves the bandwidth between nodes";
constexpr std::string_view of_devices =
    "another cluster has other plans: stagecraft plan MODEL CLUSTER finds the best one for it";
constexpr std::string_view of_speed = "--set device0.slow=20% lets device 0 compute 20 % longer";

constexpr std::array elsewhere{
    Elsewhere{"bandwidth", of_links},
    Elsewhere{"network", of_links},
    Elsewhere{"interconnect", of_links},
    Elsewhere{"link", of_links},
    Elsewhere{"nvlink", of_links},
    Elsewhere{"infiniband", of_links},
    Elsewhere{"latency", of_links},
    Elsewhere{"cluster", of_devices},
    Elsewhere{"devices", of_devices},
    Elsewhere{"device", of_devices},
    Elsewhere{"gpus", of_devices},
    Elsewhere{"nodes", of_devices},
    Elsewhere{"slow", of_speed},
    Elsewhere{"speed", of_speed},
    Elsewhere{"flops", of_speed},
    Elsewhere{"memory", "it is --memory SIZE, beside --set"},
    Elsewhere{"model", "another model has other plans: stagecraft plan MODEL CLUSTER"},
    Elsewhere{"microbatches", "--set batch=N or --set mbs=N changes how many there are"},
};

void require_known(const Change& change) {
  if (numbered_key(change.key, "link") || numbered_key(change.key, "device")) return;
  std::vector<std::string> known;
  for (const ChangeKind& kind : change_kinds()) {
    if (kind.key == change.key) return;
    known.emplace_back(kind.key);
  }
  const auto other = std::ranges::find(elsewhere, std::string_view(change.key), &Elsewhere::name);
  if (other != elsewhere.end())
    fail_usage("unknown change \"", change.key, "\"; ", other->sentence);
  fail_unknown("change", change.key, known);
}

}  // namespace

const std::vector<ChangeKind>& change_kinds() {
  static const std::vector<ChangeKind> kinds{
      {"batch", "batch=512", "samples per step", true},
      {"mbs", "mbs=2", "samples per microbatch and replica", true},
      {"microbatch", "microbatch=8", "samples per microbatch, over all replicas", true},
      {"sequence", "sequence=8192", "tokens per sample; 32k are 32768", true},
      {"prompt-tokens", "prompt-tokens=2048",
       "inference: tokens of each request's prompt, the same as sequence", true},
      {"output-tokens", "output-tokens=256", "inference: tokens to generate for each request",
       true},
      {"chunk-tokens", "chunk-tokens=8192",
       "inference: maximum number of prompt tokens in one pass", true},
      {"pp", "pp=4", "pipeline devices", true},
      {"vpp", "vpp=2", "stages per pipeline device", true},
      {"tp", "tp=4", "tensor-parallel degree", true},
      {"cp", "cp=2", "context-parallel degree", true},
      {"ep", "ep=8", "expert-parallel degree", true},
      {"dp", "dp=2", "replicas of each stage", true},
      {"sp", "sp=off", "sequence parallelism"},
      {"schedule", "schedule=zb-h1", "a name of `stagecraft schedule list`"},
      {"recompute", "recompute=selective",
       "recomputation of all stages: none, selective, blocks or full"},
      {"overlap", "overlap=experts",
       "messages of peers that overlap with kernels: none, tensor, experts or tensor+experts"},
      {"recompute-modules", "recompute-modules=moe_act",
       "modules that recompute=selective repeats instead of attention, joined by +"},
      {"sharding", "sharding=zero1", "none, zero1, zero2 or zero3"},
      {"gradient-bucket", "gradient-bucket=25MiB",
       "bucket size of gradient sums that overlap the last backward; auto; or off"},
      {"layers", "layers=balanced", "layers of each stage: balanced, even, or 9-10-10-9"},
      {"order", "order=tp-cp-pp-dp",
       "order of devices, innermost first: tp-cp-dp-pp or tp-cp-pp-dp"},
      {"precision", "precision=fp8", "precision, as in `stagecraft plan --precision`"},
      {"kernels", "kernels=torch",
       "kernels of layers whose costs are estimated: megatron or torch"},
      {"dispatcher", "dispatcher=deepep",
       "dispatcher of tokens to experts: alltoall, deepep or hybridep"},
      {"cuda-graphs", "cuda-graphs=layers",
       "kernels that the host launches together: none, layers or step"},
      {"fused-loss", "fused-loss=native", "loss kernel of Megatron-LM: none, native or te"},
      {"router-fusion", "router-fusion=on", "Megatron-LM's choice of experts in three kernels"},
      {"fp8-recipe", "fp8-recipe=mxfp8",
       "scaling recipe of fp8: delayed, tensorwise, blockwise or mxfp8"},
      {"linkN", "link0=50%", "bandwidth of a level of the cluster, outermost 0: a rate or a part"},
      {"linkN.latency", "link0.latency=5us", "latency of that level"},
      {"linkN.collective", "link0.collective=40GB/s", "bandwidth of that level in collectives"},
      {"deviceN.slow", "device5.slow=20%", "slowdown of one device's compute"},
  };
  return kinds;
}

Change read_change(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    fail_usage("--set: expected KEY=VALUE such as tp=4, found \"", text, "\"");
  Change change{.key = trim(text.substr(0, equals)), .value = trim(text.substr(equals + 1))};
  const auto other = std::ranges::find(other_names, std::string_view(change.key), &OtherName::name);
  if (other != other_names.end()) change.key = other->key;
  require_known(change);
  return change;
}

bool is_change_key(const std::string& name) {
  try {
    read_change(concat(name, "=1"));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool takes_integers(const Change& change) {
  return std::ranges::any_of(change_kinds(), [&](const ChangeKind& kind) {
    return kind.key == change.key && kind.is_list_of_integers;
  });
}

/// Nothing unless the key is WORD, a number, and perhaps a dot and more.
std::optional<NumberedKey> numbered_key(std::string_view key, std::string_view word) {
  if (!key.starts_with(word)) return {};
  key.remove_prefix(word.size());
  int number = 0;
  const auto [stopped, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc{}) return {};
  key.remove_prefix(static_cast<std::size_t>(stopped - key.data()));
  if (!key.empty() && !key.starts_with('.')) return {};
  return NumberedKey{number, key.empty() ? key : key.substr(1)};
}

std::string to_string(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes)
    text += concat(text.empty() ? "" : " ", change.key, "=", change.value);
  return text;
}

}  // namespace stagecraft
