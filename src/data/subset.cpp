#include "temper/data/subset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "data/fingerprint.h"
#include "temper/core/error.h"
#include "temper/core/random.h"

namespace temper {
namespace {

struct Class {
  std::vector<std::uint32_t> samples{};
  std::uint64_t quota = 0;
  double missing = 0;  // of its exact share
};

std::map<std::int64_t, Class> classes_of(std::span<const std::int64_t> labels) {
  std::map<std::int64_t, Class> classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    classes[labels[i]].samples.push_back(static_cast<std::uint32_t>(i));
  }
  return classes;
}

// The whole part of each class's share, and one more for those that miss most of it.
void set_quotas(std::map<std::int64_t, Class>& classes, std::uint64_t count, std::size_t size) {
  std::uint64_t given = 0;
  std::vector<Class*> by_missing;
  for (auto& [label, item] : classes) {
    const double share = static_cast<double>(count) * static_cast<double>(item.samples.size()) /
                         static_cast<double>(size);
    item.quota = static_cast<std::uint64_t>(share);
    item.missing = share - std::floor(share);
    given += item.quota;
    by_missing.push_back(&item);
  }
  std::ranges::stable_sort(by_missing, std::greater(), &Class::missing);
  for (Class* item : by_missing) {
    if (given < count && item->quota < item->samples.size()) {
      ++item->quota;
      ++given;
    }
  }
}

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> whole, std::vector<std::uint32_t> indices)
    : whole_(std::move(whole)), indices_(std::move(indices)) {
  const std::span<const std::int64_t> labels = whole_->labels();
  for (const std::uint32_t index : indices_) {
    require(index < labels.size(), "sample ", index, " of ", labels.size());
    labels_.push_back(labels[index]);
  }
}

std::uint64_t Subset::fingerprint() const {
  Fingerprint hash;
  hash.add(whole_->fingerprint());
  for (const std::uint32_t index : indices_) {
    hash.add(std::uint64_t{index});
  }
  return hash.value();
}

Parts choose_samples(std::span<const std::int64_t> labels, std::uint64_t count, std::uint64_t seed,
                     Choice choice) {
  std::map<std::int64_t, Class> classes = classes_of(labels);
  set_quotas(classes, std::min<std::uint64_t>(count, labels.size()), labels.size());
  std::vector<std::uint32_t> keys(labels.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = SampleRandom({.seed = seed,
                            .purpose = Purpose::kShuffle,
                            .layer = static_cast<std::uint8_t>(choice)},
                           static_cast<std::uint32_t>(i))
                  .word();
  }
  Parts parts;
  for (auto& [label, item] : classes) {
    std::ranges::sort(item.samples, {}, [&](std::uint32_t i) { return std::pair(keys[i], i); });
    const auto middle = item.samples.begin() + static_cast<std::ptrdiff_t>(item.quota);
    parts.chosen.insert(parts.chosen.end(), item.samples.begin(), middle);
    parts.rest.insert(parts.rest.end(), middle, item.samples.end());
  }
  std::ranges::sort(parts.chosen);
  std::ranges::sort(parts.rest);
  return parts;
}

Parts hold_out(std::span<const std::int64_t> labels, double fraction, std::uint64_t seed) {
  if (labels.size() < 2) {
    throw ConfigError(concat("data.validation_split needs at least 2 training samples, there are ",
                             labels.size()));
  }
  const auto wanted =
      static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(labels.size())));
  return choose_samples(labels, std::clamp<std::uint64_t>(wanted, 1, labels.size() - 1), seed,
                        Choice::kHeldOut);
}

}  // namespace temper
