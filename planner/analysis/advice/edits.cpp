#include "planner/analysis/advice/edits.hpp"

#include <algorithm>
#include <array>

#include "planner/analysis/advice/numbers.hpp"
#include "planner/analysis/stage_recomputation.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/problem/defaults.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft::advising {

namespace {

/// Schedules to try where the target has all: with gradients exact, and no copies of the model.
constexpr std::array tried_schedules{"1f1b",  "interleaved",    "looped-bfs", "zb-h1",
                                     "zb-h2", "interleaved-zb", "zb-v",       "gpipe"};

/// Collects the edits of one plan that are worth a try.
class Edits {
 public:
  Edits(const LoadedPlan& loaded, const Target* target)
      : plan_(loaded.plan),
        model_(loaded.profile.model),
        cluster_(loaded.cluster),
        target_(target),
        estimates_(estimates_kernels(loaded.profile)) {
    add_recompute();
    add_training();
    add_schedules();
    const auto numbers = numbers_of(plan_);
    if (!numbers) return;
    numbers_ = *numbers;
    add_virtual_stages();
    add_degrees();
    add_without_pipeline();
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
    if (serves(plan_)) return;
    const auto now = recompute_of_all(plan_, model_);
    for (const std::string_view what : {"none", "selective", "blocks", "full"}) {
      if (what == now || (!has_blocks() && (what == "selective" || what == "blocks"))) continue;
      add({{"recompute", std::string(what)}});
    }
    add_modules_again();
  }

  /// One kind of messages more that run beside kernels, or none.
  void add_overlaps() {
    if (target_ != nullptr && !target_->overlaps) return;
    const MessageOverlap now = plan_.kernels.overlap;
    const Parallelism& parallelism = plan_.parallelism;
    const auto try_out = [&](const MessageOverlap& other) {
      if (other != now) add({{"overlap", std::string(to_string(other))}});
    };
    if (parallelism.sequence && tensor_degree(plan_) > 1) try_out({true, now.experts});
    if (parallelism.expert > 1) try_out({now.tensor, true});
    try_out({});
  }

  /// Modules of Megatron-LM's layers that give back much for little work.
  void add_modules_again() {
    const bool has_them = target_ == nullptr || target_->recompute_modules;
    if (!estimates_ || !is_on_gpus() || !has_them || plan_.kernels.framework != Framework::megatron)
      return;
    const LayerModules known = modules_of(model_);
    LayerModules modules;
    using enum LayerModule;
    for (const LayerModule module : {norms, latent_projections, expert_activation}) {
      if (!known.has(module)) continue;
      modules.add(module);
      if (modules == plan_.kernels.again) continue;
      add({{"recompute", "selective"}, {"recompute-modules", to_string(modules)}});
    }
  }

  /// What is the same on every device, whatever the degrees.
  void add_training() {
    const bool has_replicas = std::ranges::any_of(
        plan_.stages, [](const Stage& stage) { return stage.devices.size() > 1; });
    if (serves(plan_)) return;
    if (has_replicas || plan_.parallelism.context > 1) {
      for (const Sharding sharding :
           {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
        if (sharding != plan_.optimizer.sharding)
          add({{"sharding", std::string(to_string(sharding))}});
      }
      add({{"gradient-bucket", plan_.optimizer.gradient_bucket > 0 ? "off" : "auto"}});
    }
    add_launching();
    if (has_blocks() && tensor_degree(plan_) > 1)
      add({{"sp", plan_.parallelism.sequence ? "off" : "on"}});
  }

  /// Kernels of GPUs are none of what other devices run.
  bool is_on_gpus() const {
    return std::ranges::none_of(
        cluster_.kinds, [](const DeviceKind& kind) { return kind.generic || kind.name == "cpu"; });
  }

  /// What of layers is not measured: how tokens get to experts, and what the host sends at once.
  void add_launching() {
    if (!estimates_ || !is_on_gpus()) return;
    const LayerKernels& kernels = plan_.kernels;
    if (plan_.parallelism.expert > 1 && (target_ == nullptr || target_->dispatchers)) {
      // Racks of NVLink have the one, boxes of eight either.
      const bool is_rack = !cluster_.levels.empty() && cluster_.levels.back().count > 16;
      const Dispatcher other = sends_once(kernels.dispatcher) ? Dispatcher::alltoall
                               : is_rack                      ? Dispatcher::hybridep
                                                              : Dispatcher::deepep;
      add({{"dispatcher", std::string(to_string(other))}});
    }
    if (kernels.graphs == CudaGraphs::none && (target_ == nullptr || target_->cuda_graphs))
      add({{"cuda-graphs", std::string(to_string(CudaGraphs::layers))}});
    if (kernels.framework != Framework::megatron) return;
    add_overlaps();
    for (const FusedLoss loss : {FusedLoss::none, FusedLoss::native, FusedLoss::te}) {
      const bool has_it = loss <= (target_ == nullptr ? FusedLoss::te : target_->fused_loss);
      if (has_it && loss != kernels.fused_loss) add({{"fused-loss", std::string(to_string(loss))}});
    }
    const bool fuses = kernels.router_fusion == RouterFusion::on;
    if (has_experts(model_) && (target_ == nullptr || target_->router_fusion))
      add({{"router-fusion", fuses ? "off" : "on"}});
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
          add_degree({{degree.key, of(degree.now / factor)}, {other.key, of(other.now * factor)}});
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

  /// Replicas that hold parts of the parameters instead of stages: several degrees and the sharding
  /// at once, which no two of the other edits make.
  void add_without_pipeline() {
    if (!has_blocks() || serves(plan_)) return;
    const int devices = numbers_.pipeline * numbers_.data * numbers_.tensor * numbers_.context;
    const int node = cluster_.levels.empty() ? devices : cluster_.levels.back().count;
    for (const Sharding sharding : {Sharding::zero2, Sharding::zero3}) {
      for (const int tensor : {1, 2, 4, 8}) {
        for (const int context : {1, 2, 4, 8}) {
          if (tensor > node || devices % (tensor * context) != 0) continue;
          ChangeSet set;
          if (numbers_.pipeline > 1) set["pp"] = "1";
          if (tensor != numbers_.tensor) set["tp"] = of(tensor);
          if (context != numbers_.context) set["cp"] = of(context);
          if (sharding != plan_.optimizer.sharding) set["sharding"] = to_string(sharding);
          if (numbers_.pipeline > 1 && plan_.schedule.name != "1f1b") {
            set["schedule"] = "1f1b";
            set["vpp"] = "1";
          }
          if (set.size() > 1) add(std::move(set));
        }
      }
    }
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
  bool estimates_;
  Numbers numbers_;
  std::vector<ChangeSet> edits_;
};

}  // namespace

std::vector<ChangeSet> edits_to_try(const LoadedPlan& loaded, const Target* target) {
  return Edits(loaded, target).all();
}

}  // namespace stagecraft::advising
