#include "data/folder_names.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "data/folder_scan.h"
#include "temper/core/error.h"

namespace temper {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

bool is_file_name(const std::string& name) {
  return !name.empty() && !name.starts_with('.') && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// The order of scan_folder.
struct Place {
  std::int64_t label = 0;
  std::string folder;
  std::string file;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// An unsafe name, such as one that leads out of the folder, gives no place.
std::optional<Place> place_of(const std::string& name, std::int64_t label,
                              const std::string& class_name) {
  const std::vector<std::string> parts = split(name, '/');
  const bool usable = parts.size() >= 2 && parts.front() == class_name &&
                      std::all_of(parts.begin(), parts.end(), is_file_name) &&
                      has_image_extension(parts.back());
  if (!usable) {
    return std::nullopt;
  }
  return Place{label, name.substr(0, name.size() - parts.back().size() - 1), parts.back()};
}

bool own_names_fit(const Dataset& dataset, const std::vector<std::string>& names) {
  const std::span<const std::string> classes = dataset.class_names();
  if (std::adjacent_find(classes.begin(), classes.end(), std::greater_equal<>()) != classes.end()) {
    return false;
  }
  std::optional<Place> last;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int64_t label = dataset.labels()[i];
    std::optional<Place> place =
        place_of(names[i], label, classes[static_cast<std::size_t>(label)]);
    if (!place || (last && *place <= *last)) {
      return false;
    }
    last = std::move(place);
  }
  return true;
}

// What a file holds is told by its content, so that any suffix that is listed will do.
std::string suffix_of(const std::string& format) {
  const std::string suffix =
      format.starts_with("jpeg") ? ".jpg" : concat(".", format.substr(0, format.find(' ')));
  return has_image_extension(suffix) ? suffix : ".jpg";
}

}  // namespace

std::string padded(std::size_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

std::vector<std::string> class_folder_names(std::span<const std::string> names) {
  std::vector<std::string> folders(names.begin(), names.end());
  const bool in_order =
      std::adjacent_find(folders.begin(), folders.end(), std::greater_equal<>()) == folders.end();
  if (in_order && std::all_of(names.begin(), names.end(), is_file_name)) {
    return folders;
  }
  const std::size_t width = std::to_string(names.size() - 1).size();
  const bool numbers = std::all_of(names.begin(), names.end(), is_number);
  for (std::size_t label = 0; label < folders.size(); ++label) {
    std::string& folder = folders[label];
    std::replace(folder.begin(), folder.end(), '/', '_');
    std::replace(folder.begin(), folder.end(), '\0', '_');
    folder = numbers ? padded(label, width) : concat(padded(label, width), "_", folder);
  }
  return folders;
}

std::vector<std::string> sample_file_names(const Dataset& dataset) {
  std::vector<std::string> names;
  names.reserve(dataset.size());
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    names.push_back(dataset.local_name(i));
  }
  if (own_names_fit(dataset, names)) {
    return names;
  }
  const std::vector<std::string> folders = class_folder_names(dataset.class_names());
  const std::size_t width = std::to_string(dataset.size() - 1).size();
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    names[i] = concat(folders[static_cast<std::size_t>(dataset.labels()[i])], "/", padded(i, width),
                      suffix_of(dataset.describe(i).format));
  }
  return names;
}

void require_every_class(const Dataset& dataset) {
  std::vector<bool> present(dataset.class_names().size());
  for (const std::int64_t label : dataset.labels()) {
    present[static_cast<std::size_t>(label)] = true;
  }
  const auto missing = std::find(present.begin(), present.end(), false);
  if (missing != present.end()) {
    throw ConfigError(
        concat("class ", dataset.class_names()[static_cast<std::size_t>(missing - present.begin())],
               " has no sample; an empty class folder would be refused when it is read"));
  }
}

}  // namespace temper
