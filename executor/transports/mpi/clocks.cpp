#include "executor/transports/mpi/clocks.hpp"

#include <cstdlib>

#include "executor/transports/mpi/progress.hpp"

namespace stagecraft::mpi {

namespace {

constexpr int tag = 0;
constexpr int enough_rounds = 30;

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  check(MPI_Comm_rank(communicator, &rank), "number the processes");
  return rank;
}

int ranks_in(MPI_Comm communicator) {
  int ranks = 0;
  check(MPI_Comm_size(communicator, &ranks), "count the processes");
  return ranks;
}

/// Rank 0 answers each question with its time.
void answer(MPI_Comm communicator, int rank, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    check(MPI_Recv(nullptr, 0, MPI_BYTE, rank, tag, communicator, MPI_STATUS_IGNORE),
          "compare clocks");
    const std::int64_t time = now().count();
    check(MPI_Send(&time, 1, MPI_INT64_T, rank, tag, communicator), "compare clocks");
  }
}

ClockOffset ask(MPI_Comm communicator, int rounds) {
  ClockOffset best{.error = Duration::max()};
  for (int round = 0; round < rounds; ++round) {
    std::int64_t there = 0;
    const Moment before = now();
    check(MPI_Send(nullptr, 0, MPI_BYTE, 0, tag, communicator), "compare clocks");
    check(MPI_Recv(&there, 1, MPI_INT64_T, 0, tag, communicator, MPI_STATUS_IGNORE),
          "compare clocks");
    const Moment after = now();
    const Duration half = (after - before) / 2 + Duration{1};
    if (half < best.error) best = {.ahead = before + half - Moment{there}, .error = half};
  }
  return best;
}

}  // namespace

ClockOffset measured_offset(MPI_Comm communicator, int rounds) {
  if (rank_in(communicator) != 0) return ask(communicator, rounds);
  for (int rank = 1; rank < ranks_in(communicator); ++rank) answer(communicator, rank, rounds);
  return {};
}

ClockOffset offset_of_clock(MPI_Comm communicator) {
  MPI_Comm machine = MPI_COMM_NULL;
  const int rank = rank_in(communicator);
  check(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine),
        "find the processes of this machine");
  int lowest = 0;  // rank 0's machine is the one whose lowest rank is 0
  check(MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, machine),
        "find the processes of this machine");
  check(MPI_Comm_free(&machine), "find the processes of this machine");
  MPI_Comm askers = MPI_COMM_NULL;                          // rank 0, and those that are elsewhere
  const char* apart = std::getenv("STAGECRAFT_MPI_APART");  // tests: as if on several machines
  const bool asks = rank == 0 || lowest != 0 || (apart != nullptr && *apart == '1');
  check(MPI_Comm_split(communicator, asks ? 0 : MPI_UNDEFINED, rank, &askers), "compare clocks");
  if (!asks) return {};
  const ClockOffset offset = measured_offset(askers, enough_rounds);
  check(MPI_Comm_free(&askers), "compare clocks");
  return offset;
}

}  // namespace stagecraft::mpi
