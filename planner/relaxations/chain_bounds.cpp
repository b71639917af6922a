#include "planner/relaxations/chain_bounds.hpp"

#include <algorithm>
#include <utility>

#include "planner/relaxations/work_bound.hpp"
#include "planner/space/setting_kinds.hpp"

namespace stagecraft {

namespace {

/// The fewest rows of a message from a replica to a replica of the next stage.
std::int64_t least_rows(const Setting& setting, int replicas, int next_replicas) {
  if (setting.replicas != ReplicaPolicy::split) return setting.microbatch;
  std::int64_t least = setting.microbatch;
  for (int i = 0; i < replicas; ++i) {
    for (int j = 0; j < next_replicas; ++j) {
      const std::int64_t rows = common_rows(setting.microbatch, i, replicas, j, next_replicas);
      if (rows > 0) least = std::min(least, rows);
    }
  }
  return least;
}

}  // namespace

bool ChainBounds::applies(const Space& space, const std::vector<const Setting*>& settings) {
  constexpr double most_entries = 2e6;  // entries of the tables of a probe
  if (settings.size() < 2) return false;
  const Setting& finest = *settings.front();
  const int devices = space.devices(finest);
  if (!space.cluster().overrides.empty()) return false;
  if (available_devices(space.problem()) != device_count(space.problem().cluster)) return false;
  if (space.one_of_each_kind(finest).size() != 1) return false;
  double kinds = 0;
  for (const Setting* setting : settings) {
    if (!is_chain(*setting) || !setting->trains || !setting->drains) return false;
    if (has_many_devices(space, *setting) || setting->peers % finest.peers != 0) return false;
    const int span = setting->peers / finest.peers;
    if (space.devices(*setting) * span != devices) return false;
    for (int device = 0; device < space.devices(*setting); ++device) {
      if (space.lead(*setting, device) != space.lead(finest, device * span)) return false;
    }
    kinds += space.most_replicas(*setting);
  }
  const double stages = space.most_pipeline_devices(finest);
  return stages * space.layers() * devices * kinds <= most_entries;
}

ChainBounds::ChainBounds(const Space& space, std::vector<const Setting*> settings)
    : space_(space),
      settings_(std::move(settings)),
      layers_(space.layers()),
      devices_(finest().depth.value_or(space.devices(finest()))),
      box_(std::max(space.innermost_devices() / finest().peers, 1)),
      most_stages_(space.most_pipeline_devices(finest())) {
  for (std::size_t i = 0; i < settings_.size(); ++i) {
    const int span = settings_[i]->peers / finest().peers;
    const int most = space.most_replicas(*settings_[i]);
    most_replicas_ = std::max(most_replicas_, most);
    stages_.push_back(std::make_unique<StageBounds>(space, *settings_[i], span));
    for (int replicas = 1; replicas <= most && replicas * span <= devices_; ++replicas)
      kinds_.push_back({.setting = static_cast<int>(i), .span = span, .replicas = replicas});
  }
  if (has_one_degree()) return;
  count_work();
  time_messages();
}

bool ChainBounds::stands(const StageKind& kind, int device) const {
  if (device + kind.devices() > devices_) return false;
  return device % kind.span == 0 || device / box_ == (device + kind.devices() - 1) / box_;
}

// --- Work and links ------------------------------------------------------------

void ChainBounds::count_work() {
  const ColumnBounds bounds(space_);
  std::vector<Time> least(index(layers_), never);
  for (const Setting* setting : settings_) {
    const int span = setting->peers / finest().peers;
    const std::vector<Time> own = bounds.least_by_layer(*setting);
    for (std::size_t layer = 0; layer < least.size(); ++layer)
      least[layer] = std::min(least[layer], span * own[layer]);
  }
  work_from_.assign(index(layers_) + 1, 0);
  for (std::size_t layer = least.size(); layer-- > 0;)
    work_from_[layer] = work_from_[layer + 1] + least[layer];
}

/// The links that messages across the cut of devices could use: between the two devices at the cut,
/// or farther ones on either side.
std::vector<Link> ChainBounds::links_across(int device) const {
  std::vector<Link> links;
  const auto add = [&](int from, int to) {
    for (const Link& link :
         {space_.message_link(finest(), from, to), space_.message_link(finest(), to, from)}) {
      if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
    }
  };
  for (int from = 0; from < device; ++from) add(from, device);
  for (int to = device; to < devices_; ++to) add(device - 1, to);
  return links;
}

void ChainBounds::time_messages() {
  const Setting& finest = this->finest();
  const auto replicas = index(most_replicas_ + 1);
  std::vector<std::int64_t> rows(replicas * replicas);
  for (int one = 1; one <= most_replicas_; ++one) {
    for (int next = 1; next <= most_replicas_; ++next)
      rows[index(one) * replicas + index(next)] = least_rows(finest, one, next);
  }
  messages_.assign((at(layers_, devices_) + 1) * replicas * replicas, 0);
  for (int device = 1; device < devices_; ++device) {
    const std::vector<Link> links = links_across(device);
    for (int cut = 1; cut < layers_; ++cut) {
      Bytes boundary = space_.boundary(finest, 0, cut);
      for (const Setting* setting : settings_)
        boundary = std::min(boundary, space_.boundary(*setting, 0, cut));
      Time* times = &messages_[of_replicas(cut, device, 0) * replicas];
      for (std::size_t pair = 0; pair < rows.size(); ++pair) {
        if (rows[pair] == 0) continue;
        const Bytes bytes = share_of_boundary(boundary, rows[pair], finest.microbatch);
        times[pair] = never;
        for (const Link& link : links) {
          const Duration time = link.latency + transfer_time(bytes, link.point_to_point);
          times[pair] = std::min<Time>(times[pair], time.count());
        }
      }
    }
  }
}

HandOver ChainBounds::transfer(int cut, int device, int replicas, int next_replicas) const {
  if (has_one_degree())
    return stages_.front()->transfer(device - replicas, replicas, next_replicas, cut);
  const Time least = messages_[of_replicas(cut, device, replicas) * index(most_replicas_ + 1) +
                               index(next_replicas)];
  return {least, least};
}

// --- The tables
// -----------------------------------------------------------------------------------

Head ChainBounds::after(const Head& head, const StageChoice& choice, int replicas, int next_device,
                        int next_replicas, int cut) const {
  const HandOver moved = transfer(cut, next_device, replicas, next_replicas);
  const Time fill = head.fill + choice.fill + moved.there;
  const Time drain = choice.fill + moved.there + moved.back + choice.drain;
  return {fill, drain + std::max(head.fill + choice.left + choice.post, head.fill_and_drain),
          drain + head.fill_and_return, most_of(head.others, choice.others)};
}

/// Heads of stages that start at this layer and device: the best over all stages before.
void ChainBounds::arrive(int layer, int device) {
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (!stands(kinds_[kind], device)) continue;
    Head& head = prefix_[of_kind(layer, device, static_cast<int>(kind))];
    for (int before = 1; before <= std::min(most_replicas_, device); ++before) {
      const Head& leaving = leaving_[of_replicas(layer, device, before)];
      if (leaving.fill >= never) continue;
      const HandOver moved = transfer(layer, device, before, kinds_[kind].replicas);
      head.fill = std::min(head.fill, leaving.fill + moved.there);
      const Time both = moved.there + moved.back;
      head.fill_and_drain = std::min(head.fill_and_drain, leaving.fill_and_drain + both);
      head.fill_and_return = std::min(head.fill_and_return, leaving.fill_and_return + both);
      head.others.lower_to(leaving.others);
    }
  }
}

