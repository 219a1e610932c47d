#include "options.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <string_view>

#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/core/text.h"
#include "temper/core/units.h"
#include "temper/launch/worker.h"

namespace temper::apps {

namespace {

std::chrono::milliseconds duration_of(const char* option, const std::string& text) {
  try {
    return parse_duration(text);
  } catch (const ConfigError& error) {
    throw ConfigError(concat(option, ": ", error.what()));
  }
}

}  // namespace

StartOptions CommonArguments::start_options() const {
  StartOptions options = start;
  // Slurm kills 30 s after its first signal.
  const std::string default_grace = slurm_job().empty() ? "60s" : "25s";
  options.grace = duration_of("--grace", grace.empty() ? default_grace : grace);
  options.peer_grace = duration_of("--peer-grace", peer_grace);
  if (hang_timeout == "off") {
    options.hang_timeout = std::chrono::milliseconds(0);
  } else if (!hang_timeout.empty()) {
    options.hang_timeout = duration_of("--hang-timeout", hang_timeout);
  }
  if (!ignored_local_rank.empty()) {
    log_info("--local-rank is ignored: the local rank comes from the environment");
  }
  return options;
}

void add_common_options(CLI::App& app, CommonArguments& arguments, int argc, char** argv) {
  arguments.start.command.assign(argv, argv + argc);
  app.add_option("--config", arguments.configs, "configuration file; several are merged in order")
      ->required()
      ->allow_extra_args(false);
  app.add_option("overrides", arguments.overrides, "key=value, e.g. method.beta=4");
  app.add_option("--nproc", arguments.start.processes,
                 "processes on this host, or auto: one a visible GPU, 1 without");
  app.add_option("--gpus", arguments.start.gpus, "all, or a list as for CUDA_VISIBLE_DEVICES");
  app.add_option("--launcher", arguments.start.launcher, "auto, spawn, env, slurm, mpi or none");
  app.add_option("--grace", arguments.grace,
                 "time to save after a stop signal; default 60s, in a Slurm job 25s");
  app.add_option("--peer-grace", arguments.peer_grace,
                 "time for the other ranks after one has failed");
  app.add_option("--hang-timeout", arguments.hang_timeout,
                 "time without progress after which a rank hangs, or off; default: 0.8 of "
                 "distributed.timeout");
  app.add_option("--cpus", arguments.cpus, "CPU cores of this job")->check(CLI::Range(1, 4096));
  app.add_option("--local_rank,--local-rank", arguments.ignored_local_rank, "accepted and ignored");
  app.set_version_flag("--version", [] { return version_text(); });
}

namespace {

// The value of --smoke is optional: without one the next override must not be taken for it.
// Reversed, as CLI11 wants it.
std::vector<std::string> reversed_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    arguments.emplace_back(argv[i]);
    if (arguments.back() == "--smoke") {
      const bool has_value =
          i + 1 < argc &&
          std::string_view(argv[i + 1]).find_first_not_of("0123456789") == std::string_view::npos;
      arguments.back() += concat("=", has_value ? argv[++i] : "2");
    }
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

}  // namespace

int run_app(CLI::App& app, int argc, char** argv, const std::function<int()>& main) {
  hold_early_signals();
  ::prctl(PR_SET_NAME, program_invocation_short_name);  // ranks run through /proc/self/exe
  // A file over the limit of `ulimit -f` is an error of the write, for ranks as well.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    app.parse(reversed_arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  return guard_main(main);
}

}  // namespace temper::apps
