// No flag is ignored: given to what it does not apply to, it is refused, and everywhere else it
// changes what is printed.

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
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
    {"--router-fusion", "on"},
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
    {"--prompt-tokens", "24"},
    {"--output-tokens", "8"},
    {"--chunk-tokens", "4"},
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
    {"--time-limit", "1h"},
    {"--tokens", "15T"},
    {"--top", "2"},
    {"--svg", "drawing.svg"},
    {"--trace", "trace.json"},
    {"--transfer", "10s"},
    {"--virtual", "2"},
    {"--warmup", "3,2,1,0"},
    {"--write-plan", "changed.json"},
    {"--data", "book.txt"},
    {"--weights", "w.safetensors"},
    {"--save-weights", "saved.safetensors"},
    {"--no-weights", ""},
    {"--backend", "sleep"},
    {"--processes", "2"},
    {"--hosts", "nowhere:2"},
    {"--verify", ""},
    {"--every", "1"},
    {"--trace-steps", "2"},
    {"--graphs", "on"},
    {"--deterministic", "off"},
    {"--gpu-ranges", ""},
    {"--flight-records", "records"},
    {"--deadline", "20s"},
    {"--check-finite", "off"},
    {"--restarts", "1"},
    {"--learning-rate", "0.1"},
    {"--clip", "0.01"},
    {"--loss-rows", "8"},
    {"--plot", "plot.svg"},
    {"--shipped", ""},
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
    {"simulate i.json --draw", "a plan's timeline is drawn without it, too"},
    {"simulate i.json --trace", "writes a file"},
    {"simulate i.json --svg", "writes a file"},
    {"simulate i.json --nvtx", "writes a file"},
    {"advise i.json --top", "no edit makes this plan faster"},
    {"advise i.json --depth", "no edit makes this plan faster"},
    {"compare i.json i.json --memory-limit", "the plan fits, so no forward waits"},
    {"compare i.json i.json --sharing", "no two messages are on a link at once"},
    {"plan inference --compare-frameworks", "none of the frameworks that train serves requests"},
    {"simulate e.json --draw", "a plan's timeline is drawn without it, too"},
    {"simulate e.json --trace", "writes a file"},
    {"simulate e.json --svg", "writes a file"},
    {"simulate e.json --nvtx", "writes a file"},
    {"compare e.json e.json --memory-limit", "the plan fits, so no forward waits"},
    {"compare r.json t.json --memory-limit", "the plan fits, so no forward waits"},
    {"compare r.json t.json --sharing", "no two messages are on a link at once"},
    {"calibrate r.json t.json --cluster", "writes a file"},
    {"calibrate mine.json --device", "the set names its device"},
    {"ledger mine.json --device", "the set names its device"},
    {"ledger mine.json --plot", "writes a file"},
    {"run r.json --check-finite", "all numbers are finite"},
    {"run r.json --deadline", "no instruction takes so long"},
    {"run r.json --flight-records", "writes a file"},
    {"run r.json --checkpoint", "writes a file"},
    {"run r.json --loss-rows", "the same sums, and so the same losses"},
    {"run r.json --no-weights", "the final weights are shown with --json alone"},
    {"run r.json --nvtx", "writes a file"},
    {"run r.json --svg", "writes a file"},
    {"run r.json --trace", "writes a file"},
    {"run r.json --save-weights", "writes a file"},
    {"run r.json --processes", "processes give the bits of threads"},
    {"run r.json --transport", "processes give the bits of threads"},
    {"run r.json --restarts", "nothing ends the run before its time"},
    {"profile tiny-gpt --loss-rows", "changes times and sizes, which differ each time"},
    {"advise train.sh --for", "a script of Megatron-LM is advised in its words anyway"},
    {"schedule s.csv --pipes", "says how many copies of the model a file has, not their order"},
};

// What is measured differs from one time to the next: times, rates, and whether the machine was
// busy.
std::string without_measurements(const std::string& text) {
  static const std::regex busy("busy machine[^\n]*\n|, the machine was busy: no verdict");
  static const std::regex lists(R"(\[[-\s\d.,eE+null]*\])");
  static const std::regex measured(
      R"([-+]?[\d.,]+(ns|us|ms|s|min|h| %|[kMG]?B/s| samples/s| tokens/s)(?![\w]))");
  std::string result = std::regex_replace(text, busy, "");
  result = std::regex_replace(result, lists, "[]");
  return std::regex_replace(result, measured, "#");
}

// How a walk differs from the usual.
struct Walk {
  std::map<std::string, std::string> values = {};  // of flags that mean something else here
  bool is_measured = false;
};

// What a flag writes is there, and not empty.
void check_written(const fs::path& file) {
  INFO(file.string());
  CHECK(fs::exists(file));
  if (!fs::exists(file)) return;
  CHECK_FALSE(fs::is_empty(file));
  fs::remove_all(file);
}

