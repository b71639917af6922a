// No flag is ignored: given to what it does not apply to, it is refused, and everywhere else it
// changes what is printed.

#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cli/answers.hpp"

using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

// The flags in a verb's --help, but for those that all verbs have.
std::set<std::string> flags_of(const fs::path& folder, const std::string& verb) {
  std::string help = answer(folder, verb + " --help").text;
  help = help.substr(0, help.find("\nCommon:"));
  std::set<std::string> flags;
  const std::regex flag("\n +(?:-[a-z],)?(--[a-z0-9-]+)");
  for (std::sregex_iterator it(help.begin(), help.end(), flag), end; it != end; ++it)
    flags.insert((*it)[1]);
  flags.erase("--help");
  return flags;
}

// A value for each flag that is not its default, such that the flag applies where it can.
const std::map<std::string, std::string> values{
    {"--compare-frameworks", "on"},
    {"--exclude", "3"},
    {"--devices", "2"},
    {"--strategy", "megatron"},
    {"--pareto", "memory,throughput"},
    {"--gap", "90%"},
    {"--objective", "throughput"},
    {"--min-layers-per-stage", "2"},
    {"--max-stages", "1"},
    {"--straight", ""},
    {"--fix", "stage0.layers=0..2"},
    {"--expert-load", "2"},
    {"--expert-nodes", "1"},
    {"--expert-tensor-parallel", "2"},
    {"--expert-parallel", "2"},
    {"--context-parallel", "2"},
    {"--sequence-parallel", "off"},
    {"--tensor-parallel", "2"},
    {"--dp", "2"},
    {"--vpp", "2"},
    {"--pp", "2"},
    {"--mbs", "2"},
    {"--messages-in-flight", "2"},
    {"--without-prediction", ""},
    {"--flops", ""},
    {"--format", "torch"},
    {"--constants", "nothing.json"},
    {"--collectives", "1MiB"},
    {"--certificate", ""},
    {"--activations", "1GiB"},
    {"--activations-for-weight", "10%"},
    {"--against", "p.json"},
    {"--backward", "9ms"},
    {"--batch", "64"},
    {"--backward-input", "4ms"},
    {"--backward-weight", "5ms"},
    {"--bandwidth", "1kB/s"},
    {"--barrier", "off"},
    {"--buffers", "3"},
    {"--cache-per-token", "1MiB"},
    {"--checkpoint", "10s"},
    {"--checkpoint-every", "1h"},
    {"--cluster", "8xh100"},
    {"--decode-steps", "4"},
    {"--depth", "2"},
    {"--devices-per-link", "2"},
    {"--devices-per-node", "2"},
    {"--draw", ""},
    {"--for", "megatron"},
    {"--forward", "9ms"},
    {"--fused", "9ms"},
    {"--gradient-bucket", "25MiB"},
    {"--group", "3"},
    {"--in-flight", "3"},
    {"--iterations", "3"},
    {"--jitter", "20%"},
    {"--keep", "pp,vpp"},
    {"--kernels", "torch"},
    {"--dispatcher", "deepep"},
    {"--cuda-graphs", "layers"},
    {"--fp8-recipe", "tensorwise"},
    {"--fused-loss", "native"},
    {"--recompute-modules", "layernorm"},
    {"--overlap", "tensor"},
    {"--link-policy", "blocking-pair"},
    {"--mem-limit", "50%"},
    {"--memory", "9GiB"},
    {"--memory-in-flight", "3"},
    {"--memory-limit", "cluster"},
    {"--message", "1GiB"},
    {"--microbatch", "8"},
    {"--microbatches", "32"},
    {"--model", "tiny-gpt"},
    {"--mtbf", "1h"},
    {"--norm", "global"},
    {"--norm-time", "1s"},
    {"--nvtx", "ranges.json"},
    {"--optimizer", "sgd"},
    {"--output-tokens", "64"},
    {"--pipes", "4"},
    {"--price", "a100=2/h"},
    {"--precision", "fp32"},
    {"--prompt", "3"},
    {"--protocol", "rendezvous"},
    {"--range", "1ms..2ms"},
    {"--recompute", "full"},
    {"--replan", ""},
    {"--replicas", "2"},
    {"--restart", "1h"},
    {"--risk", "p90"},
    {"--run-time", "24h"},
    {"--samples", "10"},
    {"--schedule", "gpipe"},
    {"--sequence", "32"},
    {"--sequence-chunks", "2"},
    {"--set", "tp=2"},
    {"--sharding", "zero1"},
    {"--sharing", "fair"},
    {"--slow", "0:20%"},
    {"--slow-down", "20%"},
    {"--spread", "compute=20%"},
    {"--stages", "2"},
    {"--stop", "0@1ms:50ms"},
    {"--time-limit", "1ms"},
    {"--tokens", "15T"},
    {"--top", "2"},
    {"--svg", "drawing.svg"},
    {"--trace", "trace.json"},
    {"--transfer", "10s"},
    {"--virtual", "2"},
    {"--warmup", "3,2,1,0"},
    {"--write-plan", "changed.json"},
};

