#include "data/sample_loader.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "data/augment.h"
#include "data/codec.h"
#include "data/convert.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::uint64_t size_of(const StoredSample& stored) {
  return std::visit([](const auto& sample) { return sample.bytes.size(); }, stored);
}

// Thrown inside of this file when a sample has to be begun again with more memory.
struct NeedsMemory {
  std::uint64_t bytes;
};

}  // namespace

SampleLoader::SampleLoader(const SampleLoaderParts& parts) : parts_(parts), lease_(parts.budget) {}

std::unique_ptr<FetchedSample> SampleLoader::read_ahead(const SampleLoaderParts& parts,
                                                        std::uint32_t sample, SampleCost& cost) {
  if (parts.cache != nullptr && parts.cache->find(sample) != nullptr) {
    return nullptr;
  }
  auto fetched = std::make_unique<FetchedSample>(parts.budget);
  if (!fetched->lease.try_grow(parts.dataset.stored_size(sample))) {
    return nullptr;
  }
  const auto begin = Clock::now();
  fetched->stored = parts.dataset.read(sample, fetched->buffer);
  cost = {seconds_since(begin), size_of(fetched->stored)};
  return fetched;
}

StoredSample SampleLoader::read(std::uint32_t sample, SampleCost& cost) {
  if (parts_.cache != nullptr && (cached_ = parts_.cache->find(sample)) != nullptr) {
    return cached_->sample;
  }
  const auto begin = Clock::now();
  const StoredSample stored = parts_.dataset.read(sample, file_);
  cost.read_seconds += seconds_since(begin);
  cost.bytes_read += size_of(stored);
  return stored;
}

SampleCost SampleLoader::load(std::uint32_t sample, const SampleRandom& random,
                              FetchedSample* fetched, std::byte* out) {
  SampleCost cost;
  // How much is needed shows step by step: the file, then what its header says. Each time round
  // more is there, so this ends.
  while (true) {
    try {
      if (fetched != nullptr) {
        process(sample, fetched->stored, random, out);
        break;
      }
      const std::uint64_t size = parts_.dataset.stored_size(sample);
      if (!has_room(size)) {
        throw NeedsMemory{size};
      }
      process(sample, read(sample, cost), random, out);
      break;
    } catch (const NeedsMemory& need) {
      if (fetched != nullptr) {
        fetched->buffer.release();
        fetched->lease.shrink(0);
        fetched = nullptr;
      }
      if (!wait_for_room(need.bytes)) {
        throw DataError(concat(parts_.dataset.sample_name(sample), ": needs ", need.bytes,
                               " bytes to be decoded, but of ", parts_.budget.limit(),
                               " bytes, this loader's share of data.memory_limit, the queue of "
                               "batches leaves ",
                               parts_.budget.room(),
                               "; the file may be whole: raise data.memory_limit"));
      }
    }
  }
  cached_.reset();
  forget_large_sample();
  return cost;
}

void SampleLoader::process(std::uint32_t sample, StoredSample stored, const SampleRandom& random,
                           std::byte* out) {
  // What a data set holds in memory anyway need not be kept twice.
  if (parts_.cache != nullptr && cached_ == nullptr && parts_.dataset.stored_size(sample) > 0) {
    parts_.cache->offer(sample, stored);
  }
  try {
    if (const auto* image = std::get_if<EncodedImage>(&stored)) {
      process_encoded(sample, *image, random, out);
      return;
    }
    const PictureRegion picture = with_wanted_channels(std::get<ImageView>(stored));
    SampleRandom drawn = random;
    const TransformPlan plan = plan_transform(parts_.transform.steps(), picture.pixels.width,
                                              picture.pixels.height, drawn);
    const std::uint64_t need =
        parts_.dataset.stored_size(sample) +
        memory_between(plan.resampling, picture.pixels.channels, picture.pixels.element_type);
    if (!has_room(need)) {
      throw NeedsMemory{need};
    }
    finish(plan, picture, drawn, out);
  } catch (const DataError& error) {
    throw DataError(concat(parts_.dataset.sample_name(sample), ": ", error.what()));
  }
}

