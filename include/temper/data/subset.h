#pragma once
// A part of a data set, and how parts are chosen.

#include <memory>
#include <vector>

#include "temper/data/dataset.h"

namespace temper {

// Some samples of a data set, which is shared, in the given order.
class Subset final : public Dataset {
 public:
  // A failed check for an index out of range.
  Subset(std::shared_ptr<const Dataset> whole, std::vector<std::uint32_t> indices);

  [[nodiscard]] std::span<const std::int64_t> labels() const override { return labels_; }
  [[nodiscard]] std::span<const std::string> class_names() const override {
    return whole_->class_names();
  }
  [[nodiscard]] int channels() const override { return whole_->channels(); }
  [[nodiscard]] ElementType element_type() const override { return whole_->element_type(); }
  [[nodiscard]] std::uint64_t fingerprint() const override;
  [[nodiscard]] std::string sample_name(std::size_t index) const override {
    return whole_->sample_name(indices_[index]);
  }
  [[nodiscard]] std::string local_name(std::size_t index) const override {
    return whole_->local_name(indices_[index]);
  }
  [[nodiscard]] std::optional<std::uint64_t> offset(std::size_t index) const override {
    return whole_->offset(indices_[index]);
  }
  [[nodiscard]] std::uint64_t held_bytes() const override { return whole_->held_bytes(); }
  void check_storage() const override { whole_->check_storage(); }
  [[nodiscard]] StoredSample read(std::size_t index, Buffer& buffer) const override {
    return whole_->read(indices_[index], buffer);
  }
  [[nodiscard]] std::uint64_t stored_size(std::size_t index) const override {
    return whole_->stored_size(indices_[index]);
  }
  [[nodiscard]] SampleInfo describe(std::size_t index) const override {
    return whole_->describe(indices_[index]);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<std::uint32_t> indices_;
  std::vector<std::int64_t> labels_;
};

struct Parts {
  std::vector<std::uint32_t> chosen;  // both in increasing order
  std::vector<std::uint32_t> rest;
};

// What a choice is for: other samples for each.
enum class Choice : std::uint8_t { kHeldOut = 1, kOverfittingCheck = 2 };

// Chooses `count` samples, at most all, from each class as near to its share as whole numbers
// allow. A function of the labels, the count, the seed and the purpose alone.
[[nodiscard]] Parts choose_samples(std::span<const std::int64_t> labels, std::uint64_t count,
                                   std::uint64_t seed, Choice choice);

// round(fraction * size), but at least one sample is chosen and one left: ConfigError for fewer
// than two samples.
[[nodiscard]] Parts hold_out(std::span<const std::int64_t> labels, double fraction,
                             std::uint64_t seed);

}  // namespace temper
