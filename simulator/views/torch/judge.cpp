// Of every stage each *role* (forward, input gradient, weight gradient, and the four ends of
// messages) must be filled exactly once per microbatch; that leaves no room for gaps or doubles.
// Then the roles of one microbatch are compared with each other: each stands, in its rank's row,
// behind what it needs.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/views/torch/actions.hpp"

namespace stagecraft::torch {

namespace {

enum Role {
  forward,
  input,
  weight,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward
};
constexpr std::size_t roles = receive_backward + 1;

/// How the gap is called when a role is not filled.
constexpr std::array<Kind, roles> role_kinds{
    Kind::forward,         Kind::backward,      Kind::backward_weight, Kind::send_forward,
    Kind::receive_forward, Kind::send_backward, Kind::receive_backward};

std::vector<Role> roles_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return {forward};
    case Kind::backward:
    case Kind::old_backward: return {input, weight};
    case Kind::backward_input: return {input};
    case Kind::backward_weight: return {weight};
    case Kind::send_forward: return {send_forward};
    case Kind::receive_forward: return {receive_forward};
    case Kind::send_backward: return {send_backward};
    case Kind::receive_backward: return {receive_backward};
    case Kind::unshard:
    case Kind::reshard:
    case Kind::reduce_gradient:
    case Kind::wait_send_forward:
    case Kind::wait_send_backward:
    case Kind::wait_reduce_gradient: return {};
  }
  return {};
}

/// Where a role is filled.
struct Filled {
  const Action* action = nullptr;
  std::size_t place = 0;  // in its rank's row
};

class Judge {
 public:
  Judge(const Rows& rows, int pipes) : rows_(rows) {
    place_stages();
    if (static_cast<int>(rank_of_stage_.size()) % pipes != 0) {
      fail(rows.file, ": ", rank_of_stage_.size(), " stages are not ", pipes, " copies of a model");
    }
    stages_per_pipe_ = static_cast<int>(rank_of_stage_.size()) / pipes;
    collect();
    judge_completeness();
    for (int stage = 0; stage < stages(); ++stage) judge_order(stage);
    for (std::size_t rank = 0; rank < rows_.ranks.size(); ++rank) {
      judge_sharding(rank);
      if (waits()) judge_waits(rank);
    }
  }

  Shape shape() const {
    return {.rank_of_stage = rank_of_stage_,
            .microbatches = microbatches_,
            .trains = trains_,
            .communicates = communicates(),
            .waits = waits()};
  }

 private:
  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  bool communicates() const { return communication_ != nullptr; }
  bool waits() const { return waits_; }
  void place_stages() {
    std::map<int, const Action*> first;
    for (const auto& actions : rows_.ranks) {
      for (const Action& action : actions) {
        const Action& home = *first.try_emplace(action.stage, &action).first->second;
        if (home.rank != action.rank) {
          rows_.fail_at(action, concat(to_string(action), ": stage ", action.stage, " is on rank ",
                                       home.rank, " already; a stage has one rank"));
        }
        if (!is_compute(action.kind) && communication_ == nullptr) communication_ = &action;
        waits_ = waits_ || is_wait(action.kind);
      }
    }
    for (const auto& [stage, action] : first) {
      const int expected = static_cast<int>(first_of_stage_.size());
      if (stage != expected) {
        rows_.fail_at(*action, concat(to_string(*action), ": stages count from 0, and stage ",
                                      expected, " is on no rank"));
      }
      first_of_stage_.push_back(action);
      rank_of_stage_.push_back(action->rank);
    }
    if (communicates() && !rows_.idle.empty()) {
      rows_.fail_at(rows_.idle.front(),
                    concat("an empty cell, but the file lists communication too (",
                           to_string(*communication_), "); only compute may be idle"));
    }
  }

