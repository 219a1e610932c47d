#pragma once
// What every program needs of its rank: signals, heartbeat, device, threads, store and
// communicator, in the start-up order of a rank; and how its errors become an exit status.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/rank_cpus.h"
#include "temper/dist/communicator.h"
#include "temper/eval/evaluation.h"
#include "temper/launch/environment.h"
#include "temper/launch/heartbeat.h"
#include "temper/launch/host_address.h"
#include "temper/launch/peer_watch.h"
#include "temper/launch/rank_files.h"
#include "temper/launch/worker.h"
#include "temper/recipe/config.h"
#include "temper/recipe/memory_report.h"

namespace temper {

class RankRuntime {
 public:
  RankRuntime(const RankEnvironment& environment, const Config& config, std::optional<int> cpus);

  // Opens the store early, so that ranks that wait for it do not wait for what rank 0 does first.
  void open_store();
  // Meets the other ranks and chooses the threads. Throws when a rank is missing or has another
  // configuration.
  void connect();

  [[nodiscard]] const RankEnvironment& environment() const { return environment_; }
  [[nodiscard]] bool is_main_rank() const { return environment_.rank == 0; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  // Known after connect.
  [[nodiscard]] const RankThreads& threads() const { return cpus_.threads(); }
  // Compute threads are part of what makes a run repeatable: a resumed run keeps its number.
  void set_compute_threads(int count);
  [[nodiscard]] int cores_of_rank() const { return cpus_.cores_of_rank(); }
  // While the result lives, the loaders' threads follow the other jobs on this host.
  [[nodiscard]] std::unique_ptr<LoaderWatch> watch_loaders(std::vector<Loader*> loaders);
  [[nodiscard]] Communicator& communicator() { return *communicator_; }
  [[nodiscard]] Store* store() { return store_ ? &*store_ : nullptr; }
  // Of a failure that ends the run; nobody, when this process is no rank of the store's run.
  void tell_others(const std::string& line);
  // Of each rank, after connect.
  [[nodiscard]] const std::vector<RankHost>& hosts() const { return hosts_; }
  [[nodiscard]] RankFiles& files() { return files_; }
  [[nodiscard]] Heartbeat& heartbeat() { return heartbeat_; }
  // Tells heartbeat and memory report what begins.
  void enter_phase(std::string_view phase, std::int64_t update);
  // Of a CUDA out-of-memory, see gpu_exhaustion_text.
  [[nodiscard]] std::string exhaustion_text(const std::string& error) const;
  [[nodiscard]] StopRequest stop_requested() const { return signals_.stop_requested(); }
  [[nodiscard]] std::int64_t saves_requested() const { return signals_.saves_requested(); }
  // Over the ranks; changes nothing in a world of one.
  void synchronize_batch_norm(Classifier& model);

 private:
  void choose_device(const Config& config);
  void show_places();
  void meet();
  void watch_peers();

  RankEnvironment environment_;
  Heartbeat heartbeat_;
  WorkerSignals signals_;  // tells the heartbeat
  std::optional<ParentWatchdog> watchdog_;
  RankFiles files_;
  PhaseMemory phase_memory_;
  Placement placement_;
  std::string hidden_peers_;  // a warning
  Backend backend_ = Backend::kGloo;
  std::string configuration_;
  std::chrono::milliseconds timeout_;
  bool check_collectives_;
  RankCpus cpus_;
  std::optional<Store> store_;
  bool admitted_ = false;  // to the store's run, by claim_rank
  std::vector<RankHost> hosts_;
  std::unique_ptr<Communicator> communicator_;
  std::optional<PeerWatch> peers_;  // without our launcher
};

// Runs a rank's work and turns an exception into its report and exit status (2 for the user's
// mistakes, else 1).
[[nodiscard]] int guard_rank(RankRuntime& runtime, const std::function<int()>& work);

}  // namespace temper
