#pragma once

#include "recipe/config_findings.h"

namespace temper::recipe {

// The threat model, the training method with its attack, and the attack of the validation.
void check_method(const Config& config, ConfigFindings& findings);

}  // namespace temper::recipe
