// Nothing is left behind: whoever ends a run, or a part of it, ends all of its processes; signals
// end it in good order; ranks that are killed before they train are started again; and two runs do
// not write to one folder. The suite takes one case of each; tests_faults '[hundred]' takes many.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiles/units.hpp"
#include "tests/catch.hpp"
#include "tests/faults/small_run.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Processes that end with their launcher do so within two seconds; a busy machine may take longer.
constexpr Duration end_within = 10s;

int parent_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t close = line.rfind(')');
  if (close == line.npos) return 0;
  std::istringstream rest(line.substr(close + 1));
  std::string state;
  int parent = 0;
  rest >> state >> parent;
  return parent;
}

/// All below a process, it included.
std::vector<int> family_of(int pid) {
  std::vector<std::pair<int, int>> all;  // child, parent
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    all.emplace_back(std::stoi(name), parent_of(std::stoi(name)));
  }
  std::vector<int> family{pid};
  for (std::size_t i = 0; i < family.size(); ++i) {
    for (const auto& [child, parent] : all) {
      if (parent == family[i]) family.push_back(child);
    }
  }
  return family;
}

bool is_called(int pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string found;
  return std::getline(file, found) && found == name;
}

bool is_rank(int pid, int rank) {
  const std::string environment = text_of("/proc/" + std::to_string(pid) + "/environ");
  const std::string text = std::string(1, '\0') + environment;
  for (const char* variable : {"RANK=", "OMPI_COMM_WORLD_RANK="}) {
    const std::string set = std::string(1, '\0') + variable + std::to_string(rank) + '\0';
    if (text.find(set) != text.npos && is_called(pid, "stagecraft")) return true;
  }
  return false;
}

/// The first of a run's processes that is wanted, as soon as there is one.
int await_process(const ProgramRun& run, const std::function<bool(int)>& is_wanted) {
  for (const Moment start = now(); now() - start < 60s; std::this_thread::sleep_for(1ms)) {
    for (const int pid : family_of(run.pid())) {
      if (pid != run.pid() && is_wanted(pid)) return pid;
    }
  }
  return 0;
}

struct Launcher {
  std::string transport;
  std::vector<std::string> more;
};

std::vector<std::string> words_of(const Fixture& fixture, const Launcher& launcher, int steps) {
  std::vector<std::string> words{"--transport", launcher.transport};
  words.insert(words.end(), launcher.more.begin(), launcher.more.end());
  return fixture.run(steps, std::move(words));
}

std::vector<Launcher> launchers() {
  std::vector<Launcher> all{{"threads", {}}, {"tcp", {}}, {"tcp", {"--restarts", "2"}}};
  if (std::system("command -v mpirun > /dev/null") == 0) {
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI leaks a little of its own
    all.push_back({"mpi", {}});
    all.push_back({"mpi", {"--restarts", "2"}});
  }
  return all;
}

/// What Open MPI has put into /dev/shm and /tmp for a run with these processes.
std::set<std::filesystem::path> files_of_mpi(const std::vector<int>& family) {
  std::set<std::filesystem::path> files;
  for (const int pid : family) {
    std::ifstream maps(concat("/proc/", pid, "/maps"));
    for (std::string line; std::getline(maps, line);) {
      const std::size_t at = line.find("/dev/shm/vader_segment.");
      if (at != std::string::npos) files.insert(line.substr(at));
      const std::size_t session = line.find("/ompi.");
      if (session != std::string::npos) files.insert(line.substr(line.find('/')));
    }
  }
  return files;
}

}  // namespace

