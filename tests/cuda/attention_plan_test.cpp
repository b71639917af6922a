// cuDNN takes the graphs of attention for an H200 that is only described to it, and gets as far as
// loading what it compiled: to the driver, which is not there, or is the toolkit's stub of one.

#include "executor/backends/cuda/attention_plan.hpp"

#include <dlfcn.h>

#include "tests/catch.hpp"

using namespace stagecraft;
using namespace stagecraft::cuda;

namespace {

const char* const h200 = R"({"deviceName":"NVIDIA H200","cudaDeviceId":0,"deviceVer":900,
"multiProcessorCount":132,"driverVer":13000,"smClockRateKHz":1980000,"memClockRateKHz":3201000,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"maxRegistersPerSM":65536,"regsPerBlock":65536,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"maxCtasPerSM":32,"warpSize":32,"l2CacheSize":62914560,
"totalGlobalMem":150754820096,"supportCoopLaunch":1,"isTccDriver":0,"pciDeviceId":0,
"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64]})";

struct ZooShape {
  const char* model;
  AttentionShape shape;
};

AttentionShape attention(std::int64_t samples, std::int64_t sequence, std::int64_t heads,
                         std::int64_t shared, std::int64_t width) {
  return {.samples = samples,
          .sequence = sequence,
          .heads = heads,
          .key_value_heads = shared,
          .head_width = width};
}

const std::vector<ZooShape> zoo{
    {"gpt2-124m", attention(8, 1024, 12, 12, 64)},
    {"llama-3.2-1b", attention(2, 2048, 32, 8, 64)},
    {"llama-3-8b, mistral-7b", attention(1, 4096, 32, 8, 128)},
};

bool has_driver_library() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

}  // namespace

TEST_CASE("cuDNN compiles attention for an H200 that is not there") {
  const ZooShape model = GENERATE(from_range(zoo));
  const AttentionPass pass = GENERATE(AttentionPass::forward, AttentionPass::backward);
  const AttentionPlan plan(model.shape, pass, {.handle = nullptr, .device = h200});
  INFO(model.model << ": " << plan.operations() << " operations, " << plan.engines()
                   << " engines: " << plan.refusal());
  // The heads that share keys take two sums more.
  const bool shares = model.shape.heads != model.shape.key_value_heads;
  CHECK(plan.operations() == (pass == AttentionPass::forward ? 14 : shares ? 23 : 21));
  if (!has_driver_library()) {
    CHECK(plan.engines() == 0);  // cuDNN wants to ask a driver even about a described device
    return;
  }
  CHECK(plan.engines() > 0);
  // As far as a stub takes it: compiled, and not loaded.
  if (!plan.is_ready()) CHECK(plan.refusal().find("cuLibraryLoadData") != std::string::npos);
}

TEST_CASE("cuDNN takes attention with sums in any order, and for a part of the multiprocessors") {
  const ZooShape model = GENERATE(from_range(zoo));
  const AttentionPlan plan(
      model.shape, AttentionPass::backward,
      {.handle = nullptr, .device = h200, .multiprocessors = 32, .deterministic = false});
  INFO(model.model << ": " << plan.engines() << " engines: " << plan.refusal());
  const bool shares = model.shape.heads != model.shape.key_value_heads;
  CHECK(plan.operations() == (shares ? 24 : 22));
  CHECK(plan.sum_bytes() == 4 * model.shape.samples * model.shape.sequence * model.shape.heads *
                                model.shape.head_width);
  if (has_driver_library()) CHECK(plan.engines() > 0);
}
