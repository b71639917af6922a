// Flight records of ranks that tests put into any situation.

#pragma once

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/driver/ranks.hpp"
#include "executor/flight/diagnosis.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft::tests {

/// A folder that is gone behind its test.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("stagecraft-test-" + name + "-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The records of all ranks of a program, all between two steps.
struct Flights {
  explicit Flights(Program of, const std::filesystem::path& folder = {})
      : program(std::move(of)), map(one_rank_per_device(program)) {
    const Oversight oversight{.flight_records = folder, .plan_hash = "xxh3:1"};
    for (int rank = 0; rank < program.devices; ++rank) {
      ranks.push_back(std::make_unique<FlightRecord>(oversight, program, map, rank));
      ranks.back()->begin_step(2);
    }
  }
  FlightRecord& operator[](int rank) { return *ranks[static_cast<std::size_t>(rank)]; }

  /// Lets the rank begin the instruction of this name.
  void begin(int rank, const std::string& instruction) {
    for (const int i : program.order[static_cast<std::size_t>(rank)]) {
      if (to_string(program.work[static_cast<std::size_t>(i)].instruction) == instruction) {
        return (*this)[rank].begin(i);
      }
    }
    throw std::logic_error(instruction);
  }
  /// Lets it wait at the first channel between these ranks.
  void receive(int rank, int from) {
    (*this)[rank].wait(Doing::receiving, channel(from, rank), from);
  }
  void send(int rank, int to) { (*this)[rank].wait(Doing::sending, channel(rank, to), to); }

  int channel(int from, int to) const {
    const Wiring& wiring = map.wiring();
    for (std::size_t i = 0; i < wiring.channels.size(); ++i) {
      if (wiring.channels[i].from == from && wiring.channels[i].to == to)
        return static_cast<int>(i);
    }
    throw std::logic_error("no such channel");
  }

  std::vector<Sight> sights() const {
    std::vector<Sight> all;
    for (const auto& rank : ranks) all.push_back(see(read_flight_record(rank->bytes(), ""), now()));
    return all;
  }

  Program program;
  RankMap map;
  std::vector<std::unique_ptr<FlightRecord>> ranks;
};

}  // namespace stagecraft::tests
