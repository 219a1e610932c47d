#pragma once
// YAML as a tree of values with their places, merged from several files and the command line. This
// is the only part of Temper that sees yaml-cpp.

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace temper::recipe {

// Where a key or value stands; the first line and column are 1. Ordered as the user reads.
struct Place {
  int source = 0;  // index into Problems::sources
  int line = 0;    // 0: the source as a whole
  int column = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Entry;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text = {};  // of a scalar
  bool quoted = false;    // a quoted scalar is never a number, a boolean or null
  Place place = {};
  std::vector<Node> items = {};  // of a list
  // Of a map; the keys differ. Without a default, as Entry is not complete here.
  std::vector<Entry> entries;

  [[nodiscard]] Entry* find(std::string_view key);
};

struct Entry {
  std::string key;
  Place place;
  Node value;
};

// "a map", "a list", "null" or the quoted text, for messages.
[[nodiscard]] std::string found_text(const Node& node);

// Collects what is wrong, so that the user sees all of it at once.
class Problems {
 public:
  [[nodiscard]] int add_source(const std::string& name);
  // `path` is the dotted key, or empty.
  void add(const Place& place, const std::string& path, const std::string& text);
  [[nodiscard]] std::string place_text(const Place& place) const;
  // Place without the column; the command line has no lines here.
  [[nodiscard]] std::string origin_text(const Place& place) const;
  // The keys that have a problem so far.
  [[nodiscard]] const std::set<std::string>& paths() const { return paths_; }
  // Throws ConfigError with one line a problem, in the order of their places.
  void throw_if_any() const;

 private:
  struct Problem {
    Place place;
    std::string text;
  };
  std::vector<std::string> sources_;
  std::vector<Problem> problems_;
  std::set<std::string> paths_;
};

inline constexpr std::string_view kCommandLine = "command line";

// The merged content of the files, then of the overrides. Problems are added, not thrown.
[[nodiscard]] Node read_tree(const std::vector<std::filesystem::path>& files,
                             const std::vector<std::string>& overrides, Problems& problems);

}  // namespace temper::recipe