void SampleLoader::process_encoded(std::uint32_t sample, EncodedImage image, SampleRandom random,
                                   std::byte* out) {
  const auto decoder = open_image(image);
  const TransformPlan plan =
      plan_transform(parts_.transform.steps(), decoder->width(), decoder->height(), random);
  const int channels = parts_.dataset.channels();
  if (plan.is_empty()) {
    finish(plan, {{0, 0, channels, ElementType::kUInt8, {}}, 0, 0}, random, out);
    return;
  }
  const Rectangle region = needed_region(plan);
  const std::uint64_t need = (cached_ == nullptr ? parts_.dataset.stored_size(sample) : 0) +
                             decoder->memory_needed(region, channels) +
                             memory_between(plan.resampling, channels, ElementType::kUInt8);
  if (!has_room(need)) {
    throw NeedsMemory{need};
  }
  finish(plan, decoder->decode(region, channels, decoded_), random, out);
}

// The planned steps, the others behind them, and a check of what came out.
void SampleLoader::finish(const TransformPlan& plan, const PictureRegion& region,
                          SampleRandom& random, std::byte* out) {
  const std::span rest = parts_.transform.steps().subspan(plan.steps);
  const int side = parts_.image_size;
  const bool bytes = region.pixels.element_type == ElementType::kUInt8;
  const auto run = [&](std::byte* to) {
    bytes ? execute(plan, region, scratch_, reinterpret_cast<std::uint8_t*>(to))
          : execute(plan, region, scratch_, reinterpret_cast<float*>(to));
  };
  if (plan.width == side && plan.height == side && std::ranges::all_of(rest, works_in_place)) {
    run(out);
    const int channels =
        region.pixels.channels * static_cast<int>(element_size(region.pixels.element_type));
    const auto size = static_cast<std::size_t>(side) * static_cast<std::size_t>(side) *
                      static_cast<std::size_t>(channels);
    static_cast<void>(apply_in_place(
        rest, {{reinterpret_cast<std::uint8_t*>(out), size}, side, side, channels}, random));
    return;
  }
  Image image{plan.height, plan.width, region.pixels.channels, {}};
  if (bytes) {
    image.pixels = std::vector<std::uint8_t>(image.element_count());
  } else {
    image.pixels = std::vector<float>(image.element_count());
  }
  std::visit([&](auto& pixels) { run(reinterpret_cast<std::byte*>(pixels.data())); }, image.pixels);
  image = apply_steps(rest, std::move(image), random);
  if (image.height != side || image.width != side) {
    throw DataError(concat("is ", image.height, " x ", image.width,
                           " after the transform, expected ", side, " x ", side));
  }
  const ImageView view = view_of(image);
  std::memcpy(out, view.bytes.data(), view.bytes.size());
}

PictureRegion SampleLoader::with_wanted_channels(const ImageView& view) {
  if (view.channels == parts_.dataset.channels()) {
    return {view, 0, 0};
  }
  return {store(with_channels(copy_of(view), parts_.dataset.channels()), decoded_), 0, 0};
}

bool SampleLoader::has_room(std::uint64_t bytes) {
  return bytes <= parts_.allowance || lease_.try_grow(bytes - parts_.allowance);
}

bool SampleLoader::wait_for_room(std::uint64_t bytes) {
  release_buffers();
  return bytes <= parts_.allowance || lease_.replace(bytes - parts_.allowance);
}

void SampleLoader::release_buffers() {
  cached_.reset();
  file_.release();
  decoded_.release();
  scratch_.between.release();
}

// Scratch memory is kept from sample to sample, but not that of a large one.
void SampleLoader::forget_large_sample() {
  if (lease_.bytes() > 0 ||
      file_.capacity() + decoded_.capacity() + scratch_.between.capacity() > parts_.allowance) {
    release_buffers();
    lease_.shrink(0);
  }
}

}  // namespace temper
