#include "recipe/rank_runtime.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "temper/core/cpu_budget.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/dist/device.h"
#include "temper/dist/rank_failure.h"
#include "temper/launch/start_barrier.h"

namespace temper {
namespace {

constexpr std::chrono::seconds kParentGrace{60};
constexpr int kMostLoaderThreads = 16;

SecondInterrupt second_interrupt(const RankEnvironment& environment) {
  return environment.launcher == LauncherKind::kNone ? SecondInterrupt::kExit
                                                     : SecondInterrupt::kIgnore;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    throw_errno("cannot read the host's name");
  }
  return name.data();
}

// Through which the other ranks reach this host: the loopback device among ranks of one host.
std::string own_address(const std::string& master_address) {
  return master_address == "localhost" || master_address.starts_with("127.") ? "127.0.0.1"
                                                                             : host_name();
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
      timeout_(config.distributed.timeout),
      check_collectives_(config.distributed.check_collectives) {
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
  // A scheduler may show each task its own GPU alone, which is then number 0; our launcher shows
  // all.
  const bool own_gpu_alone = gpus == 1 && environment_.launcher != LauncherKind::kSpawn;
  if (!own_gpu_alone && environment_.local_rank >= gpus) {
    throw ConfigError(concat("local rank ", environment_.local_rank, " has no GPU, visible: ", gpus,
                             "; start fewer processes with --nproc, or set "
                             "distributed.backend=gloo to train on the CPU"));
  }
  if (config.run.deterministic) {
    use_deterministic_kernels();
  }
  const int index = gpus == 1 ? 0 : environment_.local_rank;
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

void RankRuntime::connect() {
  heartbeat_.set_phase("connect");
  const RankEnvironment& env = environment_;
  if (env.world_size > 1) {
    if (env.store_is_hosted || env.rank != 0) {
      store_ = Store::connect(env.master_address, env.master_port, timeout_);
    } else {
      store_ = Store::host({.address = env.master_address,
                            .port = env.master_port,
                            .world_size = env.world_size,
                            .timeout = timeout_,
                            .listening_descriptor = std::nullopt});
    }
    start_barrier(*store_, env.rank, env.world_size, timeout_);
  }
  communicator_ =
      make_communicator(store(), {.rank = env.rank,
                                  .world_size = env.world_size,
                                  .backend = backend_,
                                  .device_index = std::max<int>(0, placement_.device.index()),
                                  .timeout = timeout_,
                                  .address = own_address(env.master_address),
                                  .check_collectives = check_collectives_});
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

FailureCategory category_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const ConfigError&) {
    return FailureCategory::kConfig;
  } catch (const DataError&) {
    return FailureCategory::kData;
  } catch (...) {
    return FailureCategory::kException;
  }
}

}  // namespace

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
  } catch (const RankFailureError& error) {
    if (error.cause() != nullptr) {
      heartbeat.set_phase(error.phase());  // not where this rank learnt that all know
      const FailureCategory category = category_of(error.cause());
      return fail(category, error, category == FailureCategory::kConfig ? 2 : 1);
    }
    report_failure(heartbeat, FailureCategory::kLostPeer,
                   concat("stopped together with rank ", error.rank()));
    return 1;
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