/// Every stage of this kind that could start here, and the head that it leaves to the next one.
void ChainBounds::leave(int layer, int device, int kind, Time limit) {
  const StageKind& own = kinds_[index(kind)];
  const Head& head = prefix_[of_kind(layer, device, kind)];
  if (head.fill >= never) return;
  const StageBounds& stage = this->stage(own);
  const int least = space_.problem().min_layers_per_stage;
  const int place = own_device(own, device), next = device + own.devices();
  const int stages_left = finest().depth ? *finest().depth - device : 2;  // at least
  if (stages_left < 2) return;
  for (int end = std::max(layer + least, space_.first_end(layer)); end < layers_; ++end) {
    ++looked_at_;
    const LayerRange layers{layer, end};
    if (stage.is_too_long(head, layers, place, own.replicas, limit)) break;
    if (time_for(end, next) > limit) continue;
    const auto choice = stage.choose(layers, place, own.replicas, stages_left);
    if (!choice && stage.is_too_large(layers, place, own.replicas)) break;
    if (!choice) continue;
    if (stage.bound(head, *choice, layers, place, own.replicas, stages_left, {0, 0}) > limit)
      continue;
    Head& leaving = leaving_[of_replicas(end, next, own.replicas)];
    const Time passing = choice->fill + choice->drain;
    leaving.fill = std::min(leaving.fill, head.fill + choice->fill);
    leaving.fill_and_drain =
        std::min(leaving.fill_and_drain,
                 passing + std::max(head.fill + choice->left + choice->post, head.fill_and_drain));
    leaving.fill_and_return = std::min(leaving.fill_and_return, passing + head.fill_and_return);
    leaving.others.lower_to(most_of(head.others, choice->others));
  }
}

