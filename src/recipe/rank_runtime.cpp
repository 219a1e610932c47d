#include "recipe/rank_runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "recipe/rank_places.h"
#include "recipe/same_configuration.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/dist/device.h"
#include "temper/dist/rank_failure.h"
#include "temper/launch/host_address.h"
#include "temper/launch/stack_dump.h"
#include "temper/launch/start_barrier.h"
#include "temper/recipe/load_config.h"

namespace temper {
namespace {

constexpr std::chrono::seconds kParentGrace{60};
constexpr std::chrono::seconds kEarlyParentGrace{1};  // nothing to save yet
// Our launcher has a store for each attempt.
std::string attempt_name(const RankEnvironment& environment) {
  return concat("attempt ", environment.restart_count);
}

// A request to stop while the ranks wait for each other: there is nothing to save yet, and what an
// earlier run has saved stands.
class StoppedAtStart : public std::runtime_error {
 public:
  explicit StoppedAtStart(StopRequest request)
      : std::runtime_error("stopped before the start"), request_(request) {}
  [[nodiscard]] StopRequest request() const { return request_; }

 private:
  StopRequest request_;
};

SecondInterrupt second_interrupt(const RankEnvironment& environment) {
  return environment.launcher == LauncherKind::kNone ? SecondInterrupt::kExit
                                                     : SecondInterrupt::kIgnore;
}

at::ScalarType scalar_type(const std::string& precision) {
  return precision == "fp64" ? at::kDouble : at::kFloat;
}

// Before the first CUDA kernel: cuBLAS reads its variable once.
void use_deterministic_kernels() {
  if (::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0) != 0) {
    throw_errno("cannot set CUBLAS_WORKSPACE_CONFIG");
  }
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  // LibTorch warns of an operation that has no deterministic kernel.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
}

}  // namespace

RankRuntime::RankRuntime(const RankEnvironment& environment, const Config& config,
                         std::optional<int> cpus)
    : environment_(environment),
      heartbeat_(Heartbeat::from_environment()),
      signals_(second_interrupt(environment)),
      files_(environment_, heartbeat_),
      configuration_(print_config({.config = config, .origin = {}, .notices = {}},
                                  /*with_comments=*/false)),
      timeout_(config.distributed.timeout),
      check_collectives_(config.distributed.check_collectives),
      cpus_(environment, config, cpus) {
  answer_stack_requests();  // before the first thread, in which a request would find no handler
  if (environment_.launcher != LauncherKind::kNone) {
    watchdog_.emplace(kEarlyParentGrace);
    line_buffer_output();
  }
  configure_log(parse_log_level(config.logging.level),
                environment_.world_size > 1 ? concat("rank ", environment_.rank) : "");
  signals_.tell(heartbeat_);
  signals_.set_nothing_to_save(true);
  heartbeat_.set("start", 0);
  choose_device(config);
  cpus_.join(placement_.device.is_cuda());
}

void RankRuntime::choose_device(const Config& config) {
  const std::string& backend = config.distributed.backend;
  const int gpus = backend == "gloo" ? 0 : visible_gpus();
  if (gpus == 0) {
    if (backend == "nccl") {
      throw ConfigError(
          concat("distributed.backend=nccl needs a GPU, ",
                 has_cuda_support() ? "none is visible" : "and a build with the preset cuda"));
    }
    placement_ = {at::Device(at::kCPU), scalar_type(config.training.precision)};
    return;
  }
  const char* shown = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool slice = shown != nullptr && std::string_view(shown).starts_with("MIG-");
  const int index = choose_gpu(environment_, gpus, slice);
  hidden_peers_ = hidden_peers_warning(environment_, gpus, slice);
  if (config.run.deterministic) {
    use_deterministic_kernels();
  }
  bind_gpu(index);
  placement_ = {at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index)),
                scalar_type(config.training.precision)};
  backend_ = Backend::kNccl;
}

void RankRuntime::set_compute_threads(int count) {
  cpus_.keep_compute(count);
  at::set_num_threads(count);
}

void RankRuntime::enter_phase(std::string_view phase, std::int64_t update) {
  heartbeat_.set(phase, static_cast<std::uint64_t>(update));
  if (placement_.device.is_cuda() && phase != phase_memory_.current()) {
    phase_memory_.enter(phase, take_gpu_peak(placement_.device.index()));
  }
}

