#include "tools/inputs/timeline_files.hpp"

#include <CLI/CLI.hpp>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "simulator/views/draw_svg.hpp"
#include "simulator/views/nvtx.hpp"
#include "simulator/views/perfetto.hpp"
#include "simulator/views/trace.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {

namespace {

SvgOptions drawing(const std::string& range) {
  SvgOptions options{.transfers = true};
  if (range.empty()) return options;
  const std::size_t dots = range.find("..");
  if (dots == std::string::npos)
    fail_usage("--range: expected FROM..UNTIL, such as 10ms..50ms, found \"", range, '"');
  options.from = read_duration("--range", range.substr(0, dots));
  options.until = read_duration("--range", range.substr(dots + 2));
  return options;
}

}  // namespace

void declare_timeline_files(CLI::App& app, TimelineFiles& files) {
  app.add_option("--trace", files.trace,
                 "Write the timeline for ui.perfetto.dev to FILE: as JSON, or in Perfetto's own "
                 "format, a tenth as large, if FILE ends with .pftrace")
      ->type_name("FILE");
  app.add_option("--svg", files.svg, "Write the timeline as a drawing (SVG) to FILE")
      ->type_name("FILE");
  app.add_option("--range", files.range, "With --svg: time range to draw: 10ms..50ms (all)")
      ->type_name("D..D");
  app.add_option("--nvtx", files.nvtx,
                 "Write the timeline for the plots of the zero-bubble papers to FILE")
      ->type_name("FILE");
}

void require_valid(const TimelineFiles& files) {
  if (files.svg.empty() && !files.range.empty()) fail_usage("--range is for --svg FILE");
  drawing(files.range);
  for (const std::string& file : {files.svg, files.nvtx, files.trace}) {
    if (!file.empty() && file != "-") require_writable(file);
  }
}

bool is_native_trace(std::string_view name) {
  return name.ends_with(".pftrace") || name.ends_with(".perfetto-trace") || name.ends_with(".pb");
}

void write_timeline_files(const TimelineFiles& files, const Timeline& timeline,
                          std::map<std::string, std::string> about,
                          const std::vector<char>& critical, const DrawingWords& words) {
  if (!files.nvtx.empty()) require_whole(timeline, "--nvtx");
  if (!files.trace.empty()) require_whole(timeline, "--trace");
  if (!files.svg.empty()) require_whole(timeline, "--svg");
  if (!files.nvtx.empty()) write_file(files.nvtx, write_nvtx(timeline));
  if (!files.trace.empty()) {
    const Trace trace{.timeline = timeline, .about = std::move(about), .row_devices = words.rows};
    write_file(files.trace,
               is_native_trace(files.trace) ? write_perfetto(trace) : write_trace(trace));
  }
  // Last: a range outside of the step is refused, and a run that took hours keeps its trace.
  if (!files.svg.empty()) {
    SvgOptions options = drawing(files.range);
    options.critical = critical;
    options.title = words.title;
    options.row_devices = words.rows;
    write_file(files.svg, draw_svg(timeline, options));
  }
}

}  // namespace stagecraft
