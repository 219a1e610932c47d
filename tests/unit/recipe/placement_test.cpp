#include "temper/recipe/placement.h"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "recipe/rank_places.h"
#include "support/scratch_folder.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<GpuInfo>& four_gpus() {
  static const std::vector<GpuInfo> gpus{
      {.name = "H200", .uuid = "GPU-aaaa1111", .pci_bus_id = "0000:1A:00.0"},
      {.name = "H200", .uuid = "GPU-aaaa2222", .pci_bus_id = "0000:1B:00.0"},
      {.name = "H200", .uuid = "GPU-bbbb3333", .pci_bus_id = "0000:9A:00.0"},
      {.name = "A10", .uuid = "GPU-cccc4444", .pci_bus_id = "0000:9B:00.0"},
  };
  return gpus;
}

std::vector<std::string> uuids(const GpuSelection& selection) {
  std::vector<std::string> result;
  for (const GpuInfo& gpu : selection.gpus) {
    result.push_back(gpu.uuid);
  }
  return result;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string selection_error(const std::string& choice,
                            std::optional<std::string> variable = std::nullopt) {
  return error_of([&] {
    static_cast<void>(select_gpus(choice, variable ? &*variable : nullptr, four_gpus()));
  });
}

TEST(SelectGpus, AllLeavesTheVariableAlone) {
  const GpuSelection selection = select_gpus("all", nullptr, four_gpus());
  EXPECT_EQ(selection.gpus.size(), 4U);
  EXPECT_EQ(selection.visible_devices, "");
  EXPECT_THAT(selection.visible_device_of_rank, IsEmpty());
  EXPECT_THAT(selection.warnings, IsEmpty());
}

TEST(SelectGpus, NumbersAreHandedOnAsUuidsInTheirOrder) {
  const GpuSelection selection = select_gpus("2, 0", nullptr, four_gpus());
  EXPECT_THAT(uuids(selection), ElementsAre("GPU-bbbb3333", "GPU-aaaa1111"));
  EXPECT_EQ(selection.visible_devices, "GPU-bbbb3333,GPU-aaaa1111");
}

TEST(SelectGpus, NumbersCountWhatTheVariableLeaves) {
  const std::string variable = "3,1";  // CUDA shows these two, in this order
  const std::array visible = {four_gpus()[3], four_gpus()[1]};
  EXPECT_THAT(uuids(select_gpus("1", &variable, visible)), ElementsAre("GPU-aaaa2222"));
  EXPECT_THAT(error_of([&] { static_cast<void>(select_gpus("2", &variable, visible)); }),
              HasSubstr("'2' is no visible GPU"));
}

TEST(SelectGpus, TakesBeginningsOfUuidsThatAreUnique) {
  EXPECT_THAT(uuids(select_gpus("GPU-b,gpu-CCCC4444", nullptr, four_gpus())),
              ElementsAre("GPU-bbbb3333", "GPU-cccc4444"));
  EXPECT_THAT(selection_error("GPU-aaaa"), HasSubstr("more than one UUID"));
  EXPECT_THAT(selection_error("GPU-d"), HasSubstr("no visible GPU; visible: 0 H200 GPU-aaaa1111"));
}

TEST(SelectGpus, RefusesWhatNamesNoGpuOrOneTwice) {
  EXPECT_THAT(selection_error("4"), HasSubstr("'4' is no visible GPU"));
  EXPECT_THAT(selection_error("0,"), HasSubstr("'' is neither a number nor a UUID"));
  EXPECT_THAT(selection_error("-1"), HasSubstr("neither"));
  EXPECT_THAT(selection_error("1x"), HasSubstr("neither"));
  EXPECT_THAT(selection_error("1,GPU-aaaa2"), HasSubstr("second time"));
}

TEST(SelectGpus, NamesTheReasonWhereNothingIsVisible) {
  EXPECT_THAT(error_of([] { static_cast<void>(select_gpus("0", nullptr, {})); }),
              HasSubstr("no GPU"));
  EXPECT_THAT(select_gpus("all", nullptr, {}).gpus, IsEmpty());
}

TEST(SelectGpus, WarnsOfEntriesThatCudaLeftOut) {
  const std::string variable = "0,9,1";  // CUDA stops at the 9
  const GpuSelection selection = select_gpus("all", &variable, std::span(four_gpus()).first(1));
  ASSERT_EQ(selection.warnings.size(), 1U);
  EXPECT_THAT(selection.warnings[0], HasSubstr("names 3 GPUs, CUDA shows 1"));
  for (const std::string hidden : {"", "-1"}) {
    EXPECT_THAT(select_gpus("all", &hidden, {}).warnings, IsEmpty()) << hidden;
  }
}

TEST(SelectGpus, HandsMigSlicesOutOneByOne) {
  // A process sees one of them at most, so CUDA's list is no help.
  const std::string variable = "MIG-1,MIG-2";
  const GpuSelection all = select_gpus("all", &variable, std::span(four_gpus()).first(1));
  EXPECT_THAT(all.visible_device_of_rank, ElementsAre("MIG-1", "MIG-2"));
  EXPECT_EQ(all.gpus.size(), 2U);
  EXPECT_THAT(select_gpus("1", &variable, {}).visible_device_of_rank, ElementsAre("MIG-2"));
  EXPECT_THAT(error_of([&] { static_cast<void>(select_gpus("MIG-3", &variable, {})); }),
              HasSubstr("visible: 0 MIG-1, 1 MIG-2"));
  EXPECT_THAT(select_gpus("MIG-7,MIG-8", nullptr, four_gpus()).visible_device_of_rank,
              ElementsAre("MIG-7", "MIG-8"));
  EXPECT_THAT(selection_error("MIG-7,0"), HasSubstr("do not go together"));
  EXPECT_THAT(selection_error("MIG-7", "0,1"), HasSubstr("CUDA_VISIBLE_DEVICES hides"));
}

TEST(Placement, RefusesMoreRanksThanGpus) {
  const GpuSelection two = select_gpus("0,1", nullptr, four_gpus());
  EXPECT_NO_THROW(require_gpu_for_each(2, two));
  EXPECT_THAT(error_of([&] { require_gpu_for_each(3, two); }),
              testing::AllOf(HasSubstr("rank 2 has no GPU"), HasSubstr("at most 2 with --nproc")));
  EXPECT_NO_THROW(require_gpu_for_each(3, {})) << "on the CPU";
}

RankEnvironment local_rank(int rank, int local_world_size, LauncherKind launcher) {
  return {.local_rank = rank, .local_world_size = local_world_size, .launcher = launcher};
}

TEST(Placement, EachRankTakesTheGpuOfItsNumber) {
  for (const LauncherKind launcher : {LauncherKind::kSpawn, LauncherKind::kTorchrun}) {
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(choose_gpu(local_rank(rank, 4, launcher), 4), rank);
    }
    EXPECT_THAT(error_of([&] { static_cast<void>(choose_gpu(local_rank(2, 3, launcher), 2)); }),
                HasSubstr("local rank 2 has no GPU, visible: 2"));
  }
}

