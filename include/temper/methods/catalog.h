#pragma once
// The methods that a configuration can name.

#include <memory>

#include "temper/attacks/attack.h"
#include "temper/core/catalog.h"
#include "temper/methods/method_options.h"
#include "temper/methods/training_method.h"

namespace temper {

// standard, pgd_at, mixed, trades, mart, fgsm_rs, n_fgsm, free, apgd_at. `attack` may be null for
// standard and free, which have none. The one-step methods and apgd_at are pgd_at with an attack of
// their own, which the caller makes.
[[nodiscard]] Catalog<TrainingMethod, std::shared_ptr<const Attack>, MethodOptions>
built_in_methods();

}  // namespace temper
