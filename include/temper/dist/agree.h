#pragma once
// Makes what happened to one rank a decision of all.

#include <string>
#include <vector>

#include "temper/dist/communicator.h"

namespace temper {

// The texts of all ranks, by rank. As many broadcasts as there are ranks: for rare events. A
// collective.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& communicator,
                                                    const std::string& text);

// Throws AgreedError on all ranks when any has an error, with the number and text of the first such
// rank; an empty text is no error. A collective.
void throw_if_any_failed(Communicator& communicator, const std::string& error);

}  // namespace temper
