#include "recipe/machine_facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <system_error>

#include "temper/core/cpu_budget.h"
#include "temper/core/text.h"
#include "temper/launch/host_address.h"
#include "temper/recipe/versions.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  } else {
    return "";
  }
  const char* result = ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return result == nullptr ? "" : result;
}

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> result;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return result;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr) {
      if (std::string text = address_text(entry->ifa_addr); !text.empty()) {
        result.push_back({entry->ifa_name, std::move(text)});
      }
    }
  }
  return result;
}

Resolution resolve(const std::string& name) {
  Resolution result{.name = name};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = ::getaddrinfo(name.c_str(), nullptr, &hints, &list); code != 0) {
    result.error = ::gai_strerror(code);
    return result;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    result.addresses.push_back(address_text(entry->ai_addr));
  }
  return result;
}

DiskSpace disk_space(const fs::path& path) {
  DiskSpace space{.path = path.string()};
  struct statvfs values {};
  if (::statvfs(path.c_str(), &values) != 0) {
    space.error = std::generic_category().message(errno);
    return space;
  }
  space.total = static_cast<std::uint64_t>(values.f_blocks) * values.f_frsize;
  space.free = static_cast<std::uint64_t>(values.f_bavail) * values.f_frsize;
  space.is_writable = ::access(path.c_str(), W_OK) == 0;
  return space;
}

std::vector<ResourceLimit> resource_limits() {
  constexpr std::array<std::pair<const char*, __rlimit_resource_t>, 5> kLimits = {
      {{"nofile", RLIMIT_NOFILE},
       {"nproc", RLIMIT_NPROC},
       {"memlock", RLIMIT_MEMLOCK},
       {"core", RLIMIT_CORE},
       {"fsize", RLIMIT_FSIZE}}};
  const auto number = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value);
  };
  std::vector<ResourceLimit> limits;
  for (const auto& [name, resource] : kLimits) {
    rlimit values{};
    ::getrlimit(resource, &values);
    limits.push_back({name, number(values.rlim_cur), number(values.rlim_max)});
  }
  return limits;
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun ..." or its open form.
std::string driver_version(const fs::path& root) {
  std::ifstream file(root / "proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (!word.empty() && word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos) {
      return word;
    }
  }
  return "";
}

std::vector<std::pair<int, int>> pairs_out_of_reach(int gpus) {
  std::vector<std::pair<int, int>> pairs;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (int peer = gpu + 1; peer < gpus; ++peer) {
      if (!can_access_peer(gpu, peer)) {
        pairs.emplace_back(gpu, peer);
      }
    }
  }
  return pairs;
}

bool has_entries(const fs::path& folder) {
  std::error_code error;
  return fs::directory_iterator(folder, error) != fs::directory_iterator();
}

}  // namespace

EnvironmentVariables variables_that_matter(const EnvironmentVariables& variables) {
  constexpr std::array<std::string_view, 9> kPrefixes = {
      "CUDA_", "GLOO_", "GOMP_", "NCCL_", "OMPI_COMM_WORLD_", "OMP_", "PMI_", "TEMPER_", "TORCH_"};
  constexpr std::array<std::string_view, 24> kNames = {"GROUP_RANK",
                                                       "KMP_AFFINITY",
                                                       "LD_LIBRARY_PATH",
                                                       "LD_PRELOAD",
                                                       "LOCAL_RANK",
                                                       "LOCAL_WORLD_SIZE",
                                                       "MASTER_ADDR",
                                                       "MASTER_PORT",
                                                       "NVIDIA_VISIBLE_DEVICES",
                                                       "PYTORCH_ALLOC_CONF",
                                                       "PYTORCH_CUDA_ALLOC_CONF",
                                                       "RANK",
                                                       "SLURM_CPUS_PER_TASK",
                                                       "SLURM_JOB_ID",
                                                       "SLURM_JOB_NODELIST",
                                                       "SLURM_LOCALID",
                                                       "SLURM_NTASKS",
                                                       "SLURM_PROCID",
                                                       "SLURM_RESTART_COUNT",
                                                       "SLURM_STEP_ID",
                                                       "SLURM_STEP_NODELIST",
                                                       "SLURM_STEP_NUM_TASKS",
                                                       "SLURM_STEP_TASKS_PER_NODE",
                                                       "WORLD_SIZE"};
  EnvironmentVariables result;
  for (const auto& [name, value] : variables) {
    const bool by_prefix = std::any_of(kPrefixes.begin(), kPrefixes.end(),
                                       [&](auto prefix) { return name.starts_with(prefix); });
    if (by_prefix || std::find(kNames.begin(), kNames.end(), name) != kNames.end()) {
      result.emplace(name, value);
    }
  }
  return result;
}

MachineFacts gather_machine_facts(const EnvironmentVariables& variables, const fs::path& root) {
  const CpuBudget budget = cpu_budget();
  MachineFacts facts{.versions = versions(),
                     .host = host_name(),
                     .has_cuda_support = has_cuda_support(),
                     .driver = driver_version(root),
                     .driver_cuda = driver_cuda_version(),
                     .gpus = list_gpus(),
                     .cpus = budget.cpus,
                     .cpu_source = budget.source,
                     .memory = host_memory(root),
                     .limits = resource_limits(),
                     .shared_memory = disk_space(root / "dev/shm"),
                     .working_directory = disk_space(fs::current_path()),
                     .has_infiniband = has_entries(root / "sys/class/infiniband"),
                     .addresses = interface_addresses(),
                     .own_name = resolve(host_name()),
                     .variables = variables_that_matter(variables)};
  facts.gpus_out_of_reach = pairs_out_of_reach(static_cast<int>(facts.gpus.size()));
  if (const auto master = variables.find("MASTER_ADDR");
      master != variables.end() && !master->second.empty()) {
    facts.master = resolve(master->second);
  }
  return facts;
}

}  // namespace temper
