#pragma once
// Line plots as inline SVG. Colours come from the page's style.

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace temper {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // points that are not finite are left out
};

enum class Axis { kValue, kFraction };  // kFraction: 0 to 1, shown as per cent

// Empty text when no curve has a point.
[[nodiscard]] std::string svg_plot(const std::string& title, std::span<const Curve> curves,
                                   Axis axis);

// For text between tags and in quoted attributes.
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace temper
