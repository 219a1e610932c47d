// Makes pixels for interop/pixels.py. Reads jobs from standard input, one a line with fields
// separated by tabs, and answers each on standard output: a line `ok HEIGHT WIDTH CHANNELS [X Y W
// H]` followed by the bytes, or a line `error MESSAGE`.
//
//   decode   CHANNELS PATH                     the whole picture
//   apply    CHANNELS PATH SAMPLE STEP...      after the steps, random numbers of sample SAMPLE
//   npz      CHANNELS PATH CLASSES             all images below one another, HEIGHT is N * H;
//   floats
//                                              have CHANNELS multiplied by 4
// Steps: random_resized_crop:SIZE, resize:SIZE, center_crop:SIZE, random_crop:SIZE:PADDING,
// flip:PROBABILITY. X Y W H is the crop of a first step random_resized_crop.

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "data/codec.h"
#include "data/input_file.h"
#include "data/transform_plan.h"
#include "temper/core/error.h"
#include "temper/data/open_dataset.h"

namespace temper {
namespace {

SampleRandom random_of(const std::string& sample) {
  return {RandomStream{.seed = 11, .purpose = Purpose::kAugmentation, .index = 2},
          static_cast<std::uint32_t>(std::stoul(sample))};
}

TransformStep parse_step(const std::string& text) {
  const std::vector<std::string> fields = split(text, ':');
  const int size = std::stoi(fields.at(1));
  if (fields[0] == "random_resized_crop") {
    return RandomResizedCrop{.size = size};
  }
  if (fields[0] == "resize") {
    return Resize{size};
  }
  if (fields[0] == "center_crop") {
    return CenterCrop{size};
  }
  if (fields[0] == "random_crop") {
    return RandomCrop{size, std::stoi(fields.at(2))};
  }
  require(fields[0] == "flip", "unknown step ", text);
  return HorizontalFlip{std::stod(fields[1])};
}

struct Answer {
  Image image;
  std::string box;
};

Image decode(const std::string& channels, const std::string& path) {
  return decode_image(read_regular_file(path), std::stoi(channels));
}

Answer apply(const std::vector<std::string>& job) {
  Image image = decode(job.at(1), job.at(2));
  std::vector<TransformStep> steps;
  for (std::size_t i = 4; i < job.size(); ++i) {
    steps.push_back(parse_step(job[i]));
  }
  std::string box;
  if (const auto* crop = std::get_if<RandomResizedCrop>(&steps.at(0))) {
    SampleRandom random = random_of(job[3]);
    const Rectangle chosen = choose_crop(*crop, image.width, image.height, random);
    box = concat(" ", chosen.x, " ", chosen.y, " ", chosen.width, " ", chosen.height);
  }
  SampleRandom random = random_of(job[3]);
  return {Transform(steps).apply(std::move(image), random), box};
}

Answer load_npz(const std::vector<std::string>& job) {
  const auto dataset = open_dataset({"npz", job.at(2), std::stoi(job.at(1)), std::stoi(job.at(3))});
  std::vector<std::uint8_t> all;
  Image image;
  for (std::size_t i = 0; i < dataset->size(); ++i) {
    image = dataset->load(i);
    std::visit(
        [&](const auto& pixels) {
          const auto* bytes = reinterpret_cast<const std::uint8_t*>(pixels.data());
          all.insert(all.end(), bytes, bytes + pixels.size() * sizeof(pixels[0]));
        },
        image.pixels);
  }
  image.height *= static_cast<int>(dataset->size());
  image.channels *= static_cast<int>(element_size(dataset->element_type()));
  image.pixels = std::move(all);
  return {std::move(image), ""};
}

Answer run(const std::vector<std::string>& job) {
  if (job.at(0) == "decode") {
    return {decode(job.at(1), job.at(2)), ""};
  }
  return job[0] == "apply" ? apply(job) : load_npz(job);
}

void answer(const std::string& line) {
  try {
    const auto [image, box] = run(split(line, '\t'));
    std::cout << "ok " << image.height << " " << image.width << " " << image.channels << box
              << "\n";
    std::cout.write(reinterpret_cast<const char*>(image.bytes().data()),
                    static_cast<std::streamsize>(image.bytes().size()));
  } catch (const ConfigError& error) {
    std::cout << "error " << error.what() << "\n";
  } catch (const DataError& error) {
    std::cout << "error " << error.what() << "\n";
  }
}

}  // namespace
}  // namespace temper

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    temper::answer(line);
  }
}
