// Order: nothing runs before what it needs exists, and it is the program that says so, not luck
// with the clock.

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

class Order {
 public:
  Order(const Facts& facts, const HappensBefore& before)
      : facts_(facts), program_(facts.program), before_(before) {}

  Verdict run() {
    for (int work = 0; work < static_cast<int>(program_.work.size()); ++work) {
      waits_within_sight(work);
      judge(work);
    }
    verdict_.proved(concat(inputs_, " of ", inputs_, " inputs exist before they are used"));
    if (updates_ > 0)
      verdict_.proved(count(updates_, "update") + " after all gradients are summed");
    return verdict_;
  }

 private:
  const Work& at(int work) const { return program_.work[static_cast<std::size_t>(work)]; }
  const Chunk& chunk(int index) const { return program_.chunks[static_cast<std::size_t>(index)]; }
  std::string name(int work) const { return facts_.describe(work); }

  void judge(int work) {
    const Op op = at(work).instruction.op;
    switch (op) {
      case Op::forward:
        after_version(work);
        if (const int before = piece(work, -1); before != none) {
          after_piece(work, Op::forward, before);
        }
        return rows_arrive(work, false);
      case Op::backward:
      case Op::backward_input:
        after(work, Op::forward, "its forward");
        after_recompute(work);
        after_load(work);
        after_earlier_update(work);
        if (const int behind = piece(work, 1); behind != none) {
          after_piece(work, Op::backward, behind);
          after_piece(work, Op::backward_input, behind);
        }
        return rows_arrive(work, true);
      case Op::backward_weight: return after(work, Op::backward_input, "its input gradient");
      case Op::recompute: return after(work, Op::forward, "the first forward");
      case Op::send_activation: return after(work, Op::forward, "its data is computed");
      case Op::send_gradient: return after_gradient(work);
      case Op::receive_activation:
      case Op::receive_gradient:
      case Op::take_in: return;
      case Op::evict: return after(work, Op::forward, "its data is computed");
      case Op::give_back: return after(work, Op::take_in, "it has arrived");
      case Op::load: return after(work, Op::evict, "it has been evicted");
      case Op::send_norm:
      case Op::receive_norm:
      case Op::send_validation:
      case Op::receive_validation:
      case Op::reduce_norm: return;  // the norm's own rule
      case Op::reduce_gradient:
      case Op::reduce_scatter: return after_backwards(work);
      case Op::reduce_tied:
        after_backwards(work);
        after_reduction(work);
        return;
      case Op::update: return judge_update(work);
      case Op::gather_parameters: return after_update(work);
    }
  }

  // A device sees its own works end; of other devices' it sees only messages, and only those meant
  // for it.
  void waits_within_sight(int work) {
    const IndexRange range = at(work).waits;
    const int send = send_of(work);
    bool names_send = send == none;
    for (const int* wait = begin_of(program_.waits, range); wait != end_of(program_.waits, range);
         ++wait) {
      names_send = names_send || *wait == send;
      if (*wait == send || facts_.device_of(*wait) == facts_.device_of(work)) continue;
      if (is_asked_for(work, *wait)) continue;
      verdict_.found(
          concat(name(work), " waits for ", name(*wait), ", which its device cannot see"), facts_,
          work);
    }
    if (!names_send)
      verdict_.found(concat(name(work), " does not wait for its send to start"), facts_, work);
  }

  // A partner gives back when the device that loads asks for it, after whatever that one waits for.
  bool is_asked_for(int work, int wait) const {
    const int meeting = facts_.meeting_of[static_cast<std::size_t>(work)];
    if (at(work).instruction.op != Op::give_back || meeting == none) return false;
    const std::vector<int> waits =
        facts_.local_waits(facts_.meetings[static_cast<std::size_t>(meeting)][1]);
    return std::find(waits.begin(), waits.end(), wait) != waits.end();
  }

  int send_of(int work) const {
    const int meeting = facts_.meeting_of[static_cast<std::size_t>(work)];
    if (meeting == none || !is_receive(at(work).instruction.op)) return none;
    return facts_.meetings[static_cast<std::size_t>(meeting)][0];
  }

  /// `work` starts after its chunk's `op` for the same microbatch has ended, if there is one;
  /// conservation asks whether.
  void after(int work, Op op, const std::string& what) {
    for (const int earlier : facts_.works(at(work).chunk, op, at(work).instruction.microbatch)) {
      need(work, earlier, what);
    }
  }

