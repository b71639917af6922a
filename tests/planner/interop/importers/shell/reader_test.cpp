// Shell scripts, read up to the commands they would start. What is expected is what bash hands to
// `train` as its words.

#include "planner/interop/importers/shell/reader.hpp"

#include <ctime>

#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Files = std::map<std::string, std::string>;
using Variables = std::map<std::string, std::string>;

shell::Reading read(const std::string& script, const Variables& variables = {},
                    const Files& files = {}) {
  shell::Settings settings;
  settings.variables = variables;
  settings.flags_with_bars = {"--layout"};
  settings.environment = {"NPROC_PER_NODE"};
  settings.read_file = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = files.find(name);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  return shell::read_script(script, "run.sh", settings);
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// The words of the commands `train`, a bar between words and a slash between commands; holes as
/// what they stand for.
std::string words(const shell::Reading& reading) {
  std::string text;
  for (const shell::Invocation& command : reading.commands) {
    if (command.words.front().characters() != "train") continue;
    if (!text.empty()) text += " / ";
    for (std::size_t i = 1; i < command.words.size(); ++i)
      text += (i > 1 ? "|" : "") + reading.shown(command.words[i]);
  }
  return text;
}

std::string words(const std::string& script, const Variables& variables = {},
                  const Files& files = {}) {
  return words(read(script, variables, files));
}

/// The names that the last command's words wait for.
std::string missing(const std::string& script, const Variables& variables = {}) {
  const shell::Reading reading = read(script, variables);
  std::vector<int> unknowns;
  for (const shell::Text& word : reading.commands.back().words) {
    for (const int unknown : word.unknowns()) unknowns.push_back(unknown);
  }
  std::string names;
  for (const int root : reading.roots(unknowns))
    names += (names.empty() ? "" : " ") + reading.unknowns[static_cast<std::size_t>(root)].name;
  return names;
}

std::string complaint(const std::string& script) {
  return message_of([&] { read(script); });
}

}  // namespace

TEST_CASE("quotes, escapes, comments and continued lines make words as in a shell") {
  CHECK(words("train a 'b  c' \"d $X e\"\\ f # g\n", {{"X", "1"}}) == "a|b  c|d 1 e f");
  CHECK(words("train a \\\n  b; train c && train d | tee log\r\n") == "a|b / c / d");
  CHECK(words("train \"a\\\"b\\c\" 'a\\b' \"\" '' x\"\"y") == "a\"b\\c|a\\b|||xy");
  CHECK(words("train > log 2>&1 a < input >> b &\ntrain c 2>/dev/null") == "a / c");
  CHECK(words("train --layout Et|(tt|)*2L --x") == "--layout|Et|(tt|)*2L|--x");
  CHECK(words("train $'a b' $\"c d\"") == "a b|c d");
  CHECK(words("\\\n\ntrain a#b") == "a#b");
}

TEST_CASE("variables: values, defaults, parts and arithmetic") {
  CHECK(words("A=1 B=$A; A=2\ntrain $A ${B} \"${A}$B\"") == "2|1|21");
  CHECK(words("FLAGS=\"--a 1 \\\n --b 2\"; train $FLAGS \"$FLAGS\"") == "--a|1|--b|2|--a 1  --b 2");
  CHECK(words("train ${X:-4} ${X-5} ${X:=6} $X ${X:+7} ${Y:+8}") == "4|5|6|6|7");
  CHECK(words("E=; train ${E:-4} ${E-5} \"${E:+6}\" ${E+7}") == "4||7");
  CHECK(words("N=4; train $((N * 2 + 1)) $(( $N ** 2 )) $((N > 3 ? 7 : 8)) $[N]") == "9|16|7|$[N]");
  CHECK(words("N=5; ((N += 2)); let M=N/2; train $N $M $((0x10 + 010 + 2#11))") == "7|3|27");
  CHECK(words("P=/a/b/run.tar.gz; train ${P##*/} ${P#*/} ${P%.*} ${P%%.*} ${#P} ${P/run/go} "
              "${P:3:2}") ==
        "run.tar.gz|a/b/run.tar.gz|/a/b/run.tar|/a/b/run|15|/a/b/go.tar.gz|b/");
  CHECK(words("V=ab; N=V; train ${!N} ${V^^} ${V^} ${V//b/c}") == "ab|AB|Ab|ac");
}

