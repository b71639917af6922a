// stagecraft doctor: what this program was built with, what is missing, and the line that installs
// it.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "executor/backends/cuda.hpp"
#include "executor/driver/modules.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/build_info.hpp"
#include "tools/commands.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

/// What a library is for, and how to get it.
struct Remedy {
  std::string_view library;
  std::string_view purpose;
  std::string_view install;
};

constexpr std::array remedies{
    Remedy{"Boost", "model graphs", "sudo apt-get install libboost-graph-dev"},
    Remedy{"CLI11", "this command line", "sudo apt-get install libcli11-dev"},
    Remedy{"fmt", "text", "sudo apt-get install libfmt-dev"},
    Remedy{"nlohmann/json", "files", "sudo apt-get install nlohmann-json3-dev"},
    Remedy{"toml++", "torchtitan's configurations", "sudo apt-get install libtomlplusplus-dev"},
    Remedy{"yaml-cpp", "recipes of other systems", "sudo apt-get install libyaml-cpp-dev"},
    Remedy{"zlib", "pages of stagecraft report", "sudo apt-get install zlib1g-dev"},
    Remedy{"OpenBLAS", "training on CPUs", "sudo apt-get install libopenblas-pthread-dev"},
    Remedy{"CUDA", "training on GPUs",
           "sudo apt-get install nvidia-cuda-toolkit   (or NVIDIA's packages), then build again"},
    Remedy{"NCCL", "several GPUs",
           "sudo apt-get install libnccl-dev   (from NVIDIA's repository), then build again"},
    Remedy{"MPI", "several processes",
           "sudo apt-get install libopenmpi-dev openmpi-bin, then build again"},
};

Remedy remedy_for(std::string_view library) {
  for (const Remedy& remedy : remedies) {
    if (remedy.library == library) return remedy;
  }
  return {library, "", ""};
}

bool was_found(std::string_view name) {
  return std::ranges::any_of(build_info::libraries, [&](const build_info::Library& library) {
    return library.name == name && library.found();
  });
}

/// Where it can, messages go from GPU to GPU without passing through the process.
std::string peers_words(const CudaDevice& device) {
  if (device.peers.empty()) return "       looks into no other GPU's memory\n";
  std::vector<std::string> peers;
  for (const int peer : device.peers) peers.push_back(std::to_string(peer));
  return concat("       looks into the memory of GPU ", join_words(peers), "\n");
}

std::string words(const CudaReport& report) {
  std::string text = concat("CUDA ", report.runtime, " with cuBLASLt ", report.cublas,
                            " and cuDNN ", report.cudnn, "; ");
  if (report.driver.empty()) return text + "this machine has no NVIDIA driver\n";
  text += concat("the driver serves CUDA ", report.driver, "\n");
  if (report.devices.empty()) text += "no GPU can be used\n";
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    const CudaDevice& device = report.devices[i];
    text += concat("GPU ", i, ": ", device.name, ", compute capability ", device.capability, ", ",
                   device.multiprocessors, " multiprocessors at up to ", device.clock_megahertz,
                   " MHz, ", format_bytes(device.memory), " at ", device.memory_clock_megahertz,
                   " MHz\n");
    if (report.devices.size() > 1) text += peers_words(device);
  }
  return text;
}

ordered_json as_json(const CudaReport& report) {
  ordered_json devices = ordered_json::array();
  for (const CudaDevice& device : report.devices) {
    devices.push_back({{"name", device.name},
                       {"compute_capability", device.capability},
                       {"multiprocessors", device.multiprocessors},
                       {"clock_mhz", device.clock_megahertz},
                       {"memory_bytes", device.memory},
                       {"memory_clock_mhz", device.memory_clock_megahertz},
                       {"peers", device.peers}});
  }
  return {{"driver", report.driver},
          {"runtime", report.runtime},
          {"cublas", report.cublas},
          {"cudnn", report.cudnn},
          {"devices", std::move(devices)}};
}

/// What this machine has for the CUDA backend, if the program has one; or why it cannot tell.
void examine_cuda(Console& console, ordered_json& result) {
  try {
    const CudaReport report = describe_cuda();
    console.print(words(report));
    result["cuda"] = as_json(report);
  } catch (const Error& error) {
    console.print(concat(error.what(), "\n"));
  }
}

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  const std::vector<std::string> folders = split(path == nullptr ? "" : path, ':');
  return std::ranges::any_of(folders, [&](const std::string& folder) {
    return access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0;
  });
}

/// How `run` can use several processes here.
struct Ways {
  std::vector<std::string> transports;
  std::string sentence;
};

Ways without_mpi(std::string_view why) {
  return {{"tcp"},
          concat("runs in several processes: ready (run PLAN --transport tcp); not by MPI: ", why)};
}

Ways ways_to_several_processes() {
  try {
    module_entry("mpi", "stagecraft_mpi_carrier", "runs in several processes");
  } catch (const Error&) {
    return without_mpi("this program was built without it, or a library is missing");
  }
  if (!is_on_path("mpirun")) {
    return without_mpi("it is there, but no mpirun; sudo apt-get install openmpi-bin");
  }
  return {{"mpi", "tcp"}, "runs in several processes: ready (run PLAN --transport mpi, or tcp)"};
}

int examine(Console& console) {
  Table table({"library", "version", "for", "if missing"});
  ordered_json rows = ordered_json::array();
  for (const build_info::Library& library : build_info::libraries) {
    const Remedy remedy = remedy_for(library.name);
    table.row({std::string(library.name),
               library.found() ? std::string(library.version) : "not found",
               std::string(remedy.purpose), library.found() ? "" : std::string(remedy.install)});
    ordered_json row{{"name", library.name},
                     {"found", library.found()},
                     {"version", library.version},
                     {"purpose", remedy.purpose}};
    if (!library.found()) row["install"] = remedy.install;
    rows.push_back(std::move(row));
  }
  const unsigned cores = std::thread::hardware_concurrency();
  console.print(concat("stagecraft ", build_info::version, ", ", build_info::compiler, ", ",
                       build_info::build_type, "; ", cores, " cores\n"));
  console.print(table.text(console.unicode()));
  const Ways processes = ways_to_several_processes();
  console.print(processes.sentence + "\n");
  console.print("planning, simulation and training on CPUs need none of CUDA, NCCL and MPI\n");
  ordered_json result{{"compiler", build_info::compiler},
                      {"build_type", build_info::build_type},
                      {"cores", cores},
                      {"libraries", std::move(rows)},
                      {"several_processes", processes.transports}};
  if (was_found("CUDA")) examine_cuda(console, result);
  console.result(result);
  return 0;
}

}  // namespace

Action declare_doctor(CLI::App&) {
  return [](Console& console) { return examine(console); };
}

}  // namespace stagecraft
