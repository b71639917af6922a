#include "simulator/engines/fold.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr int no_counterpart = -1;

/// Finds for everything its counterpart in replica 0, or that there is none.
class Folding {
 public:
  Folding(const Program& program, const Costs& costs)
      : program_(program),
        costs_(costs),
        chunk_(program.chunks.size(), no_counterpart),
        channel_(program.channels.size(), no_counterpart),
        device_(index(program.devices), no_counterpart),
        work_(program.work.size(), no_counterpart) {}

  std::optional<Folded> fold() {
    if (!match_chunks() || !match_channels() || !match_works()) return {};
    return build();
  }

 private:
  const Work& work(int i) const { return program_.work[index(i)]; }

  bool match_chunks() {
    std::map<int, int> first;  // stage → chunk of replica 0
    for (std::size_t i = 0; i < chunk_.size(); ++i) {
      if (program_.chunks[i].replica == 0) first[program_.chunks[i].stage] = static_cast<int>(i);
    }
    for (std::size_t i = 0; i < chunk_.size(); ++i) {
      const Chunk& chunk = program_.chunks[i];
      chunk_[i] = first.at(chunk.stage);
      if (costs_.chunks[i] != costs_.chunks[index(chunk_[i])]) return false;
      const int device = program_.chunks[index(chunk_[i])].device;
      int& counterpart = device_[index(chunk.device)];
      if (counterpart != no_counterpart && counterpart != device) return false;
      counterpart = device;
    }
    return std::find(device_.begin(), device_.end(), no_counterpart) == device_.end();
  }

