#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/backends/cuda.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/gpu/checks.hpp"

using namespace stagecraft;

namespace {

constexpr const char* usage =
    "stagecraft_gpu_suite [PART...] [OPTION...]\n"
    "\n"
    "Parts, all of them if none is named: smoke, kernels, attention, sizes, pipelines, training.\n"
    "expect: trains on the CPU, and prints what training compares with.\n"
    "\n"
    "--only NAME     the checks with this in their names\n"
    "--without FILE  not the checks whose names are lines of the file\n"
    "--expected FILE what `expect` has printed; without it training computes it once more\n"
    "--steps N       of training (20)\n"
    "--seed N        inputs of kernels and attention that were told to be wrong\n"
    "--rehearse      on the CPU, with tiny models\n"
    "\n"
    "Each check is a line that says that it begins, and a line VERDICT NAME: WORDS. It ends at "
    "the\n"
    "first check that throws, since a GPU may be of no use to its process then.\n"
    "Exits with 0 if all is well, 1 if a check failed, 2 if this was no use of it, 77 if there is\n"
    "no GPU.\n";

constexpr std::string_view format_of_losses = "stagecraft-expected-losses/1";

struct Arguments {
  std::vector<std::string> parts;
  std::string only, without, expected;
  bool rehearse = false;
  unsigned seed = std::random_device{}();
  int steps = 0;  ///< 0: as many as usual
  bool understood = true;
};

const std::set<std::string> all_parts{"smoke",     "kernels",  "attention", "sizes",
                                      "pipelines", "training", "expect"};

Arguments read_arguments(std::span<char*> words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < words.size();
    if (word == "--rehearse") {
      arguments.rehearse = true;
    } else if (all_parts.contains(word)) {
      arguments.parts.push_back(word);
    } else if (word == "--only" && has_value) {
      arguments.only = words[++i];
    } else if (word == "--without" && has_value) {
      arguments.without = words[++i];
    } else if (word == "--expected" && has_value) {
      arguments.expected = words[++i];
    } else if (word == "--steps" && has_value) {
      arguments.steps = std::atoi(words[++i]);
    } else if (word == "--seed" && has_value) {
      arguments.seed = static_cast<unsigned>(std::strtoul(words[++i], nullptr, 10));
    } else {
      arguments.understood = false;
    }
  }
  return arguments;
}

