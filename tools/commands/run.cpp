// stagecraft run PLAN: carries the plan out, verifies it, and writes down what happened when.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "executor/backends/cpu/chosen_kernels.hpp"
#include "executor/driver/machinery.hpp"
#include "executor/driver/rank_map.hpp"
#include "executor/transports/processes.hpp"
#include "executor/weights/durable_file.hpp"
#include "executor/weights/weights.hpp"
#include "planner/costs/compile_with_norm.hpp"
#include "planner/costs/program_rows.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/json.hpp"
#include "tools/build_info.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/timeline_files.hpp"
#include "tools/launch/interrupt.hpp"
#include "tools/launch/lifeline.hpp"
#include "tools/launch/processes_of_run.hpp"
#include "tools/launch/supervisor.hpp"
#include "tools/options/checkpoint_options.hpp"
#include "tools/options/cuda_options.hpp"
#include "tools/options/oversight_options.hpp"
#include "tools/reports/occupation.hpp"
#include "tools/reports/progress.hpp"
#include "tools/reports/results.hpp"
#include "tools/reports/run_report.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct RunArguments {
  std::string plan, data, weights, save_weights, backend, sums = "ordered";
  ProcessOptions processes;
  TimelineFiles files;
  OversightFlags oversight;
  CheckpointFlags checkpoints;
  CudaFlags cuda;
  int steps = 1, trace_steps = 0;
  bool verify = false, no_weights = false;
  double learning_rate = 0, clip = 0;
  std::int64_t loss_rows = 0;
};

constexpr std::int64_t synthetic_tokens = 1 << 20;
constexpr std::int64_t synthetic_pictures = 512;

BackendKind read_backend(const std::string& name) {
  if (name == "cpu") return BackendKind::cpu;
  if (name == "sleep") return BackendKind::sleep;
  if (name == "cuda") return BackendKind::cuda;
  fail_usage("--backend: expected cpu, cuda or sleep, found \"", name, "\"");
}

Dataset dataset_for(const RunArguments& arguments, const LoadedPlan& loaded, BackendKind backend,
                    std::uint64_t seed) {
  if (backend == BackendKind::sleep) return {};
  const Model& model = loaded.profile.model;
  if (const auto& picture = model.layers.front().image) {
    const std::int64_t classes = model.layers.back().output_elements;
    if (!arguments.data.empty()) return load_images(arguments.data, picture->input, classes);
    return synthetic_images(picture->input, classes, synthetic_pictures, seed);
  }
  const std::int64_t vocabulary = model.transformer ? model.transformer->vocabulary : 1;
  if (!arguments.data.empty())
    return load_dataset(arguments.data, vocabulary, loaded.plan.batch.sequence);
  return synthetic_dataset(vocabulary, synthetic_tokens, seed);
}

/// A run is too long to find out at its end that it leads nowhere.
void require_folder(const std::filesystem::path& file) {
  // What is called "out/" is made.
  const std::filesystem::path folder =
      (file.has_filename() ? file : file.parent_path()).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    fail_usage("--save-weights: ", folder.string(), " is no folder");
  }
  if (!std::filesystem::is_directory(file)) require_ordinary_file(file);
}

RunOptions run_options(const RunArguments& arguments, BackendKind backend, std::uint64_t seed) {
  RunOptions options{.steps = arguments.steps, .backend = backend, .seed = seed};
  options.traced_steps = arguments.trace_steps;
  options.clip_norm = arguments.clip;
  options.loss_rows = arguments.loss_rows;
  if (arguments.learning_rate > 0) {
    options.adamw.learning_rate = arguments.learning_rate;
    options.sgd.learning_rate = arguments.learning_rate;
  }
  return options;
}

/// Whether several ranks end with the same weights: replicas, pipes, tied stages or peers.
bool holds_copies(const Program& program, int ranks) {
  return ranks > program.devices || std::ranges::any_of(program.groups, [](const Group& group) {
           return group.op != Op::reduce_norm;
         });
}

