#pragma once
// Where an exception was thrown, or a signal struck, as text: function names come from the
// program's own symbol table, so no debug information and no exported symbols are needed.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace temper {

struct StackFrames {
  std::array<void*, 128> addresses{};
  int count = 0;
};

// Of the calling thread. The first call may load a library; later ones take no memory.
void capture_stack(StackFrames& frames) noexcept;

// "#0 temper::Loader::next() +0x1c (trainer)", a line each, at most `most`. Frames of the run-time
// library at the end are left out.
[[nodiscard]] std::string describe_stack(const StackFrames& frames, int most = 32);

// Of the exception that is being handled, from the place that threw it; that of the caller when the
// place is not known (an exception thrown long ago).
[[nodiscard]] std::string trace_of_current_exception();

// Names the functions of a stack within a signal handler: what it needs is mapped beforehand. Names
// stay mangled.
class SymbolMap {
 public:
  SymbolMap();
  ~SymbolMap();
  SymbolMap(const SymbolMap&) = delete;
  SymbolMap& operator=(const SymbolMap&) = delete;

  struct Place {
    std::string_view module;    // file name without its folder; empty: unknown
    std::string_view function;  // empty: unknown
    std::size_t offset = 0;     // into the function, else into the module
  };
  // Async-signal-safe.
  [[nodiscard]] Place find(const void* address) const noexcept;

 private:
  struct Module {
    std::array<char, 64> name{};
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t base = 0;
  };
  void find_modules();
  void map_program();

  std::array<Module, 96> modules_{};  // the program itself is the first
  std::size_t module_count_ = 0;
  void* file_ = nullptr;  // the program's
  std::size_t file_size_ = 0;
  std::size_t symbols_ = 0;  // of the file: offset and count
  std::size_t symbol_count_ = 0;
  std::size_t names_ = 0;
  std::size_t names_size_ = 0;
};

}  // namespace temper