TEST(Placement, OneVisibleGpuOfATaskIsNumberZero) {
  EXPECT_EQ(choose_gpu(local_rank(3, 4, LauncherKind::kTorchrun), 1), 0);
  // Our launcher shows all: there, one is too few.
  EXPECT_THAT(
      error_of([] { static_cast<void>(choose_gpu(local_rank(1, 2, LauncherKind::kSpawn), 1)); }),
      HasSubstr("local rank 1 has no GPU"));
  EXPECT_EQ(choose_gpu(local_rank(1, 2, LauncherKind::kSpawn), 1, /*slice=*/true), 0);
}

TEST(Placement, WarnsWhenBindingHidesPeers) {
  EXPECT_THAT(hidden_peers_warning(local_rank(1, 4, LauncherKind::kTorchrun), 1),
              HasSubstr("--gpu-bind=none"));
  EXPECT_EQ(hidden_peers_warning(local_rank(1, 4, LauncherKind::kTorchrun), 4), "");
  EXPECT_EQ(hidden_peers_warning(local_rank(0, 1, LauncherKind::kTorchrun), 1), "");
  EXPECT_EQ(hidden_peers_warning(local_rank(1, 4, LauncherKind::kTorchrun), 1, true), "");
}

RankPlace place_on(int rank, const std::string& host, int gpu) {
  return {
      .rank = rank, .host = host, .gpu = four_gpus()[static_cast<std::size_t>(gpu)], .cpus = "0-3"};
}