/// Whether the final weights are collected, which are a lot: for whoever looks at them, or where
/// there are copies, to see whether these agree.
bool collects_weights(const Console& console, const RunArguments& arguments, bool copies) {
  if (arguments.no_weights) return false;
  return arguments.verify || !arguments.save_weights.empty() || console.json() || copies;
}

/// The run itself, with its progress line and a loss now and then.
RunResult carry_out(Console& console, const LoadedPlan& loaded, const Compiled& compiled,
                    const Dataset& dataset, RunOptions options, const TransportMaker& transport,
                    bool sums_in_order, Interrupt& interrupt) {
  Progress progress(console, "training", Progress::TimeLeft::in_proportion);
  const int all = steps_before(options) + options.steps;
  const int every = std::max(1, options.steps / 10);
  interrupt.end_in_order();
  options.stop = interrupt.token();
  options.stop_signal = &interrupt.signal();
  options.on_step = [&](const StepReport& step) {
    progress.update((step.step + 1.0) / all,
                    fmt::format("step {} loss {:.4f}", step.step + 1, step.loss));
    progress.clear();
    if (options.backend != BackendKind::sleep && (step.step % every == 0 || step.step + 1 == all)) {
      console.print(fmt::format(" step {:>5}   loss {:.6f}   {}\n", step.step + 1, step.loss,
                                format_duration(step.time)));
    }
  };
  Machinery machinery = machinery_of(options);
  machinery.make_transports = [&](Wiring wiring) {
    wiring.sums_in_order = sums_in_order;
    return transport.make(wiring);
  };
  return execute(loaded.plan, loaded.profile, compiled, dataset, options, machinery);
}

void require_sensible(const RunArguments& arguments, BackendKind backend) {
  if (backend == BackendKind::sleep) {
    const auto refuse = [](const char* option) {
      fail_usage(option, " needs a backend that computes; sleep does not");
    };
    if (arguments.verify) refuse("--verify");
    if (!arguments.weights.empty()) refuse("--weights");
    if (!arguments.save_weights.empty()) refuse("--save-weights");
    if (!arguments.checkpoints.folder.empty()) refuse("--checkpoint");
    if (!arguments.checkpoints.resume.empty()) refuse("--resume");
  }
  require_valid(arguments.checkpoints);
  if (!arguments.weights.empty() && !arguments.checkpoints.resume.empty()) {
    fail_usage("--weights and --resume both say what training starts from; give one of them");
  }
  const auto require_weights = [&](const char* option) {
    fail_usage("--no-weights leaves the final weights where they are, and ", option,
               " needs them; give one of them");
  };
  if (arguments.no_weights && arguments.verify) require_weights("--verify");
  if (arguments.no_weights && !arguments.save_weights.empty()) require_weights("--save-weights");
  require_folder(arguments.save_weights);
  require_valid(arguments.files);
  if (arguments.trace_steps > 0 && arguments.files.trace.empty())
    fail_usage("--trace-steps says how many steps --trace FILE is to hold; give it, too");
}

/// Clipping waits for a norm, which is a part of the program.
Compiled compiled_for(const RunArguments& arguments, const LoadedPlan& loaded) {
  return arguments.clip > 0 ? compile_with_norm(loaded.plan, loaded.profile, loaded.cluster)
                            : compile(loaded.plan, loaded.profile, loaded.cluster);
}

int ranks_of_run(const LoadedPlan& loaded, const Compiled& compiled, BackendKind backend) {
  if (backend == BackendKind::sleep) return compiled.program.devices;
  return ranks_of(loaded.plan, compiled.program).ranks();
}

/// Drawings are of the typical step, the trace of as many as were asked for.
void write_timelines(const RunArguments& arguments, const LoadedPlan& loaded,
                     const Compiled& compiled, const RunResult& run, const Occupation& occupation) {
  std::map<std::string, std::string> about{
      {"kind", "measured"}, {"plan", loaded.hash}, {"backend", arguments.backend}};
  add_occupation(about, occupation);
  const DrawingWords words{
      .title = concat(loaded.plan.model, " on ", loaded.plan.cluster, ", measured"),
      .rows = row_names(loaded.plan, compiled)};
  TimelineFiles files = arguments.files;
  if (arguments.trace_steps > 0) {
    TimelineFiles trace;
    std::swap(trace.trace, files.trace);
    write_timeline_files(trace, run.traced, about, {}, words);
  }
  write_timeline_files(files, run.timeline, about, {}, words);
}

