#include "launch/scheduler_environment.h"

#include <numeric>
#include <vector>

#include "launch/host_list.h"
#include "launch/variables.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// Slurm gives shells of batch jobs and of salloc step numbers from here on.
constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;

bool is_in_step(const EnvironmentVariables& variables) {
  const std::string* step = find(variables, "SLURM_STEP_ID");
  return step != nullptr && std::atoll(step->c_str()) < kFirstSpecialStep;
}

std::uint16_t master_port(const EnvironmentVariables& variables, const std::string& job) {
  return find(variables, "MASTER_PORT") != nullptr
             ? static_cast<std::uint16_t>(number(variables, "MASTER_PORT", 1, 65535))
             : derived_port(job);
}

void require_equal(std::size_t value, std::size_t expected, const std::string& value_name,
                   const std::string& expected_name) {
  if (value != expected) {
    throw ConfigError(concat("the environment contradicts itself: ", value_name, " is ", value,
                             ", but ", expected_name, " is ", expected,
                             "; unset what is left over from another step, or choose with "
                             "--launcher"));
  }
}

int slurm_local_world(const EnvironmentVariables& variables, const RankEnvironment& rank) {
  const std::string& text = *find(variables, "SLURM_STEP_TASKS_PER_NODE");
  const std::vector<int> counts = parse_task_counts(text);
  const int node = number(variables, "SLURM_NODEID", 0);
  const std::string name = concat("SLURM_STEP_TASKS_PER_NODE='", text, "'");
  require_equal(counts.size(), static_cast<std::size_t>(rank.nodes),
                concat("the number of nodes in ", name), "SLURM_STEP_NUM_NODES");
  require_equal(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0)),
                static_cast<std::size_t>(rank.world_size), concat("the sum of ", name),
                "SLURM_STEP_NUM_TASKS");
  require_below(node, rank.nodes, "SLURM_NODEID", "SLURM_STEP_NUM_NODES");
  return counts[static_cast<std::size_t>(node)];
}

// A word of a command line for a shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  std::string text = "'";
  for (const char sign : word) {
    text += sign == '\'' ? std::string("'\\''") : std::string(1, sign);
  }
  return text + "'";
}

std::string srun_line(const EnvironmentVariables& variables, std::span<const std::string> command) {
  std::string line = "srun";
  if (const std::string* tasks = find(variables, "SLURM_NTASKS")) {
    line += concat(" --ntasks=", *tasks);
  } else {
    line += concat(" --nodes=", *find(variables, "SLURM_JOB_NUM_NODES"), " --ntasks-per-node=1");
  }
  line += " --kill-on-bad-exit=1 --wait=60";
  if (const std::string* cpus = find(variables, "SLURM_CPUS_PER_TASK")) {
    line += concat(" --cpus-per-task=", *cpus);
  }
  if (command.empty()) {
    line += " trainer ...";
  }
  for (const std::string& word : command) {
    line += concat(" ", quoted(word));
  }
  return line;
}

struct MpiNames {
  const char* family;
  const char* size;
  const char* rank;
  const char* local_size;
  const char* local_rank;
};
constexpr MpiNames kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                               "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr MpiNames kPmi = {"an MPI launcher with PMI", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS",
                           "MPI_LOCALRANKID"};
constexpr MpiNames kMvapich = {"MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK",
                               "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"};

const MpiNames* mpi_names(const EnvironmentVariables& variables) {
  for (const MpiNames* names : {&kOpenMpi, &kMvapich, &kPmi}) {
    if (find(variables, names->size) != nullptr) {
      return names;
    }
  }
  return nullptr;
}

// What all processes of one mpirun know, and no other's.
std::string mpi_job(const EnvironmentVariables& variables) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PMI_KVS"}) {
    if (const std::string* value = find(variables, name)) {
      return concat("mpi/", *value);
    }
  }
  if (find(variables, "MASTER_PORT") == nullptr) {
    throw ConfigError(
        "this MPI launcher gives its job no name from which a port could follow: set MASTER_PORT "
        "to a free port of rank 0's host, the same for all ranks");
  }
  return {};
}

}  // namespace

bool is_slurm_task(const EnvironmentVariables& variables) {
  return is_in_step(variables) && more_than_one(variables, "SLURM_STEP_NUM_TASKS");
}

