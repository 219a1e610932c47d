#include "recipe/rank_directory.h"

#include <algorithm>

#include "temper/core/text.h"
#include "temper/launch/job_time.h"

namespace temper {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) {
    names.push_back(name);
  }
}

std::filesystem::path choose(RankRuntime& runtime, const Config& config,
                             const std::filesystem::path& asked) {
  const RankEnvironment& environment = runtime.environment();
  if (!environment.run_directory.empty()) {
    return environment.run_directory;
  }
  RunDirectoryOptions options{
      .directory = asked, .output = config.run.output, .name = config.run.name, .job = slurm_job()};
  if (environment.launcher == LauncherKind::kTorchrun) {
    options.identity = launch_identity(runtime);
  }
  return runtime.store() != nullptr ? share_run_directory(*runtime.store(), environment.rank,
                                                          options, config.distributed.timeout)
                                    : choose_run_directory(options);
}

}  // namespace

std::vector<std::string> host_names(const std::vector<RankHost>& hosts) {
  std::vector<std::string> names;
  for (const RankHost& host : hosts) {
    add_once(names, host.host);
  }
  return names;
}

LaunchIdentity launch_identity(const RankRuntime& runtime) {
  const RankEnvironment& environment = runtime.environment();
  LaunchIdentity identity{
      .job = slurm_job(),
      .run_id = environment.run_id,
      .master = concat(environment.master_address, ":", environment.master_port),
      .agents = {},
      .restart_count = environment.restart_count};
  for (const RankHost& host : runtime.hosts()) {
    add_once(identity.agents, host.parent);
  }
  return identity;
}

RankDirectory::RankDirectory(RankRuntime& runtime, const Config& config,
                             const std::filesystem::path& asked)
    : path_(choose(runtime, config, asked)) {
  const RankEnvironment& environment = runtime.environment();
  if (runtime.is_main_rank() && environment.run_directory.empty()) {
    lock_.emplace(path_);
  }
  if (environment.launcher != LauncherKind::kSpawn) {
    runtime.files().open(
        path_, share_attempt(runtime.store(), environment.rank, path_, config.distributed.timeout));
  }
}

}  // namespace temper
