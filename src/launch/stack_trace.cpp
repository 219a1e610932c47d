#include "launch/stack_trace.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <typeinfo>

#include "temper/core/text.h"

namespace temper {
namespace {

// The stacks of the last exceptions by the address of the exception object. A ring: what is thrown
// often and caught at once pushes older ones out.
class ThrowLog {
 public:
  void add(const void* object) noexcept {
    StackFrames frames;
    capture_stack(frames);
    const Lock lock(busy_);
    Entry& entry = entries_[next_++ % entries_.size()];
    entry.object = object;
    entry.frames = frames;
  }

  bool find(const void* object, StackFrames& frames) noexcept {
    const Lock lock(busy_);
    for (std::size_t age = 1; age <= entries_.size(); ++age) {
      const Entry& entry = entries_[(next_ - age) % entries_.size()];
      if (entry.object == object) {
        frames = entry.frames;
        return true;
      }
    }
    return false;
  }

 private:
  struct Entry {
    const void* object = nullptr;
    StackFrames frames;
  };
  class Lock {
   public:
    explicit Lock(std::atomic_flag& flag) : flag_(flag) {
      while (flag_.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Lock() { flag_.clear(std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::atomic_flag& flag_;
  };

  std::array<Entry, 16> entries_;
  std::size_t next_ = std::size_t{1} << 32;  // so that a subtraction stays positive
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

constinit ThrowLog throw_log;

std::string hexadecimal(std::size_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value % 16]);
    value /= 16;
  } while (value != 0);
  return "0x" + text;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string describe_frame(const SymbolMap& map, const void* address) {
  SymbolMap::Place place = map.find(address);
  std::string function(place.function);
  if (function.empty()) {  // of a library: what it exports
    Dl_info info{};
    if (::dladdr(address, &info) != 0 && info.dli_sname != nullptr) {
      function = info.dli_sname;
      place.offset =
          reinterpret_cast<std::size_t>(address) - reinterpret_cast<std::size_t>(info.dli_saddr);
    }
  }
  return concat(function.empty() ? "??" : demangled(function), " +", hexadecimal(place.offset),
                " (", place.module.empty() ? "??" : place.module, ")");
}

// A return address points behind its call, which may be the next function's begin.
const void* call_of(const void* return_address) {
  return static_cast<const char*>(return_address) - 1;
}

}  // namespace

void capture_stack(StackFrames& frames) noexcept {
  frames.count = ::backtrace(frames.addresses.data(), static_cast<int>(frames.addresses.size()));
}

std::string describe_stack(const StackFrames& frames, int most) {
  const SymbolMap map;
  std::string text;
  int number = 0;
  for (int i = 0; i < frames.count && number < most; ++i) {
    const std::string frame =
        describe_frame(map, call_of(frames.addresses[static_cast<std::size_t>(i)]));
    const bool own =
        frame.starts_with("temper::capture_stack") || frame.find("ThrowLog") != std::string::npos ||
        frame.starts_with("__cxa_throw") || frame.starts_with("temper::trace_of_current_exception");
    if (!own) {
      text += concat(number == 0 ? "" : "\n", "#", number, " ", frame);
      ++number;
    }
    if (frame.starts_with("main +")) {
      break;
    }
  }
  return text;
}

std::string trace_of_current_exception() {
  StackFrames frames;
  const std::exception_ptr current = std::current_exception();
  const void* object = nullptr;
  static_assert(sizeof current == sizeof object);  // a pointer to the object, in libstdc++
  std::memcpy(&object, &current, sizeof object);
  if (object == nullptr || !throw_log.find(object, frames)) {
    capture_stack(frames);
  }
  return describe_stack(frames);
}

SymbolMap::SymbolMap() {
  find_modules();
  map_program();
}

SymbolMap::~SymbolMap() {
  if (file_ != nullptr) {
    ::munmap(file_, file_size_);
  }
}

void SymbolMap::find_modules() {
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& map = *static_cast<SymbolMap*>(data);
        if (map.module_count_ == map.modules_.size()) {
          return 1;
        }
        Module& module = map.modules_[map.module_count_];
        module.base = info->dlpi_addr;
        module.begin = SIZE_MAX;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type == PT_LOAD) {
            module.begin = std::min<std::size_t>(module.begin, info->dlpi_addr + header.p_vaddr);
            module.end = std::max<std::size_t>(module.end,
                                               info->dlpi_addr + header.p_vaddr + header.p_memsz);
          }
        }
        const std::string_view path =
            map.module_count_ == 0 ? program_invocation_short_name : info->dlpi_name;
        const std::string_view name = file_name(path).substr(0, module.name.size() - 1);
        std::copy(name.begin(), name.end(), module.name.begin());
        ++map.module_count_;
        return 0;
      },
      this);
}

// Without it, functions of the program have no names: no reason to fail.
void SymbolMap::map_program() {
  const int descriptor = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0 ||
      status.st_size < static_cast<off_t>(sizeof(ElfW(Ehdr)))) {
    ::close(descriptor);
    return;
  }
  file_size_ = static_cast<std::size_t>(status.st_size);
  void* file = ::mmap(nullptr, file_size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  ::close(descriptor);
  if (file == MAP_FAILED) {
    return;
  }
  file_ = file;
  const auto* bytes = static_cast<const char*>(file_);
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(bytes);
  if (header->e_shoff + std::size_t{header->e_shnum} * sizeof(ElfW(Shdr)) > file_size_) {
    return;
  }
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(bytes + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    const ElfW(Shdr)& section = sections[i];
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= header->e_shnum ||
        section.sh_offset + section.sh_size > file_size_) {
      continue;
    }
    const ElfW(Shdr)& names = sections[section.sh_link];
    if (names.sh_offset + names.sh_size <= file_size_ && names.sh_size > 0) {
      symbols_ = section.sh_offset;
      symbol_count_ = section.sh_size / sizeof(ElfW(Sym));
      names_ = names.sh_offset;
      names_size_ = names.sh_size;
    }
  }
}

SymbolMap::Place SymbolMap::find(const void* address) const noexcept {
  const auto value = reinterpret_cast<std::size_t>(address);
  for (std::size_t i = 0; i < module_count_; ++i) {
    const Module& module = modules_[i];
    if (value < module.begin || value >= module.end) {
      continue;
    }
    Place place{.module = module.name.data(), .function = {}, .offset = value - module.base};
    if (i != 0 || symbol_count_ == 0) {
      return place;
    }
    const auto* bytes = static_cast<const char*>(file_);
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(bytes + symbols_);
    const std::size_t target = value - module.base;
    for (std::size_t k = 0; k < symbol_count_; ++k) {
      const ElfW(Sym)& symbol = symbols[k];
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_name < names_size_ &&
          target >= symbol.st_value && target < symbol.st_value + symbol.st_size) {
        place.function = bytes + names_ + symbol.st_name;
        place.offset = target - symbol.st_value;
        return place;
      }
    }
    return place;
  }
  return {};
}

}  // namespace temper

// Takes the place of the C++ library's __cxa_throw for the whole program, its libraries included,
// and calls it: the only point at which the stack of an exception is still there. The compiler has
// a declaration of its own, hence the label.
extern "C" [[noreturn]] void temper_throw(void* object, void* type,
                                          void (*destructor)(void*)) asm("__cxa_throw");

extern "C" void temper_throw(void* object, void* type, void (*destructor)(void*)) {
  using Throw = void (*)(void*, void*, void (*)(void*));
  static const auto original = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  temper::throw_log.add(object);
  original(object, type, destructor);
  __builtin_unreachable();
}