// Flags that rightly print nothing else, and why.
const std::map<std::string, std::string> exceptions{
    {"advise p.json --depth", "no third edit makes this plan faster"},
    {"simulate p.json --draw", "a plan's timeline is drawn without it, too"},
    {"simulate p.json --trace", "writes a file"},
    {"simulate p.json --svg", "writes a file"},
    {"simulate p.json --nvtx", "writes a file"},
    {"simulate p.json --memory-limit", "the plan fits, so no forward waits"},
    {"explain p.json --memory-limit", "the plan fits, so no forward waits"},
    {"compare p.json p.json --memory-limit", "the plan fits, so no forward waits"},
    {"compare p.json p.json --sharing", "no two messages are on a link at once"},
    {"simulate s --norm", "takes no time without --norm-time or --transfer"},
    {"explain s --norm", "takes no time without --norm-time or --transfer"},
    {"compare s --norm", "takes no time without --norm-time or --transfer"},
    {"simulate s --draw", "one schedule's timeline is drawn without it, too"},
    {"simulate s --trace", "writes a file"},
    {"simulate s --svg", "writes a file"},
    {"simulate s --nvtx", "writes a file"},
    {"simulate s.csv --norm", "takes no time without --norm-time or --transfer"},
    {"explain s.csv --norm", "takes no time without --norm-time or --transfer"},
    {"simulate s.csv --draw", "one schedule's timeline is drawn without it, too"},
    {"simulate s.csv --trace", "writes a file"},
    {"simulate s.csv --svg", "writes a file"},
    {"simulate s.csv --nvtx", "writes a file"},
    {"simulate sweep --slow-down", "messages of no size keep no device from computing"},
    {"simulate sweep --protocol", "no receiver is late, so what a send needs of it is there"},
    {"simulate inference --draw", "one schedule's timeline is drawn without it, too"},
    {"simulate inference --trace", "writes a file"},
    {"simulate inference --svg", "writes a file"},
    {"simulate inference --nvtx", "writes a file"},
    {"simulate zb-2p --draw", "one schedule's timeline is drawn without it, too"},
    {"simulate zb-2p --trace", "writes a file"},
    {"simulate zb-2p --svg", "writes a file"},
    {"simulate zb-2p --nvtx", "writes a file"},
    {"schedule s.csv --pipes", "says how many copies of the model a file has, not their order"},
};

// Each flag of the verb beside the input, which is named `label` in the exceptions.
void walk(const fs::path& folder, const std::string& verb, const std::string& input,
          const std::string& label) {
  const Answer plain = answer(folder, verb + " " + input);
  INFO(plain.text);
  REQUIRE(plain.code == 0);
  for (const std::string& flag : flags_of(folder, verb)) {
    INFO(flag << " of " << verb << " " << input);
    const auto value = values.find(flag);
    if (value == values.end()) FAIL_CHECK("the test has no value for this flag");
    if (value == values.end() || input.find(flag + " ") != std::string::npos) continue;
    const Answer changed = answer(folder, verb + " " + input + " " + flag + " " + value->second);
    INFO(changed.text);
    CHECK(changed.code != 1);
    const bool is_exception = exceptions.contains(verb + " " + label + " " + flag);
    if (is_exception) {
      CHECK(changed.code == 0);
    } else {
      CHECK(changed != plain);
    }
  }
}

}  // namespace

