#pragma once
// Opens a data set by the name of its format.
//
//   folder    one folder a class, as torchvision's ImageFolder: PNG and JPEG files, recognised by
//             content, sorted by bytes; EXIF orientation is ignored, alpha is dropped
//   npz       a NumPy archive with the arrays images and labels. `file.npz#train` selects
//             train_images and train_labels, or x_train and y_train; `file.npz#x,y` names both.
//             Images uint8, or float32 and float64 in [0, 1], of shape NHWC, NCHW or NHW (gray);
//             labels of any integer type, [N] or [N, 1]
//   cifar10   a folder with data_batch_1.bin ... data_batch_5.bin and test_batch.bin
//   cifar100  a folder with train.bin and test.bin; fine labels
//             `folder` and `folder#train` read the training files, `folder#test` the test file; the
//             path may also be one such file
//   pack, mnist, synthetic are not there yet

#include <memory>
#include <string>

#include "temper/data/dataset.h"

namespace temper {

struct DatasetOptions {
  std::string format = "folder";
  std::string path;
  int channels = 3;  // 1: gray by Pillow's L formula; 3: RGB; 0: as stored, files always RGB
  int classes = 0;   // checked against the data; 0: whatever the data holds
};

// Throws ConfigError, which says what is wrong, where, and what to do, for a missing or unusable
// folder or file, classes without files, a class count other than `classes`, a label out of range,
// and an unknown or missing format. Throws DataError for a damaged archive. Warns of files that it
// passes over because their names start with a dot.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

// The format that a path most likely holds: npz by its name, cifar10 or cifar100 by the files of
// the folder, otherwise folder.
[[nodiscard]] std::string guess_format(const std::string& path);

}  // namespace temper
