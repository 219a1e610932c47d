#include "temper/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <mutex>
#include <thread>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"
#include "unit/data/test_images.h"

namespace temper {
namespace {

using Batches = std::vector<std::vector<std::uint32_t>>;
using testing::ElementsAre;
using testing::HasSubstr;

// Images in memory; a hook sees each load.
class MemoryDataset final : public Dataset {
 public:
  explicit MemoryDataset(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      labels_.push_back(static_cast<std::int64_t>(i % 3));
    }
  }
  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return class_names_; }
  int channels() const override { return 3; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override { return 0; }
  std::string sample_name(std::size_t index) const override { return concat("mem[", index, "]"); }
  StoredSample read(std::size_t index, Buffer& buffer) const override {
    if (on_load) {
      on_load(index);
    }
    return store(pattern_image(20, 24, 3, static_cast<unsigned>(index)), buffer);
  }
  SampleInfo describe(std::size_t) const override { return {"memory"}; }

  std::function<void(std::size_t)> on_load;

 private:
  std::vector<std::int64_t> labels_;
  std::vector<std::string> class_names_{"a", "b", "c"};
};

LoaderOptions options(int threads, int prefetch = 3) {
  return {.threads = threads, .prefetch_batches = prefetch, .seed = 5, .image_size = 8};
}

Transform augmentation() { return Transform(preset_transform("imagenet", 8, true)); }

std::vector<HostBatch> load_all(Loader& loader) {
  std::vector<HostBatch> batches;
  while (loader.remaining() > 0) {
    batches.push_back(loader.next());
  }
  return batches;
}

const Batches kBatches = {{4, 0, 9}, {}, {7}, {1, 2, 3, 5}, {6, 8}, {}};

TEST(Loader, BatchesComeInOrderWithTheirSamplesAndLabels) {
  const MemoryDataset dataset(10);
  Loader loader(dataset, augmentation(), options(2));
  loader.start(0, kBatches);
  EXPECT_EQ(loader.remaining(), 6U);
  const auto batches = load_all(loader);
  ASSERT_EQ(batches.size(), kBatches.size());
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const HostBatch& batch = batches[b];
    EXPECT_EQ(batch.count, static_cast<std::int64_t>(kBatches[b].size()));
    EXPECT_EQ(batch.height, 8);
    EXPECT_EQ(batch.channels, 3);
    EXPECT_EQ(batch.pixels.size(), kBatches[b].size() * 8 * 8 * 3);
    EXPECT_EQ(batch.samples, std::vector<std::int64_t>(kBatches[b].begin(), kBatches[b].end()));
    for (std::size_t i = 0; i < kBatches[b].size(); ++i) {
      EXPECT_EQ(batch.labels[i], kBatches[b][i] % 3);
    }
  }
}

TEST(Loader, ContentDependsOnEpochAndSampleNotOnThreadsOrBatching) {
  const MemoryDataset dataset(10);
  const auto pixels = [&](int threads, int prefetch, std::uint32_t epoch, const Batches& batches) {
    Loader loader(dataset, augmentation(), options(threads, prefetch));
    loader.start(epoch, batches);
    std::vector<std::byte> all;
    for (HostBatch& batch : load_all(loader)) {
      all.insert(all.end(), batch.pixels.begin(), batch.pixels.end());
      loader.recycle(std::move(batch));
    }
    return all;
  };
  const auto expected = pixels(1, 1, 4, kBatches);
  EXPECT_EQ(pixels(2, 3, 4, kBatches), expected);
  EXPECT_EQ(pixels(7, 20, 4, kBatches), expected);
  EXPECT_EQ(pixels(3, 2, 4, {{4}, {0, 9, 7, 1, 2}, {3, 5, 6, 8}}), expected);
  EXPECT_NE(pixels(1, 1, 5, kBatches), expected);
}

