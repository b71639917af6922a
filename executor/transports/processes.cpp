#include "executor/transports/processes.hpp"

#include <array>
#include <charconv>
#include <cstdlib>

#include "executor/driver/modules.hpp"
#include "executor/transports/processes/session.hpp"
#include "executor/transports/tcp/carrier.hpp"
#include "executor/values/packing.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

/// The variables by which a launcher numbers what it starts.
struct Launcher {
  std::string_view name;
  const char* rank;
  const char* processes;
  std::string_view transport;
};

/// Slurm numbers the tasks of a job too; only those of a step (srun) are processes side by side.
/// RANK and WORLD_SIZE are torchrun's, and everybody's who starts processes as it does.
constexpr std::array launchers{
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpi"},
    Launcher{"mpiexec", "PMI_RANK", "PMI_SIZE", "mpi"},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "tcp"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "mpi"},
};

/// Each has a connection to every other.
constexpr int most_processes = 65536;

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return {};
  const std::string_view digits = text;
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return {};
  return number;
}

std::string packed(std::span<const Fact> facts) {
  Packer packer;
  for (const Fact& fact : facts) packer.put_bytes(fact.value);
  return packer.take();
}

/// The first difference between what ranks have said and these facts; empty if there is none.
std::string first_disagreement(std::span<const std::string> of_ranks, std::span<const Fact> facts) {
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    Unpacker unpacker(of_ranks[rank]);
    for (const Fact& fact : facts) {
      const std::string_view value = unpacker.get_bytes();
      if (value == fact.value) continue;
      return concat("rank ", rank, " has another ", fact.name, " than rank 0 (", value, ", not ",
                    fact.value, "); ", fact.remedy);
    }
  }
  return "";
}

}  // namespace

std::optional<Launch> launch() {
  for (const Launcher& launcher : launchers) {
    const auto rank = number_in(launcher.rank);
    const auto processes = number_in(launcher.processes);
    if (!rank || !processes) continue;
    if (*processes < 1 || *processes > most_processes || *rank < 0 || *rank >= *processes) {
      fail_usage(launcher.rank, "=", *rank, " and ", launcher.processes, "=", *processes,
                 ": expected a rank below the number of processes, and at most ", most_processes,
                 " of those");
    }
    return Launch{launcher.name, launcher.transport, *rank, *processes};
  }
  return {};
}

namespace {

std::unique_ptr<processes::Carrier> make_tcp_carrier() {
  return tcp::make_carrier();
}

std::unique_ptr<processes::Carrier> make_mpi_carrier() {
  void* entry = module_entry("mpi", "stagecraft_mpi_carrier", "--transport mpi");
  return std::unique_ptr<processes::Carrier>(reinterpret_cast<processes::Carrier* (*)()>(entry)());
}

}  // namespace

Processes& launched_processes() {
  const auto announced = launch();
  static processes::Session* const session = new processes::Session(
      announced && announced->transport == "tcp" ? make_tcp_carrier : make_mpi_carrier);
  if (announced && announced->processes != session->count()) {
    throw Error(ErrorKind::execution,
                concat(announced->launcher, " has started ", announced->processes,
                       " processes, but MPI sees ", session->count(),
                       ": they do not belong together; start them by the mpirun of ",
                       session->library(), ", or by srun --mpi=pmix"));
  }
  return *session;
}

std::vector<std::unique_ptr<Transport>> make_process_transports(const Wiring& wiring) {
  return launched_processes().make_transports(wiring);
}

void require_agreement(Processes& processes, std::span<const Fact> facts) {
  const std::vector<std::string> of_ranks = processes.gather(packed(facts));
  const std::string difference =
      processes.broadcast(processes.rank() == 0 ? first_disagreement(of_ranks, facts) : "");
  if (!difference.empty()) throw Error(ErrorKind::input, concat("run: ", difference));
}

std::string program_hash(const Program& program) {
  Packer packer;
  packer.put(program.devices);
  packer.put(program.microbatches);
  for (const Chunk& chunk : program.chunks) {
    for (const int number : {chunk.stage, chunk.replica, chunk.device}) packer.put(number);
    packer.put(chunk.rows);
  }
  for (const Channel& channel : program.channels) {
    for (const int number : {channel.from, channel.to}) packer.put(number);
    packer.put(channel.cargo);
    packer.put(channel.rows);
  }
  for (const Group& group : program.groups) {
    packer.put(group.op);
    for (const int chunk : group.chunks) packer.put(chunk);
  }
  for (const auto& order : program.order) {
    for (const int i : order) packer.put(i);
  }
  for (const Work& work : program.work) {
    packer.put_bytes(to_string(work.instruction));
    for (const int number : {work.chunk, work.channel.value_or(-1), work.group.value_or(-1),
                             work.weight_version, work.waits.first, work.waits.end}) {
      packer.put(number);
    }
  }
  for (const int i : program.waits) packer.put(i);
  return content_hash(packer.take());
}

}  // namespace stagecraft
