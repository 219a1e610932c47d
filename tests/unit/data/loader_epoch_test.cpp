// All bytes of an epoch of real files: equal for any number of threads, over one and two ranks, and
// when the epoch is begun in its middle.

#include <gtest/gtest.h>

#include <filesystem>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/data/loader.h"
#include "temper/data/open_dataset.h"
#include "temper/data/sampler.h"
#include "unit/data/jpeg_files.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

constexpr std::size_t kFiles = 90;
constexpr int kSide = 24;
constexpr std::size_t kSampleBytes = std::size_t{3} * kSide * kSide;

// Of all kinds and many sizes.
void write_files(const std::filesystem::path& folder) {
  for (unsigned i = 0; i < kFiles; ++i) {
    const Image image = photo_like(30 + static_cast<int>(i * 7 % 60),
                                   30 + static_cast<int>(i * 11 % 70), i % 9 == 0 ? 1 : 3, i);
    const std::filesystem::path file = folder / concat("class_", i % 3) / concat(i, ".jpg");
    if (i % 10 == 3) {
      write_png(file, image);
    } else {
      write_bytes(file, jpeg_file(image, {.horizontal = i % 4 == 0 ? 1 : 2,
                                          .vertical = i % 3 == 0 ? 1 : 2,
                                          .progressive = i % 8 == 5}));
    }
  }
}

class LoaderEpoch : public testing::Test {
 protected:
  LoaderEpoch() {
    write_files(folder_.path());
    dataset_ = open_dataset({.format = "folder", .path = folder_.path().string()});
  }

  // The pixels of the epoch's samples in the global order, from an update on.
  std::vector<std::byte> epoch_bytes(int threads, int world_size, std::uint64_t first = 0) {
    constexpr std::uint64_t kGlobalBatch = 16;
    std::vector<std::byte> all;
    std::vector<std::unique_ptr<Loader>> loaders;
    std::unique_ptr<ShardedSampler> sampler;
    for (int rank = 0; rank < world_size; ++rank) {
      sampler = std::make_unique<ShardedSampler>(SamplerOptions{.dataset_size = kFiles,
                                                                .global_batch_size = kGlobalBatch,
                                                                .rank = rank,
                                                                .world_size = world_size,
                                                                .seed = 3});
      std::vector<std::vector<std::uint32_t>> batches;
      for (std::uint64_t u = first; u < sampler->updates_per_epoch(); ++u) {
        batches.push_back(sampler->global_batch(2, u).micro_batches.at(0).samples);
      }
      loaders.push_back(std::make_unique<Loader>(
          *dataset_,
          Transform({RandomResizedCrop{.size = kSide}, HorizontalFlip{},
                     ColorJitter{.brightness = 0.4, .hue = 0.1}}),
          LoaderOptions{.threads = threads, .seed = 3, .image_size = kSide}));
      loaders.back()->start(2, std::move(batches));
    }
    while (loaders[0]->remaining() > 0) {
      std::vector<HostBatch> parts;
      std::size_t count = 0;
      for (auto& loader : loaders) {
        parts.push_back(loader->next());
        count += parts.back().labels.size();
      }
      for (std::size_t i = 0; i < count; ++i) {
        const auto world = static_cast<std::size_t>(world_size);
        const auto begin = parts[i % world].pixels.begin() + i / world * kSampleBytes;
        all.insert(all.end(), begin, begin + kSampleBytes);
      }
    }
    return all;
  }

  ScratchFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(LoaderEpoch, IsTheSameForAnyNumberOfThreadsAndRanksAndFromItsMiddle) {
  const std::vector<std::byte> expected = epoch_bytes(1, 1);
  ASSERT_EQ(expected.size(), kFiles * kSampleBytes);
  for (const int threads : {2, 4, 8}) {
    EXPECT_EQ(epoch_bytes(threads, 1), expected) << threads << " threads";
  }
  EXPECT_EQ(epoch_bytes(3, 2), expected) << "two ranks";
  const auto rest = epoch_bytes(2, 2, 3);
  EXPECT_EQ(rest, std::vector<std::byte>(expected.end() - static_cast<std::ptrdiff_t>(rest.size()),
                                         expected.end()));
  EXPECT_EQ(rest.size(), (kFiles - std::size_t{3} * 16) * kSampleBytes);
}

}  // namespace
}  // namespace temper
