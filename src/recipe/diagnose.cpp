#include "temper/recipe/diagnose.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "recipe/all_reduce_probe.h"
#include "recipe/machine_facts.h"
#include "recipe/rank_runtime.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/core/log.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kTimeout{20};
constexpr const char* kResultFile = "all-reduce.json";

// For the ranks' logs and what rank 0 has measured; removed at the end unless it is kept.
class TemporaryFolder {
 public:
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) {
      fs::remove_all(path_, ignored);
    }
  }
  const fs::path& make() {
    std::string name = (fs::temp_directory_path() / "temper-diagnose-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw_errno(concat("cannot make a folder in ", fs::temp_directory_path().string()));
    }
    return path_ = name;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

// Ranks without a GPU of their own take the CPU.
Config rank_config(const RankEnvironment& environment) {
  const int gpus = visible_gpus();
  Config config;
  config.distributed.timeout = kTimeout;
  const bool own_gpu = gpus >= environment.local_world_size ||
                       (gpus == 1 && environment.launcher != LauncherKind::kSpawn);
  config.distributed.backend = gpus > 0 && own_gpu ? "auto" : "gloo";
  config.logging.level = "warning";
  return config;
}

AllReduceResult measure(RankRuntime& runtime) {
  runtime.connect();
  runtime.heartbeat().set_phase("all-reduce");
  return probe_all_reduce(runtime.communicator(), runtime.placement().device);
}

void write_result(const fs::path& folder, const AllReduceResult& result) {
  const nlohmann::json document{{"backend", result.backend},
                                {"latency", result.latency_seconds},
                                {"bandwidth", result.bytes_per_second},
                                {"bytes", result.bytes},
                                {"seconds", result.seconds}};
  write_file_atomically(folder / kResultFile, document.dump());
}

// What the ranks of our launcher left in its folder.
AllReduceResult read_result(const fs::path& folder, int ranks, int status) {
  AllReduceResult result{.ranks = ranks, .backend = visible_gpus() >= ranks ? "nccl" : "gloo"};
  if (fs::exists(folder / kResultFile)) {
    const auto document = nlohmann::json::parse(read_file(folder / kResultFile));
    result.backend = document.at("backend");
    result.latency_seconds = document.at("latency");
    result.bytes_per_second = document.at("bandwidth");
    result.bytes = document.at("bytes");
    result.seconds = document.at("seconds");
  }
  if (status != 0) {
    result.error = concat("ended with status ", status, ", see the messages on standard error");
    if (fs::exists(folder / "failure.json")) {
      const auto report = nlohmann::json::parse(read_file(folder / "failure.json"));
      result.error = report.value("line", result.error);
    }
  }
  return result;
}

int print_report(const MachineFacts& facts, const AllReduceResult& all_reduce, bool json) {
  const std::vector<Finding> findings = judge(facts, all_reduce);
  std::cout << (json ? diagnosis_json(facts, all_reduce, findings)
                     : diagnosis_text(facts, all_reduce, findings))
            << std::flush;
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.is_problem; })
             ? 1
             : 0;
}

int run_rank(const RankEnvironment& environment, bool json) {
  RankRuntime runtime(environment, rank_config(environment), std::nullopt);
  const std::string backend = runtime.placement().device.is_cuda() ? "nccl" : "gloo";
  const bool launcher_prints = environment.launcher == LauncherKind::kSpawn;
  AllReduceResult result{.ranks = environment.world_size, .backend = backend};
  const int status = guard_rank(runtime, [&] {
    try {
      result = measure(runtime);
    } catch (const std::exception& error) {
      result.error = error.what();
      result.ranks = environment.world_size;
      result.backend = backend;
      throw;
    }
    result.ranks = environment.world_size;
    result.backend = backend;
    if (launcher_prints && runtime.is_main_rank()) {
      write_result(environment.run_directory, result);
    }
    return 0;
  });
  if (launcher_prints || !runtime.is_main_rank()) {
    return status;
  }
  MachineFacts facts = gather_machine_facts(environment_variables());
  facts.launcher = launcher_name(environment.launcher);
  facts.processes = environment.local_world_size;
  facts.nodes = environment.nodes;
  return print_report(facts, result, json);
}

}  // namespace

int run_diagnose(const DiagnoseCommand& command) {
  StartOptions start = command.start;
  start.uses_gpus = false;  // more ranks than GPUs reduce on the CPU
  std::string environment_error;
  try {
    static_cast<void>(detect_environment(parse_launcher_choice(start.launcher)));
  } catch (const ConfigError& error) {
    if (start.launcher != "auto") {
      throw;
    }
    environment_error = error.what();
    start.launcher = "spawn";
  }
  if (start.processes == "auto") {
    start.processes = std::to_string(visible_gpus() > 1 ? visible_gpus() : 2);
  }
  TemporaryFolder folder;
  int status = 1;
  std::string start_error;
  try {
    status = start_ranks(
        start, [&] { return folder.make(); },
        [&](const RankEnvironment& environment) { return run_rank(environment, command.json); });
  } catch (const std::exception& error) {
    if (folder.path().empty()) {
      throw;
    }
    start_error = concat("the ranks cannot be started: ", error.what());
    log_error(start_error);
  }
  if (folder.path().empty()) {
    return status;  // a rank
  }
  MachineFacts facts = gather_machine_facts(environment_variables());
  facts.launcher = "spawn";
  facts.environment_error = environment_error;
  facts.processes = count_processes(start, {});
  AllReduceResult result = read_result(folder.path(), facts.processes, status);
  if (!start_error.empty()) {
    result.error = start_error;
  }
  const int report_status = print_report(facts, result, command.json);
  if (fs::exists(folder.path() / "failure.json")) {
    folder.keep();  // the messages above name it
  }
  return report_status;
}

}  // namespace temper
