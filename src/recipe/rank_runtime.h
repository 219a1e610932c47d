#pragma once
// What every program needs of its rank: signals, heartbeat, device, threads, store and
// communicator, in the start-up order of a rank; and how its errors become an exit status.

#include <functional>
#include <memory>
#include <optional>

#include "temper/dist/communicator.h"
#include "temper/eval/evaluation.h"
#include "temper/launch/environment.h"
#include "temper/launch/heartbeat.h"
#include "temper/launch/worker.h"
#include "temper/recipe/config.h"

namespace temper {

struct RankThreads {
  int compute = 1;
  int loader = 1;
};

class RankRuntime {
 public:
  RankRuntime(const RankEnvironment& environment, const Config& config, std::optional<int> cpus);

  // Meets the other ranks. Throws when one is missing.
  void connect();

  [[nodiscard]] const RankEnvironment& environment() const { return environment_; }
  [[nodiscard]] bool is_main_rank() const { return environment_.rank == 0; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  [[nodiscard]] const RankThreads& threads() const { return threads_; }
  // Compute threads are part of what makes a run repeatable: a resumed run keeps its number.
  void set_compute_threads(int count);
  [[nodiscard]] Communicator& communicator() { return *communicator_; }
  [[nodiscard]] Store* store() { return store_ ? &*store_ : nullptr; }
  [[nodiscard]] Heartbeat& heartbeat() { return heartbeat_; }
  [[nodiscard]] StopRequest stop_requested() const { return signals_.stop_requested(); }
  // Over the ranks; changes nothing in a world of one.
  void synchronize_batch_norm(Classifier& model);

 private:
  void choose_device(const Config& config);
  void choose_threads(const Config& config, std::optional<int> cpus);

  RankEnvironment environment_;
  WorkerSignals signals_;
  std::optional<ParentWatchdog> watchdog_;
  Heartbeat heartbeat_;
  Placement placement_;
  Backend backend_ = Backend::kGloo;
  std::chrono::milliseconds timeout_;
  bool check_collectives_;
  RankThreads threads_;
  std::optional<Store> store_;
  std::unique_ptr<Communicator> communicator_;
};

// Runs a rank's work and turns an exception into its report and exit status (2 for the user's
// mistakes, else 1).
[[nodiscard]] int guard_rank(RankRuntime& runtime, const std::function<int()>& work);

}  // namespace temper