  /// The microbatch `distance` pieces on in the same sequence; none beyond its ends.
  int piece(int work, int distance) const {
    const int k = at(work).instruction.microbatch;
    const int other = k + distance;
    const bool same =
        other >= 0 && other / program_.sequence_chunks == k / program_.sequence_chunks;
    return same ? other : none;
  }

  void after_piece(int work, Op op, int piece) {
    for (const int earlier : facts_.works(at(work).chunk, op, piece)) {
      need(work, earlier, op == Op::forward ? "the piece before it" : "the piece behind it");
    }
  }

  void need(int work, int earlier, const std::string& what) {
    ++inputs_;
    if (before_.ended(earlier, work)) return;
    verdict_.found(concat(name(work), " may start before ", what, ": nothing makes it wait for ",
                          name(earlier)),
                   facts_, work);
  }

  void after_recompute(int work) { after(work, Op::recompute, "its activations are rebuilt"); }

  // What was evicted must be back.
  void after_load(int work) {
    if (!evicts_) return;
    after(work, Op::load, "its activations are loaded");
    const int k = at(work).instruction.microbatch;
    if (facts_.works(at(work).chunk, Op::evict, k).empty()) return;
    if (!facts_.works(at(work).chunk, Op::load, k).empty()) return;
    verdict_.found(name(work) + " needs activations that were evicted and never loaded", facts_,
                   work);
  }

  // The version that a forward reads is there: the n-th is made by the n-th update.
  void after_version(int work) {
    const std::int64_t version = at(work).weight_version;
    if (version < 1 || version > facts_.updates(at(work).instruction.stage)) return;
    after_update_of(work, static_cast<int>(version) - 1,
                    concat("version ", version, " of its weights is made"));
  }

  // Gradients of an earlier batch are applied before this one's are added.
  void after_earlier_update(int work) {
    const int batch = facts_.update_of(work);
    if (batch < 1) return;
    after_update_of(work, batch - 1, "the gradients of the batch before are applied");
  }

  void after_update_of(int work, int batch, const std::string& what) {
    const int last = (batch + 1) * facts_.update_interval(at(work).instruction.stage) - 1;
    for (const int update : facts_.works(at(work).chunk, Op::update, last)) {
      need(work, update, what);
    }
  }

  void after_gradient(int work) {
    after(work, Op::backward, "its gradient is computed");
    after(work, Op::backward_input, "its gradient is computed");
    const int k = at(work).instruction.microbatch;
    if (facts_.works(at(work).chunk, Op::backward, k).empty() &&
        facts_.works(at(work).chunk, Op::backward_input, k).empty()) {
      verdict_.found(concat(name(work), " sends a gradient that is never computed"), facts_, work);
    }
  }

  // Forward needs the activations of the stage before, backward the gradients of the next one: all
  // rows of the chunk, from another device by messages, from the same device as they stand.
  void rows_arrive(int work, bool gradient) {
    int neighbour = at(work).instruction.stage + (gradient ? 1 : -1);
    int k = at(work).instruction.microbatch;
    if (neighbour < 0 && program_.feedback > 0 && k >= program_.feedback) {
      neighbour = program_.stages - 1;
      k -= program_.feedback;
    }
    if (neighbour < 0 || !facts_.same_pipe(neighbour, at(work).instruction.stage)) return;
    ++inputs_;
    std::vector<IndexRange> pieces;
    int late = none;
    const auto take = [&](int source, IndexRange rows) {
      if (before_.ended(source, work)) {
        pieces.push_back(rows);
      } else {
        late = source;
      }
    };
    const Op receive = gradient ? Op::receive_gradient : Op::receive_activation;
    for (const int source : facts_.works(at(work).chunk, receive, k)) {
      take(source, program_.channels[static_cast<std::size_t>(*at(source).channel)].rows);
    }
    for (const int other : facts_.chunks_of_stage[static_cast<std::size_t>(neighbour)]) {
      if (chunk(other).device != facts_.device_of(work)) continue;
      for (const int source : local_sources(other, gradient, k)) take(source, chunk(other).rows);
    }
    const IndexRange gap = first_gap(chunk(at(work).chunk).rows, std::move(pieces));
    if (gap.size() > 0) report_gap(work, gradient, gap, late);
  }

