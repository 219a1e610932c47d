#include "temper/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "checkpoint/file_io.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/plain_tensor.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

using Json = nlohmann::ordered_json;
using Type = c10::ScalarType;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the reference reader
constexpr std::size_t kMostDimensions = 64;            // LibTorch's kernels take no more
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  Type type;
  std::string_view name;
};

// In the reference writer's order, which stores the last ones first, so that wide elements lie at
// multiples of their size.
constexpr TypeName kTypes[] = {
    {Type::Bool, "BOOL"},  {Type::Byte, "U8"},       {Type::Char, "I8"}, {Type::Short, "I16"},
    {Type::Half, "F16"},   {Type::BFloat16, "BF16"}, {Type::Int, "I32"}, {Type::Float, "F32"},
    {Type::Double, "F64"}, {Type::Long, "I64"},
};

struct Entry {
  std::string name;
  Type type{};
  std::vector<std::int64_t> shape{};
  std::uint64_t begin = 0;  // from the end of the header
  std::uint64_t end = 0;
};

// Begins the reason of an error about one tensor.
std::string of_tensor(const std::string& name) { return concat("tensor '", name, "': "); }

// The JSON parser keeps one of several values of a key without a word, so that keys are counted as
// they come.
Json parse_header(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !keys.back().insert(value.get<std::string>()).second) {
      throw DataError(concat("the header has '", value.get<std::string>(), "' twice"));
    }
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(concat("the header is not JSON: ", error.what()));
  }
  if (!header.is_object()) {
    throw DataError("the header is no JSON object");
  }
  return header;
}

Type parse_type(const Json& json) {
  if (!json.is_string()) {
    throw DataError("dtype is not text");
  }
  const auto* found = std::ranges::find(kTypes, json.get<std::string>(), &TypeName::name);
  if (found == std::end(kTypes)) {
    throw DataError(concat("type ", json.get<std::string>(), " is not known; known are F64, F32, ",
                           "F16, BF16, I64, I32, I16, I8, U8 and BOOL"));
  }
  return found->type;
}

std::vector<std::int64_t> parse_shape(const Json& json) {
  if (!json.is_array() || json.size() > kMostDimensions) {
    throw DataError(concat("shape is no list of at most ", kMostDimensions, " numbers"));
  }
  std::vector<std::int64_t> shape;
  for (const Json& size : json) {
    if (!size.is_number_unsigned() ||
        size.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
      throw DataError(concat("shape ", json.dump(), " is not of numbers from 0 to 2^63 - 1"));
    }
    shape.push_back(size.get<std::int64_t>());
  }
  return shape;
}

// Bytes of a tensor. The product of the sizes other than 0 must fit too: it becomes a stride.
std::uint64_t byte_count(const std::vector<std::int64_t>& shape, Type type) {
  auto product = static_cast<std::int64_t>(c10::elementSize(type));
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product)) {
      throw DataError(concat("shape ", Json(shape).dump(), " has more elements than can be"));
    }
  }
  return std::ranges::count(shape, 0) > 0 ? 0 : static_cast<std::uint64_t>(product);
}

Entry parse_entry(const std::string& name, const Json& json, std::uint64_t data_size) {
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!json.is_object() || !json.contains(key)) {
      throw DataError(concat(key, " is missing"));
    }
  }
  Entry entry{name, parse_type(json["dtype"]), parse_shape(json["shape"])};
  const Json& range = json["data_offsets"];
  if (!range.is_array() || range.size() != 2 || !range[0].is_number_unsigned() ||
      !range[1].is_number_unsigned()) {
    throw DataError(concat("data_offsets ", range.dump(), " are not two numbers from 0"));
  }
  entry.begin = range[0].get<std::uint64_t>();
  entry.end = range[1].get<std::uint64_t>();
  if (entry.begin > entry.end || entry.end > data_size) {
    throw DataError(concat("data_offsets ", range.dump(), " are out of range: the file has ",
                           data_size, " bytes of data"));
  }
  const std::uint64_t expected = byte_count(entry.shape, entry.type);
  if (entry.end - entry.begin != expected) {
    throw DataError(concat("data_offsets ", range.dump(), " span ", entry.end - entry.begin,
                           " bytes, type and shape need ", expected));
  }
  return entry;
}

std::vector<Entry> parse_entries(const Json& header, std::uint64_t data_size) {
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadata) {
      continue;
    }
    if (name.empty()) {
      throw DataError("a tensor has no name");
    }
    try {
      entries.push_back(parse_entry(name, json, data_size));
    } catch (const DataError& error) {
      throw DataError(concat(of_tensor(name), error.what()));
    }
  }
  return entries;
}