void ChainBounds::fill_prefix(Time limit, const std::stop_token& stop) {
  prefix_.assign(of_kind(layers_, devices_, 0) + kinds_.size(), {});
  leaving_.assign(of_replicas(layers_, devices_, most_replicas_) + 1, {});
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) prefix_[kind] = StageBounds::start();
  for (int device = 0; device < devices_; ++device) {
    for (int layer = device == 0 ? 0 : 1; layer < layers_; ++layer) {
      if (stop.stop_requested()) return;
      if (time_for(layer, device) <= limit) {
        if (device > 0) arrive(layer, device);
        for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
          if (stands(kinds_[kind], device)) leave(layer, device, static_cast<int>(kind), limit);
        }
      }
      if (device == 0) break;
    }
  }
}

Beyond ChainBounds::beyond(int stages, int layer, int device, int replicas) const {
  // Under `split`, each replica has a part of every microbatch, so the number of the last stage's
  // replicas does not matter.
  const int last = finest().replicas == ReplicaPolicy::split ? 1 : 0;
  if (stages == 0) {
    const Time trip = layer == layers_ && space_.may_end_at(finest(), device) ? 0 : never;
    if (!has_one_degree()) return {trip, 0, last, {}};
    return {trip, stages_.front()->end_tie(device - replicas, replicas), replicas, {}};
  }
  if (layer >= layers_ || device >= devices_) return {};
  const Beyond& best = behind_[index(stages)][of_replicas(layer, device, replicas)].best;
  return has_one_degree() ? best : Beyond{best.round_trip, 0, last, {}};
}

void ChainBounds::fill_state(int stages, int layer, int device, int kind, Time limit) {
  const StageKind& own = kinds_[index(kind)];
  const Head& head = prefix_[of_kind(layer, device, kind)];
  if (head.fill >= never) return;
  const StageBounds& stage = this->stage(own);
  Step& step = suffix_[index(stages)][of_kind(layer, device, kind)];
  const int least = space_.problem().min_layers_per_stage;
  const int place = own_device(own, device), next = device + own.devices();
  const int first_end = stages == 1 ? layers_ : std::max(layer + least, space_.first_end(layer));
  const int last_end = std::min(space_.last_end(stages - 1), layers_ - (stages - 1) * least);
  for (int end = first_end; end <= last_end; ++end) {
    ++looked_at_;
    const LayerRange layers{layer, end};
    if (layers.size() < least || stage.is_too_long(head, layers, place, own.replicas, limit))
      return;
    const Beyond behind = beyond(stages - 1, end, next, own.replicas);
    if (behind.round_trip >= never) continue;
    const auto choice = stage.choose(layers, place, own.replicas, stages);
    if (!choice && stage.is_too_large(layers, place, own.replicas)) return;
    if (!choice) continue;
    if (stage.bound(head, *choice, layers, place, own.replicas, stages, behind) > limit) continue;
    step.best.tie = std::min(step.best.tie, behind.tie);
    step.best.last_replicas = std::max(step.best.last_replicas, behind.last_replicas);
    const OtherPasses others = stage.others(*choice, own.replicas, behind.last_replicas);
    step.best.others.lower_to(most_of(others, behind.others));
    const Time whole = choice->fill + behind.round_trip + choice->drain;
    if (whole >= step.best.round_trip) continue;
    step.best.round_trip = whole;
    step.end = end;
    step.recompute = choice->recompute;
  }
}

