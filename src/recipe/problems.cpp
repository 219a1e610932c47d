#include <algorithm>

#include "recipe/tree.h"
#include "temper/core/error.h"

namespace temper::recipe {

int Problems::add_source(const std::string& name) {
  sources_.push_back(name);
  return static_cast<int>(sources_.size()) - 1;
}

std::string Problems::place_text(const Place& place) const {
  const std::string& source = sources_.at(static_cast<std::size_t>(place.source));
  return place.line == 0 ? source : concat(source, ':', place.line, ':', place.column);
}

std::string Problems::origin_text(const Place& place) const {
  const std::string& source = sources_.at(static_cast<std::size_t>(place.source));
  return source == kCommandLine ? source : concat(source, ':', place.line);
}

void Problems::add(const Place& place, const std::string& path, const std::string& text) {
  paths_.insert(path);
  const std::string_view separator = path.empty() ? "" : ": ";
  problems_.push_back({place, concat(place_text(place), ": ", path, separator, text)});
}

void Problems::throw_if_any() const {
  if (problems_.empty()) {
    return;
  }
  std::vector<Problem> sorted = problems_;
  std::ranges::stable_sort(sorted, {}, &Problem::place);
  std::vector<std::string> lines;
  for (const Problem& problem : sorted) {
    lines.push_back(problem.text);
  }
  throw ConfigError(join(lines, "\n"));
}

}  // namespace temper::recipe
