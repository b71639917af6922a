#include "executor/transports/peers.hpp"

namespace stagecraft {

namespace {

class TransportPeers final : public TensorPeers {
 public:
  TransportPeers(int place, int count, int group, Transport& transport)
      : place_(place), count_(count), group_(group), transport_(transport) {}

  int rank() const override { return place_; }
  int ranks() const override { return count_; }

  void sum(Backend& backend, Tensor& tensor) override {
    transport_.all_reduce(group_, backend, tensor);
  }

  void largest(Backend& backend, Tensor& tensor) override {
    const std::int64_t elements = tensor.elements();
    Tensor all = backend.allocate({count_, elements}, tensor.precision);
    Tensor own = reshaped(rows_of(all, place_, place_ + 1), tensor.shape);
    backend.copy(tensor, own);
    transport_.all_gather(group_, backend, all);
    for (int i = 0; i < count_; ++i) {
      backend.largest(reshaped(rows_of(all, i, i + 1), tensor.shape), tensor);
    }
  }

 private:
  int place_;
  int count_;
  int group_;
  Transport& transport_;
};

class AbsentPeers final : public TensorPeers {
 public:
  AbsentPeers(int place, int count) : place_(place), count_(count) {}
  int rank() const override { return place_; }
  int ranks() const override { return count_; }
  void sum(Backend&, Tensor&) override {}
  /// Asks for as much memory as those that are there.
  void largest(Backend& backend, Tensor& tensor) override {
    backend.allocate({count_, tensor.elements()}, tensor.precision);
  }

 private:
  int place_;
  int count_;
};

}  // namespace

std::unique_ptr<TensorPeers> make_peers(const RankMap& ranks, Transport& transport) {
  if (ranks.degree_of(transport.rank()) == 1) return nullptr;
  const int rank = transport.rank();
  return make_peers(ranks.peer_of(rank), ranks.degree_of(rank), ranks.peer_group_of(rank),
                    transport);
}

std::unique_ptr<TensorPeers> make_peers(int place, int count, int group, Transport& transport) {
  return std::make_unique<TransportPeers>(place, count, group, transport);
}

std::unique_ptr<TensorPeers> make_absent_peers(const RankMap& ranks, int rank) {
  if (ranks.degree_of(rank) == 1) return nullptr;
  return make_absent_peers(ranks.peer_of(rank), ranks.degree_of(rank));
}

std::unique_ptr<TensorPeers> make_absent_peers(int place, int count) {
  return std::make_unique<AbsentPeers>(place, count);
}

}  // namespace stagecraft
