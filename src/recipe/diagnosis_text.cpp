#include <algorithm>
#include <nlohmann/json.hpp>

#include "recipe/machine_facts.h"
#include "temper/core/text.h"

namespace temper {
namespace {

std::string gibibytes(std::uint64_t bytes) {
  return concat(fixed(static_cast<double>(bytes) / (1 << 30), 2), " GiB");
}

std::string gibibytes(std::int64_t bytes) { return gibibytes(static_cast<std::uint64_t>(bytes)); }

std::string limit_text(const std::optional<std::uint64_t>& limit) {
  return limit ? std::to_string(*limit) : "unlimited";
}

// Lines of a name and a value, the values in one column.
class Lines {
 public:
  template <typename... Parts>
  void add(std::string_view name, const Parts&... parts) {
    constexpr std::size_t kColumn = 20;
    const std::size_t gap = name.size() < kColumn ? kColumn - name.size() : 1;
    text_ += concat(name, std::string(gap, ' '), parts..., "\n");
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_gpus(Lines& lines, const MachineFacts& facts) {
  lines.add("driver", facts.driver.empty() ? "none" : facts.driver,
            facts.driver_cuda.empty() ? "" : concat(", CUDA up to ", facts.driver_cuda));
  if (facts.gpus.empty()) {
    lines.add("GPUs", facts.has_cuda_support ? "none visible" : "not looked for (CPU build)");
  }
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuInfo& gpu = facts.gpus[i];
    lines.add(concat("GPU ", i), gpu.name, ", ", gpu.uuid, ", PCI ", gpu.pci_bus_id, ", ",
              gibibytes(gpu.memory_bytes), ", compute capability ", gpu.compute_capability / 10,
              ".", gpu.compute_capability % 10);
  }
}

void add_memory(Lines& lines, const MachineFacts& facts) {
  const HostMemory& memory = facts.memory;
  lines.add("memory", gibibytes(memory.available), " of ", gibibytes(memory.total), " available");
  lines.add("cgroup", "CPUs: ", facts.cpus, " (", facts.cpu_source, "); memory: ",
            memory.cgroup_limit ? concat(gibibytes(memory.cgroup_used), " of ",
                                         gibibytes(*memory.cgroup_limit), " used")
                                : "no limit");
  std::vector<std::string> limits;
  for (const ResourceLimit& limit : facts.limits) {
    limits.push_back(concat(limit.name, " ", limit_text(limit.soft)));
  }
  lines.add("ulimits", join(limits, ", "));
  for (const DiskSpace* space : {&facts.shared_memory, &facts.working_directory}) {
    lines.add(space == &facts.shared_memory ? "shared memory" : "working directory", space->path,
              ": ",
              space->error.empty() ? concat(gibibytes(space->free), " of ", gibibytes(space->total),
                                            " free", space->is_writable ? "" : ", not writable")
                                   : space->error);
  }
}

std::string resolution_text(const Resolution& resolution) {
  return concat(resolution.name, " -> ",
                resolution.error.empty() ? join(resolution.addresses, ", ") : resolution.error);
}

void add_network(Lines& lines, const MachineFacts& facts) {
  lines.add("host", resolution_text(facts.own_name));
  lines.add("MASTER_ADDR", facts.master ? resolution_text(*facts.master) : "not set");
  for (const InterfaceAddress& one : facts.addresses) {
    lines.add(concat("interface ", one.interface), one.address);
  }
  if (facts.has_infiniband) {
    lines.add("InfiniBand", "present");
  }
  for (const auto& [name, value] : facts.variables) {
    lines.add("variable", name, "=", value);
  }
}

std::string all_reduce_text(const AllReduceResult& result) {
  const std::string ranks = concat(result.ranks, " ranks over ", result.backend, ": ");
  if (!result.error.empty()) {
    return concat(ranks, "failed");
  }
  return concat(ranks, fixed(1e6 * result.latency_seconds, 0), " us for one number, ",
                fixed(result.bytes_per_second / 1e9, 2), " GB/s for ", result.bytes >> 20,
                " MiB, in ", fixed(result.seconds, 1), " s");
}

nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

nlohmann::ordered_json to_json(const Resolution& resolution) {
  return {{"name", resolution.name},
          {"addresses", resolution.addresses},
          {"error", or_null(resolution.error)}};
}

nlohmann::ordered_json to_json(const DiskSpace& space) {
  return {{"path", space.path},
          {"total_bytes", space.total},
          {"free_bytes", space.free},
          {"writable", space.is_writable}};
}

nlohmann::ordered_json gpus_json(const MachineFacts& facts) {
  auto gpus = nlohmann::ordered_json::array();
  for (const GpuInfo& gpu : facts.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"uuid", gpu.uuid},
                    {"pci", gpu.pci_bus_id},
                    {"memory_bytes", gpu.memory_bytes},
                    {"compute_capability", gpu.compute_capability / 10.0}});
  }
  return gpus;
}

