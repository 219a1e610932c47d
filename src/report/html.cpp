#include "temper/report/html.h"

#include <algorithm>
#include <cmath>

#include "report/plot.h"
#include "report/png.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --text: #1c1e21; --page: #ffffff; --soft: #6b7078; --line: #d9dce1;
  --c0: #1f6fb4; --c1: #c2410c; --c2: #2f855a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8eb; --page: #16181c; --soft: #9aa0a8; --line: #33373d;
  --c0: #6cb2f0; --c1: #f59e6b; --c2: #6fcf97; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 1000px;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } th, td { padding: .25em .9em .25em 0; text-align: left;
  border-bottom: 1px solid var(--line); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1em; }
svg { width: 100%; } svg text { font-size: 11px; fill: var(--soft); } svg text.title { font-size: 13px; fill: var(--text); }
.grid { stroke: var(--line); } polyline { fill: none; stroke-width: 1.6; }
polyline.c0 { stroke: var(--c0); } polyline.c1 { stroke: var(--c1); } polyline.c2 { stroke: var(--c2); }
svg text.c0, circle.c0 { fill: var(--c0); } svg text.c1, circle.c1 { fill: var(--c1); }
svg text.c2, circle.c2 { fill: var(--c2); }
.scroll, pre { overflow-x: auto; } pre { border: 1px solid var(--line); padding: .8em; font-size: 13px; }
img { width: 96px; image-rendering: pixelated; display: block; } .soft { color: var(--soft); }
)";

std::string percent(double fraction) {
  return std::isfinite(fraction) ? concat(fixed(100 * fraction, 2), " %") : "-";
}

std::string section(const std::string& title, const std::string& content) {
  return content.empty() ? "" : concat("<h2>", escape_html(title), "</h2>\n", content);
}

template <typename Record>
Curve curve_of(const std::string& name, const std::vector<Record>& records,
               double (*value)(const Record&)) {
  Curve curve{name, {}};
  for (const Record& record : records) {
    curve.points.emplace_back(static_cast<double>(record.update), value(record));
  }
  return curve;
}

std::string render_plots(const MetricsLog& log) {
  using Train = TrainRecord;
  using Validation = ValidationRecord;
  const std::vector<Curve> losses = {
      curve_of<Train>("total", log.train, [](const Train& r) { return r.loss; }),
      curve_of<Train>("clean", log.train, [](const Train& r) { return r.clean_loss; }),
      curve_of<Train>("robust", log.train, [](const Train& r) { return r.robust_loss; })};
  const std::vector<Curve> training = {
      curve_of<Train>("clean", log.train, [](const Train& r) { return r.clean_accuracy; }),
      curve_of<Train>("adversarial", log.train,
                      [](const Train& r) { return r.adversarial_accuracy; })};
  const std::vector<Curve> validation = {
      curve_of<Validation>("clean", log.validation,
                           [](const Validation& r) { return r.clean_accuracy; }),
      curve_of<Validation>("robust", log.validation, [](const Validation& r) {
        return r.robust_accuracy.value_or(kNotANumber);
      })};
  const std::vector<Curve> rates = {
      curve_of<Train>("learning rate", log.train, [](const Train& r) { return r.learning_rate; })};
  const std::string plots = svg_plot("Validation accuracy by update", validation, Axis::kFraction) +
                            svg_plot("Training loss by update", losses, Axis::kValue) +
                            svg_plot("Training accuracy by update", training, Axis::kFraction) +
                            svg_plot("Learning rate by update", rates, Axis::kValue);
  return plots.empty() ? "" : concat("<div class=\"plots\">\n", plots, "</div>\n");
}

std::string validation_row(const std::string& name, const ValidationRecord& record) {
  return concat("<tr><td>", name, "</td><td class=\"n\">", record.epoch, "</td><td class=\"n\">",
                record.update, "</td><td class=\"n\">", percent(record.clean_accuracy),
                "</td><td class=\"n\">", percent(record.robust_accuracy.value_or(kNotANumber)),
                "</td><td>", escape_html(record.attack.empty() ? "-" : record.attack),
                "</td><td class=\"n\">", record.samples, "</td></tr>\n");
}

