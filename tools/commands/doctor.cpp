// stagecraft doctor: what this program was built with, what is missing, and the line that installs
// it.

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>
#include <thread>

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
  console.print("planning, simulation and training on CPUs need none of CUDA, NCCL and MPI\n");
  console.result({{"compiler", build_info::compiler},
                  {"build_type", build_info::build_type},
                  {"cores", cores},
                  {"libraries", std::move(rows)}});
  return 0;
}

}  // namespace

Action declare_doctor(CLI::App&) {
  return [](Console& console) { return examine(console); };
}

}  // namespace stagecraft