// Every byte of the data belongs to one tensor.
void check_cover(const std::vector<Entry>& entries, std::uint64_t data_size) {
  std::vector<const Entry*> in_file;
  in_file.reserve(entries.size());
  for (const Entry& entry : entries) {
    in_file.push_back(&entry);
  }
  std::ranges::sort(in_file, {},
                    [](const Entry* entry) { return std::pair(entry->begin, entry->end); });
  std::uint64_t position = 0;
  for (const Entry* entry : in_file) {
    if (entry->begin != position) {
      throw DataError(concat(of_tensor(entry->name), "its data begin at ", entry->begin,
                             entry->begin < position ? ", within those of another tensor, until "
                                                     : ", which leaves a gap after ",
                             position));
    }
    position = entry->end;
  }
  if (position != data_size) {
    throw DataError(concat("its last ", data_size - position, " bytes belong to no tensor"));
  }
}

at::Tensor read_tensor(const FileReader& file, std::uint64_t data_start, const Entry& entry) {
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.type));
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr());
  file.read_at(data_start + entry.begin, bytes, entry.end - entry.begin);
  if (entry.type == Type::Bool &&
      std::any_of(bytes, bytes + tensor.nbytes(), [](unsigned char byte) { return byte > 1; })) {
    throw DataError(concat(of_tensor(entry.name), "a BOOL is neither 0 nor 1"));
  }
  return tensor;
}

std::uint64_t header_length(const FileReader& file) {
  if (file.size() < kLengthBytes) {
    throw DataError("it is shorter than the length of its header");
  }
  const std::string bytes = file.read_at(0, kLengthBytes);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (length > file.size() - kLengthBytes) {
    throw DataError(concat("its header of ", length, " bytes reaches beyond the end of the file: ",
                           "it is truncated or damaged"));
  }
  if (length > kLongestHeader) {
    throw DataError(concat("its header of ", length, " bytes is too long"));
  }
  return length;
}

}  // namespace

StateDict read_tensors(const FileReader& file) {
  const std::uint64_t length = header_length(file);
  const std::uint64_t data_start = kLengthBytes + length;
  const std::uint64_t data_size = file.size() - data_start;
  const std::vector<Entry> entries =
      parse_entries(parse_header(file.read_at(kLengthBytes, length)), data_size);
  check_cover(entries, data_size);
  StateDict state;
  for (const Entry& entry : entries) {
    state.emplace_back(entry.name, read_tensor(file, data_start, entry));
  }
  return state;
}

namespace {

const TypeName* find_type(const at::Tensor& tensor) {
  const bool is_plain = tensor.defined() && tensor.layout() == at::kStrided;
  const auto* found = is_plain ? std::ranges::find(kTypes, tensor.scalar_type(), &TypeName::type)
                               : std::end(kTypes);
  return found == std::end(kTypes) ? nullptr : found;
}

StateDict in_file_order(StateDict state) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : state) {
    if (find_type(tensor) == nullptr) {
      throw DataError(concat(of_tensor(name), "it is undefined or of a kind or type that ",
                             "safetensors cannot hold"));
    }
    if (name.empty() || name == kMetadata) {
      throw DataError(concat("'", name, "' cannot be the name of a tensor"));
    }
    if (!names.insert(name).second) {
      throw DataError(concat(of_tensor(name), "it is given twice"));
    }
  }
  std::ranges::sort(state, [](const auto& left, const auto& right) {
    const TypeName* left_type = find_type(left.second);
    const TypeName* right_type = find_type(right.second);
    return left_type != right_type ? left_type > right_type : left.first < right.first;
  });
  return state;
}

std::string header_text(const StateDict& state) {
  Json header;
  header[kMetadata] = {{"format", "pt"}};
  std::uint64_t position = 0;
  for (const auto& [name, tensor] : state) {
    const std::uint64_t end = position + tensor.nbytes();
    header[name] = {{"dtype", find_type(tensor)->name},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {position, end}}};
    position = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw DataError("the name of a tensor is not UTF-8");
  }
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length += static_cast<char>(static_cast<unsigned char>(text.size() >> (8 * i)));
  }
  return length + text;
}

}  // namespace

StateDict read_safetensors(const std::filesystem::path& path) {
  return with_file_name(path, [&] { return read_tensors(FileReader(path)); });
}

void write_safetensors(const std::filesystem::path& path, const StateDict& state) {
  with_file_name(path, [&] {
    const StateDict ordered = in_file_order(state);
    const std::string header = header_text(ordered);
    replace_file_atomically(path, [&](const std::filesystem::path& temporary) {
      FileWriter file(temporary, path.string());
      file.write(header);
      for (const auto& [name, tensor] : ordered) {
        file.write(bytes_of(to_plain_cpu(tensor)));
      }
    });
  });
}

}  // namespace temper
