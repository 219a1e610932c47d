#include <algorithm>

#include "recipe/machine_facts.h"
#include "temper/core/error.h"
#include "temper/core/units.h"
#include "temper/recipe/memory_report.h"

namespace temper {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::string in_mib(std::uint64_t bytes) { return concat(bytes / kMiB, " MiB"); }

class Judge {
 public:
  Judge(const MachineFacts& facts, const AllReduceResult& all_reduce)
      : facts_(facts), all_reduce_(all_reduce) {}

  std::vector<Finding> findings() {
    environment();
    gpus();
    memory();
    limits();
    disk();
    network();
    all_reduce();
    return std::move(findings_);
  }

 private:
  template <typename... Parts>
  void problem(const char* check, const Parts&... parts) {
    findings_.push_back({true, check, concat(parts...)});
  }
  template <typename... Parts>
  void remark(const char* check, const Parts&... parts) {
    findings_.push_back({false, check, concat(parts...)});
  }

  void environment() {
    if (!facts_.environment_error.empty()) {
      problem("launcher", facts_.environment_error);
    }
    if (facts_.processes > facts_.cpus) {
      remark("cpus", facts_.processes, " processes share ", facts_.cpus, " CPU cores (",
             facts_.cpu_source, "): they wait for each other; lower --nproc or ask for more cores");
    }
    if (const auto disabled = facts_.variables.find("NCCL_P2P_DISABLE");
        disabled != facts_.variables.end() && disabled->second == "1") {
      remark("gpus", "NCCL_P2P_DISABLE=1 sends everything between GPUs through host memory");
    }
  }

  void gpus() {
    if (!facts_.has_cuda_support && !facts_.driver.empty()) {
      remark("gpus", "this machine has NVIDIA's driver ", facts_.driver,
             ", this build has no CUDA: build the preset cuda to use the GPUs");
    }
    if (facts_.has_cuda_support && facts_.gpus.empty()) {
      if (facts_.driver.empty()) {
        remark("gpus",
               "no NVIDIA driver is loaded: ranks train on the CPU; in a container, start "
               "it with access to the GPUs");
      } else {
        problem("gpus", "the driver ", facts_.driver, " is loaded, but no GPU is visible",
                facts_.variables.contains("CUDA_VISIBLE_DEVICES")
                    ? ": CUDA_VISIBLE_DEVICES hides them"
                    : ": the driver may be older than CUDA 13 needs (580), or this container or "
                      "job was given none");
      }
    }
    for (const auto& [gpu, peer] : facts_.gpus_out_of_reach) {
      remark("gpus", "GPUs ", gpu, " and ", peer,
             " do not reach each other's memory directly, NCCL takes the way through the host; "
             "where NVLink or PCIe should allow it, look at `nvidia-smi topo -p2p r` and turn off "
             "ACS or the IOMMU of the host; if NCCL hangs, set NCCL_P2P_DISABLE=1");
    }
  }

  void memory() {
    try {
      const std::string warning = check_host_memory(facts_.processes, 0, facts_.memory);
      if (!warning.empty()) {
        remark("memory", warning);
      }
    } catch (const ConfigError& error) {
      problem("memory", error.what());
    }
    const bool several = facts_.processes > 1 && !facts_.gpus.empty();
    if (!facts_.shared_memory.error.empty()) {
      several ? problem("shared memory", "/dev/shm: ", facts_.shared_memory.error,
                        "; NCCL needs it between the GPUs of a host")
              : remark("shared memory", "/dev/shm: ", facts_.shared_memory.error);
    } else if (facts_.shared_memory.total <= 64 * kMiB) {
      const std::string text =
          concat("/dev/shm has ", in_mib(facts_.shared_memory.total),
                 ", the default of a container: NCCL ends with a bus error when it is full; start "
                 "the container with --shm-size=1g or --ipc=host");
      several ? problem("shared memory", text) : remark("shared memory", text);
    }
  }

