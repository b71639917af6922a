#include "planner/interop/importers/torchtitan/mesh.hpp"

#include <algorithm>

#include "profiles/cluster.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

TitanMesh read_titan_mesh(const TitanSettings& settings, int devices) {
  TitanMesh mesh{.replicate = settings.degree("data_parallel_replicate_degree"),
                 .context = settings.degree("context_parallel_degree"),
                 .tensor = settings.degree("tensor_parallel_degree"),
                 .pipeline = settings.degree("pipeline_parallel_degree"),
                 .expert = settings.degree("expert_parallel_degree")};
  const TomlSetting* shard = settings.parallelism("data_parallel_shard_degree");
  if (shard == nullptr) shard = settings.parallelism("data_parallel_degree");
  const auto said = static_cast<int>(settings.number(shard, -1, -1, most_devices));
  if (said == 0) settings.fail_at(*shard, "expected -1, for the devices left over, or 1 and above");
  const std::int64_t others = std::int64_t{mesh.pipeline} * mesh.tensor * mesh.context;
  if (devices % others != 0) {
    const TomlSetting* first = settings.parallelism(mesh.pipeline > 1 ? "pipeline_parallel_degree"
                                                    : mesh.tensor > 1 ? "tensor_parallel_degree"
                                                                      : "context_parallel_degree");
    settings.refuse(first, concat("pipeline, tensor and context parallelism of ", mesh.pipeline,
                                  " x ", mesh.tensor, " x ", mesh.context,
                                  " do not divide the cluster's ", devices, " devices"));
  }
  const auto replicas = static_cast<int>(devices / others);
  if (said < 0 && replicas % mesh.replicate == 0) {
    mesh.shard = replicas / mesh.replicate;
  } else {
    mesh.shard = said;
  }
  if (std::int64_t{mesh.replicate} * mesh.shard != replicas) {
    settings.refuse(shard, concat("its degrees do not multiply to the cluster's ", devices,
                                  " devices: ", replicas, " replicas are left for ",
                                  "data_parallel_replicate_degree ", mesh.replicate,
                                  said < 0 ? "" : concat(" x data_parallel_shard_degree ", said)));
  }
  // torchtitan/models/llama3/infra/parallelize.py
  const bool is_ddp = !mesh.has_fsdp() && mesh.replicate > 1 && !settings.since_0_3();
  if (is_ddp && mesh.replicate != devices) {
    settings.refuse(settings.parallelism("data_parallel_replicate_degree"),
                    "DDP goes without other parallelism; data_parallel_shard_degree is 1");
  }
  return mesh;
}

TitanBatch read_titan_batch(const TitanSettings& settings, const TitanMesh& mesh) {
  const TomlSetting* local_setting = settings.find("training.local_batch_size");
  if (local_setting == nullptr) local_setting = settings.find("training.batch_size");
  const std::int64_t local = settings.number(local_setting, 8, 1, most_samples);
  const std::int64_t at_once = local * mesh.replicas();
  const TomlSetting* global = settings.find("training.global_batch_size");
  const std::int64_t said = settings.number(global, -1, -1, most_samples);
  if (said == 0 || (said > 0 && said % at_once != 0)) {
    settings.refuse(global, concat("a global batch of ", said, " is no multiple of ", local,
                                   " samples on each of ", mesh.replicas(), " replicas"));
  }
  TitanBatch batch{.global = said > 0 ? said : at_once, .microbatch = local};
  batch.steps = batch.global / at_once;
  if (mesh.pipeline == 1) return batch;
  // Before 0.1, as many microbatches as ranks unless said.
  const TomlSetting* count = settings.find("experimental.pipeline_parallel_microbatches");
  const TomlSetting* size = settings.parallelism("pipeline_parallel_microbatch_size");
  batch.microbatch = count != nullptr
                         ? local / std::min(local, settings.number(count, 1, 1, most_samples))
                         : settings.number(size, 1, 1, most_samples);
  if (local % batch.microbatch == 0) return batch;
  settings.refuse(
      count != nullptr ? count : size,
      concat("a local batch of ", local, " is no multiple of microbatches of ", batch.microbatch));
}

}  // namespace stagecraft