TEST_CASE("an mpirun that ends well without its ranks is no run that ended well") {
  if (launchers().back().transport != "mpi") SKIP("no mpirun here");
  const Fixture fixture("mpirun-without-ranks");
  const std::filesystem::path stand_in = fixture.folder.path() / "mpirun";
  std::ofstream(stand_in) << "#!/bin/sh\nexit 0\n";
  std::filesystem::permissions(stand_in, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", concat(fixture.folder.path().string(), ":", path).c_str(), 1);
  ProgramRun run(fixture.folder.path(), words_of(fixture, {"mpi", {}}, 2));
  ::setenv("PATH", path.c_str(), 1);
  CHECK(run.wait() == 5);
  INFO(run.errors());
  CHECK(run.errors().find("mpirun ended with 0, but its ranks have never met") !=
        std::string::npos);
}

TEST_CASE("whoever kills a launcher or mpirun leaves no rank behind", "[seconds]") {
  const Fixture fixture("left-behind");
  for (const Launcher& launcher : launchers()) {
    for (const std::string victim : {"stagecraft", "mpirun"}) {
      if (victim == "mpirun" && launcher.transport != "mpi") continue;
      INFO(launcher.transport << " " << launcher.more.size() << " " << victim);
      std::filesystem::remove_all(fixture.records());
      ProgramRun run(fixture.folder.path(), words_of(fixture, launcher, 100000));
      REQUIRE(await_step(fixture.records(), 1, 0));
      const std::vector<int> family = family_of(run.pid());
      int killed = run.pid();
      for (const int pid : family) {
        if (victim == "mpirun" && is_called(pid, "mpirun")) killed = pid;
      }
      const std::set<std::filesystem::path> files = files_of_mpi(family);
      CHECK(files.size() >= (launcher.transport == "mpi" ? 3 : 0));
      kill(killed, SIGKILL);
      if (victim == "mpirun" && !launcher.more.empty()) kill(run.pid(), SIGKILL);
      CHECK(all_end(family, end_within));
      CHECK(run.wait() != 0);
      // A launcher that is there to see its mpirun killed removes what that one cannot.
      if (victim == "mpirun" && !launcher.more.empty()) continue;
      for (const std::filesystem::path& file : files) {
        INFO(file);
        CHECK_FALSE(std::filesystem::exists(file));
      }
    }
  }
}

namespace {

void pass_signals_on(const std::vector<Launcher>& over) {
  const Fixture fixture("passed-on");
  for (const Launcher& launcher : over) {
    for (const int signal : {SIGINT, SIGTERM}) {
      INFO(launcher.transport << " " << launcher.more.size() << " " << signal);
      std::filesystem::remove_all(fixture.records());
      std::filesystem::remove_all(fixture.folder.path() / "ck");
      Launcher with_checkpoint = launcher;
      with_checkpoint.more.insert(with_checkpoint.more.end(), {"--checkpoint", "ck"});
      ProgramRun run(fixture.folder.path(), words_of(fixture, with_checkpoint, 100000));
      REQUIRE(await_step(fixture.records(), 0, 2));
      const std::vector<int> family = family_of(run.pid());
      kill(run.pid(), signal);
      CHECK(run.wait() == 128 + signal);
      CHECK(all_end(family, end_within));
      CHECK(lines_with(run.errors(), "interrupted by signal " + std::to_string(signal)) == 1);
      CHECK(lines_with(run.errors(), "") == 1);
      int checkpoints = 0;
      for (const auto& entry : std::filesystem::directory_iterator(fixture.folder.path() / "ck")) {
        CHECK(std::filesystem::exists(entry.path() / "manifest.json"));
        ++checkpoints;
      }
      CHECK(checkpoints == 1);
    }
  }
}

std::vector<Launcher> launchers_over(const std::set<std::string>& transports) {
  std::vector<Launcher> chosen;
  for (const Launcher& launcher : launchers()) {
    if (transports.contains(launcher.transport)) chosen.push_back(launcher);
  }
  return chosen;
}

}  // namespace

TEST_CASE("launchers pass SIGINT and SIGTERM on, and the run ends with a checkpoint", "[seconds]") {
  pass_signals_on(launchers_over({"threads", "tcp"}));
}

TEST_CASE("mpirun passes SIGINT and SIGTERM on, and the run ends with a checkpoint", "[minutes]") {
  pass_signals_on(launchers_over({"mpi"}));
}

TEST_CASE("a signal ends a run over mpirun however early it comes", "[seconds]") {
  if (launchers().back().transport != "mpi") SKIP("no mpirun here");
  const Fixture fixture("early-signal");
  for (const Launcher& launcher : launchers_over({"mpi"})) {
    for (const std::chrono::milliseconds after : {0ms, 20ms, 50ms, 100ms, 150ms}) {
      const int signal = after.count() % 20 == 0 ? SIGINT : SIGTERM;
      INFO(launcher.more.size() << " signal " << signal << " after " << after.count() << " ms");
      std::filesystem::remove_all(fixture.records());
      ProgramRun run(fixture.folder.path(), words_of(fixture, launcher, 1'000'000));
      while (!is_called(run.pid(), "stagecraft")) std::this_thread::sleep_for(100us);
      std::this_thread::sleep_for(after);
      const std::vector<int> family = family_of(run.pid());
      kill(run.pid(), signal);
      REQUIRE(all_end({run.pid()}, 30s));  // who has not heard the signal trains for hours
      INFO(run.errors());
      CHECK(run.wait() == 128 + signal);
      CHECK(all_end(family, end_within));
      CHECK(lines_with(run.errors(), "") <= 1);
    }
  }
}

TEST_CASE("SIGTERM to any rank ends the run with its name", "[seconds]") {
  const Fixture fixture("named");
  for (const Launcher& launcher : launchers()) {
    if (launcher.transport == "threads") continue;
    INFO(launcher.transport << " " << launcher.more.size());
    std::filesystem::remove_all(fixture.records());
    ProgramRun run(fixture.folder.path(), words_of(fixture, launcher, 100000));
    const auto record = await_step(fixture.records(), 1, 0);
    REQUIRE(record);
    kill(record->pid, SIGTERM);
    CHECK(run.wait() == 128 + SIGTERM);
    CHECK(lines_with(run.errors(), "rank 1 (stage 1, replica 0) was interrupted by signal 15") ==
          1);
  }
}

namespace {

int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(listener, any, size) == 0);
  REQUIRE(getsockname(listener, any, &size) == 0);
  close(listener);
  return ntohs(address.sin_port);
}

