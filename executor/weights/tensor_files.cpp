#include "executor/weights/tensor_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "executor/values/ordinary_file.hpp"
#include "executor/weights/durable_file.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view whole_name = "model.safetensors";
constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::string_view index_suffix = ".index.json";

/// "model-00001-of-00002.safetensors".
std::string part_name(std::size_t part, std::size_t parts) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", part + 1, parts);
}

bool is_part_name(const std::string& name) {
  return name.starts_with("model-") && name.ends_with(".safetensors") &&
         name.find("-of-") != std::string::npos;
}

/// Names of the parts in a folder, ascending.
std::vector<std::string> parts_in(const fs::path& folder) {
  std::vector<std::string> parts;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_part_name(name)) parts.push_back(name);
  }
  std::ranges::sort(parts);
  return parts;
}

// --- Reading
// --------------------------------------------------------------------------------------

/// The files that an index names, with the names of the tensors it puts there.
std::map<std::string, std::set<std::string>> read_index(const fs::path& path) {
  const Json json = Json::parse(read_ordinary_file(path), path.string());
  const Json map = json["weight_map"];
  std::map<std::string, std::set<std::string>> files;
  for (const std::string& tensor : map.names()) {
    const std::string file = map[tensor].string();
    if (file.empty() || file.find('/') != std::string::npos || file == "..") {
      map[tensor].fail("expected the name of a file beside this one");
    }
    files[file].insert(tensor);
  }
  if (files.empty()) map.fail("expected at least one tensor");
  return files;
}

TensorFile open_part(const fs::path& index, const std::string& name) {
  const fs::path path = index.parent_path() / name;
  if (!fs::exists(path)) {
    fail(path.string(), ": no such file, but ", index.filename().string(),
         " puts weights there; fetch the missing part");
  }
  return open_tensor_file(path);
}

/// The index and the file agree on what is in the file.
void require_agreement(const fs::path& index, const TensorFile& file,
                       const std::set<std::string>& expected) {
  const std::string name = file.path.filename().string();
  for (const std::string& tensor : expected) {
    if (find(file, tensor) != nullptr) continue;
    fail(index.string(), ": puts \"", tensor, "\" into ", name, ", which has no such tensor");
  }
  for (const StoredTensor& tensor : file.tensors) {
    if (expected.contains(tensor.name)) continue;
    fail(file.path.string(), ": has \"", tensor.name, "\", but ", index.filename().string(),
         " does not put it there; are the files of one model?");
  }
}

TensorFiles open_index(const fs::path& path) {
  const auto expected = read_index(path);
  TensorFiles files{.path = path, .files = {}};
  for (const auto& [name, tensors] : expected) {
    files.files.push_back(open_part(path, name));
    require_agreement(path, files.files.back(), tensors);
  }
  for (const std::string& part : parts_in(path.parent_path().empty() ? "." : path.parent_path())) {
    if (expected.contains(part)) continue;
    fail((path.parent_path() / part).string(), ": a part that ", path.filename().string(),
         " does not name; remove it if it belongs to other weights");
  }
  return files;
}

TensorFiles open_folder(const fs::path& folder) {
  if (fs::exists(folder / whole_name)) return open_tensor_files(folder / whole_name);
  if (fs::exists(folder / index_name)) return open_index(folder / index_name);
  const std::vector<std::string> parts = parts_in(folder);
  if (parts.empty()) {
    fail(folder.string(), ": holds no weights; expected ", whole_name, " or ", index_name,
         " in it");
  }
  fail(folder.string(), ": holds ", parts.front(), " but no ", index_name,
       ", which says what is where; fetch it, too");
}

// --- Writing
// --------------------------------------------------------------------------------------

using Part = std::vector<NamedTensor>;

Bytes bytes_of(const Part& part) {
  Bytes bytes = 0;
  for (const NamedTensor& named : part) bytes += named.tensor.bytes();
  return bytes;
}

/// In order, as many in each as fit.
std::vector<Part> dealt_out(std::vector<NamedTensor> tensors, Bytes most) {
  std::vector<Part> parts(1);
  for (NamedTensor& named : tensors) {
    const bool fits = bytes_of(parts.back()) + named.tensor.bytes() <= most;
    if (!fits && !parts.back().empty()) parts.emplace_back();
    parts.back().push_back(std::move(named));
  }
  return parts;
}

void write_index(const fs::path& path, const std::vector<Part>& parts, SystemCalls& calls) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  Bytes total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    total += bytes_of(parts[i]);
    for (const NamedTensor& named : parts[i]) map[named.name] = part_name(i, parts.size());
  }
  const nlohmann::ordered_json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  const std::string text = index.dump(2) + "\n";
  replace_durably(
      path, static_cast<Bytes>(text.size()), "make room, or name another folder",
      [&](DurableFile& file) { file.write(text); }, calls);
}

/// What belongs to weights that are replaced.
void remove_others(const fs::path& folder, const std::set<std::string>& written) {
  std::vector<std::string> held = parts_in(folder);
  held.insert(held.end(), {std::string(whole_name), std::string(index_name)});
  std::error_code ignored;
  for (const std::string& name : held) {
    if (!written.contains(name)) fs::remove(folder / name, ignored);
  }
}

}  // namespace

TensorFiles open_tensor_files(const std::filesystem::path& path) {
  if (fs::is_directory(path)) return open_folder(path);
  if (path.string().ends_with(index_suffix)) return open_index(path);
  TensorFiles files{.path = path, .files = {}};
  files.files.push_back(open_tensor_file(path));
  return files;
}

FoundTensor find(const TensorFiles& files, std::string_view name) {
  for (const TensorFile& file : files.files) {
    if (const StoredTensor* tensor = find(file, name)) return {&file, tensor};
  }
  return {};
}

bool names_folder(const std::filesystem::path& path) {
  return !path.has_filename() || fs::is_directory(path);
}

void write_tensor_files(const std::filesystem::path& folder, std::vector<NamedTensor> tensors,
                        Bytes most, SystemCalls& calls) {
  if (const int error = make_folders(folder, calls); error != 0) fail_writing(folder, error);
  const std::vector<Part> parts = dealt_out(std::move(tensors), most);
  std::set<std::string> written;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name =
        parts.size() == 1 ? std::string(whole_name) : part_name(i, parts.size());
    write_tensor_file(folder / name, parts[i], calls);
    written.insert(name);
  }
  if (parts.size() > 1) {
    write_index(folder / index_name, parts, calls);
    written.insert(std::string(index_name));
  }
  remove_others(folder, written);
}

}  // namespace stagecraft
