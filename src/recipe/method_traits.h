#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace temper::recipe {

// What defaults and checks have to know of a training method.
struct MethodTraits {
  std::string_view name;
  bool of_the_library = true;  // else nothing is known about its forwards
  bool clean_forward = false;
  bool adversarial_forward = true;
  bool beta = true;                       // its loss has a weight
  bool attack = true;                     // trains on what method.attack finds
  bool reference_order = true;            // the authors' code has an order to follow
  bool attacks_in_training_mode = false;  // the authors' code does
};

inline constexpr std::array<MethodTraits, 9> kMethodTraits = {{
    {.name = "standard",
     .clean_forward = true,
     .adversarial_forward = false,
     .beta = false,
     .attack = false,
     .reference_order = false},
    {.name = "pgd_at", .beta = false, .attacks_in_training_mode = true},
    {.name = "mixed", .clean_forward = true, .reference_order = false},
    {.name = "trades", .clean_forward = true},
    {.name = "mart", .clean_forward = true},
    {.name = "fgsm_rs", .beta = false, .attacks_in_training_mode = true},
    {.name = "n_fgsm", .beta = false, .attacks_in_training_mode = true},
    {.name = "free", .beta = false, .attack = false},
    {.name = "apgd_at", .beta = false, .reference_order = false},
}};

// Those of a method from outside of the library: an attack, and modes that it chooses itself.
[[nodiscard]] constexpr MethodTraits method_traits(std::string_view name) {
  const auto* const found = std::ranges::find(kMethodTraits, name, &MethodTraits::name);
  return found != kMethodTraits.end() ? *found
                                      : MethodTraits{.name = name, .of_the_library = false};
}

// Of the library; a program may add more.
[[nodiscard]] inline std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const MethodTraits& traits : kMethodTraits) {
    names.emplace_back(traits.name);
  }
  return names;
}

}  // namespace temper::recipe
