// What a rank asks its stream for. Call by call; or a work's calls are collected, and become a
// CUDA graph once the same ones have come before:
//
//   first time    carried out one by one: libraries choose algorithms, kernels are loaded
//   second        recorded, and launched
//   from then on  launched, if every call has the same arguments
//
// Each call says with its key what it does: arguments, with addresses and shapes. Two lists with
// the same keys do the same, so nothing else has to be known about a graph. What differs from step
// to step is uploaded beside the list, to the same addresses.

#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "executor/backends/cuda/kernels.hpp"
#include "executor/backends/cuda/memory.hpp"

namespace stagecraft::cuda {

enum class Graphs {
  off,
  on,         ///< a list that cannot be recorded is an error
  automatic,  ///< then lists are carried out one by one, and somebody is told so, once
};

class Commands {
 public:
  using Call = std::function<void(cudaStream_t)>;
  /// At ten kilobytes a call, which is an estimate, graphs take no more than half a gigabyte.
  static constexpr std::size_t most_recorded_calls = 50'000;

  /// `most_calls`: in all graphs together. Lists that find no room in them are carried out one by
  /// one, until a graph has not come for long.
  Commands(std::shared_ptr<Memory> memory, Graphs graphs,
           std::function<void(const std::string&)> remark,
           std::size_t most_calls = most_recorded_calls);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;
  ~Commands();

  /// `what` names the kind of call (see `kind_of`), `key` holds all that it depends on.
  template <class Key>
  void add(const void* what, Key key, Call call) {
    static_assert(std::is_trivially_copyable_v<Key>);
    if (!collects_) return call(own_stream());
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&key);
#endif
    add_bytes(&what, sizeof what);
    add_bytes(&key, sizeof key);
    list_.push_back(std::move(call));
  }

  /// Behind all of the list, however it is carried out: not part of the graph.
  void add_behind(Call call);
  /// Before the list, and not part of it: for uploads to memory that the list does not write to.
  cudaStream_t stream_before() {
    return own_stream();
  }
  /// For whatever else: behind what has been asked for, which is handed over first.
  cudaStream_t stream() {
    if (!list_.empty() || !behind_.empty()) hand_over();
    return own_stream();
  }

  void begin();
  void end();
  bool collects() const {
    return collects_;
  }
  int device() const {
    return memory_->device();
  }
  bool is_on_only_gpu() const {
    return memory_->is_only_gpu();
  }

 private:
  struct Recorded {
    bool seen = false;
    cudaGraphExec_t graph = nullptr;
    std::size_t calls = 0;                 ///< of the graph
    long last = 0;                         ///< launched as which of all lists
    std::list<Recorded*>::iterator place;  ///< in `graphs_by_use_`, if there is a graph
  };

  cudaStream_t own_stream() {
    return memory_->raw_stream();
  }
  void add_bytes(const void* data, std::size_t bytes) {
    key_.append(static_cast<const char*>(data), bytes);
  }
  void hand_over();
  void carry_out_list();
  cudaGraphExec_t record();
  void keep(Recorded& recorded, cudaGraphExec_t graph);
  bool make_room();
  void forget_unrepeated();

  std::shared_ptr<Memory> memory_;
  Graphs graphs_;
  std::function<void(const std::string&)> remark_;
  bool collects_ = false;
  std::vector<Call> list_, behind_;
  std::string key_;
  std::unordered_map<std::string, Recorded> recorded_;
  std::list<Recorded*> graphs_by_use_;  ///< the one that was launched last comes last
  std::size_t most_calls_, recorded_calls_ = 0;
  long lists_ = 0;  ///< carried out
};

/// An address that stands for a type.
template <class Kind>
const void* kind_of() {
  static const char place = 0;
  return &place;
}

/// On the GPU.
void set_to_zero(Commands& commands, void* data, Bytes bytes);

// The kernels' launchers, as calls.

template <class Element>
void for_each_element(Commands& commands, std::int64_t count, const Element& element) {
  struct Key {
    std::int64_t count;
    Element element;
  };
  commands.add(kind_of<Element>(), Key{count, element},
               [count, element](cudaStream_t stream) { for_each_element(stream, count, element); });
}

template <class Row>
void for_each_row(Commands& commands, std::int64_t rows, std::int64_t columns, const Row& row) {
  struct Key {
    std::int64_t rows, columns;
    Row row;
  };
  commands.add(kind_of<Row>(), Key{rows, columns, row}, [rows, columns, row](cudaStream_t stream) {
    for_each_row(stream, rows, columns, row);
  });
}

template <class Term>
void sum_chunks(Commands& commands, const RowChunks& chunks, std::int64_t columns, const Term& term,
                float* sums) {
  struct Key {
    RowChunks chunks;
    std::int64_t columns;
    Term term;
    float* sums;
  };
  commands.add(kind_of<Term>(), Key{chunks, columns, term, sums},
               [=](cudaStream_t stream) { sum_chunks(stream, chunks, columns, term, sums); });
}

inline void add_chunks(Commands& commands, const ChunkSumsList& list) {
  commands.add(kind_of<ChunkSumsList>(), list,
               [list](cudaStream_t stream) { add_chunks(stream, list); });
}

template <class T>
void norm_backward(Commands& commands, const RowChunks& chunks, const NormInputRows<T>& rows,
                   float* sums) {
  struct Key {
    RowChunks chunks;
    NormInputRows<T> rows;
    float* sums;
  };
  commands.add(kind_of<Key>(), Key{chunks, rows, sums},
               [=](cudaStream_t stream) { norm_backward(stream, chunks, rows, sums); });
}

}  // namespace stagecraft::cuda
