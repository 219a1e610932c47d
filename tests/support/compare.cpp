#include "support/compare.h"

#include <ATen/ATen.h>

#include <sstream>

namespace temper::testing_support {

std::string difference(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  std::ostringstream out;
  if (actual.sizes() != expected.sizes()) {
    out << "shape " << actual.sizes() << " instead of " << expected.sizes();
    return out.str();
  }
  const at::Tensor a = actual.detach().to(at::kDouble).reshape(-1);
  const at::Tensor b = expected.detach().to(at::kDouble).reshape(-1);
  const at::Tensor error = ((a - b).abs() / (1 + b.abs())).nan_to_num(1e300);
  if (error.numel() == 0 || error.max().item<double>() <= tolerance) {
    return "";
  }
  const std::int64_t place = error.argmax().item<std::int64_t>();
  out << "largest difference " << error.max().item<double>() << " at element " << place << ": "
      << a[place].item<double>() << " instead of " << b[place].item<double>();
  return out.str();
}

}  // namespace temper::testing_support
