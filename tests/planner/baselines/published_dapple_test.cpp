// The shapes of DAPPLE's published plans (Fan et al., PPoPP 2021, table of planning results): 8:8,
// 11:5, 15:1 and straight. Its profiles are not here. Chains of round numbers stand for them, alike
// in what decides the shape, and PipeDream's profile of VGG-16.
//
// What is found is held against data parallelism and all plans of two stages, whose latency is
// worked out here once more. Of B microbatches, shared by r copies of the pipeline (1 of two
// stages), it is
//
//   L = (B/r - 1) block + compute + transfer + max over stages s of (sum of gradients - s block)
//
// all of one microbatch but for the sums; block is the slowest stage or transfer.

#include <algorithm>
#include <filesystem>
#include <limits>

#include "planner/baselines/dapple/dapple.hpp"
#include "profiles/index.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// What a layer of a chain takes for one microbatch.
struct ChainLayer {
  double seconds = 0;     ///< forward and backward
  double output = 0;      ///< bytes
  double parameters = 0;  ///< bytes
};
using Chain = std::vector<ChainLayer>;

// --- DAPPLE's formulas once more ---

constexpr int all_devices = 16;

/// How many devices of each server a stage has.
using Placement = std::vector<int>;

int devices_in(const Placement& stage) {
  int devices = 0;
  for (const int taken : stage) devices += taken;
  return devices;
}

int servers_in(const Placement& stage) {
  return static_cast<int>(stage.size()) - static_cast<int>(std::ranges::count(stage, 0));
}

/// Seconds to sum gradients: a ring at 3 GB/s between servers; inside of one, n/2 at 25 GB/s.
double sum_of_gradients(const Placement& stage, double bytes) {
  const int n = devices_in(stage);
  if (n == 1) return 0;
  const double traffic = 2.0 * (n - 1) / n * bytes;
  const int half = n / 2;  // rounded down
  return servers_in(stage) > 1 ? traffic / 3e9 : traffic / 25e9 / half;
}

/// Seconds per byte from one stage to the next: 3 GB/s into several servers; into one, what comes
/// from others at 1 GB/s.
double transfer_rate(const Placement& from, const Placement& to) {
  if (servers_in(to) > 1) return 1 / 3e9;
  for (std::size_t server = 0; server < to.size(); ++server) {
    if (to[server] == 0) continue;
    const double elsewhere = devices_in(from) - from[server];
    return elsewhere > 0 ? elsewhere / devices_in(from) / 1e9 : 1 / 25e9;
  }
  return 0;
}

/// The first stage on empty servers one after the other, or on a device of each in turn.
std::vector<Placement> placements(const DappleServers& cluster, int devices) {
  Placement filled(index(cluster.servers)), scattered(index(cluster.servers));
  for (int device = 0; device < devices; ++device) {
    ++filled[index(device / cluster.devices_each)];
    ++scattered[index(device % cluster.servers)];
  }
  return {filled, scattered};
}

struct Shape {
  double latency = 0;
  std::vector<int> devices;  ///< per stage
  int cut = 0;               ///< layers in the first stage
};

class EveryShape {
 public:
  EveryShape(const Chain& chain, const DappleServers& cluster, int microbatches)
      : chain_(chain), cluster_(cluster), microbatches_(microbatches) {}

  /// Of a to b devices, wherever placed and cut.
  Shape fastest_of_two_stages() const {
    Shape best{.latency = std::numeric_limits<double>::infinity(), .devices = {}};
    for (int devices = 1; devices < all_devices; ++devices) {
      for (const Placement& first : placements(cluster_, devices)) {
        for (int cut = 1; cut < layers(); ++cut) {
          const double latency = of_two_stages(first, cut);
          if (latency < best.latency) best = {latency, {devices, all_devices - devices}, cut};
        }
      }
    }
    return best;
  }

  /// Data parallelism. Up to half as many copies as devices share the microbatches.
  double fastest_of_one_stage() const {
    double best = std::numeric_limits<double>::infinity();
    for (int copies = 1; copies <= std::min(all_devices / 2, microbatches_); copies *= 2) {
      const Placement all(index(cluster_.servers), cluster_.devices_each);
      const int of_each = microbatches_ / copies;
      const double compute = seconds(0, layers());
      const double block = compute * copies / all_devices;
      best = std::min(
          best, (of_each - 1) * block + compute + sum_of_gradients(all, parameters(0, layers())));
    }
    return best;
  }

 private:
  int layers() const { return static_cast<int>(chain_.size()); }
  double seconds(int first, int end) const { return sum(&ChainLayer::seconds, first, end); }
  double parameters(int first, int end) const { return sum(&ChainLayer::parameters, first, end); }
  double sum(double ChainLayer::*figure, int first, int end) const {
    double total = 0;
    for (int layer = first; layer < end; ++layer) total += chain_[index(layer)].*figure;
    return total;
  }

