// Messages by MPI. Each space is a communicator, and long messages go in pieces, for MPI counts in
// int.
//
// Tests make MPI do all that it may: STAGECRAFT_MPI_SYNCHRONOUS=1 sends by MPI_Issend, so that
// nothing is buffered on the way; STAGECRAFT_MPI_LONGEST=BYTES cuts into smaller pieces.

#include "executor/transports/processes/carrier.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft::processes {

namespace {

std::string words_of(int code, std::string_view doing) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  MPI_Error_string(code, words.data(), &length);
  return concat("MPI cannot ", doing, ": ",
                std::string_view(words.data(), static_cast<std::size_t>(length)));
}

/// Throws Error (execution) with MPI's own words unless the code is MPI_SUCCESS.
void check(int code, std::string_view doing) {
  if (code != MPI_SUCCESS) throw Error(ErrorKind::execution, words_of(code, doing));
}

bool is_set(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text == '1';
}

std::size_t longest_of_environment() {
  constexpr std::size_t most = std::size_t{1} << 30;
  const char* longest = std::getenv("STAGECRAFT_MPI_LONGEST");
  return longest == nullptr ? most
                            : std::clamp<std::size_t>(std::strtoull(longest, nullptr, 10), 1, most);
}

class MpiCarrier final : public Carrier {
 public:
  MpiCarrier();

  int rank() const override { return rank_; }
  int processes() const override { return processes_; }
  std::string library() const override { return library_; }
  int processes_here() const override { return processes_here_; }
  bool shares_machine_of_rank_0() const override { return shares_machine_of_rank_0_; }

  int open_space(int ranks, bool from_anybody) override;
  long send(int space, int peer, int tag, const void* data, std::size_t bytes) override;
  long receive(int space, int peer, int tag, void* data, std::size_t bytes) override;
  void cancel(long number) override;
  std::vector<Completion> test() override;
  void finish() override { MPI_Finalize(); }
  void abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 private:
  struct Space {
    MPI_Comm communicator = MPI_COMM_NULL;
    std::size_t longest = 0;
  };
  struct Message {
    std::size_t left = 0;  ///< pieces
    bool receives = false;
    Completion so_far;
  };

  void meet();
  const Space& at(int space) const { return spaces_[static_cast<std::size_t>(space)]; }
  /// Begins a message with `start(first byte, bytes, request)` for each of its pieces.
  template <class Start>
  long begin(int space, std::size_t bytes, bool receives, const Start& start);
  void note(long number, const MPI_Status& status, int code);
  void forget(std::size_t request);

  int rank_ = 0;
  int processes_ = 1;
  int processes_here_ = 1;
  bool shares_machine_of_rank_0_ = true;
  bool synchronous_ = is_set("STAGECRAFT_MPI_SYNCHRONOUS");
  std::string library_;
  std::vector<Space> spaces_;
  std::map<long, Message> messages_;
  std::vector<MPI_Request> requests_;
  std::vector<long> numbers_;  ///< parallel: whose they are
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
  long next_number_ = 0;
};

MpiCarrier::MpiCarrier() {
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "start");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "number the processes");
  check(MPI_Comm_size(MPI_COMM_WORLD, &processes_), "count the processes");
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> words{};
  int length = 0;
  check(MPI_Get_library_version(words.data(), &length), "name itself");
  library_ = std::string(words.data(), static_cast<std::size_t>(length));
  library_ = library_.substr(0, library_.find(','));
  meet();
}

/// Who is on which machine.
void MpiCarrier::meet() {
  constexpr std::string_view doing = "find the processes of this machine";
  MPI_Comm machine = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine),
        doing);
  check(MPI_Comm_size(machine, &processes_here_), doing);
  int lowest = 0;  // rank 0's machine is the one whose lowest rank is 0
  check(MPI_Allreduce(&rank_, &lowest, 1, MPI_INT, MPI_MIN, machine), doing);
  check(MPI_Comm_free(&machine), doing);
  shares_machine_of_rank_0_ = lowest == 0;
}

