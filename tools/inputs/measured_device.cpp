#include "tools/inputs/measured_device.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <vector>

#include "executor/backends/cuda.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {
namespace {

/// The N of "cuda:N"; "cuda" is the first.
int gpu_number(const std::string& device) {
  if (device == "cuda") return 0;
  constexpr std::string_view prefix = "cuda:";
  int number = -1;
  if (device.starts_with(prefix)) {
    const char* end = device.data() + device.size();
    const auto [read, error] = std::from_chars(device.data() + prefix.size(), end, number);
    if (error != std::errc{} || read != end) number = -1;
  }
  if (number < 0) fail_usage("--device: expected cpu or cuda:N, found \"", device, "\"");
  return number;
}

/// "h200" for "NVIDIA H200": the kind with the longest name that is part of it.
std::string kind_of_gpu(std::string_view product) {
  std::string name = lower_case(product);
  std::erase(name, ' ');
  std::string kind;
  for (const std::string& each : builtin_device_kinds()) {
    if (name.find(each) != std::string::npos && each.size() > kind.size()) kind = each;
  }
  return kind.empty() ? "generic" : kind;
}

/// The GPUs of rank 0, 1 …, of all that the machine has: those asked for, or the first one, then
/// the others.
std::vector<int> gpus_of(const DeviceFlags& flags, int count) {
  const int first = gpu_number(flags.device);
  std::vector<int> gpus;
  if (!flags.gpus.empty()) {
    gpus = read_small_integers("--gpus", flags.gpus, 0, 1023);
    if (gpus.front() != first && flags.device != "cuda") {
      fail_usage("--gpus ", flags.gpus, " begins with another GPU than --device ", flags.device,
                 "; leave its number out");
    }
  } else {
    for (int i = 0; i < count; ++i) gpus.push_back((first + i) % count);
  }
  for (const int gpu : {first, *std::ranges::max_element(gpus)}) {
    if (gpu < count) continue;
    throw Error(ErrorKind::execution, concat("--device ", flags.device, ": there is no GPU ", gpu,
                                             "; the last GPU here is cuda:", count - 1,
                                             "; --device cpu works everywhere"));
  }
  return gpus;
}

MeasuredDevice measured_gpu(const DeviceFlags& flags, bool one_rank) {
  const auto refuse = [&](const auto&... why) {
    throw Error(ErrorKind::execution,
                concat("--device ", flags.device, ": ", why..., "; --device cpu works everywhere"));
  };
  gpu_number(flags.device);
  const CudaReport report = describe_cuda();
  if (report.driver.empty()) refuse("this machine has no NVIDIA driver");
  if (report.devices.empty()) refuse("there is no GPU that can be used");
  const std::vector<int> gpus = gpus_of(flags, static_cast<int>(report.devices.size()));
  const CudaDevice& found = report.devices[static_cast<std::size_t>(gpus.front())];
  const auto count = static_cast<int>(std::set<int>(gpus.begin(), gpus.end()).size());
  const int parts = flags.partitions;
  const bool chosen = !one_rank || !flags.gpus.empty() || flags.device != "cuda";
  const CudaOptions options{.asked_for = "--device " + flags.device,
                            .gpus = chosen ? gpus : std::vector<int>{},
                            .partitions = parts > 1,
                            .ranks = one_rank    ? 1
                                     : parts > 1 ? parts * count
                                                 : std::max(count, 2)};
  return {.kind = kind_of_gpu(found.name),
          .description =
              concat("GPU ", gpus.front(), " (", found.name, " at up to ", found.clock_megahertz,
                     " MHz, memory ", found.memory_clock_megahertz, " MHz)",
                     parts > 1 ? concat(", one of ", parts, " parts of it") : "", ", CUDA ",
                     report.runtime, ", cuBLASLt ", report.cublas, ", cuDNN ", report.cudnn),
          .devices = parts * count,
          .memory = found.memory / parts,
          .make_backend = [options](int rank) { return make_cuda_backend(rank, options); }};
}

}  // namespace

void declare_device(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "Device to measure: cpu, or cuda:N for GPU N (cpu)")
      ->type_name("DEVICE");
  app.add_option("--gpus", flags.gpus,
                 "GPUs of the tensor-parallel peers, one each (all, from DEVICE on)")
      ->type_name("N,...");
  app.add_option("--partitions", flags.partitions,
                 "Number of equal parts of each GPU; one part is measured (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

MeasuredDevice measured_device(const DeviceFlags& flags, bool one_rank) {
  if (flags.device != "cpu") return measured_gpu(flags, one_rank);
  if (!flags.gpus.empty()) fail_usage("--gpus is about GPUs; give --device cuda, too");
  if (flags.partitions > 1) fail_usage("--partitions is about GPUs; give --device cuda, too");
  return {};
}

DeviceKind kind_of_measured(const MeasuredDevice& device) {
  DeviceKind kind = builtin_device_kind(device.kind);
  if (device.memory > 0) {
    kind.memory = device.memory;
    kind.memory_unlimited = false;
  }
  return kind;
}

}  // namespace stagecraft
