// How the processes of a run find each other without MPI.
//
// torchrun, and whoever starts processes as it does, says in the environment who a process is (RANK
// of WORLD_SIZE) and where rank 0 can be met (MASTER_ADDR, MASTER_PORT). On that port torchrun may
// listen itself, so rank 0 takes the first one from there on that is free, and the others knock at
// one after the other until one answers as this run's.
//
//   rank i   knock ──hello: rank, own port, machine─→ rank 0 ──all addresses─→ connect to 1 … i-1

#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "executor/transports/tcp/socket.hpp"

namespace stagecraft::tcp {

struct MeetingPlace {
  std::string host;  ///< of rank 0
  int port = 0;
  std::string run;  ///< tells runs apart that meet on neighbouring ports
};
/// From MASTER_ADDR, MASTER_PORT and TORCHELASTIC_RUN_ID. Throws Error (usage) if they make no
/// sense.
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