std::set<std::string> lines_of(const std::string& file) {
  std::set<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

/// The first GPU's kind, as clusters call it.
std::string device_kind(const CudaReport& report) {
  if (report.devices.empty()) return "cpu";
  return report.devices.front().name.find("H100") != std::string::npos ? "h100" : "h200";
}

/// What is carried out, and how it is told.
class Suite {
 public:
  Suite(const Arguments& arguments, std::string device)
      : arguments_(arguments), device_(std::move(device)), without_(lines_of(arguments.without)) {}

  void run() {
    std::cout << "inputs of --seed " << arguments_.seed << std::endl;
    if (wants("smoke")) check_part_smoke();
    if (wants("kernels")) check_part_kernels();
    if (wants("attention")) check_part_attention();
    if (wants("sizes")) check_part_sizes();
    if (wants("pipelines")) gpu::check_pipelines(pipelines(), report_);
    if (wants("training")) gpu::check_training(training(), report_);
  }

  /// A failure of whatever was carried out last.
  void fail(const std::string& words) { report_({current_, words, false}); }
  int failed() const { return failed_; }

  gpu::TrainingChecks training() const {
    gpu::TrainingChecks checks{.device = device_, .wanted = wanted_};
    if (arguments_.rehearse) {
      checks.model = "tiny-gpt";
      checks.vocabulary = 256;
      checks.backend = BackendKind::cpu;
      checks.precisions = {Precision::float32};
      checks.steps = 5;
    }
    if (arguments_.steps > 0) checks.steps = arguments_.steps;
    if (!arguments_.expected.empty()) read_expected(checks);
    return checks;
  }

 private:
  bool wants(const std::string& part) const {
    const auto& parts = arguments_.parts;
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  }

  gpu::Maker make() const {
    if (arguments_.rehearse) return [](int, const CudaOptions&) { return make_cpu_backend(); };
    return [](int rank, const CudaOptions& options) { return make_cuda_backend(rank, options); };
  }

  void check_part_smoke() {
    gpu::SmokeChecks checks{.make = make(), .wanted = wanted_};
    if (arguments_.rehearse) {
      checks.precision = Precision::float32;
      checks.attention = tiny_attention;
      checks.width = 64;
    }
    gpu::check_smoke(checks, report_);
  }

  void check_part_kernels() {
    const auto backend = make()(0, {});
    gpu::check_kernels(
        *backend, {.seed = arguments_.seed, .in_bf16 = !arguments_.rehearse, .wanted = wanted_},
        report_);
  }

  void check_part_attention() {
    gpu::AttentionChecks checks{.make = make(), .seed = arguments_.seed, .wanted = wanted_};
    if (arguments_.rehearse) {
      checks.precision = Precision::float32;
      checks.shapes = {tiny_attention};
    }
    gpu::check_attention(checks, report_);
  }

  void check_part_sizes() {
    gpu::SizeChecks checks{.make = make(), .wanted = wanted_};
    if (arguments_.rehearse) {
      checks.precisions = {Precision::float32};
      checks.rows = 96;
      checks.widths = {32};
      checks.vocabulary = 160;
    }
    gpu::check_sizes(checks, report_);
  }

  /// A tiny model with the rows of logits that a large one has.
  gpu::TrainingChecks pipelines() const {
    gpu::TrainingChecks checks{
        .model = "tiny-gpt", .device = device_, .steps = 5, .wanted = wanted_};
    if (arguments_.rehearse) {
      checks.vocabulary = 256;
      checks.backend = BackendKind::cpu;
      checks.precisions = {Precision::float32};
    }
    return checks;
  }

  void read_expected(gpu::TrainingChecks& checks) const {
    const Json json = Json::read(arguments_.expected);
    json.allow_only({"format", "model", "vocabulary", "losses"});
    json.expect_format(format_of_losses);
    // Those of another model are none for this one.
    if (json["model"].string() != checks.model ||
        json["vocabulary"].integer() != checks.vocabulary) {
      return;
    }
    for (const Json& loss : json["losses"].elements()) checks.expected.push_back(loss.number());
    checks.steps = std::min(checks.steps, static_cast<int>(checks.expected.size()));
  }

  static constexpr AttentionShape tiny_attention{
      .samples = 2, .sequence = 64, .heads = 4, .key_value_heads = 4, .head_width = 16};

  const Arguments& arguments_;
  std::string device_;
  std::set<std::string> without_;
  std::string current_ = "the beginning";
  int failed_ = 0;
  gpu::Wanted wanted_ = [this](const std::string& name) {
    if (name.find(arguments_.only) == std::string::npos || without_.contains(name)) return false;
    current_ = name;
    std::cout << "begins  " << name << std::endl;
    return true;
  };
  gpu::Report report_ = [this](const gpu::Outcome& outcome) {
    std::cout << (!outcome.asked   ? "told    "
                  : outcome.passed ? "ok      "
                                   : "FAILED  ")
              << outcome.name << ": " << outcome.words << std::endl;
    if (outcome.asked && !outcome.passed) ++failed_;
  };
};

void print_expected(const gpu::TrainingChecks& checks) {
  const nlohmann::ordered_json json{{"format", format_of_losses},
                                    {"model", checks.model},
                                    {"vocabulary", checks.vocabulary},
                                    {"losses", gpu::losses_on_cpu(checks)}};
  std::cout << json.dump(1) << "\n";
}

int carry_out(const Arguments& arguments) {
  std::string device = "cpu";
  if (!arguments.rehearse && arguments.parts != std::vector<std::string>{"expect"}) {
    const CudaReport report = describe_cuda();
    if (report.driver.empty() || report.devices.empty()) {
      std::cout << "no GPU: "
                << (report.driver.empty() ? "this machine has no NVIDIA driver"
                                          : "the driver knows none")
                << "\n";
      return 77;
    }
    device = device_kind(report);
  }
  Suite suite(arguments, device);
  if (arguments.parts == std::vector<std::string>{"expect"}) {
    print_expected(suite.training());
    return 0;
  }
  try {
    suite.run();
  } catch (const std::exception& error) {
    suite.fail(error.what());
    return 1;
  }
  std::cout << (suite.failed() == 0 ? "all is well\n" : concat(suite.failed(), " failed\n"));
  return suite.failed() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments =
      read_arguments(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (!arguments.understood) {
    std::cerr << usage;
    return 2;
  }
  try {
    return carry_out(arguments);
  } catch (const std::exception& error) {
    std::cout << "FAILED  loading the CUDA module: " << error.what() << "\n";
    return 1;
  }
}
