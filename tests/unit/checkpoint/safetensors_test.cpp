#include "temper/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scratch_folder.h"
#include "temper/checkpoint/state_dict.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(header.size() >> (8 * i)));
  }
  return bytes + header + data;
}

class Safetensors : public testing::Test {
 protected:
  // What reading a file of these bytes says.
  std::string error_of(const std::string& bytes) {
    write_file_atomically(path, bytes);
    return error_of_reading();
  }
  std::string error_of(const std::string& header, const std::string& data) {
    return error_of(file_of(header, data));
  }
  std::string error_of_reading() const {
    try {
      static_cast<void>(read_safetensors(path));
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }

  ScratchFolder folder;
  std::filesystem::path path = folder / "a.safetensors";
};

const char* const kOneTensor = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

StateDict sample() {
  const at::Tensor base = at::arange(120, at::kFloat).reshape({2, 3, 4, 5});
  return {{"weight", base},
          {"caf\xc3\xa9 \"x\"", at::ones({3}, at::kHalf)},
          {"bfloat16", base.to(at::kBFloat16)},
          {"double", at::arange(3, at::kDouble)},
          {"long", at::full({}, std::int64_t{1} << 40, at::kLong)},
          {"int", at::arange(3).to(at::kInt)},
          {"short", at::arange(3).to(at::kShort)},
          {"char", at::arange(3).to(at::kChar).neg()},
          {"byte", at::arange(3).to(at::kByte)},
          {"bool", at::arange(2).to(at::kBool)},
          {"empty", at::empty({0, 4})},
          {"channels_last", base.contiguous(at::MemoryFormat::ChannelsLast)},
          {"transposed", base.transpose(0, 3)},
          {"slice", base.select(1, 2)},
          {"tied", base},
          {"parameter", at::ones({2}).requires_grad_()}};
}

TEST_F(Safetensors, RoundTripKeepsEveryTensor) {
  write_safetensors(path, sample());
  const StateDict read = read_safetensors(path);
  ASSERT_EQ(read.size(), sample().size());
  const ValueDict by_name = to_dict(read);
  for (const auto& [name, tensor] : sample()) {
    EXPECT_TRUE(identical(by_name.at(name), tensor.detach())) << name;
  }
  EXPECT_FALSE(by_name.at("parameter").as_tensor().requires_grad());
}

TEST_F(Safetensors, BytesAreThoseOfTheFormat) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"c":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[12,14]}})";
  write_safetensors(path, {{"b", at::arange(2).to(at::kByte)},
                           {"a", at::ones({1})},
                           {"c", at::full({}, 258, at::kLong)}});
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(path), file_of(header + padding, "\x02\x01\0\0\0\0\0\0\0\0\x80\x3f\0\x01"s));
}

TEST_F(Safetensors, ReadsWhatOtherWritersMake) {
  const std::string header =
      "{ \"b\":{\"shape\":[1],\"data_offsets\":[8,9],\"dtype\":\"BOOL\"},\n"
      "\"none\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[8,8]},\n"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
      "\"__metadata__\":{\"epoch\":\"3\"}}   ";
  write_file_atomically(path, file_of(header, "\0\0\x80\x3f\0\0\0\x40\x01"s));
  const StateDict state = read_safetensors(path);
  ASSERT_EQ(state.size(), 3U);
  EXPECT_EQ(state[0].first, "b");
  EXPECT_TRUE(at::equal(state[0].second, at::ones({1}, at::kBool)));
  EXPECT_EQ(state[1].second.sizes(), (at::IntArrayRef{3, 0}));
  EXPECT_TRUE(at::equal(state[2].second, at::arange(1, 3, at::kFloat).reshape({1, 2})));
}

