// Matching: every message has one sender and one receiver that agree about it, and every collective
// finds all its members.

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/units.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

class Matching {
 public:
  explicit Matching(const Facts& facts) : facts_(facts), program_(facts.program) {}

  Verdict run() {
    for (std::size_t i = 0; i < program_.channels.size(); ++i) judge_channel(i);
    judge_bytes();
    std::size_t sends = 0;
    for (std::size_t i = 0; i < program_.work.size(); ++i) {
      const int work = static_cast<int>(i);
      if (program_.work[i].channel) judge_end(work);
      if (program_.work[i].group) judge_membership(work);
      if (is_send(program_.work[i].instruction.op)) ++sends;
    }
    judge_messages();
    judge_occurrences();
    verdict_.proved(count(sends, "send") + " matched");
    const std::size_t collectives =
        facts_.meetings.size() - std::min(sends, facts_.meetings.size());
    if (collectives > 0) verdict_.proved(count(collectives, "collective") + " met by all members");
    return verdict_;
  }

 private:
  const Chunk& chunk(int index) const { return program_.chunks[static_cast<std::size_t>(index)]; }
  const Work& at(int work) const { return program_.work[static_cast<std::size_t>(work)]; }
  const Channel& channel_of(int work) const {
    return program_.channels[static_cast<std::size_t>(*at(work).channel)];
  }
  std::string name(int work) const { return facts_.describe(work); }

  static Cargo cargo_of(Op op) {
    if (op == Op::send_gradient || op == Op::receive_gradient) return Cargo::gradient;
    if (op == Op::send_activation || op == Op::receive_activation) return Cargo::activation;
    if (op == Op::send_norm || op == Op::receive_norm) return Cargo::norm;
    if (op == Op::send_validation || op == Op::receive_validation) return Cargo::validation;
    return Cargo::evicted;
  }

  static Op send_of(Cargo cargo) {
    switch (cargo) {
      case Cargo::activation: return Op::send_activation;
      case Cargo::gradient: return Op::send_gradient;
      case Cargo::evicted: return Op::evict;
      case Cargo::norm: return Op::send_norm;
      case Cargo::validation: return Op::send_validation;
    }
    return Op::send_activation;
  }

  // To the next stage or the one before; to the first stage again; to a partner.
  void judge_way(const Channel& channel, int from, int to,
                 const std::function<void(std::string)>& fault) {
    switch (channel.cargo) {
      case Cargo::activation: {
        const bool back = program_.feedback > 0 && from + 1 == program_.stages && to == 0;
        const bool next = to == from + 1 && facts_.same_pipe(from, to);
        if (!next && !back) fault(" carries activations, but not to the next stage");
        return;
      }
      case Cargo::gradient:
        if (to != from - 1 || !facts_.same_pipe(from, to))
          fault(" carries gradients, but not to the stage before");
        return;
      case Cargo::evicted:
      case Cargo::norm:
      case Cargo::validation: return;
    }
  }

  void judge_channel(std::size_t index) {
    const Channel& channel = program_.channels[index];
    const Chunk& from = chunk(channel.from);
    const Chunk& to = chunk(channel.to);
    const std::string title = concat("channel ", index, " from stage ", from.stage, " on device ",
                                     facts_.name_of(from.device), " to stage ", to.stage,
                                     " on device ", facts_.name_of(to.device));
    const auto fault = [&](const std::string& what) {
      verdict_.found(title + what, from.device, {send_of(channel.cargo), from.stage, 0});
    };
    if (from.device == to.device) fault(" does not leave its device");
    judge_way(channel, from.stage, to.stage, fault);
    const auto holds = [&](IndexRange rows) {
      return rows.first <= channel.rows.first && channel.rows.end <= rows.end;
    };
    const bool about_rows = !is_about_norm(send_of(channel.cargo));
    if (about_rows && channel.rows.size() < 1) fault(" carries no rows");
    if (!about_rows && channel.rows != IndexRange{}) fault(" carries a norm, and rows");
    if (!about_rows) return;
    if (!holds(from.rows) || !holds(to.rows)) {
      fault(
          concat(" carries ", rows_text(channel.rows), ", which are not all at both of its ends"));
    }
  }

  // The same rows cross the same boundary as activations and, later, as gradients: always with the
  // same size. What is evicted comes back as it went.
  void judge_bytes() {
    std::map<std::tuple<int, int, int, int>, int> first_of;  // way and rows → channel
    for (std::size_t i = 0; i < program_.channels.size(); ++i) {
      const Channel& channel = program_.channels[i];
      if (is_about_norm(send_of(channel.cargo))) continue;
      const auto [entry, added] = first_of.try_emplace(way_of(channel), static_cast<int>(i));
      const Channel& first = program_.channels[static_cast<std::size_t>(entry->second)];
      if (added || first.bytes == channel.bytes) continue;
      const Chunk& from = chunk(channel.from);
      verdict_.found(
          concat(rows_text(channel.rows),
                 channel.cargo == Cargo::evicted
                     ? std::string(" are evicted")
                     : concat(" cross the boundary after stage ", std::get<0>(entry->first)),
                 " with ", exact_bytes(first.bytes), devices_of(first), ", but with ",
                 exact_bytes(channel.bytes), devices_of(channel)),
          from.device, {send_of(channel.cargo), from.stage, 0});
    }
  }