  double of_two_stages(const Placement& first, int cut) const {
    Placement second = first;
    for (int& taken : second) taken = cluster_.devices_each - taken;
    const double transfer = chain_[index(cut - 1)].output * transfer_rate(first, second);
    const double block = std::max({seconds(0, cut) / devices_in(first),
                                   seconds(cut, layers()) / devices_in(second), transfer});
    // Theirs counts the first layer after the cut on both sides.
    const double first_sum = sum_of_gradients(first, parameters(0, cut + 1));
    const double second_sum = sum_of_gradients(second, parameters(cut, layers()));
    return (microbatches_ - 1) * block + seconds(0, layers()) + transfer +
           std::max(first_sum, second_sum - block);
  }

  const Chain& chain_;
  DappleServers cluster_;
  int microbatches_;
};

// --- Ours ---

constexpr DappleServers two_servers{.servers = 2, .devices_each = 8};
constexpr DappleServers sixteen_servers{.servers = 16, .devices_each = 1};

DapplePlan plan_of(const Chain& chain, const DappleServers& cluster, int microbatches) {
  std::vector<LayerCost> costs;
  for (const ChainLayer& layer : chain) {
    const Duration half = from_seconds(layer.seconds / 2);
    costs.push_back(layer_cost(half, half));
    costs.back().output = static_cast<Bytes>(layer.output);
    costs.back().parameters = static_cast<Bytes>(layer.parameters);
  }
  const Profile profile = profile_of(costs);
  const auto states = pipedream_states(profile.model, profile.entries.front().layers, 0, 100);
  const DappleBatch batch{.scale = static_cast<double>(microbatches), .microbatches = microbatches};
  return dapple_plan(states.value(), cluster, batch, false).value();
}

std::vector<int> devices_of(const DapplePlan& plan) {
  std::vector<int> devices;
  for (const DappleStage& stage : plan.stages) devices.push_back(stage.devices.count());
  return devices;
}

/// The plan is the fastest of all with two stages, and faster than data parallelism.
void check_two_stages(const DapplePlan& plan, const EveryShape& every,
                      const std::vector<int>& devices, int cut) {
  const Shape best = every.fastest_of_two_stages();
  CHECK(best.devices == devices);
  CHECK(best.cut == cut);
  CHECK(best.latency < every.fastest_of_one_stage());
  CHECK(devices_of(plan) == devices);
  CHECK(plan.stages.front().end == cut);
  CHECK(plan.latency == Approx(best.latency).epsilon(1e-6));  // times are whole nanoseconds
}

}  // namespace

TEST_CASE("DAPPLE: BERT-48 is 8:8 on two servers of eight, and straight on sixteen of one",
          "[dapple]") {
  // 64 samples, two at a time. Alike layers of hidden size 1024: 12 * 1024^2 parameters, and 2 *
  // 512 * 1024 numbers between them. The paper cuts 23:25.
  constexpr int microbatches = 32;
  const Chain bert(48, {.seconds = 0.007, .output = 4e6, .parameters = 50e6});
  SECTION("8:8") {
    const EveryShape every(bert, two_servers, microbatches);
    const Shape best = every.fastest_of_two_stages();
    CHECK(best.devices == std::vector{8, 8});
    CHECK(best.cut == 24);
    CHECK(best.latency < every.fastest_of_one_stage());
    // The same in eight copies has less to fill: of four microbatches for each copy, which has one
    // device for 24 layers. 4 MB at 1 GB/s; 25 layers' gradients inside a server.
    const DapplePlan plan = plan_of(bert, two_servers, microbatches);
    CHECK(devices_of(plan) == std::vector{8, 8});
    CHECK(plan.stages.front().end == 24);
    const double sum = 2 * 7.0 / 8 * 25 * 50e6 / 25e9 / 4;
    CHECK(plan.latency == Approx(3 * 24 * 0.007 + 48 * 0.007 + 0.004 + sum));
    CHECK(plan.latency < best.latency);
  }
  SECTION("straight") {
    const EveryShape every(bert, sixteen_servers, microbatches);
    const DapplePlan plan = plan_of(bert, sixteen_servers, microbatches);
    CHECK(devices_of(plan) == std::vector<int>(16, 1));
    // 32 blocks of three layers, the last of which fills all stages; 15 times 4 MB at 1 GB/s.
    CHECK(plan.latency == Approx(31 * 3 * 0.007 + 48 * 0.007 + 15 * 0.004));
    CHECK(plan.latency < every.fastest_of_two_stages().latency);
    CHECK(plan.latency < every.fastest_of_one_stage());
  }
}

