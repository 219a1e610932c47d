#include "temper/recipe/placement.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>

#include "temper/core/error.h"

namespace temper {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return result;
}

bool is_slice(std::string_view entry) { return lower(entry).starts_with("mig-"); }

bool is_uuid(std::string_view entry) { return is_slice(entry) || lower(entry).starts_with("gpu-"); }

std::optional<std::size_t> number_of(std::string_view entry) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error != std::errc() || end != entry.data() + entry.size()) {
    return std::nullopt;
  }
  return number;
}

std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries = split(list, ',');
  for (std::string& entry : entries) {
    entry = std::string(trim(entry));
  }
  return entries;
}

std::string there_is(std::span<const GpuInfo> gpus) {
  if (gpus.empty()) {
    return has_cuda_support() ? "no GPU is visible" : "no GPU: this build has no CUDA";
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    lines.push_back(concat(i, " ", gpus[i].name, gpus[i].name.empty() ? "" : " ", gpus[i].uuid));
  }
  return concat("visible: ", join(lines, ", "));
}

[[noreturn]] void refuse(std::string_view entry, std::string_view what,
                         std::span<const GpuInfo> gpus) {
  throw ConfigError(concat("--gpus: '", entry, "' ", what, "; ", there_is(gpus)));
}

std::size_t find_uuid(std::string_view entry, std::span<const GpuInfo> gpus) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (lower(gpus[i].uuid).starts_with(lower(entry))) {
      if (found) {
        refuse(entry, "is the beginning of more than one UUID", gpus);
      }
      found = i;
    }
  }
  if (!found) {
    refuse(entry, "is the UUID of no visible GPU", gpus);
  }
  return *found;
}

std::size_t find_entry(std::string_view entry, std::span<const GpuInfo> gpus) {
  if (is_uuid(entry)) {
    return find_uuid(entry, gpus);
  }
  const auto number = number_of(entry);
  if (!number) {
    refuse(entry, "is neither a number nor a UUID (GPU-... or MIG-...)", gpus);
  }
  if (*number >= gpus.size()) {
    refuse(entry,
           "is no visible GPU; numbers begin at 0 and count what CUDA_VISIBLE_DEVICES leaves",
           gpus);
  }
  return *number;
}

std::vector<GpuInfo> pick(std::string_view choice, std::span<const GpuInfo> gpus) {
  if (choice == "all") {
    return {gpus.begin(), gpus.end()};
  }
  std::vector<std::size_t> taken;
  std::vector<GpuInfo> result;
  for (const std::string& entry : entries_of(choice)) {
    const std::size_t index = find_entry(entry, gpus);
    if (std::find(taken.begin(), taken.end(), index) != taken.end()) {
      refuse(entry, "names a GPU for the second time", gpus);
    }
    taken.push_back(index);
    result.push_back(gpus[index]);
  }
  return result;
}

// CUDA shows a process one slice at most: those that the variable or the choice names are taken at
// their word.
std::vector<GpuInfo> slices_of(std::string_view list) {
  std::vector<GpuInfo> slices;
  for (const std::string& entry : entries_of(list)) {
    if (is_slice(entry)) {
      slices.push_back({.uuid = entry});
    }
  }
  return slices;
}

GpuSelection select_slices(std::string_view choice, std::span<const GpuInfo> known) {
  GpuSelection selection{.gpus = pick(choice, known)};
  for (const GpuInfo& gpu : selection.gpus) {
    selection.visible_device_of_rank.push_back(gpu.uuid);
  }
  return selection;
}

void warn_of_hidden(GpuSelection& selection, const std::string& variable, std::size_t visible) {
  const std::size_t named = variable.empty() ? 0 : entries_of(variable).size();
  if (visible < named && variable != "-1") {
    selection.warnings.push_back(
        concat("CUDA_VISIBLE_DEVICES=", variable, " names ", named, " GPUs, CUDA shows ", visible,
               ": an entry names none or one twice, and CUDA leaves out what follows it"));
  }
}

}  // namespace

GpuSelection select_gpus(std::string_view choice, const std::string* variable,
                         std::span<const GpuInfo> visible) {
  if (variable != nullptr && is_slice(*variable)) {
    return select_slices(choice, slices_of(*variable));
  }
  const std::vector<GpuInfo> asked_slices = slices_of(choice);
  if (!asked_slices.empty()) {
    if (asked_slices.size() != entries_of(choice).size() || variable != nullptr) {
      throw ConfigError(concat("--gpus ", choice, ": ",
                               variable != nullptr
                                   ? "CUDA_VISIBLE_DEVICES hides MIG slices; name them there"
                                   : "MIG slices and whole GPUs do not go together"));
    }
    return select_slices(choice, asked_slices);
  }
  GpuSelection selection{.gpus = pick(choice, visible)};
  if (variable != nullptr) {
    warn_of_hidden(selection, *variable, visible.size());
  }
  if (choice != "all") {
    std::vector<std::string> uuids;
    for (const GpuInfo& gpu : selection.gpus) {
      uuids.push_back(gpu.uuid);
    }
    selection.visible_devices = join(uuids, ",");
  }
  return selection;
}

