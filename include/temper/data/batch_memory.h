#pragma once
// The bytes of a batch, in ordinary or in page-locked memory.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace temper {

// Gives memory of at least that many bytes, not cleared, to any thread. Throws when there is none.
using BatchAllocator = std::function<std::shared_ptr<std::byte>(std::size_t)>;

class BatchMemory {
 public:
  // The first `size` bytes; what they held before may be lost. `allocate`: null for ordinary
  // memory.
  void resize(std::size_t size, const BatchAllocator& allocate = {}) {
    if (size > capacity_) {
      data_.reset();  // never both at once
      capacity_ = 0;
      data_ = allocate ? allocate(size) : ordinary(size);
      capacity_ = size;
    }
    size_ = size;
  }
  // Cuts off what lies behind.
  void shrink(std::size_t size) { size_ = std::min(size, size_); }

  [[nodiscard]] std::byte* data() { return data_.get(); }
  [[nodiscard]] const std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const std::byte* begin() const { return data(); }
  [[nodiscard]] const std::byte* end() const { return data() + size_; }
  // Keeps the memory alive.
  [[nodiscard]] const std::shared_ptr<std::byte>& owner() const { return data_; }

  BatchMemory() = default;
  BatchMemory(BatchMemory&& other) noexcept { swap(other); }
  BatchMemory& operator=(BatchMemory&& other) noexcept {
    BatchMemory(std::move(other)).swap(*this);
    return *this;
  }

  // Equal bytes.
  friend bool operator==(const BatchMemory& a, const BatchMemory& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static std::shared_ptr<std::byte> ordinary(std::size_t size) {
    const auto array = std::make_shared_for_overwrite<std::byte[]>(size);
    return {array, array.get()};
  }
  void swap(BatchMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::shared_ptr<std::byte> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace temper