nlohmann::ordered_json limits_json(const MachineFacts& facts) {
  nlohmann::ordered_json limits;
  const auto number = [](const std::optional<std::uint64_t>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  for (const ResourceLimit& limit : facts.limits) {
    limits[limit.name] = {{"soft", number(limit.soft)}, {"hard", number(limit.hard)}};
  }
  return limits;
}

nlohmann::ordered_json to_json(const AllReduceResult& result) {
  nlohmann::ordered_json document{{"ranks", result.ranks}, {"backend", result.backend}};
  if (result.error.empty()) {
    document["latency_microseconds"] = 1e6 * result.latency_seconds;
    document["bytes_per_second"] = result.bytes_per_second;
    document["bytes"] = result.bytes;
    document["seconds"] = result.seconds;
  }
  document["error"] = or_null(result.error);
  return document;
}

}  // namespace

std::string diagnosis_text(const MachineFacts& facts, const AllReduceResult& all_reduce,
                           const std::vector<Finding>& findings) {
  Lines lines;
  for (const auto& [name, version] : facts.versions) {
    lines.add(name, version);
  }
  lines.add("launcher", facts.launcher);
  add_gpus(lines, facts);
  add_memory(lines, facts);
  add_network(lines, facts);
  lines.add("all-reduce", all_reduce_text(all_reduce));
  std::string text = lines.text();
  for (const Finding& finding : findings) {
    text += concat(finding.is_problem ? "PROBLEM " : "note    ", finding.check, ": ", finding.text,
                   "\n");
  }
  const auto problems = std::count_if(findings.begin(), findings.end(),
                                      [](const Finding& finding) { return finding.is_problem; });
  return text + (problems == 0 ? "usable: no problem found\n"
                               : concat("not usable as it is: ", problems,
                                        problems == 1 ? " problem\n" : " problems\n"));
}

std::string diagnosis_json(const MachineFacts& facts, const AllReduceResult& all_reduce,
                           const std::vector<Finding>& findings) {
  nlohmann::ordered_json document;
  for (const auto& [name, version] : facts.versions) {
    document["versions"][name] = version;
  }
  document["host"] = to_json(facts.own_name);
  document["launcher"] = facts.launcher;
  document["driver"] = or_null(facts.driver);
  document["gpus"] = gpus_json(facts);
  document["cpus"] = {{"count", facts.cpus}, {"source", facts.cpu_source}};
  const HostMemory& memory = facts.memory;
  document["memory"] = {
      {"total_bytes", memory.total},
      {"available_bytes", memory.available},
      {"cgroup_limit_bytes", memory.cgroup_limit ? nlohmann::ordered_json(*memory.cgroup_limit)
                                                 : nlohmann::ordered_json()},
      {"cgroup_used_bytes", memory.cgroup_used}};
  document["limits"] = limits_json(facts);
  document["shared_memory"] = to_json(facts.shared_memory);
  document["working_directory"] = to_json(facts.working_directory);
  document["interfaces"] = nlohmann::ordered_json::array();
  for (const InterfaceAddress& one : facts.addresses) {
    document["interfaces"].push_back({{"interface", one.interface}, {"address", one.address}});
  }
  document["infiniband"] = facts.has_infiniband;
  document["master_address"] = facts.master ? to_json(*facts.master) : nlohmann::ordered_json();
  document["environment"] = facts.variables;
  document["all_reduce"] = to_json(all_reduce);
  document["findings"] = nlohmann::ordered_json::array();
  bool usable = true;
  for (const Finding& finding : findings) {
    document["findings"].push_back({{"severity", finding.is_problem ? "problem" : "note"},
                                    {"check", finding.check},
                                    {"text", finding.text}});
    usable = usable && !finding.is_problem;
  }
  document["usable"] = usable;
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace temper