TEST_CASE("arrays: words, appended ones, elements and counts") {
  CHECK(words("A=(--x 1 # one\n \"b c\"\n); A+=(d); train \"${A[@]}\" ${#A[@]} ${A[2]}") ==
        "--x|1|b c|d|4|b|c");
  CHECK(words("A=(); A+=(--a); B=(\"${A[@]}\" --b); train ${B[@]} ${B[*]:1} \"${B[*]}\"") ==
        "--a|--b|--b|--a --b");
  CHECK(words("declare -A M=([7B]=32 [13B]=40); S=13B; train ${M[$S]} ${!M[@]}") == "40|13B|7B");
  CHECK(words("S=\"a b\"; A=($S); train ${#A[@]} ${A[1]} ${A[-1]}") == "2|b|b");
}

TEST_CASE("conditions on known values go one way") {
  const std::string branches =
      "if [ $N -eq 1 ]; then train one; elif [[ $N == 2* && ! -z $N ]]; then train two; else train "
      "more; fi";
  CHECK(words("N=1; " + branches) == "one");
  CHECK(words("N=22; " + branches) == "two");
  CHECK(words("N=3; " + branches) == "more");
  CHECK(words("N=7B; case $N in 7B|8B) train a;; *) train b ;; esac") == "a");
  CHECK(words("N=70B; case \"$N\" in [78]B) train a;; (7*) train b;; esac") == "b");
  CHECK(words("for i in 1 2 {3..4}; do [ $i = 3 ] && continue; train $i; done") == "1 / 2 / 4");
  CHECK(words("for ((i = 0; i < 2; i++)); do train $i; done; i=0; while (( i < 2 )); do train "
              "w$i; i=$((i+1)); done") == "0 / 1 / w0 / w1");
  CHECK(words("[ 2 -gt 1 -a x = x ] && train a || train b; [[ ab =~ ^a ]] && ! false && train c") ==
        "a / c");
  CHECK(words("until false; do train a; break; done; test -n '' || train b") == "a / b");
}

TEST_CASE("functions, eval, strings of commands and scripts beside are followed") {
  CHECK(words("f() { local n=$1; train $n \"$2\" $#; }\nfunction g { f \"$@\"; return; train no; "
              "}\ng 1 'a b'") == "1|a b|2");
  CHECK(words("CMD='train $X \"c d\"'; X=1; eval $CMD; eval \"$CMD\"") == "1|c d / 1|c d");
  CHECK(words("export N=2; L=\"train --n\"; bash -c \"$L $N; train \\$N\"") == "--n|2 / 2");
  CHECK(words("X=1; source ./conf.sh; . $HOME/a/other.sh; train $X $Y", {},
              {{"./conf.sh", "X=2"}, {"a/other.sh", "Y=$X$X"}}) == "2|22");
  CHECK(words("export A=1; B=2; bash run2.sh x y", {},
              {{"run2.sh", "train $1 $2 $# $A ${B:-none}"}}) == "x|y|2|1|none");
  CHECK(words("cat > go.sh <<EOF\ntrain $N \\$N\nEOF\nbash go.sh", {{"N", "3"}}) == "3|3");
  CHECK(words("(X=1; train $X); train ${X:-unset}") == "1 / unset");
  // A script that submits itself is a job the second time.
  const std::string self = "if [ -z $SLURM_JOB_ID ]; then sbatch \"$0\"; exit; fi; train $X";
  CHECK(words(self, {{"X", "1"}}, {{"run.sh", self}}) == "1");
}

TEST_CASE("what other programs print is known where it follows from their words") {
  CHECK(words("train $(echo a b) \"$(printf %s c)\" `echo \\`echo d\\`` $(seq 1 3)") ==
        "a|b|c|d|1|2|3");
  CHECK(words("train $(seq -s, 0 2) $(seq -s : 2) $(seq -1 1)") == "0,1,2|1:2|-1|0|1");
  CHECK(
      words("train $(expr 2 + 3) $(echo '4*5' | bc) $(basename /a/b.sh .sh) $(dirname /a/b.sh)") ==
      "5|20|b|/a");
  CHECK(words("f() { echo \"$1-x\"; }; train $(f 1) $(cat <<< here)") == "1-x|here");
  CHECK(missing("G=$(nvidia-smi -L | wc -l); train $((G * 2))") == "G");
  CHECK(missing("train $(nproc)") == "$(nproc)");
  CHECK(words("train $(nproc)", {{"$(nproc)", "8"}}) == "8");
  CHECK(words("G=$(nvidia-smi -L | wc -l); train $((G * 2))", {{"G", "4"}}) == "8");
}

