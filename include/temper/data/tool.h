#pragma once
// What the program `datatool` does, behind its command line.

#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>

#include "temper/data/open_dataset.h"

namespace temper {

struct ToolOptions {
  std::string command{};  // verify, stats, pack, unpack, convert, index
  // Format "auto": guessed from the path.
  DatasetOptions dataset{.format = "auto", .path = {}, .channels = 0};
  std::string output{};  // of the commands that write
  std::string to{};      // of convert: folder, pack, npz, cifar10, cifar100, mnist
  int shards = 0;        // of a pack; 0: one file
  bool pixels = false;   // a pack holds pixels
  int threads = 1;
  bool json = false;  // one JSON object instead of text
  // Optional; true ends the command before its next sample. Called by its threads.
  std::function<bool()> interrupted{};
};

// The command was ended by `interrupted`; what it had begun to write is removed.
class ToolInterrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Prints what the command has to say to `out`. Returns 0, or 1 when samples are bad. Throws as
// open_dataset does, SystemError when something cannot be written, and ToolInterrupted.
int run_datatool(const ToolOptions& options, std::ostream& out);

}  // namespace temper
