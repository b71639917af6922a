#include <fmt/format.h>
#include <chrono>
#include <mutex>

#include "profiles/error.hpp"
#include "tests/gpu/bench.hpp"
#include "tests/gpu/checks.hpp"

namespace stagecraft::gpu {

namespace {

/// A list of calls is launched call by call first, then recorded, then replayed.
constexpr int rounds_of_a_list = 4;
/// Of a layer of GPT-2 124M, forward and back: an H100's takes a third of it.
constexpr double most_microseconds_of_cudnn = 1200;
constexpr Instruction work{Op::forward, 0, 0};

double microseconds_since(Moment start) {
  return static_cast<double>((now() - start).count()) * 1e-3;
}

/// What backends remark, from any thread.
class Remarks {
 public:
  std::function<void(const std::string&)> collector() {
    return [this](const std::string& remark) {
      const std::lock_guard lock(mutex_);
      all_ += "; " + remark;
    };
  }
  /// Begins with "; ", or is empty.
  std::string all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::string all_;
};

/// A product, an activation and a norm, as one list.
std::vector<Tensor> list_of_calls(Bench& b) {
  Tensor x = b.input({512, 256}), weight = b.input({256, 384}, 0, 0.1);
  Tensor norm_weight = b.input({384}, 1, 0.2), bias = b.input({384});
  Tensor y = b.output({512, 384}), active = b.output({512, 384}), normed = b.output({512, 384});
  Tensor mean = b.output_of_sums({512}), scale = b.output_of_sums({512});
  for (int round = 0; round < rounds_of_a_list; ++round) {
    b.backend().begin_work(work);
    b.backend().matmul(x, false, weight, false, y, false);
    b.backend().gelu(y, active);
    b.backend().layer_norm(active, norm_weight, bias, 1e-5, normed, mean, scale);
    b.backend().end_work();
  }
  return {y, active, normed};
}

std::vector<Values> results(Backend& backend, Precision compared, Precision stored,
                            const std::function<std::vector<Tensor>(Bench&)>& calls) {
  Bench bench(backend, compared, stored, 1);
  std::vector<Values> all;
  for (const Tensor& tensor : calls(bench)) all.push_back(Bench::values(backend, tensor));
  return all;
}

std::vector<Tensor> one_product(Bench& b) {
  Tensor x = b.input({512, 256}), weight = b.input({256, 384}), y = b.output({512, 384});
  b.backend().matmul(x, false, weight, false, y, false);
  return {y};
}

std::vector<Tensor> one_norm(Bench& b) {
  Tensor x = b.input({512, 768}, 0.5, 2), weight = b.input({768}, 1, 0.2), bias = b.input({768});
  Tensor y = b.output({512, 768}), mean = b.output_of_sums({512}), scale = b.output_of_sums({512});
  b.backend().layer_norm(x, weight, bias, 1e-5, y, mean, scale);
  return {y};
}

class Smoke {
 public:
  Smoke(const SmokeChecks& checks, const Report& report) : checks_(checks), report_(report) {}

  void beside_cpu(const std::string& name,
                  const std::function<std::vector<Tensor>(Bench&)>& calls) {
    if (!is_wanted(checks_.wanted, name)) return;
    const auto gpu = checks_.make(0, {});
    const double tolerated = checks_.precision == Precision::bfloat16 ? 1e-2 : 1e-5;
    const double error =
        largest_error(results(*gpu, checks_.precision, checks_.precision, calls), on_cpu(calls));
    report_({name, fmt::format("error {:.1e}", error), error <= tolerated});
  }

  void attention() {
    const std::string name = "attention by cuDNN";
    if (!is_wanted(checks_.wanted, name)) return;
    Remarks remarks;
    const auto gpu = checks_.make(0, {.remark = remarks.collector()});
    Bench b(*gpu, checks_.precision, checks_.precision, 1);
    const AttentionShape& h = checks_.attention;
    const std::int64_t packed = (h.heads + 2 * h.key_value_heads) * h.head_width;
    const std::int64_t width = h.heads * h.head_width;
    Tensor qkv = b.input({h.samples, h.sequence, packed});
    Tensor dy = b.input({h.samples, h.sequence, width});
    Tensor y = b.output({h.samples, h.sequence, width});
    Tensor log_sum = b.output_of_sums({h.samples, h.heads, h.sequence});
    Tensor dqkv = b.output({h.samples, h.sequence, packed});
    const double forward = time_of(*gpu, [&] { gpu->attention(qkv, h, y, log_sum); });
    const double backward =
        time_of(*gpu, [&] { gpu->attention_input(dy, qkv, y, log_sum, h, dqkv); });
    const bool finite = gpu->is_finite(y) && gpu->is_finite(dqkv);
    // What stands in for it writes all scores to memory, and takes several times as long.
    const bool is_fast = h.sequence < 1024 || forward + backward < most_microseconds_of_cudnn;
    report_(
        {name,
         fmt::format("{}, {:.0f} us forward and {:.0f} us back for {} x {} tokens{}{}",
                     finite ? "all is a number" : "not all is a number", forward, backward,
                     h.samples, h.sequence, is_fast ? "" : ", too slow for cuDNN's", remarks.all()),
         finite && is_fast && remarks.all().empty()});
  }

