// A table of runs, separated by commas, semicolons or tabs:
//
//   model,cluster,tensor,pipeline,microbatch,global_batch,iteration_time
//   llama3-8b,2x8xh100,2,4,1,64,1.83s
//   llama3-8b,2x8xh100,4,2,1,64,2.02s
//
// Columns are known by name, in any order; small letters and capitals, blanks, hyphens and
// underscores do not matter. A time or a memory has its unit in each cell ("1.83s", "61GiB") or in
// the header ("iteration time (ms)", "peak_memory_gib"). Lines that begin with # are comments; a
// cell may be quoted. Empty cells are as good as left out.

#include <algorithm>
#include <filesystem>

#include "planner/calibration/measured_runs.hpp"
#include "planner/calibration/runs/columns.hpp"
#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/importers/kineto.hpp"
#include "profiles/json.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/model.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

std::vector<ColumnHeading> headings_of(const std::vector<Cell>& cells) {
  std::vector<ColumnHeading> headings;
  for (const Cell& cell : cells) {
    const ColumnHeading heading = heading_of(cell.text);
    if (heading.column == nullptr) {
      const std::string close = closest_column(cell.text);
      throw Error(ErrorKind::input,
                  concat("unknown column \"", cell.text, "\"",
                         close.empty() ? "" : "; did you mean \"" + close + "\"?"),
                  cell.place, {"known columns: " + join_words(column_names())});
    }
    for (const ColumnHeading& before : headings) {
      if (before.column == heading.column)
        cell.fail(concat("a second column for ", heading.column->name));
    }
    headings.push_back(heading);
  }
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(headings,
                               [&](const ColumnHeading& h) { return h.column->name == name; });
  };
  const auto need = [&](bool there, std::string_view what) {
    if (!there) cells.front().fail(concat("the header lacks a column ", what));
  };
  need(has("model"), "model");
  need(has("microbatch"), "microbatch");
  need(has("global_batch"), "global_batch");
  need(has("iteration_time") || has("trace"), "iteration_time (or trace)");
  need(has("cluster") || has("devices") || has("data"), "cluster (or devices, or data)");
  return headings;
}

/// What tables seldom say: a run whose gradients and gathers overlap has a framework that overlaps
/// what it can, and whole weights sharded over replicas are FSDP's.
void assume(RunDraft& draft) {
  MeasuredRun& run = draft.run;
  Recipe& recipe = run.recipe;
  const bool overlaps = recipe.overlapped_gradients && recipe.overlapped_parameters;
  if (!draft.framework_said && recipe.sharded_parameters) {
    recipe.work.framework = Framework::torch;
    run.assumptions.emplace_back("zero3 without a column framework is PyTorch's FSDP");
  }
  if (!draft.messages_said && overlaps && recipe.work.sequence_parallel &&
      recipe.work.tensor_parallel > 1) {
    recipe.overlapped_messages = true;
    run.assumptions.emplace_back(
        "tensor-parallel messages overlap where sequences are parallel and gradients and gathers "
        "overlap, unless a column overlapped_messages says it");
  }
  if (!draft.transfers_said && overlaps && recipe.virtual_stages > 1)
    recipe.overlapped_transfers = true;
  if (!draft.recipe_said) recipe.work.float8_recipe = usual_float8_recipe(recipe.device);
  if (count_ends_as_blocks(recipe)) {
    run.assumptions.emplace_back(
        "where stages are even only so, embedding and head count as a block each");
  } else if (balance_stages(recipe, usual_constants(recipe.device))) {
    run.assumptions.emplace_back(
        "where blocks cannot be even over stages, a layout makes the slowest stage as quick as can "
        "be");
  }
}

/// Of layers that steps describe, the first so many blocks stay.
void take_blocks(Recipe& recipe, int count, const Cell& row) {
  if (!recipe.layers.empty() && count > recipe.blocks) {
    row.fail(concat("expected at most the ", recipe.blocks,
                    " blocks that the model describes, found ", count));
  }
  int seen = 0;
  std::erase_if(recipe.layers,
                [&](const Layer& layer) { return is_block(layer) && ++seen > count; });
  recipe.blocks = count;
}

/// Modules that backward does again are of layers that the run has.
void require_modules(const RunDraft& draft, const Cell& row) {
  const Recipe& recipe = draft.run.recipe;
  if (recipe.again.empty()) return;
  Model model =
      make_transformer(draft.run.model, recipe.transformer, recipe.blocks, draft.sequence);
  if (!recipe.layers.empty()) model.layers = recipe.layers;
  const std::string why =
      against_recompute_modules({.framework = recipe.work.framework, .again = recipe.again}, model);
  if (!why.empty()) row.fail(why);
}

