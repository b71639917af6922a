#include "planner/calibration/runs/columns.hpp"

#include <algorithm>

#include "profiles/cluster.hpp"
#include "profiles/profile.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr int largest_count = 1'000'000;

bool flag_in(const Cell& cell) {
  for (const std::string_view word : {"yes", "true", "1", "on"}) {
    if (cell.text == word) return true;
  }
  for (const std::string_view word : {"no", "false", "0", "off"}) {
    if (cell.text == word) return false;
  }
  cell.fail(concat("expected yes or no, found \"", cell.text, "\""));
}

/// What the cell names, by a reader of names.
template <class Value>
Value named_in(const Cell& cell, Value (*read)(std::string_view)) {
  try {
    return read(cell.text);
  } catch (const Error& error) {
    cell.fail(error.message());
  }
}

/// What `read` makes of the cell with the header's unit; its complaints get the place.
template <class Read>
auto quantity_in(const Cell& cell, Read read) {
  try {
    return read(cell.text + cell.unit);
  } catch (const Error& error) {
    cell.fail(concat(error.message(),
                     cell.unit.empty() ? "; or give the header a unit, as iteration_time_ms" : ""));
  }
}

Model model_in(const Cell& cell) {
  try {
    return load_profile(cell.text).profile.model;
  } catch (const Error& error) {
    throw Error(ErrorKind::input, error.message(), cell.place, error.help());
  }
}

void read_model_cell(RunDraft& draft, const Cell& cell) {
  const Model model = model_in(cell);
  if (!model.transformer) cell.fail("expected a transformer, found " + model.name);
  Recipe& recipe = draft.run.recipe;
  recipe.transformer = *model.transformer;
  recipe.blocks = static_cast<int>(std::ranges::count_if(model.layers, is_block));
  if (has_steps(model)) {
    if (!std::ranges::all_of(model.layers, [](const Layer& layer) {
          return is_block(layer) || layer.kind == LayerKind::embedding ||
                 layer.kind == LayerKind::head || layer.kind == LayerKind::prediction;
        })) {
      cell.fail("expected a transformer of embedding, blocks and head; " + model.name +
                " has other layers");
    }
    recipe.layers = model.layers;
  }
  draft.run.model = model.name;
  draft.sequence = model.sequence;
}

/// Nodes, their size and links, as the cluster has them; of several levels between nodes the
/// slowest, over its oversubscription.
void take_links(Recipe& recipe, const Cluster& cluster) {
  if (cluster.levels.empty()) return;
  const Level& node = cluster.levels.back();
  RecipeLinks links{.inside = node.link, .between = {}, .rails = cluster.levels.front().rails};
  for (std::size_t i = 0; i + 1 < cluster.levels.size(); ++i) {
    Link outer = cluster.levels[i].link;
    const double over = cluster.levels[i].oversubscription;
    if (over > 1 && !outer.collective.is_unlimited()) {
      outer.collective.bytes_per_second =
          static_cast<std::int64_t>(static_cast<double>(outer.collective.bytes_per_second) / over);
    }
    links.between = slower(links.between, outer);
  }
  recipe.devices_per_node = node.count;
  recipe.links = links;
}

void read_cluster_cell(RunDraft& draft, const Cell& cell) {
  const Cluster cluster = [&] {
    try {
      return parse_cluster(cell.text);
    } catch (const Error& error) {
      throw Error(ErrorKind::input, error.message(), cell.place, error.help());
    }
  }();
  if (cluster.kinds.size() != 1) cell.fail("expected devices of one kind, found " + cell.text);
  draft.device = Cell{cluster.kinds.front().name, cell.place, {}};
  draft.devices = Cell{std::to_string(device_count(cluster)), cell.place, {}};
  take_links(draft.run.recipe, cluster);
}

