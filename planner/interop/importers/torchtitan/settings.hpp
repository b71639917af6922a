// What a job configuration of torchtitan says, and what of it the plan takes.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers/common.hpp"
#include "planner/interop/importers/toml_settings.hpp"

namespace stagecraft {

/// The settings by their paths, each with its place in the file; complaints have it.
class TitanSettings {
 public:
  /// Throws Error (input) for what is no TOML.
  TitanSettings(std::string_view content, const std::string& file)
      : file_(file), settings_(read_toml_settings(content, file)) {}
  TitanSettings(std::vector<TomlSetting> settings, const std::string& file, bool since_0_3)
      : file_(file), settings_(std::move(settings)), since_0_3_(since_0_3) {}

  const std::vector<TomlSetting>& all() const { return settings_; }

  /// Null where the file leaves it out, as below.
  const TomlSetting* find(std::string_view path) const;
  /// Of a degree, which older releases had in other tables.
  const TomlSetting* parallelism(std::string_view key) const;

  std::string word(const TomlSetting* setting, std::string_view otherwise) const;
  std::int64_t number(const TomlSetting* setting, std::int64_t otherwise, std::int64_t least,
                      std::int64_t most) const;
  int degree(std::string_view key) const;
  bool is_on(std::string_view path) const;
  /// Releases since 0.3 wrap models in FSDP in any case, with one shard, too: it sums gradients and
  /// computes in mixed precision.
  bool since_0_3() const { return since_0_3_; }

  [[noreturn]] void fail_at(const TomlSetting& setting, const std::string& message) const;
  /// What torchtitan itself would not start with.
  [[noreturn]] void refuse(const TomlSetting* setting, const std::string& why) const;

 private:
  const std::string& file_;
  std::vector<TomlSetting> settings_;
  bool since_0_3_ = false;
};

/// Converters swap modules for those that multiply in 8 bits.
bool multiplies_in_8_bits(const TitanSettings& settings);

/// Puts each setting where it belongs: taken over, without bearing, not modelled, or unknown.
void list_settings(const TitanSettings& settings, ImportedPlan& imported);

}  // namespace stagecraft
