#pragma once
// MixUp (Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018) and CutMix (Yun et
// al., "CutMix: regularization strategy to train strong classifiers with localizable features",
// ICCV 2019) of a micro-batch that lies over the ranks. As in torchvision's transforms (v2) a
// sample is mixed with the one before it in the global order, and all samples of a micro-batch
// alike; so the result does not depend on the world size.

#include <cstdint>

#include "temper/dist/communicator.h"
#include "temper/models/image_batch.h"

namespace temper {

struct MixingOptions {
  double mixup = 0;   // parameter of the Beta distribution; 0: never
  double cutmix = 0;  // likewise; with both, each is taken for half of the micro-batches
  std::int64_t classes = 0;

  [[nodiscard]] bool is_on() const { return mixup > 0 || cutmix > 0; }
};

// What happens to all samples of one micro-batch.
struct Mixing {
  double share = 1;  // of a sample's own image and label
  // CutMix: pixels [y, y_end) x [x, x_end) are those of the other sample. MixUp: empty.
  std::int64_t x = 0, y = 0, x_end = 0, y_end = 0;
  bool cuts = false;
};

// A function of the seed, the update and the number of the micro-batch in it alone.
[[nodiscard]] Mixing draw_mixing(const MixingOptions& options, std::uint64_t seed,
                                 std::uint32_t update, std::uint32_t micro_batch,
                                 std::int64_t height, std::int64_t width);

// Mixes the rank's part of a micro-batch of `global_size` samples over all ranks: its images,
// `targets`, and `labels`, which become those of the larger share. On the batch's device. A rank
// without its samples (an empty batch) takes part as well. A collective: as many broadcasts of
// images as there are ranks.
void mix(ImageBatch& batch, const Mixing& mixing, std::int64_t classes, std::int64_t global_size,
         Communicator& communicator);

}  // namespace temper
