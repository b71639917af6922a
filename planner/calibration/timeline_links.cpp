#include "planner/calibration/timeline_links.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "planner/costs/cost_book.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// A link of the profile or the cluster, and what went over it.
struct Used {
  std::string what;
  Link* link = nullptr;
  std::vector<Transfer> messages, collectives;
};

/// All that were used, in the order of their first use.
class Links {
 public:
  Links(Profile& profile, Cluster& cluster) : profile_(profile), cluster_(cluster) {}

  Used& of_message(int from, int to) {
    if (takes_hand_over(profile_, cluster_, from, to))
      return used("hand-over between ranks", *profile_.hand_over);
    return of_cluster(from, to);
  }

  /// The outermost that any two members meet.
  Used& of_group(const std::vector<int>& members) {
    const auto [first, last] = std::ranges::minmax_element(members);
    return of_cluster(*first, *last);
  }

  std::vector<Used>& all() { return all_; }

 private:
  Used& of_cluster(int from, int to) {
    for (LinkOverride& entry : cluster_.overrides) {
      if (entry.from == from && entry.to == to)
        return used(concat("link ", from, " -> ", to), entry.link);
    }
    int inside = device_count(cluster_);
    std::size_t level = 0;
    for (; level + 1 < cluster_.levels.size(); ++level) {
      inside /= cluster_.levels[level].count;
      if (from / inside != to / inside) break;
    }
    return used(concat("level ", level, " of the cluster"), cluster_.levels.at(level).link);
  }

  Used& used(std::string what, Link& link) {
    const auto known = std::ranges::find(all_, &link, &Used::link);
    if (known != all_.end()) return *known;
    all_.push_back({.what = std::move(what), .link = &link, .messages = {}, .collectives = {}});
    return all_.back();
  }

  Profile& profile_;
  Cluster& cluster_;
  std::vector<Used> all_;
};

/// In rounds of a ring, as `all_reduce_time` and `reduce_scatter_time` count them.
Transfer collective(Op op, std::size_t members, Bytes bytes, Duration time) {
  const bool shards = op == Op::reduce_scatter || op == Op::gather_parameters;
  const int rounds = (shards ? 1 : 2) * static_cast<int>(members - 1);
  const auto moved = static_cast<double>(bytes) * rounds / static_cast<double>(members);
  return {.rounds = rounds, .bytes = static_cast<Bytes>(moved), .time = time};
}

void add_messages(const Compiled& compiled, const std::vector<MeasuredStep>& steps, Links& links) {
  const Program& program = compiled.program;
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    const Work& work = program.work[i];
    if (!is_receive(work.instruction.op) || is_about_norm(work.instruction.op)) continue;
    const Channel& channel = program.channels[index(*work.channel)];
    const auto device = [&](int chunk) {
      return compiled.devices[index(program.chunks[index(chunk)].device)];
    };
    Used& used = links.of_message(device(channel.from), device(channel.to));
    for (const MeasuredStep& step : steps) {
      used.messages.push_back(
          {.rounds = 1, .bytes = channel.bytes, .time = step.work[i].end - step.work[i].start});
    }
  }
}

void add_collectives(const Compiled& compiled, const std::vector<MeasuredStep>& steps,
                     Links& links) {
  const Program& program = compiled.program;
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    const Work& work = program.work[i];
    if (!work.group || work.instruction.op == Op::reduce_norm) continue;
    const Group& group = program.groups[index(*work.group)];
    std::set<int> members;
    for (const int chunk : group.chunks)
      members.insert(compiled.devices[index(program.chunks[index(chunk)].device)]);
    // One member speaks for all.
    if (members.size() < 2 || work.chunk != group.chunks.front()) continue;
    Used& used = links.of_group({members.begin(), members.end()});
    for (const MeasuredStep& step : steps) {
      used.collectives.push_back(
          collective(group.op, group.chunks.size(), group.bytes, step.work[i].time()));
    }
  }
}

LinkTimes fit(Used& used) {
  LinkTimes result{.what = used.what,
                   .count = static_cast<int>(used.messages.size() + used.collectives.size()),
                   .before = *used.link,
                   .after = {}};
  const bool has_messages = !used.messages.empty();
  Link& link = *used.link;
  if (has_messages) {
    const auto fitted = fit_transfers(used.messages, {link.latency, link.point_to_point}, false);
    link.latency = fitted.latency;
    link.point_to_point = fitted.bandwidth;
  }
  if (!used.collectives.empty()) {
    const auto fitted =
        fit_transfers(used.collectives, {link.latency, link.collective}, has_messages);
    link.latency = fitted.latency;
    link.collective = fitted.bandwidth;
  }
  std::vector<Bytes> sizes;
  for (const auto* transfers : {&used.messages, &used.collectives})
    for (const Transfer& transfer : *transfers) sizes.push_back(transfer.bytes);
  const auto [smallest, largest] = std::ranges::minmax_element(sizes);
  result.smallest = *smallest;
  result.largest = *largest;
  result.after = link;
  return result;
}

}  // namespace

std::vector<LinkTimes> fit_links(const Compiled& compiled, const std::vector<MeasuredStep>& steps,
                                 Profile& profile, Cluster& cluster) {
  Links links(profile, cluster);
  add_messages(compiled, steps, links);
  add_collectives(compiled, steps, links);
  std::vector<LinkTimes> list;
  for (Used& used : links.all()) list.push_back(fit(used));
  return list;
}

}  // namespace stagecraft
