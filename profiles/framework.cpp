#include "profiles/framework.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// The value of this name. Throws Error (input) with the names of all.
template <class Value, std::size_t Count>
Value read_among(const std::array<Value, Count>& values, std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < Count; ++i) {
    if (to_string(values[i]) == name) return values[i];
    known += concat(i == 0 ? "" : i + 1 == Count ? " or " : ", ", to_string(values[i]));
  }
  fail("expected ", known, ", found \"", name, "\"");
}

}  // namespace

std::string_view to_string(Framework framework) {
  return framework == Framework::torch ? "torch" : "megatron";
}

Framework read_framework(std::string_view name) {
  struct Word {
    std::string_view name;
    Framework framework;
  };
  constexpr std::array words{Word{"megatron", Framework::megatron},
                             Word{"nemo", Framework::megatron},
                             Word{"megatron-bridge", Framework::megatron},
                             Word{"torch", Framework::torch},
                             Word{"fsdp", Framework::torch},
                             Word{"torchtitan", Framework::torch},
                             Word{"deepspeed", Framework::torch},
                             Word{"llm-foundry", Framework::torch}};
  std::vector<std::string> names;
  for (const Word& word : words) {
    if (word.name == name) return word.framework;
    names.emplace_back(word.name);
  }
  fail("expected one of ", join_words(names), ", found \"", name, "\"");
}

std::string_view to_string(Dispatcher dispatcher) {
  switch (dispatcher) {
    case Dispatcher::alltoall: return "alltoall";
    case Dispatcher::deepep: return "deepep";
    case Dispatcher::hybridep: return "hybridep";
  }
  return "";
}

Dispatcher read_dispatcher(std::string_view name) {
  using enum Dispatcher;
  if (name == "all-to-all") return alltoall;
  if (name == "flex") return deepep;
  return read_among(std::array{alltoall, deepep, hybridep}, name);
}

bool sends_once(Dispatcher dispatcher) {
  return dispatcher != Dispatcher::alltoall;
}

std::string_view to_string(FusedLoss loss) {
  switch (loss) {
    case FusedLoss::none: return "none";
    case FusedLoss::native: return "native";
    case FusedLoss::te: return "te";
  }
  return "";
}

FusedLoss read_fused_loss(std::string_view name) {
  using enum FusedLoss;
  return read_among(std::array{none, native, te}, name);
}

std::string_view to_string(RouterFusion fusion) {
  switch (fusion) {
    case RouterFusion::off: return "off";
    case RouterFusion::on: return "on";
  }
  return "";
}

RouterFusion read_router_fusion(std::string_view name) {
  using enum RouterFusion;
  return read_among(std::array{off, on}, name);
}

namespace {

struct OverlapName {
  std::string_view name;
  MessageOverlap overlap;
};
constexpr std::array overlap_names{OverlapName{"none", {}}, OverlapName{"tensor", {true, false}},
                                   OverlapName{"experts", {false, true}},
                                   OverlapName{"tensor+experts", {true, true}}};

}  // namespace

std::string_view to_string(const MessageOverlap& overlap) {
  return std::ranges::find(overlap_names, overlap, &OverlapName::overlap)->name;
}

MessageOverlap read_message_overlap(std::string_view name) {
  std::vector<std::string> known;
  for (const OverlapName& row : overlap_names) {
    if (row.name == name) return row.overlap;
    known.emplace_back(row.name);
  }
  fail("expected one of ", join_words(known), ", found \"", name, "\"");
}

std::string_view to_string(Float8Recipe recipe) {
  switch (recipe) {
    case Float8Recipe::delayed: return "delayed";
    case Float8Recipe::tensorwise: return "tensorwise";
    case Float8Recipe::blockwise: return "blockwise";
    case Float8Recipe::mxfp8: return "mxfp8";
  }
  return "";
}

Float8Recipe read_float8_recipe(std::string_view name) {
  using enum Float8Recipe;
  return read_among(std::array{delayed, tensorwise, blockwise, mxfp8}, name);
}

std::string_view to_string(CudaGraphs graphs) {
  switch (graphs) {
    case CudaGraphs::none: return "none";
    case CudaGraphs::layers: return "layers";
    case CudaGraphs::step: return "step";
  }
  return "";
}

CudaGraphs read_cuda_graphs(std::string_view name) {
  using enum CudaGraphs;
  return read_among(std::array{none, layers, step}, name);
}

}  // namespace stagecraft
