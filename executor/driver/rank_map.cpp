#include "executor/driver/rank_map.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Nothing comes back from where inference sends to, so senders may wait: no stage runs ahead. What
/// goes to a partner and back goes tensor by tensor.
int capacity(const Program& program, const Channel& channel) {
  if (channel.cargo == Cargo::evicted) return std::numeric_limits<int>::max();
  const bool runs_ahead = program.trains || program.feedback > 0;
  return runs_ahead ? std::max(1, program.microbatches) : 1;
}

/// By lead device, of the plan's replicas.
std::map<int, int> degrees_by_lead(const Plan& plan) {
  std::map<int, int> degrees;
  for (const Stage& stage : plan.stages) {
    for (const std::vector<int>& peers : stage.devices) {
      degrees[peers.front()] = static_cast<int>(peers.size());
    }
  }
  return degrees;
}

[[noreturn]] void refuse(const Program& program, int one, int other, std::string_view why,
                         const std::vector<int>& degrees) {
  const auto name = [&](int chunk) {
    const Chunk& place = program.chunks[index(chunk)];
    return concat("stage ", place.stage, ", replica ", place.replica, " (tensor-parallel degree ",
                  degrees[index(place.device)], ")");
  };
  throw Error(ErrorKind::execution, concat("run: ", name(one), " and ", name(other), " ", why,
                                           ", which the executor does only between equal degrees"));
}

void require_equal_degrees(const Program& program, const std::vector<int>& degrees) {
  const auto degree = [&](int chunk) {
    return degrees[index(program.chunks[index(chunk)].device)];
  };
  for (const Group& group : program.groups) {
    if (group.op == Op::reduce_norm) continue;
    for (const int chunk : group.chunks) {
      if (degree(chunk) == degree(group.chunks.front())) continue;
      refuse(program, group.chunks.front(), chunk, "add up gradients", degrees);
    }
  }
  for (const Channel& channel : program.channels) {
    if (channel.cargo != Cargo::evicted || degree(channel.from) == degree(channel.to)) continue;
    refuse(program, channel.from, channel.to, "keep activations for each other", degrees);
  }
}

}  // namespace

RankMap::RankMap(const Program& program, std::vector<int> degrees) : degrees_(std::move(degrees)) {
  for (std::size_t device = 0; device < degrees_.size(); ++device) {
    first_rank_.push_back(ranks());
    device_of_.insert(device_of_.end(), index(degrees_[device]), static_cast<int>(device));
  }
  connect(program);
}

void RankMap::connect(const Program& program) {
  const auto device = [&](int chunk) { return index(program.chunks[index(chunk)].device); };
  wiring_.ranks = ranks();
  for (const Channel& channel : program.channels) {
    const std::size_t from = device(channel.from);
    const std::size_t to = device(channel.to);
    first_channel_.push_back(static_cast<int>(wiring_.channels.size()));
    senders_.push_back(degrees_[from]);
    for (int peer = 0; peer < degrees_[to]; ++peer) {
      wiring_.channels.push_back({.from = first_rank_[from] + peer % degrees_[from],
                                  .to = first_rank_[to] + peer,
                                  .capacity = capacity(program, channel)});
    }
  }
  for (const Group& group : program.groups) {
    first_group_.push_back(static_cast<int>(wiring_.groups.size()));
    if (group.op == Op::reduce_norm) continue;  // not by tensors: see clipping.hpp
    for (int peer = 0; peer < degrees_[device(group.chunks.front())]; ++peer) {
      auto& members = wiring_.groups.emplace_back();
      for (const int chunk : group.chunks) members.push_back(first_rank_[device(chunk)] + peer);
    }
  }
  for (std::size_t i = 0; i < degrees_.size(); ++i) {
    peer_group_.push_back(static_cast<int>(wiring_.groups.size()));
    if (degrees_[i] == 1) continue;
    auto& members = wiring_.groups.emplace_back();
    for (int peer = 0; peer < degrees_[i]; ++peer) members.push_back(first_rank_[i] + peer);
  }
}

std::vector<int> RankMap::channels_from(int rank, int channel) const {
  const int first = first_channel_[index(channel)];
  const int end = index(channel) + 1 < first_channel_.size()
                      ? first_channel_[index(channel) + 1]
                      : static_cast<int>(wiring_.channels.size());
  std::vector<int> channels;
  for (int i = first + peer_of(rank); i < end; i += senders_[index(channel)]) channels.push_back(i);
  return channels;
}

RankMap one_rank_per_device(const Program& program) {
  return {program, std::vector<int>(index(program.devices), 1)};
}

RankMap ranks_of(const Plan& plan, const Program& program) {
  std::vector<int> degrees;
  for (const auto& [lead, degree] : degrees_by_lead(plan)) degrees.push_back(degree);
  if (degrees.size() != index(program.devices)) return one_rank_per_device(program);
  require_equal_degrees(program, degrees);
  return {program, std::move(degrees)};
}

}  // namespace stagecraft
