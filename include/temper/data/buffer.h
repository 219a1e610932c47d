#pragma once
// Memory for bytes that keeps its capacity from one use to the next and is not cleared.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace temper {

class Buffer {
 public:
  // The first `size` bytes, aligned for every type; what they held before may be lost.
  [[nodiscard]] std::span<std::uint8_t> take(std::size_t size) {
    if (size > capacity_) {
      data_.reset();  // never both at once
      data_ = std::make_unique_for_overwrite<std::uint8_t[]>(size);
      capacity_ = size;
    }
    return {data_.get(), size};
  }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  void release() {
    data_.reset();
    capacity_ = 0;
  }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t capacity_ = 0;
};

}  // namespace temper