RankEnvironment slurm_rank(const EnvironmentVariables& variables) {
  require_all(variables,
              {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES",
               "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_LOCALID",
               "SLURM_NODEID"},
              "the environment names a task of a Slurm step only in part",
              "start through srun, which sets all of them, or choose with --launcher");
  RankEnvironment rank;
  rank.launcher = LauncherKind::kSlurm;
  rank.world_size = number(variables, "SLURM_STEP_NUM_TASKS", 1);
  rank.rank = number(variables, "SLURM_PROCID", 0);
  rank.local_rank = number(variables, "SLURM_LOCALID", 0);
  rank.nodes = number(variables, "SLURM_STEP_NUM_NODES", 1);
  rank.local_world_size = slurm_local_world(variables, rank);
  require_below(rank.rank, rank.world_size, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  require_below(rank.local_rank, rank.local_world_size, "SLURM_LOCALID",
                "this node's tasks in SLURM_STEP_TASKS_PER_NODE");
  const std::vector<std::string> hosts = parse_host_list(*find(variables, "SLURM_STEP_NODELIST"));
  require_equal(hosts.size(), static_cast<std::size_t>(rank.nodes),
                "the number of hosts in SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES");
  if (const std::string* master = find(variables, "MASTER_ADDR")) {
    rank.master_address = *master;
  } else if (rank.nodes > 1) {
    rank.master_address = hosts.front();
    rank.master_is_derived = true;
  }
  rank.master_port = master_port(
      variables, concat("slurm/", slurm_job(variables), "/", *find(variables, "SLURM_STEP_ID")));
  rank.restart_count = slurm_requeues(variables);
  return rank;
}

void require_step(const EnvironmentVariables& variables, std::span<const std::string> command) {
  if (is_in_step(variables) || find(variables, "SLURM_JOB_ID") == nullptr) {
    return;
  }
  const bool several_tasks = more_than_one(variables, "SLURM_NTASKS");
  if (!several_tasks && !more_than_one(variables, "SLURM_JOB_NUM_NODES")) {
    return;
  }
  const std::string what = several_tasks
                               ? concat(*find(variables, "SLURM_NTASKS"), " tasks")
                               : concat(*find(variables, "SLURM_JOB_NUM_NODES"), " nodes");
  throw ConfigError(concat("inside a Slurm allocation of ", what,
                           ", but not in a step of srun: one process would run instead. Use\n  ",
                           srun_line(variables, command),
                           "\nor, to stay on this node alone, --launcher spawn"));
}

bool is_mpi_process(const EnvironmentVariables& variables) {
  const MpiNames* names = mpi_names(variables);
  return names != nullptr && more_than_one(variables, names->size);
}

RankEnvironment mpi_rank(const EnvironmentVariables& variables) {
  const MpiNames* found = mpi_names(variables);
  const MpiNames& names = found == nullptr ? kOpenMpi : *found;
  require_all(variables, {names.size, names.rank, names.local_size, names.local_rank},
              concat("the environment names a rank of ", names.family, " only in part"),
              "start through mpirun, which sets all of them, or choose with --launcher");
  RankEnvironment rank;
  rank.launcher = LauncherKind::kMpi;
  rank.world_size = number(variables, names.size, 1);
  rank.rank = number(variables, names.rank, 0);
  rank.local_world_size = number(variables, names.local_size, 1);
  rank.local_rank = number(variables, names.local_rank, 0);
  require_below(rank.rank, rank.world_size, names.rank, names.size);
  require_below(rank.local_rank, rank.local_world_size, names.local_rank, names.local_size);
  require_below(rank.local_world_size - 1, rank.world_size,
                concat(names.local_size, " - 1").c_str(), names.size);
  rank.nodes = (rank.world_size + rank.local_world_size - 1) / rank.local_world_size;
  if (const std::string* master = find(variables, "MASTER_ADDR")) {
    rank.master_address = *master;
  } else if (rank.nodes > 1) {
    throw ConfigError(concat(
        "started by ", names.family, " on several hosts (", names.local_size, "=",
        rank.local_world_size, " of ", names.size, "=", rank.world_size,
        "), which does not say where rank 0 runs: export MASTER_ADDR with the name or address of "
        "rank 0's host, e.g. `mpirun -x MASTER_ADDR=$(hostname)` when mpirun itself runs there"));
  }
  rank.master_port = master_port(variables, mpi_job(variables));
  return rank;
}

int slurm_requeues(const EnvironmentVariables& variables) {
  return number_or(variables, "SLURM_RESTART_COUNT", 0, 0);
}

std::string slurm_job(const EnvironmentVariables& variables) {
  const std::string* array = find(variables, "SLURM_ARRAY_JOB_ID");
  const std::string* task = find(variables, "SLURM_ARRAY_TASK_ID");
  if (array != nullptr && task != nullptr) {
    return concat(*array, "_", *task);
  }
  const std::string* job = find(variables, "SLURM_JOB_ID");
  return job == nullptr ? std::string() : *job;
}

}  // namespace temper
