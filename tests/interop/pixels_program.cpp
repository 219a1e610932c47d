// Makes pixels for interop/pixels.py and its neighbours. Reads jobs from standard input, one a line
// with fields separated by tabs, and answers each on standard output: a line `ok HEIGHT WIDTH
// CHANNELS [NUMBER...]` followed by the bytes, a line `text LENGTH` followed by a text, or a line
// `error MESSAGE`. Files are decoded as for training: the needed region alone.
//
//   decode  CHANNELS PATH                the whole picture
//   upright CHANNELS PATH                the whole picture, turned as its EXIF orientation says
//   apply   CHANNELS PATH SAMPLE STEP... after the steps, with the random numbers of sample SAMPLE;
//                                        NUMBERs: X Y W H of a first step random_resized_crop
//   draw    CHANNELS PATH SAMPLE STEP    after the step; NUMBERs: what it drew, such as ShearX:0.3
//   operate CHANNELS PATH NAME AMOUNT FILL   after one operation of RandAugment, or Hue
//   crop    CHANNELS PATH X Y W H SIZE   the rectangle resized to SIZE x SIZE
//   npz     CHANNELS PATH CLASSES        all images below one another, HEIGHT is N * H; floats have
//                                        CHANNELS multiplied by 4; NUMBERs: the labels
//   epoch   CHANNELS PATH EPOCH SIZE KIND   a Loader's batches of a folder data set in order, all
//                                        images below one another; KIND train: the preset imagenet
//                                        for training, NUMBERs: X Y W H FLIPPED of each sample;
//                                        KIND evaluation: for evaluation
//   tree    CHANNELS PATH                a text about a folder data set: class NAME, then sample
//                                        LABEL PATH OUTCOME, fields ended by zero bytes; OUTCOME is
//                                        ok or the error of loading it
// Steps: random_resized_crop:SIZE, resize:SIZE, center_crop:SIZE, random_crop:SIZE:PADDING,
// flip:PROBABILITY, and those of parse_drawn_step.

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "data/augment.h"
#include "data/codec.h"
#include "data/input_file.h"
#include "data/transform_plan.h"
#include "temper/core/error.h"
#include "temper/data/loader.h"
#include "temper/data/open_dataset.h"

