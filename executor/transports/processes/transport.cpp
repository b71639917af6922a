// The transport of one rank: its channels, and sums in which every member owns a shard.
//
//   members a b c     each sends the others their shards of its tensor, adds up its own shard in
//   the
//                     order of the list (a + b, + c), and hands the sum to the others
//
// Parts of the others need memory: a tensor's worth, not counted as the backend's. Carriers
// read and write tensors where they are, so backends must keep them in the memory of the process.

#include <algorithm>
#include <cassert>
#include <deque>
#include <utility>

#include "executor/transports/processes/channels.hpp"
#include "executor/transports/processes/session.hpp"

namespace stagecraft::processes {

namespace {

/// Tags of the control space.
enum ControlTag : int { gather_tag = 0, broadcast_tag = 2, barrier_tag = 4 };

class ProcessTransport final : public Transport {
 public:
  ProcessTransport(const Wiring& wiring, std::shared_ptr<const Messenger> data,
                   std::shared_ptr<const Messenger> control, Session& session, Progress& progress,
                   std::shared_ptr<World> world);
  ~ProcessTransport() override;
  ProcessTransport(const ProcessTransport&) = delete;
  ProcessTransport& operator=(const ProcessTransport&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  ClockOffset clock() const override { return session_.clock(); }

  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    backend.finish();
    at(channel).send(std::move(tensor), available_at, label);
  }
  void wait_for_delivery(int channel, Backend&, long messages) override {
    at(channel).wait_for_delivery(messages);
  }
  void post(int channel, Backend& backend, Tensor memory) override {
    backend.finish();
    at(channel).post(memory);
  }
  Arrival receive(int channel, Backend& backend) override { return at(channel).receive(backend); }

  void all_reduce(int group, Backend& backend, Tensor& tensor) override {
    reduce_scatter(group, backend, tensor);
    all_gather(group, backend, tensor);
  }
  void reduce_scatter(int group, Backend& backend, Tensor& tensor) override;
  void all_gather(int group, Backend& backend, Tensor& tensor) override;

  void barrier() override { conversation_.barrier(barrier_tag); }
  std::vector<std::string> gather(std::string said) override {
    return conversation_.gather(said, gather_tag);
  }
  std::string broadcast(std::string said) override {
    return conversation_.broadcast(std::move(said), broadcast_tag);
  }
  std::string abort(const std::string& reason) override { return session_.abort(*world_, reason); }
  std::optional<std::string> aborted() override {
    const std::lock_guard lock(world_->mutex);
    return world_->aborted;
  }

 private:
  Channel& at(int channel) {
    assert(channels_.contains(channel));
    return channels_.at(channel);
  }
  const std::vector<int>& members(int group) const {
    return wiring_.groups[static_cast<std::size_t>(group)];
  }
  std::size_t place_in(const std::vector<int>& members) const {
    const auto found = std::ranges::find(members, rank_);
    assert(found != members.end());
    return static_cast<std::size_t>(found - members.begin());
  }
  int tag_of(int group) const { return 3 * static_cast<int>(wiring_.channels.size()) + group; }

  Wiring wiring_;
  int rank_;
  int ranks_;
  Session& session_;
  Progress& progress_;
  std::shared_ptr<World> world_;
  Conversation conversation_;        ///< of control
  Conversation sums_;                ///< of data
  std::map<int, Channel> channels_;  ///< of this rank
};

ProcessTransport::ProcessTransport(const Wiring& wiring, std::shared_ptr<const Messenger> data,
                                   std::shared_ptr<const Messenger> control, Session& session,
                                   Progress& progress, std::shared_ptr<World> world)
    : wiring_(wiring),
      rank_(session.rank()),
      ranks_(wiring.ranks),
      session_(session),
      progress_(progress),
      world_(std::move(world)),
      conversation_(progress, world_, std::move(control), rank_, ranks_),
      sums_(progress, world_, data, rank_, ranks_) {
  for (std::size_t i = 0; i < wiring.channels.size(); ++i) {
    const ChannelEnds& ends = wiring.channels[i];
    if (ends.from != rank_ && ends.to != rank_) continue;
    const int index = static_cast<int>(i);
    channels_.try_emplace(index, index, ends, rank_, session.clock().ahead, progress, world_, data);
  }
}

/// In peace, all leave together, when nothing is under way any more; after an abort what is under
/// way stays so, and its memory is kept for it.
ProcessTransport::~ProcessTransport() {
  try {
    barrier();
    progress_.now([this] {
      for (auto& [index, channel] : channels_) channel.close();
    });
  } catch (const Error&) {
    // Aborted: there is nobody to wait for.
  }
}

void ProcessTransport::reduce_scatter(int group, Backend& backend, Tensor& tensor) {
  const std::vector<int>& all = members(group);
  const std::size_t place = place_in(all);
  const auto shard = [&](std::size_t i) { return shard_of(tensor, i, all.size()); };
  const Tensor own = shard(place);
  std::vector<Tensor> parts(all.size(), own);
  std::vector<Piece> sends, receives;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == place) continue;
    parts[i] = host_tensor(own.shape, own.precision);
    receives.push_back(piece_of(parts[i], all[i], tag_of(group)));
    sends.push_back(piece_of(shard(i), all[i], tag_of(group)));
  }
  backend.finish();
  sums_.exchange(sends, receives, concat("group ", group, " adds up tensors of different sizes"));
  if (own.elements() == 0) return;
  Tensor& sum = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) backend.add(parts[i], sum);
  Tensor result = own;
  if (place != 0) backend.copy(sum, result);
}

void ProcessTransport::all_gather(int group, Backend& backend, Tensor& tensor) {
  const std::vector<int>& all = members(group);
  const std::size_t place = place_in(all);
  const auto shard = [&](std::size_t i) { return shard_of(tensor, i, all.size()); };
  std::vector<Piece> sends, receives;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == place) continue;
    receives.push_back(piece_of(shard(i), all[i], tag_of(group)));
    sends.push_back(piece_of(shard(place), all[i], tag_of(group)));
  }
  backend.finish();
  sums_.exchange(sends, receives, concat("group ", group, " gathers tensors of different sizes"));
}

}  // namespace

std::unique_ptr<Transport> make_transport(const Wiring& wiring,
                                          std::shared_ptr<const Messenger> data,
                                          std::shared_ptr<const Messenger> control,
                                          Session& session, Progress& progress,
                                          std::shared_ptr<World> world) {
  return std::make_unique<ProcessTransport>(wiring, std::move(data), std::move(control), session,
                                            progress, std::move(world));
}

}  // namespace stagecraft::processes