/// A rank of its own, as on a host of its own: nobody started it together with the others.
std::unique_ptr<ProgramRun> lone_rank(const Fixture& fixture, int rank, int ranks, int port) {
  const std::filesystem::path folder = fixture.folder.path() / ("rank-" + std::to_string(rank));
  std::filesystem::create_directory(folder);
  const std::vector<std::pair<const char*, std::string>> variables{
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(ranks)},
      {"LOCAL_RANK", "0"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)},
      {"STAGECRAFT_SECRET", "of this test"}};
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
  std::vector<std::string> words = fixture.run(100000);
  words[1] = (fixture.folder.path() / "plan.json").string();
  words[3] = (fixture.folder.path() / "text").string();
  auto run = std::make_unique<ProgramRun>(folder, words);
  for (const auto& [name, value] : variables) ::unsetenv(name);
  return run;
}

}  // namespace

TEST_CASE("where one rank is stopped, no rank on another host takes rank 0's end for the cause",
          "[seconds]") {
  const Fixture fixture("stopped-apart");
  fixture.make_plan("tiny-gpt", "plan.json", 3);
  const int port = free_port();
  std::vector<std::unique_ptr<ProgramRun>> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(lone_rank(fixture, rank, 3, port));
  const auto record = await_step(fixture.records(), 1, 3);
  REQUIRE(record);
  REQUIRE(record->pid == ranks[1]->pid());
  kill(record->pid, SIGSTOP);
  CHECK(ranks[0]->wait() == 5);
  CHECK(ranks[2]->wait() == 5);
  kill(record->pid, SIGCONT);
  CHECK(ranks[1]->wait() == 5);
  // Its records and its connection may tell, whichever is first.
  INFO(ranks[0]->errors());
  CHECK(lines_with(ranks[0]->errors(), "rank 1 (stage 1, replica 0) is silent") +
            lines_with(ranks[0]->errors(), "rank 1 has been silent") ==
        1);
  for (const auto& rank : ranks) {
    INFO(rank->errors());
    CHECK(lines_with(rank->errors(), "rank 0 has gone") == 0);
  }
}

