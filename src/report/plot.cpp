#include "report/plot.h"

#include <algorithm>
#include <cmath>

#include "temper/core/text.h"

namespace temper {
namespace {

constexpr double kWidth = 460;
constexpr double kHeight = 260;
constexpr double kLeft = 56;
constexpr double kRight = 12;
constexpr double kTop = 44;
constexpr double kBottom = 30;
constexpr int kColours = 3;
constexpr std::size_t kMaxPoints = 600;

struct Range {
  double low = 0;
  double high = 1;
  [[nodiscard]] double position(double value) const { return (value - low) / (high - low); }
};

Range range_of(const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  if (high > low) {
    return {low, high};
  }
  const double margin = low == 0 ? 1 : std::abs(low) / 2;
  return {low - margin, high + margin};
}

// The round distance of about five grid lines: 1, 2 or 5 times a power of ten.
double grid_step(const Range& range) {
  const double rough = (range.high - range.low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double factor = rough / power;
  return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

std::string label_of(double value, double step) {
  if (step >= 1 && std::abs(value) < 1e6) {
    return fixed(value, 0);
  }
  const int digits = static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return digits >= 0 && digits <= 4 ? fixed(value, digits)
                                    : to_text(std::round(value / step) * step);
}

class Plot {
 public:
  Plot(Range x, Range y, Axis axis) : x_(x), y_(y), axis_(axis) {}

  [[nodiscard]] std::string grid() const {
    std::string svg;
    const double y_step = grid_step(y_);
    for (double i = std::ceil(y_.low / y_step - 1e-9); i * y_step <= y_.high + y_step * 1e-9; ++i) {
      const double value = i * y_step;
      const std::string text =
          axis_ == Axis::kFraction ? concat(fixed(100 * value, 0), " %") : label_of(value, y_step);
      svg += concat("<line class=\"grid\" x1=\"", fixed(kLeft, 1), "\" x2=\"",
                    fixed(kWidth - kRight, 1), "\" y1=\"", top(value), "\" y2=\"", top(value),
                    "\"/><text x=\"", fixed(kLeft - 6, 1), "\" y=\"", top(value),
                    "\" dy=\"4\" text-anchor=\"end\">", text, "</text>");
    }
    const double x_step = std::max(1.0, grid_step(x_));
    for (double i = std::ceil(x_.low / x_step - 1e-9); i * x_step <= x_.high + 1e-9; ++i) {
      svg += concat("<text x=\"", left(i * x_step), "\" y=\"", fixed(kHeight - 10, 1),
                    "\" text-anchor=\"middle\">", fixed(i * x_step, 0), "</text>");
    }
    return svg;
  }

  [[nodiscard]] std::string line(const Curve& curve, int colour) const {
    std::string points;
    const std::size_t stride = curve.points.size() / kMaxPoints + 1;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const auto& [x, y] = curve.points[i];
      if ((i % stride == 0 || i + 1 == curve.points.size()) && std::isfinite(y)) {
        points += concat(points.empty() ? "" : " ", left(x), ",", top(y));
      }
    }
    // A single point would be invisible as a line.
    return concat("<polyline class=\"c", colour, "\" points=\"", points, "\"/>",
                  points.find(' ') == std::string::npos ? dot(points, colour) : "");
  }

 private:
  static std::string dot(const std::string& point, int colour) {
    const std::size_t comma = point.find(',');
    return point.empty()
               ? ""
               : concat("<circle class=\"c", colour, "\" r=\"2\" cx=\"", point.substr(0, comma),
                        "\" cy=\"", point.substr(comma + 1), "\"/>");
  }
  [[nodiscard]] std::string left(double x) const {
    return fixed(kLeft + x_.position(x) * (kWidth - kLeft - kRight), 1);
  }
  [[nodiscard]] std::string top(double y) const {
    return fixed(kHeight - kBottom - y_.position(y) * (kHeight - kTop - kBottom), 1);
  }

  Range x_;
  Range y_;
  Axis axis_;
};

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters are not allowed in a page, even as references.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string svg_plot(const std::string& title, std::span<const Curve> curves, Axis axis) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      if (std::isfinite(y)) {
        xs.push_back(x);
        ys.push_back(y);
      }
    }
  }
  if (xs.empty()) {
    return "";
  }
  const Plot plot(range_of(xs), axis == Axis::kFraction ? Range{0, 1} : range_of(ys), axis);
  std::string svg = concat("<svg viewBox=\"0 0 ", fixed(kWidth, 0), " ", fixed(kHeight, 0),
                           "\" role=\"img\"><title>", escape_html(title),
                           "</title><text class=\"title\" x=\"8\" y=\"16\">", escape_html(title),
                           "</text>", plot.grid());
  double legend = 8;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const int colour = static_cast<int>(i) % kColours;
    svg += concat("<text class=\"c", colour, "\" x=\"", fixed(legend, 0), "\" y=\"33\">",
                  escape_html(curves[i].name), "</text>", plot.line(curves[i], colour));
    legend += 16 + 7 * static_cast<double>(curves[i].name.size());
  }
  return svg + "</svg>\n";
}

}  // namespace temper
