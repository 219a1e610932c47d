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

int count_processes(const std::string& text) {
  if (text == "auto") {
    return std::max(1, visible_gpus());
  }
  int count = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), count);
  constexpr int kMostProcesses = 1024;
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size() || count < 1 ||
      count > kMostProcesses) {
    throw ConfigError(
        concat("--nproc ", text, ": expected auto or a number from 1 to ", kMostProcesses));
  }
  return count;
}

int start_ranks(const StartOptions& options, const std::function<std::filesystem::path()>& prepare,
                const std::function<int(const RankEnvironment&)>& work) {
  const auto environment = detect_environment(parse_launcher_choice(options.launcher));
  if (environment) {
    return work(*environment);
  }
  LauncherOptions launcher{.processes = count_processes(options.processes),
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
  if (options.gpus != "all") {
    launcher.environment["CUDA_VISIBLE_DEVICES"] = options.gpus;
  }
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
