#include "checkpoint/unpickler.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/pickle_writer.h"
#include "temper/core/error.h"
#include "unit/checkpoint/sample_checkpoint.h"

namespace temper {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

at::Tensor four_floats(const std::string&) { return at::ones({4}).view(at::kByte); }

std::string error_of(const std::string& pickle) {
  try {
    static_cast<void>(unpickle(pickle, four_floats));
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

// A tensor over the storage of four floats.
std::string tensor_pickle(const std::string& offset, const std::string& shape,
                          const std::string& strides) {
  return "\x80\x02"s + "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage"s +
         "ctorch\nFloatStorage\nX\x01\0\0\0"s + "0X\x03\0\0\0"s + "cpuK\x04tQ"s + offset + shape +
         strides + "\x89" + "ccollections\nOrderedDict\n)RtR.";
}

TEST(Unpickler, UnknownGlobalsAreNamedAndNotCalled) {
  EXPECT_THAT(error_of("cos\nsystem\n(X\x04\0\0\0"s + "truetR."), HasSubstr("'os.system'"));
  EXPECT_THAT(error_of("\x80\x04\x8c\x08"
                       "builtins\x8c\x04"
                       "eval\x93."s),
              HasSubstr("'builtins.eval'"));
  EXPECT_THAT(error_of("cargparse\nNamespace\n)R."), HasSubstr("'argparse.Namespace'"));
}

// Each way by which Python's pickle gets to run something.
TEST(Unpickler, NothingInAPickleIsRun) {
  const std::string text = "X\x04\0\0\0true"s;
  for (const std::string& evil : {
           "cposix\nsystem\n("s + text + "tR.",                   // GLOBAL and REDUCE
           "\x8c\x05posix\x8c\x06system\x93"s + text + "\x85R.",  // STACK_GLOBAL
           "("s + text + "iposix\nsystem\n.",                     // INST
           "(cposix\nsystem\n"s + text + "o.",                    // OBJ
           "cposix\nsystem\n"s + text + "\x85\x81.",              // NEWOBJ
           "cposix\nsystem\n"s + text + "\x85}\x92.",             // NEWOBJ_EX
           "\x82\x01."s, "\x83\x01\0."s, "\x84\x01\0\0\0."s,      // EXT1, EXT2 and EXT4
           "Ptrue\n."s,                                           // PERSID
           "cbuiltins\neval\n."s, "cbuiltins\n__import__\n."s, "ctorch.serialization\nload\n."s,
           "ctorch._utils\n_rebuild_sparse_tensor\n)R."s,
           "ccollections\nOrderedDict\n)R}b\x85R."s,  // a call of data
           "]}b."s,                                   // BUILD of something else than a dict
       }) {
    EXPECT_NE(error_of(evil), "no error") << testing::PrintToString(evil);
  }
  EXPECT_THAT(error_of("\x8c\x05posix\x8c\x06system\x93"s + text + "\x85R."),
              HasSubstr("it needs the Python object 'posix.system', which is not read for safety"));
}

TEST(Unpickler, OperationsBeyondDataAreRefused) {
  EXPECT_THAT(error_of("(i__main__\nx\n."), HasSubstr("operation 105"));  // INST
  EXPECT_THAT(error_of("\x82\x01."), HasSubstr("operation 130"));         // EXT1
}

TEST(Unpickler, TensorsStayWithinTheirStorage) {
  EXPECT_EQ(error_of(tensor_pickle("K\0"s, "K\x02K\x02\x86", "K\x02K\x01\x86")), "no error");
  EXPECT_THAT(error_of(tensor_pickle("K\x01", "K\x02K\x02\x86", "K\x02K\x01\x86")),
              HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(tensor_pickle("K\0"s, "K\x02\x85", "K\x04\x85")),
              HasSubstr("beyond its storage"));
  const std::string huge = "\x8a\x08\0\0\0\0\0\0\0\x40"s;
  EXPECT_THAT(error_of(tensor_pickle("K\0"s, huge + huge + "\x86", "K\0K\0\x86"s)),
              HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(tensor_pickle("K\0"s, huge + "\x85", huge + "\x85")),
              HasSubstr("beyond its storage"));
  EXPECT_THAT(error_of(tensor_pickle("K\0"s, "K\x02\x85", "J\xff\xff\xff\xff\x85")),
              HasSubstr("negative"));
  EXPECT_THAT(error_of(tensor_pickle("J\xff\xff\xff\xff", "K\x02\x85", "K\x01\x85")),
              HasSubstr("damaged"));
}

TEST(Unpickler, SelfReferenceAndExplosionEnd) {
  EXPECT_THAT(error_of("]q\0h\0a."s), HasSubstr("nested too deeply"));
  std::string nested = ")";
  for (int i = 0; i < 200000; ++i) {
    nested += '\x85';
  }
  EXPECT_THAT(error_of(nested + "."), HasSubstr("nested too deeply"));
  std::string explosion = "Nq\0"s;
  for (int i = 0; i < 40; ++i) {
    explosion += "h\0h\0\x86q\0"s;
  }
  EXPECT_THAT(error_of(explosion + "."), HasSubstr("nested too deeply"));
}

TEST(Unpickler, DamagedPicklesAreErrors) {
  for (const std::string& pickle : {""s, "N"s, "."s, "a."s, "t."s, "h\x07."s, "X\xff\xff\xff\xff"s,
                                    "}K\x01s."s, "(Na."s, "NNs."s, "NQ."s, "NR."s, "}N(u."s}) {
    EXPECT_NE(error_of(pickle), "no error") << testing::PrintToString(pickle);
  }
}

TEST(Unpickler, EveryFlippedByteEndsWithAValueOrAnError) {
  const Pickle pickle = make_pickle(sample_checkpoint());
  const auto load = [&pickle](const std::string& key) {
    return pickle.storages.at(std::stoul(key) % pickle.storages.size())
        .contiguous()
        .view({-1})
        .view(at::kByte);
  };
  EXPECT_TRUE(identical(unpickle(pickle.bytes, load), sample_checkpoint()));
  int values = 0;
  for (std::size_t i = 0; i < pickle.bytes.size() * 8; ++i) {
    std::string bad = pickle.bytes;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    try {
      static_cast<void>(unpickle(bad, load));
      ++values;
    } catch (const DataError&) {
      continue;
    } catch (const std::logic_error&) {  // std::stoul of a key that is no number
      continue;
    }
  }
  EXPECT_GT(values, 0);
}

}  // namespace
}  // namespace temper
