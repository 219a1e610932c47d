#include "recipe/rank_places.h"

#include <nlohmann/json.hpp>

#include "temper/core/cpu_budget.h"
#include "temper/core/error.h"
#include "temper/launch/host_address.h"

namespace temper {
namespace {

using std::chrono::milliseconds;

std::string place_key(int rank) { return concat("place/", rank); }

std::string encode(const RankPlace& place) {
  nlohmann::json document{
      {"rank", place.rank}, {"host", place.host}, {"cpus", place.cpus}, {"device", place.device}};
  if (place.gpu) {
    document["gpu"] = {{"name", place.gpu->name},
                       {"uuid", place.gpu->uuid},
                       {"pci", place.gpu->pci_bus_id},
                       {"memory", place.gpu->memory_bytes}};
  }
  if (place.numa_node) {
    document["numa"] = *place.numa_node;
  }
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankPlace decode(const std::string& text) {
  const auto document = nlohmann::json::parse(text);
  RankPlace place{.rank = document.at("rank"),
                  .host = document.at("host"),
                  .cpus = document.at("cpus"),
                  .device = document.at("device")};
  if (const auto gpu = document.find("gpu"); gpu != document.end()) {
    place.gpu = GpuInfo{.name = gpu->at("name"),
                        .uuid = gpu->at("uuid"),
                        .pci_bus_id = gpu->at("pci"),
                        .memory_bytes = gpu->at("memory")};
  }
  if (const auto numa = document.find("numa"); numa != document.end()) {
    place.numa_node = numa->get<int>();
  }
  return place;
}

}  // namespace

RankPlace own_place(int rank, std::optional<int> device) {
  RankPlace place{.rank = rank, .host = host_name(), .cpus = to_text(cpu_budget().cores)};
  if (device) {
    place.device = *device;
    place.gpu = list_gpus().at(static_cast<std::size_t>(*device));
    place.numa_node = numa_node_of(place.gpu->pci_bus_id);
  }
  return place;
}

std::vector<RankPlace> planned_places(int processes, const GpuSelection& gpus) {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < processes; ++rank) {
    RankPlace place = own_place(rank, std::nullopt);
    if (const auto index = static_cast<std::size_t>(rank); index < gpus.gpus.size()) {
      place.gpu = gpus.gpus[index];
      place.device = gpus.visible_device_of_rank.empty() ? rank : 0;
      place.numa_node = numa_node_of(place.gpu->pci_bus_id);
    }
    places.push_back(std::move(place));
  }
  return places;
}

std::vector<RankPlace> share_places(Store& store, const RankPlace& own, int world_size,
                                    milliseconds timeout) {
  constexpr const char* kVerdict = "place/verdict";
  store.set(place_key(own.rank), encode(own));
  std::vector<RankPlace> places;
  if (own.rank == 0) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < world_size; ++rank) {
      keys.push_back(place_key(rank));
    }
    if (!store.wait(keys, timeout)) {
      throw std::runtime_error("a rank has ended before it told where it runs");
    }
    for (const std::string& key : keys) {
      places.push_back(decode(store.get(key)));
    }
    store.set(kVerdict, shared_gpu_problem(places));
  }
  const std::vector<std::string> verdict = {kVerdict};
  if (!store.wait(verdict, timeout)) {
    throw std::runtime_error("rank 0 has ended before it had seen the places of all ranks");
  }
  if (const std::string problem = store.get(kVerdict); !problem.empty()) {
    throw ConfigError(problem);
  }
  return places;
}

}  // namespace temper
