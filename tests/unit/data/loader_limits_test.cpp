// Memory, cache, bad samples, priorities and read-ahead of the loader.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "temper/core/error.h"
#include "temper/data/loader.h"
#include "unit/data/jpeg_files.h"

namespace temper {
namespace {

using Batches = std::vector<std::vector<std::uint32_t>>;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// JPEG files in memory that are copied as if they were read; a hook sees each read.
class EncodedDataset final : public Dataset {
 public:
  explicit EncodedDataset(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      files.push_back(jpeg_file(photo_like(40, 52, 3, static_cast<unsigned>(i))));
      labels_.push_back(static_cast<std::int64_t>(i));
      names_.push_back(std::to_string(i));
    }
  }
  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return names_; }
  int channels() const override { return 3; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override { return 0; }
  std::string sample_name(std::size_t index) const override { return concat("file ", index); }
  SampleInfo describe(std::size_t) const override { return {"jpeg"}; }
  std::uint64_t stored_size(std::size_t index) const override { return files[index].size(); }
  StoredSample read(std::size_t index, Buffer& buffer) const override {
    if (on_read) {
      on_read(index);
    }
    const std::span bytes = buffer.take(files[index].size());
    std::ranges::copy(files[index], bytes.begin());
    return EncodedImage{bytes};
  }

  std::vector<std::string> files;
  std::function<void(std::size_t)> on_read;

 private:
  std::vector<std::int64_t> labels_;
  std::vector<std::string> names_;
};

LoaderOptions options(int threads) { return {.threads = threads, .seed = 5, .image_size = 16}; }
Transform crop() { return Transform(preset_transform("imagenet", 16, true)); }

std::vector<HostBatch> load(Loader& loader, std::uint32_t epoch, const Batches& batches) {
  loader.start(epoch, batches);
  std::vector<HostBatch> loaded;
  while (loader.remaining() > 0) {
    loaded.push_back(loader.next());
  }
  return loaded;
}

const Batches kBatches{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}};

constexpr std::uint64_t kMebibyte = 1 << 20;

TEST(LoaderMemory, ALargeProgressivePictureWaitsForItsMemoryAndKeepsTheLimit) {
  EncodedDataset dataset(12);
  // Of a progressive file all coefficients are kept: 1600 x 1200 x 1.5 x 2 bytes, and the crop.
  for (const std::size_t large : {2U, 5U, 6U}) {
    dataset.files[large] = jpeg_file(photo_like(1200, 1600, 3), {.progressive = true});
  }
  Loader roomy(dataset, crop(), options(4));
  const auto expected = load(roomy, 0, kBatches);
  EXPECT_GT(roomy.statistics().peak_bytes, 8 * kMebibyte);

  LoaderOptions tight = options(4);
  tight.memory_limit = 20 * kMebibyte;  // one of them at a time
  Loader loader(dataset, crop(), tight);
  const auto loaded = load(loader, 0, kBatches);
  ASSERT_THAT(loaded, SizeIs(3));
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(loaded[i].pixels, expected[i].pixels);
  }
  EXPECT_LE(loader.statistics().peak_bytes, tight.memory_limit);
  EXPECT_GT(loader.statistics().peak_bytes, 5 * kMebibyte);
}

TEST(LoaderMemory, APictureThatNeverFitsIsNamed) {
  EncodedDataset dataset(12);
  dataset.files[5] = jpeg_file(photo_like(1200, 1600, 3), {.progressive = true});
  LoaderOptions tight = options(2);
  tight.memory_limit = 4 * kMebibyte;
  Loader loader(dataset, crop(), tight);
  loader.start(0, kBatches);
  (void)loader.next();
  try {
    (void)loader.next();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("file 5: needs "));
    EXPECT_THAT(error.what(),
                HasSubstr("of 4194304 bytes, this loader's share of data.memory_limit, the queue"));
  }
  EXPECT_THAT(loader.next().labels, ElementsAre(8, 9, 10, 11));
}

TEST(LoaderCache, ReadsEachSampleOnceAndChangesNothing) {
  EncodedDataset dataset(12);
  Loader plain(dataset, crop(), options(2));
  (void)load(plain, 0, kBatches);
  const auto expected = load(plain, 1, kBatches);

  std::atomic<int> reads{0};
  dataset.on_read = [&](std::size_t) { ++reads; };
  LoaderOptions cached = options(2);
  cached.cache = true;
  Loader loader(dataset, crop(), cached);
  (void)load(loader, 0, kBatches);
  EXPECT_EQ(reads, 12);
  EXPECT_GT(loader.statistics().bytes_read, 0U);
  const auto again = load(loader, 1, kBatches);
  EXPECT_EQ(reads, 12);
  EXPECT_EQ(loader.statistics().bytes_read, 0U);
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].pixels, expected[i].pixels);
  }
}

