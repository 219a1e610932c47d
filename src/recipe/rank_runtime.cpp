#include "recipe/rank_runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "recipe/rank_places.h"
#include "temper/core/cpu_budget.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/dist/device.h"
#include "temper/launch/host_address.h"
#include "temper/launch/start_barrier.h"

namespace temper {
namespace {

constexpr std::chrono::seconds kParentGrace{60};
constexpr int kMostLoaderThreads = 16;

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
      signals_(second_interrupt(environment)),
      heartbeat_(Heartbeat::from_environment()),
      files_(environment_, heartbeat_),
      timeout_(config.distributed.timeout) {
  if (environment_.launcher != LauncherKind::kNone) {
    watchdog_.emplace(kParentGrace);
    line_buffer_output();
  }
  configure_log(parse_log_level(config.logging.level),
                environment_.world_size > 1 ? concat("rank ", environment_.rank) : "");
  heartbeat_.set("start", 0);
  choose_device(config);
  choose_threads(config, cpus);
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

void RankRuntime::choose_threads(const Config& config, std::optional<int> cpus) {
  const CpuBudget budget = cpu_budget();
  const int share = std::max(1, cpus.value_or(budget.cpus) / environment_.local_world_size);
  const bool gpu = placement_.device.is_cuda();
  threads_.loader = config.data.workers ? std::max(1, static_cast<int>(*config.data.workers))
                                        : (gpu ? std::clamp(share - 1, 1, kMostLoaderThreads) : 1);
  set_compute_threads(share);
}

void RankRuntime::set_compute_threads(int count) {
  threads_.compute = count;
  at::set_num_threads(count);
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
}

void RankRuntime::connect() {
  heartbeat_.set_phase("connect");
  const RankEnvironment& env = environment_;
  open_store();
  std::string address;
  if (!store_) {
    hosts_ = {own_rank_host(env.master_address)};
  } else {
    hosts_ = start_barrier(*store_, env.rank, env.world_size, timeout_);
    address = address_for_peers(hosts_, env.rank);
    log_debug("this rank gives its peers the address ", address);
  }
  show_places();
  communicator_ =
      make_communicator(store(), {.rank = env.rank,
                                  .world_size = env.world_size,
                                  .backend = backend_,
                                  .device_index = std::max<int>(0, placement_.device.index()),
                                  .timeout = timeout_,
                                  .address = address});
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

std::shared_ptr<const RankReduction> RankRuntime::rank_reduction() {
  if (environment_.world_size == 1) {
    return nullptr;
  }
  auto reduction = std::make_shared<RankReduction>();
  reduction->rank = environment_.rank;
  reduction->world_size = environment_.world_size;
  reduction->sum = [this](at::Tensor& tensor) { communicator_->all_reduce_sum(tensor); };
  return reduction;
}

int guard_rank(RankRuntime& runtime, const std::function<int()>& work) {
  Heartbeat& heartbeat = runtime.heartbeat();
  const auto fail = [&](FailureCategory category, const std::exception& error, int status) {
    const RankEnvironment& environment = runtime.environment();
    if (environment.launcher == LauncherKind::kSpawn) {
      log_error(error.what());  // the launcher adds where and when
    } else {
      const Beat beat = heartbeat.beat();
      log_error("rank ", environment.rank, " (pid ", ::getpid(), ", host ", host_name(),
                ") failed: ", error.what(), " in phase ", beat.phase, " at update ", beat.update);
    }
    report_failure(heartbeat, category, error.what());
    return status;
  };
  try {
    return work();
  } catch (const ConfigError& error) {
    return fail(FailureCategory::kConfig, error, 2);
  } catch (const DataError& error) {
    return fail(FailureCategory::kData, error, 1);
  } catch (const AgreedError& error) {
    if (runtime.is_main_rank()) {
      return fail(FailureCategory::kException, error, 1);
    }
    report_failure(heartbeat, FailureCategory::kLostPeer, "stopped together with rank 0");
    return 1;
  } catch (const LostPeerError& error) {
    return fail(FailureCategory::kLostPeer, error, 1);
  } catch (const std::exception& error) {
    return fail(FailureCategory::kException, error, 1);
  }
}

}  // namespace temper
