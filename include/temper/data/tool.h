#pragma once
// What the program `datatool` does, behind its command line.

#include <iosfwd>
#include <string>

#include "temper/data/open_dataset.h"

namespace temper {

struct ToolOptions {
  std::string command{};  // verify, stats, pack, unpack, convert, index
  // Format "auto": guessed from the path.
  DatasetOptions dataset{.format = "auto", .path = {}, .channels = 0};
  std::string output{};  // of the commands that write
  std::string to{};      // of convert: folder, pack, npz
  int shards = 0;        // of a pack; 0: one file
  bool pixels = false;   // a pack holds pixels
  int threads = 1;
  bool json = false;  // one JSON object instead of text
};

// Prints what the command has to say to `out`. Returns 0, or 1 when samples are bad. Throws as
// open_dataset does, and SystemError when something cannot be written.
int run_datatool(const ToolOptions& options, std::ostream& out);

}  // namespace temper
