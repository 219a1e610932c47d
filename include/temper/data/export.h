#pragma once
// Writes a data set in other formats. What is written appears in one step, complete, and must not
// exist yet (ConfigError). The error of the first sample that cannot be read ends it.

#include <cstdint>
#include <filesystem>
#include <string>

#include "temper/data/dataset.h"

namespace temper {

// As one file per sample in one folder per class. Image files keep their bytes, and their names
// where these are those of a folder; pixels become PNG files, as unpack_dataset writes them.
// Returns the number of files.
std::uint64_t write_folder(const Dataset& dataset, const std::filesystem::path& folder,
                           int threads);

// As an uncompressed NumPy archive with the arrays images, uint8 or float32 [N, H, W] or
// [N, H, W, 3], and labels, int64. Names of classes and samples are lost. Throws ConfigError when
// the images differ in size. Returns the size of the file.
std::uint64_t write_npz(const Dataset& dataset, const std::filesystem::path& file, int threads);

// As the files of CIFAR-10 or CIFAR-100 (`format`: cifar10, cifar100) in a new folder: those of the
// training set, or with "#test" at the end of `output` that of the test set. ConfigError for other
// images than bytes of 32 x 32 pixels and for more classes. Coarse labels of CIFAR-100 are 0.
// Returns the number of files with images.
std::uint64_t write_cifar(const Dataset& dataset, const std::string& format,
                          const std::string& output, int threads);

// As the two plain IDX files of MNIST, likewise; gray images of one size. Class names are lost.
std::uint64_t write_mnist(const Dataset& dataset, const std::string& output, int threads);

}  // namespace temper
