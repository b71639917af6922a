#include "profiles/devices.hpp"

#include <cmath>

#include "profiles/device_names.hpp"
#include "profiles/devices/rows.hpp"
#include "profiles/error.hpp"
#include "profiles/prefixes.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

using devices::all_rows;
using devices::Row;

constexpr double teraflops = 1e12;

DeviceKind generic_kind() {
  return {.name = "generic",
          .memory_unlimited = true,
          .memory_bandwidth = Bandwidth::unlimited(),
          .generic = true,
          .source = "runs a profile's times as they stand"};
}

Bytes in_mebibytes(double mebibytes) {
  return std::llround(mebibytes) * mebi;
}

Bytes reported(const Row& row) {
  return in_mebibytes(row.memory.gib * 1024);
}

/// Nothing of what runs without a driver.
Bytes reserve_of(const Row& row) {
  if (row.reserve.source.empty()) return 0;
  return (row.reserve.context + row.reserve.communicator) * mebi;
}

[[noreturn]] void fail_unknown_kind(std::string_view name) {
  fail_unknown("device kind", name, builtin_device_kinds());
}

}  // namespace

std::vector<std::string> builtin_device_kinds() {
  std::vector<std::string> names;
  for (const Row& row : all_rows()) names.emplace_back(row.name);
  names.emplace_back("generic");
  return names;
}

DeviceKind builtin_device_kind(std::string_view given) {
  const std::string name = builtin_device_kind_called(given);
  if (name == "generic") return generic_kind();
  for (const Row& row : all_rows()) {
    if (row.name != name) continue;
    return {.name = std::string(row.name),
            .memory = reported(row),
            .flops_fp64 = row.peaks.fp64 * teraflops,
            .flops_fp32 = row.peaks.fp32 * teraflops,
            .flops_bf16 = row.peaks.bf16 * teraflops,
            .flops_fp16 = row.peaks.fp16 * teraflops,
            .flops_fp8 = row.peaks.fp8 * teraflops,
            .memory_bandwidth = {row.memory_bandwidth * 1'000'000'000},
            .efficiency = row.efficiency,
            .source = row.memory.source.empty()
                          ? std::string(row.source)
                          : concat(row.source, "; memory: ", row.memory.source),
            .reserve = reserve_of(row),
            .reserve_source = std::string(row.reserve.source)};
  }
  fail_unknown_kind(name);
}

KindLinks builtin_links(std::string_view name) {
  if (name == "generic") return {};
  for (const Row& row : all_rows()) {
    if (row.name == name) return row.links;
  }
  fail_unknown_kind(name);
}

DeviceFabric builtin_fabric(std::string_view name) {
  if (name == "generic") return {};
  for (const Row& row : all_rows()) {
    if (row.name == name) return row.fabric;
  }
  fail_unknown_kind(name);
}

}  // namespace stagecraft
