// How the processes of a run find each other without MPI.
//
// torchrun, and whoever starts processes as it does, says in the environment who a process is (RANK
// of WORLD_SIZE) and where rank 0 can be met (MASTER_ADDR, MASTER_PORT). On that port torchrun may
// listen itself, so rank 0 takes the first one from there on that is free, and the others knock at
// one after the other until one answers as this run's.
//
//   rank i   knock ──hello: rank, own port, machine─→ rank 0 ──all addresses─→ connect to 1 … i-1
//
// Strangers may connect, too: those who do not prove that they know the run's secret (see
// authentication.hpp), or take their time, keep nobody else waiting. A rank that pauses in the
// midst of it is waited for as long as one that has not come. A rank whose secret is another than
// rank 0's ends within seconds; rank 0, which strangers must not end, waits, and says so at the
// end.
//
// Who listens where: where all processes are on one machine (MASTER_ADDR is a loopback address, or
// torchrun's LOCAL_WORLD_SIZE is WORLD_SIZE) on the loopback address alone; else on the address of
// the interface that STAGECRAFT_INTERFACE names, or without it on the one that MASTER_ADDR means,
// and where that cannot be told, on all of them.

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "executor/transports/tcp/socket.hpp"

namespace stagecraft::tcp {

struct MeetingPlace {
  std::string host;  ///< of rank 0
  int port = 0;
  std::string run;        ///< tells runs apart that meet on neighbouring ports
  std::string secret;     ///< that only the run's processes know; empty: everybody
  std::string interface;  ///< to listen on; empty: see above
};
/// From MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID, LOCAL_WORLD_SIZE, STAGECRAFT_SECRET and
/// STAGECRAFT_INTERFACE. Throws Error (usage) if they make no sense.
MeetingPlace meeting_place_of_environment();

struct Connections {
  std::vector<Socket> sockets;        ///< by rank; the own one is closed
  std::vector<std::string> machines;  ///< by rank: equal on one machine
};

/// Connects every process with every other. Throws Error (execution) if somebody has not come
/// within `patience`: who is missing.
Connections connect_all(const MeetingPlace& place, int rank, int processes,
                        std::chrono::seconds patience);

}  // namespace stagecraft::tcp