/// What all processes must have alike to train one model.
std::vector<Fact> facts_of_run(const LoadedPlan& loaded, const Compiled& compiled,
                               const Dataset& dataset, const RunOptions& options,
                               const RunArguments& arguments) {
  const auto bytes_of = [](const auto& numbers) {
    return content_hash(
        {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof numbers.front()});
  };
  std::string weights;
  for (const auto& [name, tensor] : options.weights) {
    weights += name;
    weights += content_hash({tensor.data<char>(), static_cast<std::size_t>(tensor.bytes())});
  }
  const std::string same_command = "start all processes with the same command line";
  return {
      {"stagecraft", concat(build_info::version, " (", build_info::compiler, ")"),
       "install the same program on every host"},
      {"plan", loaded.hash, "give every host the same file"},
      {"model or profile", content_hash(write_profile(loaded.profile)),
       "give every host the same file"},
      {"program", program_hash(compiled.program), "install the same program on every host"},
      {"data set", bytes_of(dataset.tokens) + bytes_of(dataset.labels),
       "give every host the same --data and --seed"},
      {"file of weights", content_hash(weights), "give every host the same file"},
      {"checkpoint",
       options.resume ? concat("after step ", options.resume->position.steps) : std::string("none"),
       "name the same --resume folder, which every host sees"},
      {"command line",
       concat("--steps ", options.steps, " --seed ", options.seed, " --backend ", arguments.backend,
              " --learning-rate ", options.adamw.learning_rate, " --clip ", options.clip_norm,
              " --loss-rows ", options.loss_rows),
       same_command},
      {"OpenBLAS", chosen_matmul_kernels(),
       "sums differ between its kernels: set OPENBLAS_CORETYPE alike everywhere, for example "
       "mpirun -x OPENBLAS_CORETYPE=Haswell"},
  };
}

/// One line, and the exit code: 130 or 143 where a signal ended the run before its planned end.
int tell_stopped(Console& console, const RunOptions& options, const RunResult& run) {
  if (!run.stopped) return 0;
  const StoppedRank& stopped = *run.stopped;
  console.warn(concat(stopped.rank == 0 ? std::string() : stopped.name + " was ", "interrupted by ",
                      words_of_signal(stopped.signal), " after step ",
                      steps_before(options) + static_cast<int>(run.step_times.size())));
  return 128 + stopped.signal;
}