TEST_CASE("variables that nobody sets are named, and empty where the script asks") {
  CHECK(missing("W=$((NODES * 8)); train --n $W ${1} $D") == "NODES 1 D");
  CHECK(missing("M=$1; train $M") == "M");
  CHECK(words("M=$1; train $M $#", {{"1", "x"}}) == "x|1");
  const shell::Reading reading =
      read("if [ -z \"$P\" ]; then P=2; fi; [ \"$Q\" = on ] && train q; train $P");
  CHECK(words(reading) == "2");
  CHECK(reading.assumed_unset == std::set<std::string>{"P", "Q"});
  CHECK(words("if [ -z $P ]; then P=2; fi; train $P", {{"P", "4"}}) == "4");
  // Without its argument the script would end, so it is meant to have one.
  CHECK(missing("if [ $# -lt 1 ]; then echo usage; exit 1; fi; train $1") == "1");
}

TEST_CASE("where a condition is not known, what differs behind it is not") {
  const std::string probe = "N=$(nvidia-smi topo -m | wc -l)\n";
  CHECK(missing(probe + "if [ $N -gt 0 ]; then X=1; else X=2; fi; train $X") == "N");
  CHECK(words(probe + "if [ $N -gt 0 ]; then X=1; else X=1; fi; train $X") == "1");
  CHECK(words(probe + "A=(--a); if [ $N -gt 0 ]; then A+=(--b); fi; A+=(--c); train ${A[@]}") ==
        "--a|if [ $N -gt 0 ]|--c");
  CHECK(words(probe + "A=(--a); if [ $N -gt 0 ]; then A+=(--b); fi; train ${A[@]}", {{"N", "1"}}) ==
        "--a|--b");
  CHECK(words("O=\"--a 1\"; if [ -f /x ]; then O=\"$O --b\"; fi; train $O --c") ==
        "--a|1|if [ -f /x ]|--c");
  CHECK(words("if [ -f /x ]; then echo no; exit 1; fi; train a") == "a");
  CHECK(missing("case $S in 7B) L=32;; 13B) L=40;; *) exit 1;; esac; train $L") == "S");
  CHECK(words("case $S in 7B) L=32;; 13B) L=40;; *) exit 1;; esac; train $L", {{"S", "13B"}}) ==
        "40");
  CHECK(words("while read -r host; do train $host; break; done < hosts; train b") == "$host / b");
}

TEST_CASE("schedulers say how many nodes there are") {
  const std::string head = "#!/bin/bash\n#SBATCH --nodes=4   # four\n#SBATCH -n 8\n";
  CHECK(words(head + "train $SLURM_NNODES ${SLURM_JOB_NUM_NODES:-1} $SLURM_NTASKS") == "4|4|8");
  CHECK(read(head).directives.at("nodes").characters() == "4");
  CHECK(words("sbatch --nodes=3 job.sh", {}, {{"job.sh", "train $SLURM_NNODES"}}) == "");
  const shell::Reading called =
      read("sbatch --nodes=3 job.sh", {}, {{"job.sh", "train $SLURM_NNODES"}});
  REQUIRE(called.commands.size() == 1);
  CHECK(called.commands[0].words.back().characters() == "3");
}

TEST_CASE("words keep the place they were written at") {
  const shell::Reading reading =
      read("A=\"--x 1 \\\n  --y $N\"\nB=(\n  --z\n)\ntrain $A ${B[@]}", {{"N", "2"}});
  std::vector<int> lines;
  for (const shell::Text& word : reading.commands.back().words) lines.push_back(word.place().line);
  CHECK(lines == std::vector{6, 1, 1, 2, 2, 4});
  CHECK(reading.commands.back().words[3].place().column == 3);
}

