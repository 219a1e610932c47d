#pragma once
// Makes what happened to one rank a decision of all.

#include <string>

#include "temper/dist/communicator.h"

namespace temper {

// Throws AgreedError on all ranks when any has an error, with the number and text of the first such
// rank; an empty text is no error. A collective.
void throw_if_any_failed(Communicator& communicator, const std::string& error);

}  // namespace temper
