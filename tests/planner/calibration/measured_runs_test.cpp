#include "planner/calibration/measured_runs.hpp"

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "planner/calibration/ledger.hpp"
#include "planner/calibration/megatron_arguments.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr std::string_view table =
    "# March\n"
    "Model,cluster,TP,pp,micro-batch,global batch,sharding,iteration time (ms),peak memory,label\n"
    "llama3-8b,2x8xh100,2,4,1,64,zero1,4900,61GiB,\"one, first\"\n"
    "llama3-8b,2x8xh100,4,2,1,64,none,5300,,\n";

std::vector<MeasuredRun> runs_of(std::string_view content, const RunFileOptions& options = {}) {
  const RunFormat* format = run_format_of(content);
  if (format == nullptr) fail("no known format");
  return format->read(content, "runs", options);
}

std::string complaint_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return message_of([&] { runs_of(text); });
}

/// Why a row of the table, changed so, is left out while the others are read.
std::string reason_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  const std::vector<MeasuredRun> runs = runs_of(text);
  REQUIRE(runs.size() == 2);
  CHECK(runs.front().left_out.empty());
  return runs.back().left_out;
}

/// An argument as Megatron-LM dumps it.
std::string dumped(const std::string& name, const std::string& value) {
  return concat("[default0]:  ", name, " ", std::string(48 - name.size(), '.'), " ", value, "\n");
}

std::string megatron_log(const std::string& fp8 = "None", const std::string& fsdp = "no_shard") {
  std::string text = "[default0]:------------------------ arguments ------------------------\n";
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"add_bias_linear", "False"},
           {"attention_dropout", "0.0"},
           {"bf16", "True"},
           {"data_parallel_sharding_strategy", fsdp},
           {"ffn_hidden_size", "11008"},
           {"fp16", "False"},
           {"fp8", fp8},
           {"global_batch_size", "64"},
           {"group_query_attention", "False"},
           {"hidden_dropout", "0.0"},
           {"hidden_size", "4096"},
           {"micro_batch_size", "1"},
           {"num_attention_heads", "32"},
           {"num_layers", "16"},
           {"num_query_groups", "1"},
           {"pipeline_model_parallel_size", "2"},
           {"seq_length", "4096"},
           {"sequence_parallel", "True"},
           {"swiglu", "True"},
           {"tensor_model_parallel_size", "2"},
           {"transformer_impl", "transformer_engine"},
           {"use_distributed_optimizer", "True"},
           {"use_megatron_fsdp", fsdp == "no_shard" ? "False" : "True"},
           {"virtual_pipeline_model_parallel_size", "4"},
           {"world_size", "8"}})
    text += dumped(name, value);
  text += "[default0]:-------------------- end of arguments ---------------------\n";
  text += "[default0]: > padded vocab (size: 32000) with 256 dummy tokens (new size: 32256)\n";
  const auto iteration = [](int number, int batch, const std::string& time) {
    return concat(" [2026-03-04 10:00:00] iteration ", number, "/ 500 | consumed samples: 320 | ",
                  "elapsed time per iteration (ms): ", time, " | learning rate: 1.0E-05 | ",
                  "global batch size:    ", batch, " | lm loss: 9.1E+00 |\n");
  };
  // A smaller batch at first, then the one that counts, whose first line still warms up.
  text += iteration(10, 16, "800.0") + iteration(20, 32, "2500.0");
  for (const std::string time : {"1600.0", "1590.0", "1610.0", "1700.0"})
    text += iteration(30, 32, time);
  text +=
      "[Rank 0] (after 10 iterations) memory (MB) | allocated: 1.5 | max allocated: 30720.00 | "
      "reserved: 40000.00 | max reserved: 40000.00\n"
      "[Rank 4] (after 10 iterations) memory (MB) | allocated: 1.5 | max allocated: 33792.00 |\n";
  return text;
}

std::string titan_log(const std::string& mesh, const std::string& more = "") {
  const std::string start = "[rank0]:[titan] 2026-02-24 19:45:17,508 - root - INFO - ";
  std::string text = start + mesh + "\n" + start +
                     "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory\n" + start +
                     "Building llama3 8B with TransformerModelArgs(_enforced='', dim=4096, "
                     "n_layers=32, n_heads=32, n_kv_heads=8, vocab_size=128256, multiple_of=1024, "
                     "ffn_dim_multiplier=1.3, norm_eps=1e-05, rope_theta=500000)\n" +
                     more + start +
                     "Training starts at step 1, with local batch size 4, global batch size 32, "
                     "sequence length 8192, total steps 1000 (warmup 200)\n";
  for (const std::string step : {"1  loss: 12.2  memory: 40.00GiB(50.57%)  tps: 1,024",
                                 "10  loss: 10.1  memory: 41.50GiB(52.47%)  tps: 8,192",
                                 "20  loss: 9.1  memory: 41.50GiB(52.47%)  tps: 8,192"})
    text +=
        concat(start, "\x1b[31mstep: ", step, "  \x1b[36mtflops: 400.00  mfu: 40.45%\x1b[39m\n");
  return text;
}

}  // namespace

