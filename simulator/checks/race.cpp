// Race: a buffer lives from the start of the work that allocates it to the end of the work that
// frees it, and no two lives that share an address may touch, in any execution.
//
// Each device's arena is swept in an order in which the works may start, remembering for every
// address the last life there. A new life must begin after the last one has ended. It is enough to
// ask the last: the one before it has ended before.

#include <algorithm>
#include <map>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/units.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

struct Life {
  int allocated_by = none;
  int freed_by = none;
  bool resident = false;
};

/// Which buffer was last at each address of one arena.
class Addresses {
 public:
  /// Hands every earlier owner within the range to `ask`, then makes `buffer` the owner.
  template <class Ask>
  void take(Bytes first, Bytes end, int buffer, const Ask& ask) {
    auto piece = owned_.upper_bound(first);
    if (piece != owned_.begin() && std::prev(piece)->second.end > first) --piece;
    while (piece != owned_.end() && piece->first < end) {
      const auto [start, owner] = *piece;
      ask(owner.buffer);
      piece = owned_.erase(piece);
      if (start < first) owned_.emplace(start, Piece{first, owner.buffer});
      if (owner.end > end) owned_.emplace(end, owner);
    }
    owned_.emplace(first, Piece{end, buffer});
  }

 private:
  struct Piece {
    Bytes end = 0;
    int buffer = 0;
  };
  std::map<Bytes, Piece> owned_;  // by first address
};

class Race {
 public:
  Race(const Facts& facts, const HappensBefore& before)
      : facts_(facts),
        program_(facts.program),
        before_(before),
        lives_(facts.program.buffers.size()) {}

  Verdict run() {
    std::size_t used = 0;
    read_lives();
    for (int index = 0; verdict_.holds() && index < static_cast<int>(lives_.size()); ++index)
      judge_uses(index);
    for (const Life& life : lives_) used += life.resident || life.allocated_by != none ? 1 : 0;
    if (verdict_.holds()) sweep();
    verdict_.proved(concat("no buffer race among ", count(used, "buffer")));
    return verdict_;
  }

 private:
  const Work& work(int index) const { return program_.work[index(index)]; }
  const Buffer& buffer(int index) const { return program_.buffers[index(index)]; }
  int name_of_device(int index) const { return facts_.name_of(buffer(index).device); }
  std::string name(int index) const { return facts_.describe(index); }
  std::string title(int index) const {
    return concat("buffer ", index, " (", to_string(buffer(index).role), ", ",
                  format_bytes(buffer(index).bytes), ")");
  }

  void read_lives() {
    for (const int index : program_.resident) lives_[index(index)].resident = true;
    for (int i = 0; i < static_cast<int>(program_.work.size()); ++i) {
      const IndexRange range = work(i).allocates;
      for (const int* it = begin_of(program_.allocations, range);
           it != end_of(program_.allocations, range); ++it) {
        allocate(*it, i);
      }
    }
    for (int i = 0; i < static_cast<int>(program_.work.size()); ++i) {
      const IndexRange range = work(i).frees;
      for (const int* it = begin_of(program_.releases, range);
           it != end_of(program_.releases, range); ++it) {
        release(*it, i);
      }
    }
  }

  void allocate(int index, int by) {
    Life& life = lives_[index(index)];
    if (buffer(index).device != facts_.device_of(by)) {
      verdict_.found(
          concat(name(by), " allocates ", title(index), " of device ", name_of_device(index)),
          facts_, by);
    } else if (life.resident) {
      verdict_.found(
          concat(name(by), " allocates ", title(index), ", which lives as long as the program"),
          facts_, by);
    } else if (life.allocated_by != none) {
      verdict_.found(
          concat(name(by), " allocates ", title(index), " after ", name(life.allocated_by)), facts_,
          by);
    }
    life.allocated_by = by;
  }

  void release(int index, int by) {
    Life& life = lives_[index(index)];
    if (life.resident) {
      verdict_.found(
          concat(name(by), " frees ", title(index), ", which lives as long as the program"), facts_,
          by);
    } else if (life.allocated_by == none) {
      verdict_.found(concat(name(by), " frees ", title(index), ", which nothing allocates"), facts_,
                     by);
    } else if (life.freed_by != none) {
      verdict_.found(
          concat(name(by), " frees ", title(index), " a second time, after ", name(life.freed_by)),
          facts_, by);
    } else if (buffer(index).device != facts_.device_of(by)) {
      verdict_.found(
          concat(name(by), " frees ", title(index), " of device ", name_of_device(index)), facts_,
          by);
    } else if (life.allocated_by != by && !before_.ended(life.allocated_by, by)) {
      verdict_.found(concat(name(by), " may free ", title(index), " before ",
                            name(life.allocated_by), " has allocated it"),
                     facts_, by);
    }
    life.freed_by = by;
  }

