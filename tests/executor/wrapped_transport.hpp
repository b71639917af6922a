// A transport that does what another does: tests override what is to go wrong.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/driver/machinery.hpp"

namespace stagecraft::tests {

class WrappedTransport : public Transport {
 public:
  explicit WrappedTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int ranks() const override { return inner_->ranks(); }
  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    inner_->send(channel, backend, std::move(tensor), available_at, label);
  }
  void wait_for_delivery(int channel, Backend& backend, long messages) override {
    inner_->wait_for_delivery(channel, backend, messages);
  }
  void post(int channel, Backend& backend, Tensor memory) override {
    inner_->post(channel, backend, std::move(memory));
  }
  Arrival receive(int channel, Backend& backend) override {
    return inner_->receive(channel, backend);
  }
  void all_reduce(int group, Backend& backend, Tensor& tensor) override {
    inner_->all_reduce(group, backend, tensor);
  }
  void reduce_scatter(int group, Backend& backend, Tensor& tensor) override {
    inner_->reduce_scatter(group, backend, tensor);
  }
  void all_gather(int group, Backend& backend, Tensor& tensor) override {
    inner_->all_gather(group, backend, tensor);
  }
  void barrier() override { inner_->barrier(); }
  std::vector<std::string> gather(std::string said) override {
    return inner_->gather(std::move(said));
  }
  std::string broadcast(std::string said) override { return inner_->broadcast(std::move(said)); }
  std::string abort(const std::string& reason) override { return inner_->abort(reason); }
  std::optional<std::string> aborted() override { return inner_->aborted(); }
  bool needs_global_order() const override { return inner_->needs_global_order(); }
  ClockOffset clock() const override { return inner_->clock(); }

 private:
  std::unique_ptr<Transport> inner_;
};

/// A run over threads, each transport wrapped.
inline Machinery machinery_with(
    const std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>& wrap) {
  Machinery machinery;
  machinery.make_transports = [wrap](const Wiring& wiring) {
    auto transports = make_thread_transports(wiring);
    for (auto& transport : transports) transport = wrap(std::move(transport));
    return transports;
  };
  return machinery;
}

}  // namespace stagecraft::tests
