#include "profiles/importers/figures.hpp"

#include <charconv>
#include <cmath>
#include <set>

#include "profiles/importers/linear_order.hpp"
#include "profiles/model_graph.hpp"

namespace stagecraft {

double read_figure(const Json& json, double most) {
  const double value = json.number();
  if (value < 0 || value > most)
    json.fail(concat("expected a number from 0 to ", most, ", found ", value));
  return value;
}

Bytes whole_bytes(double bytes) {
  return static_cast<Bytes>(std::llround(bytes));
}

std::vector<Json> read_nodes(const Json& json) {
  std::vector<Json> nodes = json.elements();
  if (nodes.empty()) json.fail("expected at least one node");
  if (nodes.size() > most_foreign_nodes)
    json.fail(concat("expected at most ", most_foreign_nodes, " nodes, found ", nodes.size()));
  return nodes;
}

int NodeNumbers::add(const Json& id) {
  const auto number = static_cast<int>(numbers_.size());
  const auto [entry, is_new] = numbers_.emplace(id.integer(), number);
  if (!is_new) id.fail(concat("the node ", entry->first, " is defined twice"));
  return number;
}

int NodeNumbers::find(const Json& id) const {
  const auto entry = numbers_.find(id.integer());
  if (entry == numbers_.end()) id.fail(concat("there is no node ", id.integer()));
  return entry->second;
}

int NodeNumbers::find(const std::string& id) const {
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (fault != std::errc{} || end != id.data() + id.size()) return -1;
  const auto entry = numbers_.find(number);
  return entry == numbers_.end() ? -1 : entry->second;
}

std::vector<std::string> distinct(std::vector<std::string> names) {
  std::map<std::string, int> uses;
  for (const std::string& name : names) ++uses[name];
  std::set<std::string> taken;
  for (const auto& [name, count] : uses) {
    if (count == 1) taken.insert(name);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (uses[names[i]] == 1) continue;
    std::string numbered = concat(names[i], ".", i);
    while (!taken.insert(numbered).second) numbered += "'";
    names[i] = numbered;
  }
  return names;
}

std::vector<int> put_in_order(Profile& profile) {
  refuse_cycle(profile.model);
  std::vector<Bytes> outputs;
  for (const LayerCost& cost : profile.entries.front().layers) outputs.push_back(cost.output);
  std::vector<int> order = linear_order(profile.model, outputs);
  profile = reordered(std::move(profile), order);
  return order;
}

}  // namespace stagecraft
