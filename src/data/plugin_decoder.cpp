// Pixels of the formats that OpenCV's plug-in reads.

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "data/convert.h"
#include "data/opencv_plugin.h"
#include "data/other_formats.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr const char* kPlugin = "libtemper_opencv.so";

// Beside the program, in the lib folder of an installation, or in the build folder above it.
std::vector<std::filesystem::path> places() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  std::filesystem::path folder = program.parent_path();
  std::vector<std::filesystem::path> found = {folder, folder.parent_path() / "lib"};
  constexpr int kDepth = 4;
  for (int i = 0; i < kDepth; ++i, folder = folder.parent_path()) {
    found.push_back(folder / "plugins");
  }
  return found;
}

struct Plugin {
  decltype(&temper_opencv_decode) decode = nullptr;
  std::string problem;
};

Plugin load_plugin() {
  std::error_code ignored;
  for (const std::filesystem::path& place : places()) {
    const std::filesystem::path path = place / kPlugin;
    if (!std::filesystem::exists(path, ignored)) {
      continue;
    }
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return {nullptr, concat("the plug-in does not load: ", ::dlerror())};
    }
    void* symbol = ::dlsym(library, "temper_opencv_decode");
    if (symbol == nullptr) {
      return {nullptr, concat(path.string(), " is another library")};
    }
    return {reinterpret_cast<decltype(&temper_opencv_decode)>(symbol), ""};
  }
  return {nullptr,
          concat("the plug-in ", kPlugin, " is not in ", places().front().string(), " or ",
                 places()[1].string(), "; build with OpenCV (package libopencv-imgcodecs-dev)")};
}

class PluginDecoder final : public ImageDecoder {
 public:
  explicit PluginDecoder(std::span<const std::uint8_t> data)
      : data_(data), header_(read_other_header(data)), format_(*other_format(data)) {}

  int width() const override { return static_cast<int>(header_.width); }
  int height() const override { return static_cast<int>(header_.height); }
  // OpenCV decodes into memory of its own first.
  std::uint64_t memory_needed(const Rectangle&, int) const override {
    return 2 * header_.width * header_.height * 3;
  }

  PictureRegion decode(const Rectangle&, int channels, Buffer& buffer) override {
    static const Plugin plugin = load_plugin();
    if (plugin.decode == nullptr) {
      throw DataError(concat("unsupported format ", format_, ": ", plugin.problem,
                             ", or convert the file to PNG or JPEG"));
    }
    const auto pixels = static_cast<std::size_t>(header_.width * header_.height);
    const std::span out = buffer.take(pixels * 3);
    std::array<char, 512> reason{};
    if (plugin.decode(data_.data(), data_.size(), width(), height(), out.data(), reason.data(),
                      reason.size()) != 0) {
      throw DataError(concat("corrupt or unsupported ", format_, ": ", reason.data()));
    }
    convert_channels(out.data(), pixels, 3, channels);
    return {{height(), width(), channels, ElementType::kUInt8,
             out.first(pixels * static_cast<std::size_t>(channels))},
            0,
            0};
  }

 private:
  std::span<const std::uint8_t> data_;
  OtherHeader header_;
  std::string_view format_;
};

}  // namespace

std::unique_ptr<ImageDecoder> open_other(std::span<const std::uint8_t> data) {
  return std::make_unique<PluginDecoder>(data);
}

}  // namespace temper
