#include "temper/attacks/catalog.h"

#include "temper/attacks/apgd.h"

namespace temper {

Catalog<Attack, ThreatModel, PgdOptions> built_in_attacks() {
  Catalog<Attack, ThreatModel, PgdOptions> attacks("attack");
  attacks.add("fgsm", [](const ThreatModel& threat_model, const PgdOptions&) {
    return std::make_shared<PgdAttack>(fgsm_attack(threat_model));
  });
  attacks.add("pgd", [](const ThreatModel& threat_model, const PgdOptions& options) {
    return std::make_shared<PgdAttack>(threat_model, options);
  });
  attacks.add("apgd", [](const ThreatModel& threat_model, const PgdOptions& options) {
    return std::make_shared<ApgdAttack>(
        threat_model, ApgdOptions{.steps = options.steps,
                                  .random_start = options.random_start != RandomStart::kNone});
  });
  return attacks;
}

}  // namespace temper