TEST(Placement, FindsTwoRanksOnOneGpu) {
  const std::vector<RankPlace> apart{place_on(0, "n1", 0), place_on(1, "n1", 1),
                                     place_on(2, "n2", 2)};
  EXPECT_EQ(shared_gpu_problem(apart), "");
  std::vector<RankPlace> shared = apart;
  shared.push_back(place_on(3, "n1", 1));
  const std::string problem = shared_gpu_problem(shared);
  EXPECT_THAT(problem, HasSubstr("rank 1 on n1 and rank 3 on n1"));
  EXPECT_THAT(problem, HasSubstr("GPU-aaaa2222 (PCI 0000:1B:00.0)"));
  const std::vector<RankPlace> on_cpu{{.rank = 0, .host = "n1"}, {.rank = 1, .host = "n1"}};
  EXPECT_EQ(shared_gpu_problem(on_cpu), "");
}

TEST(Placement, TableNamesTheGpuOfEachRank) {
  RankPlace second = place_on(1, "node-two", 3);
  second.device = 3;
  second.numa_node = 1;
  const std::vector<RankPlace> places{place_on(0, "n1", 0), second};
  EXPECT_EQ(placement_table(places),
            "  rank  host      GPU     name  UUID          PCI           NUMA  CPUs\n"
            "  0     n1        cuda:0  H200  GPU-aaaa1111  0000:1A:00.0  -     0-3\n"
            "  1     node-two  cuda:3  A10   GPU-cccc4444  0000:9B:00.0  1     0-3\n");
}

TEST(Placement, TableIsShortOnTheCpu) {
  const std::vector<RankPlace> places{{.rank = 0, .host = "n1", .cpus = "0,2-3"}};
  EXPECT_EQ(placement_table(places), "  rank  host  CPUs\n  0     n1    0,2-3\n");
}

TEST(Placement, RangesOfNumbers) {
  EXPECT_EQ(number_ranges(std::array{0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(number_ranges({}), "");
}

TEST(Placement, ReadsTheNumaNode) {
  const ScratchFolder root;
  const auto write = [&](const char* device, const char* text) {
    const std::filesystem::path folder = root / "sys/bus/pci/devices" / device;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "numa_node") << text;
  };
  write("0000:1a:00.0", "1\n");
  write("0000:1b:00.0", "-1\n");
  EXPECT_EQ(numa_node_of("0000:1A:00.0", root.path()), 1);
  EXPECT_EQ(numa_node_of("0000:1B:00.0", root.path()), std::nullopt);
  EXPECT_EQ(numa_node_of("0000:FF:00.0", root.path()), std::nullopt);
}

// What each of two ranks gets: the table, or the error.
std::vector<std::string> share(const RankPlace& first, const RankPlace& second) {
  constexpr milliseconds kLong{20'000};
  Store host = Store::host({});
  std::vector<std::string> outcomes(2);
  const auto table_of = [&](const RankPlace& own) {
    Store store = Store::connect("127.0.0.1", host.port(), kLong);
    std::string table;
    const std::string error =
        error_of([&] { table = placement_table(share_places(store, own, 2, kLong)); });
    outcomes[static_cast<std::size_t>(own.rank)] = error == "no error" ? table : error;
  };
  std::thread peer([&] { table_of(second); });
  table_of(first);
  peer.join();
  return outcomes;
}

TEST(SharePlaces, MainRankSeesAll) {
  RankPlace second = place_on(1, "n2", 3);
  second.device = 3;
  second.numa_node = 0;
  const std::vector<std::string> outcomes = share(place_on(0, "n1", 0), second);
  EXPECT_EQ(outcomes[0], placement_table(std::vector{place_on(0, "n1", 0), second}));
}

TEST(SharePlaces, AllRanksRefuseASharedGpuAlike) {
  const std::vector<std::string> outcomes = share(place_on(0, "n1", 2), place_on(1, "n1", 2));
  EXPECT_THAT(outcomes[0], HasSubstr("rank 0 on n1 and rank 1 on n1 have the same GPU"));
  EXPECT_EQ(outcomes[1], outcomes[0]);
}

TEST(SharePlaces, OwnPlaceNamesHostAndCpus) {
  const RankPlace place = own_place(5, std::nullopt);
  EXPECT_EQ(place.rank, 5);
  EXPECT_NE(place.host, "");
  EXPECT_NE(place.cpus, "");
  EXPECT_FALSE(place.gpu);
}

}  // namespace
}  // namespace temper