TEST_CASE("prefixes of commands are their environment") {
  const shell::Reading reading = read("NPROC_PER_NODE=4 train a; train b");
  CHECK(reading.commands[0].environment.at("NPROC_PER_NODE").characters() == "4");
  CHECK(reading.commands[1].environment.empty());
}

TEST_CASE("what is no script, or does not end, is refused with its place") {
  CHECK(complaint("train 'a\nb") == "run.sh:1:7: the quotation does not end");
  CHECK(complaint("train\nif true; then train a") == "run.sh:2:1: the \"if\" has no \"fi\"");
  CHECK_THAT(complaint("A=(1 2"), ContainsSubstring("the array does not end"));
  CHECK(complaint("A[\\]=1") == "run.sh:1:1: the subscript does not end");
  CHECK_THAT(complaint("echo $(ls"), ContainsSubstring("the parenthesis does not end"));
  CHECK_THAT(complaint("echo ${X"), ContainsSubstring("the braces do not end"));
  CHECK_THAT(complaint("while true; do :; done"), ContainsSubstring("does not end within"));
  CHECK_THAT(complaint("for i in {1..1000000000}; do :; done"),
             ContainsSubstring("a range of more"));
  CHECK_THAT(complaint("for i in $(seq 1 1000000000); do :; done"), ContainsSubstring("a range"));
  CHECK_THAT(complaint("f() { f; }; f"), ContainsSubstring("does the script call itself"));
  CHECK_THAT(complaint("X=aaaaaaaaaaaaaaaa; for i in {1..100}; do X=$X$X; done"),
             ContainsSubstring("grows beyond"));
  CHECK_THAT(complaint("A=A; (( A ))"), ContainsSubstring("refer to each other"));
  CHECK_THAT(complaint(std::string(5000, '(') + std::string(5000, ')')),
             ContainsSubstring("nested too deeply"));
  CHECK_THAT(message_of([] {
               read(". ./a.sh", {}, {{"./a.sh", ". ./a.sh"}});
             }),
             ContainsSubstring("does the script call itself"));
}

TEST_CASE("a line of a hundred thousand words takes a moment, and its end has its column") {
  std::string line = "train";
  for (int i = 1; i < 100'000; ++i) line += " a";
  const std::clock_t start = std::clock();
  const shell::Reading reading = read(line);
  CHECK(std::clock() - start < 5 * CLOCKS_PER_SEC);  // 0.1 s; 12 s where each word counts from 0
  REQUIRE(reading.commands.size() == 1);
  REQUIRE(reading.commands[0].words.size() == 100'000);
  CHECK(reading.commands[0].words.back().place().line == 1);
  CHECK(reading.commands[0].words.back().place().column == 5 + 2 * 99'999);
}

TEST_CASE("few commands that work on long texts again and again are told so", "[seconds]") {
  const std::string end = "work on more than 200000000 bytes of texts; write what its loops make";
  const std::string turns = "for ((i = 0; i < 10000; i++)); do ";
  const std::string length = "A=" + std::string(900'000, 'x') + "\n";
  const std::string blanks = "A='" + repeated("x ", 40'000) + "'\n";
  const std::string sum = "A=" + repeated("1+", 300'000) + "1\n";
  const std::vector<std::string> scripts{length + turns + "B=$A; done",
                                         blanks + turns + "set -- $A; done",
                                         sum + turns + "B=$((A)); done",
                                         length + turns + "echo $A; done",
                                         length + turns + "case $A in b) ;; esac; done",
                                         length + turns + "[ \"$A\" = b ]; done",
                                         length + turns + "(B=1); done",
                                         length + turns + "B=$(echo 1); done",
                                         blanks + turns + "B=($A); done",
                                         "f() { :; }\n" + blanks + turns + "f $A; done",
                                         "A=; " + turns + "A=\"$A --flag $i\"; done"};
  const std::size_t count = is_watched ? 3 : scripts.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& script = scripts[i];
    INFO(script.substr(0, 20) << " … " << script.substr(script.size() - 40));
    CHECK_THAT(complaint(script), ContainsSubstring(end));
  }
  std::string ways;
  for (int i = 0; i < 5000; ++i) ways += "V" + std::to_string(i) + "=1\n";
  CHECK_THAT(complaint(ways + repeated("if [ $U = 1 ]; then A=1; fi\n", 5000)),
             ContainsSubstring(end));
}
