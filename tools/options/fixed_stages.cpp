#include "tools/options/fixed_stages.hpp"

#include <algorithm>
#include <cstdio>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

FixedStage read_fixed(const std::string& text, int layers) {
  FixedStage fixed;
  int used = 0;
  const int read = std::sscanf(text.c_str(), "stage%d.layers=%d..%d%n", &fixed.stage,
                               &fixed.layers.first, &fixed.layers.end, &used);
  if (read != 3 || used != static_cast<int>(text.size()) || fixed.stage < 0 ||
      fixed.layers.first < 0 || fixed.layers.end <= fixed.layers.first) {
    fail_usage("--fix: expected stageN.layers=FIRST..END (END not included), found \"", text, "\"");
  }
  if (fixed.layers.end > layers) {
    fail_usage("--fix ", text, ": the model has ", layers, " layers, 0..", layers,
               " (END not included)");
  }
  return fixed;
}

std::string named(const FixedStage& fixed) {
  return concat("--fix stage", fixed.stage, ".layers=", fixed.layers.first, "..", fixed.layers.end);
}

std::string counted(int count, const std::string& what) {
  return concat(count, " ", what, count == 1 ? "" : "s");
}

/// Every stage between this one and the one before it, which ends at layer `from`, needs a layer.
void require_room(const FixedStage& fixed, int before, int from) {
  const int stages = fixed.stage - before - 1;
  const int layers = fixed.layers.first - from;
  if (layers >= stages && (stages > 0 || layers == 0)) return;
  if (layers < 0) {
    fail_usage(named(fixed), ": stage ", before, " ends before layer ", from,
               "; expected layers from there on");
  }
  fail_usage(named(fixed), ": there ", layers == 1 ? "is " : "are ", counted(layers, "layer"),
             " before it", before < 0 ? "" : concat(", behind stage ", before, ","), " for ",
             counted(stages, "stage"), "; expected ",
             stages == 0 ? "none" : "one for each at least");
}

}  // namespace

std::vector<FixedStage> read_fixed_stages(const std::vector<std::string>& texts, int layers) {
  std::vector<FixedStage> all;
  for (const std::string& text : texts) all.push_back(read_fixed(text, layers));
  std::stable_sort(all.begin(), all.end(),
                   [](const FixedStage& a, const FixedStage& b) { return a.stage < b.stage; });
  int stage = -1, end = 0;
  for (const FixedStage& fixed : all) {
    if (fixed.stage == stage) fail_usage(named(fixed), ": stage ", stage, " is fixed twice");
    require_room(fixed, stage, end);
    stage = fixed.stage;
    end = fixed.layers.end;
  }
  return all;
}

}  // namespace stagecraft
