#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "recipe/describe.h"
#include "recipe/value_text.h"
#include "temper/recipe/load_config.h"

namespace temper {
namespace recipe {
namespace {

constexpr std::string_view kIntroduction =
    R"(<!-- Made from src/recipe by the program config_reference; change the descriptions there. -->
# Configuration

A run is configured by YAML files, `trainer --config FILE [--config FILE]...`, and by `key=value`
arguments.

* Several files are merged in order, key by key; a later one wins. `include: other.yaml`, or a list
  of files, at the top of a file names what is merged before it, relative to the file.
* `threat_model.epsilon=8/255` on the command line sets one key by its dotted path. The value is YAML
  and replaces the whole key, also a map or a list: `'data.transform.train=[]'`,
  `'validation.attack={name: fgsm}'`.
* Everything is checked before anything starts. All problems are reported together, as
  `file:line:column: path.to.key: what is wrong`; in `command line:2:5` the line is the number of
  the argument. The exit status is 2.
* A value "of a later version" is refused, never ignored.
* `trainer --print-config` prints every key with the place where its value came from; its output is
  a configuration again.

| kind of value | written as |
|---|---|
| number | `0.1`, `5e-4` or a quotient: `8/255` |
| length of training, frequency | `5ep` (epochs), `2000up` (updates), `50ksa`, `1Msa` (samples) |
| duration | `30s`, `10min`, `11h30m`, `2d` |
| size | `512MiB`, `4GiB`, `2GB` |

`epsilon` and `step_size` are in pixel units of [0,1] images for every norm.
)";

constexpr std::string_view kSteps = R"(
## Steps of a transform

`data.transform` holds a preset (`imagenet`: random resized crop and flip, for evaluation resize to
256/224 of the image size and centre crop; `cifar`: random crop with an eighth as padding and flip;
`mnist` and `none`: nothing), or a list of steps, each `{name: random_crop, size: 32, padding: 4}` or
a name alone.

| step | key | default | values | meaning |
|---|---|---|---|---|
)";

// Values that a key may have, in words.
std::string range_text(const Field& field) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto number = [](double value) {
    return value == std::floor(value) ? fixed(value, 0) : to_text(value);
  };
  const bool lower = field.min > -kInfinity;
  const bool upper = field.max < kInfinity;
  const std::string from = field.positive ? "above 0" : lower ? number(field.min) : "";
  if (!upper) {
    return lower && !field.positive ? concat("at least ", from) : from;
  }
  return concat(from, field.below_max ? " to below " : " to ", number(field.max));
}

std::string code(const std::string& text) { return concat('`', text, '`'); }

std::string codes(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    out.push_back(code(word));
  }
  return join(out, ", ");
}

constexpr std::string_view kListOfText = "list of text";

std::string values_text(const Field& field, const std::string& kind) {
  std::string text = field.choices.empty() ? kind
                     : kind == kListOfText ? concat("list of ", codes(field.choices))
                                           : codes(field.choices);
  const std::string range = range_text(field);
  if (!range.empty() && field.choices.empty()) {
    text += concat(", ", range);
  }
  if (!field.later.empty()) {
    text += concat("; later version: ", codes(field.later));
  }
  return text;
}

template <typename T>
std::string kind_text(const T& /*value*/) {
  if constexpr (std::is_same_v<T, bool>) {
    return "`true`, `false`";
  } else if constexpr (std::is_integral_v<T>) {
    return "whole number";
  } else if constexpr (std::is_same_v<T, double>) {
    return "number";
  } else if constexpr (std::is_same_v<T, Period>) {
    return "length";
  } else if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    return "duration";
  } else if constexpr (std::is_same_v<T, TimeLimit>) {
    return "`auto`, duration";
  } else if constexpr (std::is_same_v<T, ByteSize>) {
    return "size";
  } else {
    return "text";
  }
}
std::string kind_text(const std::array<double, 2>& /*value*/) { return "[least, largest]"; }
template <typename T>
std::string kind_text(const std::vector<T>& /*value*/) {
  return concat("list of ", kind_text(T{}));
}
template <typename T>
std::string kind_text(const std::optional<T>& /*value*/) {
  return kind_text(T{});
}
std::string kind_text(const std::optional<std::int64_t>& /*value*/) { return "whole number"; }

// The rows of one section's table.
class RowPrinter {
 public:
  explicit RowPrinter(std::string first) : first_(std::move(first)) {}

  template <typename T>
  void operator()(const char* name, T& value, const Field& field) {
    row(name, value, field);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <typename T>
  void row(const char* name, T& value, const Field& field) {
    if constexpr (Described<T>) {
      text_ += concat("| ", first_, code(prefix_ + name), " | | map | ", field.help, " |\n");
      nested(name, value);
    } else {
      add(name, value_text(value), kind_text(value), field);
    }
  }

  template <typename T>
  void row(const char* name, std::optional<T>& value, const Field& field) {
    if constexpr (Described<T>) {
      T present = value.value_or(T{});
      add(name, value ? "" : "null", "map or `null`", field);
      nested(name, present);
    } else {
      const std::string absent(field.absent);
      add(name, value ? value_text(*value) : absent, concat(kind_text(value), " or ", code(absent)),
          field);
    }
  }

  void row(const char* name, TransformConfig& value, const Field& field) {
    add(name, value.preset, "", field, " or a list of steps");
  }

  void row(const char* name, NormalizationConfig& value, const Field& field) {
    add(name, value.preset, "", field, " or {mean, std}");
    nested(name, value);
  }

  template <typename T>
  void nested(const char* name, T& value) {
    const std::string outer = std::exchange(prefix_, concat(prefix_, name, '.'));
    describe(*this, value);
    prefix_ = outer;
  }

  void add(const char* name, const std::string& default_value, const std::string& kind,
           const Field& field, std::string_view or_else = "") {
    const std::string shown =
        field.default_text.empty() ? code(default_value) : std::string(field.default_text);
    text_ += concat("| ", first_, code(prefix_ + name), " | ", default_value.empty() ? "" : shown,
                    " | ", values_text(field, kind), or_else, " | ", field.help, " |\n");
  }

  std::string first_;
  std::string prefix_;
  std::string text_;
};

class SectionPrinter {
 public:
  template <typename T>
  void operator()(const char* name, T& value, const Field& field) {
    text += concat("\n## ", name, "\n\n", field.help,
                   "\n\n| key | default | values | meaning |\n|---|---|---|---|\n");
    RowPrinter rows("");
    describe(rows, value);
    text += rows.text();
  }
  std::string text;
};

std::string step_rows() {
  std::string text;
  for (const std::string& name : kTransformSteps) {
    TransformStepConfig step{.name = name};
    RowPrinter rows(code(name) + " | ");
    const auto without_name = [&](const char* key, auto& value, const Field& field) {
      if (std::string_view(key) != "name") {
        rows(key, value, field);
      }
    };
    describe(without_name, step);
    text += rows.text();
  }
  return text;
}

}  // namespace
}  // namespace recipe

std::string configuration_reference() {
  recipe::SectionPrinter sections;
  Config config;
  recipe::describe(sections, config);
  return concat(recipe::kIntroduction, sections.text, recipe::kSteps, recipe::step_rows());
}

}  // namespace temper
