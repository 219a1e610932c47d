#pragma once
// Names of files and folders whose byte order is the order of the samples.

#include <span>
#include <string>
#include <vector>

#include "temper/data/dataset.h"

namespace temper {

// With zeros in front, `width` characters.
[[nodiscard]] std::string padded(std::size_t number, std::size_t width);

// Class names where their byte order is the order of labels, with the label in front otherwise.
[[nodiscard]] std::vector<std::string> class_folder_names(std::span<const std::string> names);

// The paths of one file per sample. Where the samples' own names are paths below the folders of
// their classes, in the order in which a folder is read, these; otherwise numbers.
[[nodiscard]] std::vector<std::string> sample_file_names(const Dataset& dataset);

// Throws ConfigError for a class without samples, as an empty class folder could not be read.
void require_every_class(const Dataset& dataset);

}  // namespace temper