TEST_CASE("each flag changes the answer about a plan or a schedule, or is refused") {
  const fs::path folder =
      fs::temp_directory_path() / ("stagecraft-flags-" + std::to_string(getpid()));
  fs::create_directory(folder);
  REQUIRE(answer(folder,
                 "plan tiny-gpt 2x4xa100@10Gb/s --batch 32 --schedule 1f1b --tensor-parallel 1 "
                 "--straight --pp 8 --mbs 4 --gap 50% -o p.json")
              .code == 0);
  const std::string schedule =
      "--schedule 1f1b --stages 4 --microbatches 8 --forward 10ms --backward 20ms";
  walk(folder, "advise", "p.json", "p.json");
  walk(folder, "simulate", "p.json", "p.json");
  walk(folder, "explain", "p.json", "p.json");
  walk(folder, "compare", "p.json p.json", "p.json p.json");
  walk(folder, "report", "p.json", "p.json");
  walk(folder, "simulate", schedule, "s");
  walk(folder, "explain", schedule, "s");
  walk(folder, "compare",
       "--schedule 1f1b,gpipe --stages 4 --microbatches 8 --forward 10ms --backward 20ms", "s");
  const std::string sweep =
      "--stages 4 --forward 10ms --backward 20ms --transfer 1ms --schedule 1f1b";
  walk(folder, "simulate", sweep + ",gpipe --microbatches 8", "sweep");
  walk(folder, "simulate", sweep + " --microbatches 8..16", "sweep");
  const std::string inference =
      "--schedule inference --stages 4 --forward 10ms --transfer 1ms --microbatches 8";
  walk(folder, "simulate", inference, "inference");
  walk(folder, "simulate", inference + "..16", "sweep");
  walk(folder, "simulate",
       "--schedule zb-2p --stages 8 --microbatches 24 --forward 18522us --backward-input 18086us "
       "--backward-weight 9337us --transfer 601us",
       "zb-2p");
  REQUIRE(answer(folder, "schedule show 1f1b --stages 4 --format torch -o s.csv").code == 0);
  const std::string file = "--schedule s.csv --forward 10ms --backward 20ms";
  walk(folder, "simulate", file, "s.csv");
  walk(folder, "explain", file, "s.csv");
  fs::remove_all(folder);
}

TEST_CASE("each flag of what lists, shows and checks changes the answer, or is refused") {
  const fs::path folder =
      fs::temp_directory_path() / ("stagecraft-shown-" + std::to_string(getpid()));
  fs::create_directory(folder);
  REQUIRE(answer(folder, "plan tiny-gpt 2xa100 --batch 32 --schedule 1f1b --pp 2 -o p.json").code ==
          0);
  REQUIRE(answer(folder, "schedule show 1f1b --stages 4 --format torch -o s.csv").code == 0);
  walk(folder, "check", "p.json", "p.json");
  walk(folder, "check", "s.csv", "s.csv");
  walk(folder, "check", "1f1b --stages 4 --microbatches 8", "s");
  walk(folder, "schedule", "show 1f1b --stages 4 --microbatches 8", "s");
  walk(folder, "schedule", "show s.csv", "s.csv");
  for (const char* verb : {"schedule", "model", "cluster"}) walk(folder, verb, "list", "list");
  walk(folder, "model", "show tiny-gpt", "tiny-gpt");
  walk(folder, "cluster", "show 4xa100", "4xa100");
  walk(folder, "plan", "tiny-gpt 4xa100@10Gb/s --batch 32 --compare-frameworks off", "tiny-gpt");
  fs::remove_all(folder);
}
