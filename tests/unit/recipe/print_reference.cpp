// Prints docs/configuration.md.
#include <iostream>

#include "temper/recipe/load_config.h"

int main() {
  std::cout << temper::configuration_reference();
  return 0;
}
