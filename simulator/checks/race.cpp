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
    for (int id = 0; verdict_.holds() && id < static_cast<int>(lives_.size()); ++id) judge_uses(id);
    for (const Life& life : lives_) used += life.resident || life.allocated_by != none ? 1 : 0;
    if (verdict_.holds()) sweep();
    verdict_.proved(concat("no buffer race among ", count(used, "buffer")));
    return verdict_;
  }

 private:
  const Work& work(int id) const { return program_.work[index(id)]; }
  const Buffer& buffer(int id) const { return program_.buffers[index(id)]; }
  int name_of_device(int id) const { return facts_.name_of(buffer(id).device); }
  std::string name(int id) const { return facts_.describe(id); }
  std::string title(int id) const {
    return concat("buffer ", id, " (", to_string(buffer(id).role), ", ",
                  format_bytes(buffer(id).bytes), ")");
  }

  void read_lives() {
    for (const int id : program_.resident) lives_[index(id)].resident = true;
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

  void allocate(int id, int by) {
    Life& life = lives_[index(id)];
    if (buffer(id).device != facts_.device_of(by)) {
      verdict_.found(concat(name(by), " allocates ", title(id), " of device ", name_of_device(id)),
                     facts_, by);
    } else if (life.resident) {
      verdict_.found(
          concat(name(by), " allocates ", title(id), ", which lives as long as the program"),
          facts_, by);
    } else if (life.allocated_by != none) {
      verdict_.found(concat(name(by), " allocates ", title(id), " after ", name(life.allocated_by)),
                     facts_, by);
    }
    life.allocated_by = by;
  }

  void release(int id, int by) {
    Life& life = lives_[index(id)];
    if (life.resident) {
      verdict_.found(concat(name(by), " frees ", title(id), ", which lives as long as the program"),
                     facts_, by);
    } else if (life.allocated_by == none) {
      verdict_.found(concat(name(by), " frees ", title(id), ", which nothing allocates"), facts_,
                     by);
    } else if (life.freed_by != none) {
      verdict_.found(
          concat(name(by), " frees ", title(id), " a second time, after ", name(life.freed_by)),
          facts_, by);
    } else if (buffer(id).device != facts_.device_of(by)) {
      verdict_.found(concat(name(by), " frees ", title(id), " of device ", name_of_device(id)),
                     facts_, by);
    } else if (life.allocated_by != by && !before_.ended(life.allocated_by, by)) {
      verdict_.found(concat(name(by), " may free ", title(id), " before ", name(life.allocated_by),
                            " has allocated it"),
                     facts_, by);
    }
    life.freed_by = by;
  }

  /// What surely touches a buffer besides the work that allocates and frees it: ops of its chunk,
  /// for its microbatch.
  std::vector<Op> users(int id) const {
    const Buffer& it = buffer(id);
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
      case BufferRole::saved: return users_of_saved(id);
      case BufferRole::saved_throughout:
        return {lives_[index(id)].allocated_by == none
                    ? Op::forward
                    : work(lives_[index(id)].allocated_by).instruction.op,
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
  std::vector<Op> users_of_later_pieces(int id) const {
    switch (buffer(id).role) {
      case BufferRole::past: return {Op::forward, Op::recompute, Op::backward, Op::backward_input};
      case BufferRole::past_gradients: return {Op::backward, Op::backward_input};
      default: return {};
    }
  }

  /// What is evicted has two lives: from the forward to the evict, from the load to the backward.
  std::vector<Op> users_of_saved(int id) const {
    const auto happens = [&](Op op) {
      return !facts_.works(buffer(id).chunk, op, buffer(id).microbatch).empty();
    };
    if (happens(Op::recompute)) return {Op::recompute, Op::backward, Op::backward_input};
    if (!happens(Op::evict)) return {Op::forward, Op::backward, Op::backward_input};
    if (work(lives_[index(id)].allocated_by).instruction.op != Op::load) {
      return {Op::forward, Op::evict};
    }
    return {Op::load, Op::backward, Op::backward_input};
  }

  /// What an input comes from is the message of its own microbatch, or of the one fed back.
  int microbatch_of(int id, Op op) const {
    const Buffer& it = buffer(id);
    const bool first = program_.chunks[index(it.chunk)].stage == 0;
    const bool arrives = op == Op::receive_activation && it.role == BufferRole::input;
    return it.microbatch - (first && arrives ? program_.feedback : 0);
  }

  void judge_uses(int id) {
    const Life& life = lives_[index(id)];
    if (life.allocated_by == none) return;
    for (const Op op : users(id)) {
      for (const int user : facts_.works(buffer(id).chunk, op, microbatch_of(id, op)))
        judge_use(id, user);
    }
    const int pieces = program_.sequence_chunks;
    const Buffer& it = buffer(id);
    for (int later = it.microbatch + 1; later % pieces != 0; ++later) {
      for (const Op op : users_of_later_pieces(id)) {
        for (const int user : facts_.works(it.chunk, op, later)) judge_use(id, user);
      }
    }
  }

  void judge_use(int id, int user) {
    const Life& life = lives_[index(id)];
    if (life.allocated_by != user && !before_.ended(life.allocated_by, user)) {
      verdict_.found(concat(name(user), " may use ", title(id), " before ", name(life.allocated_by),
                            " has allocated it"),
                     facts_, user);
    } else if (life.freed_by != none && life.freed_by != user &&
               !before_.ended(user, life.freed_by)) {
      verdict_.found(concat(name(user), " may use ", title(id), " after ", name(life.freed_by),
                            " has freed it"),
                     facts_, user);
    }
  }

  void sweep() {
    std::vector<Addresses> arenas(index(program_.devices));
    for (const int id : program_.resident) place(arenas, id, none);
    for (const int starting : before_.started()) {
      const IndexRange range = work(starting).allocates;
      for (const int* it = begin_of(program_.allocations, range);
           it != end_of(program_.allocations, range); ++it) {
        place(arenas, *it, starting);
      }
    }
  }

  void place(std::vector<Addresses>& arenas, int id, int starting) {
    const Buffer& it = buffer(id);
    if (it.bytes == 0) return;
    arenas[index(it.device)].take(it.offset, it.offset + it.bytes, id,
                                  [&](int earlier) { judge(earlier, id, starting); });
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
