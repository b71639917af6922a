"""The verbs of the program as functions. Written by tools/python/generate_verbs; do not edit."""

from __future__ import annotations

from typing import Literal

from .calls import Input, Value, Values, run_verb
from .program import PathLike, Progress
from .results import (AdviseResult, CheckResult, ClustersResult, CompareResult, ExplainResult, ImportResult,
                      ModelResult, ModelsResult, PlanResult, ProfileResult, ReportResult, Result, RunResult,
                      SchedulesResult, SimulateResult, TextResult)


def plan(model: Input, cluster: Input | None = None, *, memory: Value | None = None, bandwidth: Value | None = None,
         devices: int | None = None, for_: Value | None = None, exclude: Value | None = None, batch: int | None = None,
         gbs: int | None = None, microbatch: Value | None = None, mbs: Value | None = None, pp: int | None = None,
         vpp: int | None = None, dp: int | None = None, tensor_parallel: Value | None = None, tp: Value | None = None,
         sequence_parallel: Literal["auto", "on", "off"] | None = None, context_parallel: Value | None = None,
         cp: Value | None = None, expert_parallel: Value | None = None, ep: Value | None = None,
         expert_tensor_parallel: Value | None = None, expert_nodes: int | None = None, expert_load: float | None = None,
         sequence: int | None = None, prompt_tokens: int | None = None, output_tokens: int | None = None,
         chunk_tokens: int | None = None, precision: Value | None = None, kernels: Value | None = None,
         dispatcher: Value | None = None, cuda_graphs: Value | None = None, fp8_recipe: Value | None = None,
         fused_loss: Value | None = None, router_fusion: Value | None = None, overlap: Value | None = None,
         optimizer: Value | None = None, sharding: Value | None = None, gradient_bucket: Value | None = None,
         schedule: Value | None = None, mem_limit: Value | None = None,
         recompute: Literal["auto", "none", "selective", "full", "layers"] | None = None,
         recompute_modules: Value | None = None, fix: Values | None = None, straight: bool = False,
         max_stages: int | None = None, min_layers_per_stage: int | None = None, objective: Value | None = None,
         tokens: Value | None = None, price: Values | None = None,
         compare_frameworks: Literal["auto", "on", "off"] | None = None, time_limit: Value | None = None,
         gap: Value | None = None, top: int | None = None, sharing: Literal["fair", "fifo"] | None = None,
         devices_per_link: int | None = None, pareto: Value | None = None, risk: Value | None = None,
         spread: Value | None = None, strategy: Value | None = None, seed: int | None = None,
         threads: int | None = None, progress: Progress = True) -> PlanResult:
    """Finds the best stages, replicas and schedule for a model on a cluster.

    model: Built-in name, config.json, profile, or file of another planner
    cluster: Name, expression such as 4x8xh100@400Gb/s, or file of a cluster; optional if MODEL's file names devices
        …
    memory: Memory of each device, including the memory that CUDA and NCCL take (the cluster's)
    bandwidth: Bandwidth of every link (the cluster's)
    devices: Number of devices: the first N of the cluster, or N instead of the number in MODEL's file (all)
    for_: Restrict the search to plans that this framework can run, which `export` writes for it: megatron,
        torchtitan, …
    exclude: Devices that plans must not use: 3,8-15, or node2 for all devices of node 2
    batch: Samples per step (8 of the largest microbatches)
    gbs: Samples per step (8 of the largest microbatches)
    microbatch: Samples per microbatch: a list, or auto
    mbs: Samples per microbatch and replica: a list; all stages then have equally many replicas
    pp: Exact number of pipeline devices; all stages then have equally many replicas (any)
    vpp: Exact number of stages per pipeline device (any)
    dp: Exact number of replicas of every stage (any)
    tensor_parallel: Tensor-parallel degrees to try: a list, or auto, for those with known costs within the
        innermost links
    tp: Tensor-parallel degrees to try: a list, or auto, for those with known costs within the innermost links
    sequence_parallel: Sequence parallelism among tensor-parallel devices: on, off, or auto, which is on if costs
        are estimated
    context_parallel: Context-parallel degrees to try: a list, or auto, to train on sequences of 8192 tokens and
        more, 2048 of them …
    cp: Context-parallel degrees to try: a list, or auto, to train on sequences of 8192 tokens and more, 2048 of
        them …
    expert_parallel: Expert-parallel degrees to try: a list, or auto, for those that divide the experts and the
        devices
    ep: Expert-parallel degrees to try: a list, or auto, for those that divide the experts and the devices
    expert_tensor_parallel: Tensor-parallel degrees inside an expert to try: a list, or auto, for 1 and the one of
        the other layers
    expert_nodes: Maximum number of nodes that hold a token's experts (any)
    expert_load: Load of the busiest device's experts, relative to the mean (1)
    sequence: Tokens per sample, 32k for 32768 (the model's)
    prompt_tokens: With inference: tokens of each request's prompt, the same as --sequence (the model's sequence
        less …
    output_tokens: With inference: tokens to generate for each request (256)
    chunk_tokens: With inference: maximum number of prompt tokens computed in one pass, vLLM's
        --max-num-batched-tokens (8192)
    precision: Precision: fp32, bf16, fp16, fp8 (products only), fp8+attention or fp64 (that of the profile or the
        device)
    kernels: Kernels of layers whose costs are estimated: megatron or torch (those of --for NAME, else megatron)
    dispatcher: Dispatcher of tokens to experts: alltoall, deepep or hybridep (alltoall)
    cuda_graphs: Kernels that the host launches together: none, layers or step (none)
    fp8_recipe: Scaling recipe of fp8: delayed (scale from earlier steps), tensorwise (from the tensor itself),
        blockwise (one …
    fused_loss: Loss kernel of Megatron-LM: none (one operation after the other), native (those operations compiled)
        or te …
    router_fusion: Megatron-LM's choice of experts in three kernels of Transformer Engine, not one operation after
        the other: on …
    overlap: Messages of peers that overlap with a layer's kernels in Megatron-LM: none, tensor (with matrix
        products), …
    optimizer: Optimizer: adamw or sgd (adamw)
    sharding: Sharding over replicas: none (or ddp); zero1, of optimizer states; zero2, of gradients, too; zero3 (or
        fsdp), …
    gradient_bucket: Bucket size of gradient sums that overlap the last backward, or auto, which is that of the
        kernels' framework …
    schedule: Schedules to try: a list of names, or auto, for 1f1b, gpipe and those with smaller bubbles; inference
        for …
    mem_limit: Part of each device's memory to use, including the memory that CUDA and NCCL take (100%; of inference
        92%, as …
    recompute: Recomputation: auto, none or full, by stage; selective (attention only) or layers, by layer as memory
        demands …
    recompute_modules: Modules of Megatron-LM's layers that selective recomputation repeats instead of attention:
        core_attn, …
    fix: Fixed layers of a stage: stage0.layers=0..4 for the first four
    straight: Do not replicate stages
    max_stages: Maximum number of stages (any)
    min_layers_per_stage: Minimum number of layers per stage (1); with 0 the stages between the first and the last
        may be empty
    objective: Objective: step, throughput, latency (of inference) or cost (with --price) (step)
    tokens: Tokens of a whole training run, whose duration is printed, and with --price its cost: 15T, 300B
    price: Price of a device kind per hour: a100=2.5/h
    compare_frameworks: Also show the best plan of each framework, found by a short search: on, off, or auto, which
        is on for text …
    time_limit: Time limit of the search; the best plan so far is the result
    gap: Stop when the plan is proved within this percentage of the optimum (1% on more than 16 devices, or 4 with …
    top: Number of plans to show (1)
    sharing: Optimise the step with shared links: fair divides a link among the messages on it, fifo sends them one
        after …
    devices_per_link: With --sharing: devices that share one link out of their node (all of the node)
    pareto: Pareto front of memory,throughput; each plan has at least a sixteenth less memory than the one before
    risk: Optimise this percentile of the step time; memory must fit with the same probability: p50 (as predicted)
        p75 …
    spread: With --risk: relative standard deviations of the costs: compute=5%,communication=40%,memory=2% (usual
        values …
    strategy: Search strategy: exact, or a baseline in its own cost model: exact, brute-force, pipedream-released, …
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(PlanResult, ["plan"], [model, cluster], [
        ("--memory", memory, False, False),
        ("--bandwidth", bandwidth, False, False),
        ("--devices", devices, False, False),
        ("--for", for_, False, False),
        ("--exclude", exclude, False, False),
        ("--batch", batch, False, False),
        ("--gbs", gbs, False, False),
        ("--microbatch", microbatch, False, False),
        ("--mbs", mbs, False, False),
        ("--pp", pp, False, False),
        ("--vpp", vpp, False, False),
        ("--dp", dp, False, False),
        ("--tensor-parallel", tensor_parallel, False, False),
        ("--tp", tp, False, False),
        ("--sequence-parallel", sequence_parallel, False, False),
        ("--context-parallel", context_parallel, False, False),
        ("--cp", cp, False, False),
        ("--expert-parallel", expert_parallel, False, False),
        ("--ep", ep, False, False),
        ("--expert-tensor-parallel", expert_tensor_parallel, False, False),
        ("--expert-nodes", expert_nodes, False, False),
        ("--expert-load", expert_load, False, False),
        ("--sequence", sequence, False, False),
        ("--prompt-tokens", prompt_tokens, False, False),
        ("--output-tokens", output_tokens, False, False),
        ("--chunk-tokens", chunk_tokens, False, False),
        ("--precision", precision, False, False),
        ("--kernels", kernels, False, False),
        ("--dispatcher", dispatcher, False, False),
        ("--cuda-graphs", cuda_graphs, False, False),
        ("--fp8-recipe", fp8_recipe, False, False),
        ("--fused-loss", fused_loss, False, False),
        ("--router-fusion", router_fusion, False, False),
        ("--overlap", overlap, False, False),
        ("--optimizer", optimizer, False, False),
        ("--sharding", sharding, False, False),
        ("--gradient-bucket", gradient_bucket, False, False),
        ("--schedule", schedule, False, False),
        ("--mem-limit", mem_limit, False, False),
        ("--recompute", recompute, False, False),
        ("--recompute-modules", recompute_modules, False, False),
        ("--fix", fix, False, True),
        ("--straight", straight, True, False),
        ("--max-stages", max_stages, False, False),
        ("--min-layers-per-stage", min_layers_per_stage, False, False),
        ("--objective", objective, False, False),
        ("--tokens", tokens, False, False),
        ("--price", price, False, True),
        ("--compare-frameworks", compare_frameworks, False, False),
        ("--time-limit", time_limit, False, False),
        ("--gap", gap, False, False),
        ("--top", top, False, False),
        ("--sharing", sharing, False, False),
        ("--devices-per-link", devices_per_link, False, False),
        ("--pareto", pareto, False, False),
        ("--risk", risk, False, False),
        ("--spread", spread, False, False),
        ("--strategy", strategy, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def check(subject: Input, *, stages: Value | None = None, virtual: Value | None = None, group: int | None = None,
          in_flight: int | None = None, decode_steps: int | None = None, warmup: Value | None = None,
          pipes: int | None = None, sequence_chunks: int | None = None, microbatches: int | None = None,
          messages_in_flight: int | None = None, certificate: bool = False, for_: Value | None = None,
          memory: Value | None = None, mem_limit: Value | None = None, time_limit: Value | None = None,
          seed: int | None = None, threads: int | None = None, progress: Progress = True) -> CheckResult:
    """Proves a plan or schedule safe; raises CheckError with the reason if it is not.

    subject: Plan, name of a schedule, or its torch CSV; - is standard input
    stages: With a schedule: number of pipeline devices
    virtual: With a schedule: stages per device (1, or 2 where the schedule interleaves or folds)
    group: With interleaved: consecutive microbatches per stage; with pipedream-2bw: microbatches per update (P)
    in_flight: With zb-auto or zbv-auto: microbatches that fit in each device's memory (P)
    decode_steps: With inference: further passes of each microbatch, one per token (0)
    warmup: With 1f1b, pipedream or pipedream-2bw: warm-up forwards of each device
    pipes: With chimera: number of model copies, even (2)
    sequence_chunks: With seq1f1b: pieces per sequence (1)
    microbatches: With a schedule: microbatches per iteration (8)
    messages_in_flight: Messages that a channel buffers before a send blocks (0)
    certificate: With a plan: verify that the plan answers its question and that its lower bound holds
    for_: With a plan: check that this framework can run it, or print every reason why not
    memory: With a plan: memory of each device, including the memory that CUDA and NCCL take (the cluster's; if that
        is …
    mem_limit: With a plan: part of each device's memory to use, including the memory that CUDA and NCCL take (100%;
        with …
    time_limit: Time limit; the command ends without a result if it takes longer
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(CheckResult, ["check"], [subject], [
        ("--stages", stages, False, False),
        ("--virtual", virtual, False, False),
        ("--group", group, False, False),
        ("--in-flight", in_flight, False, False),
        ("--decode-steps", decode_steps, False, False),
        ("--warmup", warmup, False, False),
        ("--pipes", pipes, False, False),
        ("--sequence-chunks", sequence_chunks, False, False),
        ("--microbatches", microbatches, False, False),
        ("--messages-in-flight", messages_in_flight, False, False),
        ("--certificate", certificate, True, False),
        ("--for", for_, False, False),
        ("--memory", memory, False, False),
        ("--mem-limit", mem_limit, False, False),
        ("--time-limit", time_limit, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def simulate(plan: Input | None = None, *, schedule: Value | None = None, stages: Value | None = None,
             virtual: Value | None = None, group: int | None = None, in_flight: int | None = None,
             decode_steps: int | None = None, warmup: Value | None = None, pipes: int | None = None,
             sequence_chunks: int | None = None, microbatches: Value | None = None, forward: Value | None = None,
             backward: Value | None = None, backward_input: Value | None = None, backward_weight: Value | None = None,
             fused: Value | None = None, transfer: Value | None = None, message: Value | None = None,
             bandwidth: Value | None = None, devices_per_node: int | None = None, activations: Value | None = None,
             activations_for_weight: Value | None = None, recompute: Literal["none", "full"] | None = None,
             norm: Value | None = None, norm_time: Value | None = None,
             link_policy: Literal["async", "blocking-pair", "prefetch", "in-order", "commit-and-wait", "lock-step"] | None = None,
             protocol: Literal["eager", "rendezvous", "credit"] | None = None, buffers: int | None = None,
             sharing: Literal["fair", "fifo"] | None = None, devices_per_link: int | None = None,
             slow_down: Value | None = None, slow: Value | None = None, stop: Value | None = None,
             memory_limit: Value | None = None, iterations: int | None = None,
             barrier: Literal["on", "off"] | None = None, jitter: Value | None = None, samples: int | None = None,
             mtbf: Value | None = None, checkpoint: Value | None = None, checkpoint_every: Value | None = None,
             restart: Value | None = None, run_time: Value | None = None, tokens: Value | None = None,
             price: Values | None = None, prompt: int | None = None, cache_per_token: Value | None = None,
             prompt_tokens: int | None = None, output_tokens: int | None = None, chunk_tokens: int | None = None,
             memory: Value | None = None, mem_limit: Value | None = None, risk: Value | None = None,
             spread: Value | None = None, trace: PathLike | None = None, svg: PathLike | None = None,
             range: Value | None = None, nvtx: PathLike | None = None, set: Values | None = None, replan: bool = False,
             write_plan: PathLike | None = None, time_limit: Value | None = None, draw: bool = False,
             seed: int | None = None, threads: int | None = None, progress: Progress = True) -> SimulateResult:
    """Predicts a plan's or schedule's timeline, bubble and memory; lists sweep.

    plan: Plan file; none with --schedule
    schedule: Schedule: a name of `stagecraft schedule list`, or a torch CSV; a list makes a sweep
    stages: With a schedule: number of pipeline devices
    virtual: With a schedule: stages per device (1, or 2 where the schedule interleaves or folds)
    group: With interleaved: consecutive microbatches per stage; with pipedream-2bw: microbatches per update (P)
    in_flight: With zb-auto or zbv-auto: microbatches that fit in each device's memory (P)
    decode_steps: With inference: further passes of each microbatch, one per token (0)
    warmup: With 1f1b, pipedream or pipedream-2bw: warm-up forwards of each device
    pipes: With chimera: number of model copies, even (2)
    sequence_chunks: With seq1f1b: pieces per sequence (1)
    microbatches: Microbatches per iteration; a list or range (4..128) makes a sweep
    forward: Time of a microbatch's forward on a device, or one time per stage
    backward: Time of a microbatch's backward
    backward_input: Time of the backward's input gradient
    backward_weight: Time of the backward's weight gradient
    fused: Time of a fused forward and backward, in schedules that have them (their sum)
    transfer: Latency of each message between devices (0)
    message: Size of a microbatch's message (0B)
    bandwidth: Bandwidth of a device's link, or of links between and inside nodes; a message occupies its link
        (unlimited)
    devices_per_node: Devices per node, with two bandwidths
    activations: Memory of a microbatch's activations on a device, or one size per stage (0B)
    activations_for_weight: With split backwards: the part of the activations that the input gradient leaves for the
        weight gradient, a …
    recompute: Recomputation: none or full (none)
    norm: Gradient norm that updates wait for: none, global or post-validated (none)
    norm_time: Time of the norm's all-reduce, or of each message that passes the norm on (--transfer)
    link_policy: Policy of waiting for messages: async, blocking-pair, prefetch, in-order, commit-and-wait or
        lock-step (async)
    protocol: Protocol of a send: eager needs nothing of the receiver, rendezvous a posted receive, credit one of
        --buffers …
    buffers: With prefetch or credit: messages that a channel can buffer at its receiver (1)
    sharing: Sharing of a link by concurrent messages: fair (each gets a part) or fifo (one after the other);
        without this …
    devices_per_link: With --sharing: devices that share one link out of their node (all of the node)
    slow_down: Slowdown of compute while its device communicates: 10%, or separately while it sends, receives, and
        takes part …
    slow: Slow devices: with 2:20% compute on device 2 takes 20 % longer; devices of a plan are the cluster's
    stop: Stopped devices: 2@100ms:50ms stops device 2 for 50 ms, 2@100ms for good
    memory_limit: Memory limit at which forwards wait: one size, one per device, or cluster, for the limits of the
        plan's …
    iterations: Number of iterations; with more than one the result has their steady period (1)
    barrier: Barrier between iterations: on or off
    jitter: Simulate --samples steps, each instruction up to this percentage faster or slower at random
    samples: Number of samples for --jitter or --run-time (1000)
    mtbf: Mean time between failures of one device, for the goodput of a long run
    checkpoint: With --mtbf: time to write a checkpoint
    checkpoint_every: With --mtbf: work between checkpoints (the interval with the highest goodput)
    restart: With --mtbf: time from a failure until the run continues (0)
    run_time: With --mtbf: amount of work in a run; --samples runs are simulated, and their spread is printed
    tokens: Tokens of a whole training run, whose duration is printed, and with --price its cost: 15T, 300B
    price: Price of a device kind per hour: a100=2.5/h
    prompt: With inference: tokens per prompt (1)
    cache_per_token: With inference: size of a token's keys and values, for one microbatch on a device (0B)
    prompt_tokens: With a plan for inference: tokens of each request's prompt, the same as --sequence (the plan's)
    output_tokens: With a plan for inference: tokens to generate for each request (the plan's)
    chunk_tokens: With a plan for inference: maximum number of prompt tokens computed in one pass, vLLM's …
    memory: With a plan: memory of each device, including the memory that CUDA and NCCL take (the cluster's; if that
        is …
    mem_limit: With a plan: part of each device's memory to use, including the memory that CUDA and NCCL take (100%;
        with …
    risk: With a plan: print this percentile of the step time and its interval: p50 (as predicted) p75 p80 p90 p95
        p99
    spread: With --risk: relative standard deviations of the costs: compute=5%,communication=40%,memory=2% (usual
        values …
    trace: Write the timeline for ui.perfetto.dev to FILE: as JSON, or in Perfetto's own format, a tenth as large,
        if …
    svg: Write the timeline as a drawing (SVG) to FILE
    range: With --svg: time range to draw: 10ms..50ms (all)
    nvtx: Write the timeline for the plots of the zero-bubble papers to FILE
    set: Change a property of the plan: KEY=VALUE, may be repeated; simulate and compare also take a list or range …
    replan: After --set, move layers between the stages until the step is shortest
    write_plan: With a plan: write it, as --set and --replan change it, to FILE, for check, report, export and run
    time_limit: Time limit; the command ends without a result if it takes longer
    draw: Draw the timeline (default except with --json)
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(SimulateResult, ["simulate"], [plan], [
        ("--schedule", schedule, False, False),
        ("--stages", stages, False, False),
        ("--virtual", virtual, False, False),
        ("--group", group, False, False),
        ("--in-flight", in_flight, False, False),
        ("--decode-steps", decode_steps, False, False),
        ("--warmup", warmup, False, False),
        ("--pipes", pipes, False, False),
        ("--sequence-chunks", sequence_chunks, False, False),
        ("--microbatches", microbatches, False, False),
        ("--forward", forward, False, False),
        ("--backward", backward, False, False),
        ("--backward-input", backward_input, False, False),
        ("--backward-weight", backward_weight, False, False),
        ("--fused", fused, False, False),
        ("--transfer", transfer, False, False),
        ("--message", message, False, False),
        ("--bandwidth", bandwidth, False, False),
        ("--devices-per-node", devices_per_node, False, False),
        ("--activations", activations, False, False),
        ("--activations-for-weight", activations_for_weight, False, False),
        ("--recompute", recompute, False, False),
        ("--norm", norm, False, False),
        ("--norm-time", norm_time, False, False),
        ("--link-policy", link_policy, False, False),
        ("--protocol", protocol, False, False),
        ("--buffers", buffers, False, False),
        ("--sharing", sharing, False, False),
        ("--devices-per-link", devices_per_link, False, False),
        ("--slow-down", slow_down, False, False),
        ("--slow", slow, False, False),
        ("--stop", stop, False, False),
        ("--memory-limit", memory_limit, False, False),
        ("--iterations", iterations, False, False),
        ("--barrier", barrier, False, False),
        ("--jitter", jitter, False, False),
        ("--samples", samples, False, False),
        ("--mtbf", mtbf, False, False),
        ("--checkpoint", checkpoint, False, False),
        ("--checkpoint-every", checkpoint_every, False, False),
        ("--restart", restart, False, False),
        ("--run-time", run_time, False, False),
        ("--tokens", tokens, False, False),
        ("--price", price, False, True),
        ("--prompt", prompt, False, False),
        ("--cache-per-token", cache_per_token, False, False),
        ("--prompt-tokens", prompt_tokens, False, False),
        ("--output-tokens", output_tokens, False, False),
        ("--chunk-tokens", chunk_tokens, False, False),
        ("--memory", memory, False, False),
        ("--mem-limit", mem_limit, False, False),
        ("--risk", risk, False, False),
        ("--spread", spread, False, False),
        ("--trace", trace, False, False),
        ("--svg", svg, False, False),
        ("--range", range, False, False),
        ("--nvtx", nvtx, False, False),
        ("--set", set, False, True),
        ("--replan", replan, True, False),
        ("--write-plan", write_plan, False, False),
        ("--time-limit", time_limit, False, False),
        ("--draw", draw, True, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def explain(plan: Input | None = None, *, schedule: Value | None = None, stages: Value | None = None,
            virtual: Value | None = None, group: int | None = None, in_flight: int | None = None,
            decode_steps: int | None = None, warmup: Value | None = None, pipes: int | None = None,
            sequence_chunks: int | None = None, microbatches: Value | None = None, forward: Value | None = None,
            backward: Value | None = None, backward_input: Value | None = None, backward_weight: Value | None = None,
            fused: Value | None = None, transfer: Value | None = None, message: Value | None = None,
            bandwidth: Value | None = None, devices_per_node: int | None = None, activations: Value | None = None,
            activations_for_weight: Value | None = None, recompute: Literal["none", "full"] | None = None,
            norm: Value | None = None, norm_time: Value | None = None,
            link_policy: Literal["async", "blocking-pair", "prefetch", "in-order", "commit-and-wait", "lock-step"] | None = None,
            protocol: Literal["eager", "rendezvous", "credit"] | None = None, buffers: int | None = None,
            sharing: Literal["fair", "fifo"] | None = None, devices_per_link: int | None = None,
            slow_down: Value | None = None, slow: Value | None = None, stop: Value | None = None,
            memory_limit: Value | None = None, set: Values | None = None, replan: bool = False,
            time_limit: Value | None = None, seed: int | None = None, threads: int | None = None,
            progress: Progress = True) -> ExplainResult:
    """Tells which costs limit a step, and what would shorten it.

    plan: Plan file; none with --schedule
    schedule: Schedule: a name of `stagecraft schedule list`, or a torch CSV; a list makes a sweep
    stages: With a schedule: number of pipeline devices
    virtual: With a schedule: stages per device (1, or 2 where the schedule interleaves or folds)
    group: With interleaved: consecutive microbatches per stage; with pipedream-2bw: microbatches per update (P)
    in_flight: With zb-auto or zbv-auto: microbatches that fit in each device's memory (P)
    decode_steps: With inference: further passes of each microbatch, one per token (0)
    warmup: With 1f1b, pipedream or pipedream-2bw: warm-up forwards of each device
    pipes: With chimera: number of model copies, even (2)
    sequence_chunks: With seq1f1b: pieces per sequence (1)
    microbatches: Microbatches per iteration; a list or range (4..128) makes a sweep
    forward: Time of a microbatch's forward on a device, or one time per stage
    backward: Time of a microbatch's backward
    backward_input: Time of the backward's input gradient
    backward_weight: Time of the backward's weight gradient
    fused: Time of a fused forward and backward, in schedules that have them (their sum)
    transfer: Latency of each message between devices (0)
    message: Size of a microbatch's message (0B)
    bandwidth: Bandwidth of a device's link, or of links between and inside nodes; a message occupies its link
        (unlimited)
    devices_per_node: Devices per node, with two bandwidths
    activations: Memory of a microbatch's activations on a device, or one size per stage (0B)
    activations_for_weight: With split backwards: the part of the activations that the input gradient leaves for the
        weight gradient, a …
    recompute: Recomputation: none or full (none)
    norm: Gradient norm that updates wait for: none, global or post-validated (none)
    norm_time: Time of the norm's all-reduce, or of each message that passes the norm on (--transfer)
    link_policy: Policy of waiting for messages: async, blocking-pair, prefetch, in-order, commit-and-wait or
        lock-step (async)
    protocol: Protocol of a send: eager needs nothing of the receiver, rendezvous a posted receive, credit one of
        --buffers …
    buffers: With prefetch or credit: messages that a channel can buffer at its receiver (1)
    sharing: Sharing of a link by concurrent messages: fair (each gets a part) or fifo (one after the other);
        without this …
    devices_per_link: With --sharing: devices that share one link out of their node (all of the node)
    slow_down: Slowdown of compute while its device communicates: 10%, or separately while it sends, receives, and
        takes part …
    slow: Slow devices: with 2:20% compute on device 2 takes 20 % longer; devices of a plan are the cluster's
    stop: Stopped devices: 2@100ms:50ms stops device 2 for 50 ms, 2@100ms for good
    memory_limit: Memory limit at which forwards wait: one size, one per device, or cluster, for the limits of the
        plan's …
    set: Change a property of the plan: KEY=VALUE, may be repeated; simulate and compare also take a list or range …
    replan: After --set, move layers between the stages until the step is shortest
    time_limit: Time limit; the command ends without a result if it takes longer
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ExplainResult, ["explain"], [plan], [
        ("--schedule", schedule, False, False),
        ("--stages", stages, False, False),
        ("--virtual", virtual, False, False),
        ("--group", group, False, False),
        ("--in-flight", in_flight, False, False),
        ("--decode-steps", decode_steps, False, False),
        ("--warmup", warmup, False, False),
        ("--pipes", pipes, False, False),
        ("--sequence-chunks", sequence_chunks, False, False),
        ("--microbatches", microbatches, False, False),
        ("--forward", forward, False, False),
        ("--backward", backward, False, False),
        ("--backward-input", backward_input, False, False),
        ("--backward-weight", backward_weight, False, False),
        ("--fused", fused, False, False),
        ("--transfer", transfer, False, False),
        ("--message", message, False, False),
        ("--bandwidth", bandwidth, False, False),
        ("--devices-per-node", devices_per_node, False, False),
        ("--activations", activations, False, False),
        ("--activations-for-weight", activations_for_weight, False, False),
        ("--recompute", recompute, False, False),
        ("--norm", norm, False, False),
        ("--norm-time", norm_time, False, False),
        ("--link-policy", link_policy, False, False),
        ("--protocol", protocol, False, False),
        ("--buffers", buffers, False, False),
        ("--sharing", sharing, False, False),
        ("--devices-per-link", devices_per_link, False, False),
        ("--slow-down", slow_down, False, False),
        ("--slow", slow, False, False),
        ("--stop", stop, False, False),
        ("--memory-limit", memory_limit, False, False),
        ("--set", set, False, True),
        ("--replan", replan, True, False),
        ("--time-limit", time_limit, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def advise(input: Input, *, for_: Value | None = None, keep: Value | None = None, top: int | None = None,
           depth: int | None = None, time_limit: Value | None = None, memory: Value | None = None,
           mem_limit: Value | None = None, model: Input | None = None, cluster: Input | None = None,
           batch: int | None = None, gbs: int | None = None, microbatch: int | None = None, sequence: int | None = None,
           precision: Value | None = None, kernels: Value | None = None, dispatcher: Value | None = None,
           cuda_graphs: Value | None = None, fp8_recipe: Value | None = None, fused_loss: Value | None = None,
           router_fusion: Value | None = None, overlap: Value | None = None, recompute_modules: Value | None = None,
           optimizer: Value | None = None, sharding: Value | None = None, gradient_bucket: Value | None = None,
           schedule: Value | None = None, replicas: Value | None = None, set: Value | None = None,
           seed: int | None = None, threads: int | None = None, progress: Progress = True) -> AdviseResult:
    """Tells what to change in a plan or launch script, in its framework's words.

    input: Plan file, or a launch script or other plan that `import` reads
    for_: Framework whose flags are printed, and which must be able to run the advised plans (the script's, or the
        one …
    keep: Properties that must stay: keys of simulate's --set, such as tp,pp, or the framework's own flags, such as
        …
    top: Number of single edits, and of pairs, to show (8)
    depth: Maximum number of edits in the last row, which combines several; 2 leaves the row out (4)
    time_limit: Time limit; the best edits so far are the result
    memory: Plan: memory of each device, including the memory that CUDA and NCCL take (the cluster's; if that is …
    mem_limit: Plan: part of each device's memory to use, including the memory that CUDA and NCCL take (100%; with
        requests, …
    model: Model of the script
    cluster: Cluster of the script
    batch: With a plan, if the file leaves it open: samples per step
    gbs: With a plan, if the file leaves it open: samples per step
    microbatch: With a plan, if the file leaves it open: samples per microbatch, over all replicas
    sequence: With a plan, if the file leaves it open: tokens per sample, 32k for 32768
    precision: With a plan, if the file leaves it open: precision fp32, bf16, fp16, fp8, fp8+attention or fp64
    kernels: With a plan, if the file leaves it open: kernels of layers whose costs are estimated, megatron or torch
    dispatcher: With a plan, if the file leaves it open: dispatcher of tokens to experts: alltoall, deepep or
        hybridep
    cuda_graphs: With a plan, if the file leaves it open: kernels that the host launches together: none, layers or
        step
    fp8_recipe: With a plan, if the file leaves it open: scaling recipe of fp8: delayed, tensorwise, blockwise or
        mxfp8
    fused_loss: With a plan, if the file leaves it open: loss kernel of Megatron-LM: none, native or te
    router_fusion: With a plan, if the file leaves it open: Megatron-LM's choice of experts in three kernels: on or
        off
    overlap: With a plan, if the file leaves it open: messages of peers that overlap with a layer's kernels: none,
        tensor, …
    recompute_modules: With a plan, if the file leaves it open: modules of Megatron-LM's layers that selective
        recomputation repeats, …
    optimizer: With a plan, if the file leaves it open: optimizer adamw or sgd
    sharding: With a plan, if the file leaves it open: sharding none, zero1, zero2 or zero3
    gradient_bucket: With a plan, if the file leaves it open: bucket size of gradient sums that overlap the last
        backward
    schedule: With a plan, if the file leaves it open: schedule, a name of `schedule list`
    replicas: With a plan, if the file leaves it open: replicas of each stage, such as 3,1
    set: With a launch script, a value that only its cluster knows: of a variable, of an argument (1=…), or of what
        a …
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(AdviseResult, ["advise"], [input], [
        ("--for", for_, False, False),
        ("--keep", keep, False, False),
        ("--top", top, False, False),
        ("--depth", depth, False, False),
        ("--time-limit", time_limit, False, False),
        ("--memory", memory, False, False),
        ("--mem-limit", mem_limit, False, False),
        ("--model", model, False, False),
        ("--cluster", cluster, False, False),
        ("--batch", batch, False, False),
        ("--gbs", gbs, False, False),
        ("--microbatch", microbatch, False, False),
        ("--sequence", sequence, False, False),
        ("--precision", precision, False, False),
        ("--kernels", kernels, False, False),
        ("--dispatcher", dispatcher, False, False),
        ("--cuda-graphs", cuda_graphs, False, False),
        ("--fp8-recipe", fp8_recipe, False, False),
        ("--fused-loss", fused_loss, False, False),
        ("--router-fusion", router_fusion, False, False),
        ("--overlap", overlap, False, False),
        ("--recompute-modules", recompute_modules, False, False),
        ("--optimizer", optimizer, False, False),
        ("--sharding", sharding, False, False),
        ("--gradient-bucket", gradient_bucket, False, False),
        ("--schedule", schedule, False, False),
        ("--replicas", replicas, False, False),
        ("--set", set, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def compare(*files: Input, schedule: Value | None = None, stages: Value | None = None, virtual: Value | None = None,
            group: int | None = None, in_flight: int | None = None, decode_steps: int | None = None,
            warmup: Value | None = None, pipes: int | None = None, sequence_chunks: int | None = None,
            microbatches: Value | None = None, forward: Value | None = None, backward: Value | None = None,
            backward_input: Value | None = None, backward_weight: Value | None = None, fused: Value | None = None,
            transfer: Value | None = None, message: Value | None = None, bandwidth: Value | None = None,
            devices_per_node: int | None = None, activations: Value | None = None,
            activations_for_weight: Value | None = None, recompute: Literal["none", "full"] | None = None,
            norm: Value | None = None, norm_time: Value | None = None,
            link_policy: Literal["async", "blocking-pair", "prefetch", "in-order", "commit-and-wait", "lock-step"] | None = None,
            protocol: Literal["eager", "rendezvous", "credit"] | None = None, buffers: int | None = None,
            sharing: Literal["fair", "fifo"] | None = None, devices_per_link: int | None = None,
            slow_down: Value | None = None, slow: Value | None = None, stop: Value | None = None,
            memory_limit: Value | None = None, memory_in_flight: int | None = None, prompt_tokens: int | None = None,
            output_tokens: int | None = None, chunk_tokens: int | None = None, memory: Value | None = None,
            mem_limit: Value | None = None, risk: Value | None = None, spread: Value | None = None,
            set: Values | None = None, replan: bool = False, time_limit: Value | None = None, seed: int | None = None,
            threads: int | None = None, progress: Progress = True) -> CompareResult:
    """Predicted against measured, or plans or schedules against each other.

    files: A plan and a trace, or several plans; none with --schedule A,B,...
    schedule: Schedule: a name of `stagecraft schedule list`, or a torch CSV; a list makes a sweep
    stages: With a schedule: number of pipeline devices
    virtual: With a schedule: stages per device (1, or 2 where the schedule interleaves or folds)
    group: With interleaved: consecutive microbatches per stage; with pipedream-2bw: microbatches per update (P)
    in_flight: With zb-auto or zbv-auto: microbatches that fit in each device's memory (P)
    decode_steps: With inference: further passes of each microbatch, one per token (0)
    warmup: With 1f1b, pipedream or pipedream-2bw: warm-up forwards of each device
    pipes: With chimera: number of model copies, even (2)
    sequence_chunks: With seq1f1b: pieces per sequence (1)
    microbatches: Microbatches per iteration; a list or range (4..128) makes a sweep
    forward: Time of a microbatch's forward on a device, or one time per stage
    backward: Time of a microbatch's backward
    backward_input: Time of the backward's input gradient
    backward_weight: Time of the backward's weight gradient
    fused: Time of a fused forward and backward, in schedules that have them (their sum)
    transfer: Latency of each message between devices (0)
    message: Size of a microbatch's message (0B)
    bandwidth: Bandwidth of a device's link, or of links between and inside nodes; a message occupies its link
        (unlimited)
    devices_per_node: Devices per node, with two bandwidths
    activations: Memory of a microbatch's activations on a device, or one size per stage (0B)
    activations_for_weight: With split backwards: the part of the activations that the input gradient leaves for the
        weight gradient, a …
    recompute: Recomputation: none or full (none)
    norm: Gradient norm that updates wait for: none, global or post-validated (none)
    norm_time: Time of the norm's all-reduce, or of each message that passes the norm on (--transfer)
    link_policy: Policy of waiting for messages: async, blocking-pair, prefetch, in-order, commit-and-wait or
        lock-step (async)
    protocol: Protocol of a send: eager needs nothing of the receiver, rendezvous a posted receive, credit one of
        --buffers …
    buffers: With prefetch or credit: messages that a channel can buffer at its receiver (1)
    sharing: Sharing of a link by concurrent messages: fair (each gets a part) or fifo (one after the other);
        without this …
    devices_per_link: With --sharing: devices that share one link out of their node (all of the node)
    slow_down: Slowdown of compute while its device communicates: 10%, or separately while it sends, receives, and
        takes part …
    slow: Slow devices: with 2:20% compute on device 2 takes 20 % longer; devices of a plan are the cluster's
    stop: Stopped devices: 2@100ms:50ms stops device 2 for 50 ms, 2@100ms for good
    memory_limit: Memory limit at which forwards wait: one size, one per device, or cluster, for the limits of the
        plan's …
    memory_in_flight: With schedules: microbatches that fit in each device's memory (P)
    prompt_tokens: With plans for inference: tokens of each request's prompt, the same as --sequence (the plan's)
    output_tokens: With plans for inference: tokens to generate for each request (the plan's)
    chunk_tokens: With plans for inference: maximum number of prompt tokens computed in one pass, vLLM's …
    memory: With several plans: memory of each device, including the memory that CUDA and NCCL take (the cluster's;
        if …
    mem_limit: With several plans: part of each device's memory to use, including the memory that CUDA and NCCL take
        (100%; …
    risk: With a plan and a trace: predict this percentile of the step, and test whether the measured step is within
        the …
    spread: With --risk: relative standard deviations of the costs: compute=5%,communication=40%,memory=2% (usual
        values …
    set: Change a property of the plan: KEY=VALUE, may be repeated; simulate and compare also take a list or range …
    replan: After --set, move layers between the stages until the step is shortest
    time_limit: Time limit; the command ends without a result if it takes longer
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(CompareResult, ["compare"], [*files], [
        ("--schedule", schedule, False, False),
        ("--stages", stages, False, False),
        ("--virtual", virtual, False, False),
        ("--group", group, False, False),
        ("--in-flight", in_flight, False, False),
        ("--decode-steps", decode_steps, False, False),
        ("--warmup", warmup, False, False),
        ("--pipes", pipes, False, False),
        ("--sequence-chunks", sequence_chunks, False, False),
        ("--microbatches", microbatches, False, False),
        ("--forward", forward, False, False),
        ("--backward", backward, False, False),
        ("--backward-input", backward_input, False, False),
        ("--backward-weight", backward_weight, False, False),
        ("--fused", fused, False, False),
        ("--transfer", transfer, False, False),
        ("--message", message, False, False),
        ("--bandwidth", bandwidth, False, False),
        ("--devices-per-node", devices_per_node, False, False),
        ("--activations", activations, False, False),
        ("--activations-for-weight", activations_for_weight, False, False),
        ("--recompute", recompute, False, False),
        ("--norm", norm, False, False),
        ("--norm-time", norm_time, False, False),
        ("--link-policy", link_policy, False, False),
        ("--protocol", protocol, False, False),
        ("--buffers", buffers, False, False),
        ("--sharing", sharing, False, False),
        ("--devices-per-link", devices_per_link, False, False),
        ("--slow-down", slow_down, False, False),
        ("--slow", slow, False, False),
        ("--stop", stop, False, False),
        ("--memory-limit", memory_limit, False, False),
        ("--memory-in-flight", memory_in_flight, False, False),
        ("--prompt-tokens", prompt_tokens, False, False),
        ("--output-tokens", output_tokens, False, False),
        ("--chunk-tokens", chunk_tokens, False, False),
        ("--memory", memory, False, False),
        ("--mem-limit", mem_limit, False, False),
        ("--risk", risk, False, False),
        ("--spread", spread, False, False),
        ("--set", set, False, True),
        ("--replan", replan, True, False),
        ("--time-limit", time_limit, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def report(plan: Input, trace: Input | None = None, *, against: Input | None = None, time_limit: Value | None = None,
           prompt_tokens: int | None = None, output_tokens: int | None = None, chunk_tokens: int | None = None,
           seed: int | None = None, threads: int | None = None, output: PathLike | None = None,
           progress: Progress = True) -> ReportResult:
    """A page about a plan that opens offline and simulates in the browser.

    plan: Plan file; - is standard input
    trace: Trace of a run of the plan, as `stagecraft run --trace` writes it: the page shows the prediction over the
        …
    against: Another plan to compare this one with
    time_limit: Time limit; the command ends without a result if it takes longer
    prompt_tokens: Of a plan for inference: tokens of each request's prompt, the same as --sequence (the plan's)
    output_tokens: Of a plan for inference: tokens to generate for each request (the plan's)
    chunk_tokens: Of a plan for inference: maximum number of prompt tokens computed in one pass, vLLM's
        --max-num-batched-tokens …
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    output: Where to keep what is written (nowhere)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ReportResult, ["report"], [plan, trace], [
        ("--against", against, False, False),
        ("--time-limit", time_limit, False, False),
        ("--prompt-tokens", prompt_tokens, False, False),
        ("--output-tokens", output_tokens, False, False),
        ("--chunk-tokens", chunk_tokens, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress, output, "page.html")


def run(plan: Input, *, steps: int | None = None, data: PathLike | None = None, weights: PathLike | None = None,
        save_weights: PathLike | None = None, no_weights: bool = False, backend: Value | None = None,
        transport: Value | None = None, processes: int | None = None, hosts: Value | None = None, verify: bool = False,
        checkpoint: PathLike | None = None, every: int | None = None, keep: int | None = None,
        resume: PathLike | None = None, trace: PathLike | None = None, svg: PathLike | None = None,
        range: Value | None = None, nvtx: PathLike | None = None, trace_steps: int | None = None,
        graphs: Literal["on", "off", "auto"] | None = None, partitions: bool = False, gpus: Value | None = None,
        deterministic: Literal["on", "off"] | None = None, gpu_ranges: bool = False,
        flight_records: PathLike | None = None, deadline: Value | None = None,
        check_finite: Literal["on", "off"] | None = None, restarts: int | None = None, supervised: Value | None = None,
        attempt: Value | None = None, learning_rate: float | None = None,
        sums: Literal["ordered", "nccl"] | None = None, clip: float | None = None, loss_rows: int | None = None,
        seed: int | None = None, threads: int | None = None, progress: Progress = True) -> RunResult:
    """Carries out a plan: trains, measures, verifies.

    plan: Plan file
    steps: Number of optimizer steps (1)
    data: Training data: text (a token per byte) or a .bin of uint16 or uint32 tokens; for networks of images,
        labels …
    weights: Initial weights: safetensors with Hugging Face's names; for several files their folder or index
    save_weights: Write the final weights as safetensors; into a folder (DIR/) in parts of 5 GB
    no_weights: Do not collect the final weights: their copies are not compared, and --json has no hash of them
    backend: Backend: cpu, cuda, or sleep, where every instruction sleeps for its predicted time (cpu; cuda with …
    transport: Transport: threads runs every rank as a thread of this process; mpi starts a process per rank by
        mpirun; tcp …
    processes: Number of processes to start with mpi, tcp or nccl (one per device of the plan)
    hosts: Hosts to start the processes on, as for mpirun --host: a:2,b:2 (this machine)
    verify: Repeat the training on one device and compare losses and weights bit for bit (to rounding with tensor …
    checkpoint: Folder for checkpoints, written when the run ends or is interrupted, and after every --every steps
    every: Number of steps between checkpoints
    keep: Number of checkpoints to keep, newest first (2)
    resume: Checkpoint to resume, or a folder of them, for the latest; any plan may have written it; --steps counts
        its …
    trace: Write the timeline for ui.perfetto.dev to FILE: as JSON, or in Perfetto's own format, a tenth as large,
        if …
    svg: Write the timeline as a drawing (SVG) to FILE
    range: With --svg: time range to draw: 10ms..50ms (all)
    nvtx: Write the timeline for the plots of the zero-bubble papers to FILE
    trace_steps: Number of last steps in --trace, for calibrate (only the step with the median time)
    graphs: With --backend cuda: launch each instruction as one CUDA graph: on, off, or auto, which falls back to
        single …
    partitions: With --backend cuda: give each rank that shares a GPU its own part of the multiprocessors, so that
        ranks wait …
    gpus: With --backend cuda: GPUs of ranks 0, 1, …, repeated if there are more ranks (all)
    deterministic: With --backend cuda: on, or off, which lets attention sum gradients in any order (on)
    gpu_ranges: With --backend cuda: name each instruction for profilers such as Nsight Systems
    flight_records: Folder for the ranks' flight records, which `diagnose` reads (a temporary folder, kept when the
        run fails)
    deadline: Time limit of an instruction; the run ends if one exceeds it and 20 times its predicted time (30s)
    check_finite: End the run at the first NaN or infinity: on or off (on)
    restarts: Maximum number of restarts, from the last checkpoint, when the run is killed or stalls
    supervised:
    attempt:
    learning_rate: Learning rate (AdamW 0.001, SGD 0.01)
    sums: Gradient sums with --transport nccl: ordered, with the bits of the other transports, or nccl, by NCCL's …
    clip: Maximum norm of all gradients; larger gradients are scaled down (unlimited)
    loss_rows: Maximum number of tokens whose logits a language model's head computes at once; logits are computed
        twice …
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(RunResult, ["run"], [plan], [
        ("--steps", steps, False, False),
        ("--data", data, False, False),
        ("--weights", weights, False, False),
        ("--save-weights", save_weights, False, False),
        ("--no-weights", no_weights, True, False),
        ("--backend", backend, False, False),
        ("--transport", transport, False, False),
        ("--processes", processes, False, False),
        ("--hosts", hosts, False, False),
        ("--verify", verify, True, False),
        ("--checkpoint", checkpoint, False, False),
        ("--every", every, False, False),
        ("--keep", keep, False, False),
        ("--resume", resume, False, False),
        ("--trace", trace, False, False),
        ("--svg", svg, False, False),
        ("--range", range, False, False),
        ("--nvtx", nvtx, False, False),
        ("--trace-steps", trace_steps, False, False),
        ("--graphs", graphs, False, False),
        ("--partitions", partitions, True, False),
        ("--gpus", gpus, False, False),
        ("--deterministic", deterministic, False, False),
        ("--gpu-ranges", gpu_ranges, True, False),
        ("--flight-records", flight_records, False, False),
        ("--deadline", deadline, False, False),
        ("--check-finite", check_finite, False, False),
        ("--restarts", restarts, False, False),
        ("--supervised", supervised, False, False),
        ("--attempt", attempt, False, False),
        ("--learning-rate", learning_rate, False, False),
        ("--sums", sums, False, False),
        ("--clip", clip, False, False),
        ("--loss-rows", loss_rows, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def profile(model: Input, *, device: Value | None = None, gpus: Value | None = None, partitions: int | None = None,
            transport: Value | None = None, processes: int | None = None, hosts: Value | None = None,
            sums: Literal["ordered", "nccl"] | None = None, microbatch: Value | None = None,
            tensor_parallel: Value | None = None, sequence: int | None = None,
            precision: Literal["fp32", "fp64", "bf16"] | None = None, loss_rows: int | None = None,
            repeats: int | None = None, seed: int | None = None, threads: int | None = None,
            output: PathLike | None = None, progress: Progress = True) -> ProfileResult:
    """Measures what each layer of a model costs on this machine.

    model: Built-in name or file of a model; links: measure copies, messages and sums, and with -o write a cluster
        with …
    device: Device to measure: cpu, or cuda:N for GPU N (cpu)
    gpus: GPUs of the tensor-parallel peers, one each (all, from DEVICE on)
    partitions: Number of equal parts of each GPU; one part is measured (1)
    transport: Transport: threads runs every rank as a thread of this process; mpi starts a process per rank by
        mpirun; tcp …
    processes: Number of processes to start with mpi, tcp or nccl (one per device of the plan)
    hosts: Hosts to start the processes on, as for mpirun --host: a:2,b:2 (this machine)
    sums: With links: sums to measure: ordered, as in run, or nccl, by NCCL's collectives (nccl with --transport
        nccl, …
    microbatch: Samples per microbatch; a list measures each size (1)
    tensor_parallel: Tensor-parallel degree to measure; a list measures each (1). If --threads, GPUs or parts of one
        suffice, all …
    sequence: Tokens per sample, 32k for 32768 (the model's)
    precision: Precision: fp32, fp64 (CPUs) or bf16 (GPUs) (fp32)
    loss_rows: Maximum number of tokens whose logits the head computes at once, as run --loss-rows
    repeats: Number of measurements per pass, after the warm-up (9)
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    output: Where to keep what is written (nowhere)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ProfileResult, ["profile"], [model], [
        ("--device", device, False, False),
        ("--gpus", gpus, False, False),
        ("--partitions", partitions, False, False),
        ("--transport", transport, False, False),
        ("--processes", processes, False, False),
        ("--hosts", hosts, False, False),
        ("--sums", sums, False, False),
        ("--microbatch", microbatch, False, False),
        ("--tensor-parallel", tensor_parallel, False, False),
        ("--sequence", sequence, False, False),
        ("--precision", precision, False, False),
        ("--loss-rows", loss_rows, False, False),
        ("--repeats", repeats, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress, output, "profile.json")


def calibrate(*measured: Input, cluster: PathLike | None = None, plan: PathLike | None = None,
              device: Value | None = None, seed: int | None = None, threads: int | None = None,
              output: PathLike | None = None, progress: Progress = True) -> ProfileResult:
    """Fits the cost model's constants to measurements.

    measured: Files or folders with measured sets, tables (CSV) or logs of runs (-o writes the constants), or a plan
        and a …
    cluster: With a trace: write the cluster with its measured links to FILE
    plan: With a trace: write the plan with the new profile and prediction to FILE; needs -o
    device: Device kind of logs and tables that do not name it, such as h100
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    output: Where to keep what is written (nowhere)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ProfileResult, ["calibrate"], [*measured], [
        ("--cluster", cluster, False, False),
        ("--plan", plan, False, False),
        ("--device", device, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress, output, "fitted.json")


def ledger(*, sets: Values | None = None, device: Value | None = None, constants: PathLike | None = None,
           shipped: bool = False, plot: PathLike | None = None, seed: int | None = None, threads: int | None = None,
           progress: Progress = True) -> Result:
    """Compares predictions with public measurements.

    sets: Folder or files with measured sets; -o writes the page
    device: Device kind of logs and tables that do not name it, such as h100
    constants: File with constants from `stagecraft calibrate`, instead of fitting them
    shipped: Predict with the shipped constants, which plans use without measurements; fit nothing
    plot: Write a plot (SVG) of predicted over measured to FILE
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(Result, ["ledger"], [], [
        ("--sets", sets, False, True),
        ("--device", device, False, False),
        ("--constants", constants, False, False),
        ("--shipped", shipped, True, False),
        ("--plot", plot, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def import_(format: Input, file: Input, *, device: Value | None = None, model: Input | None = None,
            cluster: Input | None = None, batch: int | None = None, gbs: int | None = None,
            microbatch: int | None = None, sequence: int | None = None, precision: Value | None = None,
            kernels: Value | None = None, dispatcher: Value | None = None, cuda_graphs: Value | None = None,
            fp8_recipe: Value | None = None, fused_loss: Value | None = None, router_fusion: Value | None = None,
            overlap: Value | None = None, recompute_modules: Value | None = None, optimizer: Value | None = None,
            sharding: Value | None = None, gradient_bucket: Value | None = None, schedule: Value | None = None,
            replicas: Value | None = None, set: Value | None = None, seed: int | None = None,
            threads: int | None = None, output: PathLike | None = None, progress: Progress = True) -> ImportResult:
    """Converts another system's model, profile or plan.

    format: huggingface: config.json of a model of one of the known families (stagecraft model list): layers and …
    file: File to import; - is standard input
    device: With clusters: device kind, if the file does not name it
    model: With a plan: model of the plan; optional if FILE has it, too
    cluster: With a plan: cluster of the plan; optional if MODEL's file names devices
    batch: With a plan, if the file leaves it open: samples per step
    gbs: With a plan, if the file leaves it open: samples per step
    microbatch: With a plan, if the file leaves it open: samples per microbatch, over all replicas
    sequence: With a plan, if the file leaves it open: tokens per sample, 32k for 32768
    precision: With a plan, if the file leaves it open: precision fp32, bf16, fp16, fp8, fp8+attention or fp64
    kernels: With a plan, if the file leaves it open: kernels of layers whose costs are estimated, megatron or torch
    dispatcher: With a plan, if the file leaves it open: dispatcher of tokens to experts: alltoall, deepep or
        hybridep
    cuda_graphs: With a plan, if the file leaves it open: kernels that the host launches together: none, layers or
        step
    fp8_recipe: With a plan, if the file leaves it open: scaling recipe of fp8: delayed, tensorwise, blockwise or
        mxfp8
    fused_loss: With a plan, if the file leaves it open: loss kernel of Megatron-LM: none, native or te
    router_fusion: With a plan, if the file leaves it open: Megatron-LM's choice of experts in three kernels: on or
        off
    overlap: With a plan, if the file leaves it open: messages of peers that overlap with a layer's kernels: none,
        tensor, …
    recompute_modules: With a plan, if the file leaves it open: modules of Megatron-LM's layers that selective
        recomputation repeats, …
    optimizer: With a plan, if the file leaves it open: optimizer adamw or sgd
    sharding: With a plan, if the file leaves it open: sharding none, zero1, zero2 or zero3
    gradient_bucket: With a plan, if the file leaves it open: bucket size of gradient sums that overlap the last
        backward
    schedule: With a plan, if the file leaves it open: schedule, a name of `schedule list`
    replicas: With a plan, if the file leaves it open: replicas of each stage, such as 3,1
    set: With a launch script, a value that only its cluster knows: of a variable, of an argument (1=…), or of what
        a …
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    output: Where to keep what is written (nowhere)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ImportResult, ["import"], [format, file], [
        ("--device", device, False, False),
        ("--model", model, False, False),
        ("--cluster", cluster, False, False),
        ("--batch", batch, False, False),
        ("--gbs", gbs, False, False),
        ("--microbatch", microbatch, False, False),
        ("--sequence", sequence, False, False),
        ("--precision", precision, False, False),
        ("--kernels", kernels, False, False),
        ("--dispatcher", dispatcher, False, False),
        ("--cuda-graphs", cuda_graphs, False, False),
        ("--fp8-recipe", fp8_recipe, False, False),
        ("--fused-loss", fused_loss, False, False),
        ("--router-fusion", router_fusion, False, False),
        ("--overlap", overlap, False, False),
        ("--recompute-modules", recompute_modules, False, False),
        ("--optimizer", optimizer, False, False),
        ("--sharding", sharding, False, False),
        ("--gradient-bucket", gradient_bucket, False, False),
        ("--schedule", schedule, False, False),
        ("--replicas", replicas, False, False),
        ("--set", set, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress, output, "imported.json")


def export(format: Input, plan: Input, *, seed: int | None = None, threads: int | None = None,
           output: PathLike | None = None, progress: Progress = True) -> TextResult:
    """Writes a plan in another system's format.

    format: megatron: launch script of Megatron-LM; a layout where simple flags do not do; megatron-bridge:
        overrides for …
    plan: Plan file; - is standard input
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    output: Where to keep what is written (nowhere)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(TextResult, ["export"], [format, plan], [
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress, output, "exported")


def diagnose(folder: Input, *, seed: int | None = None, threads: int | None = None,
             progress: Progress = True) -> Result:
    """Tells which rank waits for which in a run that hangs, or how a run ended.

    folder: Folder with the flight records of a run that ended or still runs
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(Result, ["diagnose"], [folder], [
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def models(*, progress: Progress = True) -> ModelsResult:
    """The built-in models.

    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ModelsResult, ["model", "list"], [], [], progress)


def model(model: Input, *, sequence: int | None = None, flops: bool = False, without_prediction: bool = False,
          batch: int | None = None, seed: int | None = None, threads: int | None = None,
          progress: Progress = True) -> ModelResult:
    """A model, layer by layer.

    model: Built-in name or file of a model
    sequence: Tokens per sample, 32k for 32768 (the model's)
    flops: Count the multiply-adds and operations of the forward pass
    without_prediction: Leave out modules for multi-token prediction; -o writes the model without them
    batch: Number of samples for --flops
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ModelResult, ["model", "show"], [model], [
        ("--sequence", sequence, False, False),
        ("--flops", flops, True, False),
        ("--without-prediction", without_prediction, True, False),
        ("--batch", batch, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def clusters(*, progress: Progress = True) -> ClustersResult:
    """The built-in kinds of devices, and clusters.

    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(ClustersResult, ["cluster", "list"], [], [], progress)


def cluster(cluster: Input, *, constants: PathLike | None = None, collectives: Value | None = None,
            seed: int | None = None, threads: int | None = None, output: PathLike | None = None,
            progress: Progress = True) -> TextResult:
    """A cluster; `text` is its file.

    cluster: Name, expression or file of a cluster
    constants: With show: constants fitted by `stagecraft calibrate`, for the cluster's devices; -o writes a cluster
        whose …
    collectives: With show: print the times of collectives of these sizes over all devices, by the fastest
        algorithm: …
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    output: Where to keep what is written (nowhere)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(TextResult, ["cluster", "show"], [cluster], [
        ("--constants", constants, False, False),
        ("--collectives", collectives, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress, output, "cluster.json")


def schedules(*, progress: Progress = True) -> SchedulesResult:
    """The schedules.

    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(SchedulesResult, ["schedule", "list"], [], [], progress)


def schedule(name: Input, *, format: Value | None = None, stages: Value | None = None, virtual: Value | None = None,
             group: int | None = None, in_flight: int | None = None, decode_steps: int | None = None,
             warmup: Value | None = None, pipes: int | None = None, sequence_chunks: int | None = None,
             microbatches: int | None = None, time_limit: Value | None = None, seed: int | None = None,
             threads: int | None = None, output: PathLike | None = None, progress: Progress = True) -> TextResult:
    """The order of one schedule; `text` is it in the format.

    name: Name or alias of a schedule, or a torch CSV
    format: With show: output format: unicode, ascii, torch (compute only), torch-full (with communication, as torch
        2.15 …
    stages: With a schedule: number of pipeline devices
    virtual: With a schedule: stages per device (1, or 2 where the schedule interleaves or folds)
    group: With interleaved: consecutive microbatches per stage; with pipedream-2bw: microbatches per update (P)
    in_flight: With zb-auto or zbv-auto: microbatches that fit in each device's memory (P)
    decode_steps: With inference: further passes of each microbatch, one per token (0)
    warmup: With 1f1b, pipedream or pipedream-2bw: warm-up forwards of each device
    pipes: With chimera: number of model copies, even (2)
    sequence_chunks: With seq1f1b: pieces per sequence (1)
    microbatches: Microbatches per iteration (8)
    time_limit: Time limit; the command ends without a result if it takes longer
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    output: Where to keep what is written (nowhere)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(TextResult, ["schedule", "show"], [name], [
        ("--format", format, False, False),
        ("--stages", stages, False, False),
        ("--virtual", virtual, False, False),
        ("--group", group, False, False),
        ("--in-flight", in_flight, False, False),
        ("--decode-steps", decode_steps, False, False),
        ("--warmup", warmup, False, False),
        ("--pipes", pipes, False, False),
        ("--sequence-chunks", sequence_chunks, False, False),
        ("--microbatches", microbatches, False, False),
        ("--time-limit", time_limit, False, False),
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress, output, "schedule")


def doctor(*, seed: int | None = None, threads: int | None = None, progress: Progress = True) -> Result:
    """What the program was built with, and what the machine lacks.

    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(Result, ["doctor"], [], [
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


def schema(schema: Input | None = None, *, seed: int | None = None, threads: int | None = None,
           progress: Progress = True) -> Result:
    """The JSON Schema of one of the files, or their list.

    schema: Name of a schema, or list (list)
    seed: Random seed (1)
    threads: Maximum number of threads (all cores)
    progress: Whether progress goes to standard error, or a function that gets its lines
    """
    return run_verb(Result, ["schema"], [schema], [
        ("--seed", seed, False, False),
        ("--threads", threads, False, False),
    ], progress)


__all__ = ["plan", "check", "simulate", "explain", "advise", "compare", "report", "run", "profile", "calibrate",
           "ledger", "import_", "export", "diagnose", "models", "model", "clusters", "cluster", "schedules", "schedule",
           "doctor", "schema"]
