#include "temper/train/mixing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "temper/core/error.h"
#include "temper/core/random.h"

namespace temper {
namespace {

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double draw_gamma(double shape, SampleRandom& random) {
  if (shape < 1) {
    const double uniform = random.uniform();
    return draw_gamma(shape + 1, random) * std::pow(1 - uniform, 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    const double normal = radius * std::cos(2 * std::numbers::pi * random.uniform());
    const double v = std::pow(1 + c * normal, 3);
    if (v > 0 &&
        std::log(1 - random.uniform()) < normal * normal / 2 + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

double draw_beta(double parameter, SampleRandom& random) {
  const double a = draw_gamma(parameter, random);
  const double b = draw_gamma(parameter, random);
  return a + b > 0 ? a / (a + b) : 0.5;
}

// A square in the image's shape whose middle is anywhere, cut off at the edges.
Mixing draw_box(double share, std::int64_t height, std::int64_t width, SampleRandom& random) {
  const auto place = [&](std::int64_t length, std::int64_t& begin, std::int64_t& end) {
    const auto middle = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(length)));
    const auto half =
        static_cast<std::int64_t>(0.5 * std::sqrt(1 - share) * static_cast<double>(length));
    begin = std::max<std::int64_t>(0, middle - half);
    end = std::min(length, middle + half);
  };
  Mixing mixing{.cuts = true};
  place(width, mixing.x, mixing.x_end);
  place(height, mixing.y, mixing.y_end);
  mixing.share = 1 - static_cast<double>((mixing.x_end - mixing.x) * (mixing.y_end - mixing.y)) /
                         static_cast<double>(width * height);
  return mixing;
}

struct Part {
  at::Tensor images;
  at::Tensor labels;
};

// Each sample's predecessor in the global order, where position i lies on rank i mod world size;
// the first sample's is the last one.
Part predecessors(const ImageBatch& batch, std::int64_t global_size, Communicator& communicator) {
  const std::int64_t world_size = communicator.world_size();
  const std::int64_t rank = communicator.rank();
  const std::int64_t own = batch.labels.numel();
  Part result{at::empty_like(batch.images), at::empty_like(batch.labels)};
  const auto take = [&](const Part& part, std::int64_t to, std::int64_t from, std::int64_t count) {
    result.images.narrow(0, to, count).copy_(part.images.narrow(0, from, count));
    result.labels.narrow(0, to, count).copy_(part.labels.narrow(0, from, count));
  };
  const PurposeScope scope(communicator, "mixing");
  for (std::int64_t root = 0; root < world_size; ++root) {
    const std::int64_t count = (global_size - root + world_size - 1) / world_size;
    std::vector<std::int64_t> shape = batch.images.sizes().vec();
    shape[0] = count;
    Part part{at::zeros(shape, batch.images.options()), at::zeros({count}, batch.labels.options())};
    if (root == rank && own == count) {
      part = {batch.images.contiguous(), batch.labels.contiguous()};
    }
    communicator.broadcast(part.images, static_cast<int>(root));
    communicator.broadcast(part.labels, static_cast<int>(root));
    if (own == 0) {
      continue;
    }
    if (rank == 0 && root == (global_size - 1) % world_size) {
      take(part, 0, (global_size - 1) / world_size, 1);
    }
    if (rank == 0 && root == world_size - 1) {
      take(part, 1, 0, own - 1);
    } else if (root == rank - 1) {
      take(part, 0, 0, own);
    }
  }
  return result;
}

}  // namespace

Mixing draw_mixing(const MixingOptions& options, std::uint64_t seed, std::uint32_t update,
                   std::uint32_t micro_batch, std::int64_t height, std::int64_t width) {
  require(options.is_on(), "nothing to mix with");
  SampleRandom random({.seed = seed, .purpose = Purpose::kMixing, .index = update}, micro_batch);
  const bool both = options.mixup > 0 && options.cutmix > 0;
  const bool cuts = both ? random.uniform() < 0.5 : options.cutmix > 0;
  const double share = draw_beta(cuts ? options.cutmix : options.mixup, random);
  return cuts ? draw_box(share, height, width, random) : Mixing{.share = share};
}

void mix(ImageBatch& batch, const Mixing& mixing, std::int64_t classes, std::int64_t global_size,
         Communicator& communicator) {
  const Part other = predecessors(batch, global_size, communicator);
  if (mixing.cuts) {
    const auto box = [&](const at::Tensor& images) {
      return images.slice(2, mixing.y, mixing.y_end).slice(3, mixing.x, mixing.x_end);
    };
    batch.images = batch.images.clone();
    box(batch.images).copy_(box(other.images));
  } else {
    batch.images = mixing.share * batch.images + (1 - mixing.share) * other.images;
  }
  const auto one_hot = [&](const at::Tensor& labels) {
    return at::one_hot(labels, classes).to(batch.images.scalar_type());
  };
  batch.targets = mixing.share * one_hot(batch.labels) + (1 - mixing.share) * one_hot(other.labels);
  if (mixing.share < 0.5) {
    batch.labels = other.labels;
  }
}

}  // namespace temper
