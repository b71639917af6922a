// Text that processes printed through a launcher, which puts a label before every line.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A line of a text, from which colours, time stamps and the launcher's label are gone.
struct PlainLine {
  int number = 0;     ///< in the text, from 1
  std::string label;  ///< who printed it, as the launcher says: "0", "1,0", "node7"; may be empty
  std::string text;
};

/// The lines of a text without what launchers put before them:
///
///   0:  …                    srun --label
///   [1,0]<stdout>:…          mpirun --tag-output
///   [0] …                    mpiexec -prepend-rank
///   [default0]:…             torchrun
///   [pod/name/container] …   kubectl logs --prefix
///   (task pid=71, ip=…) …    Ray, SkyPilot
///   node7: …                 pdsh, clush; only where such a label stands before a line that tools
///                            print themselves (a comment of nccl-tests, a heading of GPUs)
///   worker-1  | …            docker compose; where tools print, as pdsh
///   pod container: …         of a pod's containers, also without the colon (stern); as pdsh
///   node7 | CHANGED | rc=0 >>   Ansible, a line before all that the host printed; with --one-line
///                            before the text, whose lines are joined by "\n"
///   > …                      a quotation in an issue
///   2026-11-28T15:04:19Z …   a time stamp, before or behind any label in brackets
std::vector<PlainLine> lines_without_labels(std::string_view content);

/// The texts of all labels, in order of their first line.
std::vector<std::string> labels_of(const std::vector<PlainLine>& lines);

/// Words between blanks and tabs.
std::vector<std::string> words_of(std::string_view line);

}  // namespace stagecraft