TEST_CASE("a table of runs is read by its header") {
  const std::vector<MeasuredRun> runs = runs_of(table);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].label == "one, first");
  CHECK(runs[0].seconds == Approx(4.9));
  CHECK(runs[0].memory == Bytes{61} << 30);
  CHECK(runs[0].recipe.device == "h100");
  CHECK(runs[0].recipe.sharded_optimizer);
  CHECK(!runs[0].recipe.sharded_gradients);
  CHECK(runs[0].recipe.blocks == 32);
  CHECK(runs[0].recipe.data == 2);
  CHECK(runs[0].recipe.microbatches == 32);
  CHECK(runs[0].recipe.work.sequence == 8192);
  CHECK(runs[1].label == "llama3-8b, 16 devices: t4 p2 d2 b1, batch 64");
  CHECK(!runs[1].memory);
}

TEST_CASE("tables may be separated by tabs, and units stand in cells or header") {
  const auto runs = runs_of(
      "model\tdevice\tdp\tmicrobatch\tbatch\titeration_time\tmemory_gib\n"
      "llama3-8b\th100\t4\t2\t16\t1.5s\t40\n");
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].seconds == Approx(1.5));
  CHECK(runs[0].memory == Bytes{40} << 30);
  CHECK(device_count(runs[0].recipe) == 4);
}

TEST_CASE("what a table has wrong is said with its place") {
  const std::string text(table);
  CHECK(complaint_of(text, "cluster", "clustr") ==
        "runs:2:7: unknown column \"clustr\"; did you mean \"cluster\"?");
  CHECK(reason_of(text, "4900", "") == "runs:3:35: a value of iteration_time is missing");
  CHECK_THAT(complaint_of(text, "time (ms)", "time"), ContainsSubstring("needs a unit"));
  CHECK_THAT(reason_of(text, ",64,", ",63,"),
             ContainsSubstring("multiple of microbatch x replicas = 1 x 2, found 63"));
  CHECK_THAT(reason_of(text, "2x8xh100", "7xh100"), ContainsSubstring("= 8 devices, found 7"));
  CHECK_THAT(reason_of(text, "2x8xh100,2", "3x8xh100,3"),
             ContainsSubstring("runs:3:1: the configuration cannot have run: "));
  CHECK_THAT(reason_of(text, "llama3-8b", "vgg16"), ContainsSubstring("expected a transformer"));
  CHECK_THAT(reason_of(text, "zero1", "zero9"), ContainsSubstring("expected none, zero1"));
  CHECK_THAT(reason_of(text, ",\"one, first\"", ""), ContainsSubstring("expected 10 cells"));
  CHECK_THAT(message_of([] { runs_of("model,dp,microbatch,batch,time\nllama3-8b,1,1,1,1s\n"); }),
             ContainsSubstring("nothing says which device"));
}

TEST_CASE("a row that cannot be read is left out with its place, and all of them are an error") {
  std::string text(table);
  text.replace(text.find(",64,"), 4, ",63,");
  const std::vector<MeasuredSet> sets = sets_of_runs("runs", runs_of(text));
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].rows.size() == 1);
  REQUIRE(sets[0].left_out.size() == 1);
  CHECK_THAT(sets[0].left_out[0], ContainsSubstring("line 3: runs:3:"));
  text.replace(text.find(",64,"), 4, ",63,");
  CHECK_THAT(message_of([&] { runs_of(text); }), ContainsSubstring("runs:3:"));
}