TEST_CASE("what would fail again is not started again, and a rank's words say why", "[seconds]") {
  const Fixture fixture("again");
  for (const Launcher& launcher : launchers()) {
    INFO(launcher.transport << (launcher.more.empty() ? "" : ", supervised"));
    std::filesystem::remove_all(fixture.records());
    std::vector<std::string> words = words_of(fixture, launcher, 20);
    words.insert(words.end(), {"--learning-rate", "1e30"});
    ProgramRun run(fixture.folder.path(), words);
    CHECK(run.wait() == 5);
    INFO(run.errors());
    CHECK(lines_with(run.errors(), "error: ") == 1);
    CHECK(lines_with(run.errors(), "not finite") == 1);
    CHECK(lines_with(run.errors(), "restart") == 0);
  }
}

TEST_CASE("a rank that is killed before it trains is started again", "[minutes]") {
  const Fixture fixture("early");
  const std::string whole = fixture.parameters(300);
  for (const Launcher& launcher : launchers()) {
    if (launcher.transport == "threads" || launcher.more.empty()) continue;
    INFO(launcher.transport);
    std::filesystem::remove_all(fixture.records());
    ProgramRun run(fixture.folder.path(), words_of(fixture, launcher, 300));
    const int rank = await_process(run, [](int pid) { return is_rank(pid, 1); });
    REQUIRE(rank > 0);
    kill(rank, SIGKILL);
    CHECK(run.wait() == 0);
    CHECK(value_of(run.output(), "parameters_xxh3") == whole);
    CHECK(value_of(run.output(), "restarts") == "1");
    CHECK(lines_with(run.errors(), "was killed by signal 9") == 1);
  }
}

TEST_CASE("a rank, or the run itself, that is stopped before it trains is started again",
          "[seconds]") {
  const Fixture fixture("stopped-early");
  const std::string whole = fixture.parameters(3);
  for (const int victim : {-1, 0, 1}) {
    INFO("rank " << victim);
    std::filesystem::remove_all(fixture.records());
    ProgramRun run(fixture.folder.path(), words_of(fixture, {"tcp", {"--restarts", "1"}}, 3));
    const int stopped = await_process(run, [&](int pid) {
      return victim < 0 ? parent_of(pid) == run.pid() : is_rank(pid, victim);
    });
    REQUIRE(stopped > 0);
    kill(stopped, SIGSTOP);
    CHECK(run.wait() == 0);
    INFO(run.errors());
    CHECK(value_of(run.output(), "parameters_xxh3") == whole);
    CHECK(value_of(run.output(), "restarts") == "1");
    const std::string process = victim < 0 ? "its" : concat("rank ", victim, "'s");
    CHECK(lines_with(run.errors(), concat("the run has not begun: ", process, " process ", stopped,
                                          " was stopped ")) == 1);
  }
}

TEST_CASE("an mpirun that is stopped before its ranks train is started again", "[seconds]") {
  if (launchers().back().transport != "mpi") SKIP("no mpirun here");
  const Fixture fixture("stopped-mpirun");
  const std::string whole = fixture.parameters(3);
  std::filesystem::remove_all(fixture.records());
  ProgramRun run(fixture.folder.path(), words_of(fixture, launchers().back(), 3));
  const int mpirun = await_process(run, [](int pid) { return is_called(pid, "mpirun"); });
  REQUIRE(mpirun > 0);
  kill(mpirun, SIGSTOP);
  CHECK(run.wait() == 0);
  INFO(run.errors());
  CHECK(value_of(run.output(), "parameters_xxh3") == whole);
  CHECK(lines_with(run.errors(), concat("the run has not begun: ", mpirun,
                                        " (mpirun), one of its processes, was stopped ")) == 1);
}

