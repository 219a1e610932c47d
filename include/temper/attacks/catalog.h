#pragma once
// The attacks that a configuration can name.

#include "temper/attacks/pgd.h"
#include "temper/core/catalog.h"

namespace temper {

// fgsm, pgd, apgd. FGSM ignores the options; of them APGD takes the number of steps and whether the
// start is random.
[[nodiscard]] Catalog<Attack, ThreatModel, PgdOptions> built_in_attacks();

}  // namespace temper
