#include "executor/transports/nccl/transport.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"

namespace stagecraft::nccl {

namespace {

// --- Envelopes
// -----------------------------------------------------------------------------------

/// Precision and shape as a tensor of the process, for a transport that carries nothing else.
Tensor envelope_of(const Tensor& tensor) {
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(tensor.precision)};
  numbers.insert(numbers.end(), tensor.shape.begin(), tensor.shape.end());
  Tensor envelope = host_tensor({static_cast<std::int64_t>(numbers.size())}, Precision::float64);
  std::ranges::copy(std::as_bytes(std::span(numbers)), bytes_of(envelope).begin());
  return envelope;
}

/// What it says of its message.
struct Envelope {
  explicit Envelope(const Tensor& tensor) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(tensor.elements()));
    std::ranges::copy(bytes_of(tensor), std::as_writable_bytes(std::span(numbers)).begin());
    precision = static_cast<Precision>(numbers.front());
    shape.assign(numbers.begin() + 1, numbers.end());
  }
  Bytes bytes() const { return elements_of(shape) * element_bytes(precision); }

  std::vector<std::int64_t> shape;
  Precision precision = Precision::float32;
};

Piece piece_of(const Tensor& tensor, int place, bool is_sent) {
  return {.is_sent = is_sent,
          .place = place,
          .data = tensor.storage,
          .bytes = static_cast<std::size_t>(tensor.bytes())};
}

// --- Links
// ---------------------------------------------------------------------------------------

/// Which link serves a channel or a group: those between the same ranks share one.
struct Layout {
  explicit Layout(const Wiring& wiring) {
    for (const ChannelEnds& ends : wiring.channels) {
      of_channel.push_back(add({.name = concat("from rank ", ends.from, " to rank ", ends.to),
                                .members = {ends.from, ends.to},
                                .is_one_way = true}));
    }
    for (const std::vector<int>& members : wiring.groups) {
      std::vector<std::string> names;
      for (const int member : members) names.push_back(std::to_string(member));
      of_group.push_back(add({.name = concat("among ranks ", join_words(names)),
                              .members = members,
                              .adds_up = !wiring.sums_in_order}));
    }
  }

  std::vector<LinkPlan> plans;
  std::vector<int> of_channel;
  std::vector<int> of_group;

 private:
  int add(LinkPlan plan) {
    const auto found = std::ranges::find(plans, plan.name, &LinkPlan::name);
    const auto place = static_cast<int>(found - plans.begin());
    if (found == plans.end()) plans.push_back(std::move(plan));
    return place;
  }
};

// --- The transport
// -------------------------------------------------------------------------------

class NcclTransport final : public Transport {
 public:
  NcclTransport(std::unique_ptr<Calls> calls, std::unique_ptr<Transport> control,
                const Wiring& wiring, const Settings& settings)
      : calls_(std::move(calls)),
        control_(std::move(control)),
        groups_(wiring.groups),
        sums_in_order_(wiring.sums_in_order),
        layout_(wiring),
        posted_(wiring.channels.size()),
        sent_(wiring.channels.size()),
        traffic_(*calls_, *control_, layout_.plans, settings) {}

  int rank() const override { return control_->rank(); }
  int ranks() const override { return control_->ranks(); }
  ClockOffset clock() const override { return control_->clock(); }
  bool needs_global_order() const override { return true; }

  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    backend.finish();
    control_->send(channel, *host_, envelope_of(tensor), available_at, label);
    Sent& sent = sent_[index(channel)];
    for (; !sent.under_way.empty() && traffic_.is_done(*sent.under_way.front()); ++sent.delivered) {
      sent.under_way.pop_front();
    }
    sent.under_way.push_back(
        traffic_.start(layout_.of_channel[index(channel)], {piece_of(tensor, 1, true)}));
  }
  void wait_for_delivery(int channel, Backend&, long messages) override {
    Sent& sent = sent_[index(channel)];
    for (; sent.delivered < messages; ++sent.delivered) {
      traffic_.await(*sent.under_way.front());
      sent.under_way.pop_front();
    }
  }
  void post(int channel, Backend& backend, Tensor memory) override {
    backend.finish();
    posted_[index(channel)].push_back(offer(channel, std::move(memory)));
  }
  Arrival receive(int channel, Backend& backend) override;

  void all_reduce(int group, Backend& backend, Tensor& tensor) override {
    if (!sums_in_order_) return add_natively(group, backend, tensor, false);
    reduce_scatter(group, backend, tensor);
    all_gather(group, backend, tensor);
  }
  void reduce_scatter(int group, Backend& backend, Tensor& tensor) override;
  void all_gather(int group, Backend& backend, Tensor& tensor) override;

  void barrier() override { control_->barrier(); }
  std::vector<std::string> gather(std::string said) override {
    return control_->gather(std::move(said));
  }
  std::string broadcast(std::string said) override { return control_->broadcast(std::move(said)); }
  std::string abort(const std::string& reason) override {
    const std::string first = control_->abort(reason);
    traffic_.stop(first);
    return first;
  }
  std::optional<std::string> aborted() override { return control_->aborted(); }

 private:
  struct Offer {
    Tensor memory;
    std::shared_ptr<Operation> operation;
  };

  /// Messages of a channel, the first that is not known to be delivered in front.
  struct Sent {
    std::deque<std::shared_ptr<Operation>> under_way;
    long delivered = 0;
  };

  Offer offer(int channel, Tensor memory) {
    auto operation = traffic_.start(layout_.of_channel[index(channel)],
                                    {piece_of(memory, 0, /*is_sent=*/false)});
    return {std::move(memory), std::move(operation)};
  }
  std::size_t place_in(const std::vector<int>& members) const {
    const auto found = std::ranges::find(members, rank());
    assert(found != members.end());
    return static_cast<std::size_t>(found - members.begin());
  }
  void exchange(int group, std::vector<Piece> pieces) {
    traffic_.await(*traffic_.start(layout_.of_group[index(group)], std::move(pieces)));
  }
  std::vector<Tensor> room_for(const Tensor& own, std::size_t parts);
  void add_natively(int group, Backend& backend, Tensor& tensor, bool scatters);

  std::unique_ptr<Calls> calls_;
  std::unique_ptr<Transport> control_;
  std::unique_ptr<Backend> host_ = make_cpu_backend();  ///< of envelopes
  std::vector<std::vector<int>> groups_;
  bool sums_in_order_;
  Layout layout_;
  std::vector<std::deque<Offer>> posted_;  ///< by channel, for messages not yet received
  std::vector<Sent> sent_;                 ///< by channel
  std::shared_ptr<void> room_;             ///< for the parts of a sum
  Bytes room_bytes_ = 0;
  Traffic traffic_;  ///< last: what is under way may use all the others
};

