#include "temper/data/inspect.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "temper/core/error.h"

namespace temper {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kChunk = 256;  // samples added up in order by one thread

// Calls `visit(begin, end)` for all chunks; threads take them one after another.
void for_each_chunk(std::size_t count, int threads,
                    const std::function<void(std::size_t, std::size_t)>& visit) {
  require(threads >= 1, "no thread to read with");
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t begin = next.fetch_add(kChunk); begin < count;
         begin = next.fetch_add(kChunk)) {
      visit(begin, std::min(count, begin + kChunk));
    }
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads; ++i) {
    helpers.emplace_back(work);
  }
  work();
}

// Runs `use` on each sample of the range and collects what fails.
template <typename Use>
std::vector<BadSample> collect_errors(const Dataset& dataset, std::size_t begin, std::size_t end,
                                      const Use& use) {
  std::vector<BadSample> bad;
  for (std::size_t i = begin; i < end; ++i) {
    try {
      use(i);
    } catch (const std::exception& error) {
      const std::string name = dataset.sample_name(i);
      std::string reason = error.what();
      if (reason.starts_with(name + ": ")) {
        reason.erase(0, name.size() + 2);
      }
      bad.push_back({name, reason});
    }
  }
  return bad;
}

struct ChunkStatistics {
  int height_min = INT32_MAX, height_max = 0, width_min = INT32_MAX, width_max = 0;
  std::map<std::string, std::uint64_t> formats;
  double pixels = 0;
  std::vector<double> sum, sum_of_squares;
  std::vector<BadSample> bad;
};

void add_image(const Image& image, ChunkStatistics& chunk) {
  chunk.height_min = std::min(chunk.height_min, image.height);
  chunk.height_max = std::max(chunk.height_max, image.height);
  chunk.width_min = std::min(chunk.width_min, image.width);
  chunk.width_max = std::max(chunk.width_max, image.width);
  const auto channels = static_cast<std::size_t>(image.channels);
  const double unit = image.element_type() == ElementType::kUInt8 ? 1.0 / 255 : 1.0;
  std::vector<double> sum(channels), squares(channels);
  std::visit(
      [&](const auto& pixels) {
        for (std::size_t i = 0; i < pixels.size(); ++i) {
          const auto value = static_cast<double>(pixels[i]);
          sum[i % channels] += value;
          squares[i % channels] += value * value;
        }
      },
      image.pixels);
  chunk.pixels += static_cast<double>(image.height) * image.width;
  for (std::size_t c = 0; c < channels; ++c) {
    chunk.sum[c] += sum[c] * unit;
    chunk.sum_of_squares[c] += squares[c] * unit * unit;
  }
}

// In the order of the chunks, so that rounding does not depend on the threads.
DatasetStatistics combine(const Dataset& dataset, const std::vector<ChunkStatistics>& chunks) {
  DatasetStatistics total;
  const auto channels = static_cast<std::size_t>(dataset.channels());
  double pixels = 0;
  std::vector<double> sum(channels), squares(channels);
  total.height_min = total.width_min = INT32_MAX;
  for (const ChunkStatistics& chunk : chunks) {
    total.height_min = std::min(total.height_min, chunk.height_min);
    total.height_max = std::max(total.height_max, chunk.height_max);
    total.width_min = std::min(total.width_min, chunk.width_min);
    total.width_max = std::max(total.width_max, chunk.width_max);
    for (const auto& [format, count] : chunk.formats) {
      total.formats[format] += count;
    }
    pixels += chunk.pixels;
    for (std::size_t c = 0; c < channels; ++c) {
      sum[c] += chunk.sum[c];
      squares[c] += chunk.sum_of_squares[c];
    }
    total.bad.insert(total.bad.end(), chunk.bad.begin(), chunk.bad.end());
  }
  if (pixels == 0) {
    total.height_min = total.width_min = 0;
    return total;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / pixels;
    total.mean.push_back(mean);
    total.standard_deviation.push_back(std::sqrt(std::max(0.0, squares[c] / pixels - mean * mean)));
  }
  return total;
}

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
    list.push_back({{"name", sample.name}, {"reason", sample.reason}});
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
    text += concat("bad: ", sample.name, ": ", sample.reason, "\n");
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

VerifyReport verify_dataset(const Dataset& dataset, int threads) {
  std::vector<std::vector<BadSample>> bad((dataset.size() + kChunk - 1) / kChunk);
  for_each_chunk(dataset.size(), threads, [&](std::size_t begin, std::size_t end) {
    bad[begin / kChunk] =
        collect_errors(dataset, begin, end, [&](std::size_t i) { (void)dataset.load(i); });
  });
  VerifyReport report;
  report.samples = dataset.size();
  for (const auto& chunk : bad) {
    report.bad.insert(report.bad.end(), chunk.begin(), chunk.end());
  }
  return report;
}

DatasetStatistics describe_dataset(const Dataset& dataset, int threads) {
  std::vector<ChunkStatistics> chunks((dataset.size() + kChunk - 1) / kChunk);
  for_each_chunk(dataset.size(), threads, [&](std::size_t begin, std::size_t end) {
    ChunkStatistics& chunk = chunks[begin / kChunk];
    chunk.sum.resize(static_cast<std::size_t>(dataset.channels()));
    chunk.sum_of_squares.resize(chunk.sum.size());
    chunk.bad = collect_errors(dataset, begin, end, [&](std::size_t i) {
      add_image(dataset.load(i), chunk);
      ++chunk.formats[dataset.describe(i).format];
    });
  });
  DatasetStatistics statistics = combine(dataset, chunks);
  statistics.samples = dataset.size();
  statistics.class_names.assign(dataset.class_names().begin(), dataset.class_names().end());
  statistics.class_counts.resize(statistics.class_names.size());
  for (const std::int64_t label : dataset.labels()) {
    ++statistics.class_counts[static_cast<std::size_t>(label)];
  }
  statistics.fingerprint = dataset.fingerprint();
  return statistics;
}

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
               {"mean", statistics.mean},
               {"standard_deviation", statistics.standard_deviation},
               {"fingerprint", hexadecimal(statistics.fingerprint)},
               {"bad", bad_as_json(statistics.bad)}});
}

}  // namespace temper
