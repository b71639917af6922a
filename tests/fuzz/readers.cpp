#include "tests/fuzz/readers.hpp"

#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/checkpoints/folder_lock.hpp"
#include "executor/checkpoints/manifest.hpp"
#include "executor/flight/diagnosis.hpp"
#include "executor/flight/layout.hpp"
#include "executor/flight/snapshot.hpp"
#include "executor/transports/tcp/carrier.hpp"
#include "executor/transports/tcp/greetings.hpp"
#include "executor/values/data.hpp"
#include "executor/weights/tensor_files.hpp"
#include "planner/calibration/ledger.hpp"
#include "planner/calibration/measured_runs.hpp"
#include "planner/calibration/measured_sets.hpp"
#include "planner/interop/importers.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan.hpp"
#include "profiles/cluster.hpp"
#include "profiles/cluster_importers.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/link_fit.hpp"
#include "profiles/profile.hpp"
#include "simulator/views/kineto_run.hpp"
#include "simulator/views/torch_csv.hpp"
#include "simulator/views/trace.hpp"
#include "tests/paths.hpp"

namespace stagecraft::tests {
namespace {

using Path = std::filesystem::path;

const std::string file = "input";
/// Of a table of Aceso's, which says by its name what it is about.
const std::string aceso_name = "resnet_2B_mbs1_tp1_algo0.csv";

template <std::size_t which>
void import_model(const std::string& bytes, const Path&) {
  const Importer& importer = importers[which];
  importer.recognise(bytes);
  const Profile profile = importer.import(bytes, aceso_name);  // others may have any name
  // What was imported is written down, and has to be readable again. (Layers beyond so many are
  // like others, and take seconds.)
  constexpr std::size_t most_written = 10'000;
  if (profile.model.layers.size() > most_written) return;
  read_profile(Json::parse(write_profile(profile), file));
}

template <std::size_t which>
void import_machine(const std::string& bytes, const Path&) {
  const ClusterImporter& importer = cluster_importers[which];
  importer.recognise(bytes);
  importer.import(bytes, file, "a100");
}

/// The question that a file with stages is about: for formats that know their models by a file of
/// the same system, such a file; otherwise a small transformer.
PlanQuestion question_for(std::string_view format, const PlanOptions& options) {
  PlanQuestion question{.model_name = "tiny-gpt",
                        .cluster_name = "2xcpu",
                        .profile_hash = "",
                        .profile = load_profile("tiny-gpt").profile,
                        .model_content = "",
                        .cluster = parse_cluster("2xcpu"),
                        .options = options};
  const std::map<std::string_view, std::string> models{
      {"pipedream", "small-graph.txt"}, {"piper", "two.json"}, {"aceso", aceso_name}};
  const auto model = models.find(format);
  if (model == models.end()) return question;
  const std::string name = concat("model-", format, "/", model->second);
  question.model_content = read_file(inputs_folder() / name);
  question.cluster = parse_cluster("2xgeneric@1GB/s");
  const auto importer = std::ranges::find(importers, format, &Importer::name);
  question.profile = importer->import(question.model_content, model->second);
  return question;
}

/// With what the command line has to say for some files, and may not say for others.
template <std::size_t which>
void import_stages(const std::string& bytes, const Path&) {
  static const PlanQuestion open = question_for(plan_importers[which].name, {});
  static const PlanQuestion said = [] {
    PlanOptions options;
    options.batch = 8;
    return question_for(plan_importers[which].name, options);
  }();
  plan_importers[which].recognise(bytes);
  try {
    import_plan(plan_importers[which], bytes, file, open);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    import_plan(plan_importers[which], bytes, file, said);
  }
}

template <std::size_t which>
void read_runs(const std::string& bytes, const Path&) {
  run_formats[which].looks_like(bytes);
  const std::vector<MeasuredRun> runs = run_formats[which].read(bytes, file, {.device = "h100"});
  sets_of_runs(run_formats[which].name, runs);
}

void read_model_file(const std::string& bytes, const Path&) {
  read_model(Json::parse(bytes, file));
}
void read_profile_file(const std::string& bytes, const Path&) {
  const Profile profile = read_profile(Json::parse(bytes, file));
  read_profile(Json::parse(write_profile(profile), file));
}
void read_cluster_file(const std::string& bytes, const Path&) {
  read_cluster(Json::parse(bytes, file));
}
void read_plan_file(const std::string& bytes, const Path&) {
  read_plan(Json::parse(bytes, file));
}
void load_plan_file(const std::string& bytes, const Path&) {
  load_plan_text(bytes, file);
}
void read_sets(const std::string& bytes, const Path&) {
  read_measured(Json::parse(bytes, file));
}
void read_constants_file(const std::string& bytes, const Path&) {
  read_constants(Json::parse(bytes, file));
}
void read_collectives(const std::string& bytes, const Path&) {
  looks_like_collective_log(bytes);
  cluster_of_log(read_collective_log(bytes, file), "a100", file);
}
void read_schedule_csv(const std::string& bytes, const Path&) {
  looks_like_torch_csv(bytes);
  lower(read_torch_csv(bytes, file));
}
void read_timeline(const std::string& bytes, const Path&) {
  is_perfetto_trace(bytes);
  read_trace(bytes, file);
}
void read_torch_run(const std::string& bytes, const Path&) {
  is_kineto_run(bytes);
  write_trace(read_kineto_run({{file, bytes}}));
}
/// Its header's hash would find every change there: it is made right again.
void read_flight(const std::string& bytes, const Path&) {
  std::string record = bytes;
  flight::Prefix prefix{};
  if (record.size() >= sizeof prefix) {
    std::memcpy(&prefix, record.data(), sizeof prefix);
    if (prefix.header_bytes <= record.size() - sizeof prefix) {
      prefix.header_hash = XXH3_64bits(record.data() + sizeof prefix, prefix.header_bytes);
      std::memcpy(record.data(), &prefix, sizeof prefix);
    }
  }
  std::vector<Sight> sights;
  sights.push_back(see(read_flight_record(record, file), now()));
  diagnose(sights);
}
void read_weights(const std::string&, const Path& scratch) {
  const TensorFiles files = open_tensor_files(scratch);
  for (const TensorFile& each : files.files) {
    for (const StoredTensor& tensor : each.tensors) read_tensor(each, tensor, Precision::float32);
  }
}
/// Its own hash would find every change: it is made right again.
void read_checkpoint_manifest(const std::string& bytes, const Path& scratch) {
  auto json = nlohmann::ordered_json::parse(bytes, nullptr, false);
  if (json.is_object() && json.contains("xxh3")) {
    auto without = json;
    without.erase("xxh3");
    json["xxh3"] = content_hash(to_text(without));
    write_file(scratch, to_text(json));
  }
  read_manifest(scratch);
}
void read_tokens(const std::string&, const Path& scratch) {
  load_dataset(scratch, 256, 8);
}
void read_pictures(const std::string&, const Path& scratch) {
  load_images(scratch, {.channels = 3, .size = 4}, 10);
}

/// The process that has sent these bytes has ended behind them.
std::pair<tcp::Socket, tcp::Socket> with_said(std::string_view bytes) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("no pair of sockets");
  std::pair<tcp::Socket, tcp::Socket> sockets{tcp::Socket(ends[0]), tcp::Socket(ends[1])};
  constexpr std::size_t most = 64 << 10;  // which a socket holds without a reader
  tcp::write_all(sockets.second, std::as_bytes(std::span(bytes.substr(0, most))),
                 std::chrono::milliseconds(0));
  shutdown(sockets.second.descriptor(), SHUT_WR);
  return sockets;
}
/// To rank 0 of four, by somebody at its port.
void hear_visitor(const std::string& bytes, const Path&) {
  auto [own, other] = with_said(bytes);
  tcp::Visitor visitor(std::move(own));
  const tcp::Hello hello{.port_of_run = 29500, .processes = 4};
  if (visitor.hear(hello, "secret") == tcp::Visitor::State::is_admitted)
    throw std::logic_error("somebody without the secret was admitted");
}
void hear_guests(const std::string& bytes, const Path&) {
  tcp::unpacked_guests(bytes, 3);
}
/// By rank 1, to rank 0, which waits for two messages and offers a long one.
void hear_frames(const std::string& bytes, const Path&) {
  auto [own, other] = with_said(bytes);
  tcp::Connections connections{.sockets = {}, .machines = {"a", "a"}};
  connections.sockets.resize(2);
  connections.sockets[1] = std::move(own);
  std::array<char, 64> small{};
  std::vector<char> large(100'000), offered(100'000);
  const auto carrier = tcp::make_carrier(0, std::move(connections));
  carrier->receive(0, 1, 7, small.data(), small.size());
  carrier->receive(0, processes::any_peer, 8, large.data(), large.size());
  carrier->send(0, 1, 9, offered.data(), offered.size());
  constexpr int rounds = 8;  // all that will come is there already
  for (int round = 0; round < rounds; ++round) carrier->test();
  carrier->abort(0);
}
void read_lock(const std::string& bytes, const Path&) {
  owner_told_by(bytes);
}

template <class Row, std::size_t... which>
void add(std::vector<Reader>& all, const std::string& prefix, const Row& row,
         std::index_sequence<which...>, const auto& reader_of) {
  (all.push_back({prefix + std::string(row[which].name),
                  reader_of(std::integral_constant<std::size_t, which>{})}),
   ...);
}

std::vector<Reader> made() {
  std::vector<Reader> all{
      {"model", read_model_file},
      {"profile", read_profile_file},
      {"cluster", read_cluster_file},
      {"plan", read_plan_file},
      {"plan-with-its-model", load_plan_file},
      {"measured-sets", read_sets},
      {"constants", read_constants_file},
      {"nccl-tests", read_collectives},
      {"torch-csv", read_schedule_csv},
      {"timeline", read_timeline},
      {"torch-run", read_torch_run},
      {"flight-record", read_flight},
      {"safetensors", read_weights, true},
      {"manifest", read_checkpoint_manifest, true},
      {"tokens", read_tokens, true},
      {"images", read_pictures, true},
      {"visitor", hear_visitor},
      {"guests", hear_guests},
      {"frames", hear_frames},
      {"lock", read_lock},
  };
  add(all, "model-", importers, std::make_index_sequence<importers.size()>{},
      [](auto which) { return import_model<which>; });
  add(all, "machine-", cluster_importers, std::make_index_sequence<cluster_importers.size()>{},
      [](auto which) { return import_machine<which>; });
  add(all, "stages-", plan_importers, std::make_index_sequence<plan_importers.size()>{},
      [](auto which) { return import_stages<which>; });
  add(all, "runs-", run_formats, std::make_index_sequence<run_formats.size()>{},
      [](auto which) { return read_runs<which>; });
  return all;
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = made();
  return all;
}

std::filesystem::path inputs_folder() {
  return Path(source_folder()) / "tests" / "fuzz" / "inputs";
}

std::filesystem::path folder_for_scratch() {
  const Path memory = "/dev/shm";
  return access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

const Reader& reader_named(const std::string& name) {
  const auto found = std::ranges::find(readers(), name, &Reader::name);
  if (found == readers().end()) throw std::runtime_error("there is no reader called " + name);
  return *found;
}

bool read_by(const Reader& reader, const std::string& bytes, const Path& scratch) {
  try {
    reader.read(bytes, scratch);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;
    // A sentence: neither empty nor a page.
    if (error.message().empty() || error.message().size() > 5000) {
      throw std::logic_error("not one sentence: " + error.message());
    }
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace stagecraft::tests
