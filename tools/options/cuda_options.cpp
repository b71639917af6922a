#include "tools/options/cuda_options.hpp"

#include <CLI/CLI.hpp>
#include <mutex>
#include <set>

#include "profiles/error.hpp"
#include "tools/options/arguments.hpp"
#include "tools/reports/outcome.hpp"

namespace stagecraft {

namespace {

constexpr int most_gpus = 1024;

void refuse_without_gpus(const CudaFlags& flags) {
  const auto refuse = [](const char* option) {
    fail_usage(option, " is about GPUs; give --backend cuda, too");
  };
  if (!flags.graphs.empty()) refuse("--graphs");
  if (!flags.deterministic.empty()) refuse("--deterministic");
  if (!flags.gpus.empty()) refuse("--gpus");
  if (flags.partitions) refuse("--partitions");
  if (flags.nvtx) refuse("--gpu-ranges");
}

GraphUse read_graphs(const std::string& word) {
  if (word == "on") return GraphUse::on;
  if (word == "off") return GraphUse::off;
  return GraphUse::automatic;
}

}  // namespace

void declare_cuda(CLI::App& app, CudaFlags& flags) {
  app.add_option(
         "--graphs", flags.graphs,
         "With --backend cuda: launch each instruction as one CUDA graph: on, off, or auto, which "
         "falls back to single calls with a remark where a graph cannot be recorded (auto)")
      ->type_name("on|off|auto")
      ->check(CLI::IsMember({"on", "off", "auto"}));
  app.add_flag("--partitions", flags.partitions,
               "With --backend cuda: give each rank that shares a GPU its own part of the "
               "multiprocessors, so that ranks wait for each other as on several GPUs");
  app.add_option(
         "--gpus", flags.gpus,
         "With --backend cuda: GPUs of ranks 0, 1, …, repeated if there are more ranks (all)")
      ->type_name("N,...");
  app.add_option(
         "--deterministic", flags.deterministic,
         "With --backend cuda: on, or off, which lets attention sum gradients in any order (on)")
      ->type_name("on|off")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_flag("--gpu-ranges", flags.nvtx,
               "With --backend cuda: name each instruction for profilers such as Nsight Systems");
}

CudaOptions cuda_options_of(Console& console, const CudaFlags& flags, bool on_gpus, int ranks) {
  if (!on_gpus) refuse_without_gpus(flags);
  if (flags.partitions && ranks == 1) {
    fail_usage(
        "--partitions divides GPUs among ranks that are threads of one process, and there is "
        "only one; plan for several devices, and leave --transport out");
  }
  CudaOptions options{.graphs = read_graphs(flags.graphs),
                      .deterministic = flags.deterministic != "off",
                      .ranges = flags.nvtx,
                      .partitions = flags.partitions,
                      .ranks = ranks};
  if (!flags.gpus.empty()) options.gpus = read_small_integers("--gpus", flags.gpus, 0, most_gpus);
  // Ranks have the same to say, at once.
  struct Told {
    std::mutex mutex;
    std::set<std::string> remarks;
  };
  options.remark = [&console, told = std::make_shared<Told>()](const std::string& remark) {
    const std::lock_guard lock(told->mutex);
    if (told->remarks.insert(remark).second) console.note(remark);
  };
  return options;
}

}  // namespace stagecraft