TEST_CASE("columns say the network, the framework, the dispatcher and what overlaps") {
  struct Case {
    std::string cluster, columns, cells;
    int slower;  ///< than without the columns
  };
  const auto step_of = [](const Case& one) {
    const std::string text =
        concat("model,cluster,tp,ep,microbatch,batch,time,sharding", one.columns, "\nmixtral-8x7b,",
               one.cluster, ",2,8,1,64,9s,zero1", one.cells, "\n");
    return step_seconds(runs_of(text)[0].recipe, usual_constants("h100")).step;
  };
  const double plain = step_of({"4x8xh100", "", "", 0});
  for (const Case& one :
       {Case{"4x8xh100@50Gb/s", "", "", 1}, Case{"4x8xh100@800Gb/s", "", "", -1},
        Case{"4x8xh100", ",dispatcher", ",deepep", -1},
        Case{"4x8xh100", ",dispatcher", ",alltoall", 0},
        Case{"4x8xh100", ",cuda_graphs", ",none", 0},
        Case{"4x8xh100", ",cuda_graphs", ",layers", -1},
        Case{"4x8xh100", ",expert_load", ",1.5",
             1},  // Whole experts: twice the weights to sum and to update.
        Case{"4x8xh100", ",etp", ",1", 1},
        // FlashAttention 2 is slower here, by more than a compiled loss is faster.
        Case{"4x8xh100", ",framework", ",torch", 1}, Case{"4x8xh100", ",fused_loss", ",yes", -1},
        Case{"4x8xh100", ",fused_loss", ",native", -1},
        Case{"4x8xh100", ",router_fusion", ",yes", -1},
        Case{"4x8xh100", ",overlapped_messages", ",yes", 0},
        Case{"4x8xh100", ",sequence_parallel,overlapped_messages", ",yes,yes", -1},
        Case{"4x8xh100", ",overlapped_exchanges", ",yes", -1},
        Case{"4x8xh100", ",precision", ",fp8", -1},
        Case{"4x8xh100", ",precision", ",fp8+attention", -1},
        Case{"4x8xh100", ",recompute", ",selective", 1},
        Case{"4x8xh100", ",recompute", ",layernorm+moe_act", 1},
        Case{"4x8xh100", ",recompute", ",moe", 1},
        // It has no latents.
        Case{"4x8xh100", ",precision,fp8_recipe", ",fp8,tensorwise", -1},
        // Of weights in 16 bits.
        Case{"4x8xh100", ",fp8_param_gather", ",yes", 0},
        Case{"4x8xh100", ",precision,fp8_param_gather", ",fp8,yes", -1},
        Case{"4x8xh100", ",optimizer_instances", ",2", 1}}) {
    INFO(one.cluster << one.columns << one.cells);
    const double step = step_of(one);
    CHECK((step > plain ? 1 : 0) - (step < plain ? 1 : 0) == one.slower);
  }
  CHECK_THAT(message_of([&] {
               step_of({"4x8xh100", ",recompute", ",layernorm+mla_up_proj", 0});
             }),
             ContainsSubstring("has mla_up_proj"));
  CHECK_THAT(message_of([&] {
               step_of({"4x8xh100", ",dispatcher", ",pigeons", 0});
             }),
             ContainsSubstring("expected alltoall, deepep or hybridep, found \"pigeons\""));
  CHECK_THAT(message_of([&] {
               step_of({"4x8xh100", ",cuda_graphs", ",some", 0});
             }),
             ContainsSubstring("expected none, layers or step, found \"some\""));
  CHECK_THAT(message_of([&] {
               step_of({"4x8xh100", ",float8_recipe", ",later", 0});
             }),
             ContainsSubstring("expected delayed, tensorwise, blockwise or mxfp8, found"));
  CHECK_THAT(message_of([&] {
               step_of({"4x8xh100", ",float8_recipe", ",tensorwise", 0});
             }),
             ContainsSubstring("layers compute in bf16"));
  CHECK_THAT(message_of([&] {
               step_of({"4x8xh100", ",precision,float8_recipe", ",fp8,mxfp8", 0});
             }),
             ContainsSubstring("is of b200, b300, gb200 and gb300, and the plan has h100"));
  CHECK_THAT(message_of([&] {
               step_of({"4x8xh100", ",recompute", ",[]", 0});
             }),
             ContainsSubstring("no module of a layer in \"[]\""));
  const auto in_8_bits = [&](const char* recipe) {
    return step_of({"4x8xh100", ",precision,float8_recipe", recipe, 0});
  };
  // One expert on each device is one kernel in any case.
  CHECK(in_8_bits(",fp8,delayed") == in_8_bits(",fp8,blockwise"));
  CHECK(in_8_bits(",fp8,blockwise") < in_8_bits(",fp8,tensorwise"));
  CHECK(step_of({"4x8xh100", ",precision", ",fp8", 0}) == in_8_bits(",fp8,delayed"));
  CHECK(step_of({"4x8xgb200", ",precision", ",fp8", 0}) ==
        step_of({"4x8xgb200", ",precision,float8_recipe", ",fp8,mxfp8", 0}));
}

