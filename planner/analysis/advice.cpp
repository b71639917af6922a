#include "planner/analysis/advice.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <set>

#include "planner/analysis/frameworks.hpp"
#include "planner/analysis/stage_recomputation.hpp"
#include "planner/costs/device_limits.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/space/workers.hpp"
#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// What is shorter by less is no advice.
constexpr double least_gain = 0.001;
/// Pairs, and edits behind others, that are put on the clock; the rest promise less.
constexpr std::size_t most_pairs = 48;
/// Megatron-LM's own size of a bucket, 40 million gradients in fp32; torch's, in MiB.
constexpr std::string_view megatron_bucket = "160MB";
constexpr std::string_view torch_bucket = "25MiB";

/// Schedules to try where the target has all: with gradients exact, and no copies of the model.
constexpr std::array tried_schedules{"1f1b",  "interleaved",    "looped-bfs", "zb-h1",
                                     "zb-h2", "interleaved-zb", "zb-v",       "gpipe"};

/// By key, so that each is set once; a later one takes an earlier one's place.
using ChangeSet = std::map<std::string, std::string>;

std::vector<Change> as_changes(const ChangeSet& set) {
  std::vector<Change> changes;
  for (const auto& [key, value] : set) changes.push_back({key, value});
  return changes;
}

/// The numbers of a plan whose stages are all alike.
struct Numbers {
  int pipeline = 1, virtual_stages = 1, data = 1, tensor = 1, context = 1, expert = 1;
  std::int64_t samples = 1;  ///< per microbatch and replica
};

std::optional<Numbers> numbers_of(const Plan& plan) {
  Numbers numbers{.pipeline = pipeline_devices(plan),
                  .virtual_stages = plan.schedule.virtual_stages,
                  .data = static_cast<int>(plan.stages.front().devices.size()),
                  .tensor = tensor_degree(plan),
                  .context = plan.parallelism.context,
                  .expert = plan.parallelism.expert,
                  .samples = plan.batch.microbatch};
  for (const Stage& stage : plan.stages) {
    if (static_cast<int>(stage.devices.size()) != numbers.data) return {};
    for (const auto& peers : stage.devices) {
      if (static_cast<int>(peers.size()) != numbers.tensor * numbers.context) return {};
    }
  }
  if (plan.replicas == ReplicaPolicy::split) {
    if (plan.batch.microbatch % numbers.data != 0) return {};
    numbers.samples /= numbers.data;
  }
  return numbers;
}

/// Collects the edits of one plan that are worth a try.
class Edits {
 public:
  Edits(const LoadedPlan& loaded, const Target* target)
      : plan_(loaded.plan),
        model_(loaded.profile.model),
        cluster_(loaded.cluster),
        target_(target) {
    add_recompute();
    add_training();
    add_schedules();
    const auto numbers = numbers_of(plan_);
    if (!numbers) return;
    numbers_ = *numbers;
    add_virtual_stages();
    add_degrees();
    add_samples();
    add_layout();
  }

  const std::vector<ChangeSet>& all() const { return edits_; }

 private:
  void add(ChangeSet set) { edits_.push_back(std::move(set)); }

  bool has_blocks() const { return model_.transformer.has_value(); }
  int blocks() const {
    return has_blocks() ? decoder_layers(model_).size() : static_cast<int>(model_.layers.size());
  }

  void add_recompute() {
    if (find_schedule(plan_.schedule.name).generate == inference) return;
    const auto now = recompute_of_all(plan_, model_);
    for (const std::string_view what : {"none", "selective", "blocks", "full"}) {
      if (what == now || (!has_blocks() && (what == "selective" || what == "blocks"))) continue;
      add({{"recompute", std::string(what)}});
    }
  }