void require_gpu_for_each(int processes, const GpuSelection& selection) {
  const std::size_t gpus = selection.gpus.size();
  if (gpus > 0 && static_cast<std::size_t>(processes) > gpus) {
    throw ConfigError(concat("--nproc ", processes, ": rank ", gpus, " has no GPU, ", gpus,
                             gpus == 1 ? " is" : " are",
                             " selected and two ranks cannot share one; start at most ", gpus,
                             " with --nproc, select more with --gpus, or set "
                             "distributed.backend=gloo to train on the CPU"));
  }
}

int choose_gpu(const RankEnvironment& environment, int visible, bool slice) {
  require(visible > 0, "there is no GPU to choose");
  if (visible == 1 && (slice || environment.launcher != LauncherKind::kSpawn)) {
    return 0;
  }
  if (environment.local_rank >= visible) {
    throw ConfigError(concat("local rank ", environment.local_rank,
                             " has no GPU, visible: ", visible,
                             "; start fewer processes on a host, show each its GPU, or "
                             "set distributed.backend=gloo to train on the CPU"));
  }
  return environment.local_rank;
}

std::string hidden_peers_warning(const RankEnvironment& environment, int visible, bool slice) {
  if (visible != 1 || slice || environment.local_world_size == 1 ||
      environment.launcher == LauncherKind::kSpawn) {
    return "";
  }
  return "each rank sees its own GPU alone, so NCCL may not use the direct paths between the GPUs "
         "of a host; with Slurm ask for --gpus-per-node instead of --gpus-per-task, or give srun "
         "--gpu-bind=none";
}

std::string shared_gpu_problem(std::span<const RankPlace> places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = 0; j < i && places[i].gpu; ++j) {
      if (places[j].gpu && places[j].gpu->uuid == places[i].gpu->uuid) {
        return concat("rank ", places[j].rank, " on ", places[j].host, " and rank ", places[i].rank,
                      " on ", places[i].host, " have the same GPU, ", places[i].gpu->uuid, " (PCI ",
                      places[i].gpu->pci_bus_id,
                      "): show each rank all GPUs of its host or one of its own, check "
                      "CUDA_VISIBLE_DEVICES, or start fewer ranks on a host");
      }
    }
  }
  return "";
}

std::string placement_table(std::span<const RankPlace> places) {
  const bool gpus = std::any_of(places.begin(), places.end(),
                                [](const RankPlace& place) { return place.gpu.has_value(); });
  std::vector<std::vector<std::string>> rows{{"rank", "host"}};
  if (gpus) {
    rows[0].insert(rows[0].end(), {"GPU", "name", "UUID", "PCI", "NUMA"});
  }
  rows[0].emplace_back("CPUs");
  for (const RankPlace& place : places) {
    std::vector<std::string> row{std::to_string(place.rank), place.host};
    if (gpus && place.gpu) {
      row.insert(row.end(),
                 {concat("cuda:", place.device), place.gpu->name, place.gpu->uuid,
                  place.gpu->pci_bus_id, place.numa_node ? std::to_string(*place.numa_node) : "-"});
    } else if (gpus) {
      row.insert(row.end(), {"cpu", "-", "-", "-", "-"});
    }
    row.push_back(place.cpus);
    rows.push_back(std::move(row));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t column = 0; column < row.size(); ++column) {
      std::size_t width = 0;
      for (const auto& other : rows) {
        width = std::max(width, other[column].size());
      }
      line += concat(" ", row[column], std::string(width - row[column].size() + 1, ' '));
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string number_ranges(std::span<const int> numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    text += concat(text.empty() ? "" : ",", numbers[first]);
    if (last > first) {
      text += concat("-", numbers[last]);
    }
    first = last + 1;
  }
  return text;
}

std::optional<int> numa_node_of(const std::string& pci_bus_id, const std::filesystem::path& root) {
  std::ifstream file(root / "sys/bus/pci/devices" / lower(pci_bus_id) / "numa_node");
  int node = -1;
  if (file >> node && node >= 0) {
    return node;
  }
  return std::nullopt;
}

}  // namespace temper
