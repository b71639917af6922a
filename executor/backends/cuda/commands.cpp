#include "executor/backends/cuda/commands.hpp"

#include <algorithm>
#include <utility>

#include "executor/backends/cuda/check.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

/// Lists that never come again are forgotten when there are so many.
constexpr std::size_t most_lists = 4096;

class Graph {
 public:
  explicit Graph(cudaGraph_t graph) : graph_(graph) {}
  ~Graph() {
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_;
};

}  // namespace

Commands::Commands(std::shared_ptr<Memory> memory, Graphs graphs,
                   std::function<void(const std::string&)> remark, std::size_t most_calls)
    : memory_(std::move(memory)),
      graphs_(graphs),
      remark_(std::move(remark)),
      most_calls_(most_calls) {}

Commands::~Commands() {
  memory_->let_go();
  for (const auto& [key, recorded] : recorded_) {
    if (recorded.graph != nullptr) (void)cudaGraphExecDestroy(recorded.graph);
  }
}

void Commands::begin() {
  collects_ = graphs_ != Graphs::off;
  if (collects_) memory_->keep_what_is_given_back();
}

void Commands::end() {
  hand_over();
  collects_ = false;
  memory_->let_go();
}

void Commands::add_behind(Call call) {
  if (!collects_) return call(own_stream());
  behind_.push_back(std::move(call));
}

void Commands::hand_over() {
  if (!list_.empty()) carry_out_list();
  list_.clear();
  key_.clear();
  for (const Call& call : std::exchange(behind_, {})) call(own_stream());
}

void Commands::carry_out_list() {
  Recorded& recorded = recorded_[key_];
  ++lists_;
  if (recorded.seen && recorded.graph == nullptr && graphs_ != Graphs::off && make_room()) {
    if (cudaGraphExec_t graph = record(); graph != nullptr) keep(recorded, graph);
  }
  if (recorded.graph != nullptr) {
    recorded.last = lists_;
    graphs_by_use_.splice(graphs_by_use_.end(), graphs_by_use_, recorded.place);
    check(cudaGraphLaunch(recorded.graph, own_stream()), "launch a graph");
    return;
  }
  recorded.seen = true;
  for (const Call& call : list_) call(own_stream());
  if (recorded_.size() > most_lists) forget_unrepeated();
}

void Commands::keep(Recorded& recorded, cudaGraphExec_t graph) {
  recorded.graph = graph;
  recorded.calls = list_.size();
  recorded.place = graphs_by_use_.insert(graphs_by_use_.end(), &recorded);
  recorded_calls_ += recorded.calls;
}

/// Whether there is room for the list, once graphs are forgotten that have not come for twice as
/// many lists as there are. Of lists that come in turns, more than there is room for, none is
/// forgotten so: else each would be recorded anew whenever it comes.
bool Commands::make_room() {
  if (list_.size() > most_calls_) return false;
  while (recorded_calls_ + list_.size() > most_calls_) {
    Recorded& oldest = *graphs_by_use_.front();
    if (lists_ - oldest.last <= 2 * static_cast<long>(recorded_.size())) return false;
    (void)cudaGraphExecDestroy(std::exchange(oldest.graph, nullptr));  // behind its last launch
    recorded_calls_ -= oldest.calls;
    graphs_by_use_.pop_front();
  }
  return true;
}

/// Null if the list cannot be recorded.
cudaGraphExec_t Commands::record() {
  cudaStream_t stream = own_stream();
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t graph = nullptr;
  std::string why;
  try {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "record a graph");
    try {
      for (const Call& call : list_) call(stream);
    } catch (const Error& error) {
      why = error.what();
    }
    const cudaError_t ended = cudaStreamEndCapture(stream, &recorded);
    const Graph owned(recorded);
    if (why.empty()) {
      check(ended, "record a graph");
      check(cudaGraphInstantiate(&graph, owned.get(), 0), "prepare a graph");
      return graph;
    }
  } catch (const Error& error) {
    why = error.what();
  }
  (void)cudaGetLastError();  // it is told here, and not again by the next kernel
  if (graphs_ == Graphs::on) {
    throw Error(ErrorKind::execution, concat("--graphs on: ", why, "; --graphs off does without"));
  }
  graphs_ = Graphs::off;
  if (remark_) {
    remark_(concat("no CUDA graph could be recorded, so each call is launched by itself: ", why));
  }
  return nullptr;
}

void set_to_zero(Commands& commands, void* data, Bytes bytes) {
  struct Key {
    void* data;
    Bytes bytes;
  };
  struct Zero {};
  commands.add(kind_of<Zero>(), Key{data, bytes}, [data, bytes](cudaStream_t stream) {
    check(cudaMemsetAsync(data, 0, static_cast<std::size_t>(bytes), stream), "set memory to zero");
  });
}

void Commands::forget_unrepeated() {
  std::erase_if(recorded_, [](const auto& entry) { return entry.second.graph == nullptr; });
}

}  // namespace stagecraft::cuda