  /// What is the same on every device, whatever the degrees.
  void add_training() {
    const bool has_replicas = std::ranges::any_of(
        plan_.stages, [](const Stage& stage) { return stage.devices.size() > 1; });
    if (find_schedule(plan_.schedule.name).generate == inference) return;
    if (has_replicas || plan_.parallelism.context > 1) {
      for (const Sharding sharding :
           {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
        if (sharding != plan_.optimizer.sharding)
          add({{"sharding", std::string(to_string(sharding))}});
      }
      const bool is_megatron = target_ != nullptr && target_->gradient_buckets;
      add({{"gradient-bucket", plan_.optimizer.gradient_bucket > 0
                                   ? "off"
                                   : std::string(is_megatron ? megatron_bucket : torch_bucket)}});
    }
    if (has_blocks() && tensor_degree(plan_) > 1)
      add({{"sp", plan_.parallelism.sequence ? "off" : "on"}});
  }

  void add_schedules() {
    const StagePlacement placement = find_schedule(plan_.schedule.name).placement;
    if (placement == StagePlacement::bidirectional) return;
    if (pipeline_devices(plan_) < 2) return;
    for (const std::string_view name : tried_schedules) {
      if (name == plan_.schedule.name || name == "interleaved") continue;  // see virtual stages
      if (target_ != nullptr && !has_schedule(*target_, name)) continue;
      const StagePlacement other = find_schedule(name).placement;
      const std::string stages =
          other == StagePlacement::linear ? "1"
          : other == StagePlacement::loop && plan_.schedule.virtual_stages > 1
              ? std::to_string(plan_.schedule.virtual_stages)
              : "2";
      add({{"schedule", std::string(name)}, {"vpp", stages}});
      add_even({{"schedule", std::string(name)}, {"vpp", stages}},
               pipeline_devices(plan_) * std::stoi(stages));
    }
  }

  /// The same with as many blocks in each stage, where that goes up.
  void add_even(ChangeSet set, int stages) {
    if (!has_blocks() || stages < 2 || blocks() % stages != 0) return;
    set["layers"] = "even";
    add(std::move(set));
  }

  /// With cuts for equal time, and even ones.
  void add_both(const ChangeSet& set, int stages) {
    if (stages <= static_cast<int>(model_.layers.size())) add(set);
    add_even(set, stages);
  }

  void add_virtual_stages() {
    const bool is_plain = plan_.schedule.name == "1f1b" || plan_.schedule.name == "interleaved";
    if (numbers_.pipeline < 2 || !is_plain) return;
    if (target_ != nullptr && !has_schedule(*target_, "interleaved")) return;
    constexpr int most = 12;
    for (int count = 2; count <= most; ++count) {
      const int stages = numbers_.pipeline * count;
      const bool is_even = has_blocks() && blocks() % stages == 0;
      if (count == numbers_.virtual_stages || stages > blocks()) continue;
      if (!is_even && count != 2 && count != 4) continue;
      const ChangeSet set{{"schedule", "interleaved"}, {"vpp", std::to_string(count)}};
      if (is_even) {
        add_even(set, stages);
      } else {
        add(set);
      }
    }
  }

  /// One degree up or down by a factor, replicas take the rest; or one for another.
  void add_degrees() {
    struct Degree {
      const char* key;
      int now;
    };
    const std::array degrees{Degree{"tp", numbers_.tensor}, Degree{"pp", numbers_.pipeline},
                             Degree{"cp", numbers_.context}};
    const auto may_grow = [&](const Degree& degree) {
      const bool is_pipeline = degree.key == std::string_view("pp");
      return is_pipeline || has_blocks();
    };
    for (const Degree& degree : degrees) {
      for (const int factor : {2, 4}) {
        if (degree.now % factor == 0) add_degree({{degree.key, of(degree.now / factor)}});
        if (may_grow(degree)) add_degree({{degree.key, of(degree.now * factor)}});
      }
      for (const Degree& other : degrees) {
        if (degree.key == other.key || !may_grow(other)) continue;
        for (const int factor : {2, 4}) {
          if (degree.now % factor != 0) continue;
          add_degree({{degree.key, of(degree.now / factor)},
                      {other.key, of(other.now * factor)},
                      {"dp", of(numbers_.data)}});
        }
      }
    }
    if (!has_blocks() || !model_.transformer->experts) return;
    if (numbers_.expert % 2 == 0) add({{"ep", of(numbers_.expert / 2)}});
    add({{"ep", of(numbers_.expert * 2)}});
  }

  static std::string of(int number) { return std::to_string(number); }

  /// A pipeline of one device has no virtual stages.
  void add_degree(ChangeSet set) {
    const auto pipeline = set.find("pp");
    const int ranks = pipeline == set.end() ? numbers_.pipeline : std::stoi(pipeline->second);
    int count = numbers_.virtual_stages;
    if (ranks == 1 && count > 1) {
      set["schedule"] = "1f1b";
      set["vpp"] = "1";
      count = 1;
    }
    if (pipeline == set.end()) return add(std::move(set));
    // As many stages in all as there were: the same cuts on fewer devices.
    const int stages = numbers_.pipeline * numbers_.virtual_stages;
    if (plan_.schedule.name == "interleaved" && ranks > 1 && stages % ranks == 0 &&
        stages / ranks > 1 && stages / ranks != count) {
      ChangeSet same = set;
      same["vpp"] = of(stages / ranks);
      add(std::move(same));
    }
    add_both(set, ranks * count);
  }

  void add_samples() {
    const std::int64_t now = numbers_.samples;
    for (const std::int64_t factor : {2, 4}) {
      add({{"mbs", std::to_string(now * factor)}});
      if (now % factor == 0) add({{"mbs", std::to_string(now / factor)}});
    }
  }

  void add_layout() {
    const int stages = static_cast<int>(plan_.stages.size());
    if (stages < 2) return;
    add({{"layers", "balanced"}});
    add_even({}, stages);
    if (numbers_.data > 1 && numbers_.pipeline > 1 && cluster_.levels.size() > 1) {
      for (const char* order : {"tp-cp-pp-dp", "tp-cp-dp-pp"}) add({{"order", order}});
    }
  }

  const Plan& plan_;
  const Model& model_;
  const Cluster& cluster_;
  const Target* target_;
  Numbers numbers_;
  std::vector<ChangeSet> edits_;
};

/// What of a plan goes by the key, as a text that is equal where it is.
std::string value_of(std::string_view key, const Plan& plan) {
  const auto of_stages = [&](auto part) {
    std::string text;
    for (const Stage& stage : plan.stages) text += concat(part(stage), " ");
    return text;
  };
  const Parallelism& parallelism = plan.parallelism;
  if (key == "batch") return std::to_string(plan.batch.global);
  if (key == "microbatch") return std::to_string(plan.batch.microbatch);
  if (key == "mbs") {
    const auto numbers = numbers_of(plan);
    return std::to_string(numbers ? numbers->samples : plan.batch.microbatch);
  }
  if (key == "sequence") return std::to_string(plan.batch.sequence);
  if (key == "pp") return std::to_string(pipeline_devices(plan));
  if (key == "vpp") return std::to_string(plan.schedule.virtual_stages);
  if (key == "tp") return std::to_string(tensor_degree(plan));
  if (key == "cp") return std::to_string(parallelism.context);
  if (key == "ep") return std::to_string(parallelism.expert);
  if (key == "dp") {
    const std::vector<int> replicas = replicas_of_stages(plan);
    return concat(*std::ranges::min_element(replicas), " ", *std::ranges::max_element(replicas));
  }
  if (key == "sp") return parallelism.sequence ? "on" : "off";
  if (key == "schedule") return plan.schedule.name;
  if (key == "sharding") return std::string(to_string(plan.optimizer.sharding));
  if (key == "precision") return std::string(to_string(plan.precision));
  if (key == "gradient-bucket") return std::to_string(plan.optimizer.gradient_bucket);
  if (key == "layers") return of_stages([](const Stage& stage) { return stage.layers.end; });
  if (key == "recompute") {
    std::set<std::string> kinds;
    for (const Stage& stage : plan.stages) {
      kinds.insert(stage.recompute == Recompute::full ? "full" : "");
      for (const Recomputed what : stage.again)
        kinds.insert(what == Recomputed::none ? "" : std::to_string(static_cast<int>(what)));
    }
    kinds.insert("");
    std::string text;
    for (const std::string& kind : kinds) text += kind + " ";
    return text;
  }
  return "";
}

/// Keys as `change_kinds` has them. "order" is told by the changes themselves.
std::vector<std::string> keys_to_keep(const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    std::string key;
    try {
      key = read_change(concat(name, "=1")).key;
    } catch (const Error& error) {
      fail_usage("--keep ", name, ": ", error.message());
    }
    if (key.starts_with("link") || key.starts_with("device"))
      fail_usage("--keep ", name, ": no edit changes the cluster; it names what plans have: tp,pp");
    keys.push_back(key);
  }
  return keys;
}