TEST_CASE("stages that blocks cannot fill evenly have the layout that is quickest") {
  const auto run_of = [](const std::string& columns, const std::string& cells) {
    return runs_of("model,cluster,pp,vpp,ep,microbatch,batch,time" + columns +
                   "\ndeepseek-v3,32x8xh100,4,4,8,1,1024,9s" + cells + "\n")[0];
  };
  // 61 blocks over 4 x 4 stages; the last of them have the prediction and the logits beside.
  const MeasuredRun run = run_of("", "");
  CHECK(std::ranges::any_of(run.assumptions, [](const std::string& text) {
    return text.find("a layout makes the slowest stage as quick as can be") != std::string::npos;
  }));
  const std::vector<int> blocks = stage_blocks(run.recipe);
  REQUIRE(blocks.size() == 4);
  CHECK(std::accumulate(blocks.begin(), blocks.end(), 0) == 61);
  CHECK(blocks.back() < *std::ranges::max_element(blocks));
  const KernelConstants constants = usual_constants("h100");
  const double step = step_seconds(run.recipe, constants).step;
  CHECK(step < step_seconds(run_of(",last_stage_blocks", ",15").recipe, constants).step);
  // No block moved to a neighbour makes it quicker.
  for (std::size_t from = 0; from < blocks.size(); ++from) {
    for (const std::size_t to : {from - 1, from + 1}) {
      if (to >= blocks.size()) continue;
      Recipe moved = run.recipe;
      --moved.layout[from];
      ++moved.layout[to];
      CHECK(step_seconds(moved, constants).work >= step_seconds(run.recipe, constants).work);
    }
  }
  CHECK(run_of(",blocks", ",64").recipe.layout.empty());
  CHECK(run_of(",last_stage_blocks", ",13").recipe.layout.empty());
}

TEST_CASE("logs in fp16 ran on V100, and hosts of a rack are one node") {
  std::string text = megatron_log();
  text.replace(text.find("True", text.find(" bf16")), 4, "False");
  text.replace(text.find("False", text.find(" fp16")), 5, "True");
  const MeasuredRun half = runs_of(text, {.device = "v100-32gb"})[0];
  CHECK(half.left_out.empty());
  CHECK(half.recipe.work.precision == Precision::float16);
  CHECK(half.recipe.devices_per_node == 8);
  CHECK(runs_of(megatron_log(), {.device = "gb200"})[0].recipe.devices_per_node == 72);
}

TEST_CASE("layers without experts come first, or take turns") {
  CHECK(leading_dense_blocks("1") == 0);
  CHECK(leading_dense_blocks("") == 0);
  CHECK(leading_dense_blocks("([0]*3+[1]*58)") == 3);
  CHECK(leading_dense_blocks("[0, 1, 1, 1]") == 1);
  CHECK(leading_dense_blocks("[0, 0]") == 2);
  CHECK(!leading_dense_blocks("2"));
  CHECK(!leading_dense_blocks("[0,1]*12"));
}

TEST_CASE("Megatron-LM's log becomes a run: its arguments, and the median of its steps") {
  const auto runs = runs_of(megatron_log(), {.device = "h100"});
  REQUIRE(runs.size() == 1);
  const Recipe& recipe = runs[0].recipe;
  CHECK(runs[0].left_out.empty());
  CHECK(runs[0].seconds == Approx(1.61));  // of 1.59, 1.6, 1.61 and 1.7
  CHECK(runs[0].steps == 4);
  CHECK(runs[0].spread == Approx((1.7 - 1.59) / 1.61));
  CHECK(runs[0].memory == Bytes{33} << 30);
  CHECK(runs[0].memory_stage == 1);
  CHECK(recipe.virtual_stages == 4);
  CHECK(recipe.data == 2);
  CHECK(recipe.microbatches == 16);
  CHECK(recipe.transformer.key_value_heads == 32);
  CHECK(recipe.transformer.vocabulary == 32256);
  CHECK(recipe.transformer.feed_forward == 11008);
  CHECK(!recipe.work.dropout);
  CHECK(recipe.work.sequence_parallel);
  CHECK(recipe.sharded_optimizer);
}

TEST_CASE("a log says whether experts are multiplied at once") {
  CHECK(!runs_of(megatron_log(), {.device = "h100"})[0].recipe.work.grouped_experts);
  std::string log = megatron_log();
  log.insert(log.find("[default0]:  num_layers"), dumped("moe_grouped_gemm", "True"));
  CHECK(runs_of(log, {.device = "h100"})[0].recipe.work.grouped_experts);
}

TEST_CASE("a log of Megatron's FSDP is sharded as its strategy says") {
  struct Strategy {
    std::string name;
    bool states, gradients, weights;
  };
  for (const Strategy& strategy :
       {Strategy{"no_shard", true, false, false}, Strategy{"optim", true, false, false},
        Strategy{"optim_grads", true, true, false},
        Strategy{"optim_grads_params", true, true, true}}) {
    INFO(strategy.name);
    const Recipe recipe =
        runs_of(megatron_log("None", strategy.name), {.device = "h100"})[0].recipe;
    CHECK(recipe.sharded_optimizer == strategy.states);
    CHECK(recipe.sharded_gradients == strategy.gradients);
    CHECK(recipe.sharded_parameters == strategy.weights);
  }
}

