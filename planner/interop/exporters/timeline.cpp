// The predicted timeline of a plan's step, as tools for timelines and people read it.

#include "planner/costs/predict.hpp"
#include "planner/interop/exporters.hpp"
#include "simulator/views/draw_svg.hpp"
#include "simulator/views/trace.hpp"

namespace stagecraft {

namespace {

Timeline timeline_of(const LoadedPlan& loaded) {
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  return simulate(compiled.program, compiled.costs);
}

}  // namespace

std::string export_perfetto(const LoadedPlan& loaded) {
  return write_trace(
      {.timeline = timeline_of(loaded), .about = {{"kind", "predicted"}, {"plan", loaded.hash}}});
}

std::string export_svg(const LoadedPlan& loaded) {
  return draw_svg(timeline_of(loaded), {.transfers = true});
}

}  // namespace stagecraft
