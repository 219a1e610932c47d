#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>

#include "data/checksum.h"
#include "data/codec.h"
#include "data/data_file.h"
#include "data/fingerprint.h"
#include "data/formats.h"
#include "data/pack_layout.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// One file of a pack.
class PackShard {
 public:
  explicit PackShard(const std::filesystem::path& path) : file_(path, Mapping::kIfLocal) {
    Buffer buffer;
    const std::string name = path.string();
    header_ = parse_pack_header(
        file_.read(0, std::min<std::uint64_t>(kPackHeaderSize, file_.size()), buffer), file_.size(),
        name);
    index_ = parse_pack_index(file_.read(header_.index_offset, header_.index_size, buffer), header_,
                              name);
  }

  [[nodiscard]] const PackHeader& header() const { return header_; }
  [[nodiscard]] const PackIndex& index() const { return index_; }
  [[nodiscard]] const DataFile& file() const { return file_; }

  // Pixels need not be copied; a decoder reads its bytes once anyway.
  [[nodiscard]] std::span<const std::uint8_t> bytes(const PackRecord& record,
                                                    Buffer& buffer) const {
    return header_.content == PackContent::kEncoded
               ? file_.read(record.offset, record.size, buffer)
               : file_.view(record.offset, record.size, buffer);
  }

 private:
  DataFile file_;
  PackHeader header_;
  PackIndex index_;
};

// Which samples this process has checked; each bit is set once.
class CheckedSamples {
 public:
  explicit CheckedSamples(std::size_t count) : words_(count / 64 + 1) {}
  [[nodiscard]] bool contains(std::size_t index) const {
    return (words_[index / 64].load(std::memory_order_relaxed) >> index % 64 & 1) != 0;
  }
  void insert(std::size_t index) {
    words_[index / 64].fetch_or(std::uint64_t{1} << index % 64, std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<std::uint64_t>> words_;
};

bool in_unit_range(std::span<const std::uint8_t> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(float));
    if (!(value >= 0 && value <= 1)) {
      return false;
    }
  }
  return true;
}

class PackDataset final : public Dataset {
 public:
  PackDataset(std::vector<std::unique_ptr<PackShard>> shards, int channels, bool upright)
      : shards_(std::move(shards)),
        content_(shards_.front()->header().content),
        channels_(channels == 0 ? stored_channels() : channels),
        upright_(upright),
        checked_(shards_.front()->header().total_samples) {
    labels_.reserve(shards_.front()->header().total_samples);
    for (const auto& shard : shards_) {
      for (const PackRecord& record : shard->index().records) {
        labels_.push_back(record.label);
      }
    }
  }

  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override {
    return shards_.front()->index().classes;
  }
  int channels() const override { return channels_; }
  ElementType element_type() const override {
    return content_ == PackContent::kFloat32 ? ElementType::kFloat32 : ElementType::kUInt8;
  }
  std::uint64_t fingerprint() const override { return shards_.front()->header().fingerprint; }
  std::string sample_name(std::size_t index) const override {
    const Place place = find(index);
    return concat(place.shard->file().path().string(), ":",
                  place.shard->index().name(place.record));
  }
  std::string local_name(std::size_t index) const override {
    const Place place = find(index);
    return std::string(place.shard->index().name(place.record));
  }
  std::optional<std::uint64_t> offset(std::size_t index) const override {
    return find(index).data().offset;
  }

  StoredSample read(std::size_t index, Buffer& buffer) const override {
    const Place place = find(index);
    const PackRecord& record = place.data();
    const std::span<const std::uint8_t> bytes = place.shard->bytes(record, buffer);
    check(index, record, bytes);
    if (content_ == PackContent::kEncoded) {
      return EncodedImage{bytes, upright_};
    }
    return ImageView{static_cast<int>(record.height), static_cast<int>(record.width),
                     static_cast<int>(record.channels), element_type(), bytes};
  }

  SampleInfo describe(std::size_t index) const override {
    if (content_ != PackContent::kEncoded) {
      return {content_ == PackContent::kUInt8 ? "pack uint8" : "pack float32"};
    }
    Buffer buffer;
    const StoredSample sample = read(index, buffer);
    try {
      return {describe_encoding(std::get<EncodedImage>(sample).bytes)};
    } catch (const DataError& error) {
      throw DataError(concat(sample_name(index), ": ", error.what()));
    }
  }

 private:
  struct Place {
    const PackShard* shard;
    std::size_t record;
    [[nodiscard]] const PackRecord& data() const { return shard->index().records[record]; }
  };

  [[nodiscard]] Place find(std::size_t index) const {
    require(index < labels_.size(), "sample ", index, " of ", labels_.size());
    const auto after = std::upper_bound(
        shards_.begin(), shards_.end(), index,
        [](std::size_t value, const auto& shard) { return value < shard->header().first_sample; });
    const PackShard& shard = **std::prev(after);
    return {&shard, index - shard.header().first_sample};
  }

