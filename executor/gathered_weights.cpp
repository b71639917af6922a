#include "executor/gathered_weights.hpp"

#include <cstring>
#include <set>
#include <utility>

#include "executor/packing.hpp"
#include "executor/ranks.hpp"
#include "executor/training.hpp"
#include "executor/weight_shard.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

std::string_view text_of(const Tensor& tensor) {
  return {tensor.data<char>(), static_cast<std::size_t>(tensor.bytes())};
}

/// Name, shape and, of a part, where it lies in the whole.
std::string packed_spec(const ParameterSpec& spec) {
  Packer packer;
  packer.put_bytes(spec.name);
  packer.put_list(spec.shape);
  packer.put(spec.shard.has_value());
  if (!spec.shard) return packer.take();
  packer.put_list(spec.shard->whole);
  packer.put(spec.shard->columns);
  for (const auto& [first, end] : spec.shard->ranges) {
    packer.put(first);
    packer.put(end);
  }
  return packer.take();
}

ParameterSpec unpack_spec(std::string_view packed) {
  Unpacker unpacker(packed);
  ParameterSpec spec{.name = std::string(unpacker.get_bytes()),
                     .shape = unpacker.get_list<std::int64_t>(),
                     .initialization = {},
                     .shard = {}};
  if (!unpacker.get<bool>()) return spec;
  spec.shard = WeightShard{
      .whole = unpacker.get_list<std::int64_t>(), .columns = unpacker.get<bool>(), .ranges = {}};
  while (!unpacker.done()) {
    const auto first = unpacker.get<std::int64_t>();
    spec.shard->ranges.emplace_back(first, unpacker.get<std::int64_t>());
  }
  return spec;
}

Tensor new_tensor(const ParameterSpec& spec, bool whole, Precision precision) {
  return host_tensor(whole ? whole_shape(spec) : spec.shape, precision);
}

/// A message's bytes as a tensor, which lives no longer than they do.
Tensor part_of_message(const ParameterSpec& spec, Precision precision, std::string_view bytes) {
  Tensor part = new_tensor(spec, false, precision);
  std::memcpy(part.storage.get(), bytes.data(), bytes.size());
  return part;
}

}  // namespace

std::string packed_weights(Backend& backend, std::span<const HeldWeight> weights) {
  Packer packer;
  for (const HeldWeight& held : weights) {
    packer.put(held.chunk);
    packer.put_bytes(packed_spec(*held.spec));
    const Tensor weight = downloaded(backend, held.weight);
    packer.put(weight.precision);
    packer.put_bytes(text_of(weight));
  }
  return packer.take();
}

std::map<std::string, Tensor> unpack_weights(const Program& program, const RankMap& ranks,
                                             std::span<const std::string> of_ranks) {
  std::map<std::string, Tensor> gathered;
  std::set<std::string> known;  // parts, by their packed specifications
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    Unpacker unpacker(of_ranks[rank]);
    while (!unpacker.done()) {
      const int chunk = unpacker.get<int>();
      const std::string place(unpacker.get_bytes());
      const auto precision = unpacker.get<Precision>();
      const ParameterSpec spec = unpack_spec(place);
      Tensor part = part_of_message(spec, precision, unpacker.get_bytes());
      Tensor& whole = gathered.try_emplace(spec.name).first->second;
      if (whole.empty()) whole = new_tensor(spec, true, precision);
      if (known.insert(place).second) {
        copy_into_whole(spec, part, whole);
        continue;
      }
      Tensor first = new_tensor(spec, false, precision);
      copy_part(spec, whole, first);
      if (text_of(first) == text_of(part)) continue;
      throw Error(ErrorKind::execution,
                  concat("the copies of ", spec.name, " differ after the last step on ",
                         name_of_rank(program, ranks, static_cast<int>(rank), chunk)));
    }
  }
  return gathered;
}

}  // namespace stagecraft
