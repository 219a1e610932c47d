// Parts of a data set, and two as one.

#include "temper/data/subset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "temper/core/error.h"
#include "temper/data/joined.h"
#include "temper/data/sampler.h"

namespace temper {
namespace {

// One byte a sample, its index.
class Counting final : public Dataset {
 public:
  explicit Counting(std::vector<std::int64_t> labels,
                    std::vector<std::string> names = {"0", "1", "2"})
      : labels_(std::move(labels)), names_(std::move(names)) {}
  [[nodiscard]] std::span<const std::int64_t> labels() const override { return labels_; }
  [[nodiscard]] std::span<const std::string> class_names() const override { return names_; }
  [[nodiscard]] int channels() const override { return 1; }
  [[nodiscard]] ElementType element_type() const override { return ElementType::kUInt8; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return labels_.size(); }
  [[nodiscard]] std::string sample_name(std::size_t index) const override {
    return concat("sample ", index);
  }
  [[nodiscard]] StoredSample read(std::size_t index, Buffer& buffer) const override {
    const std::span pixels = buffer.take(1);
    pixels[0] = static_cast<std::uint8_t>(index);
    return ImageView{.height = 1, .width = 1, .channels = 1, .bytes = pixels};
  }
  [[nodiscard]] SampleInfo describe(std::size_t index) const override {
    return {concat("format ", index)};
  }