TEST_CASE("a rank over mpirun that is stopped before it meets the others is named in half a minute",
          "[seconds]") {
  if (launchers().back().transport != "mpi") SKIP("no mpirun here");
  const Fixture fixture("stopped-before-meeting");
  ProgramRun run(fixture.folder.path(), words_of(fixture, {"mpi", {}}, 3));
  const int rank = await_process(run, [](int pid) { return is_rank(pid, 1); });
  REQUIRE(rank > 0);
  kill(rank, SIGSTOP);
  const std::vector<int> family = family_of(run.pid());
  const Moment start = now();
  CHECK(run.wait() == 5);
  CHECK(now() - start < 40s);
  INFO(run.errors());
  CHECK(lines_with(run.errors(), "error: ") == 1);
  CHECK(lines_with(run.errors(), "error: run: rank 1 has ") == 1);
  CHECK(lines_with(run.errors(), "stagecraft waits") == 0);
  CHECK(all_end(family, end_within));
}

TEST_CASE("a run whose reader has gone ends with 141 however its ranks are started", "[seconds]") {
  const Fixture fixture("unread");
  for (const Launcher& launcher : launchers()) {
    std::string command = concat("cd ", fixture.folder.path().string(), "; ");
    command += "{ sleep 0.5; ";
    command += STAGECRAFT_PROGRAM;
    for (const std::string& word : words_of(fixture, launcher, 20)) {
      if (word != "--json") command += " " + word;
    }
    command += "; echo $? > code; } 2> errors | true; while ! test -s code; do sleep 0.1; done";
    INFO(command);
    std::filesystem::remove(fixture.folder.path() / "code");
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(text_of(fixture.folder.path() / "code") == "141\n");
    CHECK(text_of(fixture.folder.path() / "errors").empty());
  }
}

TEST_CASE("a run whose output takes no more says that, and no rank is blamed", "[seconds]") {
  const Fixture fixture("full");
  for (const Launcher& launcher : launchers()) {
    std::string command = concat("cd ", fixture.folder.path().string(), "; ", STAGECRAFT_PROGRAM);
    for (const std::string& word : words_of(fixture, launcher, 20)) command += " " + word;
    command += " > /dev/full 2> errors";
    INFO(command);
    const int status = std::system(command.c_str());
    CHECK(WEXITSTATUS(status) == 5);
    const std::string errors = text_of(fixture.folder.path() / "errors");
    INFO(errors);
    CHECK(lines_with(errors, "standard output cannot be written") == 1);
    CHECK(lines_with(errors, "error: ") + lines_with(errors, "warning: ") == 1);
  }
}

TEST_CASE("where who waits for the ranks is stopped, their result is said once", "[seconds]") {
  const Fixture fixture("stopped-launcher");
  const std::string whole = fixture.parameters(20);
  std::filesystem::remove_all(fixture.records());
  ProgramRun run(fixture.folder.path(), words_of(fixture, {"tcp", {"--restarts", "1"}}, 20));
  const int launcher = await_process(run, [&](int pid) { return parent_of(pid) == run.pid(); });
  REQUIRE(await_step(fixture.records(), 0, 1));
  kill(launcher, SIGSTOP);
  CHECK(run.wait() == 0);
  CHECK(lines_with(run.output(), "\"format\": ") == 1);
  CHECK(value_of(run.output(), "parameters_xxh3") == whole);
}

TEST_CASE("killed anywhere, a hundred times: no rank is left, and the run ends with its weights",
          "[.hundred]") {
  const Fixture fixture("anywhere");
  const std::string whole = fixture.parameters(20);
  std::mt19937 random(1);
  int restarted = 0;
  const std::vector<Launcher> all = launchers();
  for (int i = 0; i < 100; ++i) {
    const Launcher& launcher = all[static_cast<std::size_t>(i) % all.size()];
    if (launcher.more.empty()) continue;
    INFO(launcher.transport << " " << i);
    std::filesystem::remove_all(fixture.records());
    std::filesystem::remove_all(fixture.folder.path() / "ck");
    Launcher with_checkpoints = launcher;
    with_checkpoints.more.insert(with_checkpoints.more.end(),
                                 {"--checkpoint", "ck", "--every", "4"});
    ProgramRun run(fixture.folder.path(), words_of(fixture, with_checkpoints, 20));
    const int wanted = static_cast<int>(random() % 2);
    const int rank = await_process(run, [&](int pid) { return is_rank(pid, wanted); });
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
    if (rank > 0) kill(rank, SIGKILL);
    CHECK(run.wait() == 0);
    CHECK(value_of(run.output(), "parameters_xxh3") == whole);
    restarted += value_of(run.output(), "restarts") == "1";
    CHECK_FALSE(is_running(rank));
  }
  std::cout << restarted << " runs were started again\n";
  CHECK(restarted > 10);
}