std::string RankRuntime::exhaustion_text(const std::string& error) const {
  const int device = std::max<int>(0, placement_.device.index());
  const GpuMemory memory = gpu_memory(device);
  return gpu_exhaustion_text({.device = device,
                              .error = error.substr(0, error.find('\n')),
                              .phase = heartbeat_.beat().phase,
                              .memory = memory,
                              .peaks = phase_memory_.peaks(take_gpu_peak(device))});
}

std::unique_ptr<LoaderWatch> RankRuntime::watch_loaders(std::vector<Loader*> loaders) {
  return std::make_unique<LoaderWatch>(cpus_, std::move(loaders));
}

void RankRuntime::open_store() {
  const RankEnvironment& env = environment_;
  if (env.world_size == 1 || store_) {
    return;
  }
  check_master_address(env);
  if (env.store_is_hosted || env.rank != 0) {
    store_ = Store::connect(env.master_address, env.master_port, timeout_);
  } else {
    store_ = Store::host({.address = env.master_address,
                          .port = env.master_port,
                          .world_size = env.world_size,
                          .timeout = timeout_,
                          .listening_descriptor = std::nullopt});
  }
  if (env.launcher != LauncherKind::kSpawn) {
    store_->enter(attempt_name(env));
  }
  claim_rank(*store_, env.rank, env.world_size);
  admitted_ = true;
}

void RankRuntime::tell_others(const std::string& line) {
  if (admitted_) {
    announce_peer_failure(*store_, line);
  }
}

void RankRuntime::connect() {
  heartbeat_.set_phase("connect");
  const RankEnvironment& env = environment_;
  open_store();
  signals_.set_nothing_to_save(false);  // from here on the flag is looked at
  std::string address;
  if (!store_) {
    hosts_ = {own_rank_host(env.master_address)};
  } else {
    meet();
    address = address_for_peers(hosts_, env.rank);
    log_debug("this rank gives its peers the address ", address);
    watch_peers();
    require_same_configuration(*store_, env.rank, env.world_size, configuration_, timeout_);
  }
  show_places();
  communicator_ =
      make_communicator(store(), {.rank = env.rank,
                                  .world_size = env.world_size,
                                  .backend = backend_,
                                  .device_index = std::max<int>(0, placement_.device.index()),
                                  .timeout = timeout_,
                                  .address = address,
                                  .check_collectives = check_collectives_,
                                  .progress = &heartbeat_.collective()});
  cpus_.choose(*communicator_);
  at::set_num_threads(cpus_.threads().compute);
  if (watchdog_) {
    watchdog_->set_grace(kParentGrace);
  }
}

void RankRuntime::show_places() {
  const at::Device& device = placement_.device;
  const RankPlace own = own_place(
      environment_.rank, device.is_cuda() ? std::optional<int>(device.index()) : std::nullopt);
  const std::vector<RankPlace> places =
      store_ ? share_places(*store_, own, environment_.world_size, timeout_) : std::vector{own};
  if (!is_main_rank() || (places.size() == 1 && !own.gpu)) {
    return;
  }
  log_info("placement:\n", placement_table(places));
  if (!hidden_peers_.empty()) {
    log_warning(hidden_peers_);
  }
}

// Who waits here is not to blame if the others do not come.
void RankRuntime::meet() {
  heartbeat_.collective().begin("meeting", "", environment_.world_size, "start of the ranks");
  auto hosts = start_barrier(*store_, environment_.rank, environment_.world_size,
                             {.timeout = timeout_, .stop_requested = [this] {
                                return signals_.stop_requested() != StopRequest::kNone;
                              }});
  heartbeat_.collective().end_all();
  if (!hosts) {
    throw StoppedAtStart(signals_.stop_requested());
  }
  hosts_ = std::move(*hosts);
}

// Our launcher does it from outside.
void RankRuntime::watch_peers() {
  const RankEnvironment& env = environment_;
  if (env.launcher == LauncherKind::kSpawn) {
    return;
  }
  constexpr std::chrono::hours kNever{24 * 365};
  peers_.emplace(PeerWatchOptions{.address = store_->address(),
                                  .port = store_->port(),
                                  .attempt = attempt_name(env),
                                  .rank = env.rank,
                                  .world_size = env.world_size,
                                  .hosts_store = !env.store_is_hosted && env.rank == 0,
                                  .host = host_name(),
                                  .hang_timeout = env.hang_timeout.value_or(kNever),
                                  .peer_grace = env.peer_grace},
                 heartbeat_);
}