// Each flag of the verb beside the input, which is named `label` in the exceptions.
void walk(const fs::path& folder, const std::string& verb, const std::string& input,
          const std::string& label, const Walk& how = {}) {
  const auto asked = [&](const std::string& words) {
    Answer result = answer(folder, verb + " " + input + words);
    if (how.is_measured) result.text = without_measurements(result.text);
    return result;
  };
  const Answer plain = asked("");
  INFO(plain.text);
  REQUIRE(plain.code == 0);
  for (const std::string& flag : flags_of(folder, verb)) {
    INFO(flag << " of " << verb << " " << input);
    const bool is_special = how.values.contains(flag);
    if ((" " + input + " ").find(" " + flag + " ") != std::string::npos) continue;
    if (!is_special && !values.contains(flag)) FAIL_CHECK("the test has no value for this flag");
    if (!is_special && !values.contains(flag)) continue;
    const std::string value = is_special ? how.values.at(flag) : values.at(flag);
    const Answer changed = asked(" " + flag + " " + value);
    INFO(changed.text);
    CHECK(changed.code != 1);
    // How long a verb may take does not change what it answers in time.
    if (flag == "--time-limit") {
      CHECK((changed == plain || changed.code == 2));
      continue;
    }
    const auto exception = exceptions.find(verb + " " + label + " " + flag);
    if (exception == exceptions.end()) {
      CHECK(changed != plain);
    } else {
      CHECK(changed.code == 0);
      if (exception->second == "writes a file") check_written(folder / value);
    }
  }
}

