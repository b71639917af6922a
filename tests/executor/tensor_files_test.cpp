// Weights that are dealt out to several files, as Hugging Face's libraries do it.

#include "executor/weights/tensor_files.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "executor/weights/weights.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

const std::string index_file = "model.safetensors.index.json";

/// A folder with the weights of a small run in parts of 10 kB.
struct SplitRun {
  TemporaryFolder temporary;
  fs::path folder = temporary.path() / "weights";
  Prepared prepared;
  RunResult saved;

  explicit SplitRun(const Setting& setting = {.devices = 2}) : prepared(prepare(setting)) {
    saved = reference(prepared, {});
    save(10'000);
  }
  void save(Bytes most) const {
    fs::create_directories(folder);
    save_weights(folder, prepared.profile.model, saved, most);
  }
  std::map<std::string, Tensor> load(const fs::path& path) const {
    return load_weights(path, prepared.profile.model, prepared.plan.precision);
  }
  std::string message() const {
    return message_of([&] { load(folder); });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  fs::path part(int number) const { return folder / names()[static_cast<std::size_t>(number - 1)]; }
};

/// What it says of a folder to which this was done.
template <class Injure>
std::string after(const Injure& injure) {
  const SplitRun split;
  injure(split);
  return split.message();
}

void replace(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_file(file, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("weights in several files are those that were saved, by folder and by index") {
  for (const Setting& setting :
       {Setting{.devices = 2}, Setting{.devices = 2, .style = Style::llama, .tied = false}}) {
    const SplitRun split(setting);
    const std::vector<std::string> names = split.names();
    REQUIRE(names.size() > 3);
    const std::size_t parts = names.size() - 1;
    CHECK(names.front() == concat("model-00001-of-0000", parts, ".safetensors"));
    CHECK(names.back() == index_file);
    for (std::size_t i = 0; i < parts; ++i) {
      Bytes data = 0;
      const TensorFile file = open_tensor_file(split.folder / names[i]);
      for (const StoredTensor& tensor : file.tensors) data += tensor.end - tensor.first;
      CHECK((data <= 10'000 || file.tensors.size() == 1));
    }
    for (const fs::path& path : {split.folder, split.folder / index_file}) {
      const auto weights = split.load(path);
      REQUIRE(weights.size() == split.saved.parameters.size());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        CHECK(bitwise_equal(weights.at(split.saved.parameter_names[i]), split.saved.parameters[i]));
      }
    }
  }
}

TEST_CASE("weights that fit into one file need no index, and replace what was there") {
  const SplitRun split;
  split.save(most_bytes_of_part);
  CHECK(split.names() == std::vector<std::string>{"model.safetensors"});
  CHECK(split.load(split.folder).size() == split.saved.parameters.size());
  split.save(20'000);
  CHECK(std::ranges::count(split.names(), "model.safetensors") == 0);
  CHECK(split.message() == "");
  CHECK(names_folder("new/"));
  CHECK_FALSE(names_folder("new"));
  CHECK_FALSE(names_folder("new/weights.safetensors"));
}

TEST_CASE("parts that are gone, another's, or not named are told with one sentence each") {
  CHECK_THAT(after([](const SplitRun& split) { fs::remove(split.part(2)); }),
             ContainsSubstring("model-00002-of-") &&
                 ContainsSubstring(": no such file, but model.safetensors.index.json puts weights "
                                   "there; fetch the missing part"));
  CHECK_THAT(after([](const SplitRun& split) { fs::remove(split.folder / index_file); }),
             ContainsSubstring(" but no model.safetensors.index.json, which says what is where"));
  CHECK_THAT(after([](const SplitRun& split) { fs::remove_all(split.folder); }),
             ContainsSubstring(": no such file"));
  CHECK_THAT(after([](const SplitRun& split) {
               fs::remove_all(split.folder);
               fs::create_directory(split.folder);
             }),
             ContainsSubstring(": holds no weights; expected model.safetensors or model."));
  CHECK_THAT(after([](const SplitRun& split) {
               fs::copy_file(split.part(1), split.folder / "model-00009-of-00009.safetensors");
             }),
             ContainsSubstring("model-00009-of-00009.safetensors: a part that ") &&
                 ContainsSubstring(" does not name"));
  CHECK_THAT(after([](const SplitRun& split) {
               fs::copy_file(split.part(1), split.part(2), fs::copy_options::overwrite_existing);
             }),
             ContainsSubstring(": puts \"") && ContainsSubstring(", which has no such tensor"));
  CHECK_THAT(after([](const SplitRun& split) { fs::resize_file(split.part(2), 5000); }),
             ContainsSubstring("not a whole safetensors file"));
}

TEST_CASE("an index that names no files, or other tensors, is refused at its place") {
  const auto message = [](const std::string& from, const std::string& to) {
    return after([&](const SplitRun& split) { replace(split.folder / index_file, from, to); });
  };
  CHECK_THAT(message("\"model-00001", "\"../model-00001"),
             ContainsSubstring("index.json:") &&
                 ContainsSubstring("expected the name of a file beside this one"));
  CHECK_THAT(message("weight_map", "weights"), ContainsSubstring("\"weight_map\" is missing"));
  CHECK_THAT(message("\"transformer.h.0.ln_1.weight\"", "\"transformer.h.0.ln_9.weight\""),
             ContainsSubstring("puts \"transformer.h.0.ln_9.weight\" into "));
  // A tensor in two files: the index can name only one.
  CHECK_THAT(after([](const SplitRun& split) {
               const TensorFile first = open_tensor_file(split.part(1));
               const TensorFile second = open_tensor_file(split.part(2));
               std::vector<NamedTensor> tensors;
               for (const TensorFile* file : {&first, &second}) {
                 for (const StoredTensor& tensor : file->tensors) {
                   tensors.push_back({tensor.name, read_tensor(*file, tensor, Precision::float32)});
                 }
               }
               write_tensor_file(split.part(2), std::move(tensors));
             }),
             ContainsSubstring("model-00002-of-") && ContainsSubstring(": has \"") &&
                 ContainsSubstring("does not put it there"));
}

TEST_CASE("the Python package finds every tensor where the index says") {
  if (std::system("python3 -c 'import safetensors.numpy' 2> /dev/null") != 0) {
    SKIP("python3 has no safetensors package");
  }
  const SplitRun split;
  const std::string script =
      "import json, sys, safetensors.numpy as s\n"
      "f = sys.argv[1]\n"
      "m = json.load(open(f + '/model.safetensors.index.json'))\n"
      "t = {n: s.load_file(f + '/' + n) for n in set(m['weight_map'].values())}\n"
      "assert sum(len(x) for x in t.values()) == len(m['weight_map'])\n"
      "assert m['metadata']['total_size'] == sum(a.nbytes for x in t.values() for a in "
      "x.values())\n"
      "assert all(k in t[v] for k, v in m['weight_map'].items())\n";
  write_file(split.folder / "check.py", script);
  const std::string command =
      concat("python3 ", (split.folder / "check.py").string(), " ", split.folder.string());
  CHECK(std::system(command.c_str()) == 0);
}
