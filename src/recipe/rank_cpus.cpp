#include "recipe/rank_cpus.h"

#include <ATen/ops/zeros.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

constexpr std::chrono::milliseconds kPollInterval{500};

std::optional<std::uint64_t> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  std::string_view digits = text == nullptr ? "" : text;
  digits = digits.substr(0, digits.find(','));  // a list of OpenMP: the outermost level
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool good = !digits.empty() && error == std::errc() && end == digits.data() + digits.size();
  return good ? std::optional(value) : std::nullopt;
}

// torchrun sets 1 when the user has set nothing, which is not a wish.
std::optional<int> wished_compute_threads(const RankEnvironment& environment) {
  constexpr std::uint64_t kMost = 4096;
  const auto threads = number_from_environment("OMP_NUM_THREADS");
  const bool forced = threads == 1 && environment.local_world_size > 1 &&
                      std::getenv("TORCHELASTIC_RUN_ID") != nullptr;
  if (!threads || *threads == 0 || *threads > kMost || forced) {
    return std::nullopt;
  }
  return static_cast<int>(*threads);
}

bool is_slurm_task(const RankEnvironment& environment) {
  return number_from_environment("SLURM_STEP_NUM_TASKS") ==
             static_cast<std::uint64_t>(environment.world_size) &&
         number_from_environment("SLURM_LOCALID") ==
             static_cast<std::uint64_t>(environment.local_rank);
}

std::int64_t host_number() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return static_cast<std::int64_t>(std::hash<std::string_view>()(name.data()) >> 1U);
}

// What each rank tells the others, as a row of numbers.
constexpr std::int64_t kCoreWords = 16;
enum Column : std::int64_t { kHost, kLocalRank, kJob, kCores, kColumns = kCores + kCoreWords };

void set_cores(std::vector<std::int64_t>& row, const CpuList& cores) {
  for (const int core : cores) {
    if (core < kCoreWords * 64) {
      std::int64_t& word = row[static_cast<std::size_t>(kCores + core / 64)];
      word = static_cast<std::int64_t>(static_cast<std::uint64_t>(word) | std::uint64_t{1}
                                                                              << (core % 64));
    }
  }
}

CpuList read_cores(const std::array<std::uint64_t, kCoreWords>& words) {
  CpuList cores;
  for (int core = 0; core < kCoreWords * 64; ++core) {
    if ((words[static_cast<std::size_t>(core / 64)] >> (core % 64) & 1U) != 0) {
      cores.push_back(core);
    }
  }
  return cores;
}

// Adds rows that are zero but for the rank's own.
at::Tensor share_rows(Communicator& communicator, const std::vector<std::int64_t>& own) {
  at::Tensor rows =
      at::zeros({communicator.world_size(), static_cast<std::int64_t>(own.size())}, at::kLong);
  std::ranges::copy(own, rows.mutable_data_ptr<std::int64_t>() +
                             communicator.rank() * static_cast<std::int64_t>(own.size()));
  communicator.all_reduce_sum(rows);
  return rows;
}

// The rank that speaks for the host of `rank`. Hosts may share a name, as containers do: then the
// nearest before it, since launchers number the ranks of a host in a row.
std::int64_t leader_of(const at::Tensor& rows, std::int64_t rank) {
  const std::int64_t* values = rows.const_data_ptr<std::int64_t>();
  for (std::int64_t other = rank; other >= 0; --other) {
    if (values[other * kColumns + kLocalRank] == 0 &&
        values[other * kColumns + kHost] == values[rank * kColumns + kHost]) {
      return other;
    }
  }
  return rank;
}

CpuList cores_of_host(const at::Tensor& rows, std::int64_t leader) {
  const std::int64_t* values = rows.const_data_ptr<std::int64_t>();
  std::array<std::uint64_t, kCoreWords> words{};
  for (std::int64_t rank = 0; rank < rows.size(0); ++rank) {
    if (leader_of(rows, rank) == leader) {
      for (std::size_t word = 0; word < words.size(); ++word) {
        words[word] |= static_cast<std::uint64_t>(
            values[rank * kColumns + kCores + static_cast<std::int64_t>(word)]);
      }
    }
  }
  return read_cores(words);
}

// The average still holds what has ended, such as this run's previous attempt; the number of now
// holds the ranks that are starting.
void warn_of_load(int ranks) {
  const auto load = host_load();
  const auto cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (load && load->average > cores + 1 && load->running > cores + ranks) {
    log_warning("the host is busy: ", fixed(load->average, 1), " threads want its ", cores,
                " cores; this run will be slow beside them");
  }
}

}  // namespace

RankCpus::RankCpus(const RankEnvironment& environment, const Config& config,
                   std::optional<int> by_hand)
    : local_rank_(environment.local_rank),
      is_spawned_(environment.launcher == LauncherKind::kSpawn),
      slurm_cpus_(slurm_cpus(is_slurm_task(environment) ? environment.local_world_size : 1)) {
  wish_ = {.budget = cpu_budget({.slurm_cpus = slurm_cpus_}),
           .ranks = environment.local_world_size,
           .gpu = false,
           .by_hand = by_hand,
           .loader = std::nullopt,
           .compute = wished_compute_threads(environment)};
  if (config.data.workers) {
    wish_.loader = static_cast<int>(*config.data.workers);
  }
}

