#pragma once
// A catalog maps names to factories: an ordinary value with one explicit line per entry, so that
// nothing depends on static registration (which a linker drops from static libraries) and a program
// can add entries of its own.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "temper/core/error.h"
#include "temper/core/text.h"

namespace temper {

template <typename Interface, typename... Args>
class Catalog {
 public:
  using Factory = std::function<std::shared_ptr<Interface>(const Args&...)>;

  // `what` names the kind of thing in error messages, e.g. "architecture".
  explicit Catalog(std::string what) : what_(std::move(what)) {}

  void add(const std::string& name, Factory factory) {
    require(find(name) == nullptr, what_, " '", name, "' is in the catalog already");
    entries_.emplace_back(name, std::move(factory));
  }

  // Throws ConfigError with the nearest name when `name` is unknown.
  [[nodiscard]] std::shared_ptr<Interface> make(const std::string& name,
                                                const Args&... args) const {
    if (const Factory* factory = find(name)) {
      return (*factory)(args...);
    }
    const std::vector<std::string> known = names();
    const std::string match = closest_match(name, known);
    throw ConfigError(concat("unknown ", what_, " '", name, "'; known: ", join(known, ", "),
                             match.empty() ? "" : concat("; did you mean '", match, "'?")));
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, factory] : entries_) {
      out.push_back(name);
    }
    return out;
  }

 private:
  [[nodiscard]] const Factory* find(std::string_view name) const {
    for (const auto& [known, factory] : entries_) {
      if (known == name) {
        return &factory;
      }
    }
    return nullptr;
  }

  std::string what_;
  std::vector<std::pair<std::string, Factory>> entries_;
};

}  // namespace temper