  [[nodiscard]] const ResourceLimit* limit(std::string_view name) const {
    const auto found = std::find_if(facts_.limits.begin(), facts_.limits.end(),
                                    [&](const ResourceLimit& one) { return one.name == name; });
    return found == facts_.limits.end() ? nullptr : &*found;
  }

  void limits() {
    constexpr std::uint64_t kFewFiles = 128;
    constexpr std::uint64_t kFilesPerRank = 64;
    if (const ResourceLimit* files = limit("nofile"); files != nullptr && files->soft) {
      const std::uint64_t wanted =
          std::max(kFewFiles, kFilesPerRank * static_cast<std::uint64_t>(facts_.processes));
      if (*files->soft < wanted) {
        problem("limits", "only ", *files->soft, " open files are allowed, ", wanted,
                " are wanted: raise `ulimit -n`");
      }
    }
    if (const ResourceLimit* size = limit("fsize"); size != nullptr && size->soft) {
      remark("limits", "files may have ", in_mib(*size->soft),
             " at most: a larger checkpoint cannot be written; raise `ulimit -f`");
    }
    if (const ResourceLimit* locked = limit("memlock");
        facts_.has_infiniband && locked != nullptr && locked->soft) {
      remark("limits", "only ", in_mib(*locked->soft),
             " may be locked in memory: NCCL over InfiniBand needs `ulimit -l unlimited`");
    }
  }

  void disk() {
    const DiskSpace& here = facts_.working_directory;
    if (!here.error.empty()) {
      problem("disk", here.path, ": ", here.error);
    } else if (!here.is_writable) {
      remark("disk", here.path,
             " is not writable: name another folder with --run-dir or run.output");
    } else if (here.free < kGiB) {
      remark("disk", here.path, " has ", in_mib(here.free),
             " free: checkpoints and logs may not fit");
    }
  }

  void network() {
    const auto is_loopback = [](const std::string& address) {
      return address == "::1" || address.starts_with("127.");
    };
    const auto check = [&](const Resolution& name, const char* what, bool is_needed) {
      const bool loops = !name.addresses.empty() &&
                         std::all_of(name.addresses.begin(), name.addresses.end(), is_loopback);
      if (!name.error.empty()) {
        findings_.push_back({is_needed, "network",
                             concat(what, " ", name.name, " does not resolve: ", name.error,
                                    "; the ranks of other hosts cannot find it")});
      } else if (loops && facts_.nodes > 1) {
        problem("network", what, " ", name.name, " resolves to ", join(name.addresses, ", "),
                " alone, which other hosts cannot reach: correct /etc/hosts");
      } else if (loops && name.name != "localhost" && !is_loopback(name.name)) {
        remark("network", what, " ", name.name, " resolves to ", join(name.addresses, ", "),
               " alone: right for one host, no good with several; see /etc/hosts");
      }
    };
    check(facts_.own_name, "the host's name", facts_.nodes > 1);
    if (facts_.master) {
      check(*facts_.master, "MASTER_ADDR", true);
    }
  }

  void all_reduce() {
    if (all_reduce_.error.empty()) {
      return;
    }
    problem("all-reduce", all_reduce_.ranks, " ranks over ", all_reduce_.backend, ": ",
            all_reduce_.error,
            all_reduce_.backend == "nccl"
                ? "; run again with NCCL_DEBUG=INFO; with NCCL_P2P_DISABLE=1 it works when the "
                  "direct path between GPUs is at fault (ACS, IOMMU)"
                : "; the ranks of a host meet over the loopback interface: is it up, and does a "
                  "firewall let it through?");
  }

  const MachineFacts& facts_;
  const AllReduceResult& all_reduce_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> judge(const MachineFacts& facts, const AllReduceResult& all_reduce) {
  return Judge(facts, all_reduce).findings();
}

}  // namespace temper
