// All verbs. To add one: write commands/NAME.cpp, declare its function here, add a row.

#pragma once

#include <array>

#include "tools/command.hpp"

namespace stagecraft {

Action declare_advise(CLI::App& app);
Action declare_calibrate(CLI::App& app);
Action declare_check(CLI::App& app);
Action declare_cluster(CLI::App& app);
Action declare_compare(CLI::App& app);
Action declare_completion(CLI::App& app);
Action declare_diagnose(CLI::App& app);
Action declare_doctor(CLI::App& app);
Action declare_explain(CLI::App& app);
Action declare_export(CLI::App& app);
Action declare_import(CLI::App& app);
Action declare_ledger(CLI::App& app);
Action declare_model(CLI::App& app);
Action declare_plan(CLI::App& app);
Action declare_profile(CLI::App& app);
Action declare_report(CLI::App& app);
Action declare_run(CLI::App& app);
Action declare_schedule(CLI::App& app);
Action declare_schema(CLI::App& app);
Action declare_simulate(CLI::App& app);

inline constexpr std::array commands{
    Command{
        "import", "convert another system's model, profile or plan",
        "stagecraft import pipedream graph.txt -o vgg16.profile.json\n"
        "stagecraft import huggingface config.json -o llama.model.json\n"
        "stagecraft import megatron train.sh --model config.json --cluster 4x8xh100 -o plan.json",
        declare_import, true},
    Command{"profile", "measure what each layer of a model costs on this machine",
            "stagecraft profile tiny-gpt --device cpu --microbatch 1,2,4 -o tiny.profile.json",
            declare_profile, true},
    Command{"plan", "find the best stages, replicas and schedule for a model on a cluster",
            "stagecraft plan tiny.profile.json 2xcpu --batch 16 -o plan.json\n"
            "stagecraft plan gpt2-1558m 8xa100 --batch 64 --schedule 1f1b,gpipe --json",
            declare_plan, true},
    Command{"check", "prove a plan or schedule safe, or give the reason why it is not",
            "stagecraft check plan.json\nstagecraft check 1f1b --stages 4 --microbatches 8\n"
            "stagecraft check schedule.csv",
            declare_check},
    Command{"simulate", "predict a plan's or schedule's timeline, bubble and memory",
            "stagecraft simulate plan.json\n"
            "stagecraft simulate plan.json --set tp=1,2,4 --set link0=50%\n"
            "stagecraft simulate --schedule 1f1b --stages 4 --microbatches 8 --forward 10ms "
            "--backward 20ms\n"
            "stagecraft simulate --schedule gpipe --stages 4 --microbatches 4..64 --forward 1ms "
            "--backward 2ms",
            declare_simulate},
    Command{"explain",
            "explain which costs limit a plan's or schedule's step, and what would shorten it",
            "stagecraft explain plan.json\n"
            "stagecraft explain --schedule 1f1b --stages 4 --microbatches 8 --forward 10ms "
            "--backward 20ms --transfer 1ms",
            declare_explain},
    Command{"advise", "say what to change in a plan or launch script, in its framework's own words",
            "stagecraft advise plan.json\n"
            "stagecraft advise plan.json --keep tp,pp --for megatron\n"
            "stagecraft advise train.sh --model config.json --cluster 4x8xh100",
            declare_advise, true},
    Command{"run", "execute a plan: train, measure, verify",
            "stagecraft run plan.json --steps 100 --data book.txt --verify\n"
            "stagecraft run plan.json --steps 5 --backend sleep --trace run.trace.json\n"
            "mpirun -n 4 stagecraft run plan.json --steps 100",
            declare_run},
    Command{"diagnose", "say which rank waits for which in a run that hangs, or how a run ended",
            "stagecraft diagnose /tmp/stagecraft-flight-1234", declare_diagnose},
    Command{
        "compare", "compare a prediction with a measurement, or plans with each other",
        "stagecraft compare plan.json run.trace.json\nstagecraft compare plan.json other.plan.json",
        declare_compare},
    Command{"report", "write a page about a plan that opens offline and simulates in the browser",
            "stagecraft report plan.json -o page.html\n"
            "stagecraft report plan.json run.trace.json --against other.plan.json -o page.html",
            declare_report, true},
    Command{
        "export", "write a plan in another system's format",
        "stagecraft export megatron plan.json\nstagecraft export torch plan.json -o stages.json",
        declare_export, true},
    Command{"schedule", "list the schedules, show the order of one, or prove it safe",
            "stagecraft schedule list\nstagecraft schedule show interleaved --stages 4 "
            "--microbatches 8 --virtual 2\nstagecraft schedule show zb-v --stages 4 "
            "--format torch -o zbv.csv\nstagecraft schedule check zbv.csv",
            declare_schedule},
    Command{"ledger", "compare predictions with public measurements and list the errors",
            "stagecraft ledger --sets measured -o ledger.md --plot ledger.svg\n"
            "stagecraft ledger --sets measured --constants constants.json --json",
            declare_ledger},
    Command{"calibrate", "fit the cost model's constants to measurements, with intervals",
            "stagecraft calibrate measured.json -o constants.json", declare_calibrate, true},
    Command{"model", "list the built-in models, or show one layer by layer",
            "stagecraft model list\nstagecraft model show gpt2-124m\nstagecraft model show "
            "config.json --json",
            declare_model},
    Command{"cluster", "list devices and clusters, or show one",
            "stagecraft cluster list\nstagecraft cluster show 4x8xh100@400Gb/s", declare_cluster},
    Command{"schema", "print the JSON Schema of one of Stagecraft's files",
            "stagecraft schema list\nstagecraft schema plan -o plan.schema.json", declare_schema},
    Command{"completion", "print the completion script for bash, zsh or fish",
            "source <(stagecraft completion bash)\n"
            "stagecraft completion zsh -o ~/.zfunc/_stagecraft\n"
            "stagecraft completion fish -o ~/.config/fish/completions/stagecraft.fish",
            declare_completion, true},
    Command{"doctor", "say what this program was built with and what the machine lacks",
            "stagecraft doctor", declare_doctor},
};

}  // namespace stagecraft