  std::string devices_of(const Channel& channel) const {
    return concat(" from device ", facts_.name_of(chunk(channel.from).device), " to device ",
                  facts_.name_of(chunk(channel.to).device));
  }

  /// The boundary that a message crosses, known by the stage before it; of what is evicted the two
  /// chunks.
  std::tuple<int, int, int, int> way_of(const Channel& channel) const {
    const IndexRange rows = channel.rows;
    const int here = chunk(channel.from).stage, there = chunk(channel.to).stage;
    switch (channel.cargo) {
      case Cargo::activation: return {here, none, rows.first, rows.end};
      case Cargo::gradient: return {there, none, rows.first, rows.end};
      case Cargo::evicted:
      case Cargo::norm:
      case Cargo::validation: {
        const auto [one, other] = std::minmax(channel.from, channel.to);
        return {one, other, rows.first, rows.end};
      }
    }
    return {};
  }

  void judge_end(int work) {
    const Channel& channel = channel_of(work);
    const Op op = at(work).instruction.op;
    if (cargo_of(op) != channel.cargo) {
      verdict_.found(concat(name(work), " uses a channel of ", to_string(channel.cargo)), facts_,
                     work);
    }
    const int home = is_send(op) ? channel.from : channel.to;
    if (at(work).chunk != home) {
      verdict_.found(concat(name(work), " uses a channel ", is_send(op) ? "from" : "to", " stage ",
                            chunk(home).stage, " on device ", facts_.name_of(chunk(home).device)),
                     facts_, work);
    }
  }

  void judge_messages() {
    std::vector<std::tuple<int, int, int>> ends;  // channel, microbatch, work
    for (std::size_t i = 0; i < program_.work.size(); ++i) {
      const int work = static_cast<int>(i);
      if (at(work).channel && facts_.meeting_of[i] == none) {
        ends.emplace_back(*at(work).channel, at(work).instruction.microbatch, work);
      }
    }
    std::sort(ends.begin(), ends.end());
    for (auto first = ends.begin(), end = first; first != ends.end(); first = end) {
      const auto message = [](const auto& entry) {
        return std::pair(std::get<0>(entry), std::get<1>(entry));
      };
      while (end != ends.end() && message(*end) == message(*first)) ++end;
      std::vector<int> sends, receives;
      for (auto entry = first; entry != end; ++entry) {
        const int work = std::get<2>(*entry);
        (is_send(at(work).instruction.op) ? sends : receives).push_back(work);
      }
      judge_message(sends, receives);
    }
  }

  void judge_message(const std::vector<int>& sends, const std::vector<int>& receives) {
    if (sends.empty()) {
      const Chunk& from = chunk(channel_of(receives[0]).from);
      verdict_.found(concat(name(receives[0]), " waits for a message that device ",
                            facts_.name_of(from.device), " never sends"),
                     facts_, receives[0]);
    } else if (receives.empty()) {
      const Chunk& to = chunk(channel_of(sends[0]).to);
      verdict_.found(
          concat(name(sends[0]), " is never received by device ", facts_.name_of(to.device)),
          facts_, sends[0]);
    } else if (sends.size() > 1) {
      verdict_.found(concat(name(sends[1]), " sends the same message a second time"), facts_,
                     sends[1]);
    } else {
      verdict_.found(concat(name(receives[1]), " receives the same message a second time"), facts_,
                     receives[1]);
    }
  }

  void judge_membership(int work) {
    const Group& group = program_.groups[static_cast<std::size_t>(*at(work).group)];
    if (at(work).instruction.op != group.op) {
      verdict_.found(concat(name(work), " uses a group made for ", to_string(group.op)), facts_,
                     work);
    }
    if (std::find(group.chunks.begin(), group.chunks.end(), at(work).chunk) == group.chunks.end()) {
      verdict_.found(concat(name(work), " takes part in a group it is no member of"), facts_, work);
    } else if (facts_.meeting_of[static_cast<std::size_t>(work)] == none) {
      verdict_.found(
          concat(name(work), " waits for members that never come: ", absent_text(group, work)),
          facts_, work);
    }
  }

  std::string absent_text(const Group& group, int work) const {
    const std::size_t own = times(*at(work).group, at(work).chunk);
    std::string text;
    for (const int member : group.chunks) {
      if (times(*at(work).group, member) >= own) continue;
      text += concat(text.empty() ? "" : ", ", "stage ", chunk(member).stage, " on device ",
                     facts_.name_of(chunk(member).device));
    }
    return text;
  }

  std::size_t times(int group, int member) const {
    const auto works = facts_.works(member, program_.groups[static_cast<std::size_t>(group)].op);
    return static_cast<std::size_t>(std::count_if(
        works.begin(), works.end(), [&](int work) { return at(work).group == group; }));
  }

  // Members meet in the order in which each issues its part; they must mean the same microbatch.
  void judge_occurrences() {
    for (const Meeting& meeting : facts_.meetings) {
      if (!at(meeting[0]).group) continue;
      for (const int work : meeting) {
        if (at(work).instruction.microbatch == at(meeting[0]).instruction.microbatch) continue;
        verdict_.found(concat(name(work), " would be joined with ", name(meeting[0])), facts_,
                       work);
        break;
      }
    }
  }

  const Facts& facts_;
  const Program& program_;
  Verdict verdict_{"matching"};
};

}  // namespace

Verdict matching(const Facts& facts) {
  return Matching(facts).run();
}

}  // namespace stagecraft::checks
