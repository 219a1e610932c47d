#include "temper/recipe/start.h"

#include <charconv>
#include <cstdlib>
#include <iostream>

#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/dist/device.h"
#include "temper/launch/launcher.h"
#include "temper/recipe/versions.h"

namespace temper {

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
  const auto environment = detect_environment(parse_launcher_choice(options.launcher),
                                              environment_variables(), options.command);
  if (environment) {
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
                           .max_restarts = options.max_restarts};
  check_launcher_options(launcher);
  launcher.run_directory = prepare();
  // libgomp's idle threads spin by default, which slows a busy host many times over: two jobs that
  // share cores, or a job beside a compiler. A short spin costs an idle host little.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr) {
    launcher.environment["GOMP_SPINCOUNT"] = "1000";
  }
  if (!gpus.visible_devices.empty()) {
    launcher.environment["CUDA_VISIBLE_DEVICES"] = gpus.visible_devices;
  }
  launcher.visible_devices = gpus.visible_device_of_rank;
  return run_launcher(launcher);
}

int guard_main(const std::function<int()>& main) {
  try {
    return main();
  } catch (const ConfigError& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
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
