#pragma once
// The c10d object behind a Store, for the process group.

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "temper/dist/store.h"

namespace temper {

struct Store::Handle {
  c10::intrusive_ptr<c10d::Store> store;
};

}  // namespace temper
