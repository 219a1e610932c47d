#include "data/idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <span>

#include "data/input_file.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::uint64_t kMaxDeflateRatio = 1040;
constexpr std::uint8_t kByteType = 8;

// The bytes of a file one after another, inflated if it is gzipped.
class IdxStream {
 public:
  explicit IdxStream(const std::filesystem::path& path)
      : name_(path.string()), file_(read_regular_file(path)) {
    gzipped_ = file_.size() >= 2 && file_[0] == 0x1f && file_[1] == 0x8b;
    if (gzipped_ && inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~IdxStream() {
    if (gzipped_) {
      inflateEnd(&stream_);
    }
  }
  IdxStream(const IdxStream&) = delete;
  IdxStream& operator=(const IdxStream&) = delete;

  [[noreturn]] void fail(const std::string& reason) const {
    throw DataError(concat(name_, ": ", reason));
  }
  [[nodiscard]] const std::string& name() const { return name_; }

  // More cannot be in the file.
  [[nodiscard]] std::uint64_t most_bytes() const {
    return gzipped_ ? file_.size() * kMaxDeflateRatio : file_.size();
  }

  void read(std::span<std::uint8_t> out) {
    const std::size_t made = gzipped_ ? inflate_into(out) : copy_into(out);
    if (made != out.size()) {
      fail("is truncated");
    }
  }

  // For gzip files the checksum is verified here.
  void expect_end() {
    std::uint8_t more = 0;
    if ((gzipped_ ? inflate_into({&more, 1}) : copy_into({&more, 1})) != 0) {
      fail("holds more bytes than its header says");
    }
    if (gzipped_ && (!ended_ || used_ != file_.size())) {
      fail(ended_ ? "has other bytes behind the gzip data" : "is truncated");
    }
  }

 private:
  std::size_t copy_into(std::span<std::uint8_t> out) {
    const std::size_t count = std::min(out.size(), file_.size() - used_);
    std::copy_n(file_.begin() + static_cast<std::ptrdiff_t>(used_), count, out.begin());
    used_ += count;
    return count;
  }

  std::size_t inflate_into(std::span<std::uint8_t> out) {
    constexpr std::size_t kPiece = std::size_t{1} << 30;  // zlib counts in 32 bits
    std::size_t made = 0;
    while (made < out.size() && !ended_) {
      const std::size_t in = std::min(kPiece, file_.size() - used_);
      const std::size_t room = std::min(kPiece, out.size() - made);
      stream_.next_in = file_.data() + used_;
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = out.data() + made;
      stream_.avail_out = static_cast<uInt>(room);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      used_ += in - stream_.avail_in;
      made += room - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
      if (status == Z_BUF_ERROR) {
        break;  // the input has ended
      }
      if (status != Z_OK && status != Z_STREAM_END) {
        fail("wrong checksum or damaged gzip data");
      }
    }
    return made;
  }

  std::string name_;
  std::vector<std::uint8_t> file_;
  std::size_t used_ = 0;
  bool gzipped_ = false;
  bool ended_ = false;
  z_stream stream_{};
};

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  IdxStream stream(path);
  std::uint8_t magic[4] = {};
  stream.read(magic);
  if (magic[0] != 0 || magic[1] != 0) {
    stream.fail("is no IDX file");
  }
  if (magic[2] != kByteType || magic[3] != dimensions) {
    throw ConfigError(concat(stream.name(), ": is an IDX array of type ", int{magic[2]}, " with ",
                             int{magic[3]}, " dimensions; expected bytes (8) with ", dimensions));
  }
  IdxArray array;
  std::uint64_t size = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::uint8_t big_endian[4] = {};
    stream.read(big_endian);
    std::uint32_t length = 0;
    for (const std::uint8_t byte : big_endian) {
      length = length << 8 | byte;
    }
    array.shape.push_back(length);
    if (__builtin_mul_overflow(size, std::uint64_t{length}, &size)) {
      stream.fail("claims an impossible size");
    }
  }
  if (size > stream.most_bytes()) {
    stream.fail(concat("claims ", size, " bytes of data, which it cannot hold"));
  }
  array.data.resize(size);
  stream.read(array.data);
  stream.expect_end();
  return array;
}

}  // namespace temper
