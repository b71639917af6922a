#include "planner/column_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/block_packing.hpp"
#include "planner/path_bound.hpp"
#include "planner/walk.hpp"
#include "simulator/schedules.hpp"

namespace stagecraft {

namespace {

/// Bisection of a branch's bound stops within this part of the best step.
constexpr Time narrow_parts = 1000;

/// Whether a device's first stage is the device's number in the pipeline.
bool starts_in_line(StagePlacement placement) {
  return placement != StagePlacement::bidirectional;
}

}  // namespace

bool is_chain(const Setting& setting) {
  const auto generate = find_schedule(setting.schedule.name).generate;
  const bool known = generate == gpipe || generate == one_f_one_b || generate == interleaved;
  return known && setting.schedule.virtual_stages == 1;
}

bool is_wide(const Space& space, const Setting& setting) {
  constexpr int most_devices_walked = 16;
  constexpr double most = 5e6;  // entries of the tables of one probe (planner/bounds.hpp)
  const double devices = space.devices(setting), layers = space.layers();
  const double entries = devices * devices * devices * layers * layers / 4;
  return space.devices(setting) > most_devices_walked || entries > most;
}

ColumnSearch::ColumnSearch(const Space& space, const SearchControl& control, Judge& judge)
    : space_(space), control_(control), judge_(judge) {}

void ColumnSearch::add(const Setting& setting) {
  for (Setting& column : space_.columns(setting)) {
    const Time least = bound(column);
    if (least >= never) continue;  // it cannot hold its parameters
    branches_.push_back({.setting = std::move(column),
                         .least = least,
                         .step = never,
                         .layout = {},
                         .most_layers = {}});
  }
}

/// What the layers save, and for how long; the least of all kinds of device.
void ColumnSearch::add_memory(Work& work, const std::vector<const CostTable*>& tables) const {
  double behind = 0;
  for (int layer = space_.layers() - 1; layer >= 0; --layer) {
    const LayerRange one{layer, layer + 1};
    double stay = std::numeric_limits<double>::infinity(), again = stay, saved = stay;
    for (const CostTable* table : tables) {
      const auto forward = static_cast<double>(table->forward(one).count());
      const auto back = static_cast<double>(table->backward_input(one).count());
      stay = std::min(stay, forward + back);
      again = std::min(again, forward);
      const ChunkMemory memory = table->memory(one, space_.problem().optimizer.kind);
      saved = std::min(saved, static_cast<double>(memory.saved));
    }
    behind += stay;
    work.kept.emplace_back(again, saved * behind);
    work.all_kept += saved * behind;
  }
  std::stable_sort(work.kept.begin(), work.kept.end(), [](const auto& a, const auto& b) {
    return a.first * b.second < b.first * a.second;
  });
}

const ColumnSearch::Work& ColumnSearch::work(const Setting& setting) {
  const auto key =
      std::tuple(setting.tensor_parallel, setting.microbatch, setting.microbatch * setting.columns);
  const auto known = works_.find(key);
  if (known != works_.end()) return known->second;
  // The fastest kind of device for each layer.
  std::vector<const CostTable*> tables;
  for (int device = 0; device < space_.devices(setting); ++device) {
    const CostTable* table = &space_.whole_microbatch(setting, device);
    if (tables.empty() || tables.back() != table) tables.push_back(table);
  }
  std::sort(tables.begin(), tables.end());
  tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
  Work work;
  std::vector<Time> layers;
  for (int layer = 0; layer < space_.layers(); ++layer) {
    Time least = never;
    for (const CostTable* table : tables) {
      const Time forward = table->forward({layer, layer + 1}).count();
      const Time backward = table->backward({layer, layer + 1}).count();
      least = std::min(least, forward + backward);
      work.least_forward = std::min(work.least_forward, forward);
      work.least_backward = std::min(work.least_backward, backward);
      if (forward + backward > 0) {
        work.forward_share =
            std::min(work.forward_share,
                     static_cast<double>(forward) / static_cast<double>(forward + backward));
      }
    }
    layers.push_back(least);
    work.all += least;
  }
  add_memory(work, tables);
  std::sort(layers.begin(), layers.end(), std::greater<>());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i + 1 == layers.size() || layers[i + 1] < layers[i]) {
      work.heavy.emplace_back(layers[i], static_cast<int>(i) + 1);
    }
  }
  add_packing(work, layers);
  return works_.emplace(key, std::move(work)).first->second;
}