TEST_F(Safetensors, HeaderThatIsDamaged) {
  EXPECT_EQ(error_of(kOneTensor, "12345678"), "no error");
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("a.safetensors: "), HasSubstr("shorter than")));
  EXPECT_THAT(error_of("\x08\0\0\0\0\0\0\0{}"s), HasSubstr("header of 8 bytes reaches beyond"));
  EXPECT_THAT(error_of("\xff\xff\xff\xff\xff\xff\xff\xff{}"), HasSubstr("reaches beyond"));
  EXPECT_THAT(error_of("{\"w\":", ""), HasSubstr("header is not JSON"));
  EXPECT_THAT(error_of("{\"\xff\":{}}", ""), HasSubstr("header is not JSON"));
  EXPECT_THAT(error_of("[1]", ""), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of("", ""), HasSubstr("header is not JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '['), ""), HasSubstr("header is not JSON"));
  const std::string entry = R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_THAT(error_of("{" + entry + "," + entry + "}", "12345678"), HasSubstr("'w' twice"));
  EXPECT_THAT(
      error_of(R"({"w":{"shape":[1],"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "12"),
      HasSubstr("'shape' twice"));
}

TEST_F(Safetensors, EntriesThatAreDamagedAreNamed) {
  const auto error_of_entry = [&](const std::string& entry) {
    const std::string error = error_of("{\"w\":" + entry + "}", "12345678");
    EXPECT_THAT(error, HasSubstr("a.safetensors: tensor 'w': "));
    return error;
  };
  const auto error_of_fields = [&](const std::string& type, const std::string& shape,
                                   const std::string& offsets) {
    return error_of_entry(
        concat(R"({"dtype":)", type, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}"));
  };
  EXPECT_THAT(error_of(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"),
              HasSubstr("has no name"));
  EXPECT_THAT(error_of_entry("3"), HasSubstr("dtype is missing"));
  EXPECT_THAT(error_of_entry(R"({"dtype":"F32","shape":[2]})"),
              HasSubstr("data_offsets is missing"));
  EXPECT_THAT(error_of_fields("\"F8_E4M3\"", "[8]", "[0,8]"),
              HasSubstr("type F8_E4M3 is not known; known are F64"));
  EXPECT_THAT(error_of_fields("7", "[8]", "[0,8]"), HasSubstr("dtype is not text"));
  for (const char* shape : {"[-2]", "[2.0]", "[\"2\"]", "[18446744073709551615]", "[[2]]"}) {
    EXPECT_THAT(error_of_fields("\"F32\"", shape, "[0,8]"), HasSubstr("shape")) << shape;
  }
  EXPECT_THAT(error_of_fields("\"F32\"", "2", "[0,8]"), HasSubstr("shape is no list"));
  EXPECT_THAT(error_of_fields("\"F32\"", "[4611686018427387904,4]", "[0,8]"),
              HasSubstr("more elements than can be"));
  EXPECT_THAT(error_of_fields("\"F32\"", "[0,4611686018427387904,4]", "[0,0]"),
              HasSubstr("more elements than can be"));
  EXPECT_THAT(error_of_fields("\"F32\"", "[2]", "[0,9]"), HasSubstr("out of range"));
  EXPECT_THAT(error_of_fields("\"F32\"", "[2]", "[8,0]"), HasSubstr("out of range"));
  for (const char* offsets : {"[-8,0]", "[0]", "[0,4,8]", "8", "[0,8.0]"}) {
    EXPECT_THAT(error_of_fields("\"F32\"", "[2]", offsets), HasSubstr("not two numbers"))
        << offsets;
  }
  EXPECT_THAT(error_of_fields("\"F32\"", "[1]", "[0,8]"),
              HasSubstr("span 8 bytes, type and shape need 4"));
  EXPECT_THAT(error_of_fields("\"F64\"", "[2]", "[0,8]"), HasSubstr("need 16"));
  EXPECT_THAT(error_of_fields("\"BOOL\"", "[8]", "[0,8]"), HasSubstr("neither 0 nor 1"));
}

TEST_F(Safetensors, EveryByteBelongsToOneTensor) {
  const auto error_of_ranges = [&](const std::string& first, const std::string& second) {
    const auto entry = [](const std::string& name, const std::string& range) {
      return concat('"', name, R"(":{"dtype":"U8","shape":[4],"data_offsets":)", range, "}");
    };
    return error_of("{" + entry("a", first) + "," + entry("b", second) + "}", "123456789");
  };
  EXPECT_THAT(error_of_ranges("[0,4]", "[3,7]"), HasSubstr("'b': its data begin at 3, within"));
  EXPECT_THAT(error_of_ranges("[5,9]", "[0,4]"),
              HasSubstr("'a': its data begin at 5, which leaves"));
  EXPECT_THAT(error_of_ranges("[1,5]", "[5,9]"),
              HasSubstr("'a': its data begin at 1, which leaves"));
  EXPECT_THAT(error_of_ranges("[0,4]", "[4,8]"), HasSubstr("last 1 bytes belong to no tensor"));
}

TEST_F(Safetensors, EveryTruncationIsDetected) {
  write_safetensors(path, sample());
  for (std::uintmax_t size = std::filesystem::file_size(path); size-- > 0;) {
    std::filesystem::resize_file(path, size);
    ASSERT_NE(error_of_reading(), "no error") << size;
  }
}

// The format has no checksums: damage to the elements cannot be seen, any other one gives an error
// or tensors that fit together.
TEST_F(Safetensors, EveryFlippedBitOfTheHeaderEndsWithTensorsOrAnError) {
  write_safetensors(path, {{"a", at::ones({2, 3})}, {"b", at::ones({4}, at::kByte)}});
  const std::string good = read_file(path);
  const std::size_t header = good.size() - 28;
  int errors = 0;
  for (std::size_t i = 0; i < 8 * header; ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    const std::string error = error_of(bad);
    if (error != "no error") {
      EXPECT_THAT(error, HasSubstr("a.safetensors: "));
      ++errors;
    }
  }
  EXPECT_GT(errors, 1000);
}

TEST_F(Safetensors, UnfitTensorsAndNamesAreRefusedAndTheOldFileStays) {
  write_safetensors(path, {{"old", at::ones({1})}});
  const std::string before = read_file(path);
  const at::Tensor good = at::ones({1});
  for (const StateDict& state :
       {StateDict{{"x", at::Tensor()}}, StateDict{{"x", at::eye(2).to_sparse()}},
        StateDict{{"x", at::ones({2}, at::kComplexFloat)}}, StateDict{{"x", good}, {"x", good}},
        StateDict{{"__metadata__", good}}, StateDict{{"", good}}, StateDict{{"\xff", good}}}) {
    EXPECT_THROW(write_safetensors(path, state), DataError);
  }
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(Safetensors, MissingFileAndFolderAreSystemErrors) {
  EXPECT_THROW(static_cast<void>(read_safetensors("/nonexistent/a.safetensors")), SystemError);
  EXPECT_THROW(write_safetensors("/nonexistent/a.safetensors", {}), SystemError);
}

}  // namespace
}  // namespace temper
