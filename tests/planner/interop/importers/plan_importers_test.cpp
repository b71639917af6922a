// What every importer of plans owes: its own files are recognised, others' are not, and whatever is
// done to a file, the answer is a valid plan or a sentence.

#include <map>
#include <random>
#include <set>

#include "planner/costs/predict.hpp"
#include "profiles/importers.hpp"
#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const std::string figures =
    "forward_compute_time=1, backward_compute_time=1, activation_size=4, parameter_size=4";
const std::string pipedream_graph = "node1 -- A -- " + figures + " -- stage_id=0\nnode2 -- B -- " +
                                    figures + " -- stage_id=1\n\tnode1 -- node2\n";

const std::string piper_input =
    R"({"maxMemoryPerDevice": 1e9, "maxDevices": 2, "bandwidth": 2e9, "mbsInBatch": 8,
  "nodes": [{"id": 0, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.003, "parameterSize": 4,
  "memoryUsageA": 50.4, "memoryUsageB": 8, "syncTimeFw": {}, "syncTimeBw": {"1": 0}}]}},
  {"id": 1, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.003, "parameterSize": 4,
  "memoryUsageA": 50.4, "memoryUsageB": 8, "syncTimeFw": {"0": 0}, "syncTimeBw": {}}]}}],
  "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 30}]})";

/// Operators of a resnet, of which any are taken.
const std::string aceso_table =
    "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,"
    "fwd_reserved,bwd_reserved\n"
    "conv1,1000,2000,1,2,1,2,0,0\nbn1,100,200,2,2,0.5,2,0,0\nfc,500,1000,2,0,1,1,0,0\n";
const std::string aceso_plan = R"({"model_name": "resnet", "model_size": "2B",
  "global_batch_size": 8, "micro_batch_size": 1, "num_stages": 2, "num_gpus": [1, 1],
  "checkpoint_activations": [true, false], "num_ops_in_each_stage": [2, 1],
  "model_parallel_size_of_each_op": [[1, 1], [1]], "data_parallel_size_of_each_op": [[1, 1], [1]],
  "recompute_ops": [[1, 1], [0]], "algo_of_each_op": [[0, 0], [0]]})";

/// One file of each format; for a transformer of two blocks but for the last three.
const std::map<std::string_view, std::string> samples{
    {"megatron",
     "--num-layers 2 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 1 "
     "--pipeline-model-parallel-layout 'Et|(t)*1L' --micro-batch-size 1 --global-batch-size 8 "
     "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"},
    {"deepspeed", R"({"parts": [0, 2, 4], "train_batch_size": 8, "zero_optimization": {"stage": 1},
                      "train_micro_batch_size_per_gpu": 2, "model_parallel_size": 1})"},
    {"torch", R"({"stages": [["embedding", "layers.0"], ["layers.1", "norm", "output"]],
                  "schedule": "ScheduleGPipe", "microbatches": 4, "global_batch_size": 8})"},
    {"torchtitan",
     "[training]\nlocal_batch_size = 8\nseq_len = 32\n[parallelism]\n"
     "pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 2\n"
     "data_parallel_shard_degree = -1\n[activation_checkpoint]\nmode = \"full\"\n"},
    {"vllm",
     "VLLM_PP_LAYER_PARTITION=1,1 vllm serve org/model --pipeline-parallel-size 2 "
     "--tensor-parallel-size 1 --dtype bfloat16\n"},
    {"pipedream", R"({"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0], "1": [1]},
                      "stage_to_depth_map": {"0": 1, "1": 0}})"},
    {"piper", R"({"stages": [{"nodes": [0], "dataParallelDegree": 1, "tensorParallelDegree": 1,
                  "TMPCids": {"0": "vanilla"}}, {"nodes": [1], "dataParallelDegree": 1,
                  "tensorParallelDegree": 1, "TMPCids": {"1": "vanilla"}}]})"},
    {"aceso", aceso_plan}};

PlanQuestion question_for(std::string_view format) {
  PlanQuestion question = question_of(2, "2xh100");
  if (format == "vllm") question.options.batch = 8;
  if (format == "aceso") {
    question.cluster = parse_cluster("2xgeneric@1GB/s");
    question.model_content = aceso_table;
    question.profile = import_aceso(aceso_table, "resnet_2B_mbs1_tp1_algo0.csv");
    return question;
  }
  if (format != "pipedream" && format != "piper") return question;
  const bool is_piper = format == "piper";
  question.cluster = parse_cluster("2xgeneric@1GB/s");
  question.model_content = is_piper ? piper_input : pipedream_graph;
  question.profile =
      is_piper ? import_piper(piper_input, "p.json") : import_pipedream(pipedream_graph, "g.txt");
  question.options.batch = 8;
  return question;
}

/// A few random bytes changed, doubled or cut out.
std::string mutilated(std::string text, std::mt19937& random) {
  constexpr std::string_view bytes = "0123456789-.,:[]{}()*|\"'\\ \ntEL\xff";
  for (unsigned change = 0; change < 1 + random() % 3; ++change) {
    const std::size_t at = random() % text.size();
    const std::size_t length = std::min<std::size_t>(random() % 8, text.size() - at);
    if (random() % 2 == 0) text[at] = bytes[random() % bytes.size()];
    if (random() % 4 == 0) text.insert(at, text.substr(at, length));
    if (random() % 4 == 0 && text.size() > length) text.erase(at, length);
  }
  return text;
}

}  // namespace

TEST_CASE("importers of plans have names of their own and a sample here") {
  std::set<std::string_view> names;
  for (const PlanImporter& importer : plan_importers) {
    INFO(importer.name);
    CHECK(names.insert(importer.name).second);
    CHECK_FALSE(importer.summary.empty());
    CHECK(samples.contains(importer.name));
  }
}

TEST_CASE("importers of plans recognise their own files only, and simulate what they read") {
  for (const PlanImporter& importer : plan_importers) {
    for (const auto& [name, content] : samples) {
      INFO(importer.name << " on a file of " << name);
      CHECK(importer.recognise(content) == (importer.name == name));
    }
    CHECK_FALSE(importer.recognise(""));
    const PlanQuestion question = question_for(importer.name);
    const Plan plan = imported(importer.name, samples.at(importer.name), question);
    CHECK(plan.stages.size() == 2);
    CHECK(plan.batch.global == 8);
    CHECK(predict(plan, in_plan_order(question.profile, plan), question.cluster).step >
          Duration{0});
  }
}

TEST_CASE("importers of plans answer anything with a valid plan or a sentence", "[seconds]") {
  std::mt19937 random(11);
  int plans = 0;
  int sentences = 0;
  for (const PlanImporter& importer : plan_importers) {
    const PlanQuestion question = question_for(importer.name);
    for (int round = 0; round < 300; ++round) {
      const std::string text = mutilated(samples.at(importer.name), random);
      INFO(importer.name << ": " << text);
      try {
        const Plan plan = imported(importer.name, text, question);
        CHECK_NOTHROW(
            validate(plan, in_plan_order(question.profile, plan).model, question.cluster));
        ++plans;
      } catch (const Error& error) {
        CHECK(error.kind() != ErrorKind::bug);
        CHECK_FALSE(error.message().empty());
        ++sentences;
      }
    }
  }
  CHECK(plans > 50);
  CHECK(sentences > 500);
}