  /// What surely touches a buffer besides the work that allocates and frees it: ops of its chunk,
  /// for its microbatch.
  std::vector<Op> users(int index) const {
    const Buffer& it = buffer(index);
    switch (it.role) {
      case BufferRole::parameters:
      case BufferRole::gradients:
      case BufferRole::optimizer:
      case BufferRole::workspace: return {};
      case BufferRole::input:
        // What is only passed on is not looked at on the way back.
        if (program_.chunks[index(it.chunk)].passes_on)
          return {Op::receive_activation, Op::forward};
        return {Op::receive_activation, Op::forward,        Op::recompute,
                Op::backward,           Op::backward_input, Op::backward_weight};
      case BufferRole::saved: return users_of_saved(index);
      case BufferRole::saved_throughout:
        return {lives_[index(index)].allocated_by == none
                    ? Op::forward
                    : work(lives_[index(index)].allocated_by).instruction.op,
                Op::backward, Op::backward_input, Op::backward_weight};
      case BufferRole::evicted: return {Op::take_in, Op::give_back};
      case BufferRole::past: return {Op::forward, Op::recompute};
      case BufferRole::past_gradients: return {Op::backward, Op::backward_input};
      case BufferRole::saved_for_weight: return {Op::backward_input, Op::backward_weight};
      case BufferRole::output: return {Op::forward, Op::send_activation};
      case BufferRole::output_gradient:
        return {Op::receive_gradient, Op::backward, Op::backward_input};
      case BufferRole::input_gradient: return {Op::backward, Op::backward_input, Op::send_gradient};
    }
    return {};
  }

  /// And ops for later pieces of the same sequence. (They go backward before this one does, so they
  /// end before what it saves.)
  std::vector<Op> users_of_later_pieces(int index) const {
    switch (buffer(index).role) {
      case BufferRole::past: return {Op::forward, Op::recompute, Op::backward, Op::backward_input};
      case BufferRole::past_gradients: return {Op::backward, Op::backward_input};
      default: return {};
    }
  }

  /// What is evicted has two lives: from the forward to the evict, from the load to the backward.
  std::vector<Op> users_of_saved(int index) const {
    const auto happens = [&](Op op) {
      return !facts_.works(buffer(index).chunk, op, buffer(index).microbatch).empty();
    };
    if (happens(Op::recompute)) return {Op::recompute, Op::backward, Op::backward_input};
    if (!happens(Op::evict)) return {Op::forward, Op::backward, Op::backward_input};
    if (work(lives_[index(index)].allocated_by).instruction.op != Op::load) {
      return {Op::forward, Op::evict};
    }
    return {Op::load, Op::backward, Op::backward_input};
  }

  /// What an input comes from is the message of its own microbatch, or of the one fed back.
  int microbatch_of(int index, Op op) const {
    const Buffer& it = buffer(index);
    const bool first = program_.chunks[index(it.chunk)].stage == 0;
    const bool arrives = op == Op::receive_activation && it.role == BufferRole::input;
    return it.microbatch - (first && arrives ? program_.feedback : 0);
  }

  void judge_uses(int index) {
    const Life& life = lives_[index(index)];
    if (life.allocated_by == none) return;
    for (const Op op : users(index)) {
      for (const int user : facts_.works(buffer(index).chunk, op, microbatch_of(index, op)))
        judge_use(index, user);
    }
    const int pieces = program_.sequence_chunks;
    const Buffer& it = buffer(index);
    for (int later = it.microbatch + 1; later % pieces != 0; ++later) {
      for (const Op op : users_of_later_pieces(index)) {
        for (const int user : facts_.works(it.chunk, op, later)) judge_use(index, user);
      }
    }
  }

  void judge_use(int index, int user) {
    const Life& life = lives_[index(index)];
    if (life.allocated_by != user && !before_.ended(life.allocated_by, user)) {
      verdict_.found(concat(name(user), " may use ", title(index), " before ",
                            name(life.allocated_by), " has allocated it"),
                     facts_, user);
    } else if (life.freed_by != none && life.freed_by != user &&
               !before_.ended(user, life.freed_by)) {
      verdict_.found(concat(name(user), " may use ", title(index), " after ", name(life.freed_by),
                            " has freed it"),
                     facts_, user);
    }
  }

  void sweep() {
    std::vector<Addresses> arenas(index(program_.devices));
    for (const int index : program_.resident) place(arenas, index, none);
    for (const int starting : before_.started()) {
      const IndexRange range = work(starting).allocates;
      for (const int* it = begin_of(program_.allocations, range);
           it != end_of(program_.allocations, range); ++it) {
        place(arenas, *it, starting);
      }
    }
  }

  void place(std::vector<Addresses>& arenas, int index, int starting) {
    const Buffer& it = buffer(index);
    if (it.bytes == 0) return;
    arenas[index(it.device)].take(it.offset, it.offset + it.bytes, index,
                                  [&](int earlier) { judge(earlier, index, starting); });
  }

  void judge(int earlier, int later, int starting) {
    const int end = lives_[index(earlier)].freed_by;
    if (end != none && starting != none && before_.ended(end, starting)) return;
    const std::string both = concat(title(earlier), " and ", title(later),
                                    " share addresses of device ", name_of_device(later));
    if (starting == none) {
      const Instruction nothing;
      return verdict_.found(both + ", and both live as long as the program", buffer(later).device,
                            nothing);
    }
    const std::string why =
        end == none ? concat(title(earlier), " is never freed")
                    : concat("nothing makes it wait for ", name(end), ", which frees the first");
    verdict_.found(concat(both, ": ", name(starting), " allocates the second, but ", why), facts_,
                   starting);
  }

  const Facts& facts_;
  const Program& program_;
  const HappensBefore& before_;
  std::vector<Life> lives_;
  Verdict verdict_{"race"};
};

}  // namespace

Verdict race(const Facts& facts, const HappensBefore& before) {
  return Race(facts, before).run();
}

}  // namespace stagecraft::checks
