#include "recipe/read_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "recipe/describe.h"
#include "recipe/value_text.h"
#include "temper/core/error.h"

namespace temper::recipe {
namespace {

struct ValueError {
  std::string text;
};

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  // A word of one letter is as close to everything.
  const std::string match = word.size() < 2 ? "" : closest_match(word, candidates);
  return match.empty() ? "" : concat("; did you mean '", match, "'?");
}

std::string expected(std::string_view what, const Field& field, const Node& node) {
  const std::string other = field.absent == "null" ? "" : concat(" or ", field.absent);
  return concat("expected ", what, other, ", found ", found_text(node));
}

const std::string& scalar(const Node& node, std::string_view what, const Field& field) {
  if (node.kind != Node::Kind::kScalar) {
    throw ValueError{expected(what, field, node)};
  }
  return node.text;
}

void check_choice(const std::string& word, const Field& field) {
  const auto contains = [&](const std::vector<std::string>& list) {
    return std::ranges::find(list, word) != list.end();
  };
  if (contains(field.later)) {
    throw ValueError{
        concat("'", word, "' comes in a later version",
               field.choices.empty() ? "" : "; available: ", join(field.choices, ", "))};
  }
  if (!field.choices.empty() && !contains(field.choices)) {
    throw ValueError{concat("'", word, "' is not one of ", join(field.choices, ", "),
                            suggestion(word, field.choices))};
  }
}

std::string bound_text(double bound) {
  return bound == std::floor(bound) ? concat(static_cast<std::int64_t>(bound)) : to_text(bound);
}

void check_bounds(double value, const std::string& text, const Field& field) {
  if (field.positive && value <= 0) {
    throw ValueError{concat("must be above 0, found ", text)};
  }
  if (value < field.min) {
    throw ValueError{concat("must be at least ", bound_text(field.min), ", found ", text)};
  }
  if (field.below_max && value >= field.max) {
    throw ValueError{concat("must be below ", bound_text(field.max), ", found ", text)};
  }
  if (value > field.max) {
    throw ValueError{concat("must be at most ", bound_text(field.max), ", found ", text)};
  }
}

void parse_value(const Node& node, std::string& value, const Field& field) {
  value = scalar(node, field.choices.empty() ? "text" : "a word", field);
  if (value.empty()) {
    throw ValueError{"must not be empty"};
  }
  check_choice(value, field);
}

void parse_value(const Node& node, bool& value, const Field& field) {
  const std::string& text = scalar(node, "true or false", field);
  if (node.quoted || (text != "true" && text != "false")) {
    throw ValueError{expected("true or false", field, node)};
  }
  value = text == "true";
}

template <typename Integer>
  requires std::same_as<Integer, std::int64_t> || std::same_as<Integer, std::uint64_t>
void parse_value(const Node& node, Integer& value, const Field& field) {
  constexpr std::string_view kWhat =
      std::is_signed_v<Integer> ? "a whole number" : "a whole number from 0 to 2^64 - 1";
  const std::string& text = scalar(node, kWhat, field);
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (node.quoted || result.ec != std::errc{} || result.ptr != end) {
    throw ValueError{expected(kWhat, field, node)};
  }
  check_choice(text, field);
  check_bounds(static_cast<double>(value), text, field);
}

// Numbers and quantities whose parser is one of core's; it throws ConfigError.
template <typename T, typename Parse>
void parse_quantity(const Node& node, T& value, std::string_view what, const Field& field,
                    const Parse& parse) {
  const std::string& text = scalar(node, what, field);
  if (std::ranges::find(field.later, text) != field.later.end()) {
    check_choice(text, field);
  }
  try {
    value = parse(text);
  } catch (const ConfigError& error) {
    throw ValueError{error.what()};
  }
}

void parse_value(const Node& node, double& value, const Field& field) {
  parse_quantity(node, value, "a number", field, parse_number);
  check_bounds(value, node.text, field);
}

void parse_value(const Node& node, Period& value, const Field& field) {
  parse_quantity(node, value, "a number with a unit (ep, up, sa)", field, parse_period);
  if (value.unit != Period::Unit::kEpochs && value.value != std::floor(value.value)) {
    throw ValueError{concat("updates and samples are whole numbers, found '", node.text, "'")};
  }
  check_bounds(value.value, node.text, field);
}

void parse_value(const Node& node, std::chrono::milliseconds& value, const Field& field) {
  parse_quantity(node, value, "a duration", field, parse_duration);
  check_bounds(static_cast<double>(value.count()), node.text, field);
}

void parse_value(const Node& node, TimeLimit& value, const Field& field) {
  value = {.duration = {}, .automatic = !node.quoted && node.text == "auto"};
  if (!value.automatic) {
    parse_value(node, value.duration, field);
  }
}

void parse_value(const Node& node, ByteSize& value, const Field& field) {
  parse_quantity(node, value, "a size", field, parse_byte_size);
  check_bounds(static_cast<double>(value.bytes), node.text, field);
}

// Collects the dotted paths of all keys, to find the section a misplaced key belongs to.
class PathCollector {
 public:
  template <typename T>
  void operator()(const char* name, T& value, const Field& /*field*/) {
    const std::string path = prefix_ + name;
    paths.push_back(path);
    const std::string outer = std::exchange(prefix_, path + '.');
    descend(value);
    prefix_ = outer;
  }
  std::vector<std::string> paths;

