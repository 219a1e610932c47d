#include <cstdint>
#include <nlohmann/json.hpp>

#include "temper/core/error.h"
#include "temper/data/inspect.h"

namespace temper {
namespace {

using Json = nlohmann::ordered_json;

std::string hexadecimal(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) {
    text += kDigits[value >> shift & 15];
  }
  return text;
}

Json bad_as_json(const std::vector<BadSample>& bad) {
  Json list = Json::array();
  for (const BadSample& sample : bad) {
    Json item = {{"name", sample.name}, {"reason", sample.reason}};
    item["offset"] = sample.offset ? Json(*sample.offset) : Json(nullptr);
    list.push_back(std::move(item));
  }
  return list;
}

std::string dump(const Json& json) {
  // Names need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string bad_as_text(const std::vector<BadSample>& bad) {
  std::string text;
  for (const BadSample& sample : bad) {
    text += concat("bad: ", sample.name, ": ", sample.reason,
                   sample.offset ? concat(" (begins at byte ", *sample.offset, ")") : "", "\n");
  }
  return text;
}

std::string duplicates_text(const DatasetStatistics& statistics) {
  std::string text = concat("duplicates: ", statistics.duplicates);
  if (statistics.duplicates_across_classes > 0) {
    text += concat(", ", statistics.duplicates_across_classes, " of them in another class");
  }
  text += "\n";
  for (const std::vector<std::string>& group : statistics.duplicate_groups) {
    text += concat("  equal: ", join(group, ", "), "\n");
  }
  return text;
}

std::string range_text(int min, int max) {
  return min == max ? std::to_string(min) : concat(min, " to ", max);
}

std::string list_text(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) {
    texts.push_back(fixed(value, 4));
  }
  return join(texts, ", ");
}

}  // namespace

std::string to_text(const VerifyReport& report) {
  return concat(bad_as_text(report.bad), report.samples, " samples, ", report.bad.size(), " bad\n");
}

std::string to_json(const VerifyReport& report) {
  return dump({{"samples", report.samples}, {"bad", bad_as_json(report.bad)}});
}

std::string to_text(const DatasetStatistics& statistics) {
  std::string text =
      concat(statistics.samples, " samples in ", statistics.class_names.size(), " classes\n");
  for (std::size_t i = 0; i < statistics.class_names.size(); ++i) {
    text += concat("  ", i, " ", statistics.class_names[i], ": ", statistics.class_counts[i], "\n");
  }
  text += concat("height: ", range_text(statistics.height_min, statistics.height_max),
                 ", width: ", range_text(statistics.width_min, statistics.width_max), "\n");
  for (const auto& [format, count] : statistics.formats) {
    text += concat("format ", format, ": ", count, "\n");
  }
  text += concat("bytes: ", statistics.bytes, ", of a sample ", statistics.bytes_min, " to ",
                 statistics.bytes_max, "\n", duplicates_text(statistics));
  text += concat("mean: ", list_text(statistics.mean),
                 "\nstandard deviation: ", list_text(statistics.standard_deviation),
                 "\nfingerprint: ", hexadecimal(statistics.fingerprint), "\n");
  return text + bad_as_text(statistics.bad);
}

std::string to_json(const DatasetStatistics& statistics) {
  Json classes = Json::array();
  for (std::size_t i = 0; i < statistics.class_names.size(); ++i) {
    classes.push_back(
        {{"name", statistics.class_names[i]}, {"samples", statistics.class_counts[i]}});
  }
  return dump({{"samples", statistics.samples},
               {"classes", classes},
               {"height", {statistics.height_min, statistics.height_max}},
               {"width", {statistics.width_min, statistics.width_max}},
               {"formats", statistics.formats},
               {"bytes",
                {{"total", statistics.bytes},
                 {"min", statistics.bytes_min},
                 {"max", statistics.bytes_max}}},
               {"duplicates",
                {{"samples", statistics.duplicates},
                 {"in_another_class", statistics.duplicates_across_classes},
                 {"groups", statistics.duplicate_groups}}},
               {"mean", statistics.mean},
               {"standard_deviation", statistics.standard_deviation},
               {"fingerprint", hexadecimal(statistics.fingerprint)},
               {"bad", bad_as_json(statistics.bad)}});
}

}  // namespace temper
