#pragma once
// Opens a data set by the name of its format.
//
//   folder    one folder a class, as torchvision's ImageFolder: PNG and JPEG files, recognised by
//             content, sorted by bytes; EXIF orientation is ignored, alpha is dropped. The list of
//             files that `datatool index` keeps in the folder is used as long as it fits;
//             `folder#index=FILE` names one that lies elsewhere
//   npz       a NumPy archive with the arrays images and labels. `file.npz#train` selects
//             train_images and train_labels, or x_train and y_train; `file.npz#x,y` names both.
//             Images uint8, or float32 and float64 in [0, 1], of shape NHWC, NCHW or NHW (gray);
//             labels of any integer type, [N] or [N, 1]
//   cifar10   a folder with data_batch_1.bin ... data_batch_5.bin and test_batch.bin
//   cifar100  a folder with train.bin and test.bin; fine labels
//             `folder` and `folder#train` read the training files, `folder#test` the test file; the
//             path may also be one such file
//   mnist     a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and the same of t10k,
//             plain or gzipped; selectors as cifar10's. The path may also be one file of images
//   pack      a file or a folder of shards, made by pack_dataset (temper/data/pack.h)
//   synthetic no files: the path says what to make, e.g. `samples=1000,size=32x32,channels=3,
//             classes=10,seed=0`. All but samples may be left out; channels and classes are then
//             those of the options. Every class has a pattern, every sample noise over it. The
//             patterns do not depend on the seed, so that another seed gives validation data

#include <memory>
#include <string>

#include "temper/data/dataset.h"

namespace temper {

struct DatasetOptions {
  std::string format = "folder";
  std::string path;
  int channels = 3;      // 1: gray by Pillow's L formula; 3: RGB; 0: as stored, files always RGB
  int classes = 0;       // checked against the data; 0: whatever the data holds
  bool upright = false;  // image files are turned as their EXIF orientation says
  // Without labels every sample has kNoLabel, and there need not be any: an npz file may hold
  // images alone, a folder image files at any depth.
  bool labelled = true;
};

// Throws ConfigError, which says what is wrong, where, and what to do, for a missing or unusable
// folder or file, classes without files, a class count other than `classes`, a label out of range,
// and an unknown or missing format. Throws DataError for a damaged archive. Warns of files that it
// passes over because their names start with a dot.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

// The format that a path most likely holds: npz and pack by its name, synthetic by its beginning
// "samples=", mnist, cifar10, cifar100 and the shards of a pack by the files of the folder,
// otherwise folder.
[[nodiscard]] std::string guess_format(const std::string& path);

}  // namespace temper