TEST_CASE("a log says its attention, its gathers and its graphs") {
  const auto run_with = [](const std::string& name, const std::string& value) {
    std::string log = megatron_log("hybrid");
    log.insert(log.find("[default0]:  num_layers"), dumped(name, value));
    return runs_of(log, {.device = "h100"})[0];
  };
  const auto recipe_with = [&](const std::string& name, const std::string& value) {
    return run_with(name, value).recipe;
  };
  CHECK(recipe_with("fp8_dot_product_attention", "True").work.precision ==
        Precision::float8_with_attention);
  CHECK(recipe_with("fp8_dot_product_attention", "False").work.precision == Precision::float8);
  CHECK(recipe_with("fp8_param_gather", "True").float8_gathers);
  CHECK(!recipe_with("fp8_param_gather", "False").float8_gathers);
  using enum CudaGraphs;
  CHECK(recipe_with("cuda_graph_impl", "full_iteration").graphs == step);
  CHECK(recipe_with("cuda_graph_impl", "transformer_engine").graphs == layers);
  CHECK(recipe_with("external_cuda_graph", "True").graphs == layers);
  CHECK(recipe_with("enable_cuda_graph", "1").graphs == layers);
  CHECK(recipe_with("enable_cuda_graph", "0").graphs == none);
  CHECK(recipe_with("cuda_graph_impl", "none").graphs == none);
  // A scope alone starts none.
  CHECK(recipe_with("cuda_graph_scope", "full_iteration").graphs == none);
}

TEST_CASE("a run in FP8 is quicker where it is computed in, and sends as much") {
  const Recipe wide = runs_of(megatron_log(), {.device = "h100"})[0].recipe;
  const MeasuredRun narrow = runs_of(megatron_log("hybrid"), {.device = "h100"})[0];
  CHECK(narrow.left_out.empty());
  CHECK(narrow.recipe.work.precision == Precision::float8);
  const KernelConstants constants = usual_constants("h100");
  CHECK(step_seconds(narrow.recipe, constants).step < step_seconds(wide, constants).step);
  CHECK(step_seconds(narrow.recipe, constants).messages ==
        Approx(step_seconds(wide, constants).messages));
}

TEST_CASE("logs that cannot be predicted say why, and broken ones are refused") {
  CHECK(runs_of(megatron_log("hybrid"), {.device = "a100-80gb"})[0].left_out ==
        "a100-80gb does not compute in fp8");
  CHECK_THAT(message_of([] { runs_of(megatron_log()); }), ContainsSubstring("which device"));
  const RunFileOptions h100{.device = "h100"};
  std::string text = megatron_log();
  text.replace(text.find(" 8\n"), 3, " 6\n");
  CHECK_THAT(message_of([&] { runs_of(text, h100); }), ContainsSubstring("cannot have run"));
  text = megatron_log();
  text.replace(text.find("4096\n"), 5, "wide\n");
  CHECK_THAT(message_of([&] { runs_of(text, h100); }),
             ContainsSubstring("hidden-size: expected a whole number, found \"wide\""));
  text = megatron_log();
  text.replace(text.find("[Rank 4]"), 8, "[Rank 99999999999]");
  CHECK(runs_of(text, h100)[0].memory_stage == 1);
  text = megatron_log();
  CHECK_THAT(message_of([&] { runs_of(text.substr(text.find("> padded")), h100); }),
             ContainsSubstring("no arguments"));
  CHECK_THAT(message_of([&] { runs_of(text.substr(0, text.find("> padded")), h100); }),
             ContainsSubstring("no step with a time"));
}

TEST_CASE("full recomputation has older names in logs") {
  const auto recompute = [](const std::string& name, const std::string& value) {
    std::string text = megatron_log();
    text.insert(text.find("[default0]:  fp16"), dumped(name, value));
    return runs_of(text, {.device = "h100"})[0].recipe.work.recompute;
  };
  CHECK(recompute("checkpoint_activations", "True") == Recomputed::full);
  CHECK(recompute("checkpoint_activations", "False") == Recomputed::none);
  CHECK(recompute("activations_checkpoint_method", "uniform") == Recomputed::full);
  CHECK(recompute("activations_checkpoint_method", "None") == Recomputed::none);
}

namespace {

std::string mlperf_event(const std::string& key, const std::string& value,
                         const std::string& more = "", std::int64_t milliseconds = 0) {
  return concat("0: :::MLLOG {\"namespace\": \"\", \"time_ms\": ", milliseconds, ", \"key\": \"",
                key, "\", \"value\": ", value, ", \"metadata\": {\"lineno\": 5", more, "}}\n");
}

std::string mlperf_log(const std::string& configuration, const std::string& steps) {
  return configuration + mlperf_event("submission_benchmark", "\"llama31_8b\"") +
         mlperf_event("submission_platform", "\"2xNVIDIA GB200\"") +
         mlperf_event("global_batch_size", "16") + mlperf_event("max_sequence_length", "8192") +
         steps;
}

/// The same in NeMo's words and in variables.
const std::string nemo_configuration =
    "0:  **************** Experiment configuration ****************\n"
    "0:     model:\n0:       micro_batch_size: 1\n0:       tensor_model_parallel_size: 2\n"
    "0:       pipeline_model_parallel_size: 2\n"
    "0:       virtual_pipeline_model_parallel_size: null\n0:       fp8: true\n"
    "0:       sequence_parallel: true\n0:     trainer:\n0:       devices: 4\n"
    "0:       num_nodes: 2\n";
const std::string mlperf_variables =
    "export MICRO_BATCH_SIZE=1\nexport TENSOR_MODEL_PARALLEL=${TP:-2}\n"
    "export PIPELINE_MODEL_PARALLEL=\"2\"  # stages\nexport INTERLEAVED_PIPELINE=\"${VP:=null}\"\n"
    "+ export FP8=True\nexport DGXNNODES=2\nexport DGXNGPU=4\n";

}  // namespace

