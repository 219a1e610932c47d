// The C++ side of checkpoint.py: write OUT, convert IN OUT, state IN OUT.

#include <ATen/ATen.h>

#include <iostream>
#include <span>
#include <string>

#include "temper/checkpoint/container.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/checkpoint/state_dict.h"
#include "unit/checkpoint/sample_checkpoint.h"

namespace temper {
namespace {

Value checkpoint_for_python() {
  Value value = sample_checkpoint();
  const at::Tensor base = at::arange(120, at::kFloat).reshape({2, 3, 4, 5});
  value.as_dict()["views"] =
      ValueDict{{"slice", base.select(1, 2)},
                {"transposed", base.transpose(0, 3)},
                {"channels_last", base.contiguous(at::MemoryFormat::ChannelsLast)},
                {"bfloat16", base.to(at::kBFloat16)},
                {"tied", base},
                {"tied_again", base}};
  return value;
}

int run(std::span<char*> arguments) {
  const std::string command = arguments[1];
  if (command == "write") {
    write_checkpoint(arguments[2], checkpoint_for_python());
  } else if (command == "convert") {
    write_checkpoint(arguments[3], read_pytorch_file(arguments[2]));
  } else if (command == "state") {
    write_checkpoint(arguments[3], to_dict(read_state_dict(arguments[2])));
  } else {
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace temper

int main(int count, char** arguments) {
  try {
    return temper::run({arguments, static_cast<std::size_t>(count)});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