/// The closed form is that of flushed pipelines.
void read_schedule_cell(RunDraft& draft, const Cell& cell) {
  if (cell.text == "gpipe") draft.run.memory_is_modelled = false;
  for (const std::string_view known :
       {"1f1b", "pipedream-flush", "interleaved", "interleaved-1f1b", "gpipe", "none"}) {
    if (cell.text == known) return;
  }
  cell.fail(concat("expected 1f1b, interleaved or gpipe, whose steps have a closed form; found \"",
                   cell.text, "\""));
}

void read_sharding_cell(RunDraft& draft, const Cell& cell) {
  constexpr std::array names{"none", "zero1", "zero2", "zero3"};
  const auto found = std::ranges::find(names, cell.text);
  if (found == names.end())
    cell.fail(concat("expected none, zero1, zero2 or zero3, found \"", cell.text, "\""));
  const auto stage = found - names.begin();
  draft.run.recipe.sharded_optimizer = stage >= 1;
  draft.run.recipe.sharded_gradients = stage >= 2;
  draft.run.recipe.sharded_parameters = stage >= 3;
}

void read_recompute_cell(RunDraft& draft, const Cell& cell) {
  for (const Recomputed known : {Recomputed::none, Recomputed::selective, Recomputed::full}) {
    if (to_string(known) != cell.text) continue;
    draft.run.recipe.work.recompute = known;
    return;
  }
  try {
    draft.run.recipe.again = read_layer_modules(cell.text);
  } catch (const Error& error) {
    cell.fail(concat("expected none, selective, full, or modules of a layer; ", error.message()));
  }
}

void read_precision_cell(RunDraft& draft, const Cell& cell) {
  draft.run.recipe.work.precision = named_in(cell, read_precision);
}

void read_gradients_cell(RunDraft& draft, const Cell& cell) {
  const Precision precision = named_in(cell, read_precision);
  if (is_float8(precision) || precision == Precision::float64)
    cell.fail(concat("expected fp32, bf16 or fp16, found \"", cell.text, "\""));
  draft.run.recipe.work.gradient_bytes = element_bytes(precision);
}

void read_framework_cell(RunDraft& draft, const Cell& cell) {
  draft.run.recipe.work.framework = named_in(cell, read_framework);
  draft.framework_said = true;
}

void read_dispatcher_cell(RunDraft& draft, const Cell& cell) {
  draft.run.recipe.work.dispatcher = named_in(cell, read_dispatcher);
}

void read_float8_recipe_cell(RunDraft& draft, const Cell& cell) {
  draft.run.recipe.work.float8_recipe = named_in(cell, read_float8_recipe);
  draft.recipe_said = true;
}

/// "yes" is the one that is fused as a whole.
void read_loss_cell(RunDraft& draft, const Cell& cell) {
  const bool is_name = cell.text == "native" || cell.text == "te";
  draft.run.recipe.work.fused_loss = is_name         ? read_fused_loss(cell.text)
                                     : flag_in(cell) ? FusedLoss::te
                                                     : FusedLoss::none;
}

void read_graphs_cell(RunDraft& draft, const Cell& cell) {
  draft.run.recipe.graphs = named_in(cell, read_cuda_graphs);
}

void read_load_cell(RunDraft& draft, const Cell& cell) {
  const std::optional<double> load = number_after(cell.text, "");
  if (!load || *load < 1 || *load > 1000) {
    cell.fail(concat("expected the busiest device's tokens over the mean, from 1 on, found \"",
                     cell.text, "\""));
  }
  draft.run.recipe.work.expert_load = *load;
}

void read_time_cell(RunDraft& draft, const Cell& cell) {
  draft.run.seconds =
      seconds(quantity_in(cell, [](const std::string& text) { return parse_duration(text); }));
  if (draft.run.seconds <= 0) cell.fail("expected a time above zero");
}

