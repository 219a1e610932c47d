#pragma once
// The Temper jobs that run on this host, so that they share its cores. One small file a job in a
// folder that all users share, /dev/shm/temper-jobs (sticky, as /tmp), or where that cannot be used
// in $XDG_RUNTIME_DIR/temper-jobs, which shows the user's own jobs; the variable TEMPER_JOBS names
// another folder. A job lives as long as its file is locked, and the lock ends with the process:
// files of dead jobs do not count and are removed. The content of a file is never trusted beyond
// its ranges, so the worst that a stranger can write is a job that wants all cores.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "temper/core/cpu_budget.h"

namespace temper {

struct JobEntry {
  int ranks = 1;
  int compute = 0;                // threads a rank; 0: not chosen yet
  int loader = 1;                 // threads a rank that it would use if it were alone
  int cpus = 1;                   // budget of the job if it were alone
  int quota = 0;                  // cores of its cgroup's quota; 0: none
  CpuList cores{};                // its affinity mask
  std::uint64_t quota_group = 0;  // jobs with the same one share a quota; 0: no quota
  friend bool operator==(const JobEntry&, const JobEntry&) = default;
};

// From the name of a cgroup; 0 for an empty one.
[[nodiscard]] std::uint64_t quota_group_number(std::string_view name);

// Text of a file; nullopt for text of any other form, for numbers out of range and for a file that
// was read while it was written.
[[nodiscard]] std::string to_text(const JobEntry& entry);
[[nodiscard]] std::optional<JobEntry> parse_job_entry(std::string_view text);

// Where the registry is; empty when no folder can be used.
[[nodiscard]] std::filesystem::path job_registry_folder();

// The file of this job. Nothing of it may stop a run: a failure is a warning, once, and the job
// then goes on as if it were alone.
class JobRegistration {
 public:
  // Lists the job; holds the lock for the object's life. In `folder`, or nowhere if it is empty.
  JobRegistration(const std::filesystem::path& folder, const JobEntry& entry);
  // A job that another process of it has listed, which holds the lock; 0: it is not listed.
  JobRegistration(const std::filesystem::path& folder, std::uint64_t number);
  ~JobRegistration();
  JobRegistration(const JobRegistration&) = delete;
  JobRegistration& operator=(const JobRegistration&) = delete;

  // Names the job on this host; 0 when it is not listed.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  void update(const JobEntry& entry);
  // The other jobs that run now.
  [[nodiscard]] std::vector<JobEntry> others() const;
  // Lists the job again, under the same number, if somebody has removed its file. For one process
  // of the job.
  void keep_listed();

 private:
  void list();
  void give_up(const std::string& what);
  [[nodiscard]] std::filesystem::path path() const;

  std::filesystem::path folder_;  // empty: alone
  JobEntry entry_;
  std::uint64_t number_ = 0;
  int descriptor_ = -1;
  bool is_owner_ = false;
};

}  // namespace temper
