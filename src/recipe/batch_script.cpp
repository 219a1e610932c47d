#include "temper/recipe/batch_script.h"

#include <algorithm>
#include <array>

#include "temper/core/error.h"

namespace temper {
namespace {

using std::chrono::minutes;

// With a value behind them, in the next argument or after a sign.
constexpr std::array<std::string_view, 6> kReplaced = {
    "--nproc", "--cpus", "--launcher", "--local_rank", "--local-rank", "--max-restarts"};

bool names(std::string_view argument, std::string_view option) {
  return argument == option ||
         (argument.starts_with(option) && argument.substr(option.size()).starts_with('='));
}

struct Command {
  std::vector<std::string> words{};  // without what Slurm replaces
  bool has_run_directory = false;
};

Command job_command(const std::vector<std::string>& command) {
  Command result;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& argument = command[i];
    if (i == 0 || argument == "--") {
      result.words.push_back(argument);
      continue;
    }
    if (names(argument, "--gpus")) {
      throw ConfigError(
          "--gpus: in a batch job Slurm chooses the GPUs; leave the option out, "
          "--nproc says how many a node");
    }
    const auto replaced = std::find_if(kReplaced.begin(), kReplaced.end(),
                                       [&](auto option) { return names(argument, option); });
    if (replaced != kReplaced.end()) {
      i += argument == *replaced ? 1 : 0;
    } else if (argument != "--print-sbatch" && argument != "--dry-run") {
      result.has_run_directory = result.has_run_directory || names(argument, "--run-dir");
      result.words.push_back(argument);
    }
  }
  return result;
}

bool is_plain(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') ||
         std::string_view("_-./=:,+@%").find(letter) != std::string_view::npos;
}

// A name that needs no quotes in a comment line of sbatch.
std::string plain_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return !is_plain(letter); }, '_');
  return name;
}

// [days-]hours:minutes:seconds, with time to save after max_time.
std::string time_limit(std::chrono::milliseconds max_time) {
  constexpr minutes kToSave{10};
  const auto total = std::chrono::ceil<minutes>(max_time) + kToSave;
  const auto two_digits = [](auto number) { return concat(number < 10 ? "0" : "", number); };
  const std::string of_day =
      concat(two_digits(total.count() / 60 % 24), ":", two_digits(total.count() % 60), ":00");
  const auto days = total.count() / (24 * 60);
  return days > 0 ? concat(days, "-", of_day) : of_day;
}

std::string settings(const BatchScriptOptions& options) {
  std::string text =
      concat("#SBATCH --job-name=", plain_name(options.job_name),
             "\n# More nodes: raise this number; the ranks of all nodes train together.\n"
             "#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=",
             options.tasks_per_node, "\n");
  if (options.gpus) {
    text += concat(
        "# Every task sees all GPUs of its node and takes the one of its number.\n"
        "#SBATCH --gpus-per-node=",
        options.tasks_per_node, "\n");
  }
  text += concat("#SBATCH --cpus-per-task=", options.cpus_per_task, "\n");
  if (options.max_time) {
    text += concat("# training.max_time and ten minutes to save.\n#SBATCH --time=",
                   time_limit(*options.max_time), "\n");
  } else {
    text +=
        "# The cluster's default time limit holds; to set one, take away the first character:\n"
        "##SBATCH --time=12:00:00\n";
  }
  text +=
      "# Memory, partition and account are those that the cluster gives by default.\n"
      "#SBATCH --open-mode=append\n"
      "# Two minutes before the end, and at a preemption, the ranks save and leave with status "
      "75:\n"
      "# the job goes back into the queue and goes on from there.\n"
      "#SBATCH --requeue\n"
      "#SBATCH --signal=USR1@120\n";
  return text;
}

std::string step(const BatchScriptOptions& options) {
  const Command command = job_command(options.command);
  std::string text =
      "srun --kill-on-bad-exit=1 --wait=60 --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" "
      "--cpu-bind=cores";
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    text += concat(i == 0 ? " \\\n  " : " ", shell_quoted(command.words[i]));
    if (i == 0 && !command.has_run_directory) {
      text += concat(" --run-dir ", shell_quoted(options.runs.string()), "/\"$SLURM_JOB_ID\"");
    }
  }
  return text + "\n";
}

}  // namespace

std::string shell_quoted(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) {
    return std::string(text);
  }
  std::string quoted = "'";
  for (const char letter : text) {
    quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  }
  return quoted + "'";
}

std::string batch_script(const BatchScriptOptions& options) {
  return concat("#!/bin/bash\n", settings(options), "\ncd ",
                shell_quoted(options.directory.string()), " || exit 2\n", step(options),
                R"(status=$?

# Where slurm.conf has RequeueExit=75 Slurm does it by itself.
if [ "$status" -eq 75 ] && ! scontrol show config | grep -Eq '^RequeueExit *=(.*[ ,])?75(,|$)'; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
)");
}

}  // namespace temper
