// Other planners. To add one: write planner/baselines/NAME.cpp, declare its function here, add a
// row.

#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "planner/problem/constraints.hpp"

namespace stagecraft {

/// The sizes that a strategy's running time depends on.
struct ProblemSize {
  double layers = 1;
  double devices = 1;       ///< devices that a plan may use
  double servers = 1;       ///< servers of the cluster: the product of all levels but the innermost
  double nested = 0;        ///< sum of the squared counts of all levels but the outermost
  double instructions = 0;  ///< instructions of one plan under every setting
  double downsets = std::numeric_limits<double>::infinity();  ///< downsets of the model's graph;
                                                              ///< infinity: beyond the limit
  double states = std::numeric_limits<double>::infinity();    ///< states of PipeDream's optimizer;
                                                              ///< infinity: beyond the limit
};
inline constexpr std::int64_t most_sized_downsets = 10'000;
inline constexpr int most_sized_states = 2'000;

struct Strategy {
  std::string_view name;
  SearchResult (*search)(const Problem& problem, const SearchControl& control);
  std::string_view summary;
  bool takes_argument = false;  ///< named NAME:ARGUMENT
  /// For other planners: estimated running time in nanoseconds (measuring it would make answers
  /// depend on the machine). Null: its plans are no warm starts of our own search.
  double (*work)(const ProblemSize& size) = nullptr;
  unsigned obeys = wish::all;  ///< constraints of `wishes` that it obeys; a problem with others is
                               ///< refused
  /// `pareto_front` in one search, for a strategy that enumerates all plans.
  SearchResult (*front)(const Problem& problem, const SearchControl& control, int most,
                        double spacing) = nullptr;
};

SearchResult search_pipedream_released(const Problem& problem, const SearchControl& control);
SearchResult search_pipedream_released_no_activations(const Problem& problem,
                                                      const SearchControl& control);
SearchResult search_pipedream_released_fewer_machines(const Problem& problem,
                                                      const SearchControl& control);
SearchResult search_pipedream_paper(const Problem& problem, const SearchControl& control);
SearchResult search_pipedream_2bw(const Problem& problem, const SearchControl& control);
SearchResult search_dapple(const Problem& problem, const SearchControl& control);
SearchResult search_deepspeed_uniform(const Problem& problem, const SearchControl& control);
SearchResult search_deepspeed_parameters(const Problem& problem, const SearchControl& control);
SearchResult search_deepspeed_type(const Problem& problem, const SearchControl& control);
SearchResult search_megatron(const Problem& problem, const SearchControl& control);
SearchResult search_galvatron(const Problem& problem, const SearchControl& control);
SearchResult search_alpa(const Problem& problem, const SearchControl& control);
SearchResult search_dnn_partitioning(const Problem& problem, const SearchControl& control);
SearchResult search_dnn_partitioning_noncontiguous(const Problem& problem,
                                                   const SearchControl& control);
SearchResult search_piper(const Problem& problem, const SearchControl& control);
SearchResult search_aceso(const Problem& problem, const SearchControl& control);

double work_of_pipedream(const ProblemSize& size);
double work_of_pipedream_2bw(const ProblemSize& size);
double work_of_dapple(const ProblemSize& size);
double work_of_one_cut(const ProblemSize& size);
double work_of_balanced_cut(const ProblemSize& size);
double work_of_megatron(const ProblemSize& size);
double work_of_alpa(const ProblemSize& size);
double work_of_dnn_partitioning(const ProblemSize& size);
double work_of_piper(const ProblemSize& size);
double work_of_aceso(const ProblemSize& size);

/// In the order of lists.
inline constexpr std::array baselines{
    Strategy{"pipedream-released", search_pipedream_released,
             "PipeDream's optimizer as released, charging transfers between stages", false,
             work_of_pipedream, wish::straight | wish::recompute},
    Strategy{"pipedream-released-no-activations", search_pipedream_released_no_activations,
             "the same as its default command runs it: transfers between stages are free", false,
             work_of_pipedream, wish::straight | wish::recompute},
    Strategy{"pipedream-released-fewer-machines", search_pipedream_released_fewer_machines,
             "the same, but it may leave machines idle", false, work_of_pipedream,
             wish::straight | wish::recompute},
    Strategy{"pipedream-paper", search_pipedream_paper,
             "PipeDream's optimizer with the formula of its paper", false, work_of_pipedream,
             wish::straight | wish::recompute},
    Strategy{"pipedream-2bw", search_pipedream_2bw,
             "PipeDream-2BW's planner: equal stages, all replicated alike", false,
             work_of_pipedream_2bw, wish::straight | wish::recompute},
    Strategy{"dapple", search_dapple, "DAPPLE's planner, in its formulas and with its bandwidths",
             false, work_of_dapple, wish::straight | wish::recompute},
    Strategy{"deepspeed-uniform", search_deepspeed_uniform,
             "DeepSpeed's equal numbers of layers per stage", false, work_of_one_cut,
             wish::straight | wish::most_stages | wish::recompute},
    Strategy{"deepspeed-parameters", search_deepspeed_parameters,
             "DeepSpeed's balance of parameters", false, work_of_balanced_cut,
             wish::straight | wish::most_stages | wish::recompute},
    Strategy{"deepspeed-type", search_deepspeed_type,
             "DeepSpeed's balance of layers whose kind or name matches, deepspeed-type:REGEX", true,
             nullptr, wish::straight | wish::most_stages | wish::recompute},
    Strategy{"megatron", search_megatron,
             "Megatron-LM's even split, with its flags for embedding, loss, first and last stage",
             false, work_of_megatron, wish::straight | wish::most_stages | wish::recompute},
    Strategy{"galvatron", search_galvatron,
             "Galvatron's powers of two and even split, the rest of the layers in the last stage",
             false, work_of_one_cut, wish::straight | wish::most_stages | wish::recompute},
    Strategy{"alpa", search_alpa,
             "Alpa's sum of stages plus (B - 1) times the slowest, on its submeshes", false,
             work_of_alpa, wish::straight | wish::most_stages | wish::recompute},
    Strategy{
        "dnn-partitioning", search_dnn_partitioning,
        "dnn-partitioning's contiguous split of the throughput problem, proved the best of its "
        "kind; on its own inputs with their exact figures",
        false, work_of_dnn_partitioning, wish::straight | wish::recompute},
    Strategy{
        "dnn-partitioning-noncontiguous", search_dnn_partitioning_noncontiguous,
        "the same problem without contiguity, as dnn-partitioning's integer program solves it: "
        "a device may come up several times; near the best, with a bound",
        false, nullptr, wish::straight | wish::recompute},
    Strategy{"piper", search_piper,
             "Piper's stages with data- and tensor-parallel degrees and recomputing layers, proved "
             "the fastest in its model; on its own inputs with their exact figures",
             false, work_of_piper, wish::tensor_parallel},
    Strategy{
        "aceso", search_aceso,
        "Aceso's (B - 1) times the slowest stage plus the sum, with its transfers, memory and "
        "recomputing, proved the least in its model; on its own profiles with their exact figures",
        false, work_of_aceso, wish::straight | wish::most_stages | wish::tensor_parallel},
};

}  // namespace stagecraft