  // At the first reading of each sample: memory is trusted, disks are not.
  void check(std::size_t index, const PackRecord& record,
             std::span<const std::uint8_t> bytes) const {
    if (checked_.contains(index)) {
      return;
    }
    if (crc32_of(bytes) != record.crc) {
      throw DataError(concat(sample_name(index), ": wrong checksum of the bytes ", record.offset,
                             " to ", record.offset + record.size, ": the pack is damaged"));
    }
    if (content_ == PackContent::kFloat32 && !in_unit_range(bytes)) {
      throw DataError(concat(sample_name(index), ": a pixel is not in [0, 1]"));
    }
    checked_.insert(index);
  }

  // Files are read as RGB; pixels that are all gray stay gray.
  [[nodiscard]] int stored_channels() const {
    const auto is_gray = [](const PackRecord& record) { return record.channels == 1; };
    const auto all_gray = [&](const auto& shard) {
      return std::all_of(shard->index().records.begin(), shard->index().records.end(), is_gray);
    };
    return std::all_of(shards_.begin(), shards_.end(), all_gray) ? 1 : 3;
  }

  std::vector<std::unique_ptr<PackShard>> shards_;
  PackContent content_;
  int channels_;
  bool upright_;
  mutable CheckedSamples checked_;
  std::vector<std::int64_t> labels_;
};

// A number of shards, as the name of any of them tells; 0 when the folder holds none.
std::uint32_t count_shards(const std::filesystem::path& folder) {
  constexpr std::string_view kBegin = "part-";
  constexpr std::string_view kMiddle = "-of-";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::size_t middle = name.find(kMiddle);
    if (!name.starts_with(kBegin) || !name.ends_with(".pack") || middle == std::string::npos) {
      continue;
    }
    const std::string count = name.substr(middle + kMiddle.size(), 5);
    if (count.size() == 5 && count.find_first_not_of("0123456789") == std::string::npos) {
      return static_cast<std::uint32_t>(std::stoul(count));
    }
  }
  return 0;
}

std::vector<std::filesystem::path> pack_files(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path)) {
    return {path};
  }
  if (!std::filesystem::is_directory(path)) {
    throw ConfigError(concat("the pack ", path.string(), " is not there"));
  }
  const std::uint32_t shards = count_shards(path);
  if (shards == 0) {
    throw ConfigError(concat("the folder ", path.string(), " holds no shard of a pack, such as ",
                             shard_file_name(0, 4), "; `datatool pack --shards` makes them"));
  }
  std::vector<std::filesystem::path> files;
  for (std::uint32_t shard = 0; shard < shards; ++shard) {
    files.push_back(path / shard_file_name(shard, shards));
    if (!std::filesystem::is_regular_file(files.back())) {
      throw ConfigError(concat("shard ", files.back().string(), " of the pack is missing"));
    }
  }
  return files;
}

void check_shard(const std::vector<std::unique_ptr<PackShard>>& shards, std::size_t files) {
  const PackShard& first = *shards.front();
  const PackShard& last = *shards.back();
  const PackHeader& header = last.header();
  const std::string name = last.file().path().string();
  if (header.shards != files) {
    throw ConfigError(concat(name, ": is shard ", header.shard + 1, " of ", header.shards,
                             "; give the folder that holds them all"));
  }
  const std::uint64_t expected_first = shards.size() == 1
                                           ? 0
                                           : shards[shards.size() - 2]->header().first_sample +
                                                 shards[shards.size() - 2]->header().samples;
  const bool last_of_all = shards.size() == files;
  const bool belongs =
      header.shard == shards.size() - 1 && header.content == first.header().content &&
      header.fingerprint == first.header().fingerprint &&
      header.total_samples == first.header().total_samples &&
      header.first_sample == expected_first && last.index().classes == first.index().classes &&
      (!last_of_all || header.first_sample + header.samples == header.total_samples);
  if (!belongs) {
    throw ConfigError(concat(name, ": does not belong to the same pack as ",
                             first.file().path().string(), "; make the pack again"));
  }
}

}  // namespace

bool looks_like_pack(const std::filesystem::path& path) {
  return path.extension() == ".pack" ||
         (std::filesystem::is_directory(path) && count_shards(path) > 0);
}

std::unique_ptr<Dataset> open_pack(const DatasetOptions& options) {
  const std::vector<std::filesystem::path> files = pack_files(options.path);
  std::vector<std::unique_ptr<PackShard>> shards;
  for (const std::filesystem::path& file : files) {
    shards.push_back(std::make_unique<PackShard>(file));
    check_shard(shards, files.size());
  }
  const std::size_t classes = shards.front()->index().classes.size();
  if (options.classes > 0 && classes != static_cast<std::size_t>(options.classes)) {
    throw ConfigError(concat(options.path, " holds ", classes, " classes, but data.classes is ",
                             options.classes));
  }
  return std::make_unique<PackDataset>(std::move(shards), options.channels, options.upright);
}

}  // namespace temper
