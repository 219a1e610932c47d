#include "temper/metrics/metrics_log.h"

#include <nlohmann/json.hpp>

#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? kNotANumber : value.get<double>();
}

template <typename T>
std::optional<T> optional_field(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::nullopt : std::optional(found->get<T>());
}

TrainRecord parse_train(const Json& json) {
  const Json& seconds = json.at("seconds");
  return {.epoch = json.at("epoch"),
          .update = json.at("update"),
          .samples = json.at("samples"),
          .loss = number(json, "loss"),
          .clean_loss = number(json, "clean_loss"),
          .robust_loss = number(json, "robust_loss"),
          .clean_accuracy = number(json, "clean_accuracy"),
          .adversarial_accuracy = number(json, "adversarial_accuracy"),
          .learning_rate = number(json, "learning_rate"),
          .gradient_norm = number(json, "gradient_norm"),
          .zero_gradient_samples =
              optional_field<double>(json, "zero_gradient_samples").value_or(kNotANumber),
          .nonfinite_gradient_samples =
              optional_field<double>(json, "nonfinite_gradient_samples").value_or(kNotANumber),
          .images_per_second = number(json, "images_per_second"),
          .seconds = {.data = number(seconds, "data"),
                      .attack = number(seconds, "attack"),
                      .forward_backward = number(seconds, "forward_backward"),
                      .communication = number(seconds, "communication"),
                      .optimizer = number(seconds, "optimizer")},
          .peak_memory_bytes = json.at("peak_memory_bytes")};
}

ValidationRecord parse_validation(const Json& json) {
  return {.epoch = json.at("epoch"),
          .update = json.at("update"),
          .samples = json.at("samples"),
          .clean_correct = json.at("clean_correct"),
          .clean_accuracy = number(json, "clean_accuracy"),
          .clean_top5_accuracy = optional_field<double>(json, "clean_top5_accuracy"),
          .robust_correct = optional_field<std::int64_t>(json, "robust_correct"),
          .robust_accuracy = optional_field<double>(json, "robust_accuracy"),
          .attack = optional_field<std::string>(json, "attack").value_or(""),
          .average = json.at("average")};
}

EventDetail parse_detail(const Json& value) {
  if (value.is_boolean()) {
    return value.get<bool>();
  }
  if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  }
  if (value.is_number() || value.is_null()) {
    return value.is_null() ? kNotANumber : value.get<double>();
  }
  return value.get<std::string>();
}

Event parse_event(const Json& json) {
  Event event{.what = json.at("what"),
              .epoch = json.at("epoch"),
              .update = json.at("update"),
              .details = {}};
  for (const auto& [key, value] : json.items()) {
    if (key != "kind" && key != "what" && key != "epoch" && key != "update") {
      event.details.emplace_back(key, parse_detail(value));
    }
  }
  return event;
}

void replay_line(const std::string& line, Sink& sink) {
  const Json json = Json::parse(line);
  const std::string kind = json.at("kind");
  if (kind == "train") {
    sink.write(parse_train(json));
  } else if (kind == "validation") {
    sink.write(parse_validation(json));
  } else if (kind == "event") {
    sink.write(parse_event(json));
  } else {
    throw DataError(concat("unknown kind '", kind, "'"));
  }
}

class Collector final : public Sink {
 public:
  explicit Collector(MetricsLog& log) : log_(log) {}
  void write(const TrainRecord& record) override { log_.train.push_back(record); }
  void write(const ValidationRecord& record) override { log_.validation.push_back(record); }
  void write(const Event& event) override { log_.events.push_back(event); }

 private:
  MetricsLog& log_;
};

}  // namespace

void replay_metrics(const std::filesystem::path& path, Sink& sink) {
  const std::string text = read_file(path);
  int line_number = 1;
  for (std::size_t begin = 0, end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin), ++line_number) {
    try {
      replay_line(text.substr(begin, end - begin), sink);
    } catch (const nlohmann::json::exception& error) {
      throw DataError(concat(path.string(), ":", line_number, ": ", error.what()));
    } catch (const DataError& error) {
      throw DataError(concat(path.string(), ":", line_number, ": ", error.what()));
    }
  }
}

MetricsLog read_metrics(const std::filesystem::path& path) {
  MetricsLog log;
  Collector collector(log);
  replay_metrics(path, collector);
  return log;
}

}  // namespace temper