int MpiCarrier::open_space(int ranks, bool from_anybody) {
  // Pieces of several messages from anybody could not be told apart.
  Space space{.longest = from_anybody ? std::size_t{1} << 30 : longest_of_environment()};
  if (rank_ < ranks) {
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &all), "list the processes");
    std::vector<int> list(static_cast<std::size_t>(ranks));
    std::iota(list.begin(), list.end(), 0);
    check(MPI_Group_incl(all, ranks, list.data(), &members), "list the ranks");
    check(MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &space.communicator),
          "connect the ranks");
    check(MPI_Comm_set_errhandler(space.communicator, MPI_ERRORS_RETURN), "connect the ranks");
    check(MPI_Group_free(&members), "list the ranks");
    check(MPI_Group_free(&all), "list the processes");
  }
  spaces_.push_back(space);
  return static_cast<int>(spaces_.size()) - 1;
}

template <class Start>
long MpiCarrier::begin(int space, std::size_t bytes, bool receives, const Start& start) {
  const long number = next_number_++;
  const std::size_t longest = at(space).longest;
  messages_[number] = {
      .left = bytes / longest + 1, .receives = receives, .so_far = {.number = number}};
  for (std::size_t first = 0; first <= bytes; first += longest) {
    MPI_Request request = MPI_REQUEST_NULL;
    start(first, static_cast<int>(std::min(longest, bytes - first)), request);
    requests_.push_back(request);
    numbers_.push_back(number);
  }
  return number;
}

long MpiCarrier::send(int space, int peer, int tag, const void* data, std::size_t bytes) {
  return begin(space, bytes, false, [&](std::size_t first, int count, MPI_Request& request) {
    check((synchronous_ ? MPI_Issend : MPI_Isend)(static_cast<const std::byte*>(data) + first,
                                                  count, MPI_BYTE, peer, tag,
                                                  at(space).communicator, &request),
          "send a message");
  });
}

long MpiCarrier::receive(int space, int peer, int tag, void* data, std::size_t bytes) {
  const int from = peer == any_peer ? MPI_ANY_SOURCE : peer;
  return begin(space, bytes, true, [&](std::size_t first, int count, MPI_Request& request) {
    check(MPI_Irecv(static_cast<std::byte*>(data) + first, count, MPI_BYTE, from, tag,
                    at(space).communicator, &request),
          "receive a message");
  });
}

void MpiCarrier::forget(std::size_t request) {
  requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(request));
  numbers_.erase(numbers_.begin() + static_cast<std::ptrdiff_t>(request));
}

void MpiCarrier::cancel(long number) {
  messages_.erase(number);
  for (std::size_t i = requests_.size(); i-- > 0;) {
    if (numbers_[i] != number) continue;
    check(MPI_Cancel(&requests_[i]), "cancel a receive");
    check(MPI_Wait(&requests_[i], MPI_STATUS_IGNORE), "cancel a receive");
    forget(i);
  }
}

void MpiCarrier::note(long number, const MPI_Status& status, int code) {
  Message& message = messages_.at(number);
  Completion& so_far = message.so_far;
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  int came = 0;
  if (error_class == MPI_ERR_TRUNCATE) {
    so_far.bytes = SIZE_MAX / 2;  // more than there is room for
  } else if (code != MPI_SUCCESS) {
    so_far.failure = words_of(code, message.receives ? "receive a message" : "send a message");
  } else if (message.receives && MPI_Get_count(&status, MPI_BYTE, &came) == MPI_SUCCESS) {
    so_far.bytes += static_cast<std::size_t>(came);
  }
  --message.left;
}

std::vector<Completion> MpiCarrier::test() {
  if (requests_.empty()) return {};
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                completed_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check(code, "test what is under way");
  if (count == MPI_UNDEFINED || count == 0) return {};
  std::vector<Completion> whole;
  for (int i = 0; i < count; ++i) {
    const auto place = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
    const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    const long number = std::exchange(numbers_[place], -1);
    note(number, status, code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS);
    const auto message = messages_.find(number);
    if (message->second.left > 0) continue;
    whole.push_back(std::move(message->second.so_far));
    messages_.erase(message);
  }
  for (std::size_t i = requests_.size(); i-- > 0;) {
    if (numbers_[i] < 0) forget(i);
  }
  return whole;
}

}  // namespace

}  // namespace stagecraft::processes

/// The entry point of the module.
extern "C" stagecraft::processes::Carrier* stagecraft_mpi_carrier() {
  return new stagecraft::processes::MpiCarrier;
}
