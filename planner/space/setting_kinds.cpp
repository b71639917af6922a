#include "planner/space/setting_kinds.hpp"

#include "profiles/text.hpp"
#include "simulator/schedules.hpp"

namespace stagecraft {

bool is_chain(const Setting& setting) {
  const auto generate = find_schedule(setting.schedule.name).generate;
  const bool known = generate == gpipe || generate == one_f_one_b || generate == interleaved;
  return known && setting.schedule.virtual_stages == 1;
}

bool has_many_devices(const Space& space, const Setting& setting) {
  constexpr double most = 5e6;  // entries of the tables of one probe (planner/bounds/bounds.hpp)
  const double devices = space.devices(setting), layers = space.layers();
  const double entries = devices * devices * devices * layers * layers / 4;
  return space.devices(setting) > most_devices_walked || entries > most;
}

bool has_only_columns(const Space& space, const Setting& setting) {
  if (setting.replicas != ReplicaPolicy::split) return false;
  const int devices = space.devices(setting);
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
