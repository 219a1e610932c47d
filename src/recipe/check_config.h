#pragma once

#include <string>
#include <vector>

#include "recipe/read_config.h"

namespace temper::recipe {

// Fills in the values that follow from others.
void resolve_config(Config& config, const Places& places);

// Finds combinations that are impossible. The config is a resolved one.
void check_config(const Config& config, const Places& places, Problems& problems);

// What was given but has no effect beside the rest.
[[nodiscard]] std::vector<std::string> unused_keys(const Config& config, const Places& places,
                                                   const Problems& problems);

}  // namespace temper::recipe