  void collect() {
    filled_.resize(rank_of_stage_.size());
    for (const auto& actions : rows_.ranks) {
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const Action& action = actions[i];
        microbatches_ = std::max(microbatches_, action.microbatch + 1);
        for (const Role role : roles_of(action.kind)) {
          filled_[index(action.stage)][role].push_back({&action, i});
          trains_ = trains_ || role == input || role == weight;
        }
      }
    }
  }

  bool crosses(int stage) const {
    return (stage + 1) % stages_per_pipe_ != 0 && stage + 1 < stages() &&
           rank_of_stage_[index(stage)] != rank_of_stage_[index(stage + 1)];
  }

  bool needed(int stage, Role role) const {
    const bool from_before = stage > 0 && crosses(stage - 1);
    switch (role) {
      case forward: return true;
      case input:
      case weight: return trains_;
      case send_forward: return communicates() && crosses(stage);
      case receive_forward: return communicates() && from_before;
      case send_backward: return communicates() && trains_ && from_before;
      case receive_backward: return communicates() && trains_ && crosses(stage);
    }
    return false;
  }

  /// A backward without its forward says better where the mistake is than microbatches that others
  /// lack: orders drawn by torch's visualiser count the forwards of the last rank from 1.
  void judge_backward(int stage) {
    std::set<int> forwards;
    for (const Filled& entry : filled_[index(stage)][forward]) {
      forwards.insert(entry.action->microbatch);
    }
    const auto name = [&](int m) { return action_text(Kind::forward, stage, m); };
    for (const Role role : {input, weight}) {
      for (const Filled& entry : filled_[index(stage)][role]) {
        const Action& action = *entry.action;
        if (forwards.contains(action.microbatch)) continue;
        const std::string others =
            forwards.empty() ? concat("stage ", stage, " has no forwards")
                             : concat("the forwards of stage ", stage, " are ",
                                      name(*forwards.begin()), " to ", name(*forwards.rbegin()));
        rows_.fail_at(action, concat(to_string(action), " needs ", name(action.microbatch),
                                     ", but ", others));
      }
    }
  }

  void judge_completeness() {
    for (int stage = 0; stage < stages(); ++stage) judge_backward(stage);
    for (int stage = 0; stage < stages(); ++stage) {
      for (std::size_t role = 0; role < roles; ++role) complete(stage, static_cast<Role>(role));
    }
  }

  /// Afterwards the role's k-th entry is that of microbatch k.
  void complete(int stage, Role role) {
    std::vector<Filled>& entries = filled_[index(stage)][role];
    if (!needed(stage, role)) {
      if (entries.empty()) return;
      const Action& action = *entries.front().action;
      rows_.fail_at(action,
                    concat(to_string(action), " has no counterpart: ", reason(stage, role)));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Filled& a, const Filled& b) {
      return a.action->microbatch < b.action->microbatch;
    });
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].action->microbatch == entries[i - 1].action->microbatch)
        refuse_repeated(*entries[i - 1].action, *entries[i].action);
    }
    for (int m = 0; m < microbatches_; ++m) {
      const bool there = index(m) < entries.size() && entries[index(m)].action->microbatch == m;
      if (!there) refuse_missing(stage, role, m);
    }
  }

  std::string reason(int stage, Role role) const {
    const bool down = role == send_forward || role == receive_backward;
    const int other = stage + (down ? 1 : -1);
    const int pipe = stage / stages_per_pipe_;
    if (other < 0 || other >= stages() || other / stages_per_pipe_ != pipe) {
      return concat("stage ", stage, down ? " is the last" : " is the first");
    }
    return concat("stage ", other, " is on the same rank, which hands over by itself");
  }

  [[noreturn]] void refuse_repeated(const Action& first, const Action& second) const {
    const std::string place = concat("cell ", first.cell + 1);
    rows_.fail_at(second, first.kind == second.kind
                              ? concat(to_string(second), " stands in ", place, " already")
                              : concat(to_string(second), " repeats work of ", to_string(first),
                                       " in ", place));
  }

  [[noreturn]] void refuse_missing(int stage, Role role, int microbatch) const {
    const int rank = rank_of_stage_[index(stage)];
    std::string name = action_text(role_kinds[role], stage, microbatch);
    if (role == input) {
      name += " (or " + action_text(Kind::backward_input, stage, microbatch) + ")";
    }
    std::string why;
    if (role == forward) {
      why = concat("every stage does microbatches 0 to ", microbatches_ - 1);
    } else if (role == input || role == weight) {
      why = concat(action_text(Kind::forward, stage, microbatch), " has no whole backward");
    } else {
      const bool down = role == send_forward || role == receive_backward;
      why = concat("stage ", stage + (down ? 1 : -1), " is on another rank");
    }
    rows_.fail_at_row(rank, concat(name, " is missing: ", why));
  }

  void judge_order(int stage) const {
    for (int m = 0; m < microbatches_; ++m) {
      require_before(stage, m, receive_forward, forward);
      require_before(stage, m, forward, send_forward);
      require_before(stage, m, forward, input);
      require_before(stage, m, receive_backward, input);
      require_before(stage, m, input, weight);
      require_before(stage, m, input, send_backward);
    }
  }

  void require_before(int stage, int microbatch, Role first, Role second) const {
    const auto& entries = filled_[index(stage)];
    if (entries[first].empty() || entries[second].empty()) return;
    const Filled& need = entries[first][index(microbatch)];
    const Filled& user = entries[second][index(microbatch)];
    if (need.place <= user.place) return;
    rows_.fail_at(*user.action,
                  concat(to_string(*user.action), " stands before ", to_string(*need.action),
                         " in cell ", need.action->cell + 1, ", which it needs"));
  }

  /// What has become of each stage's weights and gradients along a row.
  void judge_sharding(std::size_t rank) const {
    std::map<int, const Action*> resharded, reduced;
    for (const Action& action : rows_.ranks[rank]) {
      if (action.kind == Kind::unshard) resharded.erase(action.stage);
      if (action.kind == Kind::reshard) resharded[action.stage] = &action;
      if (action.kind == Kind::reduce_gradient && !reduced.emplace(action.stage, &action).second) {
        rows_.fail_at(action, concat(to_string(action), " stands in cell ",
                                     reduced[action.stage]->cell + 1, " already"));
      }
      if (!is_compute(action.kind)) continue;
      if (const auto found = resharded.find(action.stage); found != resharded.end()) {
        rows_.fail_at(
            action, concat(to_string(action), " needs an UNSHARD after ", to_string(*found->second),
                           " in cell ", found->second->cell + 1));
      }
      if (action.kind == Kind::forward) continue;
      if (const auto found = reduced.find(action.stage); found != reduced.end()) {
        rows_.fail_at(
            action,
            concat(to_string(action), " stands behind ", to_string(*found->second), " in cell ",
                   found->second->cell + 1, ", so its gradient is never reduced"));
      }
    }
  }

  /// Each send has one wait behind it, each reduction too, and one at a time goes on
  /// (`_validate_send_waits` and `_prepare_schedule_with_comms` of torch 2.15).
  void judge_waits(std::size_t rank) const {
    std::map<std::tuple<Kind, int, int>, const Action*> sent;
    const Action* reducing = nullptr;
    for (const Action& action : rows_.ranks[rank]) {
      switch (action.kind) {
        case Kind::send_forward:
        case Kind::send_backward:
          sent[{action.kind, action.stage, action.microbatch}] = &action;
          break;
        case Kind::wait_send_forward:
        case Kind::wait_send_backward: {
          const Kind kind =
              action.kind == Kind::wait_send_forward ? Kind::send_forward : Kind::send_backward;
          if (sent.erase({kind, action.stage, action.microbatch}) == 1) break;
          rows_.fail_at(action, concat(to_string(action), " has no ",
                                       action_text(kind, action.stage, action.microbatch),
                                       " before it that is not waited for"));
        }
        case Kind::reduce_gradient:
          if (reducing != nullptr) {
            rows_.fail_at(action,
                          concat(to_string(action), " needs a ",
                                 action_text(Kind::wait_reduce_gradient, reducing->stage, 0),
                                 " before it: one reduction goes on at a time"));
          }
          reducing = &action;
          break;
        case Kind::wait_reduce_gradient:
          if (reducing != nullptr && reducing->stage == action.stage) {
            reducing = nullptr;
            break;
          }
          rows_.fail_at(action, concat(to_string(action), " has no ",
                                       action_text(Kind::reduce_gradient, action.stage, 0),
                                       " before it that is not waited for"));
        default: break;
      }
    }
    if (reducing != nullptr) {
      rows_.fail_at(*reducing, concat(to_string(*reducing), " has no ",
                                      action_text(Kind::wait_reduce_gradient, reducing->stage, 0),
                                      " behind it, which torch 2.15 wants"));
    }
    if (sent.empty()) return;
    const Action& send = *sent.begin()->second;
    const Kind wait =
        send.kind == Kind::send_forward ? Kind::wait_send_forward : Kind::wait_send_backward;
    rows_.fail_at(
        send, concat(to_string(send), " has no ", action_text(wait, send.stage, send.microbatch),
                     " behind it, which torch 2.15 wants"));
  }

  const Rows& rows_;
  const Action* communication_ = nullptr;
  bool waits_ = false;
  std::vector<const Action*> first_of_stage_;
  std::vector<int> rank_of_stage_;
  int stages_per_pipe_ = 1;
  int microbatches_ = 0;
  bool trains_ = false;
  std::vector<std::array<std::vector<Filled>, roles>> filled_;  // [stage][role]
};

}  // namespace

Shape judge(const Rows& rows, int pipes) {
  return Judge(rows, pipes).shape();
}

}  // namespace stagecraft::torch