// A folder that is gone afterwards.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(fs::temp_directory_path() / ("stagecraft-" + name + "-" + std::to_string(getpid()))) {
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }
  // The command succeeds.
  void make(const std::string& words) const {
    const Answer made = answer(path_, words);
    INFO(words << "\n" << made.text);
    REQUIRE(made.code == 0);
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("each flag changes the answer about a plan or a schedule, or is refused") {
  const Folder folder("flags");
  folder.make(
      "plan tiny-gpt 2x4xa100@10Gb/s --batch 32 --schedule 1f1b --tensor-parallel 1 --straight "
      "--pp 8 --mbs 4 --gap 50% -o p.json");
  const std::string schedule =
      "--schedule 1f1b --stages 4 --microbatches 8 --forward 10ms --backward 20ms";
  const fs::path& in = folder.path();
  walk(in, "advise", "p.json", "p.json");
  walk(in, "simulate", "p.json", "p.json");
  walk(in, "explain", "p.json", "p.json");
  walk(in, "compare", "p.json p.json", "p.json p.json");
  walk(in, "report", "p.json", "p.json");
  walk(in, "export", "megatron p.json", "p.json");
  walk(in, "simulate", schedule, "s");
  walk(in, "explain", schedule, "s");
  walk(in, "compare",
       "--schedule 1f1b,gpipe --stages 4 --microbatches 8 --forward 10ms --backward 20ms", "s");
  const std::string sweep =
      "--stages 4 --forward 10ms --backward 20ms --transfer 1ms --schedule 1f1b";
  walk(in, "simulate", sweep + ",gpipe --microbatches 8", "sweep");
  walk(in, "simulate", sweep + " --microbatches 8..16", "sweep");
  const std::string inference =
      "--schedule inference --stages 4 --forward 10ms --transfer 1ms --microbatches 8";
  walk(in, "simulate", inference, "inference");
  walk(in, "simulate", inference + "..16", "sweep");
  walk(in, "simulate",
       "--schedule zb-2p --stages 8 --microbatches 24 --forward 18522us --backward-input 18086us "
       "--backward-weight 9337us --transfer 601us",
       "zb-2p");
  folder.make("schedule show 1f1b --stages 4 --format torch -o s.csv");
  const std::string file = "--schedule s.csv --forward 10ms --backward 20ms";
  walk(in, "simulate", file, "s.csv");
  walk(in, "explain", file, "s.csv");
}

TEST_CASE("each flag changes the answer about a plan for inference, or is refused") {
  const Folder folder("serving");
  folder.make(
      "plan tiny-gpt 4xa100@10Gb/s --batch 32 --schedule inference --pp 2 --mbs 8 -o i.json");
  const fs::path& in = folder.path();
  for (const char* verb : {"simulate", "explain", "advise", "report", "check"})
    walk(in, verb, "i.json", "i.json");
  walk(in, "compare", "i.json i.json", "i.json i.json");
  walk(in, "plan", "tiny-gpt 4xa100@10Gb/s --batch 32 --schedule inference", "inference");
}

TEST_CASE("each flag changes the answer about a plan with experts, or is refused") {
  const Folder folder("experts");
  folder.make(
      "plan deepseek-v2-lite 8xh100 --batch 64 --pp 2 --ep 4 --gap 50% --for megatron -o e.json");
  const fs::path& in = folder.path();
  for (const char* verb : {"simulate", "explain", "check"}) walk(in, verb, "e.json", "e.json");
  walk(in, "compare", "e.json e.json", "e.json e.json");
}

TEST_CASE("each flag changes the answer about a run, or is refused") {
  const Folder folder("runs");
  folder.make("plan tiny-gpt 2xcpu --batch 4 --microbatch 1 --straight --schedule 1f1b -o r.json");
  folder.make("run r.json --backend sleep --steps 3 --trace t.json --trace-steps 2");
  folder.make("run r.json --steps 1 --save-weights w.safetensors --checkpoint before");
  folder.make("schema plan -o book.txt");
  const fs::path& in = folder.path();
  walk(in, "compare", "r.json t.json", "r.json t.json");
  walk(in, "report", "r.json t.json", "r.json t.json", {.values = {{"--against", "r.json"}}});
  walk(in, "calibrate", "r.json t.json", "r.json t.json",
       {.values = {{"--cluster", "c.json"}, {"--plan", "n.json"}, {"--device", "h100"}}});
  walk(in, "run", "r.json --steps 2", "r.json",
       {.values = {{"--transport", "tcp"},
                   {"--checkpoint", "after"},
                   {"--resume", "before"},
                   {"--keep", "1"},
                   {"--gpus", "0"},
                   {"--partitions", ""},
                   {"--sums", "nccl"}},
        .is_measured = true});
}

TEST_CASE("each flag changes what is measured, or is refused") {
  const Folder folder("measured");
  walk(folder.path(), "profile", "tiny-gpt --repeats 1", "tiny-gpt",
       {.values = {{"--device", "cuda:7"},
                   {"--microbatch", "2"},
                   {"--precision", "fp64"},
                   {"--transport", "tcp"},
                   {"--gpus", "0"},
                   {"--partitions", "2"},
                   {"--sums", "nccl"}},
        .is_measured = true});
}

TEST_CASE("each flag changes the answer about files of other systems, or is refused") {
  const Folder folder("foreign");
  const fs::path& in = folder.path();
  std::ofstream(in / "train.sh")
      << "torchrun --nproc-per-node 8 --nnodes $NODES pretrain_gpt.py --num-layers 80 "
         "--hidden-size 8192 --num-attention-heads 64 --tensor-model-parallel-size 8 "
         "--pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64 --bf16 "
         "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1\n";
  const std::string script = "train.sh --model llama3-70b --cluster 2x8xh100 --set NODES=2";
  walk(in, "import", "megatron " + script, "train.sh",
       {.values = {{"--device", "h100"}, {"--microbatch", "2"}, {"--replicas", "1,1"}}});
  walk(in, "advise", script, "train.sh", {.values = {{"--top", "1"}}});
}

TEST_CASE("each flag changes the answer about measured sets, or is refused") {
  const Folder folder("sets");
  const fs::path& in = folder.path();
  std::ofstream(in / "mine.json")
      << R"({"format": "stagecraft-measured/1", "name": "mine", "device": "a100-80gb", "fit": ["product_rate"], "rows": [
  {"label": "one", "model": "llama2-7b", "blocks": 8, "sequence": 2048, "microbatches": 8, "step": "1s"},
  {"label": "two", "model": "llama2-7b", "blocks": 8, "sequence": 2048, "microbatches": 16, "step": "2s"}]})";
  folder.make("calibrate mine.json -o constants.json");
  walk(in, "calibrate", "mine.json", "mine.json",
       {.values = {{"--cluster", "c.json"}, {"--plan", "n.json"}, {"--device", "h100"}}});
  walk(in, "ledger", "--sets mine.json", "mine.json",
       {.values = {{"--constants", "constants.json"}, {"--device", "h100"}}});
}

TEST_CASE("each flag of what lists, shows and checks changes the answer, or is refused") {
  const Folder folder("shown");
  folder.make("plan tiny-gpt 2xa100 --batch 32 --schedule 1f1b --pp 2 -o p.json");
  folder.make("schedule show 1f1b --stages 4 --format torch -o s.csv");
  const fs::path& in = folder.path();
  walk(in, "check", "p.json", "p.json");
  walk(in, "check", "s.csv", "s.csv");
  walk(in, "check", "1f1b --stages 4 --microbatches 8", "s");
  walk(in, "schedule", "show 1f1b --stages 4 --microbatches 8", "s");
  walk(in, "schedule", "show s.csv", "s.csv");
  for (const char* verb : {"schedule", "model", "cluster"}) walk(in, verb, "list", "list");
  walk(in, "model", "show tiny-gpt", "tiny-gpt");
  walk(in, "cluster", "show 4xa100", "4xa100");
  walk(in, "plan", "tiny-gpt 4xa100@10Gb/s --batch 32 --compare-frameworks off", "tiny-gpt");
}
