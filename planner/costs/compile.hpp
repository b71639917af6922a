// Compiling with a given cost book, for callers with many plans (see `predict.hpp`).

#pragma once

#include "planner/costs/cost_book.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

/// As `compile`, for a plan known to be valid, except for the schedule's constraints, which throw.
Compiled compile_valid(const Plan& plan, CostBook& book);

/// Compiles for simulation only: without buffer offsets, and only one column if all are equal
/// (columns.hpp). The step and each device's peak are those of the whole plan. In a plan of many
/// microbatches, the repeating part is left out (`Program::left_out`).
Compiled compile_column(const Plan& plan, CostBook& book);
/// As `compile_column`, without leaving out repetition, for other clocks
/// (`CompiledProgram::tables`).
Compiled compile_whole_column(const Plan& plan, CostBook& book);

/// As `compile`, but the repeating part of a plan of many microbatches is left out
/// (`Program::left_out`) and extrapolated exactly by the clock; a note says so.
Compiled compile_counted(const Plan& plan, const Profile& profile, const Cluster& cluster);

/// As `compile_counted`; if the plan has equal columns and very many instructions, only one column,
/// with its buffers, and a note says so.
Compiled compile_to_read(const Plan& plan, const Profile& profile, const Cluster& cluster);

}  // namespace stagecraft
