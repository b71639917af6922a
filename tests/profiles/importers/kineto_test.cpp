#include "profiles/importers/kineto.hpp"

#include "profiles/importers.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::string event(const std::string& category, const std::string& name, int thread, int start,
                  int length, const std::string& arguments = "") {
  return concat("{\"ph\": \"X\", \"cat\": \"", category, "\", \"name\": \"", name,
                "\", \"pid\": 1, \"tid\": ", thread, ", \"ts\": ", start, ".5, \"dur\": ", length,
                ", \"args\": {", arguments, "}}");
}

std::string number(std::string_view name, int value) {
  return concat("\"", name, "\": ", value);
}

/// Two steps of two layers; thread 1 goes forward, thread 2 backward, and kernels run later.
std::string events_of_host() {
  std::string text;
  for (const int step : {0, 1}) {
    const int at = 1000 * step, sequence = 10 * step;
    text +=
        event("user_annotation", concat("ProfilerStep#", step), 1, at, 900 + 100 * step) + ",\n";
    text += event("user_annotation", "forward", 1, at + 5, 395) + ",\n";
    text += event("user_annotation", "block.0", 1, at + 10, 100) + ",\n";
    text += event("cpu_op", "aten::linear", 1, at + 20, 50, number("Sequence number", sequence)) +
            ",\n";
    text += event("user_annotation", "block.1", 1, at + 200, 150) + ",\n";
    text +=
        event("cpu_op", "aten::linear", 1, at + 220, 50, number("Sequence number", sequence + 1)) +
        ",\n";
    text += event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, at + 500, 80,
                  number("Sequence number", sequence + 1)) +
            ",\n";
    text += event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, at + 600, 70,
                  number("Sequence number", sequence)) +
            ",\n";
    text += event("user_annotation", "Optimizer.step#SGD.step", 1, at + 700, 90) + ",\n";
  }
  return text;
}

std::string kernels() {
  std::string text;
  int correlation = 0;
  struct Launch {
    int thread, start, length;
  };
  for (const Launch& launch : {Launch{1, 25, 30}, Launch{1, 60, 10}, Launch{1, 225, 70},
                               Launch{2, 510, 120}, Launch{2, 610, 90}, Launch{1, 710, 500}}) {
    for (const int step : {0, 1}) {
      const std::string id = number("correlation", ++correlation);
      text += event("cuda_runtime", "cudaLaunchKernel", launch.thread, 1000 * step + launch.start,
                    3, id) +
              ",\n" +
              event("kernel", "gemm", 7, 1000 * step + launch.start + 40, launch.length, id) +
              ",\n";
    }
  }
  return text;
}

const std::string h100 = "{\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\"}";

std::string trace_of(const std::string& events, const std::string& device = h100) {
  return "{\"schemaVersion\": 1, \"deviceProperties\": [" + device + "],\n\"traceEvents\": [" +
         events + "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"args\": {}}]}";
}

}  // namespace

TEST_CASE("a trace's kernels belong to the range that launched them, forward and backward") {
  const std::string text = trace_of(events_of_host() + kernels());
  REQUIRE(looks_like_kineto(text));
  const KinetoTrace trace = read_kineto(text, "trace.json");
  CHECK(trace.device == "NVIDIA H100 80GB HBM3");
  REQUIRE(trace.steps.size() == 2);
  CHECK(trace.steps[0] == Approx(900e-6));
  CHECK(trace.steps[1] == Approx(1000e-6));
  // "forward" has ranges in it, and the optimizer is none of the layers.
  REQUIRE(trace.layers.size() == 2);
  CHECK(trace.layers[0].name == "block.0");
  CHECK(trace.layers[0].count == 2);
  CHECK(trace.layers[0].forward == Approx(40e-6));
  CHECK(trace.layers[0].backward == Approx(90e-6));
  CHECK(trace.layers[1].forward == Approx(70e-6));
  CHECK(trace.layers[1].backward == Approx(120e-6));
}

TEST_CASE("where there is no device, a trace's ranges take the host's time") {
  const KinetoTrace trace = read_kineto(trace_of(events_of_host(), ""), "trace.json");
  REQUIRE(trace.layers.size() == 2);
  CHECK(trace.layers[0].forward == Approx(100e-6));
  CHECK(trace.layers[0].backward == Approx(70e-6));
  CHECK(trace.layers[1].forward == Approx(150e-6));
  CHECK(trace.layers[1].backward == Approx(80e-6));
  const Profile profile = import_kineto(trace_of(events_of_host(), ""), "trace.json");
  CHECK(profile.entries[0].setting.device == "generic");
  CHECK(profile.entries[0].layers[0].forward == std::chrono::microseconds(100));
}

TEST_CASE("a device's trace without kernels does not pass the host's time for the device's") {
  const std::string text = trace_of(events_of_host());
  CHECK(exit_code_of([&] { import_kineto(text, "trace.json"); }) == 3);
  CHECK_THAT(message_of([&] { import_kineto(text, "trace.json"); }),
             ContainsSubstring("trace.json: the process had NVIDIA H100 80GB HBM3, but the trace "
                               "has no kernels"));
  // Steps are the host's in any trace.
  CHECK(read_kineto(text, "trace.json").steps.size() == 2);
  for (const std::string call :
       {"cudaLaunchKernel", "cuLaunchKernelEx", "hipExtModuleLaunchKernel"}) {
    INFO(call);
    const std::string launched =
        trace_of(events_of_host() + event("cuda_runtime", call, 1, 30, 3) + ",\n", "");
    CHECK_THAT(message_of([&] { read_kineto(launched, "trace.json"); }),
               ContainsSubstring("the process launched kernels, but the trace has no kernels"));
  }
  // The profiler itself waits for devices, whatever computes.
  const std::string waited = trace_of(
      events_of_host() + event("cuda_runtime", "cudaDeviceSynchronize", 1, 30, 3) + ",\n", "");
  CHECK(import_kineto(waited, "trace.json").entries[0].setting.device == "generic");
}

TEST_CASE("a trace becomes a profile of measured layers in their order") {
  const Profile profile = import_kineto(trace_of(events_of_host() + kernels()), "run/tiny.json");
  validate(profile);
  CHECK(profile.model.name == "tiny");
  REQUIRE(profile.entries.size() == 1);
  CHECK(profile.entries[0].setting.device == "h100");
  REQUIRE(profile.entries[0].layers.size() == 2);
  const LayerCost& cost = profile.entries[0].layers[1];
  CHECK(cost.provenance == Provenance::measured);
  CHECK(cost.forward == std::chrono::microseconds(70));
  CHECK(cost.backward() == std::chrono::microseconds(120));
  CHECK(profile.warnings.size() == 1);
}

TEST_CASE("traces without layers, and broken ones, are refused with a way out") {
  const std::string step = event("user_annotation", "ProfilerStep#0", 1, 0, 900) + ",\n";
  CHECK_THAT(message_of([&] { import_kineto(trace_of(step, ""), "t.json"); }),
             ContainsSubstring("no range of the trace names a layer"));
  CHECK_THAT(message_of([] {
               read_kineto("{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\"}]}", "t.json");
             }),
             ContainsSubstring("traceEvents[0]"));
  CHECK_THAT(message_of([] { read_kineto("{\"traceEvents\": [", "t.json"); }),
             ContainsSubstring("t.json:1"));
}