TEST(Loader, ParkedThreadsLoadNothingAndAllTakePartWhenAsked) {
  MemoryDataset dataset(10);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  dataset.on_load = [&](std::size_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  };
  Loader loader(dataset, augmentation(), options(4));
  loader.set_threads(1);
  loader.start(0, kBatches);
  (void)load_all(loader);
  EXPECT_EQ(threads.size(), 1U);

  // Each of the samples waits for the others: more threads than at the start must come.
  std::latch together(6);
  dataset.on_load = [&](std::size_t) { together.arrive_and_wait(); };
  loader.set_threads(6);
  loader.start(0, {{0, 1, 2, 3, 4, 5}});
  EXPECT_EQ(loader.next().count, 6);
  EXPECT_THROW(loader.set_threads(0), CheckFailure);
}

TEST(Loader, BytesStayTheSameWhileTheNumberOfThreadsChanges) {
  const MemoryDataset dataset(64);
  Batches batches(32);
  for (std::uint32_t i = 0; i < 256; ++i) {
    batches[i / 8].push_back(i * 7 % 64);
  }
  const auto pixels = [&](Loader& loader) {
    loader.start(3, batches);
    std::vector<std::byte> all;
    for (const HostBatch& batch : load_all(loader)) {
      all.insert(all.end(), batch.pixels.begin(), batch.pixels.end());
    }
    return all;
  };
  Loader alone(dataset, augmentation(), options(1));
  const auto expected = pixels(alone);

  Loader loader(dataset, augmentation(), options(2));
  std::atomic<bool> done{false};
  std::thread changer([&] {
    for (int i = 0; !done; ++i) {
      loader.set_threads(1 + i * 3 % 7);
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(pixels(loader), expected);
  }
  done = true;
  changer.join();
}

TEST(Loader, FailedSampleNamesItselfAndTheNextBatchCanBeFetched) {
  MemoryDataset dataset(10);
  dataset.on_load = [](std::size_t index) {
    if (index == 2 || index == 3) {
      throw DataError(concat("mem[", index, "]: broken"));
    }
  };
  Loader loader(dataset, augmentation(), options(4));
  for (int round = 0; round < 3; ++round) {
    loader.start(0, {{0, 1}, {4, 3, 2}, {5}});
    EXPECT_EQ(loader.next().count, 2);
    try {
      (void)loader.next();
      FAIL() << "no error";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "mem[3]: broken");  // the first in the batch, not in time
    }
    EXPECT_THAT(loader.next().samples, ElementsAre(5));
  }
}

TEST(Loader, WaitingCanBeGivenUpAndTakenUpAgain) {
  MemoryDataset dataset(2);
  std::latch release(1);
  dataset.on_load = [&](std::size_t) { release.wait(); };
  Loader loader(dataset, augmentation(), options(1));
  loader.start(0, {{0, 1}});
  int asked = 0;
  EXPECT_FALSE(loader.next_unless([&] { return ++asked == 2; }));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(loader.remaining(), 1U);
  EXPECT_EQ(loader.empty_batch().count, 0);
  EXPECT_EQ(loader.empty_batch().height, 8);
  release.count_down();
  const auto batch = loader.next_unless([] { return false; });
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->count, 2);
  EXPECT_EQ(loader.remaining(), 0U);
}

TEST(Loader, SampleOfAnotherSizeIsNamedWithBothSizes) {
  const MemoryDataset dataset(3);
  Loader loader(dataset, Transform(), options(1));
  loader.start(0, {{2}});
  try {
    (void)loader.next();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mem[2]: is 20 x 24"));
    EXPECT_THAT(error.what(), HasSubstr("expected 8 x 8"));
  }
}