constexpr std::array columns{
    RunColumn{"label", {"name", "run"}, [](RunDraft& d, const Cell& c) { d.run.label = c.text; }},
    RunColumn{"model", {}, read_model_cell},
    RunColumn{"cluster", {}, read_cluster_cell},
    RunColumn{"device", {"device_kind", "gpu"}, [](RunDraft& d, const Cell& c) { d.device = c; }},
    RunColumn{"devices",
              {"gpus", "device_count", "world_size"},
              [](RunDraft& d, const Cell& c) { d.devices = c; }},
    RunColumn{"devices_per_node",
              {"gpus_per_node"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.devices_per_node = number_in(c); }},
    RunColumn{"tensor",
              {"tensor_parallel", "tp"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.work.tensor_parallel = number_in(c); }},
    RunColumn{"pipeline",
              {"pipeline_parallel", "pp"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.pipeline = number_in(c); }},
    RunColumn{"data", {"data_parallel", "dp"}, [](RunDraft& d, const Cell& c) { d.data = c; }},
    RunColumn{
        "context",
        {"context_parallel", "cp"},
        [](RunDraft& d, const Cell& c) { d.run.recipe.work.context_parallel = number_in(c); }},
    RunColumn{"expert",
              {"expert_parallel", "ep"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.work.expert_parallel = number_in(c); }},
    RunColumn{"virtual_stages",
              {"virtual", "vpp"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.virtual_stages = number_in(c); }},
    RunColumn{"microbatch",
              {"micro_batch", "microbatch_size", "micro_batch_size"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.work.microbatch = number_in(c); }},
    RunColumn{"global_batch",
              {"batch", "global_batch_size"},
              [](RunDraft& d, const Cell& c) { d.global_batch = c; }},
    RunColumn{"sequence",
              {"sequence_length", "seq_length", "seq_len"},
              [](RunDraft& d, const Cell& c) { d.sequence = number_in(c); }},
    RunColumn{"blocks",
              {"layers", "num_layers"},
              [](RunDraft& d, const Cell& c) { d.blocks = number_in(c); }},
    RunColumn{"schedule", {}, read_schedule_cell},
    RunColumn{"precision", {"dtype"}, read_precision_cell},
    RunColumn{"recompute", {"recomputation"}, read_recompute_cell},
    RunColumn{"sharding", {"zero"}, read_sharding_cell},
    RunColumn{"sequence_parallel",
              {},
              [](RunDraft& d, const Cell& c) { d.run.recipe.work.sequence_parallel = flag_in(c); }},
    RunColumn{"overlapped_gradients",
              {"overlap_gradients", "overlap_grad_reduce"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.overlapped_gradients = flag_in(c); }},
    RunColumn{"overlapped_parameters",
              {"overlap_parameters", "overlap_param_gather"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.overlapped_parameters = flag_in(c); }},
    RunColumn{"overlapped_messages",
              {"overlap_messages", "tp_comm_overlap"},
              [](RunDraft& d, const Cell& c) {
                d.run.recipe.overlapped_messages = flag_in(c);
                d.messages_said = true;
              }},
    RunColumn{"overlapped_transfers",
              {"overlap_transfers", "overlap_p2p"},
              [](RunDraft& d, const Cell& c) {
                d.run.recipe.overlapped_transfers = flag_in(c);
                d.transfers_said = true;
              }},
    RunColumn{"overlapped_exchanges",
              {"overlap_exchanges", "overlap_moe_expert_parallel_comm"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.overlapped_exchanges = flag_in(c); }},
    RunColumn{"cuda_graphs", {"cuda_graph"}, read_graphs_cell},
    RunColumn{"float8_recipe", {"fp8_recipe"}, read_float8_recipe_cell},
    RunColumn{"float8_gathers",
              {"fp8_param_gather"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.float8_gathers = flag_in(c); }},
    RunColumn{"expert_tensor",
              {"expert_tensor_parallel", "etp"},
              [](RunDraft& d, const Cell& c) {
                d.run.recipe.work.expert_tensor_parallel = number_in(c);
              }},
    RunColumn{"dispatcher", {"moe_dispatcher", "token_dispatcher"}, read_dispatcher_cell},
    RunColumn{"expert_load", {"load_imbalance"}, read_load_cell},
    RunColumn{"optimizer_instances",
              {"num_distributed_optimizer_instances"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.optimizer_instances = number_in(c); }},
    RunColumn{"framework", {}, read_framework_cell},
    RunColumn{"fused_loss", {"fused_cross_entropy"}, read_loss_cell},
    RunColumn{"router_fusion",
              {"moe_router_fusion"},
              [](RunDraft& d, const Cell& c) {
                d.run.recipe.work.router_fusion = flag_in(c) ? RouterFusion::on : RouterFusion::off;
              }},
    RunColumn{"unfused_attention",
              {},
              [](RunDraft& d, const Cell& c) { d.run.recipe.work.fused_attention = !flag_in(c); }},
    RunColumn{
        "dropout", {}, [](RunDraft& d, const Cell& c) { d.run.recipe.work.dropout = flag_in(c); }},
    RunColumn{"gradient_precision", {"grad_reduce_dtype"}, read_gradients_cell},
    RunColumn{"grouped_experts",
              {"moe_grouped_gemm"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.work.grouped_experts = flag_in(c); }},
    RunColumn{"scattered_transfers",
              {"scatter_gather"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.scatter_gather = flag_in(c); }},
    RunColumn{"first_stage_blocks",
              {"decoder_first_pipeline_num_layers"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.first_stage_blocks = number_in(c); }},
    RunColumn{"last_stage_blocks",
              {"decoder_last_pipeline_num_layers"},
              [](RunDraft& d, const Cell& c) { d.run.recipe.last_stage_blocks = number_in(c); }},
    RunColumn{"iteration_time", {"step", "step_time", "time"}, read_time_cell, true},
    RunColumn{"trace", {"kineto_trace"}, [](RunDraft& d, const Cell& c) { d.trace = c; }},
    RunColumn{"peak_memory",
              {"memory", "max_memory"},
              [](RunDraft& d, const Cell& c) {
                d.run.memory = quantity_in(c, [](const std::string& t) { return parse_bytes(t); });
              },
              true},
};