TEST_CASE("MLPerf's events and a configuration become a run") {
  std::string steps;
  for (const std::string seconds : {"9.5", "0.4", "0.4", "0.5"})
    steps += mlperf_event("tracked_stats", "{\"train_step_time\": " + seconds + "}");
  const MeasuredRun run = runs_of(mlperf_log(nemo_configuration, steps)).front();
  CHECK(run.left_out.empty());
  CHECK(run.label == "llama3-8b, 8 devices: t2 p2 d2 b1, batch 16");
  CHECK(run.seconds == Approx(0.4));
  CHECK(run.recipe.device == "gb200");
  CHECK(run.recipe.microbatches == 8);
  CHECK(run.recipe.work.precision == Precision::float8);
  CHECK(run.recipe.work.sequence_parallel);
  CHECK(run.recipe.sharded_optimizer);
  CHECK(runs_of(mlperf_log(mlperf_variables, steps)).front().recipe == run.recipe);
  // Two blocks of 64 samples, the second one in 3.2 s; events between are not the steps'.
  const auto block = [](const std::string& key, int at, int samples) {
    return mlperf_event(key, "null", concat(", \"samples_count\": ", samples), at);
  };
  const std::string blocks = block("block_start", 1000, 0) + block("block_stop", 9000, 0) +
                             block("eval_start", 9100, 64) + block("block_start", 12000, 64) +
                             block("block_stop", 15200, 128);
  CHECK(runs_of(mlperf_log(mlperf_variables, blocks)).front().seconds == Approx(0.8));
  // GPT-3's blocks say their tokens: 2 x 64 samples of 8,192 tokens are 8 steps of 16.
  const std::string tokens = concat(", \"epoch_count\": ", 128 * 8192);
  const std::string counted = mlperf_event("block_start", "null", tokens, 1000) +
                              mlperf_event("block_stop", "null", tokens, 9000) +
                              mlperf_event("block_start", "null", tokens, 12000) +
                              mlperf_event("block_stop", "null", tokens, 18400);
  CHECK(runs_of(mlperf_log(mlperf_variables, counted)).front().seconds == Approx(0.8));
}

TEST_CASE("MLPerf's configurations say their attention, sums and gathers") {
  const std::string step = mlperf_event("tracked_stats", "{\"train_step_time\": 0.4}");
  const auto recipe_with = [&](const std::string& more) {
    return runs_of(mlperf_log(mlperf_variables + more, step)).front().recipe;
  };
  const Recipe plain = recipe_with("");
  CHECK(plain.work.precision == Precision::float8);
  CHECK(!plain.float8_gathers);
  // As all of NVIDIA's submissions are written (pretrain.py).
  CHECK(plain.work.gradient_bytes == 2);
  const std::string sums =
      "0: [NeMo I] Setting up with config DistributedDataParallelConfig(grad_reduce_in_fp32=True, "
      "overlap_grad_reduce=True, fp8_param_gather=True, nccl_ub=False)\n";
  CHECK(recipe_with(sums).work.gradient_bytes == 4);
  CHECK(recipe_with(sums).float8_gathers);
  CHECK(recipe_with("0:   grad_sync_dtype: fp32\n").work.gradient_bytes == 4);
  CHECK(recipe_with("export FP8_PARAM_GATHER=True\n").float8_gathers);
  CHECK(!recipe_with("export FP8_PARAM_GATHER=True\nexport FP8=False\n").float8_gathers);
  const std::string attention = "export FP8_DPA=True\n";
  CHECK(recipe_with(attention).work.precision == Precision::float8_with_attention);
  CHECK(recipe_with(attention + "export NVTE_DPA_FP8_RECIPE=\"F16\"\n").work.precision ==
        Precision::float8);
  CHECK(recipe_with(attention + "export FP8=False\n").work.precision == Precision::bfloat16);
  CHECK(recipe_with("export MCORE_CUDA_GRAPH=1\n").graphs == CudaGraphs::layers);
  CHECK(recipe_with("export LAYER_CUDA_GRAPH=False\n").graphs == CudaGraphs::none);
}