/// A message that nobody has posted memory for stays with its sender, and is there to be taken when
/// its envelope is.
Arrival NcclTransport::receive(int channel, Backend& backend) {
  const Arrival envelope = control_->receive(channel, *host_);
  const Envelope message(envelope.tensor);
  std::deque<Offer>& posted = posted_[index(channel)];
  if (posted.empty()) {
    Tensor memory = backend.allocate(message.shape, message.precision);
    backend.finish();
    const Offer late = offer(channel, std::move(memory));
    traffic_.await(*late.operation);
    return {.tensor = late.memory,
            .label = envelope.label,
            .sent = envelope.sent,
            .arrived = envelope.arrived};
  }
  const Offer offer = std::move(posted.front());
  posted.pop_front();
  if (offer.memory.bytes() != message.bytes()) {
    throw Error(ErrorKind::execution,
                concat("a message of ", message.bytes(), " bytes does not fit memory posted for ",
                       offer.memory.bytes()));
  }
  const Moment done = traffic_.await(*offer.operation);
  return {.tensor = offer.memory,
          .label = envelope.label,
          .sent = envelope.sent,
          .arrived = std::max(envelope.arrived.get(), done)};
}

/// Tensors like `own`, in memory that the backend does not count, until the next sum.
std::vector<Tensor> NcclTransport::room_for(const Tensor& own, std::size_t parts) {
  constexpr Bytes alignment = 256;
  const Bytes stride = (own.bytes() + alignment - 1) / alignment * alignment;
  const Bytes needed = stride * static_cast<Bytes>(parts);
  if (needed > room_bytes_) {
    room_ = nullptr;
    room_ = calls_->allocate(needed);
    room_bytes_ = needed;
  }
  std::vector<Tensor> tensors(parts, own);
  for (std::size_t i = 0; i < parts; ++i) {
    char* place = static_cast<char*>(room_.get()) + stride * static_cast<Bytes>(i);
    tensors[i].storage = std::shared_ptr<void>(room_, place);
  }
  return tensors;
}

/// NCCL scatters into equal parts only; where ours are not, everybody gets all of the sum.
void NcclTransport::add_natively(int group, Backend& backend, Tensor& tensor, bool scatters) {
  const auto members = static_cast<std::int64_t>(groups_[index(group)].size());
  if (members == 1 || tensor.elements() == 0) return;
  backend.finish();
  traffic_.await(
      *traffic_.start(layout_.of_group[index(group)],
                      NativeSum{.data = tensor.storage,
                                .elements = static_cast<std::size_t>(tensor.elements()),
                                .precision = tensor.precision,
                                .is_scattered = scatters && tensor.elements() % members == 0}));
}

void NcclTransport::reduce_scatter(int group, Backend& backend, Tensor& tensor) {
  if (!sums_in_order_) return add_natively(group, backend, tensor, true);
  const std::vector<int>& all = groups_[index(group)];
  const std::size_t place = place_in(all);
  const auto shard = [&](std::size_t i) { return shard_of(tensor, i, all.size()); };
  Tensor own = shard(place);
  backend.finish();
  std::vector<Tensor> parts = room_for(own, all.size());
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == place) continue;
    pieces.push_back(piece_of(shard(i), static_cast<int>(i), /*is_sent=*/true));
    pieces.push_back(piece_of(parts[i], static_cast<int>(i), /*is_sent=*/false));
  }
  exchange(group, std::move(pieces));
  if (own.elements() == 0) return;
  parts[place] = own;
  Tensor& sum = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) backend.add(parts[i], sum);
  if (place != 0) backend.copy(sum, own);
}

void NcclTransport::all_gather(int group, Backend& backend, Tensor& tensor) {
  const std::vector<int>& all = groups_[index(group)];
  const std::size_t place = place_in(all);
  const auto shard = [&](std::size_t i) { return shard_of(tensor, i, all.size()); };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == place) continue;
    pieces.push_back(piece_of(shard(place), static_cast<int>(i), /*is_sent=*/true));
    pieces.push_back(piece_of(shard(i), static_cast<int>(i), /*is_sent=*/false));
  }
  backend.finish();
  exchange(group, std::move(pieces));
}

}  // namespace

std::unique_ptr<Transport> make_transport(std::unique_ptr<Calls> calls,
                                          std::unique_ptr<Transport> control, const Wiring& wiring,
                                          const Settings& settings) {
  return std::make_unique<NcclTransport>(std::move(calls), std::move(control), wiring, settings);
}

}  // namespace stagecraft::nccl
