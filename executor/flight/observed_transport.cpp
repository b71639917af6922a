#include "executor/flight/observed_transport.hpp"

#include <utility>
#include <vector>

namespace stagecraft {

namespace {

class ObservedTransport final : public Transport {
 public:
  ObservedTransport(std::unique_ptr<Transport> transport, const Wiring& wiring,
                    FlightRecord& record)
      : transport_(std::move(transport)), channels_(wiring.channels), record_(record) {}

  int rank() const override { return transport_->rank(); }
  int ranks() const override { return transport_->ranks(); }

  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    during(Doing::sending, channel, ends(channel).to,
           [&] { transport_->send(channel, backend, std::move(tensor), available_at, label); });
    record_.count_message(Doing::sending, channel);
  }
  void wait_for_delivery(int channel, Backend& backend, long messages) override {
    during(Doing::sending, channel, ends(channel).to,
           [&] { transport_->wait_for_delivery(channel, backend, messages); });
  }
  void post(int channel, Backend& backend, Tensor memory) override {
    transport_->post(channel, backend, std::move(memory));
  }
  Arrival receive(int channel, Backend& backend) override {
    Arrival arrival;
    during(Doing::receiving, channel, ends(channel).from,
           [&] { arrival = transport_->receive(channel, backend); });
    record_.count_message(Doing::receiving, channel);
    return arrival;
  }
  void all_reduce(int group, Backend& backend, Tensor& tensor) override {
    during(Doing::meeting, group, {}, [&] { transport_->all_reduce(group, backend, tensor); });
  }
  void reduce_scatter(int group, Backend& backend, Tensor& tensor) override {
    during(Doing::meeting, group, {}, [&] { transport_->reduce_scatter(group, backend, tensor); });
  }
  void all_gather(int group, Backend& backend, Tensor& tensor) override {
    during(Doing::meeting, group, {}, [&] { transport_->all_gather(group, backend, tensor); });
  }
  void barrier() override {
    during(Doing::barrier, -1, {}, [&] { transport_->barrier(); });
  }
  std::vector<std::string> gather(std::string said) override {
    std::vector<std::string> all;
    during(Doing::reporting, -1, {}, [&] { all = transport_->gather(std::move(said)); });
    return all;
  }
  std::string broadcast(std::string said) override {
    std::string heard;
    during(Doing::listening, -1, {}, [&] { heard = transport_->broadcast(std::move(said)); });
    return heard;
  }
  std::string abort(const std::string& reason) override { return transport_->abort(reason); }
  std::optional<std::string> aborted() override { return transport_->aborted(); }
  bool needs_global_order() const override { return transport_->needs_global_order(); }
  ClockOffset clock() const override { return transport_->clock(); }

 private:
  const ChannelEnds& ends(int channel) const {
    return channels_[static_cast<std::size_t>(channel)];
  }

  /// What throws leaves the record as it is: that is what the rank failed at.
  template <class Work>
  void during(Doing doing, int place, std::optional<int> peer, const Work& work) {
    record_.wait(doing, place, peer);
    work();
    record_.go_on();
  }

  std::unique_ptr<Transport> transport_;
  std::vector<ChannelEnds> channels_;
  FlightRecord& record_;
};

}  // namespace

std::unique_ptr<Transport> observe(std::unique_ptr<Transport> transport, const Wiring& wiring,
                                   FlightRecord& record) {
  return std::make_unique<ObservedTransport>(std::move(transport), wiring, record);
}

}  // namespace stagecraft