/// `interrupt`: of the program; none in a rank that somebody else has started, which a signal ends
/// until it trains.
int run_plan(Console& console, const RunArguments& arguments, const FlightFolder& folder,
             BackendKind backend, const TransportMaker& transport, Interrupt* of_program) {
  const LoadedPlan loaded = load_plan(arguments.plan);
  console.input(loaded.path, loaded.hash);
  if (const LayerModules modules = modules_again(loaded.plan); !modules.empty()) {
    console.note(concat("selective layers do their attention again here, in place of ",
                        "Megatron-LM's ", to_string(modules)));
  }
  const Compiled compiled = compiled_for(arguments, loaded);
  if (transport.several_processes) {
    require_process_per_rank(ranks_of_run(loaded, compiled, backend));
  }
  const Prediction prediction = predict(loaded.plan, compiled);
  const std::uint64_t seed = console.options().seed;
  const Dataset dataset = dataset_for(arguments, loaded, backend, seed);
  RunOptions options = run_options(arguments, backend, seed);
  const int ranks = ranks_of_run(loaded, compiled, backend);
  options.gathers_weights =
      collects_weights(console, arguments, holds_copies(compiled.program, ranks));
  options.cuda = cuda_options_of(console, arguments.cuda, backend == BackendKind::cuda,
                                 transport.several_processes ? 1 : ranks);
  options.oversight =
      oversight_of(console, arguments.oversight, folder, loaded.hash, prediction.step);
  add_checkpoints(console, arguments.checkpoints, arguments.learning_rate, options);
  if (!arguments.weights.empty()) {
    options.weights = load_weights(arguments.weights, loaded.profile.model,
                                   precision_of_sums(loaded.plan.precision));
  }
  if (transport.several_processes) {
    meet(console, facts_of_run(loaded, compiled, dataset, options, arguments));
  }
  console.print(plan_words(loaded.plan, loaded.profile.model, console.unicode()) +
                (backend != BackendKind::sleep ? "; data: " + dataset.source : std::string()) +
                "\n");
  std::optional<Interrupt> of_rank;
  Interrupt& interrupt = of_program != nullptr ? *of_program : of_rank.emplace();
  const OccupationWatch watch;
  const RunResult run = carry_out(console, loaded, compiled, dataset, options, transport,
                                  arguments.sums == "ordered", interrupt);
  if (!speaks()) return 0;
  const Occupation occupation =
      watch.until_now(transport.several_processes || backend == BackendKind::sleep ? 1 : ranks);
  write_timelines(arguments, loaded, compiled, run, occupation);
  ordered_json result = report_run(console, loaded.plan, run, prediction, occupation);
  result["restarts"] = arguments.oversight.attempt;
  if (options.gathers_weights) result["parameters_xxh3"] = run.parameters_hash;
  tell_checkpoints(console, options, run, result);
  if (arguments.verify) {
    result["verified"] = verify_run(console, loaded, dataset, options, run);
  }
  if (!arguments.save_weights.empty()) {
    save_weights(arguments.save_weights, loaded.profile.model, run);
  }
  console.result(result);
  console.write_printed();  // before it is said that all is done
  return tell_stopped(console, options, run);
}

/// Starts a process per rank; what they write down goes to the folder of this one.
int start_ranks(RunArguments arguments, const Console& console, const FlightFolder& folder,
                BackendKind backend, const TransportMaker& transport, Interrupt& interrupt) {
  const LoadedPlan loaded = load_plan(arguments.plan);
  const Compiled compiled = compiled_for(arguments, loaded);
  std::vector<std::string> further;
  if (arguments.oversight.flight_records.empty() && !folder.path().empty()) {
    further = {"--flight-records", folder.path().string()};
  }
  arguments.processes.writes_file = !console.options().output.empty();
  interrupt.end_in_order();  // of the processes
  return start_processes(arguments.processes, transport, ranks_of_run(loaded, compiled, backend),
                         further, interrupt, [&](int code) {
                           if (!arguments.oversight.supervised.empty())
                             tell_finished(arguments.oversight.supervised, code);
                         });
}

void require_processes_suffice(const RunArguments& arguments, BackendKind backend,
                               const TransportMaker& transport) {
  require_carried(transport, backend == BackendKind::cuda, "--backend cuda");
  if (arguments.plan == "-") {
    fail_usage("standard input reaches one process only; give the plan as a file");
  }
  const OversightFlags& oversight = arguments.oversight;
  if (launch() && oversight.restarts && oversight.supervised.empty()) {
    fail_usage("--restarts: who is to start the processes again must start them: stagecraft run ",
               arguments.plan, " --transport ", transport.name, " --restarts ", *oversight.restarts,
               ", without ", launch()->launcher);
  }
}

/// NCCL's own sums have no bits to compare.
void require_comparable(const RunArguments& arguments) {
  if (arguments.sums == "nccl" && arguments.verify) {
    fail_usage(
        "--verify compares bit for bit, and --sums nccl adds in an order of its own; give "
        "one of them");
  }
}