void ChainBounds::fill_suffix(int stages, Time limit, const std::stop_token& stop) {
  suffix_[index(stages)].assign(prefix_.size(), {});
  for (int layer = 0; layer < layers_ && !stop.stop_requested(); ++layer) {
    for (int device = 0; device < devices_; ++device) {
      if ((layer == 0) != (device == 0) || !may_have_left(device, stages)) continue;
      if (time_for(layer, device) > limit) continue;
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        if (stands(kinds_[kind], device))
          fill_state(stages, layer, device, static_cast<int>(kind), limit);
      }
    }
  }
}

/// The best next stage behind each number of replicas, with `stages` stages left.
void ChainBounds::fill_behind(int stages) {
  auto& table = behind_[index(stages)];
  table.assign(leaving_.size(), {});
  for (int layer = 1; layer < layers_; ++layer) {
    for (int device = 1; device < devices_; ++device) {
      if (!may_have_left(device, stages)) continue;
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        const auto next = static_cast<int>(kind);
        const Step& step = suffix_[index(stages)][of_kind(layer, device, next)];
        if (step.best.round_trip >= never) continue;
        for (int before = 1; before <= std::min(most_replicas_, device); ++before) {
          auto& [best, best_kind] = table[of_replicas(layer, device, before)];
          const HandOver moved = transfer(layer, device, before, kinds_[kind].replicas);
          const Time trip = moved.there + step.best.round_trip + moved.back;
          best.tie = std::min(best.tie, step.best.tie);
          best.last_replicas = std::max(best.last_replicas, step.best.last_replicas);
          best.others.lower_to(step.best.others);
          if (trip >= best.round_trip) continue;
          best.round_trip = trip;
          best_kind = next;
        }
      }
    }
  }
}

bool ChainBounds::probe(Time limit, const std::stop_token& stop) {
  fill_prefix(limit, stop);
  suffix_.assign(index(most_stages_ + 1), {});
  behind_.assign(index(most_stages_ + 1), {});
  bool open = false;
  for (int stages = 1; stages <= most_stages_ && !stop.stop_requested(); ++stages) {
    fill_suffix(stages, limit, stop);
    fill_behind(stages);
    open = open || is_open(stages);
  }
  if (!stop.stop_requested()) return open;
  suffix_.assign(index(most_stages_ + 1), {});
  return true;
}

bool ChainBounds::is_open(int stages) const {
  const std::vector<int>& warm_up = finest().schedule.warm_up;
  if (!space_.allows_stages(stages) || !may_have_left(0, stages)) return false;
  if (suffix_[index(stages)].empty()) return false;
  if (!warm_up.empty() && warm_up.size() != index(stages)) return false;
  const auto& first = suffix_[index(stages)];
  return std::any_of(first.begin(), first.begin() + std::ssize(kinds_),
                     [](const Step& step) { return step.best.round_trip < never; });
}

std::vector<ChainBounds::ChainStage> ChainBounds::best_chain(int stages) const {
  const auto& first = suffix_[index(stages)];
  const auto shorter = [](const Step& a, const Step& b) {
    return a.best.round_trip < b.best.round_trip;
  };
  auto kind = static_cast<int>(
      std::min_element(first.begin(), first.begin() + std::ssize(kinds_), shorter) - first.begin());
  std::vector<ChainStage> chain;
  int layer = 0, device = 0;
  for (int left = stages; left > 0; --left) {
    const Step& step = suffix_[index(left)][of_kind(layer, device, kind)];
    chain.push_back({.kind = kind, .layers = {layer, step.end}, .recompute = step.recompute});
    layer = step.end;
    device += kinds_[index(kind)].devices();
    if (left == 1) break;
    const int replicas = kinds_[index(kind)].replicas;
    kind = behind_[index(left - 1)][of_replicas(layer, device, replicas)].kind;
  }
  return chain;
}

Layout ChainBounds::best_layout(int stages) const {
  Layout layout{.replicas = {}, .cuts = {0}, .recompute = {}};
  for (const ChainStage& stage : best_chain(stages)) {
    layout.replicas.push_back(kinds_[index(stage.kind)].replicas);
    layout.cuts.push_back(stage.layers.end);
    layout.recompute.push_back(stage.recompute);
  }
  return layout;
}

}  // namespace stagecraft