 private:
  template <typename T>
  void descend(T& value) {
    if constexpr (Described<T>) {
      describe(*this, value);
    }
  }
  template <typename T>
  void descend(std::optional<T>& /*value*/) {
    T present{};
    descend(present);
  }

  std::string prefix_;
};

std::string other_section(const std::string& key) {
  PathCollector collector;
  Config config;
  describe(collector, config);
  std::vector<std::string> matches;
  for (const std::string& path : collector.paths) {
    if (path.ends_with('.' + key)) {
      matches.push_back(path);
    }
  }
  return matches.size() == 1 ? concat("; did you mean '", matches[0], "'?") : "";
}

// Reads the keys of one map.
class MapReader {
 public:
  MapReader(Node& map, std::string path, Places& places, Problems& problems,
            const MoreChoices& more_choices)
      : map_(map),
        path_(std::move(path)),
        places_(places),
        problems_(problems),
        more_choices_(more_choices) {}

  template <typename T>
  void operator()(const char* name, T& value, const Field& field) {
    known_.emplace_back(name);
    Entry* entry = map_.find(name);
    if (entry == nullptr) {
      return;
    }
    const std::string path = path_.empty() ? name : concat(path_, '.', name);
    places_[path] = entry->value.place;
    const T original = value;
    try {
      read(entry->value, value, path, with_more_choices(field, path));
    } catch (const ValueError& error) {
      problems_.add(entry->value.place, path, error.text);
      value = original;
    }
  }

  void report_unknown_keys() {
    for (const Entry& entry : map_.entries) {
      if (std::ranges::find(known_, entry.key) == known_.end()) {
        const std::string near = entry.key == "include"
                                     ? "; include stands at the top of a file, beside the sections"
                                     : suggestion(entry.key, known_);
        problems_.add(entry.place, path_.empty() ? entry.key : concat(path_, '.', entry.key),
                      concat("unknown key", near.empty() ? other_section(entry.key) : near));
      }
    }
  }

 private:
  [[nodiscard]] Field with_more_choices(const Field& field, const std::string& path) const {
    Field out = field;
    if (const auto more = more_choices_.find(path); more != more_choices_.end()) {
      std::ranges::copy_if(more->second, std::back_inserter(out.choices), [&](const auto& word) {
        return std::ranges::find(field.choices, word) == field.choices.end();
      });
    }
    return out;
  }

