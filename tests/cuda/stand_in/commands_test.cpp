// Lists of calls that become graphs: which are kept, and which come again one by one.

#include "executor/backends/cuda/commands.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/stand_in/streams.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Lists of one call each, which count how often they were carried out.
struct Lists {
  explicit Lists(std::size_t most_calls) {
    stand_in::set_up({});
    memory = std::make_shared<cuda::Memory>(0);
    commands = std::make_unique<cuda::Commands>(memory, cuda::Graphs::on, nullptr, most_calls);
  }
  ~Lists() { CHECK(stand_in::complaints() == std::vector<std::string>{}); }
  Lists(const Lists&) = delete;
  Lists& operator=(const Lists&) = delete;

  void carry_out(int which) {
    struct Counting {};
    commands->begin();
    commands->add(cuda::kind_of<Counting>(), which, [this, which](cudaStream_t stream) {
      stand_in::enqueue(stream, "count", [this, which] { ++carried_out[which]; });
    });
    commands->end();
  }
  /// From the first to the last, so often.
  void in_turns(int first, int last, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (int which = first; which <= last; ++which) carry_out(which);
    }
    cudaStreamSynchronize(commands->stream());
  }

  int carried_out[10] = {};
  std::shared_ptr<cuda::Memory> memory;
  std::unique_ptr<cuda::Commands> commands;
};

}  // namespace

TEST_CASE("of lists in turns that find no room together, as many as there is room for are graphs") {
  Lists lists(3);
  lists.in_turns(0, 4, 20);
  for (int which = 0; which < 5; ++which) CHECK(lists.carried_out[which] == 20);
  CHECK(stand_in::counts().graphs == 3);  // and not one each time
  CHECK(stand_in::counts().graph_launches == 3 * 19);
  CHECK(stand_in::counts().launches == 3 * 1 + 2 * 20);
}

TEST_CASE("lists that do not come any more make room for others") {
  Lists lists(2);
  lists.in_turns(0, 1, 10);
  CHECK(stand_in::counts().graphs == 2);
  lists.in_turns(5, 6, 20);
  CHECK(stand_in::counts().graphs == 4);
  for (int which : {5, 6}) CHECK(lists.carried_out[which] == 20);
  lists.in_turns(0, 1, 20);  // and back
  CHECK(stand_in::counts().graphs == 6);
  for (int which : {0, 1}) CHECK(lists.carried_out[which] == 30);
}

TEST_CASE("a list that is longer than there is room for is never a graph") {
  Lists lists(0);
  lists.in_turns(0, 0, 5);
  CHECK(lists.carried_out[0] == 5);
  CHECK(stand_in::counts().graphs == 0);
}