  void graph(const std::string& name, const CudaOptions& options) {
    if (!is_wanted(checks_.wanted, name)) return;
    CudaOptions recorded = options, called = options;
    recorded.graphs = GraphUse::on;
    called.graphs = GraphUse::off;
    const auto by_graph =
        results(*checks_.make(0, recorded), checks_.precision, checks_.precision, list_of_calls);
    const auto by_calls =
        results(*checks_.make(0, called), checks_.precision, checks_.precision, list_of_calls);
    const double error = largest_error(by_graph, on_cpu(list_of_calls));
    const bool same = by_graph == by_calls;
    report_({name,
             fmt::format("{} as call by call, error {:.1e}", same ? "the same bits" : "other bits",
                         error),
             same && error <= 2e-2});
  }

  /// One rank's work behind another's, on two streams.
  void times(const std::string& name, const CudaOptions& options) {
    if (!is_wanted(checks_.wanted, name)) return;
    const auto first = checks_.make(0, options), second = checks_.make(1, options);
    Bench one(*first, checks_.precision, checks_.precision, 1);
    Bench other(*second, checks_.precision, checks_.precision, 2);
    const std::int64_t n = checks_.width;
    Tensor x = one.input({n, n}), y = one.output({n, n});
    Tensor w = other.input({n, n}), z = other.output({n, n});
    const auto round = [&] {
      const Moment wall = now();
      const Late<Moment> start = first->moment();
      first->matmul(x, false, x, false, y, false);
      second->await(first->signal());
      const Late<Moment> between = second->moment();
      second->matmul(w, false, w, false, z, false);
      const Late<Moment> end = second->moment();
      first->finish();
      second->finish();
      const double all = microseconds_since(wall);
      const double before = static_cast<double>((between.get() - start.get()).count()) * 1e-3;
      const double behind = static_cast<double>((end.get() - between.get()).count()) * 1e-3;
      return std::array{before, behind, all};
    };
    round();
    const auto [before, behind, all] = round();
    report_({name,
             fmt::format("{:.1f} us, then {:.1f} us on the other; {:.1f} us as the process saw it",
                         before, behind, all),
             before > 0 && behind > 0 && before + behind <= 1.05 * all + 50});
  }

  /// How much longer a product takes on a quarter of the multiprocessors.
  void part_is_kept() {
    const std::string name = "a graph's product on a quarter of the multiprocessors";
    if (!is_wanted(checks_.wanted, name)) return;
    const CudaOptions quarter{.partitions = true, .ranks = 4};
    CudaOptions calls = quarter, graph = quarter;
    calls.graphs = GraphUse::off;
    graph.graphs = GraphUse::on;
    const double whole = time_of_product({.graphs = GraphUse::off});
    const double by_calls = time_of_product(calls) / whole;
    const double by_graph = time_of_product(graph) / whole;
    report_({name,
             fmt::format("takes {:.2f} times as long as on all of them, call by call {:.2f}",
                         by_graph, by_calls),
             by_graph > 2 && by_graph > 0.8 * by_calls, checks_.width >= 4096});
  }

 private:
  std::vector<Values> on_cpu(const std::function<std::vector<Tensor>(Bench&)>& calls) const {
    return results(*make_cpu_backend(), checks_.precision, Precision::float64, calls);
  }

  /// Microseconds of one of several calls, behind a first one.
  template <class Call>
  static double time_of(Backend& backend, const Call& call) {
    constexpr int repeats = 5;
    call();
    backend.finish();
    const Moment start = now();
    for (int i = 0; i < repeats; ++i) call();
    backend.finish();
    return microseconds_since(start) / repeats;
  }

  double time_of_product(const CudaOptions& options) const {
    const auto gpu = checks_.make(0, options);
    Bench b(*gpu, checks_.precision, checks_.precision, 1);
    const std::int64_t n = checks_.width;
    Tensor x = b.input({n, n}), y = b.output({n, n});
    const auto list = [&] {
      gpu->begin_work(work);
      gpu->matmul(x, false, x, false, y, false);
      gpu->end_work();
    };
    for (int round = 0; round < rounds_of_a_list; ++round) list();
    return time_of(*gpu, list);
  }

  const SmokeChecks& checks_;
  const Report& report_;
};

}  // namespace

void check_smoke(const SmokeChecks& checks, const Report& report) {
  const CudaOptions parts{.partitions = true, .ranks = 2};
  Smoke smoke(checks, report);
  smoke.beside_cpu("one product", one_product);
  smoke.beside_cpu("one norm", one_norm);
  smoke.attention();
  smoke.graph("a graph, recorded and replayed", {});
  smoke.times("times of two streams", {});
  smoke.times("times of two parts of the multiprocessors", parts);
  smoke.graph("a graph on a part of the multiprocessors", parts);
  smoke.part_is_kept();
}

}  // namespace stagecraft::gpu