TEST_CASE("DAPPLE: AmoebaNet-36 is 8:8 on two servers of eight, and 11:5 on sixteen of one",
          "[dapple]") {
  // 128 samples, one at a time. 3.7 GB of parameters, most of them in the last third; later layers
  // take longer. The paper cuts 24:12 and 27:9.
  constexpr int microbatches = 128;
  Chain amoebanet;
  for (int layer = 0; layer < 36; ++layer) {
    amoebanet.push_back({.seconds = 0.004 + 0.0016 * layer / 35,
                         .output = 11e6,
                         .parameters = layer < 24 ? 42e6 : 225e6});
  }
  const auto check_shape = [&](const DappleServers& cluster, const std::vector<int>& devices,
                               int cut) {
    check_two_stages(plan_of(amoebanet, cluster, microbatches),
                     EveryShape(amoebanet, cluster, microbatches), devices, cut);
  };
  check_shape(two_servers, {8, 8}, 20);
  check_shape(sixteen_servers, {11, 5}, 26);
}

namespace {

/// Sixteen convolutions, what hands on their output, and three fully connected layers with 86 % of
/// the parameters.
Chain vgg19(int hands_on) {
  Chain chain(16, {.seconds = 0.010, .output = 100e6, .parameters = 5e6});
  chain.insert(chain.end(), index(hands_on), {.output = 3e6});
  for (const double parameters : {411e6, 67e6, 16e6}) {
    chain.push_back({.seconds = 0.001, .output = 0.5e6, .parameters = parameters});
  }
  return chain;
}

}  // namespace

TEST_CASE("DAPPLE: VGG-19 is 15:1", "[dapple]") {
  // 2048 samples, 32 at a time; of each 7 * 7 * 512 numbers go into the fully connected layers. The
  // paper has 15:1 where links have 10 Gb/s, and data parallelism at 25. This formula has the same
  // constants for both, and hides none of the sums of data parallelism behind backwards.
  constexpr int microbatches = 64;
  for (const DappleServers& cluster : {two_servers, sixteen_servers}) {
    CAPTURE(cluster.servers);
    const Chain pooled_and_flattened = vgg19(2);
    check_two_stages(plan_of(pooled_and_flattened, cluster, microbatches),
                     EveryShape(pooled_and_flattened, cluster, microbatches), {15, 1}, 17);
    // Without a layer between pooling and the 411 MB these count on both sides of the cut.
    const Chain pooled = vgg19(1);
    const EveryShape every(pooled, cluster, microbatches);
    const DapplePlan plan = plan_of(pooled, cluster, microbatches);
    CHECK(devices_of(plan) == std::vector{16});
    CHECK(plan.latency == Approx(every.fastest_of_one_stage()));
    CHECK(plan.latency < every.fastest_of_two_stages().latency);
  }
}

namespace {

/// What crosses each cut is what layers behind it read.
Chain chain_of(const Profile& profile, int parts) {
  const std::vector<LayerCost>& costs = profile.entries.front().layers;
  Chain chain;
  for (const LayerCost& cost : costs) {
    chain.push_back({.seconds = seconds(cost.forward + cost.backward()) / parts,
                     .parameters = static_cast<double>(cost.parameters)});
  }
  for (std::size_t before = 0; before < costs.size(); ++before) {
    std::size_t last_reader = before;
    for (const Edge& edge : profile.model.edges) {
      if (index(edge.from) == before) last_reader = std::max(last_reader, index(edge.to));
    }
    for (std::size_t cut = before; cut < last_reader; ++cut) {
      chain[cut].output += static_cast<double>(costs[before].output) / parts;
    }
  }
  return chain;
}

}  // namespace

TEST_CASE("DAPPLE: PipeDream's VGG-16 is 15:1 in microbatches of 32, and 8:8 in those of 128",
          "[dapple][seconds]") {
  const std::string path = shared_folder() + "/data/pipedream/vgg16/graph.txt";
  if (!std::filesystem::exists(path)) SKIP("no reference data at " + shared_folder());
  const Profile profile = load_profile(path).profile;  // of 128 samples
  const auto states =
      pipedream_states(profile.model, profile.entries.front().layers, 0, 100).value();
  constexpr int parts = 16;  // 2048 samples
  for (const DappleServers& cluster : {two_servers, sixteen_servers}) {
    CAPTURE(cluster.servers);
    const auto plan = [&](int microbatches) {
      const DappleBatch batch{.scale = parts, .microbatches = microbatches};
      return dapple_plan(states, cluster, batch, false).value();
    };
    // PipeDream's own 15-1 is cut at 31, too, behind the convolutions. On two servers seven of the
    // 15 devices stand beside the last one, so that earlier cuts cost less than they save.
    const Chain quarters = chain_of(profile, 4);
    check_two_stages(plan(4 * parts), EveryShape(quarters, cluster, 4 * parts), {15, 1},
                     cluster.servers == 2 ? 25 : 31);
    // Pipelines in copies, which have fewer devices to fill each.
    const Chain wholes = chain_of(profile, 1);
    const EveryShape every(wholes, cluster, parts);
    CHECK(devices_of(plan(parts)) == std::vector{8, 8});
    CHECK(plan(parts).latency < every.fastest_of_two_stages().latency);
    CHECK(plan(parts).latency < every.fastest_of_one_stage());
  }
}
