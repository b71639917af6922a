// Compiling with a cost book of one's own: what `predict.hpp` offers, for callers with many plans.

#pragma once

#include "planner/costs/cost_book.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

/// As `compile`, for a plan known to be valid (the schedule's constraints apart, which throw).
Compiled compile_valid(const Plan& plan, CostBook& book);

/// The same to simulate only: without offsets of buffers, and of one column, if all are alike
/// (columns.hpp). The step and each device's peak are those of the whole.
/// What repeats in a plan of many microbatches is left out (`Program::left_out`).
Compiled compile_column(const Plan& plan, CostBook& book);
/// The same with nothing left out, for clocks elsewhere (`CompiledProgram::tables`).
Compiled compile_whole_column(const Plan& plan, CostBook& book);

/// As `compile`, but what repeats in a plan of many microbatches is left out (`Program::left_out`)
/// and counted by the clock, which a note then says.
Compiled compile_counted(const Plan& plan, const Profile& profile, const Cluster& cluster);

/// The same; of one column, buffers and all, if the plan has alike ones and more instructions than
/// anybody reads, which a note then says.
Compiled compile_to_read(const Plan& plan, const Profile& profile, const Cluster& cluster);

}  // namespace stagecraft