TEST(LoaderCache, GivesWayToALargePictureAndKeepsTheLimit) {
  EncodedDataset dataset(12);
  for (std::string& file : dataset.files) {
    file += std::string(1'000'000, '\0');  // behind the end of the picture
  }
  dataset.files[11] = jpeg_file(photo_like(1200, 1600, 3), {.progressive = true});
  std::atomic<int> reads{0};
  dataset.on_read = [&](std::size_t) { ++reads; };
  LoaderOptions tight = options(2);
  tight.cache = true;
  tight.memory_limit = 16 * kMebibyte;
  Loader loader(dataset, crop(), tight);
  EXPECT_THAT(load(loader, 0, kBatches), SizeIs(3));
  reads = 0;
  EXPECT_THAT(load(loader, 1, kBatches), SizeIs(3));
  EXPECT_GT(reads, 0);  // some had to go
  EXPECT_LE(loader.statistics().peak_bytes, tight.memory_limit);
}

class LoaderBadSamples : public testing::Test {
 protected:
  LoaderBadSamples() { dataset.files[1] = dataset.files[6] = "no picture"; }

  std::vector<HostBatch> load_with(BadSamplePolicy policy, int threads, std::uint32_t epoch = 0) {
    LoaderOptions with = options(threads);
    with.on_bad_sample = policy;
    Loader loader(dataset, crop(), with);
    auto batches = load(loader, epoch, kBatches);
    EXPECT_EQ(loader.statistics().bad_samples, 2U);
    return batches;
  }

  EncodedDataset dataset{12};
};

TEST_F(LoaderBadSamples, AreReplacedByTheSameOnesWhateverTheThreads) {
  const auto batches = load_with(BadSamplePolicy::kReplace, 1);
  ASSERT_THAT(batches[0].bad, SizeIs(1));
  ASSERT_THAT(batches[1].bad, SizeIs(1));
  EXPECT_THAT(batches[2].bad, IsEmpty());
  const BadSampleNote& bad = batches[0].bad[0];
  EXPECT_EQ(bad.sample, 1);
  EXPECT_THAT(bad.error, HasSubstr("file 1: not an image"));
  ASSERT_TRUE(bad.replaced_by.has_value());
  EXPECT_THAT(batches[0].samples, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batches[0].labels, ElementsAre(0, *bad.replaced_by, 2, 3));
  for (const int threads : {2, 5}) {
    const auto others = load_with(BadSamplePolicy::kReplace, threads);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      EXPECT_EQ(others[i].pixels, batches[i].pixels);
      EXPECT_EQ(others[i].labels, batches[i].labels);
    }
  }
  std::vector<std::int64_t> choices;
  for (std::uint32_t epoch = 0; epoch < 8; ++epoch) {
    choices.push_back(*load_with(BadSamplePolicy::kReplace, 2, epoch)[0].bad[0].replaced_by);
  }
  EXPECT_NE(choices, std::vector<std::int64_t>(8, choices[0])) << "not the same in every epoch";
}

TEST_F(LoaderBadSamples, AreLeftOut) {
  const auto batches = load_with(BadSamplePolicy::kLeaveOut, 3);
  EXPECT_EQ(batches[0].count, 3);
  EXPECT_THAT(batches[0].samples, ElementsAre(0, 2, 3));
  EXPECT_THAT(batches[0].labels, ElementsAre(0, 2, 3));
  EXPECT_THAT(batches[1].samples, ElementsAre(4, 5, 7));
  EXPECT_EQ(batches[1].bad[0].sample, 6);
  EXPECT_FALSE(batches[1].bad[0].replaced_by.has_value());
  EncodedDataset sound(12);
  Loader loader(sound, crop(), options(2));
  const auto expected = load(loader, 0, {{0, 2, 3}, {4, 5, 7}});
  EXPECT_EQ(batches[0].pixels, expected[0].pixels);
  EXPECT_EQ(batches[1].pixels, expected[1].pixels);
}

TEST_F(LoaderBadSamples, AreAnErrorWhenNoReplacementIsAnyBetter) {
  for (std::string& file : dataset.files) {
    file = "no picture";
  }
  LoaderOptions with = options(2);
  with.on_bad_sample = BadSamplePolicy::kReplace;
  Loader loader(dataset, crop(), with);
  loader.start(0, kBatches);
  try {
    (void)loader.next();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("file 0: not an image"));
    EXPECT_THAT(error.what(), HasSubstr("none of 20 samples that might replace it is any better"));
  }
}

