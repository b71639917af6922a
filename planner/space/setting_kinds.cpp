#include "planner/space/setting_kinds.hpp"

#include <algorithm>

#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

bool is_chain(const Setting& setting) {
  const auto generate = find_schedule(setting.schedule.name).generate;
  const bool known = generate == gpipe || generate == one_f_one_b || generate == interleaved;
  return known && setting.schedule.virtual_stages == 1;
}

bool has_many_devices(const Space& space, const Setting& setting) {
  constexpr double most =
      5e6;  // entries of the tables of one probe (planner/relaxations/chain_bounds.hpp)
  const double devices = space.devices(setting), layers = space.layers();
  const double entries = devices * devices * devices * layers * layers / 4;
  return space.devices(setting) > most_devices_walked || entries > most;
}

namespace {

double count_choices(int from, int of) {
  double count = 1;
  for (int i = 0; i < of; ++i) count *= static_cast<double>(from - i) / (i + 1);
  return std::max(count, 0.0);
}

}  // namespace

double count_layouts(const Space& space, const Setting& setting, int depth) {
  const int devices = space.devices(setting);
  const double replicas = space.most_replicas(setting) == 1 ? 1 : count_choices(devices, depth);
  const int stages = depth * setting.schedule.virtual_stages;
  // Places for cuts between layers; if stages may be empty, several cuts can be in one place.
  const int places = space.layers() - 1 + (space.has_empty_stages() ? stages - 2 : 0);
  return replicas * count_choices(places, stages - 1);
}

bool has_only_columns(const Space& space, const Setting& setting) {
  if (has_equal_stages(space.problem())) return true;
  const int devices = space.devices(setting);
  if (setting.replicas != ReplicaPolicy::split) {
    // All plans are columns, except those whose columns would have unequal numbers of microbatches.
    return devices <= 2 && !space.columns(setting).empty();
  }
  return space.most_replicas(setting) == 1 || (devices <= 2 && setting.microbatch % devices == 0);
}

std::string to_words(const Setting& setting) {
  const int per_device = setting.schedule.virtual_stages;
  return concat(
      setting.schedule.name,
      per_device > 1 ? concat(" with ", per_device, " stages per device") : std::string(),
      setting.peers > 1 ? concat(", ", setting.peers, " peers per replica") : std::string(),
      ", microbatches of ", setting.microbatch);
}

}  // namespace stagecraft
