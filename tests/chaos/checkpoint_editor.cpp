// Damages and changes checkpoints for checkpoint_test.py:
//   flips FILE COUNT     flips bytes one at a time; each must be found or do no harm
//   cuts FILE COUNT      shortens a copy to many lengths; each must be found
//   set FILE ENTRY N     writes the file again with a number at model/fc.weight, say
//   drop FILE ENTRY      ... without an entry
//   add FILE ENTRY       ... with a tensor more
//   reshape FILE ENTRY   ... with a tensor in another shape

#include <ATen/ATen.h>

#include <fstream>
#include <iostream>
#include <random>
#include <span>
#include <string>

#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

enum class Outcome { kFound, kHarmless };

Outcome outcome_of(const fs::path& file, const Value& expected) {
  try {
    require(identical(read_checkpoint(file), expected), "damage was read as another state");
    return Outcome::kHarmless;
  } catch (const DataError&) {
    return Outcome::kFound;
  }
}

void flip_bytes(const fs::path& file, int count) {
  const Value expected = read_checkpoint(file);
  const std::string good = read_file(file);
  const ScratchFolder folder;
  std::mt19937_64 random(11);  // NOLINT: the same bytes each time
  int found = 0;
  for (int i = 0; i < count; ++i) {
    std::string bad = good;
    char& byte = bad[random() % bad.size()];
    byte = static_cast<char>(byte ^ (1 << (random() % 8)));
    write_file_atomically(folder / "bad.pt", bad);
    found += outcome_of(folder / "bad.pt", expected) == Outcome::kFound ? 1 : 0;
  }
  std::cout << found << " of " << count << " found\n";
  // The rest lies in padding and the like. Most bytes of a file are weights.
  require(2 * found > count, "only ", found, " of ", count, " flips were found");
}

void cut(const fs::path& file, std::uint64_t count) {
  const Value expected = read_checkpoint(file);
  const ScratchFolder folder;
  fs::copy_file(file, folder / "bad.pt");
  const std::uint64_t size = fs::file_size(file);
  for (std::uint64_t i = 0; i < count; ++i) {
    // The last bytes one by one, then steps through the whole file.
    const std::uint64_t half = count / 2;
    const std::uint64_t length = i < half ? size - 1 - i : size * (count - 1 - i) / half;
    if (length < fs::file_size(folder / "bad.pt")) {
      fs::resize_file(folder / "bad.pt", length);
    }
    require(outcome_of(folder / "bad.pt", expected) == Outcome::kFound, "cut to ", length);
  }
}

// The first name of a path; a name may hold slashes itself, as those of the optimizer's state do.
std::string first_name(const ValueDict& dict, const std::string& path) {
  return dict.contains(path) ? path : path.substr(0, path.find('/'));
}

// A copy of `dict` with `edit` applied to the entry of that path.
template <typename Edit>
ValueDict edited(const ValueDict& dict, const std::string& path, const Edit& edit) {
  const std::string key = first_name(dict, path);
  require(dict.contains(key), "there is no ", path);
  ValueDict out;
  for (const auto& [name, value] : dict) {
    if (name != key) {
      out[name] = value;
    } else if (key != path) {
      out[name] = edited(value.as_dict(), path.substr(key.size() + 1), edit);
    } else {
      edit(out, name, value);
    }
  }
  return out;
}

ValueDict with_tensor(const ValueDict& dict, const std::string& path) {
  const std::size_t slash = path.find('/');
  ValueDict out = dict;
  const std::string key = path.substr(0, slash);
  out[key] = slash == std::string::npos
                 ? Value(at::zeros({1}))
                 : Value(with_tensor(dict.at(key).as_dict(), path.substr(slash + 1)));
  return out;
}

void rewrite(const std::string& command, std::span<char*> arguments) {
  const fs::path file = arguments[2];
  const std::string entry = arguments[3];
  const ValueDict before = read_checkpoint(file).as_dict();
  const auto edit = [&](ValueDict& out, const std::string& name, const Value& value) {
    if (command == "set") {
      out[name] = std::stoi(arguments[4]);
    } else if (command == "reshape") {
      out[name] = at::cat({value.as_tensor().flatten(), at::zeros({1})});
    }
  };
  write_checkpoint(file,
                   command == "add" ? with_tensor(before, entry) : edited(before, entry, edit));
}

}  // namespace
}  // namespace temper

int main(int count, char** arguments) {
  const std::string command = count > 3 ? arguments[1] : "";
  try {
    if (command == "flips") {
      temper::flip_bytes(arguments[2], std::stoi(arguments[3]));
    } else if (command == "cuts") {
      temper::cut(arguments[2], std::stoul(arguments[3]));
    } else {
      temper::rewrite(command, {arguments, static_cast<std::size_t>(count)});
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
