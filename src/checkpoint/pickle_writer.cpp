#include "checkpoint/pickle_writer.h"

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/scalar_type.h"
#include "temper/core/error.h"

namespace temper {
namespace {

bool is_same_tensor(const at::Tensor& left, const at::Tensor& right) {
  return left.is_same(right) ||
         (left.numel() > 0 && left.scalar_type() == right.scalar_type() &&
          left.device() == right.device() && left.data_ptr() == right.data_ptr() &&
          left.sizes() == right.sizes() && left.strides() == right.strides());
}

class PickleWriter {
 public:
  Pickle take(const Value& value) {
    bytes_ = "\x80\x02";
    write(value, "");
    bytes_ += '.';
    return std::move(pickle_);
  }

 private:
  void write(const Value& value, const std::string& path) {
    if (value.is_null()) {
      bytes_ += 'N';
    } else if (value.holds<bool>()) {
      write_bool(value.as_bool());
    } else if (value.holds<std::int64_t>()) {
      write_int(value.as_int());
    } else if (value.holds<double>()) {
      bytes_ += 'G';
      write_bytes(std::bit_cast<std::uint64_t>(value.as_double()), 8, std::endian::big);
    } else if (value.holds<std::string>()) {
      write_text(value.as_string(), path);
    } else if (value.holds<at::Tensor>()) {
      write_tensor(value.as_tensor(), path);
    } else if (value.holds<ValueList>()) {
      write_list(value.as_list(), path);
    } else {
      write_dict(value.as_dict(), path);
    }
  }

  void write_list(const ValueList& list, const std::string& path) {
    bytes_ += "](";
    for (std::size_t i = 0; i < list.size(); ++i) {
      write(list[i], below(path, std::to_string(i)));
    }
    bytes_ += 'e';
  }

  void write_dict(const ValueDict& dict, const std::string& path) {
    bytes_ += "}(";
    for (const auto& [key, entry] : dict) {
      write_text(key, path);
      write(entry, below(path, key));
    }
    bytes_ += 'u';
  }

  void write_bool(bool value) { bytes_ += value ? '\x88' : '\x89'; }

  void write_int(std::int64_t value) {
    const bool is_short = value >= std::numeric_limits<std::int32_t>::min() &&
                          value <= std::numeric_limits<std::int32_t>::max();
    bytes_ += is_short ? "J" : "\x8a\x08";
    write_bytes(static_cast<std::uint64_t>(value), is_short ? 4 : 8, std::endian::little);
  }

  void write_text(const std::string& text, const std::string& path) {
    try {
      static_cast<void>(nlohmann::json(text).dump());  // it checks the encoding
    } catch (const nlohmann::json::exception&) {
      throw DataError(concat("the text at '", path, "' is not UTF-8"));
    }
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw DataError(concat("the text at '", path, "' is longer than 4 GiB"));
    }
    bytes_ += 'X';
    write_bytes(text.size(), 4, std::endian::little);
    bytes_ += text;
  }

  void write_global(std::string_view module, std::string_view name) {
    bytes_ += concat('c', module, '\n', name, '\n');
  }

  void write_tensor(const at::Tensor& tensor, const std::string& path) {
    const bool is_plain = tensor.defined() && tensor.layout() == at::kStrided;
    const ScalarTypeName* type = is_plain ? find_scalar_type(tensor.scalar_type()) : nullptr;
    if (type == nullptr || type->storage.empty()) {
      throw DataError(concat("the tensor '", path, "' is undefined or of a kind or type that a ",
                             "checkpoint cannot hold"));
    }
    const std::size_t storage = storage_of(tensor);
    pickle_.tensors.push_back({path, storage});

    write_global("torch._utils", "_rebuild_tensor_v2");
    bytes_ += "((";
    write_text("storage", path);
    write_global("torch", type->storage);
    write_text(std::to_string(storage), path);
    write_text("cpu", path);
    write_int(tensor.numel());
    bytes_ += "tQ";
    write_int(0);  // offset
    write_shape(tensor.sizes());
    write_shape(contiguous_strides(tensor.sizes()));
    write_bool(false);  // no gradient
    write_global("collections", "OrderedDict");
    bytes_ += ")RtR";
  }

  void write_shape(at::IntArrayRef numbers) {
    bytes_ += '(';
    for (const std::int64_t number : numbers) {
      write_int(number);
    }
    bytes_ += 't';
  }

  static std::vector<std::int64_t> contiguous_strides(at::IntArrayRef sizes) {
    std::vector<std::int64_t> strides(sizes.size());
    std::int64_t stride = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= std::max<std::int64_t>(sizes[i], 1);
    }
    return strides;
  }

  std::size_t storage_of(const at::Tensor& tensor) {
    for (std::size_t i = 0; i < pickle_.storages.size(); ++i) {
      if (is_same_tensor(pickle_.storages[i], tensor)) {
        return i;
      }
    }
    pickle_.storages.push_back(tensor);
    return pickle_.storages.size() - 1;
  }

  void write_bytes(std::uint64_t value, int count, std::endian order) {
    for (int i = 0; i < count; ++i) {
      const int shift = 8 * (order == std::endian::little ? i : count - 1 - i);
      bytes_ += static_cast<char>(static_cast<unsigned char>(value >> shift));
    }
  }

  static std::string below(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : concat(path, "/", key);
  }

  Pickle pickle_;
  std::string& bytes_ = pickle_.bytes;
};

}  // namespace

Pickle make_pickle(const Value& value) { return PickleWriter().take(value); }

}  // namespace temper
