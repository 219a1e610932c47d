#pragma once
// Opens a data set by the name of its format.
//
//   folder    one folder a class, as torchvision's ImageFolder: PNG and JPEG files, recognised by
//             content, sorted by bytes; EXIF orientation is ignored, alpha is dropped
//   npz       arrays of images and labels in a NumPy archive. Names, in this order: images and
//             labels, x and y, x_train and y_train; `file.npz#train` selects train_images and
//             train_labels, or x_train and y_train
//   cifar10   a folder with data_batch_1.bin ... data_batch_5.bin and test_batch.bin
//   cifar100  a folder with train.bin and test.bin; fine labels
//             For both the path may be a folder, then all training batches are read, or one file;
//             `folder#test` reads the test file
//   pack, mnist, synthetic are not there yet

#include <memory>
#include <string>

#include "temper/data/dataset.h"

namespace temper {

struct DatasetOptions {
  std::string format = "folder";
  std::string path;
  int channels = 3;  // 1: gray by Pillow's L formula; 3: RGB
  int classes = 0;   // checked against the data; 0: whatever the data holds
};

// Throws ConfigError, which says what is wrong, where, and what to do, for a missing or unusable
// folder or file, classes without files, a class count other than `classes`, a label out of range,
// and an unknown or missing format.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

// The format that a path most likely holds: npz by its name, cifar10 or cifar100 by the files of
// the folder, otherwise folder.
[[nodiscard]] std::string guess_format(const std::string& path);

}  // namespace temper
