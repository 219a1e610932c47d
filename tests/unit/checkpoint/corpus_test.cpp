// The corpus of the fuzzer and seeded changes of it, without the fuzzer: a short run in every build
// of what scripts/test.sh --full does for longer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace temper {
namespace {

namespace fs = std::filesystem;

fs::path corpus_folder() {
  return fs::path(TEMPER_SOURCE_DIR) / "tests/fuzz/corpus/fuzz_checkpoint";
}

std::vector<std::string> corpus() {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(corpus_folder())) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<std::string> contents;
  for (const fs::path& file : files) {
    contents.push_back(read_file(file));
  }
  return contents;
}

// Throws what the readers throw besides the one allowed answer.
void read_in_every_way(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string input = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0 && !input.empty(); --changes) {
      change(input);
    }
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void change(std::string& input) {
    const std::size_t place = below(input.size());
    const std::size_t length = std::min<std::size_t>(1 + below(16), input.size() - place);
    switch (below(5)) {
      case 0:
        input[place] = static_cast<char>(input[place] ^ (1 << below(8)));
        break;
      case 1:
        input[place] = static_cast<char>(below(256));
        break;
      case 2:
        input.erase(place, length);
        break;
      case 3:
        input.insert(place, input.substr(below(input.size()), length));
        break;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        input.insert(place, other.substr(below(other.size()), length));
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{3};  // NOLINT: the same inputs each time
};

TEST(Corpus, EachFileIsReadOrRefused) {
  const std::vector<std::string> inputs = corpus();
  ASSERT_GT(inputs.size(), 15U);
  for (const std::string& input : inputs) {
    EXPECT_NO_THROW(read_in_every_way(input));
  }
}

TEST(Corpus, ChangedFilesAreReadOrRefused) {
  const std::vector<std::string> inputs = corpus();
  Mutator mutator(inputs);
  for (int i = 0; i < 3'000; ++i) {
    const std::string input = mutator.next();
    ASSERT_NO_THROW(read_in_every_way(input))
        << "input " << i << ": " << testing::PrintToString(input);
  }
}

// The good files are read, the tricks are refused with their reason.
TEST(Corpus, FilesMeanWhatTheirNamesSay) {
  EXPECT_NO_THROW(static_cast<void>(read_checkpoint(corpus_folder() / "checkpoint.pt")));
  EXPECT_NO_THROW(static_cast<void>(read_pytorch_file(corpus_folder() / "state_dict.pt")));
  for (const auto& [name, reason] : {std::pair{"evil.pt", "'posix.system', which is not read"},
                                     std::pair{"overlap.pt", "longer than the file together"},
                                     std::pair{"huge.pt", "longer than the file together"},
                                     std::pair{"empty.pt", "is missing"}}) {
    try {
      static_cast<void>(read_pytorch_file(corpus_folder() / name));
      ADD_FAILURE() << name << " was read";
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace temper