/// Sets the replicas and microbatches; a run of which they cannot be true is refused.
void settle(RunDraft& draft, const Cell& row, const RunFileOptions& options) {
  Recipe& recipe = draft.run.recipe;
  recipe.device = device_of_run(draft.device ? draft.device->text : "", options, row.place.file);
  if (draft.blocks) take_blocks(recipe, *draft.blocks, row);
  recipe.work.sequence = draft.sequence;
  const int each = device_count(recipe);
  if (draft.data) recipe.data = number_in(*draft.data);
  if (draft.devices && !draft.data) {
    const int all = number_in(*draft.devices);
    if (all % each != 0) {
      draft.devices->fail(concat("expected a multiple of tensor x pipeline x context = ", each,
                                 " devices, found ", all));
    }
    recipe.data = all / each;
  }
  if (draft.devices && number_in(*draft.devices) != device_count(recipe)) {
    draft.devices->fail(concat("expected tensor x pipeline x context x data = ",
                               device_count(recipe), " devices, found ", draft.devices->text));
  }
  const int at_once = recipe.data * static_cast<int>(recipe.work.microbatch);
  if (number_in(*draft.global_batch) % at_once != 0) {
    draft.global_batch->fail(
        concat("expected a multiple of microbatch x replicas = ", recipe.work.microbatch, " x ",
               recipe.data, ", found ", draft.global_batch->text));
  }
  if (draft.recipe_said) {
    const LayerKernels kernels{.framework = recipe.work.framework,
                               .float8_recipe = recipe.work.float8_recipe};
    const std::string why =
        against_float8_recipe(kernels, recipe.work.precision, builtin_device_kind(recipe.device));
    if (!why.empty()) row.fail(why);
  }
  require_modules(draft, row);
  if (recipe.overlapped_exchanges &&
      (!recipe.transformer.experts || recipe.work.expert_parallel == 1))
    row.fail("exchanges between experts overlap, and no device has only some of the experts");
  recipe.microbatches = number_in(*draft.global_batch) / at_once;
  assume(draft);
  if (draft.run.label.empty())
    draft.run.label = concat(draft.run.model, ", ", configuration_of(recipe));
}

/// The steps of PyTorch's profiler, whose trace has its place beside the table.
void read_trace(RunDraft& draft, const Cell& cell) {
  const std::filesystem::path path =
      std::filesystem::path(cell.place.file).parent_path() / cell.text;
  if (!std::filesystem::is_regular_file(path))
    cell.fail(concat("no file is named ", path.string()));
  const KinetoTrace trace = read_kineto(read_file(path), path.string());
  if (trace.steps.empty())
    cell.fail(concat(path.string(), " has no ProfilerStep: call step() of the profiler"));
  set_steps(draft.run, trace.steps, path.string());
  if (!draft.device) draft.device = Cell{device_kind_named(trace.device), cell.place, {}};
}

/// A configuration that no constants make sense of fails here, with the row's place.
void try_out(const MeasuredRun& run, const Cell& row) {
  try {
    step_seconds(run.recipe, usual_constants(run.recipe.device));
    if (run.memory) peak_memory(run.recipe);
  } catch (const Error& error) {
    throw Error(ErrorKind::input, "the configuration cannot have run: " + error.message(),
                row.place, error.help());
  }
}

MeasuredRun run_of(const std::vector<ColumnHeading>& headings, const std::vector<Cell>& cells,
                   const RunFileOptions& options) {
  if (cells.size() != headings.size()) {
    cells.front().fail(
        concat("expected ", headings.size(), " cells as in the header, found ", cells.size()));
  }
  RunDraft draft;
  const bool has_trace = std::ranges::any_of(
      headings, [](const ColumnHeading& heading) { return heading.column->name == "trace"; });
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const RunColumn& column = *headings[i].column;
    Cell cell = cells[i];
    cell.unit = headings[i].unit;
    const bool needed = column.name == "model" || column.name == "global_batch" ||
                        column.name == "microbatch" ||
                        (column.name == "iteration_time" && !has_trace);
    if (cell.text.empty() && needed) cell.fail(concat("a value of ", column.name, " is missing"));
    if (!cell.text.empty()) column.read(draft, cell);
  }
  if (draft.trace) {
    if (draft.run.seconds > 0) draft.trace->fail("a row has an iteration_time or a trace");
    read_trace(draft, *draft.trace);
  }
  if (draft.run.seconds <= 0) cells.front().fail("a value of iteration_time (or trace) is missing");
  settle(draft, cells.front(), options);
  try_out(draft.run, cells.front());
  return draft.run;
}

/// "runs.csv:4:11: expected a multiple of 8 devices, found 7"
std::string reason_of(const Error& error) {
  std::string text;
  if (error.place()) {
    const SourcePlace& place = *error.place();
    text = concat(place.file, ":", place.line, ":", place.column, ": ");
  }
  return text + error.message();
}

}  // namespace

bool is_run_table(std::string_view content) {
  const std::vector<TextLine> lines = lines_of(content.substr(0, 10'000));
  if (lines.empty()) return false;
  bool model = false, time = false;
  for (const std::string& name : split(lines.front().text, separator_of(lines.front().text))) {
    const RunColumn* column = heading_of(name).column;
    model = model || (column != nullptr && column->name == "model");
    time = time ||
           (column != nullptr && (column->name == "iteration_time" || column->name == "trace" ||
                                  column->name == "tensor" || column->name == "pipeline"));
  }
  return model && time;
}

std::vector<MeasuredRun> read_run_table(std::string_view content, const std::string& file,
                                        const RunFileOptions& options) {
  const std::vector<TextLine> lines = lines_of(content);
  if (lines.empty())
    throw Error(ErrorKind::input, "the table is empty; expected a header", SourcePlace{file, 1, 1});
  const char separator = separator_of(lines.front().text);
  const auto cells = [&](const TextLine& line) { return cells_of(line, separator, file); };
  const std::vector<ColumnHeading> headings = headings_of(cells(lines.front()));
  std::vector<MeasuredRun> runs, wrong;
  std::optional<Error> first;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    try {
      runs.push_back(run_of(headings, cells(lines[i]), options));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      if (!first) first = error;
      MeasuredRun& run = wrong.emplace_back();
      run.label = concat("line ", lines[i].number);
      run.left_out = reason_of(error);
    }
  }
  // Where nothing can be read, the first mistake is told as one.
  if (runs.empty() && first) throw Error(*first);
  if (runs.empty())
    throw Error(ErrorKind::input, "the table has a header and no rows", SourcePlace{file, 1, 1});
  for (MeasuredRun& run : wrong) {
    run.recipe.device = runs.front().recipe.device;
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace stagecraft
