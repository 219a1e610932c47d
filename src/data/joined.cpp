#include "temper/data/joined.h"

#include <algorithm>

#include "data/fingerprint.h"
#include "temper/core/error.h"

namespace temper {
namespace {

bool are_numbers(std::span<const std::string> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != std::to_string(i)) {
      return false;
    }
  }
  return true;
}

void check_classes(const Dataset& first, const Dataset& second) {
  const std::span<const std::string> names = second.class_names();
  const bool same = std::ranges::equal(first.class_names(), names);
  if (!same && !(are_numbers(names) && names.size() <= first.class_names().size())) {
    throw ConfigError(concat("data.extra has ", names.size(), " classes (", names.front(),
                             ", ...), data.train has ", first.class_names().size(), " (",
                             first.class_names().front(),
                             ", ...): they must have the same names, or be numbers; with "
                             "unlabelled: true labels are not used"));
  }
}

}  // namespace

Joined::Joined(std::shared_ptr<const Dataset> first, std::shared_ptr<const Dataset> second,
               bool second_is_labelled)
    : first_(std::move(first)), second_(std::move(second)) {
  if (first_->channels() != second_->channels() ||
      first_->element_type() != second_->element_type()) {
    throw ConfigError("data.extra has other channels or another type of pixels than data.train");
  }
  if (second_is_labelled) {
    check_classes(*first_, *second_);
  }
  labels_.assign(first_->labels().begin(), first_->labels().end());
  for (const std::int64_t label : second_->labels()) {
    labels_.push_back(second_is_labelled ? label : kNoLabel);
  }
}

Joined::Place Joined::place(std::size_t index) const {
  return index < first_->size() ? Place{*first_, index} : Place{*second_, index - first_->size()};
}

std::uint64_t Joined::fingerprint() const {
  Fingerprint hash;
  hash.add(first_->fingerprint());
  hash.add(second_->fingerprint());
  hash.add(std::uint64_t{labels_.back() == kNoLabel ? 0U : 1U});
  return hash.value();
}

std::string Joined::sample_name(std::size_t index) const {
  const Place at = place(index);
  return at.dataset.sample_name(at.index);
}

std::string Joined::local_name(std::size_t index) const {
  const Place at = place(index);
  return at.dataset.local_name(at.index);
}

std::optional<std::uint64_t> Joined::offset(std::size_t index) const {
  const Place at = place(index);
  return at.dataset.offset(at.index);
}

void Joined::check_storage() const {
  first_->check_storage();
  second_->check_storage();
}

StoredSample Joined::read(std::size_t index, Buffer& buffer) const {
  const Place at = place(index);
  return at.dataset.read(at.index, buffer);
}

std::uint64_t Joined::stored_size(std::size_t index) const {
  const Place at = place(index);
  return at.dataset.stored_size(at.index);
}

SampleInfo Joined::describe(std::size_t index) const {
  const Place at = place(index);
  return at.dataset.describe(at.index);
}

}  // namespace temper