void RankRuntime::synchronize_batch_norm(Classifier& model) {
  int number = 0;
  for (BatchNorm* layer : model.batch_norms()) {
    auto reduction = std::make_shared<RankReduction>();
    reduction->rank = environment_.rank;
    reduction->world_size = environment_.world_size;
    reduction->sum = [this, number](at::Tensor& tensor) {
      const PurposeScope scope(*communicator_, "batch norm layer", number);
      communicator_->all_reduce_sum(tensor);
    };
    layer->synchronize(std::move(reduction));
    ++number;
  }
}

namespace {

// A broken connection is a consequence; who has failed tells the others, or their launcher does.
std::string lost_peer_text(RankRuntime& runtime, const LostPeerError& error) {
  constexpr std::chrono::seconds kNewsTime{2};
  const auto line =
      runtime.store() == nullptr ? std::nullopt : peer_failure(*runtime.store(), kNewsTime);
  return line ? concat("stopped, because ", *line) : error.what();
}

FailureCategory category_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const ConfigError&) {
    return FailureCategory::kConfig;
  } catch (const DataError&) {
    return FailureCategory::kData;
  } catch (const std::bad_alloc&) {
    return FailureCategory::kMemory;
  } catch (const c10::OutOfMemoryError&) {
    return FailureCategory::kMemory;
  } catch (const SystemError&) {
    return FailureCategory::kSystem;
  } catch (...) {
    return FailureCategory::kException;
  }
}

}  // namespace

int guard_rank(RankRuntime& runtime, const std::function<int()>& work) {
  Heartbeat& heartbeat = runtime.heartbeat();
  const auto fail = [&](FailureCategory category, const std::string& error, int status) {
    const RankEnvironment& environment = runtime.environment();
    const Beat beat = heartbeat.beat();
    const std::string line =
        concat("rank ", environment.rank, " (pid ", ::getpid(), ", host ", host_name(),
               ") failed: ", error, " in phase ", beat.phase, " at update ", beat.update);
    // Our launcher adds where and when by itself.
    log_error(environment.launcher == LauncherKind::kSpawn ? error : line);
    if (category != FailureCategory::kLostPeer) {
      runtime.tell_others(line);
    }
    report_failure(heartbeat, category, error);
    return status;
  };
  try {
    const int status = work();
    report_finished(heartbeat);
    return status;
  } catch (const StoppedAtStart& stop) {
    return report_stopped_early(heartbeat, stop.request());
  } catch (const ConfigError& error) {
    return fail(FailureCategory::kConfig, error.what(), 2);
  } catch (const DataError& error) {
    return fail(FailureCategory::kData, error.what(), 1);
  } catch (const RankFailureError& error) {
    if (error.cause() != nullptr) {
      heartbeat.set_phase(error.phase());  // not where this rank learnt that all know
      const FailureCategory category = category_of(error.cause());
      try {
        std::rethrow_exception(error.cause());
      } catch (const c10::OutOfMemoryError&) {
        return fail(category, runtime.exhaustion_text(error.what()), 1);
      } catch (...) {  // the report shows the stack of the exception that is being handled
        return fail(category, error.what(), category == FailureCategory::kConfig ? 2 : 1);
      }
    }
    report_failure(heartbeat, FailureCategory::kLostPeer,
                   concat("stopped together with rank ", error.rank()));
    return 1;
  } catch (const AgreedError& error) {
    if (runtime.is_main_rank()) {
      return fail(FailureCategory::kException, error.what(), 1);
    }
    report_failure(heartbeat, FailureCategory::kLostPeer, "stopped together with rank 0");
    return 1;
  } catch (const c10::OutOfMemoryError& error) {
    return fail(FailureCategory::kMemory, runtime.exhaustion_text(error.what_without_backtrace()),
                1);
  } catch (const LostPeerError& error) {
    return fail(FailureCategory::kLostPeer, lost_peer_text(runtime, error), 1);
  } catch (const std::bad_alloc&) {
    return fail(FailureCategory::kMemory, "out of memory on the host", 1);
  } catch (const SystemError& error) {
    return fail(FailureCategory::kSystem, error.what(), 1);
  } catch (const std::exception& error) {
    return fail(FailureCategory::kException, error.what(), 1);
  }
}

}  // namespace temper
