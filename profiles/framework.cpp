#include "profiles/framework.hpp"

#include <array>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

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

}  // namespace stagecraft
