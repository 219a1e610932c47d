#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "recipe/read_config.h"

namespace temper::recipe {

// Where the checks of a whole configuration put what they find.
class ConfigFindings {
 public:
  ConfigFindings(const Places& places, Problems& problems)
      : places_(places), problems_(problems), bad_(problems.paths()) {}

  // Reports a problem of the keys `paths` together, at the first one that was given. A key that
  // could not be read has its default by now, so nothing is said about it.
  void add(const std::vector<std::string>& paths, const std::string& text) {
    if (std::ranges::any_of(paths, [&](const auto& path) { return bad_.contains(path); })) {
      return;
    }
    for (const std::string& path : paths) {
      if (const auto found = places_.find(path); found != places_.end()) {
        problems_.add(found->second, path, text);
        return;
      }
    }
    problems_.add({}, paths.front(), text);
  }

  [[nodiscard]] bool was_given(const std::string& path) const { return places_.contains(path); }

 private:
  const Places& places_;
  Problems& problems_;
  const std::set<std::string> bad_;
};

}  // namespace temper::recipe