/// The layers that take most together, alike, and the others; `layers` has the longest first.
void ColumnSearch::add_packing(Work& work, const std::vector<Time>& layers) {
  constexpr std::size_t most_others = 8;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < layers.size(); i = begin) {
    while (begin < layers.size() && layers[begin] == layers[i]) ++begin;
    const auto count = static_cast<int>(begin - i);
    if (count * layers[i] <= work.blocks * work.block) continue;
    work.block = layers[i];
    work.blocks = count;
  }
  for (const Time layer : layers) {
    if (layer != work.block && work.others.size() < most_others) work.others.push_back(layer);
  }
}

/// The least C of a microbatch's time per device; see above.
Time ColumnSearch::packing(const Work& work, int devices) {
  if (work.block == 0) return 0;
  const double block = static_cast<double>(work.block);
  for (int each = (work.blocks + devices - 1) / devices;; ++each) {
    const int spare = each * devices - work.blocks;
    // Room for all of the others but the first i.
    Time longer = std::accumulate(work.others.begin(), work.others.end(), Time{0});
    for (std::size_t i = work.others.size() + 1; i-- > 0;) {
      if (i < work.others.size()) longer -= work.others[i];
      const Time room = i < work.others.size() ? work.others[i] : 0;
      double least = static_cast<double>(room);
      if (longer > 0) {
        if (spare == 0) continue;
        least = std::max(least, static_cast<double>(longer) / spare - block);
      }
      // Where one more of the others would have room, the next round knows better.
      if (i > 0 && least >= static_cast<double>(work.others[i - 1])) continue;
      if (least < block) return each * work.block + static_cast<Time>(least);
    }
  }
}

/// Bytes of a column's devices that parameters, gradients and optimizer leave; below zero if they
/// do not fit, infinite without a limit.
double ColumnSearch::room(const Setting& setting) const {
  double room = 0;
  for (int device = 0; device < *setting.depth; ++device) {
    const DeviceKind& kind = space_.kind(setting, device);
    if (kind.memory_unlimited) return std::numeric_limits<double>::infinity();
    room += static_cast<double>(kind.memory);
  }
  const OptimizerChoice& optimizer = space_.problem().optimizer;
  const CostTable& table = space_.whole_microbatch(setting, 0);
  const ChunkMemory memory = memory_share(table.memory({0, space_.layers()}, optimizer.kind),
                                          optimizer.sharding, Space::holders(setting, 1));
  return room - static_cast<double>(memory.parameters + memory.gradients + memory.optimizer);
}

/// The least step that leaves memory for what is saved and time for what is recomputed.
double ColumnSearch::memory_bound(const Setting& setting, const Work& work) const {
  const double room = this->room(setting);
  if (room <= 0) return static_cast<double>(never);
  const double microbatches = setting.microbatches, depth = *setting.depth;
  double busy = microbatches * static_cast<double>(work.all) / depth;
  double held = microbatches * work.all_kept / room;
  if (held <= busy) return busy;
  if (!space_.allows(Recompute::full)) return held;
  for (const auto& [again, kept] : work.kept) {
    const double more = microbatches * again / depth, less = microbatches * kept / room;
    if (busy + more >= held - less) {
      // A part of this layer's, where both meet.
      const double part = (held - busy) / (more + less);
      return busy + part * more;
    }
    busy += more;
    held -= less;
  }
  return busy;
}

/// With one stage per device, in line.
double ColumnSearch::taper_bound(const Setting& setting, const Work& work) {
  const double fill = setting.splits_backward ? work.forward_share : 1;
  const double microbatches = setting.microbatches, all = static_cast<double>(work.all);
  if (fill <= 0) return microbatches * all / *setting.depth;
  return fill * all / (1 - std::pow(1 - fill / microbatches, *setting.depth));
}

Time ColumnSearch::bound(const Setting& setting) {
  const Work& work = this->work(setting);
  const Time depth = *setting.depth, microbatches = setting.microbatches;
  Time around = 0;
  if (starts_in_line(setting.placement)) {
    around = work.least_forward + (setting.splits_backward ? 0 : work.least_backward);
  }
  Time least = microbatches * work.all / depth + (depth - 1) * around / 2;
  for (const auto& [time, layers] : work.heavy) {
    least = std::max(least, microbatches * ((layers + depth - 1) / depth) * time);
  }
  least = std::max(least, microbatches * packing(work, static_cast<int>(depth)));
  // Rounding of the sums must not lift the bound.
  constexpr double safe = 1 - 1e-9;
  double more = memory_bound(setting, work);
  if (setting.placement == StagePlacement::linear) {
    more = std::max(more, taper_bound(setting, work));
  }
  return std::max(least, static_cast<Time>(safe * more));
}