struct Unit {
  std::string_view header, ours;
};
constexpr std::array units{
    Unit{"ns", "ns"},   Unit{"us", "us"},   Unit{"ms", "ms"}, Unit{"s", "s"},   Unit{"min", "min"},
    Unit{"mib", "MiB"}, Unit{"gib", "GiB"}, Unit{"mb", "MB"}, Unit{"gb", "GB"}, Unit{"b", "B"}};

/// "Iteration time (ms)" as "iteration_time_ms".
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : trim(name)) {
    const bool separates = c == ' ' || c == '-' || c == '_' || c == '(' || c == '[';
    if (separates && !result.empty() && result.back() != '_') result += '_';
    if (separates || c == ')' || c == ']') continue;
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

}  // namespace

int number_in(const Cell& cell) {
  const bool digits = !cell.text.empty() && cell.text.size() < 8 &&
                      cell.text.find_first_not_of("0123456789") == std::string::npos;
  const int number = digits ? std::stoi(cell.text) : 0;
  if (number < 1 || number > largest_count) {
    cell.fail(
        concat("expected a whole number from 1 to ", largest_count, ", found \"", cell.text, "\""));
  }
  return number;
}

ColumnHeading heading_of(std::string_view name) {
  const auto find = [](std::string_view text) -> const RunColumn* {
    for (const RunColumn& column : columns) {
      if (column.name == text) return &column;
      if (!text.empty() && std::ranges::count(column.others, text) > 0) return &column;
    }
    return nullptr;
  };
  const std::string whole = plain(name);
  if (const RunColumn* column = find(whole)) return {column, ""};
  const std::size_t last = whole.rfind('_');
  if (last == std::string::npos) return {};
  const RunColumn* column = find(std::string_view(whole).substr(0, last));
  if (column == nullptr || !column->has_unit) return {};
  for (const Unit& unit : units) {
    if (unit.header == whole.substr(last + 1)) return {column, std::string(unit.ours)};
  }
  return {};
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const RunColumn& column : columns) names.emplace_back(column.name);
  return names;
}

std::string closest_column(std::string_view name) {
  return closest(plain(name), column_names());
}

}  // namespace stagecraft