/// In this process, in those that mpirun has started, or in those that we start.
int run_where_it_belongs(Console& console, RunArguments arguments) {
  const TransportMaker& transport = transport_of(arguments.processes);
  if (arguments.backend.empty()) arguments.backend = transport.on_gpus ? "cuda" : "cpu";
  const BackendKind backend = read_backend(arguments.backend);
  require_sensible(arguments, backend);
  require_sums(transport, arguments.sums);
  require_comparable(arguments);
  if (transport.several_processes) require_processes_suffice(arguments, backend, transport);
  if (arguments.oversight.restarts && arguments.plan == "-") {
    fail_usage("--restarts: standard input can be read only once; give the plan as a file");
  }
  const bool joins = transport.several_processes && !must_start_processes(transport);
  std::optional<Interrupt> interrupt;
  if (!joins) interrupt.emplace().end_at_once(" before the first step");
  const auto run_as = [&](Console& voice) {
    return run_under_oversight(voice, arguments.oversight, arguments.checkpoints.folder,
                               interrupt ? &*interrupt : nullptr, [&](const FlightFolder& folder) {
                                 if (must_start_processes(transport)) {
                                   return start_ranks(arguments, voice, folder, backend, transport,
                                                      *interrupt);
                                 }
                                 return run_plan(voice, arguments, folder, backend, transport,
                                                 interrupt ? &*interrupt : nullptr);
                               });
  };
  return joins ? run_together(console, run_as) : run_as(console);
}

}  // namespace

Action declare_run(CLI::App& app) {
  auto arguments = std::make_shared<RunArguments>();
  app.add_option("plan", arguments->plan, "Plan file")->type_name("PLAN")->required();
  app.add_option("--steps", arguments->steps, "Number of optimizer steps (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--data", arguments->data,
                 "Training data: text (a token per byte) or a .bin of uint16 or uint32 tokens; for "
                 "networks of images, labels and pixels in CIFAR-10's binary form (synthetic)")
      ->type_name("FILE");
  app.add_option("--weights", arguments->weights,
                 "Initial weights: safetensors with Hugging Face's names; for several files their "
                 "folder or index")
      ->type_name("FILE|DIR");
  app.add_option("--save-weights", arguments->save_weights,
                 "Write the final weights as safetensors; into a folder (DIR/) in parts of 5 GB")
      ->type_name("FILE|DIR");
  app.add_flag("--no-weights", arguments->no_weights,
               "Do not collect the final weights: their copies are not compared, and --json has no "
               "hash of them");
  app.add_option("--backend", arguments->backend,
                 "Backend: cpu, cuda, or sleep, where every instruction sleeps for its predicted "
                 "time (cpu; cuda with --transport nccl)")
      ->type_name("NAME");
  declare_process_options(app, arguments->processes);
  app.add_flag("--verify", arguments->verify,
               "Repeat the training on one device and compare losses and weights bit for bit (to "
               "rounding with tensor parallelism)");
  declare_checkpoints(app, arguments->checkpoints);
  declare_timeline_files(app, arguments->files);
  app.add_option(
         "--trace-steps", arguments->trace_steps,
         "Number of last steps in --trace, for calibrate (only the step with the median time)")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  declare_cuda(app, arguments->cuda);
  declare_oversight(app, arguments->oversight);
  app.add_option("--learning-rate", arguments->learning_rate,
                 "Learning rate (AdamW 0.001, SGD 0.01)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  app.add_option("--sums", arguments->sums,
                 "Gradient sums with --transport nccl: ordered, with the bits of the other "
                 "transports, or nccl, by NCCL's collectives (ordered)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"ordered", "nccl"}));
  app.add_option("--clip", arguments->clip,
                 "Maximum norm of all gradients; larger gradients are scaled down (unlimited)")
      ->type_name("X")
      ->check(CLI::PositiveNumber);
  app.add_option("--loss-rows", arguments->loss_rows,
                 "Maximum number of tokens whose logits a language model's head computes at once; "
                 "logits are computed twice instead of kept (a whole microbatch, kept)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  return [arguments](Console& console) {
    end_with_launcher();
    return rank_0_first([&] { return run_where_it_belongs(console, *arguments); });
  };
}

}  // namespace stagecraft
