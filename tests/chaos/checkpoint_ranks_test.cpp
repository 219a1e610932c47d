// What one rank alone finds in the run directory is a decision of all ranks: whether they go on,
// and from which checkpoint.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "recipe/resume.h"
#include "support/rank_processes.h"
#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper::testing_support {
namespace {

namespace fs = std::filesystem;

const ResumeKey kKey{
    .data_fingerprint = "abc", .seed = 1, .global_batch_size = 8, .config = "a: 1"};

Value checkpoint_of(int update) {
  ValueDict value = to_entries(kKey);
  value["format_version"] = 1;
  value["model"] = ValueDict{{"w", at::full({3}, update)}};
  value["average"] = Value();
  value["optimizer"] = ValueDict();
  value["method"] = ValueDict();
  value["progress"] =
      ValueDict{{"update", update},        {"samples", 8 * update}, {"skipped_in_a_row", 0},
                {"validated_update", 0},   {"best_metric", 0.5},    {"updates_per_epoch", 10},
                {"samples_per_epoch", 80}, {"global_batch_size", 8}};
  return value;
}

// Each rank sees a folder of its own under the same name, as on hosts that share none.
class OwnFolder {
 public:
  OwnFolder() { fs::current_path(folder_.path()); }
  ~OwnFolder() { fs::current_path("/"); }

 private:
  ScratchFolder folder_;
};

// The error that find_checkpoint throws on this rank, with its type; or the update that it found.
std::string outcome_of(RankWorld& world) {
  ResumeKey now = kKey;
  try {
    const auto found = find_checkpoint({}, "checkpoints", world.communicator, now, {});
    return found
               ? concat("update ", found->as_dict().at("progress").as_dict().at("update").as_int())
               : "none";
  } catch (const AgreedError& error) {
    return concat("agreed: ", error.what());
  } catch (const ConfigError& error) {
    return concat("configuration: ", error.what());
  }
}

void expect(const std::string& outcome, const std::string& start, const std::string& part = "") {
  require(outcome.starts_with(start) && outcome.find(part) != std::string::npos, outcome);
}

void save(int update) { write_checkpoint("checkpoints/last.pt", checkpoint_of(update)); }

void all_read_the_same(RankWorld& world) {
  const OwnFolder folder;
  expect(outcome_of(world), "none");
  fs::create_directory("checkpoints");
  save(7);
  expect(outcome_of(world), "update 7");
}

void one_rank_cannot_read(RankWorld& world) {
  const OwnFolder folder;
  fs::create_directory("checkpoints");
  const bool last_rank = world.rank == world.world_size - 1;
  const std::string whose = concat("agreed: rank ", world.world_size - 1, ": ");
  if (!last_rank) {
    save(7);
  }
  expect(outcome_of(world), whose, "last.pt: No such file or directory");
  save(7);
  if (last_rank) {
    fs::resize_file("checkpoints/last.pt", fs::file_size("checkpoints/last.pt") - 30);
  }
  expect(outcome_of(world), whose, "truncated or damaged");
  save(last_rank ? 6 : 7);
  expect(outcome_of(world), whose, "is another file here than for rank 0");
  save(7);  // and nothing is left over from the refusals
  expect(outcome_of(world), "update 7");
}

void main_rank_refuses(RankWorld& world) {
  const OwnFolder folder;
  fs::create_directory("checkpoints");
  const std::string start = world.rank == 0 ? "configuration: " : "agreed: ";
  write_file_atomically("checkpoints/last.pt", "damaged");
  expect(outcome_of(world), start, "is valid, and a new start would write over them");
  ValueDict other = checkpoint_of(7).as_dict();
  other["format_version"] = 2;
  write_checkpoint("checkpoints/last.pt", other);
  expect(outcome_of(world), start, "last.pt has format version 2");
}

TEST(CheckpointOfRanks, AllReadTheSame) { expect_ranks_pass("same", 2); }
TEST(CheckpointOfRanks, OneRankThatCannotReadStopsAll) {
  expect_ranks_pass("cannot_read", 2);
  expect_ranks_pass("cannot_read", 3);
}
TEST(CheckpointOfRanks, MainRankRefusesForAll) { expect_ranks_pass("refuses", 2); }

}  // namespace
}  // namespace temper::testing_support

int main(int argc, char** argv) {
  using namespace temper::testing_support;
  const int status = run_as_rank({{"same", all_read_the_same},
                                  {"cannot_read", one_rank_cannot_read},
                                  {"refuses", main_rank_refuses}});
  if (status >= 0) {
    return status;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
