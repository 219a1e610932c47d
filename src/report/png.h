#pragma once
// Pixels as text that a page can hold.

#include <string>

#include "temper/report/html.h"

namespace temper {

// A PNG file's bytes.
[[nodiscard]] std::string encode_png(const Pixels& pixels);

[[nodiscard]] std::string base64(const std::string& bytes);

}  // namespace temper
