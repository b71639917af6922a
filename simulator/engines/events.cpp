#include "simulator/engines/events.hpp"

#include <numeric>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/engines/events/engine.hpp"
#include "simulator/engines/recording.hpp"
#include "simulator/engines/repeats.hpp"

namespace stagecraft {

std::string_view to_string(LinkPolicy policy) {
  switch (policy) {
    case LinkPolicy::async: return "async";
    case LinkPolicy::blocking_pair: return "blocking-pair";
    case LinkPolicy::prefetch: return "prefetch";
    case LinkPolicy::in_order: return "in-order";
    case LinkPolicy::commit_and_wait: return "commit-and-wait";
    case LinkPolicy::lock_step: return "lock-step";
  }
  return "";
}

LinkPolicy read_link_policy(std::string_view name) {
  return read_choice("link policy", name,
                     {LinkPolicy::async, LinkPolicy::blocking_pair, LinkPolicy::prefetch,
                      LinkPolicy::in_order, LinkPolicy::commit_and_wait, LinkPolicy::lock_step});
}

std::string_view to_string(Protocol protocol) {
  switch (protocol) {
    case Protocol::eager: return "eager";
    case Protocol::rendezvous: return "rendezvous";
    case Protocol::credit: return "credit";
  }
  return "";
}

Protocol read_protocol(std::string_view name) {
  return read_choice("protocol", name, {Protocol::eager, Protocol::rendezvous, Protocol::credit});
}

Protocol usual_protocol(LinkPolicy policy) {
  switch (policy) {
    case LinkPolicy::async:
    case LinkPolicy::lock_step: return Protocol::eager;
    case LinkPolicy::prefetch: return Protocol::credit;
    case LinkPolicy::blocking_pair:
    case LinkPolicy::in_order:
    case LinkPolicy::commit_and_wait: return Protocol::rendezvous;
  }
  return Protocol::eager;
}

namespace {

void require_sound(const Program& program, const Environment& environment,
                   const SimulateOptions& options) {
  require_whole(program, "a step under such conditions");
  if (options.iterations < 1) {
    fail("simulate: needs at least one iteration, not ", options.iterations);
  }
  if (environment.buffers < 1) {
    fail("simulate: needs at least one buffer per channel, not ", environment.buffers);
  }
  int lost = 0;
  for (const int thousandths : environment.slow_down) {
    if (thousandths < 0) fail("simulate: a slow-down of ", thousandths, "; expected 0 or more");
    lost += thousandths;
  }
  if (lost >= 1000) {
    fail("simulate: communication slows compute down by ", lost,
         " thousandths; expected fewer than 1000 in all");
  }
  const std::size_t limits = environment.memory_limits.size();
  if (limits > 0 && limits != program.order.size()) {
    fail("simulate: ", limits, " memory limits for ", program.order.size(), " devices");
  }
}

void note_iteration(Recording& recording, const Program& program, const events::Engine& engine,
                    int inside, int iteration) {
  for (int device = 0; device < program.devices; ++device) {
    for (const int work : program.order[static_cast<std::size_t>(device)]) {
      if (!engine.ended(work, inside)) continue;
      recording.note(device, {.start = Duration{engine.start(work, inside)},
                              .end = Duration{engine.end(work, inside)},
                              .work = work,
                              .iteration = iteration});
    }
  }
}

}  // namespace

EventRun run_events(const Program& program, const Costs& costs, const Environment& environment,
                    const SimulateOptions& options) {
  require_sound(program, environment, options);
  const events::Precedence precedence(program, environment);
  const int together = options.barrier ? 1 : options.iterations;
  events::Engine engine(precedence, costs, environment, together);
  Recording recording(program);
  EventRun run;
  bool complete = true;
  for (int first = 0; complete && first < options.iterations; first += together) {
    complete = engine.run(engine.latest());
    if (!complete && !engine.has_stopped()) engine.fail_stuck();
    for (int i = 0; i < together; ++i) note_iteration(recording, program, engine, i, first + i);
  }
  for (int device = 0; !complete && device < program.devices; ++device) {
    if (auto story = engine.stranded(device)) run.stranded.push_back(std::move(*story));
  }
  for (const events::Time time : engine.waiting_for_memory()) {
    run.waiting_for_memory.push_back(Duration{time});
  }
  run.timeline = std::move(recording).timeline();
  return run;
}

Timeline simulate_events(const Program& program, const Costs& costs, const Environment& environment,
                         const SimulateOptions& options) {
  return run_events(program, costs, environment, options).timeline;
}

}  // namespace stagecraft