double part_of_memory(const Prediction& prediction) {
  const FullestDevice fullest = fullest_device(prediction);
  if (!fullest.limit || *fullest.limit <= 0) return 0;
  return static_cast<double>(fullest.peak) / static_cast<double>(*fullest.limit);
}

/// Less is better: what does not fit by how full it is, what fits by its step.
std::pair<double, Duration> rank(const Prediction& prediction) {
  return {prediction.fits ? 0 : part_of_memory(prediction), prediction.step};
}

bool is_better(const AdvisedEdit& a, const AdvisedEdit& b) {
  const auto one = rank(a.prediction), other = rank(b.prediction);
  if (one != other) return one < other;
  if (a.changes.size() != b.changes.size()) return a.changes.size() < b.changes.size();
  return to_string(a.changes) < to_string(b.changes);
}

/// Tries edits of one plan, each of them once.
class Advisor {
 public:
  Advisor(const LoadedPlan& loaded, const AdviceQuestion& question)
      : question_(question), keep_(keys_to_keep(question.keep)), workers_(question.threads) {
    plain_ = loaded;
    plain_.plan.predicted.reset();
    plain_.plan.search.reset();
    if (question.target != nullptr) known_reasons_ = reasons_against(*question.target, plain_);
  }

  Advice answer() {
    Advice advice;
    advice.now = predict(plain_.plan, plain_.profile, plain_.cluster);
    now_ = advice.now.step;
    const Edits edits(plain_, question_.target);
    std::vector<ChangeSet> sets = edits.all();
    std::erase_if(sets, is_balanced);
    const std::vector<AdvisedEdit> singles = tried(sets);
    for (const AdvisedEdit& edit : singles) {
      if (is_advice(edit, advice.now)) advice.singles.push_back(edit);
    }
    cut(advice.singles);
    add_flags(advice.singles);
    advice.tried = tried_;
    if (question_.singles_found) question_.singles_found(advice);
    std::vector<ChangeSet> further = pairs_of(singles, advice.now);
    for (const ChangeSet& set : edits.all()) {
      if (is_balanced(set)) further.push_back(set);
    }
    std::vector<AdvisedEdit> pairs = tried(further);
    std::ranges::sort(pairs, is_better);
    std::optional<AdvisedEdit> best = best_of(singles, pairs);
    for (const AdvisedEdit& edit : pairs) {
      if (is_advice(edit, advice.now) && beats_its_parts(edit, singles))
        advice.pairs.push_back(edit);
    }
    cut(advice.pairs);
    add_flags(advice.pairs);
    if (best && question_.depth > 2) add_together(advice, std::move(*best));
    if (!advice.now.fits && advice.singles.empty() && advice.pairs.empty() && !advice.together)
      advice.closest = closest_;
    advice.tried = tried_;
    return advice;
  }

