#pragma once

#include <map>
#include <string>

#include "recipe/tree.h"
#include "temper/recipe/config.h"
#include "temper/recipe/load_config.h"

namespace temper::recipe {

// The place of each key that was given, maps included.
using Places = std::map<std::string, Place>;

// Fills `config` from the tree by the description of the keys; checks names, types, bounds and
// choices of each key by itself.
void read_config(Node& tree, Config& config, Places& places, Problems& problems,
                 const MoreChoices& more_choices = {});

}  // namespace temper::recipe