TEST_CASE("MLPerf's logs say what they lack, and what cannot be predicted") {
  const std::string step = mlperf_event("tracked_stats", "{\"train_step_time\": 0.4}");
  CHECK_THAT(message_of([&] { runs_of(mlperf_log("", step)); }),
             ContainsSubstring("do not say tensor-model-parallel-size"));
  const std::string whole = mlperf_log(mlperf_variables, step);
  CHECK_THAT(complaint_of(whole, "llama31_8b", "resnet"), ContainsSubstring("not resnet"));
  CHECK_THAT(complaint_of(whole, "DGXNNODES=2", "DGXNNODES=3"),
             ContainsSubstring("cannot have run: 12 devices, batch 16"));
  CHECK_THAT(complaint_of(whole, "\"value\": 16", "\"value\": -1"),
             ContainsSubstring("global_batch_size: expected a number"));
  CHECK_THAT(complaint_of(whole, "${TP:-2}", "0"),
             ContainsSubstring("tensor-model-parallel-size: expected at least 1, found 0"));
  CHECK_THAT(complaint_of(whole, "train_step_time", "throughput"),
             ContainsSubstring("no step with a time"));
  const auto reason = [&](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    return runs_of(text).front().left_out;
  };
  CHECK(reason(whole, "FP8=True", "FP4=True") == "how fast devices compute in FP4 is not known");
  CHECK(reason(whole, "llama31_8b", "llama2_70b_lora") == "only its adapters (LoRA) are trained");
}

TEST_CASE("torchtitan's log becomes a run: tokens per second and device are a step") {
  const auto runs = runs_of(titan_log(
      "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1"));
  REQUIRE(runs.size() == 1);
  const Recipe& recipe = runs[0].recipe;
  CHECK(runs[0].left_out.empty());
  CHECK(recipe.device == "h100");
  CHECK(runs[0].seconds == Approx(4.0));  // 32 x 8192 tokens at 8 x 8192 a second
  CHECK(runs[0].memory == Bytes{83} << 29);
  CHECK(recipe.transformer.feed_forward == 14336);
  CHECK(recipe.sharded_parameters);
  CHECK(recipe.work.microbatch == 4);
  CHECK(recipe.microbatches == 1);
}

TEST_CASE("torchtitan since 0.3 names a model, which is a built-in one of as many parameters") {
  std::string text = titan_log(
      "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1");
  const std::size_t numbers = text.find(" with TransformerModelArgs");
  text.replace(numbers, text.find('\n', numbers) - numbers,
               "\n[titan] Model llama3 8B size: "
               "8,030,261,248 total parameters");
  const MeasuredRun run = runs_of(text).front();
  CHECK(run.recipe.blocks == 32);
  CHECK(run.recipe.transformer == [] {
    Transformer transformer = *builtin_model("llama3-8b").transformer;
    transformer.positions = 8192;
    return transformer;
  }());
  CHECK_THAT(complaint_of(text, "8,030,261,248", "8,030,261,249"),
             ContainsSubstring("the log counts 8030261249 parameters of llama3-8b"));
  CHECK_THAT(complaint_of(text, "Building llama3 8B", "Building llama3 debugmodel"),
             ContainsSubstring("no built-in transformer is called llama3-debugmodel"));
}

TEST_CASE("torchtitan's pipelines cut local batches, and keep weights whole") {
  const auto runs = runs_of(
      titan_log("Building 3-D device mesh with ['pp', 'dp_shard', 'tp'], [2, 8, 2]",
                "Using pipeline schedule Interleaved1F1B with 4 microbatches and 4 stages.\n"));
  REQUIRE(runs.size() == 1);
  const Recipe& recipe = runs[0].recipe;
  CHECK(device_count(recipe) == 32);
  CHECK(recipe.virtual_stages == 2);
  CHECK(recipe.work.microbatch == 1);
  CHECK(recipe.microbatches == 4);
  CHECK(recipe.sharded_optimizer);
  CHECK(!recipe.sharded_parameters);
  const std::string mesh = "Building 2-D device mesh with ['pp', 'dp_shard'], [2, 8]";
  CHECK_THAT(runs_of(titan_log(mesh,
                               "Using pipeline schedule ZBVZeroBubble with 4 microbatches "
                               "and 4 stages.\n"))[0]
                 .left_out,
             ContainsSubstring("pipeline schedule"));
}

TEST_CASE("torchtitan's first releases called replicas dp, and an axis nobody knows is refused") {
  const Recipe recipe =
      runs_of(titan_log("Building 3-D device mesh with ['pp', 'dp', 'tp'], [2, 2, 2]",
                        "[titan] Using pipeline schedule 1F1B with 2 microbatches and 2 stages.\n"))
          .front()
          .recipe;
  CHECK(device_count(recipe) == 8);
  CHECK(recipe.data == 2);
  CHECK_THAT(
      message_of([] { runs_of(titan_log("Building 2-D device mesh with ['dp', 'sp'], [2, 2]")); }),
      ContainsSubstring("an axis \"sp\""));
}