TEST_CASE("a second run in one folder of checkpoints is refused, and harms nothing", "[seconds]") {
  const Fixture fixture("two-runs");
  const std::filesystem::path second = fixture.folder.path() / "second";
  std::filesystem::create_directory(second);
  ProgramRun run(fixture.folder.path(),
                 fixture.run(100000, {"--checkpoint", "ck", "--every", "1"}));
  REQUIRE(await_step(fixture.records(), 0, 2));
  ProgramRun other(second, {"run", "../plan.json", "--data", "../text", "--steps", "100000",
                            "--checkpoint", "../ck", "-q"});
  CHECK(other.wait() == 5);
  CHECK(lines_with(other.errors(),
                   concat("error: ../ck: checkpoints cannot be written here: process ", run.pid(),
                          " on ")) == 1);
  kill(run.pid(), SIGINT);
  CHECK(run.wait() == 130);
  // The lock of a process that was killed is nobody's.
  std::filesystem::remove_all(fixture.records());
  ProgramRun killed(fixture.folder.path(), fixture.run(100000, {"--checkpoint", "new"}));
  REQUIRE(await_step(fixture.records(), 0, 0));
  kill(killed.pid(), SIGKILL);
  killed.wait();
  ProgramRun next(fixture.folder.path(), fixture.run(1, {"--checkpoint", "new"}));
  CHECK(next.wait() == 0);
}

TEST_CASE("a checkpoint without its manifest is damaged, and where all are, their number is told") {
  const Fixture fixture("all-damaged");
  const std::filesystem::path folder = fixture.folder.path() / "ck";
  ProgramRun three(fixture.folder.path(),
                   fixture.run(3, {"--checkpoint", "ck", "--every", "1", "--keep", "3"}));
  REQUIRE(three.wait() == 0);
  std::filesystem::remove(folder / "step-000003" / "manifest.json");
  ProgramRun second(fixture.folder.path(), fixture.run(3, {"--resume", "ck"}));
  CHECK(second.wait() == 0);
  CHECK(second.errors() ==
        "warning: ck/step-000003: has no manifest.json; the checkpoint before it is used\n");
  for (const char* step : {"step-000001", "step-000002"})
    std::ofstream(folder / step / "rank-0.bin", std::ios::binary) << "no weights";
  ProgramRun none(fixture.folder.path(), fixture.run(3, {"--resume", "ck"}));
  CHECK(none.wait() == 3);
  CHECK(lines_with(none.errors(), "warning: ck/step-000002/rank-0.bin: ") == 1);
  CHECK(lines_with(none.errors(), "warning: ck/step-000001/rank-0.bin: ") == 1);
  CHECK(
      lines_with(none.errors(),
                 "error: ck: all 3 of its checkpoints are damaged; the newest: ck/step-000003: has "
                 "no manifest.json; begin again without --resume") == 1);
}

TEST_CASE("a damaged newest checkpoint falls back to the newest whole one, and says so",
          "[seconds]") {
  const Fixture fixture("falls-back");
  const std::string whole = fixture.parameters(3);
  ProgramRun two(fixture.folder.path(), fixture.run(2, {"--checkpoint", "ck", "--every", "1"}));
  REQUIRE(two.wait() == 0);
  const std::filesystem::path file = fixture.folder.path() / "ck" / "step-000002" / "rank-1.bin";
  std::string bytes = text_of(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  ProgramRun run(fixture.folder.path(), fixture.run(3, {"--checkpoint", "ck", "--resume", "ck"}));
  CHECK(run.wait() == 0);
  CHECK(value_of(run.output(), "parameters_xxh3") == whole);
  CHECK(lines_with(run.errors(), "warning: ck/step-000002/rank-1.bin: ") == 1);
  CHECK(std::filesystem::exists(fixture.folder.path() / "ck" / "step-000002.damaged"));
}
