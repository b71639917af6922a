#include "simulator/values/program.hpp"

#include <string>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

std::string_view to_string(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::send: return "send";
    case Lane::receive: return "receive";
    case Lane::collective: return "collective";
  }
  return "";
}

Lane lane_of(Op op) {
  if (is_compute(op)) return Lane::compute;
  if (is_send(op)) return Lane::send;
  if (is_receive(op)) return Lane::receive;
  return Lane::collective;
}

std::string_view to_string(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::parameters: return "parameters";
    case MemoryCategory::gradients: return "gradients";
    case MemoryCategory::optimizer: return "optimizer";
    case MemoryCategory::weight_versions: return "weight_versions";
    case MemoryCategory::activations: return "activations";
    case MemoryCategory::transfer: return "transfer";
    case MemoryCategory::workspace: return "workspace";
    case MemoryCategory::reserve: return "reserve";
  }
  return "";
}

std::string_view to_string(Cargo cargo) {
  switch (cargo) {
    case Cargo::activation: return "activations";
    case Cargo::gradient: return "gradients";
    case Cargo::evicted: return "evicted activations";
    case Cargo::norm: return "norms";
    case Cargo::validation: return "validations";
  }
  return "";
}

std::string_view to_string(Sharding sharding) {
  switch (sharding) {
    case Sharding::none: return "none";
    case Sharding::zero1: return "zero1";
    case Sharding::zero2: return "zero2";
    case Sharding::zero3: return "zero3";
  }
  return "";
}

Sharding read_sharding(std::string_view name) {
  return read_known("sharding", name,
                    {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3});
}

std::string_view to_string(GradientNorm norm) {
  switch (norm) {
    case GradientNorm::none: return "none";
    case GradientNorm::global: return "global";
    case GradientNorm::post_validated: return "post-validated";
  }
  return "";
}

GradientNorm read_gradient_norm(std::string_view name) {
  return read_known("gradient norm", name,
                    {GradientNorm::none, GradientNorm::global, GradientNorm::post_validated});
}

std::string_view to_string(BufferRole role) {
  switch (role) {
    case BufferRole::parameters: return "parameters";
    case BufferRole::gradients: return "gradients";
    case BufferRole::optimizer: return "optimizer";
    case BufferRole::input: return "input";
    case BufferRole::saved: return "saved";
    case BufferRole::saved_throughout: return "saved_throughout";
    case BufferRole::past: return "past";
    case BufferRole::past_gradients: return "past_gradients";
    case BufferRole::saved_for_weight: return "saved_for_weight";
    case BufferRole::evicted: return "evicted";
    case BufferRole::output: return "output";
    case BufferRole::output_gradient: return "output_gradient";
    case BufferRole::input_gradient: return "input_gradient";
    case BufferRole::workspace: return "workspace";
  }
  return "";
}

Bytes total(const MemoryUse& use) {
  Bytes sum = 0;
  for (const Bytes bytes : use) sum += bytes;
  return sum;
}

std::string describe(const Program& program, int work, const std::vector<int>& device_names) {
  const Work& item = program.work[static_cast<std::size_t>(work)];
  const Chunk& chunk = program.chunks[static_cast<std::size_t>(item.chunk)];
  const auto name_of = [&](int device) {
    return device_names.empty() ? device : device_names[static_cast<std::size_t>(device)];
  };
  std::string text = to_string(item.instruction);
  text += concat(" on device ", name_of(chunk.device), " (stage ", chunk.stage);
  if (chunk.replicas > 1) text += concat(", replica ", chunk.replica);
  return text + ")";
}

}  // namespace stagecraft
