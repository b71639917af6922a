// The predicted timeline of a plan's step, as tools for timelines and people read it.

#include "planner/costs/predict.hpp"
#include "planner/costs/program_rows.hpp"
#include "planner/interop/exporters.hpp"
#include "profiles/error.hpp"
#include "simulator/views/draw_svg.hpp"
#include "simulator/views/perfetto.hpp"
#include "simulator/views/trace.hpp"

namespace stagecraft {

namespace {

Trace predicted_trace(const LoadedPlan& loaded) {
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  return {.timeline = simulate(compiled.program, compiled.costs),
          .about = {{"kind", "predicted"}, {"plan", loaded.hash}},
          .row_devices = row_names(loaded.plan, compiled)};
}

}  // namespace

std::string export_perfetto(const LoadedPlan& loaded) {
  return write_trace(predicted_trace(loaded));
}

std::string export_perfetto_native(const LoadedPlan& loaded) {
  return write_perfetto(predicted_trace(loaded));
}

std::string export_svg(const LoadedPlan& loaded) {
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  return draw_svg(simulate(compiled.program, compiled.costs),
                  {.transfers = true,
                   .title = concat(loaded.plan.model, " on ", loaded.plan.cluster),
                   .row_devices = row_names(loaded.plan, compiled)});
}

}  // namespace stagecraft
