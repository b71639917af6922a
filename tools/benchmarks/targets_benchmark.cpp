// What planning must not take longer than, nor more memory, nor be further from the best than: a
// row per target, on published inputs (skipped where those are not there).
//
//   stagecraft_benchmarks --benchmark_filter=target/piper_bert32_2048
//
// `objective` is in the planner's own unit, `gap` how far it may be from the best there is; what a
// row must reach stands beside what it took (`cpu_s` of one run), and the label says what it
// misses. Other planners' plans of the same question, where a row asks for them, are counters by
// their names. `peak_MB` is the process's largest resident size in that row.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "profiles/error.hpp"
#include "tools/benchmarks/target_questions.hpp"

namespace stagecraft {

namespace {

// --- The targets ---

std::vector<TargetRow> targets() {
  std::vector<TargetRow> rows;
  for (const std::string model : {"vgg16", "alexnet", "resnet18", "resnet50", "resnet101",
                                  "resnext50", "gnmt", "gnmt_large"}) {
    const bool is_large = model == "gnmt_large";
    const std::string file = "pipedream/" + model + "/graph.txt";
    rows.push_back({"pipedream_flat_16/" + model,
                    file,
                    as_pipedream,
                    {16, 1.25e9},
                    is_large ? 0.3 : 0.05,
                    is_large ? 50.0 : 20.0});
    const std::vector<double> by_four{4, 10e9, 4, 1.25e9}, by_eight{8, 30e9, 2, 3.125e9};
    for (const auto& [name, levels] : {std::pair{"4x4/", by_four}, std::pair{"8x2/", by_eight}}) {
      rows.push_back({"pipedream_" + (name + model), file, as_pipedream, levels, 1, 0, 1});
      rows.push_back(
          {"two_levels_" + (name + model), file, by_exact_beside_pipedream, levels, 1, 0, 1});
      rows.push_back({"two_levels_shared_" + (name + model), file, by_exact_beside_pipedream_shared,
                      levels, 1, 0, 1});
    }
  }
  for (const std::string model : {"vgg16", "resnet50"}) {
    rows.push_back(
        {"dapple_2x8/" + model, "pipedream/" + model + "/graph.txt", as_dapple, {2, 8}, 1, 0, 1});
  }
  const std::string dnn = "dnn-partitioning/", piper = "piper/",
                    aceso = "aceso/profiled-time-eurosys/", pipedream = "pipedream/",
                    first = "_mbs1_tp1_algo0.csv";
  const std::vector<TargetRow> others{
      {"exact_4x4/resnet50", pipedream + "resnet50/graph.txt", by_exact_nested, {128}, 1, 0, 1},
      {"exact_4x4/vgg16", pipedream + "vgg16/graph.txt", by_exact_nested, {128}, 1, 0, 1},
      {"usual_4x4/resnet50",
       pipedream + "resnet50/graph.txt",
       by_usual_nested,
       {128},
       10,
       0,
       0.001},
      {"usual_4x4/vgg16", pipedream + "vgg16/graph.txt", by_usual_nested, {128}, 10, 0, 0.001},
      {"usual_4/inception_v3",
       pipedream + "inception_v3/graph.txt",
       by_usual_flat,
       {32},
       10,
       2000,
       0.001},
      {"usual_4/nasnetalarge",
       pipedream + "nasnetalarge/graph.txt",
       by_usual_flat,
       {32},
       10,
       0,
       0.01},
      {"load/inception_v3",
       pipedream + "inception_v3/graph.txt",
       by_load_of_profile,
       {32},
       10,
       2000,
       0.001},
      {"load/nasnetalarge",
       pipedream + "nasnetalarge/graph.txt",
       by_load_of_profile,
       {32},
       10,
       0,
       0.01},
      {"load_along_orders/inception_v3",
       pipedream + "inception_v3/graph.txt",
       by_load_along_orders,
       {32},
       0.1,
       0,
       0.001},
      {"load/gnmt_inference",
       dnn + "LayerGraphs/gnmt_inference.json",
       by_load,
       {},
       0.5,
       0,
       0,
       32.911},
      {"load/gnmt_training",
       dnn + "LayerGraphs/gnmt_training.json",
       by_load,
       {},
       0.5,
       0,
       0,
       107.004},
      {"load/bert_12",
       dnn + "OperatorGraphs/bert_l-12_inference.json",
       by_load,
       {},
       1,
       0,
       0,
       147.478},
      {"piper_bert32_2048",
       piper + "bert32a100.json",
       as_piper,
       {2048, 1920, 8},
       1,
       200,
       0.001,
       0.000703591},
      {"piper_bert96_2048",
       piper + "bert32a100.json",
       as_piper_bert96,
       {2048, 1920, 8},
       2,
       200,
       0.001},
      {"piper_resnet50_128", piper + "resnet.json", as_piper, {128, 7680, 4}, 1, 0, 0.001, 4.30571},
      {"piper_resnet50_128_tight",
       piper + "resnet.json",
       as_piper,
       {128, 7680, 1.5},
       1,
       0,
       0.001,
       0.99 * 7.02493},
      {"aceso_gpt_1_3B", aceso + "gpt_1_3B" + first, as_aceso, {4, 28'000, 0}, 2, 0, 0, 101.185},
      {"aceso_gpt_2_6B", aceso + "gpt_2_6B" + first, as_aceso, {8, 28'000, 0}, 2, 0, 0, 87.36},
      {"aceso_gpt_13B", aceso + "gpt_13B" + first, as_aceso, {32, 28'000, 0}, 2, 0, 0, 84.61},
      {"aceso_1024_layers", aceso + "gpt_1_3B" + first, as_aceso, {8, 400'000, 1024}, 5, 0, 0, 0},
  };
  rows.insert(rows.end(), others.begin(), others.end());
  // What dnn-partitioning's integer program proved to be the least, under HiGHS in up to 300 s.
  const std::vector<std::pair<std::string, double>> least{
      {"LayerGraphs/gnmt_inference", 31.386828},
      {"LayerGraphs/gnmt_training", 87.721623},
      {"LayerGraphs/resnet50_inference", 33.097385},
      {"LayerGraphs/resnet50_training", 75.958327},
      {"OperatorGraphs/bert_l-3_inference", 21.908376},
      {"OperatorGraphs/bert_l-3_training", 54.207399}};
  for (const auto& [file, bound] : least) {
    rows.push_back({"load_noncontiguous/" + file.substr(file.find('/') + 1),
                    dnn + file + ".json",
                    by_load_noncontiguous,
                    {},
                    10,
                    0,
                    1,
                    1.01 * bound});
  }
  return rows;
}

// The kernel forgets the peak of the process's resident size when told so (Linux, proc(5)).

void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024 / 1e6;
  }
  return 0;
}

void meet(benchmark::State& state, const TargetRow& target) {
  const std::string path = std::string(STAGECRAFT_SHARED) + "/data/" + target.file;
  if (!std::filesystem::exists(path)) {
    state.SkipWithError(("no published data at " + path).c_str());
    return;
  }
  const Solve solve = target.prepare(target, path);
  Answer answer;
  forget_peak();
  const std::clock_t begin = std::clock();
  for (auto _ : state) answer = solve();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC /
                         static_cast<double>(std::max<std::int64_t>(state.iterations(), 1));
  const double most = std::max(answer.objective, 1e-300);
  const double gap = std::max(0.0, (answer.objective - answer.lower_bound) / most);
  constexpr double rounding = 1 + 1e-5;  // of published figures
  std::string misses;
  const auto hold = [&](const char* what, double value, double limit) {
    state.counters[what] = value;
    if (limit <= 0) return;
    state.counters[std::string(what) + "_most"] = limit;
    if (value > limit * rounding) misses += std::string(misses.empty() ? "misses " : ", ") + what;
  };
  hold("cpu_s", seconds, target.seconds);
  hold("peak_MB", peak_megabytes(), target.megabytes);
  hold("objective", answer.objective, target.objective);
  for (const auto& [name, value] : answer.others) {
    state.counters[name] = value;
    if (answer.objective > value) misses += concat(misses.empty() ? "misses " : ", ", name);
  }
  hold("gap", gap, std::max(target.gap, 1e-9));
  state.SetLabel(misses.empty() ? "meets" : misses);
}

[[maybe_unused]] const bool registered = [] {
  for (const TargetRow& target : targets()) {
    benchmark::RegisterBenchmark(("target/" + target.name).c_str(), [target](
                                                                        benchmark::State& state) {
      meet(state, target);
    })->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace

}  // namespace stagecraft