  bool match_channels() {
    std::map<std::tuple<int, int, Cargo>, int> first;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t i = 0; i < channel_.size(); ++i) {
        const Channel& channel = program_.channels[i];
        const int replica = program_.chunks[index(channel.from)].replica;
        if (replica != program_.chunks[index(channel.to)].replica) return false;
        const std::tuple key{chunk_[index(channel.from)], chunk_[index(channel.to)], channel.cargo};
        if (pass == 0 && replica == 0) first[key] = static_cast<int>(i);
        if (pass == 0) continue;
        const auto place = first.find(key);
        if (place == first.end()) return false;
        channel_[i] = place->second;
        if (costs_.channels[i] != costs_.channels[index(channel_[i])]) return false;
      }
    }
    return true;
  }

  /// By place in the devices' orders.
  bool match_works() {
    for (int device = 0; device < program_.devices; ++device) {
      const std::vector<int>& own = program_.order[index(device)];
      const std::vector<int>& other = program_.order[index(device_[index(device)])];
      if (own.size() != other.size()) return false;
      for (std::size_t i = 0; i < own.size(); ++i) work_[index(own[i])] = other[i];
    }
    for (const auto& order : program_.order) {
      if (!std::all_of(order.begin(), order.end(), [&](int i) { return alike(i); })) return false;
    }
    const auto& carried = program_.carried;
    return std::all_of(carried.begin(), carried.end(), [&](const CarriedWait& wait) {
      const CarriedWait other{work_[index(wait.work)], work_[index(wait.on)]};
      return std::find(carried.begin(), carried.end(), other) != carried.end();
    });
  }

  bool alike(int i) const {
    const Work& own = work(i);
    const Work& other = work(work_[index(i)]);
    return own.instruction == other.instruction && own.lane == other.lane &&
           chunk_[index(own.chunk)] == other.chunk && own.group == other.group &&
           own.channel.has_value() == other.channel.has_value() &&
           (!own.channel || channel_[index(*own.channel)] == *other.channel) &&
           own.fused_with.has_value() == other.fused_with.has_value() &&
           (!own.fused_with || work_[index(*own.fused_with)] == *other.fused_with) &&
           counterparts(own) == counterparts(other);
  }

  std::vector<int> counterparts(const Work& own) const {
    std::vector<int> waits;
    for (int w = own.waits.first; w < own.waits.end; ++w) {
      waits.push_back(work_[index(program_.waits[index(w)])]);
    }
    std::sort(waits.begin(), waits.end());
    return waits;
  }

  // --- The folded program -----------------------------------------------------------------------

  /// Numbers those that are their own counterparts.
  static std::vector<int> numbers(const std::vector<int>& counterpart) {
    std::vector<int> number(counterpart.size(), no_counterpart);
    int next = 0;
    for (std::size_t i = 0; i < counterpart.size(); ++i) {
      if (counterpart[i] == static_cast<int>(i)) number[i] = next++;
    }
    return number;
  }

  Folded build() const {
    const std::vector<int> chunks = numbers(chunk_), channels = numbers(channel_),
                           devices = numbers(device_), works = numbers(work_);
    Folded folded;
    folded.program = {.stages = program_.stages,
                      .microbatches = program_.microbatches,
                      .left_out = program_.left_out,
                      .pipes = program_.pipes,
                      .sequence_chunks = program_.sequence_chunks,
                      .trains = program_.trains,
                      .feedback = program_.feedback,
                      .weights = program_.weights,
                      .update_every = program_.update_every,
                      .sharding = program_.sharding,
                      .columns = program_.columns,
                      .norm = program_.norm};
    for (const int device : device_) folded.device.push_back(devices[index(device)]);
    add_chunks(folded, chunks, devices);
    add_channels(folded, chunks, channels);
    add_groups(folded, chunks);
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (works[i] != no_counterpart)
        add_work(folded.program, program_.work[i], chunks, channels, works);
    }
    for (const CarriedWait& wait : program_.carried) {
      if (works[index(wait.work)] == no_counterpart) continue;
      folded.program.carried.push_back({works[index(wait.work)], works[index(wait.on)]});
    }
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (devices[d] == no_counterpart) continue;
      ++folded.program.devices;
      auto& order = folded.program.order.emplace_back();
      for (const int i : program_.order[d]) order.push_back(works[index(i)]);
    }
    return folded;
  }

  void add_chunks(Folded& folded, const std::vector<int>& chunks,
                  const std::vector<int>& devices) const {
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i] == no_counterpart) continue;
      Chunk chunk = program_.chunks[i];
      chunk.device = devices[index(chunk.device)];
      chunk.replicas = 1;
      folded.program.chunks.push_back(chunk);
      folded.costs.chunks.push_back(costs_.chunks[i]);
    }
  }

  void add_channels(Folded& folded, const std::vector<int>& chunks,
                    const std::vector<int>& channels) const {
    for (std::size_t i = 0; i < channels.size(); ++i) {
      if (channels[i] == no_counterpart) continue;
      Channel channel = program_.channels[i];
      channel.from = chunks[index(channel.from)];
      channel.to = chunks[index(channel.to)];
      folded.program.channels.push_back(channel);
      folded.costs.channels.push_back(costs_.channels[i]);
    }
  }

  /// Groups keep their numbers, and their costs, which are those of all members.
  void add_groups(Folded& folded, const std::vector<int>& chunks) const {
    folded.costs.groups = costs_.groups;
    for (Group group : program_.groups) {
      std::erase_if(group.chunks,
                    [&](int chunk) { return chunks[index(chunk)] == no_counterpart; });
      for (int& chunk : group.chunks) chunk = chunks[index(chunk)];
      folded.program.groups.push_back(std::move(group));
    }
  }

  void add_work(Program& folded, Work work, const std::vector<int>& chunks,
                const std::vector<int>& channels, const std::vector<int>& works) const {
    const IndexRange waits = work.waits;
    const int first = static_cast<int>(folded.waits.size());
    for (int w = waits.first; w < waits.end; ++w) {
      folded.waits.push_back(works[index(program_.waits[index(w)])]);
    }
    work.chunk = chunks[index(work.chunk)];
    if (work.channel) work.channel = channels[index(*work.channel)];
    if (work.fused_with) work.fused_with = works[index(*work.fused_with)];
    work.waits = {first, static_cast<int>(folded.waits.size())};
    work.allocates = work.frees = {};
    folded.work.push_back(work);
  }

  const Program& program_;
  const Costs& costs_;
  // The counterpart in replica 0 of each; of replica 0 itself.
  std::vector<int> chunk_;
  std::vector<int> channel_;
  std::vector<int> device_;
  std::vector<int> work_;
};

}  // namespace

std::optional<Folded> fold(const Program& program, const Costs& costs) {
  return Folding(program, costs).fold();
}

}  // namespace stagecraft
