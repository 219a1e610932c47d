// The C++ side of metrics.py: writes the records of an interrupted and resumed run to a folder.

#include <filesystem>
#include <memory>

#include "temper/metrics/csv_sink.h"
#include "temper/metrics/jsonl_sink.h"
#include "temper/metrics/metrics_log.h"
#include "temper/metrics/status_file.h"
#include "temper/metrics/tensorboard_sink.h"
#include "temper/report/html.h"
#include "unit/metrics/records.h"

namespace temper {
namespace {

// Updates first ... last with this loss, three updates an epoch.
void write_updates(const std::filesystem::path& folder, int first, int last, double loss,
                   std::optional<std::int64_t> resumed_update) {
  SinkList sinks;
  sinks.add(std::make_unique<JsonlSink>(folder / "metrics.jsonl", resumed_update));
  auto csv = std::make_unique<CsvSink>(folder / "epochs.csv");
  replay_metrics(folder / "metrics.jsonl", *csv);
  sinks.add(std::move(csv));
  sinks.add(std::make_unique<TensorBoardSink>(folder / "tensorboard", resumed_update));
  sinks.add(std::make_unique<StatusFile>(folder / "status.json", RunLength{2, 6}));
  sinks.write(Event{resumed_update ? "resumed" : "started", 1, resumed_update.value_or(0), {}});
  for (int update = first; update <= last; ++update) {
    const int epoch = (update + 2) / 3;
    TrainRecord record = train_record(epoch, update);
    record.loss = loss;
    sinks.write(record);
    if (update % 3 == 0) {
      sinks.write(validation_record(epoch, update));
    }
  }
  if (last == 6) {
    sinks.write(Event{"finished", 2, 6, {{"note", "a <b> & \"c\" \xc3\xa9"}}});
  }
}

void write_page(const std::filesystem::path& folder) {
  ReportData data{.title = "digits & <friends>",
                  .metrics = read_metrics(folder / "metrics.jsonl"),
                  .configuration = "method: {name: trades} # <&>\"'\n",
                  .examples = {}};
  for (const int channels : {1, 3}) {
    Pixels clean{4, 2, channels, {}};
    for (int i = 0; i < 8 * channels; ++i) {
      clean.bytes.push_back(static_cast<std::uint8_t>(10 * i));
    }
    Pixels adversarial = clean;
    adversarial.bytes[3] = static_cast<std::uint8_t>(adversarial.bytes[3] + 4);
    data.examples.push_back({clean, adversarial, "1", "1", "7"});
  }
  write_report(folder / "report.html", data);
}

}  // namespace
}  // namespace temper

int main(int /*count*/, char** arguments) {
  const std::filesystem::path folder = arguments[1];
  temper::write_updates(folder, 1, 5, 1.0, std::nullopt);
  temper::write_updates(folder, 4, 6, 2.0, 3);
  temper::write_page(folder);
  return 0;
}
