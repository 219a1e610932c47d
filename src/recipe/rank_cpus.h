#pragma once
// Threads of a rank: its part of the host's cores, beside the other ranks and the other jobs.

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "temper/data/loader.h"
#include "temper/dist/communicator.h"
#include "temper/launch/cpu_share.h"
#include "temper/launch/environment.h"
#include "temper/launch/job_registry.h"
#include "temper/recipe/config.h"

namespace temper {

struct RankThreads {
  int compute = 1;
  int loader = 1;  // when no other job runs
};

// Local rank 0 lists the job of its host, or writes into the file that our launcher holds; the
// other ranks of the host read it.
class RankCpus {
 public:
  // `by_hand` is --cpus.
  RankCpus(const RankEnvironment& environment, const Config& config, std::optional<int> by_hand);

  // Lists the job; it has not chosen yet. `gpu`: the work of an update is done on one.
  void join(bool gpu);
  // Chooses the threads: the same number of compute threads on all ranks, as the smallest share of
  // a host allows. A collective.
  void choose(Communicator& communicator);
  // A resumed run keeps the number that its checkpoint records.
  void keep_compute(int count);

  [[nodiscard]] const RankThreads& threads() const { return threads_; }
  // Cores that a rank of this host may use, for advice.
  [[nodiscard]] int cores_of_rank() const {
    return std::max(1, static_cast<int>(wish_.budget.cores.size()) / std::max(1, wish_.ranks));
  }
  // Whether this rank speaks for its host.
  [[nodiscard]] bool is_leader() const { return local_rank_ == 0; }
  // Loader threads now, beside the jobs that run now, whose number goes to `jobs`.
  [[nodiscard]] int loader_now(std::size_t& jobs);

 private:
  [[nodiscard]] at::Tensor meet(Communicator& communicator) const;
  void announce(const CpuShare& share, Communicator& communicator) const;

  int local_rank_;
  bool is_spawned_;
  std::optional<int> slurm_cpus_;
  CpuWish wish_;
  JobEntry entry_;
  RankThreads threads_;
  std::unique_ptr<JobRegistration> registration_;
};

// While it lives, the loaders' threads follow the other jobs on the host within a second. `cpus`
// and the loaders must outlive it.
class LoaderWatch {
 public:
  LoaderWatch(RankCpus& cpus, std::vector<Loader*> loaders);
  ~LoaderWatch();
  LoaderWatch(const LoaderWatch&) = delete;
  LoaderWatch& operator=(const LoaderWatch&) = delete;

 private:
  void watch();
  void look();

  RankCpus& cpus_;
  std::vector<Loader*> loaders_;
  int threads_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace temper