Time ColumnSearch::least_of_all(const Setting& setting) {
  const bool split = setting.replicas == ReplicaPolicy::split;
  const int replicas = split ? space_.most_replicas(setting) : 1;
  std::vector<Time> least(static_cast<std::size_t>(space_.layers()), never);
  std::int64_t before = 0;
  for (int count = 1; count <= replicas; ++count) {
    const std::int64_t rows = (setting.microbatch + count - 1) / count;
    if (rows == before) continue;  // more replicas with the same share occupy more devices as long
    before = rows;
    for (int device = 0; device < space_.devices(setting); ++device) {
      const CostTable& table = space_.table(setting, device, rows);
      if (device > 0 && &table == &space_.table(setting, device - 1, rows)) continue;
      for (int layer = 0; layer < space_.layers(); ++layer) {
        const LayerRange one{layer, layer + 1};
        Time& time = least[static_cast<std::size_t>(layer)];
        time = std::min(time, count * (table.forward(one) + table.backward(one)).count());
      }
    }
  }
  const Time work = std::accumulate(least.begin(), least.end(), Time{0});
  return setting.microbatches * work / space_.devices(setting);
}

bool ColumnSearch::is_open(const Branch& branch) const {
  return branch.least <= std::min(judge_.limit(), never - 1);
}

Time ColumnSearch::least() const {
  Time least = never;
  for (const Branch& branch : branches_) least = std::min(least, branch.least);
  return least;
}

std::size_t ColumnSearch::done() const {
  return static_cast<std::size_t>(std::count_if(
      branches_.begin(), branches_.end(), [&](const Branch& branch) { return !is_open(branch); }));
}

double ColumnSearch::gap() const {
  const auto best = judge_.board().best();
  if (!best || best->count() == 0) return 1;
  const Time least = std::min(this->least(), best->count());
  return static_cast<double>(best->count() - least) / static_cast<double>(best->count());
}

/// Balanced pipelines, by stages and by devices.
std::vector<Layout> ColumnSearch::proposals(const Setting& setting,
                                            const std::vector<int>& replicas) const {
  std::vector<Layout> layouts{balanced(space_, setting, replicas)};
  if (setting.schedule.virtual_stages == 1) return layouts;
  // Of what is in flight, a device's first stages have most: later ones had better be larger.
  for (const double tilt : {0.0, 0.1, 0.3, 0.6}) {
    layouts.push_back(balanced_devices(space_, setting, replicas, tilt));
  }
  return layouts;
}

/// A balanced pipeline that fits.
void ColumnSearch::propose(Branch& branch) {
  const std::vector<int> replicas(static_cast<std::size_t>(*branch.setting.depth), 1);
  FastClock clock(space_, branch.setting);
  judge_.effort().spend(std::int64_t{60} * *branch.setting.depth * branch.setting.microbatches *
                        branch.setting.schedule.virtual_stages);
  if (clock.order_for(replicas) == nullptr) {
    branch.least = never;  // the schedule refuses the shape: there are no such plans
    return;
  }
  for (const Layout& layout : proposals(branch.setting, replicas)) {
    for (const auto& fitting : {made_to_fit(clock, branch.setting, layout),
                                recomputed_to_fit(clock, space_, branch.setting, layout)}) {
      if (!fitting || !is_allowed(space_, branch.setting, *fitting)) continue;
      const Time step = clock.step(*fitting);
      if (step >= branch.step) continue;
      branch.step = step;
      branch.layout = *fitting;
    }
  }
  if (branch.step < judge_.limit()) {
    judge_.consider_once(clock, branch.setting, branch.layout);
  }
}

/// With so much of the effort at most.
void ColumnSearch::improve(Branch& branch, std::int64_t most) {
  FastClock clock(space_, branch.setting);
  if (branch.step < never) {
    Effort part{.left = most};
    branch.layout =
        stagecraft::improve(clock, space_, branch.setting, std::move(branch.layout), part);
    branch.step = clock.step(branch.layout);
    judge_.effort().spend(most - part.left);
    judge_.consider_once(clock, branch.setting, branch.layout);
  }
  if (is_chain(branch.setting)) narrow(branch, clock);
}