TEST(Loader, NoMoreThanThePrefetchedBatchesAreLoadedAhead) {
  MemoryDataset dataset(100);
  std::atomic<int> loads{0};
  std::latch first_two(4);
  dataset.on_load = [&](std::size_t) {
    if (loads.fetch_add(1) < 4) {
      first_two.count_down();
    }
  };
  Loader loader(dataset, augmentation(), options(3, 2));
  Batches batches;
  for (std::uint32_t i = 0; i < 20; ++i) {
    batches.push_back({2 * i, 2 * i + 1});
  }
  loader.start(0, batches);
  first_two.wait();
  EXPECT_EQ(loads, 4);
  for (int taken = 1; taken <= 20; ++taken) {
    (void)loader.next();
    EXPECT_LE(loads, std::min(40, 2 * (taken + 2)));
  }
  EXPECT_EQ(loads, 40);
}

TEST(Loader, MemoryLimitLowersTheNumberOfBatchesAhead) {
  MemoryDataset dataset(100);
  std::mutex mutex;
  std::set<std::size_t> begun;  // a sample that had to wait for memory is read again
  dataset.on_load = [&](std::size_t index) {
    const std::lock_guard lock(mutex);
    begun.insert(index);
  };
  LoaderOptions limited = options(2, 10);
  // Three batches of two samples, one of them in the caller's hands, and room to decode two.
  limited.memory_limit = 1900;
  Loader loader(dataset, augmentation(), limited);
  loader.start(0, {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}});
  for (std::size_t taken = 1; taken <= 6; ++taken) {
    (void)loader.next();
    const std::lock_guard lock(mutex);
    EXPECT_LE(begun.size(), 2 * (taken + 2));
  }
  EXPECT_LE(loader.statistics().peak_bytes, limited.memory_limit);
  EXPECT_THROW(loader.start(0, {{0, 1, 2, 3, 4}}), ConfigError);
}

TEST(Loader, CanBeRestartedAndDestroyedAtAnyTime) {
  const MemoryDataset dataset(64);
  Batches batches(16);
  for (std::uint32_t i = 0; i < 64; ++i) {
    batches[i / 4].push_back(i);
  }
  for (std::size_t taken = 0; taken < 16; ++taken) {
    Loader loader(dataset, augmentation(), options(3));
    loader.start(0, batches);
    for (std::size_t i = 0; i < taken; ++i) {
      (void)loader.next();
    }
    loader.start(1, {{1}, {2}});
    EXPECT_THAT(loader.next().samples, ElementsAre(1));
    loader.start(2, batches);
    if (taken % 2 == 0) {
      EXPECT_THAT(loader.next().samples, ElementsAre(0, 1, 2, 3));
    }
  }
}

TEST(Loader, FloatImagesStayFloats) {
  const ScratchFolder folder;
  write_bytes(folder / "x.npz",
              zip({{"images.npy", npy("<f4", "(1, 2, 2)", raw_bytes<float>({0, 0.1F, 0.5F, 1}))},
                   {"labels.npy", npy("|u1", "(1,)", std::string(1, '\0'))}}));
  const auto dataset = open_dataset({"npz", (folder / "x.npz").string(), 1, 0});
  Loader loader(*dataset, Transform({HorizontalFlip{1}}),
                {.threads = 1, .image_size = 2, .channels = 1});
  loader.start(0, {{0}});
  const HostBatch batch = loader.next();
  EXPECT_EQ(batch.element_type, ElementType::kFloat32);
  std::vector<float> values(4);
  ASSERT_EQ(batch.pixels.size(), 4 * sizeof(float));
  std::memcpy(values.data(), batch.pixels.data(), batch.pixels.size());
  EXPECT_THAT(values, ElementsAre(0.1F, 0.0F, 1.0F, 0.5F));
}

TEST(Loader, ImpossibleOptionsAreConfigurationErrors) {
  const MemoryDataset dataset(1);
  const auto refused = [&](LoaderOptions bad) {
    EXPECT_THROW(Loader(dataset, Transform(), bad), ConfigError);
  };
  refused(options(0));
  refused(options(1, 0));
  LoaderOptions gray = options(1);
  gray.channels = 1;
  refused(gray);
  LoaderOptions no_size = options(1);
  no_size.image_size = 0;
  refused(no_size);
}

}  // namespace
}  // namespace temper
