#include <algorithm>
#include <utility>

#include "data/byte_stream.h"
#include "data/checksum.h"
#include "data/ordered_work.h"
#include "data/output_file.h"
#include "data/pack_layout.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/data/pack.h"

namespace temper {
namespace {

// A sample in memory of its own.
struct PackedSample {
  Buffer buffer;
  StoredSample stored;
  std::uint32_t crc = 0;
};

PackContent content_of(const Dataset& dataset, bool pixels) {
  if (!pixels) {
    Buffer buffer;
    if (std::holds_alternative<EncodedImage>(dataset.read(0, buffer))) {
      return PackContent::kEncoded;
    }
  }
  return dataset.element_type() == ElementType::kUInt8 ? PackContent::kUInt8
                                                       : PackContent::kFloat32;
}

std::span<const std::uint8_t> stored_bytes(const StoredSample& sample) {
  return std::visit([](const auto& stored) { return stored.bytes; }, sample);
}

PackedSample produce(const Dataset& dataset, PackContent content, std::size_t index) {
  PackedSample sample;
  sample.stored = dataset.read(index, sample.buffer);
  const auto* view = std::get_if<ImageView>(&sample.stored);
  const bool as_it_is = content == PackContent::kEncoded
                            ? view == nullptr
                            : view != nullptr && view->channels == dataset.channels();
  if (!as_it_is) {
    require(content != PackContent::kEncoded, "sample ", index, " is no image file");
    const Image image = dataset.load(index);
    sample.stored = store(image, sample.buffer);
  }
  sample.crc = crc32_of(stored_bytes(sample.stored));
  return sample;
}

class PackWriter {
 public:
  PackWriter(const Dataset& dataset, PackContent content, int threads)
      : dataset_(dataset), content_(content), threads_(threads) {}

  // Returns the size of the file.
  std::uint64_t write(const std::filesystem::path& path, std::uint32_t shard,
                      std::uint32_t shards) const {
    const std::size_t begin = dataset_.size() * shard / shards;
    const std::size_t end = dataset_.size() * (shard + 1) / shards;
    OutputFile file(path);
    file.append(bytes_of(std::string(kPackHeaderSize, '\0')));
    PackIndex index;
    index.classes.assign(dataset_.class_names().begin(), dataset_.class_names().end());
    for_each_in_order(
        end - begin, threads_,
        [&](std::size_t i) { return produce(dataset_, content_, begin + i); },
        [&](std::size_t i, const PackedSample& sample) { add(sample, begin + i, file, index); });
    const std::string index_bytes = serialize(index);
    const PackHeader header{.content = content_,
                            .shard = shard,
                            .shards = shards,
                            .samples = end - begin,
                            .first_sample = begin,
                            .total_samples = dataset_.size(),
                            .fingerprint = dataset_.fingerprint(),
                            .index_offset = file.position(),
                            .index_size = index_bytes.size(),
                            .index_crc = crc32_of(bytes_of(index_bytes))};
    file.append(bytes_of(index_bytes));
    file.overwrite(0, bytes_of(serialize(header)));
    file.finish();
    return header.index_offset + header.index_size;
  }

 private:
  void add(const PackedSample& sample, std::size_t number, OutputFile& file,
           PackIndex& index) const {
    const std::span<const std::uint8_t> bytes = stored_bytes(sample.stored);
    PackRecord record{.size = bytes.size(),
                      .label = static_cast<std::uint32_t>(dataset_.labels()[number]),
                      .crc = sample.crc};
    if (const auto* view = std::get_if<ImageView>(&sample.stored)) {
      record.height = static_cast<std::uint32_t>(view->height);
      record.width = static_cast<std::uint32_t>(view->width);
      record.channels = static_cast<std::uint32_t>(view->channels);
      file.align(kPackAlignment);
    }
    record.offset = file.position();
    file.append(bytes);
    index.names += dataset_.local_name(number);
    record.name_end = index.names.size();
    index.records.push_back(record);
  }

  const Dataset& dataset_;
  PackContent content_;
  int threads_;
};

}  // namespace

PackSummary pack_dataset(const Dataset& dataset, const std::filesystem::path& output,
                         const PackOptions& options) {
  if (options.shards < 0 || static_cast<std::size_t>(options.shards) > dataset.size() ||
      options.shards > 99'999) {
    throw ConfigError(concat(options.shards, " shards for ", dataset.size(),
                             " samples; expected 0 (one file) to the number of samples"));
  }
  require_absent(output);
  const PackWriter writer(dataset, content_of(dataset, options.pixels), options.threads);
  PackSummary summary{.samples = dataset.size(), .files = 1, .bytes = 0};
  if (options.shards == 0) {
    replace_file_atomically(
        output, [&](const auto& temporary) { summary.bytes = writer.write(temporary, 0, 1); });
    return summary;
  }
  const auto shards = static_cast<std::uint32_t>(options.shards);
  summary.files = shards;
  create_folder_atomically(output, [&](const std::filesystem::path& folder) {
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
      summary.bytes += writer.write(folder / shard_file_name(shard, shards), shard, shards);
    }
  });
  return summary;
}

}  // namespace temper