/// Raises the bound until it meets the best plan, or until what is left is a plan to try.
void ColumnSearch::narrow(Branch& branch, FastClock& clock) {
  ChainBounds bounds(space_, branch.setting);
  const int depth = *branch.setting.depth;
  const auto probe = [&](Time limit) {
    judge_.effort().spend(std::int64_t{4} * depth * space_.layers() * space_.layers() / depth *
                          space_.layers() / 4);
    if (!bounds.probe(limit)) return false;
    judge_.consider_once(clock, branch.setting, bounds.best_chain(depth));
    return true;
  };
  Time high = std::min(judge_.limit(), never - 1);
  if (!probe(high)) {
    branch.least = high + 1;
    return;
  }
  while (!stops() && is_open(branch)) {
    high = std::min(high, judge_.limit());
    if (high - branch.least <= high / narrow_parts) break;
    const Time middle = branch.least + (high - branch.least) / 2;
    if (probe(middle)) {
      high = middle;
    } else {
      branch.least = middle + 1;
    }
  }
}

/// Takes a layout that may fit, if it is the branch's best so far.
void ColumnSearch::consider(Branch& branch, FastClock& clock, const Layout& layout) {
  if (!may_fit(clock, layout) || !is_allowed(space_, branch.setting, layout)) return;
  const Time step = clock.step(layout);
  if (step >= branch.step) return;
  branch.step = step;
  branch.layout = layout;
  if (step <= judge_.limit()) judge_.consider_once(clock, branch.setting, layout);
}

/// Raises the bound by paths, in so many rounds; the layouts it comes across are tried.
void ColumnSearch::raise(Branch& branch, int rounds) {
  FastClock clock(space_, branch.setting);
  const std::vector<int> replicas(static_cast<std::size_t>(*branch.setting.depth), 1);
  const TimedOrder* order = clock.order_for(replicas);
  if (order == nullptr) return;
  const Time limit = std::min(judge_.limit(), never - 1);
  PathBound bound(space_, branch.setting, *order, limit, branch.most_layers);
  if (branch.step < never) bound.start_from(branch.layout);
  const auto visit = [&](const Layout& layout) { consider(branch, clock, layout); };
  judge_.effort().spend(bound.raise(rounds, limit, visit) * bound.steps_per_round());
  branch.least = std::max(branch.least, bound.bound());
}

/// Raises the bound to what whole blocks allow, where the layers are blocks.
void ColumnSearch::pack(Branch& branch) {
  if (!BlockPacking::applies(space_, branch.setting)) return;
  FastClock clock(space_, branch.setting);
  const std::vector<int> replicas(static_cast<std::size_t>(*branch.setting.depth), 1);
  const TimedOrder* order = clock.order_for(replicas);
  if (order == nullptr) return;
  const BlockPacking packing(space_, branch.setting, *order, std::min(judge_.limit(), never - 1));
  judge_.effort().spend(20'000);
  branch.least = std::max(branch.least, packing.bound());
  branch.most_layers = packing.most_layers();
  if (packing.layout()) consider(branch, clock, *packing.layout());
}

void ColumnSearch::search(const std::function<void()>& report) {
  std::stable_sort(branches_.begin(), branches_.end(),
                   [](const Branch& a, const Branch& b) { return a.least < b.least; });
  int turn = 0;
  for (Branch& branch : branches_) {
    if (stops() || !is_open(branch)) break;
    propose(branch);
    if (++turn % 64 == 0) report();
  }
  // The best few first: what they reach rules others out.
  constexpr std::size_t most_early = 8;
  const std::vector<Branch*> early = open_branches();
  for (std::size_t i = 0; i < std::min(early.size(), most_early) && !stops(); ++i) {
    improve(*early[i], judge_.effort().left / 32);
  }
  report();
  for (const int rounds : {3, 30, 120, 1000}) {
    if (rounds > 120 && !control_.thorough) break;
    for (Branch* branch : open_branches()) {
      if (stops() || gap() <= control_.gap) break;
      if (is_open(*branch) && rounds > 3) pack(*branch);
      if (is_open(*branch)) raise(*branch, rounds);
      if (++turn % 64 == 0) report();
    }
  }
  for (Branch* branch : open_branches()) {
    if (stops() || gap() <= control_.gap) break;
    if (!is_open(*branch)) continue;
    improve(*branch, judge_.effort().left / 4);
    report();
  }
}

/// By what they promise; the bound decides between equals.
std::vector<ColumnSearch::Branch*> ColumnSearch::open_branches() {
  std::vector<Branch*> open;
  for (Branch& branch : branches_) {
    if (is_open(branch)) open.push_back(&branch);
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const Branch* a, const Branch* b) { return a->step < b->step; });
  return open;
}

}  // namespace stagecraft
