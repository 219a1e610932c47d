#include <optional>
#include <utility>

#include "recipe/describe.h"
#include "recipe/value_text.h"
#include "temper/recipe/load_config.h"

namespace temper {
namespace recipe {
namespace {

// The keys of one map in flow style: {name: random_crop, size: 32}.
class FlowPrinter {
 public:
  template <typename T>
  void operator()(const char* name, T& value, const Field& /*field*/) {
    keys_.push_back(concat(name, ": ", value_text(value)));
  }
  [[nodiscard]] std::string text() const { return concat('{', join(keys_, ", "), '}'); }

 private:
  std::vector<std::string> keys_;
};

template <typename T>
std::string flow_text(T value) {
  FlowPrinter printer;
  describe(printer, value);
  return printer.text();
}

class Printer {
 public:
  Printer(const LoadedConfig& loaded, bool with_comments)
      : loaded_(loaded), with_comments_(with_comments) {}

  template <typename T>
  void operator()(const char* name, T& value, const Field& field) {
    const std::string outer = path_;
    path_ += (path_.empty() ? "" : ".") + std::string(name);
    print(name, value, field);
    path_ = outer;
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <typename T>
  void print(const char* name, T& value, const Field& /*field*/) {
    if constexpr (Described<T>) {
      text_ += concat(indent_, name, ":\n");
      const std::string outer = std::exchange(indent_, indent_ + "  ");
      describe(*this, value);
      indent_ = outer;
    } else {
      line(name, value_text(value));
    }
  }

  template <typename T>
  void print(const char* name, std::optional<T>& value, const Field& field) {
    if (value) {
      print(name, *value, field);
    } else {
      line(name, std::string(field.absent));
    }
  }

  void print(const char* name, TransformConfig& value, const Field& /*field*/) {
    std::vector<std::string> steps;
    for (const TransformStepConfig& step : value.steps) {
      steps.push_back(flow_text(step));
    }
    line(name, value.preset.empty() ? concat('[', join(steps, ", "), ']') : value.preset);
  }

  void print(const char* name, NormalizationConfig& value, const Field& /*field*/) {
    line(name, value.preset.empty() ? flow_text(value) : value.preset);
  }

  void line(const char* name, const std::string& value) {
    text_ += concat(indent_, name, ": ", value);
    if (with_comments_) {
      const auto found = loaded_.origin.find(path_);
      text_ += concat("  # ", found == loaded_.origin.end() ? "default" : found->second);
    }
    text_ += '\n';
  }

  const LoadedConfig& loaded_;
  bool with_comments_;
  std::string path_;
  std::string indent_;
  std::string text_;
};

}  // namespace
}  // namespace recipe

std::string print_config(const LoadedConfig& loaded, bool with_comments) {
  recipe::Printer printer(loaded, with_comments);
  Config config = loaded.config;
  recipe::describe(printer, config);
  return printer.text();
}

}  // namespace temper