 private:
  std::vector<std::int64_t> labels_;
  std::vector<std::string> names_;
};

int pixel(const Dataset& dataset, std::size_t index) {
  Buffer buffer;
  return std::get<ImageView>(dataset.read(index, buffer)).bytes[0];
}

// 70 of class 0, 20 of class 1, 10 of class 2, in turns.
std::vector<std::int64_t> uneven_labels() {
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 100; ++i) {
    labels.push_back(i % 10 < 7 ? 0 : i % 10 < 9 ? 1 : 2);
  }
  return labels;
}

TEST(HoldOut, TakesFromEachClassItsShareAndLeavesTheRest) {
  const std::vector<std::int64_t> labels = uneven_labels();
  for (const double fraction : {0.001, 0.1, 0.25, 0.333, 0.9, 0.9999}) {
    const Parts parts = hold_out(labels, fraction, 7);
    const auto wanted =
        std::clamp<std::size_t>(static_cast<std::size_t>(std::llround(fraction * 100)), 1, 99);
    EXPECT_EQ(parts.chosen.size(), wanted);
    EXPECT_TRUE(std::ranges::is_sorted(parts.chosen) && std::ranges::is_sorted(parts.rest));
    std::set<std::uint32_t> all(parts.chosen.begin(), parts.chosen.end());
    all.insert(parts.rest.begin(), parts.rest.end());
    EXPECT_EQ(all.size(), 100U);
    EXPECT_EQ(parts.rest.size(), 100 - wanted);
    for (const auto& [label, share] : {std::pair{0, 0.7}, {1, 0.2}, {2, 0.1}}) {
      const auto count = std::ranges::count_if(
          parts.chosen, [&, of = label](std::uint32_t i) { return labels[i] == of; });
      EXPECT_NEAR(static_cast<double>(count), share * static_cast<double>(wanted), 1);
    }
  }
}

TEST(HoldOut, FollowsTheSeedAndThePurpose) {
  const std::vector<std::int64_t> labels = uneven_labels();
  EXPECT_EQ(hold_out(labels, 0.2, 1).chosen, hold_out(labels, 0.2, 1).chosen);
  EXPECT_NE(hold_out(labels, 0.2, 1).chosen, hold_out(labels, 0.2, 2).chosen);
  EXPECT_NE(hold_out(labels, 0.2, 1).chosen,
            choose_samples(labels, 20, 1, Choice::kOverfittingCheck).chosen);
  EXPECT_EQ(choose_samples(labels, 1000, 1, Choice::kOverfittingCheck).chosen.size(), 100U);
  EXPECT_THROW(static_cast<void>(hold_out(std::vector<std::int64_t>{0}, 0.5, 1)), ConfigError);
}

TEST(SubsetTest, IsTheWholeAtItsIndices) {
  const auto whole = std::make_shared<const Counting>(uneven_labels());
  const Subset part(whole, {9, 3, 50});
  ASSERT_EQ(part.size(), 3U);
  EXPECT_EQ(std::vector(part.labels().begin(), part.labels().end()),
            (std::vector<std::int64_t>{2, 0, 0}));
  EXPECT_EQ(pixel(part, 2), 50);
  EXPECT_EQ(part.sample_name(0), "sample 9");
  EXPECT_EQ(part.describe(1).format, "format 3");
  EXPECT_EQ(part.load(1).width, 1);
  EXPECT_NE(part.fingerprint(), Subset(whole, {9, 3, 51}).fingerprint());
  EXPECT_NE(part.fingerprint(), whole->fingerprint());
  EXPECT_THROW(Subset(whole, {100}), CheckFailure);
}

TEST(JoinedTest, IsOneAfterTheOther) {
  const auto first = std::make_shared<const Counting>(std::vector<std::int64_t>{0, 1, 2});
  const auto second = std::make_shared<const Counting>(std::vector<std::int64_t>{2, 1});
  const Joined labelled(first, second, true);
  EXPECT_EQ(std::vector(labelled.labels().begin(), labelled.labels().end()),
            (std::vector<std::int64_t>{0, 1, 2, 2, 1}));
  EXPECT_EQ(pixel(labelled, 2), 2);
  EXPECT_EQ(pixel(labelled, 3), 0);
  EXPECT_EQ(labelled.sample_name(4), "sample 1");
  const Joined unlabelled(first, second, false);
  EXPECT_EQ(unlabelled.labels()[3], kNoLabel);
  EXPECT_EQ(unlabelled.labels()[0], 0);
}

TEST(JoinedTest, RefusesOtherClassesUnlessTheyAreNotUsed) {
  const std::vector<std::int64_t> labels{0, 1};
  const auto animals =
      std::make_shared<const Counting>(labels, std::vector<std::string>{"cat", "dog"});
  const auto birds =
      std::make_shared<const Counting>(labels, std::vector<std::string>{"cat", "owl"});
  const auto numbers = std::make_shared<const Counting>(labels, std::vector<std::string>{"0", "1"});
  const auto more = std::make_shared<const Counting>(labels);
  EXPECT_NO_THROW(Joined(animals, animals, true));
  EXPECT_NO_THROW(Joined(animals, numbers, true));
  EXPECT_THROW(Joined(animals, birds, true), ConfigError);
  EXPECT_THROW(Joined(animals, more, true), ConfigError);
  EXPECT_NO_THROW(Joined(animals, birds, false));
}

std::vector<std::uint32_t> whole_batch(SamplerOptions options, std::uint32_t epoch,
                                       std::uint64_t update, int world_size) {
  options.world_size = world_size;
  std::vector<GlobalBatch> of_ranks;
  for (options.rank = 0; options.rank < world_size; ++options.rank) {
    of_ranks.push_back(ShardedSampler(options).global_batch(epoch, update));
  }
  std::vector<std::uint32_t> samples;
  for (std::size_t part = 0; part < of_ranks[0].micro_batches.size(); ++part) {
    for (std::uint64_t i = 0; i < of_ranks[0].micro_batches[part].global_size; ++i) {
      const auto& rank = of_ranks[i % static_cast<std::uint64_t>(world_size)];
      samples.push_back(
          rank.micro_batches[part].samples[i / static_cast<std::uint64_t>(world_size)]);
    }
  }
  return samples;
}

SamplerOptions with_extra() {
  return {.dataset_size = 25,
          .global_batch_size = 10,
          .accumulation = 2,
          .seed = 3,
          .extra_size = 11,
          .extra_fraction = 0.6};
}

// 4 of 25 and 6 of 11 in a full batch; the seventh batch has 1 and 2.
TEST(ExtraData, EveryBatchHoldsItsShareSpreadOverItsPlaces) {
  ShardedSampler sampler(with_extra());
  EXPECT_EQ(sampler.own_per_batch(), 4U);
  EXPECT_EQ(sampler.extra_per_batch(), 6U);
  EXPECT_EQ(sampler.updates_per_epoch(), 7U);
  EXPECT_EQ(sampler.samples_per_epoch(), 25U + 6 * 6 + 2);
  std::vector<std::uint32_t> extra;
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::uint32_t> own;
    for (std::uint64_t update = 0; update < 7; ++update) {
      const std::vector<std::uint32_t> batch = whole_batch(with_extra(), epoch, update, 1);
      EXPECT_EQ(batch.size(), update < 6 ? 10U : 3U);
      std::vector<bool> is_extra;
      for (const std::uint32_t sample : batch) {
        is_extra.push_back(sample >= 25);
        sample < 25 ? void(own.insert(sample)) : extra.push_back(sample - 25);
      }
      // One in each of as many stretches.
      const std::size_t count = update < 6 ? 6 : 2;
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(
            std::count(
                is_extra.begin() + static_cast<std::ptrdiff_t>(i * batch.size() / count),
                is_extra.begin() + static_cast<std::ptrdiff_t>((i + 1) * batch.size() / count),
                true),
            1);
      }
    }
    EXPECT_EQ(own.size(), 25U) << "an epoch is one pass over the data set";
  }
  // Pass after pass, going on over the epochs.
  ASSERT_EQ(extra.size(), 3U * 38);
  for (std::size_t begin = 0; begin + 11 <= extra.size(); begin += 11) {
    const std::set<std::uint32_t> pass(extra.begin() + static_cast<std::ptrdiff_t>(begin),
                                       extra.begin() + static_cast<std::ptrdiff_t>(begin) + 11);
    EXPECT_EQ(pass.size(), 11U) << begin;
  }
}

