#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.hpp"
#include "tools/launch/child_processes.hpp"

namespace stagecraft {
namespace {

void hear_nothing(int) {}

TEST_CASE("a signal to a child that still has its parent's handlers is not lost") {
  struct sigaction ours {};
  struct sigaction before {};
  ours.sa_handler = hear_nothing;
  sigaction(SIGTERM, &ours, &before);
  pid_t child = 0;
  {
    const SignalsHeldBack held_back;
    child = fork();
    if (child == 0) {
      usleep(50'000);  // the signal is there before the handler is gone
      signal(SIGTERM, SIG_DFL);
      held_back.let_go();
      sleep(30);
      _exit(0);
    }
    kill(child, SIGTERM);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  sigset_t blocked{};
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  CHECK(sigismember(&blocked, SIGTERM) == 0);
  sigaction(SIGTERM, &before, nullptr);
}

}  // namespace
}  // namespace stagecraft