  template <Described T>
  void read_map(Node& node, T& value, const std::string& path) {
    MapReader reader(node, path, places_, problems_, more_choices_);
    describe(reader, value);
    reader.report_unknown_keys();
  }

  template <typename T>
  void read(Node& node, T& value, const std::string& path, const Field& field) {
    if constexpr (Described<T>) {
      if (node.kind != Node::Kind::kMap) {
        throw ValueError{concat("expected a map, found ", found_text(node))};
      }
      read_map(node, value, path);
    } else {
      parse_value(node, value, field);
    }
  }

  template <typename T>
  void read(Node& node, std::optional<T>& value, const std::string& path, const Field& field) {
    const bool word = node.kind == Node::Kind::kScalar && !node.quoted && field.absent != "null" &&
                      node.text == field.absent;
    if (word || (field.absent == "null" && node.kind == Node::Kind::kNull)) {
      value.reset();
      return;
    }
    T present = value.value_or(T{});
    read(node, present, path, field);
    value = std::move(present);
  }

  template <typename T>
  void read(Node& node, std::vector<T>& values, const std::string& path, const Field& field) {
    if (node.kind != Node::Kind::kList) {
      throw ValueError{concat("expected a list, found ", found_text(node))};
    }
    values.clear();
    for (Node& item : node.items) {
      try {
        read(item, values.emplace_back(), path, field);
      } catch (const ValueError& error) {
        problems_.add(item.place, path, error.text);
      }
    }
  }

  void read(Node& node, std::array<double, 2>& values, const std::string& path,
            const Field& field) {
    std::vector<double> list;
    read(node, list, path, field);
    if (list.size() != 2 || list[0] > list[1]) {
      throw ValueError{"expected [least, largest]"};
    }
    values = {list[0], list[1]};
  }

  void read(Node& node, TransformConfig& value, const std::string& path, const Field& field) {
    value = {.preset = "", .steps = {}};
    if (node.kind == Node::Kind::kList) {
      read(node, value.steps, path, field);
    } else if (node.kind == Node::Kind::kScalar) {
      parse_value(node, value.preset, field);
    } else {
      throw ValueError{concat("expected a preset (", join(field.choices, ", "),
                              ") or a list of steps, found ", found_text(node))};
    }
  }

  // {name: random_crop, size: 32}, or the name alone.
  void read(Node& node, TransformStepConfig& step, const std::string& path,
            const Field& /*field*/) {
    if (node.kind == Node::Kind::kScalar) {
      Node name =
          std::exchange(node, Node{.kind = Node::Kind::kMap, .place = node.place, .entries = {}});
      node.entries.push_back({"name", name.place, std::move(name)});
    }
    if (node.kind != Node::Kind::kMap || node.find("name") == nullptr) {
      throw ValueError{concat("expected a step such as {name: random_crop, size: 32}, found ",
                              node.kind == Node::Kind::kMap ? "no name" : found_text(node))};
    }
    read_map(node, step, path);
  }

  void read(Node& node, NormalizationConfig& value, const std::string& path, const Field& field) {
    value = {.preset = "", .mean = {}, .std = {}};
    if (node.kind == Node::Kind::kMap) {
      read_map(node, value, path);
    } else if (node.kind == Node::Kind::kScalar) {
      parse_value(node, value.preset, field);
    } else {
      throw ValueError{concat("expected a preset (", join(field.choices, ", "),
                              ") or {mean: [...], std: [...]}, found ", found_text(node))};
    }
  }

  Node& map_;
  std::string path_;
  Places& places_;
  Problems& problems_;
  const MoreChoices& more_choices_;
  std::vector<std::string> known_;
};

}  // namespace

void read_config(Node& tree, Config& config, Places& places, Problems& problems,
                 const MoreChoices& more_choices) {
  MapReader reader(tree, "", places, problems, more_choices);
  describe(reader, config);
  reader.report_unknown_keys();
}

}  // namespace temper::recipe