 private:
  /// Those that go, in their order; what makes a plan that another one made before is left out.
  std::vector<AdvisedEdit> tried(const std::vector<ChangeSet>& sets) {
    std::vector<std::optional<AdvisedEdit>> found(sets.size());
    std::atomic<int> done{0};
    const int all = static_cast<int>(sets.size());
    workers_.run(all, [&](int worker, int task) {
      if (question_.stop.stop_requested()) return;
      found[index(task)] = evaluate(as_changes(sets[index(task)]));
      ++done;
      if (worker == 0 && question_.progress) question_.progress(done, all);
    });
    std::vector<AdvisedEdit> edits;
    for (auto& edit : found) {
      if (!edit) continue;
      ++tried_;
      const auto same = std::ranges::find(edits, edit->plan, &AdvisedEdit::plan);
      if (same != edits.end()) {
        if (edit->changes.size() < same->changes.size()) *same = std::move(*edit);
        continue;
      }
      edits.push_back(std::move(*edit));
    }
    return edits;
  }

  /// Whether layers are moved one by one, which takes long.
  static bool is_balanced(const ChangeSet& set) {
    const auto layers = set.find("layers");
    return layers != set.end() && layers->second == "balanced";
  }

  /// Nothing for what the plan, the schedule or the target does not allow, and what changes
  /// nothing.
  std::optional<AdvisedEdit> evaluate(const std::vector<Change>& changes) const {
    const Abandonable may_be_given_up;
    try {
      const ChangedPlan changed = stagecraft::changed(plain_, changes);
      const LoadedPlan& after = changed.loaded;
      if (after.plan == plain_.plan || !keeps(changes, after.plan)) return {};
      if (!is_run(after)) return {};
      AdvisedEdit edit{.changes = changes,
                       .flags = {},
                       .plan = after.plan,
                       .prediction = predict(after.plan, after.profile, after.cluster)};
      edit.faster_by = 1 - seconds(edit.prediction.step) / seconds(now_);
      return edit;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::bug) throw;
      return {};
    }
  }

  bool keeps(const std::vector<Change>& changes, const Plan& plan) const {
    return std::ranges::all_of(keep_, [&](const std::string& key) {
      const bool is_said = std::ranges::find(changes, key, &Change::key) != changes.end();
      if (key == "order") return !is_said;
      return value_of(key, plan) == value_of(key, plain_.plan);
    });
  }

  /// What stands in the way of the plan as it is, a script's own oddities, is no reason.
  bool is_run(const LoadedPlan& after) const {
    if (question_.target == nullptr) return true;
    return std::ranges::all_of(
        reasons_against(*question_.target, after), [&](const std::string& reason) {
          return std::ranges::find(known_reasons_, reason) != known_reasons_.end();
        });
  }

  static bool is_advice(const AdvisedEdit& edit, const Prediction& now) {
    if (!edit.prediction.fits) return false;
    return !now.fits || edit.faster_by >= least_gain;
  }

  void cut(std::vector<AdvisedEdit>& edits) const {
    std::ranges::sort(edits, is_better);
    // Other ways to the same step in as much memory tell nothing more.
    const auto is_same = [](const AdvisedEdit& a, const AdvisedEdit& b) {
      return a.prediction.step == b.prediction.step &&
             fullest_device(a.prediction).peak == fullest_device(b.prediction).peak;
    };
    edits.erase(std::unique(edits.begin(), edits.end(), is_same), edits.end());
    if (edits.size() > question_.top) edits.resize(question_.top);
  }

  void add_flags(std::vector<AdvisedEdit>& edits) const {
    for (AdvisedEdit& edit : edits) add_flags(edit);
  }
  void add_flags(AdvisedEdit& edit) const {
    LoadedPlan after = plain_;
    after.plan = edit.plan;
    edit.flags = flag_edits(question_.target, plain_, after, edit.changes);
    if (!question_.script.empty()) edit.flags = as_in_script(edit.flags, question_.script);
  }

  /// Nothing where they say different things.
  static std::optional<ChangeSet> merged(const std::vector<Change>& a,
                                         const std::vector<Change>& b) {
    ChangeSet set;
    for (const Change& change : a) set[change.key] = change.value;
    for (const Change& change : b) {
      const auto [place, is_new] = set.emplace(change.key, change.value);
      if (!is_new && place->second != change.value) return {};
    }
    return set;
  }

  /// The pairs that promise most, as if gains and memory multiplied.
  std::vector<ChangeSet> pairs_of(const std::vector<AdvisedEdit>& singles,
                                  const Prediction& now) const {
    struct Promise {
      double over = 0, step = 0;
      ChangeSet changes;
    };
    const double full = std::max(part_of_memory(now), 1e-9);
    std::vector<Promise> promises;
    std::set<ChangeSet> known;
    for (std::size_t a = 0; a < singles.size(); ++a) {
      for (std::size_t b = a + 1; b < singles.size(); ++b) {
        auto set = merged(singles[a].changes, singles[b].changes);
        if (!set || set->size() <= std::max(singles[a].changes.size(), singles[b].changes.size()) ||
            !known.insert(*set).second)
          continue;
        const auto& one = singles[a].prediction;
        const auto& other = singles[b].prediction;
        const double memory = part_of_memory(one) / full * part_of_memory(other);
        promises.push_back({std::max(0.0, memory - 1.05),
                            seconds(one.step) * seconds(other.step) / seconds(now.step),
                            std::move(*set)});
      }
    }
    std::ranges::stable_sort(promises, [](const Promise& a, const Promise& b) {
      return std::pair(a.over, a.step) < std::pair(b.over, b.step);
    });
    std::vector<ChangeSet> sets;
    for (Promise& promise : promises) {
      if (sets.size() < most_pairs) sets.push_back(std::move(promise.changes));
    }
    return sets;
  }

  /// Whether no edit within it does as well alone.
  static bool beats_its_parts(const AdvisedEdit& pair, const std::vector<AdvisedEdit>& singles) {
    return std::ranges::none_of(singles, [&](const AdvisedEdit& single) {
      const bool is_part = std::ranges::all_of(single.changes, [&](const Change& change) {
        return std::ranges::find(pair.changes, change) != pair.changes.end();
      });
      return is_part && single.prediction.fits &&
             seconds(pair.prediction.step) > (1 - least_gain) * seconds(single.prediction.step);
    });
  }

  static std::optional<AdvisedEdit> best_of(const std::vector<AdvisedEdit>& singles,
                                            const std::vector<AdvisedEdit>& pairs) {
    std::optional<AdvisedEdit> best;
    for (const auto* edits : {&singles, &pairs}) {
      for (const AdvisedEdit& edit : *edits) {
        if (!best || is_better(edit, *best)) best = edit;
      }
    }
    return best;
  }

  /// From the best so far, an edit at a time, each of the plan that the former ones made.
  void add_together(Advice& advice, AdvisedEdit best) {
    const AdvisedEdit first = best;
    for (int edits = 2; edits < question_.depth && !question_.stop.stop_requested(); ++edits) {
      LoadedPlan at = plain_;
      at.plan = best.plan;
      std::vector<ChangeSet> sets;
      std::set<ChangeSet> known;
      const Edits next_edits(at, question_.target);
      for (const ChangeSet& next : next_edits.all()) {
        ChangeSet set;
        for (const Change& change : best.changes) set[change.key] = change.value;
        for (const auto& [key, value] : next) set[key] = value;
        if (is_balanced(next)) continue;
        if (known.insert(set).second) sets.push_back(std::move(set));
      }
      std::vector<AdvisedEdit> further = tried(sets);
      if (further.empty()) break;
      const auto next = std::ranges::min_element(further, is_better);
      const bool is_gain =
          next->prediction.fits != best.prediction.fits
              ? next->prediction.fits
              : rank(next->prediction) < rank(best.prediction) &&
                    (!best.prediction.fits || seconds(next->prediction.step) <
                                                  (1 - least_gain) * seconds(best.prediction.step));
      if (!is_gain) break;
      best = *next;
    }
    if (!best.prediction.fits) closest_ = best;
    if (best.changes == first.changes || !is_advice(best, advice.now)) return;
    add_flags(best);
    advice.together = std::move(best);
  }

  const AdviceQuestion& question_;
  std::vector<std::string> keep_;
  Workers workers_;
  LoadedPlan plain_;  ///< without prediction and bound, as changed plans are
  std::vector<std::string> known_reasons_;
  Duration now_{1};
  int tried_ = 0;
  std::optional<AdvisedEdit> closest_;
};

}  // namespace

FullestDevice fullest_device(const Prediction& prediction) {
  FullestDevice fullest;
  double most = -1;
  for (std::size_t device = 0; device < prediction.peaks.size(); ++device) {
    const Bytes peak = prediction.peaks[device].bytes;
    const std::optional<Bytes> limit = limit_of(prediction, device);
    const double part = limit && *limit > 0
                            ? static_cast<double>(peak) / static_cast<double>(*limit)
                            : static_cast<double>(peak) * 1e-30;
    if (part <= most) continue;
    most = part;
    fullest = {peak, limit};
  }
  return fullest;
}

Advice advise(const LoadedPlan& loaded, const AdviceQuestion& question) {
  return Advisor(loaded, question).answer();
}

const Target* target_of(const Plan& plan) {
  if (!plan.search || !plan.search->question || plan.search->question->target.empty()) return {};
  return &find_target(plan.search->question->target);
}

}  // namespace stagecraft
