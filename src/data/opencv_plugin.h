#pragma once
// What the plug-in libtemper_opencv.so offers. It is loaded at the first image that is neither JPEG
// nor PNG, so that programs do not start with OpenCV's time and memory. Nothing but C types crosses
// the border.

#include <cstddef>
#include <cstdint>

extern "C" {
// Decodes a file whose size is known into width * height * 3 bytes, RGB. Returns 0, or writes a
// reason ended by zero and returns another number. Any number of threads may call it.
int temper_opencv_decode(const std::uint8_t* data, std::size_t size, int width, int height,
                         std::uint8_t* rgb, char* reason, std::size_t reason_size);
}