namespace temper {
namespace {

SampleRandom random_of(const std::string& sample) {
  return {RandomStream{.seed = 11, .purpose = Purpose::kAugmentation, .index = 2},
          static_cast<std::uint32_t>(std::stoul(sample))};
}

TransformStep parse_drawn_step(const std::vector<std::string>& fields) {
  const auto number = [&](std::size_t i) { return std::stod(fields.at(i)); };
  const auto integer = [&](std::size_t i) { return std::stoi(fields.at(i)); };
  if (fields[0] == "vertical_flip") {
    return VerticalFlip{number(1)};
  }
  if (fields[0] == "color_jitter") {
    return ColorJitter{number(1), number(2), number(3), number(4)};
  }
  if (fields[0] == "random_grayscale") {
    return RandomGrayscale{number(1)};
  }
  if (fields[0] == "rand_augment") {
    return RandAugment{integer(1), integer(2), integer(3), integer(4)};
  }
  if (fields[0] == "trivial_augment_wide") {
    return TrivialAugmentWide{integer(1), integer(2)};
  }
  require(fields[0] == "random_erasing", "unknown step ", fields[0]);
  return RandomErasing{.probability = number(1), .noise = integer(2) != 0};
}

TransformStep parse_step(const std::string& text) {
  const std::vector<std::string> fields = split(text, ':');
  const int size = static_cast<int>(std::stod(fields.at(1)));
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
  if (fields[0] == "flip") {
    return HorizontalFlip{std::stod(fields[1])};
  }
  return parse_drawn_step(fields);
}

struct Answer {
  Image image;
  std::string numbers;
};

Image decode(const std::string& channels, const std::string& path) {
  return decode_image(read_regular_file(path), std::stoi(channels));
}

// The steps on a file of which only the needed part is decoded.
Image transform_file(const std::vector<TransformStep>& steps, int channels, const std::string& path,
                     SampleRandom& random) {
  const std::vector<std::uint8_t> file = read_regular_file(path);
  const auto decoder = open_image(file);
  const TransformPlan plan = plan_transform(steps, decoder->width(), decoder->height(), random);
  Buffer buffer;
  PictureRegion source{{1, 1, channels, ElementType::kUInt8, {}}, 0, 0};
  if (!plan.is_empty()) {
    source = decoder->decode(needed_region(plan), channels, buffer);
  }
  Image image{plan.height, plan.width, channels, {}};
  std::vector<std::uint8_t> pixels(image.element_count());
  ResizeScratch scratch;
  execute(plan, source, scratch, pixels.data());
  image.pixels = std::move(pixels);
  const auto rest = steps.begin() + static_cast<std::ptrdiff_t>(plan.steps);
  return Transform({rest, steps.end()}).apply(std::move(image), random);
}

Answer apply(const std::vector<std::string>& job) {
  std::vector<TransformStep> steps;
  for (std::size_t i = 4; i < job.size(); ++i) {
    steps.push_back(parse_step(job[i]));
  }
  std::string numbers;
  if (const auto* crop = std::get_if<RandomResizedCrop>(&steps.at(0))) {
    SampleRandom random = random_of(job[3]);
    const std::vector<std::uint8_t> file = read_regular_file(job[2]);
    const auto decoder = open_image(file);
    const Rectangle chosen = choose_crop(*crop, decoder->width(), decoder->height(), random);
    numbers = concat(" ", chosen.x, " ", chosen.y, " ", chosen.width, " ", chosen.height);
  }
  SampleRandom random = random_of(job[3]);
  return {transform_file(steps, std::stoi(job[1]), job[2], random), numbers};
}

std::string exact(double value) {
  std::array<char, 40> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// What a step draws for an image of this size.
std::string draws(const TransformStep& any, const Image& image, SampleRandom random) {
  std::string text;
  if (const auto* jitter = std::get_if<ColorJitter>(&any)) {
    constexpr std::array kNames = {"Brightness", "Contrast", "Color", "Hue"};
    for (const auto& [kind, amount] : choose(*jitter, random)) {
      text += concat(" ", kNames[static_cast<std::size_t>(kind)], ":", exact(amount));
    }
  } else if (const auto* augment = std::get_if<RandAugment>(&any)) {
    for (int i = 0; i < augment->operations; ++i) {
      const auto [kind, magnitude] = choose(*augment, image.height, image.width, random);
      text += concat(" ", name_of(kind), ":", exact(magnitude));
    }
  } else if (const auto* trivial = std::get_if<TrivialAugmentWide>(&any)) {
    const auto [kind, magnitude] = choose(*trivial, random);
    text += concat(" ", name_of(kind), ":", exact(magnitude));
  } else if (const auto* erasing = std::get_if<RandomErasing>(&any)) {
    if (const auto box = choose(*erasing, image.height, image.width, random)) {
      text += concat(" ", box->x, " ", box->y, " ", box->width, " ", box->height);
    }
  }
  return text;
}

Answer draw(const std::vector<std::string>& job) {
  Image image = decode(job.at(1), job.at(2));
  const TransformStep step = parse_step(job.at(4));
  SampleRandom random = random_of(job.at(3));
  const std::string drawn = draws(step, image, random);
  return {Transform({step}).apply(std::move(image), random), drawn};
}

Answer operate(const std::vector<std::string>& job) {
  Image image = decode(job.at(1), job.at(2));
  const Pixels pixels{std::get<0>(image.pixels), image.height, image.width, image.channels};
  const std::string& name = job.at(3);
  const double amount = std::stod(job.at(4));
  if (name == "Hue") {
    adjust_hue(pixels, amount);
  }
  for (int i = 0; i < kAugmentKinds; ++i) {
    const auto kind = static_cast<AugmentKind>(i);
    if (name == name_of(kind)) {
      apply(Augmentation{kind, amount}, pixels, std::stoi(job.at(5)));
    }
  }
  return {std::move(image), ""};
}

Answer crop(const std::vector<std::string>& job) {
  const int channels = std::stoi(job.at(1));
  const int size = std::stoi(job.at(7));
  const Resampling resampling{
      {std::stoi(job.at(3)), std::stoi(job.at(4)), std::stoi(job.at(5)), std::stoi(job.at(6))},
      size,
      size,
      {0, 0, size, size}};
  const std::vector<std::uint8_t> file = read_regular_file(job.at(2));
  Buffer buffer;
  ResizeScratch scratch;
  const PictureRegion source =
      open_image(file)->decode(needed_region(resampling), channels, buffer);
  Image image{size, size, channels, {}};
  std::vector<std::uint8_t> pixels(image.element_count());
  resample(source, resampling, false, scratch, pixels.data(),
           static_cast<std::size_t>(size) * static_cast<std::size_t>(channels));
  image.pixels = std::move(pixels);
  return {std::move(image), ""};
}

// The crop and the flip of the preset imagenet, drawn as the loader draws them.
std::string training_draws(const Dataset& dataset, std::uint32_t sample, int size,
                           SampleRandom random) {
  Buffer buffer;
  const StoredSample stored = dataset.read(sample, buffer);
  const auto decoder = open_image(std::get<EncodedImage>(stored));
  const Rectangle crop =
      choose_crop(RandomResizedCrop{.size = size}, decoder->width(), decoder->height(), random);
  const bool flipped = random.uniform() < HorizontalFlip{}.probability;
  return concat(" ", crop.x, " ", crop.y, " ", crop.width, " ", crop.height, " ", flipped ? 1 : 0);
}

Answer run_epoch(const std::vector<std::string>& job) {
  const int channels = std::stoi(job.at(1));
  const auto epoch = static_cast<std::uint32_t>(std::stoul(job.at(3)));
  const int size = std::stoi(job.at(4));
  const bool training = job.at(5) == "train";
  const auto dataset = open_dataset({"folder", job.at(2), channels, 0});
  const LoaderOptions options{.threads = 2, .seed = 9, .image_size = size, .channels = channels};
  Loader loader(*dataset, Transform(preset_transform("imagenet", size, training)), options);
  constexpr std::uint32_t kBatch = 16;
  std::vector<std::vector<std::uint32_t>> batches;
  for (std::uint32_t i = 0; i < dataset->size(); ++i) {
    if (i % kBatch == 0) {
      batches.emplace_back();
    }
    batches.back().push_back(i);
  }
  loader.start(epoch, std::move(batches));
  Answer out{{static_cast<int>(dataset->size()) * size, size, channels, {}}, ""};
  std::vector<std::uint8_t> all;
  while (loader.remaining() > 0) {
    const HostBatch batch = loader.next();
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(batch.pixels.data());
    all.insert(all.end(), bytes, bytes + batch.pixels.size());
  }
  const RandomStream stream{.seed = options.seed, .purpose = options.purpose, .index = epoch};
  for (std::uint32_t i = 0; training && i < dataset->size(); ++i) {
    out.numbers += training_draws(*dataset, i, size, SampleRandom(stream, i));
  }
  out.image.pixels = std::move(all);
  return out;
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
  std::string labels;
  for (const std::int64_t label : dataset->labels()) {
    labels += concat(" ", label);
  }
  return {std::move(image), labels};
}

std::string describe_tree(const std::vector<std::string>& job) {
  const auto dataset = open_dataset({"folder", job.at(2), std::stoi(job.at(1)), 0});
  const std::string end(1, '\0');
  std::string text;
  for (const std::string& name : dataset->class_names()) {
    text += "class" + end + name + end;
  }
  for (std::size_t i = 0; i < dataset->size(); ++i) {
    std::string outcome = "ok";
    try {
      static_cast<void>(dataset->load(i));
    } catch (const DataError& error) {
      outcome = error.what();
    }
    text += "sample" + end + std::to_string(dataset->labels()[i]) + end +
            dataset->sample_name(i).substr(job[2].size() + 1) + end + outcome + end;
  }
  return text;
}

Answer run(const std::vector<std::string>& job) {
  if (job.at(0) == "decode") {
    return {decode(job.at(1), job.at(2)), ""};
  }
  if (job[0] == "upright") {
    const std::vector<std::uint8_t> file = read_regular_file(job.at(2));
    return {decode_image(EncodedImage{file, true}, std::stoi(job.at(1))), ""};
  }
  if (job[0] == "epoch") {
    return run_epoch(job);
  }
  if (job[0] == "crop") {
    return crop(job);
  }
  if (job[0] == "draw") {
    return draw(job);
  }
  if (job[0] == "operate") {
    return operate(job);
  }
  return job[0] == "apply" ? apply(job) : load_npz(job);
}

void refuse(std::string reason) {
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  std::cout << "error " << reason << "\n";
}

void answer(const std::string& line) {
  const std::vector<std::string> job = split(line, '\t');
  try {
    if (job.at(0) == "tree") {
      const std::string text = describe_tree(job);
      std::cout << "text " << text.size() << "\n" << text;
      return;
    }
    const auto [image, numbers] = run(job);
    std::cout << "ok " << image.height << " " << image.width << " " << image.channels << numbers
              << "\n";
    std::cout.write(reinterpret_cast<const char*>(image.bytes().data()),
                    static_cast<std::streamsize>(image.bytes().size()));
  } catch (const ConfigError& error) {
    refuse(error.what());
  } catch (const DataError& error) {
    refuse(error.what());
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
