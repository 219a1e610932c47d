#include "temper/recipe/start.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "temper/core/error.h"
#include "temper/core/host_memory.h"
#include "temper/core/log.h"
#include "temper/dist/device.h"
#include "temper/launch/cpu_share.h"
#include "temper/launch/job_registry.h"
#include "temper/launch/launcher.h"
#include "temper/launch/rank_files.h"
#include "temper/recipe/memory_report.h"
#include "temper/recipe/versions.h"

namespace temper {

namespace {

// libgomp's idle threads spin by default, which slows a busy host many times over: two jobs that
// share cores, or a job beside a compiler. A short spin costs an idle host little.
constexpr const char* kSpinVariable = "GOMP_SPINCOUNT";
constexpr const char* kShortSpin = "1000";

bool user_has_chosen_spin() {
  return std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kSpinVariable) != nullptr;
}

// libgomp reads its variables when it is loaded, so a rank that another launcher has started
// begins once more, as the same process. If it cannot, the run is slow beside others, not wrong.
void begin_again_with_short_spin(std::vector<std::string> command) {
  if (user_has_chosen_spin() || ::setenv(kSpinVariable, kShortSpin, 0) != 0) {
    return;
  }
  std::vector<char*> arguments;
  for (std::string& argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  std::cout.flush();
  sigset_t stop;  // waits for the handlers of the rank, as its own actions end here
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  ::execv("/proc/self/exe", arguments.data());
  log_warning(
      SystemError("threads that wait for work spin longer than they should: execv", errno).what());
}

// Early, so that jobs that are started together see each other before their ranks choose threads.
std::unique_ptr<JobRegistration> list_job(LauncherOptions& launcher) {
  CpuWish wish;
  wish.budget = cpu_budget({.slurm_cpus = slurm_cpus(1)});
  wish.ranks = launcher.processes;
  const std::filesystem::path folder = job_registry_folder();
  auto registration = std::make_unique<JobRegistration>(folder, job_entry(wish, std::nullopt));
  launcher.environment["TEMPER_JOBS"] = folder.string();
  launcher.environment["TEMPER_JOB"] = concat(registration->number());
  return registration;
}

}  // namespace

GpuSelection selected_gpus(const StartOptions& options) {
  if (!options.uses_gpus) {
    return {};
  }
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string visible = variable == nullptr ? "" : variable;
  return select_gpus(options.gpus, variable == nullptr ? nullptr : &visible, list_gpus());
}

int count_processes(const StartOptions& options, const GpuSelection& gpus) {
  const std::string& text = options.processes;
  if (text == "auto") {
    return std::max(1, static_cast<int>(gpus.gpus.size()));
  }
  int count = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), count);
  constexpr int kMostProcesses = 1024;
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size() || count < 1 ||
      count > kMostProcesses) {
    throw ConfigError(
        concat("--nproc ", text, ": expected auto or a number from 1 to ", kMostProcesses));
  }
  require_gpu_for_each(count, gpus);
  return count;
}

int start_ranks(const StartOptions& options, const std::function<std::filesystem::path()>& prepare,
                const std::function<int(const RankEnvironment&)>& work) {
  std::optional<std::chrono::milliseconds> hang_timeout = options.hang_timeout;
  if (hang_timeout && hang_timeout->count() == 0) {
    hang_timeout.reset();
  }
  auto environment = detect_environment(parse_launcher_choice(options.launcher),
                                        environment_variables(), options.command);
  if (environment) {
    const bool by_another = environment->launcher != LauncherKind::kSpawn &&
                            environment->launcher != LauncherKind::kNone;
    if (by_another) {
      begin_again_with_short_spin(options.command);
    }
    environment->peer_grace = options.peer_grace;
    environment->hang_timeout = hang_timeout;
    return work(*environment);
  }
  const GpuSelection gpus = selected_gpus(options);
  for (const std::string& warning : gpus.warnings) {
    log_warning(warning);
  }
  LauncherOptions launcher{.processes = count_processes(options, gpus),
                           .command = options.command,
                           .run_directory = {},
                           .grace = options.grace,
                           .peer_grace = options.peer_grace,
                           .max_restarts = options.max_restarts,
                           .hang_timeout = hang_timeout};
  check_launcher_options(launcher);
  const std::unique_ptr<JobRegistration> job = list_job(launcher);
  // Refuses what cannot be; a program that knows its model warns of more.
  static_cast<void>(check_host_memory(launcher.processes, 0, host_memory()));
  launcher.run_directory = prepare();
  if (!user_has_chosen_spin()) {
    launcher.environment[kSpinVariable] = kShortSpin;
  }
  if (!gpus.visible_devices.empty()) {
    launcher.environment["CUDA_VISIBLE_DEVICES"] = gpus.visible_devices;
  }
  launcher.visible_devices = gpus.visible_device_of_rank;
  return run_launcher(launcher);
}

std::chrono::milliseconds hang_timeout_or_default(const StartOptions& options,
                                                  const Config& config) {
  return options.hang_timeout.value_or(config.distributed.timeout * 4 / 5);
}

int guard_main(const std::function<int()>& main) {
  try {
    return main();
  } catch (const ConfigError& error) {
    report_to_torchrun(error.what());
    std::cerr << "error: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    report_to_torchrun(error.what());
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}

std::string version_text() {
  std::string text;
  for (const auto& [name, version] : versions()) {
    text += concat(name, " ", version, "\n");
  }
  return text;
}

}  // namespace temper