// As with page-locked memory, whose copy to a device may still be under way.
TEST(LoaderMemory, OfAnAllocatorIsLetGoAndNotReused) {
  EncodedDataset dataset(12);
  int made = 0;
  LoaderOptions with = options(2);
  with.prefetch_batches = 1;
  with.allocate = [&](std::size_t size) {
    ++made;
    const auto array = std::make_shared<std::byte[]>(size);
    return std::shared_ptr<std::byte>(array, array.get());
  };
  Loader loader(dataset, crop(), with);
  loader.start(0, kBatches);
  std::vector<std::weak_ptr<std::byte>> owners;
  while (loader.remaining() > 0) {
    HostBatch batch = loader.next();
    owners.emplace_back(batch.pixels.owner());
    loader.recycle(std::move(batch));
  }
  EXPECT_EQ(made, 3);
  for (const auto& owner : owners) {
    EXPECT_TRUE(owner.expired());
  }
}

TEST(LoaderThreads, HaveALowerPriorityThanTheirOwner) {
  EncodedDataset dataset(2);
  std::atomic<int> priority{0};
  dataset.on_read = [&](std::size_t) {
    priority = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  };
  const int own = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
  Loader loader(dataset, crop(), options(1));
  (void)load(loader, 0, {{0, 1}});
  EXPECT_EQ(priority, std::min(19, own + 5));
}

// One thread decodes, but from the moment that reads take long many are under way: each of the
// later ones waits for three others.
TEST(LoaderReadAhead, SlowReadsOverlap) {
  EncodedDataset dataset(64);
  Batches batches(8);
  for (std::uint32_t i = 0; i < 64; ++i) {
    batches[i / 8].push_back(i);
  }
  std::mutex mutex;
  std::condition_variable changed;
  int reading = 0;
  int together = 0;
  dataset.on_read = [&](std::size_t index) {
    if (index < 4) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return;
    }
    std::unique_lock lock(mutex);
    together = std::max(together, ++reading);
    changed.notify_all();
    changed.wait(lock, [&] { return together >= 4; });
    --reading;
  };
  LoaderOptions one = options(1);
  one.prefetch_batches = 8;
  Loader loader(dataset, crop(), one);
  const auto loaded = load(loader, 0, batches);
  dataset.on_read = nullptr;
  Loader fast(dataset, crop(), options(2));
  const auto expected = load(fast, 0, batches);
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(loaded[i].pixels, expected[i].pixels);
  }
}

TEST(LoaderStatistics, SayWhatWasLoaded) {
  EncodedDataset dataset(12);
  std::uint64_t bytes = 0;
  for (const std::string& file : dataset.files) {
    bytes += file.size();
  }
  Loader loader(dataset, crop(), options(3));
  (void)load(loader, 0, kBatches);
  const LoaderStatistics statistics = loader.statistics();
  EXPECT_EQ(statistics.batches, 3U);
  EXPECT_EQ(statistics.samples, 12U);
  EXPECT_EQ(statistics.bytes_read, bytes);
  EXPECT_EQ(statistics.bad_samples, 0U);
  EXPECT_EQ(statistics.threads, 3);
  EXPECT_GE(statistics.load_seconds, statistics.read_seconds);
  EXPECT_GE(statistics.seconds, statistics.first_batch_seconds + statistics.wait_seconds);
  EXPECT_GE(statistics.queued_batches, 0);
  EXPECT_LE(statistics.queued_batches, 4);
  loader.start(1, kBatches);
  EXPECT_EQ(loader.statistics().samples, 0U);
}

LoaderStatistics slow_epoch() {
  LoaderStatistics statistics;
  statistics.samples = 1000;
  statistics.seconds = 10;
  statistics.wait_seconds = 3;
  statistics.load_seconds = 20;
  statistics.read_seconds = 1;
  statistics.threads = 2;
  return statistics;
}

TEST(LoaderAdvice, NamesWhatHelps) {
  LoaderStatistics statistics = slow_epoch();
  EXPECT_THAT(loader_advice(statistics, 6),
              HasSubstr("waited for data for 30 % of the time (100 images/s, 2 loader threads): "
                        "data.workers: 6 would use all 6 processors"));
  EXPECT_THAT(loader_advice(statistics, 2), HasSubstr("more data.workers would not help"));
  statistics.read_seconds = 15;
  EXPECT_THAT(loader_advice(statistics, 6), HasSubstr("reading takes 75 % of the loader's time"));
  EXPECT_THAT(loader_advice(statistics, 6), HasSubstr("data.cache: ram"));
}

TEST(LoaderAdvice, IsSilentWhenTrainingDoesNotWait) {
  LoaderStatistics statistics = slow_epoch();
  statistics.wait_seconds = 0.9;
  EXPECT_EQ(loader_advice(statistics, 6), "");
  statistics.wait_seconds = 3;
  statistics.seconds = 4;  // too short to say
  EXPECT_EQ(loader_advice(statistics, 6), "");
}

}  // namespace
}  // namespace temper
