#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace temper::recipe {

// What a key may hold and means.
struct Field {
  std::string_view help = "";
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool positive = false;   // 0 is refused, too
  bool below_max = false;  // max itself is refused, too
  std::vector<std::string> choices = {};
  std::vector<std::string> later = {};  // choices of a later version
  std::string_view default_text = "";   // for a default that the struct cannot hold
  std::string_view absent = "null";     // the word for std::nullopt
};

}  // namespace temper::recipe