std::string render_numbers(const std::vector<ValidationRecord>& validation) {
  if (validation.empty()) {
    return "<p class=\"soft\">The run has no validation yet.</p>\n";
  }
  const auto merit = [](const ValidationRecord& record) {
    const double value = record.robust_accuracy.value_or(record.clean_accuracy);
    return std::isfinite(value) ? value : -1.0;
  };
  return concat(
      "<div class=\"scroll\"><table><tr><th></th><th class=\"n\">epoch</th><th class=\"n\">update"
      "</th><th class=\"n\">clean accuracy</th><th class=\"n\">robust accuracy</th><th>attack</th>"
      "<th class=\"n\">samples</th></tr>\n",
      validation_row("last", validation.back()),
      validation_row("best", *std::ranges::max_element(validation, {}, merit)), "</table></div>\n");
}

std::string render_events(const std::vector<Event>& events) {
  std::string rows;
  for (const Event& event : events) {
    std::string details;
    for (const auto& [name, value] : event.details) {
      details += concat(details.empty() ? "" : ", ", name, ": ",
                        std::visit([](const auto& v) { return concat(v); }, value));
    }
    rows += concat("<tr><td class=\"n\">", event.update, "</td><td>", escape_html(event.what),
                   "</td><td>", escape_html(details), "</td></tr>\n");
  }
  return rows.empty() ? ""
                      : concat(
                            "<div class=\"scroll\"><table><tr><th class=\"n\">update</th>"
                            "<th>event</th><th>details</th></tr>\n",
                            rows, "</table></div>\n");
}

// The gain makes the largest difference fill the range of the page.
struct Difference {
  Pixels pixels;
  int gain = 1;
};

Difference difference_of(const AdversarialExample& example) {
  const Pixels& clean = example.clean;
  const Pixels& adversarial = example.adversarial;
  require(clean.width == adversarial.width && clean.height == adversarial.height &&
              clean.channels == adversarial.channels &&
              clean.bytes.size() == adversarial.bytes.size(),
          "an adversarial image has another shape than its clean one");
  int largest = 1;
  for (std::size_t i = 0; i < clean.bytes.size(); ++i) {
    largest = std::max(largest, std::abs(adversarial.bytes[i] - clean.bytes[i]));
  }
  Difference difference{clean, std::max(1, 127 / largest)};
  for (std::size_t i = 0; i < clean.bytes.size(); ++i) {
    const int value = 128 + difference.gain * (adversarial.bytes[i] - clean.bytes[i]);
    difference.pixels.bytes[i] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
  }
  return difference;
}

std::string image_cell(const Pixels& pixels, const std::string& caption) {
  return concat("<td><img alt=\"\" src=\"data:image/png;base64,", base64(encode_png(pixels)),
                "\"/>", escape_html(caption), "</td>");
}

std::string render_examples(const std::vector<AdversarialExample>& examples) {
  std::string rows;
  for (const AdversarialExample& example : examples) {
    const Difference difference = difference_of(example);
    rows += concat("<tr><td>", escape_html(example.label), "</td>",
                   image_cell(example.clean, example.clean_prediction),
                   image_cell(example.adversarial, example.adversarial_prediction),
                   image_cell(difference.pixels, concat("x ", difference.gain)), "</tr>\n");
  }
  return rows.empty() ? ""
                      : concat(
                            "<div class=\"scroll\"><table><tr><th>label</th><th>clean, predicted"
                            "</th><th>adversarial, predicted</th><th>difference</th></tr>\n",
                            rows, "</table></div>\n");
}

}  // namespace

std::string render_report(const ReportData& data) {
  const std::string title = escape_html(data.title);
  const std::string configuration =
      data.configuration.empty() ? ""
                                 : concat("<pre>", escape_html(data.configuration), "</pre>\n");
  const std::string attack =
      data.attack.empty()
          ? ""
          : concat("<p class=\"soft\">Robust accuracy under: ", escape_html(data.attack), "</p>\n");
  return concat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta ",
                "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
                title, "</title><style>", kStyle, "</style></head><body>\n<h1>", title, "</h1>\n",
                section("Results", render_numbers(data.metrics.validation) + attack),
                section("Curves", render_plots(data.metrics)),
                section("Adversarial examples", render_examples(data.examples)),
                section("Events", render_events(data.metrics.events)),
                section("Configuration", configuration), "</body></html>\n");
}

void write_report(const std::filesystem::path& path, const ReportData& data) {
  write_file_atomically(path, render_report(data));
}

}  // namespace temper