  std::vector<int> local_sources(int other, bool gradient, int k) const {
    std::vector<int> sources;
    const auto add = [&](Op op) {
      const auto works = facts_.works(other, op, k);
      sources.insert(sources.end(), works.begin(), works.end());
    };
    if (!gradient) add(Op::forward);
    if (gradient) add(Op::backward);
    if (gradient) add(Op::backward_input);
    return sources;
  }

  void report_gap(int work, bool gradient, IndexRange gap, int late) {
    const bool all = gap == chunk(at(work).chunk).rows;
    const std::string what = concat(all ? "" : rows_text(gap) + " of ",
                                    gradient ? "the gradient of its output" : "its input");
    const std::string why = late == none ? std::string("nothing brings them")
                                         : concat("nothing makes it wait for ", name(late));
    verdict_.found(concat(name(work), " may start before ", what, " has arrived: ", why), facts_,
                   work);
  }

  void after_backwards(int work) { after_gradients(work, "a gradient it sums is computed"); }

  void after_gradients(int work, const std::string& what) {
    for (const Op op : {Op::backward, Op::backward_weight}) {
      for (const int earlier : of_update(work, op)) need(work, earlier, what);
    }
  }

  /// Works of the same chunk that belong to the same update.
  std::span<const int> of_update(int work, Op op) const {
    const auto all = facts_.works(at(work).chunk, op);
    const auto [first, end] = std::equal_range(all.begin(), all.end(), work, [&](int a, int b) {
      return facts_.update_of(a) < facts_.update_of(b);
    });
    return {first, end};
  }

  void judge_update(int work) {
    ++updates_;
    after_gradients(work, "a gradient it applies is computed");
    after_reduction(work);
    for (std::size_t group = 0; group < program_.groups.size(); ++group) {
      if (program_.groups[group].op == Op::reduce_tied) after_tied(work, static_cast<int>(group));
    }
  }

  // The replicas of a stage and of its copies must sum their gradients: exactly these chunks.
  void after_reduction(int work) {
    const int own = at(work).chunk;
    const std::vector<int> replicas = facts_.chunks_of_copies(chunk(own).stage);
    if (replicas.size() < 2) return;
    ++inputs_;
    int late = none;
    const bool sharded = facts_.is_sharded(chunk(own).stage);
    for (const int reduction :
         of_update(work, sharded ? Op::reduce_scatter : Op::reduce_gradient)) {
      std::vector<int> members =
          program_.groups[static_cast<std::size_t>(*at(reduction).group)].chunks;
      std::sort(members.begin(), members.end());
      if (members != replicas) continue;
      if (before_.ended(reduction, work)) return;
      late = reduction;
    }
    const std::string why =
        late == none ? "no group sums exactly these" : "nothing makes it wait for " + name(late);
    verdict_.found(concat(name(work), " may start before the gradients of the ", replicas.size(),
                          " replicas of stage ", chunk(own).stage, " are summed: ", why),
                   facts_, work);
  }

  void after_tied(int work, int group) {
    const auto& members = program_.groups[static_cast<std::size_t>(group)].chunks;
    const int own = at(work).chunk;
    if (std::find(members.begin(), members.end(), own) == members.end()) return;
    const auto works = facts_.works(own, Op::reduce_tied);
    const auto sums =
        std::find_if(works.begin(), works.end(), [&](int it) { return at(it).group == group; });
    if (sums != works.end())
      return need(work, *sums, "the gradients of the tied weights are summed");
    verdict_.found(concat(name(work), " applies gradients of tied weights that are never summed"),
                   facts_, work);
  }

  void after_update(int work) {
    for (const int update : of_update(work, Op::update)) {
      need(work, update, "the parameters it collects are updated");
    }
  }

  const Facts& facts_;
  const Program& program_;
  const HappensBefore& before_;
  const bool evicts_ =
      std::any_of(program_.channels.begin(), program_.channels.end(),
                  [](const Channel& channel) { return channel.cargo == Cargo::evicted; });
  std::size_t inputs_ = 0;
  std::size_t updates_ = 0;
  Verdict verdict_{"order"};
};

}  // namespace

Verdict order(const Facts& facts, const HappensBefore& before) {
  return Order(facts, before).run();
}

}  // namespace stagecraft::checks
