#include "temper/data/inspect.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <thread>
#include <tuple>
#include <variant>

#include "data/byte_stream.h"
#include "data/checksum.h"
#include "temper/core/error.h"

namespace temper {
namespace {

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
      bad.push_back({name, reason, dataset.offset(i)});
    }
  }
  return bad;
}

struct ChunkStatistics {
  int height_min = INT32_MAX, height_max = 0, width_min = INT32_MAX, width_max = 0;
  std::map<std::string, std::uint64_t> formats;
  std::uint64_t bytes = 0, bytes_min = UINT64_MAX, bytes_max = 0;
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

// What a sample is stored as; equal for equal content and hardly otherwise.
struct ContentKey {
  std::uint64_t size = 0;
  std::uint64_t hash = 0;
  friend auto operator<=>(const ContentKey&, const ContentKey&) = default;
};

// The stored bytes; for pixels with their shape in front.
std::vector<std::uint8_t> content_of(const Dataset& dataset, std::size_t index) {
  Buffer buffer;
  const StoredSample sample = dataset.read(index, buffer);
  if (const auto* file = std::get_if<EncodedImage>(&sample)) {
    return {file->bytes.begin(), file->bytes.end()};
  }
  const auto& view = std::get<ImageView>(sample);
  ByteWriter shape;
  for (const int length : {view.height, view.width, view.channels}) {
    shape.u32(static_cast<std::uint32_t>(length));
  }
  std::vector<std::uint8_t> content(shape.bytes().begin(), shape.bytes().end());
  content.insert(content.end(), view.bytes.begin(), view.bytes.end());
  return content;
}

ContentKey add_content(const Dataset& dataset, std::size_t index, ChunkStatistics& chunk) {
  Buffer buffer;
  const StoredSample sample = dataset.read(index, buffer);
  const std::span<const std::uint8_t> bytes =
      std::visit([](const auto& stored) { return stored.bytes; }, sample);
  chunk.bytes += bytes.size();
  chunk.bytes_min = std::min<std::uint64_t>(chunk.bytes_min, bytes.size());
  chunk.bytes_max = std::max<std::uint64_t>(chunk.bytes_max, bytes.size());
  // The second half of the hash starts elsewhere, so that both rarely agree by chance.
  const std::uint64_t half = crc32_of(bytes.subspan(bytes.size() / 2), 0x9e3779b9U);
  return {bytes.size(), std::uint64_t{crc32_of(bytes)} << 32 | half};
}

// Equal keys are candidates; the contents are compared.
void find_duplicates(const Dataset& dataset, const std::vector<ContentKey>& keys,
                     DatasetStatistics& statistics) {
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(keys[a], a) < std::tie(keys[b], b);
  });
  std::vector<std::vector<std::uint32_t>> groups;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && keys[order[end]] == keys[order[begin]]) {
      ++end;
    }
    if (end - begin > 1 && keys[order[begin]] != ContentKey{}) {
      const std::vector<std::uint8_t> content = content_of(dataset, order[begin]);
      std::vector<std::uint32_t> group = {order[begin]};
      std::copy_if(order.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                   order.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(group),
                   [&](std::uint32_t i) { return content_of(dataset, i) == content; });
      if (group.size() > 1) {
        groups.push_back(std::move(group));
      }
    }
    begin = end;
  }
  std::sort(groups.begin(), groups.end());
  const std::span<const std::int64_t> labels = dataset.labels();
  for (const auto& group : groups) {
    statistics.duplicates += group.size() - 1;
    statistics.duplicates_across_classes +=
        static_cast<std::uint64_t>(std::count_if(group.begin(), group.end(), [&](std::uint32_t i) {
          return labels[i] != labels[group.front()];
        }));
    if (statistics.duplicate_groups.size() < DatasetStatistics::kListedGroups) {
      std::vector<std::string>& names = statistics.duplicate_groups.emplace_back();
      for (const std::uint32_t i : group) {
        names.push_back(dataset.sample_name(i));
      }
    }
  }
}

// In the order of the chunks, so that rounding does not depend on the threads.
DatasetStatistics combine(const Dataset& dataset, const std::vector<ChunkStatistics>& chunks) {
  DatasetStatistics total;
  const auto channels = static_cast<std::size_t>(dataset.channels());
  double pixels = 0;
  std::vector<double> sum(channels), squares(channels);
  total.height_min = total.width_min = INT32_MAX;
  total.bytes_min = UINT64_MAX;
  for (const ChunkStatistics& chunk : chunks) {
    total.height_min = std::min(total.height_min, chunk.height_min);
    total.height_max = std::max(total.height_max, chunk.height_max);
    total.width_min = std::min(total.width_min, chunk.width_min);
    total.width_max = std::max(total.width_max, chunk.width_max);
    for (const auto& [format, count] : chunk.formats) {
      total.formats[format] += count;
    }
    total.bytes += chunk.bytes;
    total.bytes_min = std::min(total.bytes_min, chunk.bytes_min);
    total.bytes_max = std::max(total.bytes_max, chunk.bytes_max);
    pixels += chunk.pixels;
    for (std::size_t c = 0; c < channels; ++c) {
      sum[c] += chunk.sum[c];
      squares[c] += chunk.sum_of_squares[c];
    }
    total.bad.insert(total.bad.end(), chunk.bad.begin(), chunk.bad.end());
  }
  if (pixels == 0) {
    total.height_min = total.width_min = 0;
    total.bytes_min = 0;
    return total;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / pixels;
    total.mean.push_back(mean);
    total.standard_deviation.push_back(std::sqrt(std::max(0.0, squares[c] / pixels - mean * mean)));
  }
  return total;
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
  try {
    dataset.check_storage();
  } catch (const std::exception& error) {
    report.bad.push_back({"the file as a whole", error.what(), {}});
  }
  for (const auto& chunk : bad) {
    report.bad.insert(report.bad.end(), chunk.begin(), chunk.end());
  }
  return report;
}

DatasetStatistics describe_dataset(const Dataset& dataset, int threads) {
  std::vector<ContentKey> keys(dataset.size());
  std::vector<ChunkStatistics> chunks((dataset.size() + kChunk - 1) / kChunk);
  for_each_chunk(dataset.size(), threads, [&](std::size_t begin, std::size_t end) {
    ChunkStatistics& chunk = chunks[begin / kChunk];
    chunk.sum.resize(static_cast<std::size_t>(dataset.channels()));
    chunk.sum_of_squares.resize(chunk.sum.size());
    chunk.bad = collect_errors(dataset, begin, end, [&](std::size_t i) {
      add_image(dataset.load(i), chunk);
      ++chunk.formats[dataset.describe(i).format];
      keys[i] = add_content(dataset, i, chunk);
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
  find_duplicates(dataset, keys, statistics);
  return statistics;
}

}  // namespace temper
