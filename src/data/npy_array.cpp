#include "data/npy_array.h"

#include <charconv>
#include <numeric>
#include <optional>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxDimensions = 32;

// Reads the header, a Python dict with exactly the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void parse(NpyHeader& array) {
    expect('{');
    bool descr = false;
    bool order = false;
    bool shape = false;
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        descr = true;
        array.dtype = dtype();
      } else if (key == "fortran_order" && !order) {
        order = true;
        array.fortran_order = boolean();
      } else if (key == "shape" && !shape) {
        shape = true;
        array.shape = tuple();
      } else {
        fail();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!descr || !order || !shape || !text_.empty()) {
      fail();
    }
  }

 private:
  [[noreturn]] void fail() const { throw DataError(concat(name_, ": malformed .npy header")); }
  void skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) {
      text_.remove_prefix(1);
    }
  }
  bool accept(char wanted) {
    skip_space();
    if (text_.empty() || text_.front() != wanted) {
      return false;
    }
    text_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) {
      fail();
    }
  }
  std::string string() {
    const char quote = accept('\'') ? '\'' : (expect('"'), '"');
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos ||
        text_.substr(0, end).find('\\') != std::string_view::npos) {
      fail();
    }
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  std::string dtype() {
    if (accept('[')) {
      throw DataError(concat(name_, ": structured dtype is not supported"));
    }
    return string();
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.starts_with(word)) {
        text_.remove_prefix(std::string_view(word).size());
        return value;
      }
    }
    fail();
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::uint64_t value = 0;
      const char* end = text_.data() + text_.size();
      const auto [rest, error] = std::from_chars(text_.data(), end, value);
      if (error != std::errc() || values.size() == kMaxDimensions) {
        fail();
      }
      text_.remove_prefix(static_cast<std::size_t>(rest - text_.data()));
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  const std::string& name_;
};

// Bytes of one element of a number or boolean; 0 for any other type.
std::size_t item_size_of(std::string_view dtype) {
  if (dtype.size() < 3 || std::string_view("<>|=").find(dtype[0]) == std::string_view::npos ||
      std::string_view("biuf").find(dtype[1]) == std::string_view::npos) {
    return 0;
  }
  std::size_t size = 0;
  const std::string_view digits = dtype.substr(2);
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  const bool whole = error == std::errc() && rest == digits.data() + digits.size();
  return whole && (size == 1 || size == 2 || size == 4 || size == 8) ? size : 0;
}

std::optional<std::uint64_t> byte_count(const NpyHeader& array) {
  std::uint64_t bytes = array.item_size;
  for (const std::uint64_t length : array.shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

// Where the header's text begins and ends.
std::pair<std::size_t, std::size_t> header_range(std::span<const std::uint8_t> file,
                                                 const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const bool long_length = text.size() > 6 && (text[6] == 2 || text[6] == 3);
  const std::size_t begin = long_length ? 12 : 10;
  if (!text.starts_with(kMagic) || text.size() < begin || (!long_length && text[6] != 1)) {
    throw DataError(concat(name, ": is no .npy array of version 1 to 3"));
  }
  std::size_t length = file[8] | std::size_t{file[9]} << 8;
  if (long_length) {
    length |= std::size_t{file[10]} << 16 | std::size_t{file[11]} << 24;
  }
  if (length > text.size() - begin) {
    throw DataError(concat(name, ": malformed .npy header"));
  }
  return {begin, begin + length};
}

}  // namespace

std::uint64_t NpyHeader::element_count() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

std::string shape_text(const NpyHeader& array) {
  std::vector<std::string> lengths;
  for (const std::uint64_t length : array.shape) {
    lengths.push_back(std::to_string(length));
  }
  return concat("(", join(lengths, ", "), lengths.size() == 1 ? ",)" : ")");
}

NpyHeader parse_npy_header(std::span<const std::uint8_t> file, std::uint64_t file_size,
                           const std::string& name) {
  const auto [begin, end] = header_range(file, name);
  NpyHeader array;
  HeaderParser(std::string_view(reinterpret_cast<const char*>(file.data()) + begin, end - begin),
               name)
      .parse(array);
  if (array.dtype.find('O') != std::string::npos) {
    throw DataError(concat(name,
                           ": is an object array (a pickle), which is never loaded; save it "
                           "as an array of numbers"));
  }
  array.item_size = item_size_of(array.dtype);
  if (array.item_size == 0) {
    throw DataError(concat(name, ": dtype ", array.dtype, " is not supported"));
  }
  const std::optional<std::uint64_t> bytes = byte_count(array);
  if (!bytes || *bytes != file_size - end) {
    throw DataError(concat(name, ": shape ", shape_text(array), " does not fit the ",
                           file_size - end, " bytes of data"));
  }
  array.data_begin = end;
  return array;
}

NpyArray parse_npy(std::vector<std::uint8_t> file, const std::string& name) {
  NpyHeader header = parse_npy_header(file, file.size(), name);
  return {std::move(header), std::move(file)};
}

}  // namespace temper
