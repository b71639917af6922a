#include "tools/options/planning_problem.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <set>

#include "planner/costs/exposed_sums.hpp"
#include "planner/plan/sharding_words.hpp"
#include "planner/problem/defaults.hpp"
#include "planner/problem/objective.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "planner/space/target_question.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tools/console.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/degree_choices.hpp"
#include "tools/options/fixed_stages.hpp"
#include "tools/options/memory_options.hpp"

namespace stagecraft {

namespace {

constexpr int default_microbatches = 8;

void set_recompute(Problem& problem, const std::string& text) {
  using enum Recomputed;
  problem.recompute = {Recompute::none, Recompute::full};
  if (text == "layers") problem.recompute_layers = {selective, full};
  if (text == "selective") problem.recompute_layers = {selective};
  if (text == "none" || text == "selective") problem.recompute = {Recompute::none};
  if (text == "full") problem.recompute = {Recompute::full};
}

/// What selective recomputation does again; without another word it is searched, by layer where no
/// framework does it alike everywhere.
void set_recompute_modules(Problem& problem, const PlanningOptions& options) {
  if (options.recompute_modules.empty()) return;
  if (options.recompute == "none" || options.recompute == "full") {
    fail_usage("--recompute-modules says what selective recomputation does again, and there is ",
               "none with --recompute ", options.recompute, "; leave one away");
  }
  problem.kernels.again =
      read_named("--recompute-modules", options.recompute_modules, read_layer_modules);
  require_recompute_modules(problem.kernels, problem.profile);
  if (options.recompute == "auto" && options.target.empty())
    problem.recompute_layers = {Recomputed::selective, Recomputed::full};
}

std::optional<int> read_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc{} && end == text.data() + text.size() && number >= 0;
  return is_number ? std::optional(number) : std::nullopt;
}

/// The devices that "8-15", "3" or "node2" names, [first, end).
std::pair<int, int> read_device_range(std::string_view word, const Cluster& cluster) {
  const int all = device_count(cluster);
  const int width = cluster.levels.empty() ? all : cluster.levels.back().count;
  constexpr std::string_view node_word = "node";
  const bool is_node = word.starts_with(node_word);
  const std::size_t dash = is_node ? std::string_view::npos : word.find('-');
  const auto first = read_number(is_node ? word.substr(node_word.size()) : word.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : read_number(word.substr(dash + 1));
  if (!first || !last) {
    fail_usage("--exclude: expected devices as 3, 8-15 or node2, found \"", word, "\"");
  }
  if (is_node && *first >= all / width) {
    fail_usage("--exclude: there is no ", word, "; the cluster has node0 to node", all / width - 1,
               ", of ", width, width == 1 ? " device" : " devices", " each");
  }
  if (is_node) return {*first * width, (*first + 1) * width};
  if (*first > *last || *last >= all) {
    fail_usage("--exclude: there are no devices ", word, "; the cluster has 0 to ", all - 1);
  }
  return {*first, *last + 1};
}

/// "3,8-15,node2", ascending. Throws Error (usage) if no device is left.
std::vector<int> read_excluded(const std::string& text, const Cluster& cluster) {
  std::set<int> devices;
  for (const std::string& word : read_words("--exclude", text)) {
    const auto [first, end] = read_device_range(word, cluster);
    for (int device = first; device < end; ++device) devices.insert(device);
  }
  if (static_cast<int>(devices.size()) == device_count(cluster)) {
    fail_usage("--exclude: ", text, " are all devices of the cluster; a plan needs at least one");
  }
  return {devices.begin(), devices.end()};
}

/// "auto", also among names, where it is "all" as well: every one that is worth trying.
std::vector<ScheduleChoice> read_schedules(const std::string& text, const Problem& problem) {
  if (text == "auto" && problem.objective == ObjectiveKind::latency) return {{.name = "inference"}};
  std::vector<ScheduleChoice> choices;
  for (const std::string& word : read_words("--schedule", text)) {
    for (const ScheduleChoice& choice : word == "auto" || word == "all"
                                            ? usual_schedule_choices(problem)
                                            : schedule_choices(word)) {
      if (std::find(choices.begin(), choices.end(), choice) == choices.end())
        choices.push_back(choice);
    }
  }
  return choices;
}

/// Powers of two that divide the batch, or what the profile measured, or what the user said.
std::vector<std::int64_t> microbatch_choices(const PlanningOptions& options, const Profile& profile,
                                             std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  if (!options.samples_per_replica.empty()) {
    if (options.microbatch != "auto")
      fail_usage("--mbs (of each replica) and --microbatch (of all) say the same twice");
    sizes = read_integers("--mbs", options.samples_per_replica, 1, batch);
  } else if (options.microbatch != "auto") {
    sizes = read_integers("--microbatch", options.microbatch, 1, batch);
  } else if (!profile.entries.empty()) {
    for (const ProfileEntry& entry : profile.entries) sizes.push_back(entry.setting.microbatch);
  } else {
    for (std::int64_t size = 1; size <= batch; size *= 2) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::erase_if(sizes, [&](std::int64_t size) { return size > batch || batch % size != 0; });
  if (sizes.empty()) {
    fail_usage(options.samples_per_replica.empty() ? "--microbatch" : "--mbs",
               ": no size divides the batch of ", batch,
               "; choose --batch as a multiple of a measured or given microbatch");
  }
  return sizes;
}

/// What the user said, what the profile measured, or powers of two up to what the innermost links
/// join. CPUs do without: nothing carries such a plan out there yet.
std::vector<int> tensor_parallel_choices(const PlanningOptions& options, const Profile& profile,
                                         const Cluster& cluster) {
  std::vector<int> degrees;
  if (options.tensor_parallel != "auto") {
    constexpr int most = 1024;
    for (const std::int64_t degree :
         read_integers("--tensor-parallel", options.tensor_parallel, 1, most)) {
      degrees.push_back(static_cast<int>(degree));
    }
  } else if (!profile.entries.empty()) {
    for (const ProfileEntry& entry : profile.entries) {
      degrees.push_back(entry.setting.tensor_parallel);
    }
  } else {
    const bool may_split = profile.model.transformer && cluster.kinds.front().name != "cpu";
    const int width = may_split && !cluster.levels.empty() ? cluster.levels.back().count : 1;
    for (int degree = 1; degree <= width; degree *= 2) degrees.push_back(degree);
  }
  std::sort(degrees.begin(), degrees.end());
  degrees.erase(std::unique(degrees.begin(), degrees.end()), degrees.end());
  return degrees;
}

/// As given, as the file says, or eight of the largest microbatch.
std::int64_t batch_for(const PlanningOptions& options, const Profile& profile) {
  if (options.batch > 0) return options.batch;
  const bool has_own = profile.devices && profile.devices->microbatches > 0;
  return usual_microbatch(profile) *
         (has_own ? profile.devices->microbatches : default_microbatches);
}

std::vector<DeviceKind> kinds_of(const Problem& problem) {
  return kinds_in_use(problem.cluster, problem.devices, problem.excluded);
}

/// How layers run whose costs are estimated. Precision and devices are set.
void set_kernels(Problem& problem, const PlanningOptions& options) {
  if (!options.kernels.empty()) {
    problem.kernels.framework = read_named("--kernels", options.kernels, read_framework);
    require_estimated_kernels(problem.profile);
  }
  if (!options.dispatcher.empty()) {
    problem.kernels.dispatcher = read_named("--dispatcher", options.dispatcher, read_dispatcher);
    require_experts(problem.profile);
  }
  if (!options.cuda_graphs.empty()) {
    problem.kernels.graphs = read_named("--cuda-graphs", options.cuda_graphs, read_cuda_graphs);
    require_estimated_kernels(problem.profile);
  }
  if (!options.fp8_recipe.empty()) {
    problem.kernels.float8_recipe =
        read_named("--fp8-recipe", options.fp8_recipe, read_float8_recipe);
    require_estimated_kernels(problem.profile);
    require_float8_recipe(problem.kernels, problem.precision, kinds_of(problem));
    forget_usual_float8_recipe(problem.kernels, kinds_of(problem));
  }
  if (!options.fused_loss.empty()) {
    problem.kernels.fused_loss = read_named("--fused-loss", options.fused_loss, read_fused_loss);
    require_estimated_kernels(problem.profile);
    require_fused_loss(problem.kernels, problem.precision);
  }
  if (!options.router_fusion.empty()) {
    problem.kernels.router_fusion =
        read_named("--router-fusion", options.router_fusion, read_router_fusion);
    require_estimated_kernels(problem.profile);
    require_router_fusion(problem.kernels, problem.profile);
  }
  if (!options.overlap.empty()) {
    problem.kernels.overlap = read_named("--overlap", options.overlap, read_message_overlap);
    require_overlap(problem.kernels, problem.profile, kinds_of(problem));
  }
}

/// Where a schedule that never drains has too few microbatches for all devices.
std::string why_few_devices(const Problem& problem) {
  auto devices = static_cast<std::int64_t>(devices_in_use(problem).size());
  if (problem.straight && problem.max_stages)
    devices = std::min<std::int64_t>(devices, *problem.max_stages);
  const std::int64_t size = *std::ranges::min_element(problem.microbatches);
  const std::int64_t microbatches = problem.global_batch / size;
  for (const ScheduleChoice& choice : problem.schedules) {
    if (find_schedule(choice.name).weights == WeightPolicy::flush) continue;
    if (microbatches >= 2 * devices) return "";
    return concat(choice.name, " takes twice as many microbatches as devices to show its steady ",
                  "state: ", microbatches, " are enough for ", microbatches / 2, ", --batch ",
                  2 * devices * size, " for all ", devices);
  }
  return "";
}

/// Whether "auto" is among the schedules asked for.
bool tries_usual_schedules(const PlanningOptions& options) {
  const std::vector<std::string> words = split(options.schedule, ',');
  return std::ranges::count(words, "auto") > 0;
}

/// Of optimizer states where costs of a transformer are estimated: recipes of people have it. Plans
/// that shard more are tried, too. Frameworks have usual ones of their own.
Sharding usual_sharding(const Problem& problem) {
  return may_share_layers(problem) ? Sharding::zero1 : Sharding::none;
}

/// Stages of each pipeline device, as asked for: of the schedules there are those that have so
/// many.
void set_virtual_stages(Problem& problem, int count, bool said) {
  if (count == 0) return;
  const std::vector<ScheduleChoice> before = problem.schedules;
  std::erase_if(problem.schedules,
                [&](const ScheduleChoice& choice) { return choice.virtual_stages != count; });
  const auto has = [&](std::string_view name) {
    const bool is_tried = std::ranges::any_of(
        before, [&](const ScheduleChoice& choice) { return choice.name == name; });
    return is_tried && (problem.target == nullptr || has_schedule(*problem.target, name));
  };
  for (const char* name : {"interleaved", "looped-bfs"}) {
    const bool is_there = std::ranges::any_of(
        problem.schedules, [&](const ScheduleChoice& choice) { return choice.name == name; });
    if (count > 1 && has(name) && !is_there)
      problem.schedules.push_back({.name = name, .virtual_stages = count});
  }
  if (!problem.schedules.empty()) return;
  std::string names;
  for (const ScheduleChoice& choice : before) {
    const std::string word = concat(choice.name, " (", choice.virtual_stages, ")");
    if (names.find(word) == std::string::npos) names += concat(names.empty() ? "" : ", ", word);
  }
  fail_usage("--vpp ", count, ": ", said ? "the schedules given" : "the schedules to try",
             " have other numbers of stages per device: ", names);
}

/// Each replica has a microbatch of its own, or an equal part of one for all of them.
void require_samples_for_all(const Problem& problem, const PlanningOptions& options) {
  const std::int64_t replicas = options.replicas;
  const auto fits = [&](std::int64_t size) {
    return size % replicas == 0 ||
           (problem.microbatch_per_copy && problem.global_batch % (size * replicas) == 0);
  };
  if (problem.pinned.samples_per_replica || std::ranges::any_of(problem.microbatches, fits)) return;
  const bool of_batch = problem.microbatch_per_copy;
  const std::int64_t samples = of_batch ? problem.global_batch : problem.microbatches.front();
  const std::string_view what = of_batch ? "batch" : "microbatch";
  fail_usage("--dp ", replicas, ": a ", what, " of ", samples, " cannot be divided evenly among ",
             replicas, " replicas; choose --", what, " as a multiple of ", replicas,
             ", or another --dp");
}

/// Degrees that all stages have. Throws Error (usage) for more devices than there are.
void set_pins(Problem& problem, const PlanningOptions& options) {
  if (options.pipeline > 0) problem.pinned.pipeline = options.pipeline;
  if (options.replicas > 0) problem.pinned.replicas = options.replicas;
  problem.pinned.samples_per_replica = !options.samples_per_replica.empty();
  if (!problem.pinned.any()) return;
  if (problem.straight && options.replicas > 1)
    fail_usage("--straight does not replicate stages, and --dp ", options.replicas, " does");
  const int least_tensor = *std::ranges::min_element(problem.tensor_parallel);
  int least_context = problem.parallelism.context;
  for (const Parallelism& other : problem.other_parallelism)
    least_context = std::min(least_context, other.context);
  const std::int64_t needed = std::int64_t{std::max(options.pipeline, 1)} *
                              std::max(options.replicas, 1) * least_tensor * least_context;
  const int there = problem.devices.value_or(available_devices(problem));
  if (needed > there) {
    fail_usage("tp ", least_tensor, " x cp ", least_context, " x pp ",
               std::max(options.pipeline, 1), " x dp ", std::max(options.replicas, 1), " = ",
               needed, " devices are more than the ", there, " there are");
  }
  if (options.replicas > 1) require_samples_for_all(problem, options);
  if (problem.pinned.samples_per_replica) {
    const std::int64_t replicas = std::max(options.replicas, 1);
    const auto fits = [&](std::int64_t samples) {
      return problem.global_batch % (samples * replicas) == 0;
    };
    if (std::ranges::none_of(problem.microbatches, fits)) {
      fail_usage("--mbs ", options.samples_per_replica, ": a batch of ", problem.global_batch,
                 " is no whole number of microbatches of so many samples on each of ", replicas,
                 " replicas; choose --gbs as a multiple");
    }
  }
}

std::string target_help() {
  std::string names;
  for (const Target* target : newest_targets())
    names += concat(names.empty() ? "" : ", ", target->name);
  return "Restrict the search to plans that this framework can run, which `export` writes for "
         "it: " +
         names + "; NAME@VERSION for a version";
}

}  // namespace

SaidOfPlans said_of_plans(const PlanningOptions& options) {
  return {.schedule = options.schedule != "auto",
          .sharding = options.sharding != "auto",
          .kernels = !options.kernels.empty(),
          .overlap = !options.overlap.empty(),
          .sequence_parallel = options.sequence_parallel != "auto",
          .context_parallel = options.context_parallel != "auto",
          .tensor_parallel = options.tensor_parallel != "auto",
          .expert_parallel = options.expert_parallel != "auto",
          .expert_tensor_parallel = options.expert_tensor_parallel != "auto"};
}

namespace {

/// How many hold each gradient is not known before the plan is, and matters for few.
Bytes gradient_bucket_of(const PlanningOptions& options, Framework kernels) {
  if (options.gradient_bucket.empty()) return 0;
  if (options.gradient_bucket == "auto") return usual_gradient_bucket(kernels, 1);
  return read_bytes("--gradient-bucket", options.gradient_bucket);
}

}  // namespace

std::vector<std::string> notes_on(const PlanningOptions& options, const Problem& problem) {
  std::vector<std::string> notes;
  notes.push_back(why_single_devices(problem.cluster_name));
  if (options.precision.empty()) {
    notes.push_back(why_usual_precision(problem.profile, kinds_of(problem)));
  }
  notes.push_back(why_no_memory_limit(kinds_of(problem), read_memory_part(options.memory_limit)));
  notes.push_back(why_few_devices(problem));
  std::erase(notes, "");
  return notes;
}

namespace {

/// Of inference: prompts, what follows them, and the memory they may take.
void set_requests(Problem& problem, const PlanningOptions& options) {
  SaidOfRequests said = said_of_requests(options.requests);
  if (options.sequence > 0 && said.prompt)
    fail_usage("--sequence and --prompt-tokens say the same twice; leave one away");
  if (!serves(problem) && said.any()) {
    const std::string_view first = said.prompt   ? "--prompt-tokens"
                                   : said.output ? "--output-tokens"
                                                 : "--chunk-tokens";
    fail_usage(first, " is of inference; plan with --for vllm or --objective latency");
  }
  if (!serves(problem)) return;
  if (!answers_requests(problem.profile) && !said.any()) return;
  if (options.sequence > 0) said.sequence = options.sequence;
  const AskedRequests asked = asked_requests(
      said, problem.profile, usual_requests(problem.profile.model, problem.sequence), "--");
  problem.sequence = asked.prompt;
  problem.requests = asked.requests;
  // A part of the plan, not of the cluster, so that whoever reads the plan has it.
  if (!options.memory_limit.empty()) problem.requests->memory = problem.memory_fraction;
  problem.memory_fraction = 1;
}

}  // namespace

Problem planning_problem(Console& console, const PlanningOptions& options,
                         const LoadedProfile& loaded) {
  const ChosenDevices devices = choose_devices(options.devices, loaded.profile);
  if (!devices.hash.empty()) console.input(devices.name, devices.hash);
  Problem problem{.model_name = options.model,
                  .cluster_name = devices.name,
                  .profile_hash = loaded.hash,
                  .profile = loaded.profile,
                  .source = {.path = loaded.path, .content = loaded.content},
                  .cluster = devices.cluster};
  problem.devices = devices.first;
  if (problem.devices && *problem.devices > device_count(problem.cluster)) {
    fail_usage("--devices: the cluster has no more than ", device_count(problem.cluster),
               ", found ", *problem.devices);
  }
  if (!options.exclude.empty()) problem.excluded = read_excluded(options.exclude, devices.cluster);
  problem.precision = options.precision.empty()
                          ? usual_precision(loaded.profile, kinds_of(problem))
                          : read_named("--precision", options.precision, read_precision);
  set_kernels(problem, options);
  problem.sequence = options.sequence > 0 ? options.sequence : usual_sequence(loaded.profile);
  problem.global_batch = batch_for(options, loaded.profile);
  problem.microbatches = microbatch_choices(options, loaded.profile, problem.global_batch);
  problem.microbatch_per_copy = options.microbatch == "auto";
  problem.tensor_parallel = tensor_parallel_choices(options, loaded.profile, problem.cluster);
  problem.optimizer = {
      .kind = read_named("--optimizer", options.optimizer, read_optimizer_kind),
      .sharding = options.sharding == "auto"
                      ? usual_sharding(problem)
                      : read_named("--sharding", options.sharding, sharding_of_word),
      .gradient_bucket = gradient_bucket_of(options, problem.kernels.framework)};
  problem.objective = read_named("--objective", options.objective, read_objective_kind);
  for (const std::string& text : options.run.prices) set_price(problem.cluster, text);
  if (!options.run.prices.empty() && options.run.tokens.empty() &&
      problem.objective != ObjectiveKind::cost) {
    fail_usage("--price is what --objective cost and --tokens reckon with; the objective is ",
               to_string(problem.objective),
               ": add --objective cost, or --tokens 15T for what a run of so many costs");
  }
  problem.schedules = read_schedules(options.schedule, problem);
  set_recompute(problem, options.recompute);
  set_recompute_modules(problem, options);
  // Nothing is kept for a backward that never comes.
  const bool trains = !serves(problem);
  if (!trains && !options.recompute_modules.empty())
    fail_usage("--recompute-modules: nothing is done again where nothing is trained");
  if (!trains && options.optimizer != "adamw")
    fail_usage("--optimizer ", options.optimizer, ": nothing is updated where nothing is trained");
  if (!trains && options.recompute != "auto" && options.recompute != "none") {
    fail_usage("--recompute ", options.recompute,
               ": nothing is done again where nothing is trained");
  }
  if (!trains) set_recompute(problem, "none");
  if (!trains && options.sharding == "auto") problem.optimizer.sharding = Sharding::none;
  if (trains && options.sharding == "auto" && may_share_layers(problem))
    problem.other_sharding = {Sharding::zero2, Sharding::zero3};
  // A CLUSTER has no CPUs beside its devices.
  if (!devices.own && problem.profile.devices) problem.profile.devices->processors = 0;
  if (options.max_stages > 0) problem.max_stages = options.max_stages;
  problem.min_layers_per_stage = options.min_layers_per_stage;
  problem.straight = options.straight;
  problem.one_stage_alone =
      tries_usual_schedules(options) && options.virtual_stages == 0 && may_share_layers(problem);
  problem.fixed =
      read_fixed_stages(options.fix, static_cast<int>(problem.profile.model.layers.size()));
  problem.memory_fraction = read_memory_part(options.memory_limit);
  set_parallelism(problem, options);
  set_pins(problem, options);
  if (!options.target.empty())
    problem = for_target(std::move(problem), find_target(options.target), said_of_plans(options));
  set_virtual_stages(problem, options.virtual_stages, options.schedule != "auto");
  set_requests(problem, options);
  return problem;
}

void declare_planning(CLI::App& app, PlanningOptions& options) {
  app.add_option("model", options.model,
                 "Built-in name, config.json, profile, or file of another planner")
      ->type_name("MODEL")
      ->required();
  declare_devices(app, options.devices);
  app.add_option("--for", options.target, target_help())->type_name("NAME");
  app.add_option("--exclude", options.exclude,
                 "Devices that plans must not use: 3,8-15, or node2 for all devices of node 2")
      ->type_name("DEVICES");
  app.add_option("--batch,--gbs", options.batch, "Samples per step (8 of the largest microbatches)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app.add_option("--microbatch", options.microbatch, "Samples per microbatch: a list, or auto")
      ->type_name("N|auto");
  app.add_option(
         "--mbs", options.samples_per_replica,
         "Samples per microbatch and replica: a list; all stages then have equally many replicas")
      ->type_name("N");
  app.add_option(
         "--pp", options.pipeline,
         "Exact number of pipeline devices; all stages then have equally many replicas (any)")
      ->type_name("N")
      ->check(CLI::Range(1, most_devices));
  app.add_option("--vpp", options.virtual_stages,
                 "Exact number of stages per pipeline device (any)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_option("--dp", options.replicas, "Exact number of replicas of every stage (any)")
      ->type_name("N")
      ->check(CLI::Range(1, most_devices));
  app.add_option("--tensor-parallel,--tp", options.tensor_parallel,
                 "Tensor-parallel degrees to try: a list, or auto, for those with known costs "
                 "within the innermost links")
      ->type_name("N|auto");
  app.add_option("--sequence-parallel", options.sequence_parallel,
                 "Sequence parallelism among tensor-parallel devices: on, off, or auto, which is "
                 "on if costs are estimated")
      ->type_name("on|off|auto")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_option(
         "--context-parallel,--cp", options.context_parallel,
         "Context-parallel degrees to try: a list, or auto, to train on sequences of 8192 tokens "
         "and more, 2048 of them on each device")
      ->type_name("N|auto");
  app.add_option("--expert-parallel,--ep", options.expert_parallel,
                 "Expert-parallel degrees to try: a list, or auto, for those that divide the "
                 "experts and the devices")
      ->type_name("N|auto");
  app.add_option("--expert-tensor-parallel", options.expert_tensor_parallel,
                 "Tensor-parallel degrees inside an expert to try: a list, or auto, for 1 and the "
                 "one of the other layers")
      ->type_name("N|auto");
  app.add_option("--expert-nodes", options.expert_nodes,
                 "Maximum number of nodes that hold a token's experts (any)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--expert-load", options.expert_load,
                 "Load of the busiest device's experts, relative to the mean (1)")
      ->type_name("FACTOR")
      ->check(CLI::Range(1.0, 1000.0));
  in_thousands(app.add_option("--sequence", options.sequence,
                              "Tokens per sample, 32k for 32768 (the model's)"))
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  declare_requests(app, options.requests, "With inference: ", false);
  app.add_option("--precision", options.precision,
                 "Precision: fp32, bf16, fp16, fp8 (products only), fp8+attention or fp64 (that of "
                 "the profile or the device)")
      ->type_name("P");
  app.add_option("--kernels", options.kernels,
                 "Kernels of layers whose costs are estimated: megatron or torch (those of --for "
                 "NAME, else megatron)")
      ->type_name("NAME");
  app.add_option("--dispatcher", options.dispatcher,
                 "Dispatcher of tokens to experts: alltoall, deepep or hybridep (alltoall)")
      ->type_name("NAME");
  app.add_option("--cuda-graphs", options.cuda_graphs,
                 "Kernels that the host launches together: none, layers or step (none)")
      ->type_name("WHICH");
  app.add_option("--fp8-recipe", options.fp8_recipe,
                 "Scaling recipe of fp8: delayed (scale from earlier steps), tensorwise (from the "
                 "tensor itself), blockwise (one scale per 128 numbers) or mxfp8 (one per 32); "
                 "only the costs of experts depend on it (mxfp8 on Blackwell, else delayed)")
      ->type_name("NAME");
  app.add_option("--fused-loss", options.fused_loss,
                 "Loss kernel of Megatron-LM: none (one operation after the other), native (those "
                 "operations compiled) or te (Transformer Engine's; Megatron Bridge has it, "
                 "Megatron-LM 0.19 refuses it) (none)")
      ->type_name("NAME");
  app.add_option("--router-fusion", options.router_fusion,
                 "Megatron-LM's choice of experts in three kernels of Transformer Engine, not one "
                 "operation after the other: on or off (off)")
      ->type_name("SWITCH");
  app.add_option(
         "--overlap", options.overlap,
         "Messages of peers that overlap with a layer's kernels in Megatron-LM: none, tensor (with "
         "matrix products), experts (with another microbatch's work) or tensor+experts "
         "(none; tensor with --for megatron and megatron-bridge)")
      ->type_name("WHICH");
  app.add_option("--optimizer", options.optimizer, "Optimizer: adamw or sgd (adamw)")
      ->type_name("NAME");
  app.add_option("--sharding", options.sharding,
                 "Sharding over replicas: none (or ddp); zero1, of optimizer states; zero2, of "
                 "gradients, too; zero3 (or fsdp), of parameters, too; auto: the best of zero1, "
                 "zero2 and zero3 that --for NAME has, and for transformers whose costs are "
                 "estimated, else none (auto)")
      ->type_name("NAME");
  app.add_option("--gradient-bucket", options.gradient_bucket,
                 "Bucket size of gradient sums that overlap the last backward, or auto, which is "
                 "that of the kernels' framework (megatron: 160MB, torch: 25MiB); without it sums "
                 "follow the backward, as in `run`")
      ->type_name("SIZE");
  app.add_option("--schedule", options.schedule,
                 "Schedules to try: a list of names, or auto, for 1f1b, gpipe and those with "
                 "smaller bubbles; inference for latency")
      ->type_name("A,B|auto");
  app.add_option("--mem-limit", options.memory_limit,
                 "Part of each device's memory to use, including the memory that CUDA and NCCL "
                 "take (100%; of "
                 "inference 92%, as vLLM)")
      ->type_name("PERCENT");
  app.add_option("--recompute", options.recompute,
                 "Recomputation: auto, none or full, by stage; selective (attention only) or "
                 "layers, by layer as memory demands (auto)")
      ->type_name("R")
      ->check(CLI::IsMember({"auto", "none", "selective", "full", "layers"}));
  app.add_option("--recompute-modules", options.recompute_modules,
                 "Modules of Megatron-LM's layers that selective recomputation repeats instead of "
                 "attention: core_attn, mla_up_proj, layernorm, mlp, moe_act, moe or "
                 "shared_experts, several with +")
      ->type_name("LIST");
  app.add_option("--fix", options.fix,
                 "Fixed layers of a stage: stage0.layers=0..4 for the first four")
      ->type_name("STAGE");
  app.add_flag("--straight", options.straight, "Do not replicate stages");
  app.add_option("--max-stages", options.max_stages, "Maximum number of stages (any)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--min-layers-per-stage", options.min_layers_per_stage,
                 "Minimum number of layers per stage (1); with 0 the stages between the first and "
                 "the last may be empty")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option(
         "--objective", options.objective,
         "Objective: step, throughput, latency (of inference) or cost (with --price) (step)")
      ->type_name("NAME");
  declare_training_run(app, options.run);
}

}  // namespace stagecraft