TEST(ExtraData, AreTheSameForAnyWorldSizeAndFromAnyUpdateOn) {
  for (std::uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (std::uint64_t update = 0; update < 7; ++update) {
      const auto alone = whole_batch(with_extra(), epoch, update, 1);
      EXPECT_EQ(whole_batch(with_extra(), epoch, update, 2), alone);
      EXPECT_EQ(whole_batch(with_extra(), epoch, update, 3), alone);
    }
  }
}

// With half of a batch and two ranks, both get samples of both kinds.
TEST(ExtraData, NoRankGetsOneKindAlone) {
  SamplerOptions options{.dataset_size = 64,
                         .global_batch_size = 16,
                         .world_size = 2,
                         .seed = 3,
                         .extra_size = 64,
                         .extra_fraction = 0.5};
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    ShardedSampler sampler(options);
    std::size_t extra = 0;
    for (std::uint64_t update = 0; update < sampler.updates_per_epoch(); ++update) {
      const auto samples = sampler.global_batch(0, update).micro_batches[0].samples;
      extra += static_cast<std::size_t>(
          std::ranges::count_if(samples, [](std::uint32_t i) { return i >= 64; }));
    }
    EXPECT_GT(extra, 16U) << "of 64";
    EXPECT_LT(extra, 48U);
  }
}

TEST(ExtraData, FractionsThatLeaveNothingAreRefused) {
  SamplerOptions options = with_extra();
  for (const double fraction : {0.01, 0.99}) {
    options.extra_fraction = fraction;
    EXPECT_THROW(ShardedSampler{options}, ConfigError);
  }
  options = with_extra();
  options.extra_size = 0;
  EXPECT_THROW(ShardedSampler{options}, ConfigError);
}

}  // namespace
}  // namespace temper
