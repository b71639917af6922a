#include "planner/costs/predict.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <type_traits>

#include "planner/costs/compile.hpp"
#include "planner/costs/device_limits.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// The first chunk of a stage: that of its first replica.
std::size_t first_chunk(const Program& program, int stage) {
  const auto& chunks = program.chunks;
  return static_cast<std::size_t>(
      std::find_if(chunks.begin(), chunks.end(),
                   [&](const Chunk& chunk) { return chunk.stage == stage && chunk.replica == 0; }) -
      chunks.begin());
}

/// The slowest message from the stage to the next.
Duration send_time(const Compiled& compiled, int stage) {
  Duration slowest{0};
  for (std::size_t i = 0; i < compiled.program.channels.size(); ++i) {
    const Channel& channel = compiled.program.channels[i];
    const Chunk& from = compiled.program.chunks[static_cast<std::size_t>(channel.from)];
    if (channel.cargo != Cargo::activation || from.stage != stage) continue;
    const ChannelCosts& costs = compiled.costs.channels[i];
    slowest = std::max(slowest, costs.latency + costs.occupancy);
  }
  return slowest;
}

StagePrediction predict_stage(const Plan& plan, const Compiled& compiled,
                              const Prediction& prediction, int stage) {
  const std::size_t chunk = first_chunk(compiled.program, stage);
  const ChunkCosts& costs = compiled.costs.chunks[chunk];
  const auto device = static_cast<std::size_t>(compiled.program.chunks[chunk].device);
  const double step = seconds(prediction.step);
  const bool splits = find_schedule(plan.schedule.name).splits_backward;
  return {.layers = plan.stages[static_cast<std::size_t>(stage)].layers,
          .forward = costs.forward,
          .backward = splits ? costs.backward_input + costs.backward_weight : costs.backward,
          .send = send_time(compiled, stage),
          .idle = step > 0 ? 1 - seconds(prediction.busy[device]) / step : 0};
}

bool fits_limits(const Prediction& prediction) {
  for (std::size_t d = 0; d < prediction.peaks.size(); ++d) {
    if (prediction.peaks[d].bytes > prediction.memory_limits[d]) return false;
  }
  return true;
}

}  // namespace

namespace {

/// What is known of stand-ins, for all.
template <class Figure>
void spread(std::vector<Figure>& figures, const std::vector<int>& stand_ins) {
  if (stand_ins.empty() || figures.empty()) return;
  std::vector<Figure> all;
  all.reserve(stand_ins.size());
  for (const int stand_in : stand_ins) all.push_back(figures[static_cast<std::size_t>(stand_in)]);
  figures = std::move(all);
}

/// A figure of each lead device for it and its peers, in device order.
template <class Function>
auto of_devices(const Plan& plan, const Function& figure) {
  using Figure = std::invoke_result_t<Function, std::size_t>;
  const std::vector<int> leads = lead_devices(plan);
  std::map<int, Figure> figures;
  for (const Stage& stage : plan.stages) {
    for (const auto& peers : stage.devices) {
      const auto lead = std::lower_bound(leads.begin(), leads.end(), peers.front());
      for (const int peer : peers) {
        figures[peer] = figure(static_cast<std::size_t>(lead - leads.begin()));
      }
    }
  }
  std::vector<Figure> list;
  for (const auto& [device, of_device] : figures) list.push_back(of_device);
  return list;
}

}  // namespace

PredictedFigures predicted_figures(const Plan& plan, const Prediction& prediction) {
  return {.step = prediction.step,
          .bubble = prediction.bubble,
          .peak_memory = device_peaks(plan, prediction)};
}

std::vector<Bytes> device_peaks(const Plan& plan, const Prediction& prediction) {
  if (prediction.peaks.empty()) return {};
  return of_devices(plan, [&](std::size_t lead) { return prediction.peaks[lead].bytes; });
}

std::optional<Bytes> limit_of(const Prediction& prediction, std::size_t lead) {
  const Bytes limit = prediction.memory_limits.at(lead);
  if (limit == std::numeric_limits<Bytes>::max()) return {};
  return limit;
}

std::string needed_of(Bytes needed, Bytes limit) {
  const std::string text = concat(format_bytes(needed), " of ", format_bytes(limit));
  const bool alike = needed > limit && format_bytes(needed) == format_bytes(limit);
  return alike ? concat(text, ", ", format_bytes(needed - limit), " more than there is") : text;
}

std::vector<std::optional<Bytes>> device_limits(const Plan& plan, const Prediction& prediction) {
  if (prediction.memory_limits.empty()) return {};
  return of_devices(plan, [&](std::size_t lead) { return limit_of(prediction, lead); });
}

Prediction predict(const Plan& plan, const Compiled& compiled) {
  return predict(plan, compiled, simulate(compiled.program, compiled.costs));
}

Prediction predict(const Plan& plan, const Compiled& compiled, const Timeline& timeline) {
  Prediction prediction;
  prediction.step = step_time(timeline);
  prediction.bubble = bubble(timeline);
  prediction.busy = busy_times(timeline);
  prediction.peaks = memory_peaks(timeline);
  // A timeline without a buffer knows of no memory.
  prediction.peaks.resize(static_cast<std::size_t>(compiled.program.devices));
  prediction.memory_limits = compiled.memory_limits;
  prediction.fits = fits_limits(prediction);
  prediction.provenance = compiled.provenance;
  prediction.notes = compiled.notes;
  if (prediction.step > Duration{0}) {
    prediction.samples_per_second =
        static_cast<double>(plan.batch.global) / seconds(prediction.step);
  }
  prediction.tokens_per_second =
      prediction.samples_per_second * static_cast<double>(plan.batch.sequence);
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    prediction.stages.push_back(predict_stage(plan, compiled, prediction, s));
  }
  spread(prediction.busy, compiled.stand_ins);
  spread(prediction.peaks, compiled.stand_ins);
  spread(prediction.memory_limits, compiled.stand_ins);
  return prediction;
}

Prediction predict(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  validate(plan, profile.model, cluster);
  CostBook book(profile, cluster, book_setting(plan));
  return predict(plan, compile_column(plan, book));
}

}  // namespace stagecraft
