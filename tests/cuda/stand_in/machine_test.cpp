// That the stand-in is as unfriendly as it says: it would be no use otherwise.

#include <array>
#include <thread>

#include "tests/catch.hpp"
#include "tests/cuda/stand_in/streams.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Numbers = std::array<float, 4>;

struct OwnedStream {
  OwnedStream() {
    REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~OwnedStream() { cudaStreamDestroy(handle); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  cudaStream_t handle = nullptr;
};

float* allocate(cudaStream_t stream) {
  void* data = nullptr;
  REQUIRE(cudaMallocAsync(&data, sizeof(Numbers), stream) == cudaSuccess);
  return static_cast<float*>(data);
}

void write(cudaStream_t stream, float* to, float value) {
  stand_in::enqueue(stream, "write", [=] {
    stand_in::require_usable(to, sizeof(Numbers));
    for (int i = 0; i < 4; ++i) to[i] = value;
  });
}

void copy(cudaStream_t stream, const float* from, float* to) {
  cudaMemcpyAsync(to, from, sizeof(Numbers), cudaMemcpyDefault, stream);
}

float read(cudaStream_t stream, const float* from) {
  Numbers numbers{};
  cudaMemcpyAsync(numbers.data(), from, sizeof numbers, cudaMemcpyDeviceToHost, stream);
  return numbers[0];
}

bool complains_of(const std::string& words) {
  for (const std::string& sentence : stand_in::complaints()) {
    if (sentence.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the stand-in does nothing before somebody waits, and then only what it has to") {
  stand_in::set_up({});
  OwnedStream one, other;
  float* const a = allocate(one.handle);
  float* const b = allocate(other.handle);
  write(one.handle, a, 1);
  write(other.handle, b, 2);
  CHECK(std::isnan(a[0]));
  CHECK(read(one.handle, a) == 1);
  CHECK(std::isnan(b[0]));
  CHECK(stand_in::complaints().empty());
}

TEST_CASE("on the stand-in a stream that does not wait for another reads what is no number") {
  for (const bool waits : {false, true}) {
    stand_in::set_up({});
    OwnedStream producer, consumer;
    float* const a = allocate(producer.handle);
    float* const b = allocate(consumer.handle);
    cudaStreamSynchronize(producer.handle);
    write(producer.handle, a, 1);
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, producer.handle);
    if (waits) cudaStreamWaitEvent(consumer.handle, event, 0);
    copy(consumer.handle, a, b);
    CHECK(std::isnan(read(consumer.handle, b)) != waits);
    cudaEventDestroy(event);
  }
}

TEST_CASE("on the stand-in a producer that does not wait overwrites what is still to be read") {
  for (const bool waits : {false, true}) {
    stand_in::set_up({.order = stand_in::Order::others_first});
    OwnedStream producer, consumer;
    float* const a = allocate(producer.handle);
    float* const b = allocate(consumer.handle);
    write(producer.handle, a, 1);
    cudaStreamSynchronize(producer.handle);
    copy(consumer.handle, a, b);
    cudaEvent_t read_event = nullptr;
    cudaEventCreateWithFlags(&read_event, cudaEventDisableTiming);
    cudaEventRecord(read_event, consumer.handle);
    if (waits) cudaStreamWaitEvent(producer.handle, read_event, 0);
    write(producer.handle, a, 2);
    CHECK(read(consumer.handle, b) == (waits ? 1 : 2));
    cudaEventDestroy(read_event);
  }
}

TEST_CASE("the stand-in names the call that uses what has been given back or destroyed") {
  stand_in::set_up({});
  cudaStream_t gone = nullptr;
  {
    OwnedStream stream;
    gone = stream.handle;
    float* const a = allocate(stream.handle);
    cudaFreeAsync(a, stream.handle);
    cudaMemsetAsync(a, 0, sizeof(Numbers), stream.handle);
    cudaStreamSynchronize(stream.handle);
  }
  CHECK(complains_of("cudaMemsetAsync: uses memory that has been given back"));
  CHECK(cudaStreamSynchronize(gone) != cudaSuccess);
  CHECK(complains_of("cudaStreamSynchronize: uses a stream that is destroyed"));
}

TEST_CASE("the stand-in keeps devices apart") {
  for (const bool may : {false, true}) {
    stand_in::set_up({.devices = 2, .peer_access = may});
    OwnedStream first;
    float* const a = allocate(first.handle);
    write(first.handle, a, 1);
    cudaStreamSynchronize(first.handle);
    cudaSetDevice(1);
    if (may) {
      cudaMemPool_t pool = nullptr;
      cudaDeviceGetDefaultMemPool(&pool, 0);
      cudaMemAccessDesc access{};
      access.location = {.type = cudaMemLocationTypeDevice, .id = 1};
      access.flags = cudaMemAccessFlagsProtReadWrite;
      REQUIRE(cudaMemPoolSetAccess(pool, &access, 1) == cudaSuccess);
    }
    {
      OwnedStream second;
      stand_in::enqueue(second.handle, "kernel",
                        [&] { stand_in::require_addresses(&a, sizeof a); });
      cudaStreamSynchronize(second.handle);
      CHECK(complains_of("kernel: runs on device 1, and uses memory of device 0") != may);
      cudaEvent_t event = nullptr;
      cudaEventCreate(&event);
      CHECK(cudaEventRecord(event, first.handle) != cudaSuccess);
      CHECK(complains_of("cudaEventRecord: records an event of another device"));
      cudaEventDestroy(event);
    }
    stand_in::enqueue(first.handle, "kernel", [] {});
    CHECK(complains_of("on a stream of device 0 while device 1 is current"));
    cudaSetDevice(0);
  }
}

TEST_CASE("the stand-in records graphs and carries them out as often as they are launched") {
  stand_in::set_up({});
  OwnedStream stream;
  float* const a = allocate(stream.handle);
  write(stream.handle, a, 0);
  const auto record = [&](bool spoils) {
    cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal);
    stand_in::enqueue(stream.handle, "add", [a] { a[0] += 1; });
    if (spoils) CHECK(cudaStreamSynchronize(stream.handle) != cudaSuccess);
    cudaGraph_t graph = nullptr;
    CHECK((cudaStreamEndCapture(stream.handle, &graph) == cudaSuccess) != spoils);
    return graph;
  };
  cudaGraph_t graph = record(false);
  CHECK(read(stream.handle, a) == 0);
  cudaGraphExec_t executable = nullptr;
  cudaGraphInstantiate(&executable, graph, 0);
  for (int i = 0; i < 3; ++i) cudaGraphLaunch(executable, stream.handle);
  CHECK(read(stream.handle, a) == 3);
  CHECK(record(true) == nullptr);
  cudaGraphDestroy(graph);
  cudaGraphExecDestroy(executable);
  CHECK(stand_in::counts().graphs == 1);
  CHECK(stand_in::counts().graph_launches == 3);
}

TEST_CASE("times of the stand-in's events follow what is waited for") {
  stand_in::set_up({});
  OwnedStream one, other;
  std::array<cudaEvent_t, 3> events{};
  for (cudaEvent_t& event : events) cudaEventCreate(&event);
  cudaEventRecord(events[0], one.handle);
  stand_in::enqueue(one.handle, "work", [] {}, {5e9});
  cudaEventRecord(events[1], one.handle);
  cudaStreamWaitEvent(other.handle, events[1], 0);
  stand_in::enqueue(other.handle, "work", [] {}, {2e9});
  cudaEventRecord(events[2], other.handle);
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, events[0], events[2]) == cudaErrorNotReady);
  cudaStreamSynchronize(other.handle);
  cudaEventElapsedTime(&milliseconds, events[0], events[2]);
  CHECK(milliseconds == Approx(7000).epsilon(1e-3));
  for (cudaEvent_t event : events) cudaEventDestroy(event);
}
