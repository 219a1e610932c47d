// What a sample looks like follows from the seed, the epoch and the sample alone: for any world
// size, number of threads, place in a batch, and after a restart in the middle of an epoch.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "temper/core/error.h"
#include "temper/data/loader.h"
#include "temper/data/sampler.h"

namespace temper {
namespace {

constexpr int kSize = 32;

// Every sample is the same image without two equal pixels in a row, so that a difference between
// two samples is one of their augmentation.
class EqualImages final : public Dataset {
 public:
  explicit EqualImages(std::size_t count) : labels_(count, 0) {}
  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return names_; }
  int channels() const override { return 1; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override { return 0; }
  std::string sample_name(std::size_t index) const override { return std::to_string(index); }
  SampleInfo describe(std::size_t) const override { return {"memory"}; }
  StoredSample read(std::size_t, Buffer& buffer) const override {
    const std::span pixels = buffer.take(kSize * kSize);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<std::uint8_t>(1 + (i % kSize * 7 + i / kSize * 31) % 255);
    }
    return ImageView{.height = kSize, .width = kSize, .channels = 1, .bytes = pixels};
  }

 private:
  std::vector<std::int64_t> labels_;
  std::vector<std::string> names_{"a"};
};

using Pixels = std::string;
using PixelsOfSamples = std::map<std::int64_t, Pixels>;

struct Plan {
  std::uint64_t samples = 37;
  std::uint64_t global_batch = 8;
  std::uint64_t accumulation = 1;
  int world_size = 1;
  int threads = 1;
  std::uint64_t first_update = 0;  // where a restarted run goes on
  std::uint64_t seed = 3;
  std::uint32_t epoch = 2;
  Purpose purpose = Purpose::kAugmentation;
};

Transform augmentation() {
  return Transform({RandomCrop{.size = kSize, .padding = 16}, HorizontalFlip{}});
}

// Loads one rank's part of an epoch.
void load_rank(const Plan& plan, int rank, PixelsOfSamples& out) {
  const EqualImages data(plan.samples);
  Loader loader(data, augmentation(),
                {.threads = plan.threads,
                 .seed = plan.seed,
                 .purpose = plan.purpose,
                 .image_size = kSize,
                 .channels = 1});
  ShardedSampler sampler({.dataset_size = plan.samples,
                          .global_batch_size = plan.global_batch,
                          .accumulation = plan.accumulation,
                          .rank = rank,
                          .world_size = plan.world_size,
                          .seed = 11});
  std::vector<std::vector<std::uint32_t>> batches;
  for (std::uint64_t u = plan.first_update; u < sampler.updates_per_epoch(); ++u) {
    for (const MicroBatch& micro_batch : sampler.global_batch(plan.epoch, u).micro_batches) {
      batches.push_back(micro_batch.samples);
    }
  }
  loader.start(plan.epoch, batches);
  while (loader.remaining() > 0) {
    const HostBatch batch = loader.next();
    constexpr std::size_t bytes = kSize * kSize;
    for (std::size_t i = 0; i < batch.samples.size(); ++i) {
      Pixels pixels(reinterpret_cast<const char*>(batch.pixels.data()) + i * bytes, bytes);
      const bool fresh = out.emplace(batch.samples[i], std::move(pixels)).second;
      ASSERT_TRUE(fresh) << "sample " << batch.samples[i] << " came twice";
    }
  }
}

PixelsOfSamples load_epoch(const Plan& plan) {
  PixelsOfSamples out;
  for (int rank = 0; rank < plan.world_size; ++rank) {
    load_rank(plan, rank, out);
  }
  return out;
}

TEST(KeyedSamples, AugmentationIsTheSameForAnyWorldSizeBatchAndThreads) {
  const PixelsOfSamples expected = load_epoch({});
  ASSERT_EQ(expected.size(), 37U);
  for (const int world_size : {1, 2, 3, 4, 5}) {
    for (const std::uint64_t global_batch : {3U, 8U, 64U}) {
      for (const int threads : {1, 3}) {
        const Plan plan{.global_batch = global_batch,
                        .accumulation = global_batch == 8 ? 3U : 1U,
                        .world_size = world_size,
                        .threads = threads};
        EXPECT_EQ(load_epoch(plan), expected) << "world size " << world_size << ", batch "
                                              << global_batch << ", " << threads << " threads";
      }
    }
  }
}

TEST(KeyedSamples, AugmentationIsTheSameAfterARestartInTheEpoch) {
  const PixelsOfSamples expected = load_epoch({});
  for (const std::uint64_t first_update : {1U, 2U, 4U}) {
    for (const int world_size : {1, 3}) {
      const PixelsOfSamples rest =
          load_epoch({.world_size = world_size, .first_update = first_update});
      EXPECT_EQ(rest.size(), 37 - 8 * first_update);
      for (const auto& [sample, pixels] : rest) {
        EXPECT_EQ(pixels, expected.at(sample)) << "sample " << sample;
      }
    }
  }
}

// 33 x 33 crops and two directions for 37 samples of equal content: a few may coincide by chance,
// and with these seeds none does.
TEST(KeyedSamples, AugmentationDiffersBetweenSamplesEpochsSeedsAndPurposes) {
  std::set<Pixels> distinct;
  for (const auto& [sample, pixels] : load_epoch({})) {
    distinct.insert(pixels);
  }
  EXPECT_EQ(distinct.size(), 37U);
  const PixelsOfSamples first = load_epoch({});
  std::vector<Plan> others(3);
  others[0].epoch = 3;
  others[1].seed = 4;
  others[2].purpose = Purpose::kEvaluation;
  for (const Plan& other : others) {
    int equal = 0;
    for (const auto& [sample, pixels] : load_epoch(other)) {
      equal += pixels == first.at(sample) ? 1 : 0;
    }
    EXPECT_LE(equal, 1);
  }
}

}  // namespace
}  // namespace temper
