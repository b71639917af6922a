// Calls of NCCL that are passed on, less what a test does to some of them.

#pragma once

#include <memory>
#include <string>
#include <utility>

#include "executor/transports/nccl/calls.hpp"

namespace stagecraft::tests {

class WrappedCalls : public nccl::Calls {
 public:
  explicit WrappedCalls(std::unique_ptr<nccl::Calls> inner) : inner_(std::move(inner)) {}
  nccl::Result get_unique_id(nccl::UniqueId& id) override { return inner_->get_unique_id(id); }
  nccl::Result init_rank(nccl::Communicator& communicator, int members, const nccl::UniqueId& id,
                         int place) override {
    return inner_->init_rank(communicator, members, id, place);
  }
  nccl::Result async_error(nccl::Communicator communicator, nccl::Result& state) override {
    return inner_->async_error(communicator, state);
  }
  std::string describe(nccl::Result result, nccl::Communicator communicator) override {
    return inner_->describe(result, communicator);
  }
  nccl::Result finalize(nccl::Communicator communicator) override {
    return inner_->finalize(communicator);
  }
  nccl::Result destroy(nccl::Communicator communicator) override {
    return inner_->destroy(communicator);
  }
  nccl::Result abort(nccl::Communicator communicator) override {
    return inner_->abort(communicator);
  }
  nccl::Result group_start() override { return inner_->group_start(); }
  nccl::Result group_end() override { return inner_->group_end(); }
  nccl::Result send(const void* data, std::size_t bytes, int peer, nccl::Communicator communicator,
                    nccl::Stream stream) override {
    return inner_->send(data, bytes, peer, communicator, stream);
  }
  nccl::Result receive(void* data, std::size_t bytes, int peer, nccl::Communicator communicator,
                       nccl::Stream stream) override {
    return inner_->receive(data, bytes, peer, communicator, stream);
  }
  nccl::Result all_reduce(void* data, std::size_t elements, Precision precision,
                          nccl::Communicator communicator, nccl::Stream stream) override {
    return inner_->all_reduce(data, elements, precision, communicator, stream);
  }
  nccl::Result reduce_scatter(void* data, std::size_t elements_of_part, Precision precision,
                              int place, nccl::Communicator communicator,
                              nccl::Stream stream) override {
    return inner_->reduce_scatter(data, elements_of_part, precision, place, communicator, stream);
  }
  std::string device() override { return inner_->device(); }
  nccl::Stream make_stream() override { return inner_->make_stream(); }
  void destroy_stream(nccl::Stream stream) override { inner_->destroy_stream(stream); }
  nccl::Event record(nccl::Stream stream) override { return inner_->record(stream); }
  bool is_done(nccl::Event event) override { return inner_->is_done(event); }
  void destroy_event(nccl::Event event) override { inner_->destroy_event(event); }
  std::shared_ptr<void> allocate(Bytes bytes) override { return inner_->allocate(bytes); }

 private:
  std::unique_ptr<nccl::Calls> inner_;
};

}  // namespace stagecraft::tests