TEST_CASE("runs of a kind of device are a set whose constants a fit finds") {
  KernelConstants truth = usual_constants("h100");
  truth.product_rate = 0.5;
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < 3; ++i) {
    for (MeasuredRun run : runs_of(table)) {
      run.recipe.work.microbatch = 1 << i;
      run.seconds = step_seconds(run.recipe, truth).step;
      runs.push_back(run);
    }
  }
  runs.push_back(runs_of(megatron_log(), {.device = "h100"})[0]);
  runs.back().left_out = "no recipe describes it";
  const std::vector<MeasuredSet> sets = sets_of_runs("runs", runs);
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].name == "runs-h100");
  CHECK(sets[0].rows.size() == 6);
  CHECK(sets[0].left_out.size() == 1);
  CHECK(sets[0].unknowns.size() <= 3);
  const Calibration found = fit_constants(sets[0], {0, 1, 2, 3, 4, 5}, false);
  CHECK(found.constants.product_rate == Approx(0.5).epsilon(0.05));
  for (const MeasuredRow& row : sets[0].rows)
    CHECK(row.predict(found.constants, 1) == Approx(row.seconds).epsilon(0.01));
  CHECK(next_measurement(sets[0], found));
}

TEST_CASE("a table's models may be described step by step") {
  // Qwen3 normalises queries and keys, which no number of `Transformer` says.
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / concat("stagecraft-qwen3-", ::getpid(), ".json");
  std::ofstream(path) << R"({"model_type": "qwen3_moe", "hidden_size": 1024, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 4096, "moe_intermediate_size": 512, "num_experts": 16,
    "num_experts_per_tok": 4, "vocab_size": 32000, "max_position_embeddings": 4096,
    "tie_word_embeddings": false, "decoder_sparse_step": 1, "mlp_only_layers": []})";
  const std::string config = path.string();
  const std::string text =
      concat("model,device,devices,pipeline,expert,microbatch,global_batch,step\n", config,
             ",h100,16,2,4,1,64,1s\n");
  const Recipe recipe = runs_of(text).front().recipe;
  CHECK(recipe.blocks == 4);
  REQUIRE(recipe.layers.size() == 6);
  const KernelConstants rates = usual_constants("h100");
  // Twice the blocks, or stages of one block fewer: what is described counts.
  Recipe half = recipe;
  half.layers.erase(half.layers.begin() + 3, half.layers.begin() + 5);
  half.blocks = 2;
  CHECK(step_seconds(half, rates).step < step_seconds(recipe, rates).step);
  CHECK(peak_memory(half).total() < peak_memory(recipe).total());
  const std::string fewer =
      concat("model,device,devices,blocks,pipeline,expert,microbatch,global_batch,step\n", config,
             ",h100,16,2,2,4,1,64,1s\n");
  CHECK(step_seconds(runs_of(fewer).front().recipe, rates).step == step_seconds(half, rates).step);
  std::string more = fewer;
  more.replace(more.find("16,2,2"), 6, "16,9,2");
  CHECK_THAT(message_of([&] { runs_of(more); }),
             ContainsSubstring("at most the 4 blocks that the model describes, found 9"));
  std::filesystem::remove(path);
}

TEST_CASE("embedding and head count as a block each where stages are even only so") {
  const std::string text =
      "model,cluster,tensor,pipeline,virtual_stages,microbatch,global_batch,step\n"
      "llama3-405b,64x8xh100,4,16,8,1,512,1s\n";
  const MeasuredRun run = runs_of(text).front();
  CHECK(run.recipe.first_stage_blocks == 7);
  CHECK(run.recipe.last_stage_blocks == 7);
  CHECK(stage_blocks(run.recipe)[1] == 8);
  CHECK(std::ranges::any_of(run.assumptions, [](const std::string& text_of) {
    return text_of.find("count as a block each") != std::string::npos;
  }));
}

TEST_CASE("a table can say what a log says") {
  const std::string text =
      "model,cluster,tensor,microbatch,global_batch,dropout,gradient_precision,grouped_experts,"
      "scattered_transfers,step\n"
      "mixtral-8x7b,8xh100,2,1,64,yes,bf16,no,yes,1s\n";
  const Recipe recipe = runs_of(text).front().recipe;
  CHECK(recipe.work.dropout);
  CHECK(recipe.work.gradient_bytes == 2);
  CHECK(!recipe.work.grouped_experts);
  CHECK(recipe.scatter_gather);
  CHECK_THAT(complaint_of(text, "bf16", "fp8"), ContainsSubstring("expected fp32, bf16 or fp16"));
}