void RankCpus::join(bool gpu) {
  wish_.gpu = gpu;
  if (!is_leader()) {
    return;
  }
  if (const auto number = number_from_environment("TEMPER_JOB"); number && is_spawned_) {
    registration_ = std::make_unique<JobRegistration>(
        *number == 0 ? std::filesystem::path() : job_registry_folder(), *number);
    registration_->update(job_entry(wish_, std::nullopt));
  } else {
    registration_ =
        std::make_unique<JobRegistration>(job_registry_folder(), job_entry(wish_, std::nullopt));
  }
}

at::Tensor RankCpus::meet(Communicator& communicator) const {
  std::vector<std::int64_t> row(kColumns, 0);
  row[kHost] = host_number();
  row[kLocalRank] = local_rank_;
  row[kJob] = registration_ ? static_cast<std::int64_t>(registration_->number()) : 0;
  set_cores(row, wish_.budget.cores);
  return share_rows(communicator, row);
}

void RankCpus::choose(Communicator& communicator) {
  const at::Tensor rows = meet(communicator);
  const std::int64_t leader = leader_of(rows, communicator.rank());
  // Launchers may bind each rank to cores of its own.
  if (CpuList cores = cores_of_host(rows, leader); !cores.empty()) {
    wish_.budget = cpu_budget({.affinity = std::move(cores), .slurm_cpus = slurm_cpus_});
  }
  CpuShare share;
  std::vector<std::int64_t> own{0, 0};
  if (is_leader()) {
    share = share_cpus(wish_, registration_->others());
    own = {share.compute, share.loader};
  }
  const at::Tensor chosen = share_rows(communicator, own);
  const std::int64_t* values = chosen.const_data_ptr<std::int64_t>();
  std::int64_t compute = 0;
  for (std::int64_t rank = 0; rank < chosen.size(0); ++rank) {
    const std::int64_t threads = values[2 * rank];
    compute = threads > 0 && (compute == 0 || threads < compute) ? threads : compute;
  }
  share.compute = threads_.compute = static_cast<int>(std::max<std::int64_t>(1, compute));
  share.loader = threads_.loader =
      static_cast<int>(std::max<std::int64_t>(1, values[2 * leader + 1]));
  entry_ = job_entry(wish_, share);
  if (is_leader()) {
    registration_->update(entry_);
    announce(share, communicator);
  } else {
    const std::int64_t job = rows.const_data_ptr<std::int64_t>()[leader * kColumns + kJob];
    registration_ = std::make_unique<JobRegistration>(
        job == 0 ? std::filesystem::path() : job_registry_folder(),
        static_cast<std::uint64_t>(job));
  }
}

void RankCpus::announce(const CpuShare& share, Communicator& communicator) const {
  const auto threads = [](int count, const char* kind) {
    return concat(count, " ", kind, count == 1 ? " thread" : " threads");
  };
  const std::string processes =
      wish_.ranks == 1 ? "one process" : concat(wish_.ranks, " processes, each");
  if (communicator.is_main_rank()) {
    log_info("CPU budget of this host: ", share.cpus, " of ", wish_.budget.cores.size(),
             " cores (decided by: ", share.source, "); ", processes, " with ",
             threads(share.compute, "compute"), " and ", threads(share.loader, "loader"));
  }
  if (share.crowded) {
    log_warning(
        "more threads than cores, which slow each other down: of other Temper jobs on this "
        "host, or asked for by --cpus, data.workers or OMP_NUM_THREADS");
  }
  warn_of_load(wish_.ranks);
}

void RankCpus::keep_compute(int count) {
  if (count != threads_.compute && is_leader()) {
    log_info("compute threads a process: ", count, ", as the checkpoint records; a new run would ",
             "take ", threads_.compute, " here");
  }
  threads_.compute = entry_.compute = count;
  if (is_leader()) {
    registration_->update(entry_);
  }
}

int RankCpus::loader_now(std::size_t& jobs) {
  if (is_leader()) {
    registration_->keep_listed();
  }
  const std::vector<JobEntry> others = registration_->others();
  jobs = others.size();
  return loader_threads(entry_, others);
}

LoaderWatch::LoaderWatch(RankCpus& cpus, std::vector<Loader*> loaders)
    : cpus_(cpus), loaders_(std::move(loaders)), threads_(cpus.threads().loader) {
  look();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigdelset(&all, SIGQUIT);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the main thread's business
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "temper-jobs");
    watch();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LoaderWatch::~LoaderWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  end_.notify_all();
  thread_.join();
}

void LoaderWatch::watch() {
  std::unique_lock lock(mutex_);
  try {
    while (!end_.wait_for(lock, kPollInterval, [this] { return ending_; })) {
      look();
    }
  } catch (const std::exception& error) {
    log_warning("the loader threads no longer follow other jobs on this host: ", error.what());
  }
}

void LoaderWatch::look() {
  std::size_t jobs = 0;
  const int threads = cpus_.loader_now(jobs);
  if (threads == threads_) {
    return;
  }
  for (Loader* loader : loaders_) {
    loader->set_threads(threads);
  }
  if (cpus_.is_leader()) {
    log_info("loader threads a process: ", threads_, " -> ", threads, "; ", jobs,
             jobs == 1 ? " other Temper job runs" : " other Temper jobs run",
             " on this host (compute threads stay at ", cpus_.threads().compute, ")");
  }
  threads_ = threads;
}

}  // namespace temper
