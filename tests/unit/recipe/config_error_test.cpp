// Bad configurations and the exact messages they give.
#include "unit/recipe/config_files.h"

namespace temper {
namespace {

struct BadCase {
  const char* text;
  const char* message;
};

class ConfigErrors : public ConfigFiles {
 protected:
  static void expect_messages(const std::vector<BadCase>& cases) {
    for (const BadCase& bad : cases) {
      write("c.yaml", bad.text);
      EXPECT_EQ(error_of({"c.yaml"}), bad.message) << "in:\n" << bad.text;
    }
  }
  static void expect_override_messages(const std::vector<BadCase>& cases) {
    write("c.yaml", "");
    for (const BadCase& bad : cases) {
      EXPECT_EQ(error_of({"c.yaml"}, {bad.text}), bad.message) << bad.text;
    }
  }
};

TEST_F(ConfigErrors, Keys) {
  expect_messages({
      {"method:\n  betta: 4\n", "c.yaml:2:3: method.betta: unknown key; did you mean 'beta'?"},
      {"methods: {beta: 4}\n", "c.yaml:1:1: methods: unknown key; did you mean 'method'?"},
      {"training:\n  milestones: [1ep]\n",
       "c.yaml:2:3: training.milestones: unknown key; did you mean 'schedule.milestones'?"},
      {"run: {qqqqqqqqqqqq: 1}\n", "c.yaml:1:7: run.qqqqqqqqqqqq: unknown key"},
      {"validation:\n  attack:\n    step: 5\n",
       "c.yaml:3:5: validation.attack.step: unknown key; did you mean 'steps'?"},
      {"method:\n  beta: 4\n  beta: 5\n",
       "c.yaml:3:3: method.beta: duplicate key, already set in line 2"},
      {"run: {seed: 1}\nmodel: {}\nrun: {seed: 2}\n",
       "c.yaml:3:1: run: duplicate key, already set in line 1"},
      {"data:\n  include: other.yaml\n",
       "c.yaml:2:3: data.include: unknown key; include stands at the top of a file, beside the "
       "sections"},
      {"<<: {run: {seed: 1}}\n", "c.yaml:1:1: <<: unknown key"},
      {"? [a, b]\n: 1\n", "c.yaml:1:3: a key must be a word"},
  });
}

TEST_F(ConfigErrors, Types) {
  expect_messages({
      {"training: {epochs: ten}\n",
       "c.yaml:1:20: training.epochs: expected a whole number, found 'ten'"},
      {"training: {epochs: 1.5}\n",
       "c.yaml:1:20: training.epochs: expected a whole number, found '1.5'"},
      {"training: {epochs: \"10\"}\n",
       "c.yaml:1:20: training.epochs: expected a whole number, found '10'"},
      {"training: {epochs: 99999999999999999999}\n",
       "c.yaml:1:20: training.epochs: expected a whole number, found '99999999999999999999'"},
      {"training: {epochs: }\n",
       "c.yaml:1:12: training.epochs: expected a whole number, found nothing"},
      {"run: {seed: -1}\n",
       "c.yaml:1:13: run.seed: expected a whole number from 0 to 2^64 - 1, found '-1'"},
      {"data: {workers: many}\n",
       "c.yaml:1:17: data.workers: expected a whole number or auto, found 'many'"},
      {"data: {workers: null}\n",
       "c.yaml:1:8: data.workers: expected a whole number or auto, found nothing"},
      {"run: {deterministic: yes}\n",
       "c.yaml:1:22: run.deterministic: expected true or false, found 'yes'"},
      {"method: {beta: [1]}\n", "c.yaml:1:16: method.beta: expected a number, found a list"},
      {"method: {beta: six}\n",
       "c.yaml:1:16: method.beta: expected a number such as 0.1, 5e-4 or 8/255, found 'six'"},
      {"threat_model: {epsilon: 8/0}\n",
       "c.yaml:1:25: threat_model.epsilon: expected a number such as 0.1, 5e-4 or 8/255, found "
       "'8/0'"},
      {"validation: {every: 5}\n",
       "c.yaml:1:21: validation.every: expected a number with a unit, such as 5ep (epochs), 2000up "
       "(updates) or 1Msa (samples), found '5'"},
      {"logging: {every: 0.5up}\n",
       "c.yaml:1:18: logging.every: updates and samples are whole numbers, found '0.5up'"},
      {"distributed: {timeout: 30}\n",
       "c.yaml:1:24: distributed.timeout: expected a duration with a unit, such as 30s, 10min or "
       "11h30m, found '30'"},
      {"data: {memory_limit: 4G}\n",
       "c.yaml:1:22: data.memory_limit: expected a size with a unit, such as 512MiB or 4GiB, found "
       "'4G'"},
      {"run: {name: ''}\n", "c.yaml:1:13: run.name: must not be empty"},
      {"run: {output: null}\n", "c.yaml:1:7: run.output: expected text, found nothing"},
      {"method: trades\n", "c.yaml:1:9: method: expected a map, found 'trades'"},
      {"method: {attack: null}\n", "c.yaml:1:10: method.attack: expected a map, found nothing"},
      {"schedule: {milestones: 75ep}\n",
       "c.yaml:1:24: schedule.milestones: expected a list, found '75ep'"},
      {"schedule: {milestones: [75, 90ep]}\n",
       "c.yaml:1:25: schedule.milestones: expected a number with a unit, such as 5ep (epochs), "
       "2000up (updates) or 1Msa (samples), found '75'"},
  });
}

TEST_F(ConfigErrors, BoundsAndChoices) {
  expect_messages({
      {"method: {beta: -1}\n", "c.yaml:1:16: method.beta: must be at least 0, found -1"},
      {"method: {label_smoothing: 1}\n",
       "c.yaml:1:27: method.label_smoothing: must be below 1, found 1"},
      {"optimizer: {learning_rate: 0}\n",
       "c.yaml:1:28: optimizer.learning_rate: must be above 0, found 0"},
      {"training: {epochs: 2000000}\n",
       "c.yaml:1:20: training.epochs: must be at most 1000000, found 2000000"},
      {"logging: {every: 0up}\n", "c.yaml:1:18: logging.every: must be above 0, found 0up"},
      {"distributed: {timeout: 0s}\n",
       "c.yaml:1:24: distributed.timeout: must be above 0, found 0s"},
      {"data: {channels: 2}\n", "c.yaml:1:18: data.channels: '2' is not one of 1, 3"},
      {"method: {name: trade}\n",
       "c.yaml:1:16: method.name: 'trade' is not one of standard, pgd_at, mixed, trades, mart, "
       "fgsm_rs, n_fgsm, free, apgd_at; did you mean 'trades'?"},
      {"checkpoint: {best: {metric: robust_acuracy}}\n",
       "c.yaml:1:29: checkpoint.best.metric: 'robust_acuracy' is not one of robust_accuracy, "
       "clean_accuracy, clean_top5_accuracy; did you mean 'robust_accuracy'?"},
      {"optimizer: {no_decay: [norm, weights]}\n",
       "c.yaml:1:30: optimizer.no_decay: 'weights' is not one of norm, bias"},
      {"data: {transform: {train: imagnet}}\n",
       "c.yaml:1:27: data.transform.train: 'imagnet' is not one of imagenet, cifar, mnist, none; "
       "did you mean 'imagenet'?"},
      {"data: {transform: {train: [crop]}}\n",
       "c.yaml:1:28: data.transform.train.name: 'crop' is not one of random_resized_crop, resize, "
       "center_crop, random_crop, horizontal_flip, vertical_flip, color_jitter, random_grayscale, "
       "rand_augment, trivial_augment_wide, random_erasing"},
      {"data: {transform: {train: [{size: 3}]}}\n",
       "c.yaml:1:28: data.transform.train: expected a step such as {name: random_crop, size: 32}, "
       "found no name"},
      {"data: {transform: {train: [{name: horizontal_flip, size: 3}]}}\n",
       "c.yaml:1:52: data.transform.train.size: unknown key"},
      {"data: {transform: {train: [{name: rand_augment, magnitude: 31}]}}\n",
       "c.yaml:1:60: data.transform.train.magnitude: magnitude 31 is not below the number of bins, "
       "31"},
      {"data: {transform: {train: [{name: color_jitter, hue: 0.6}]}}\n",
       "c.yaml:1:54: data.transform.train.hue: must be at most 0.5, found 0.6"},
      {"data: {exif_orientation: turn}\n",
       "c.yaml:1:26: data.exif_orientation: 'turn' is not one of ignore, apply"},
      {"data: {transform: {train: [{name: random_resized_crop, scale: [1, 0.5]}]}}\n",
       "c.yaml:1:63: data.transform.train.scale: expected [least, largest]"},
  });
}

TEST_F(ConfigErrors, FeaturesOfALaterVersion) {
  expect_messages({
      {"training: {precision: bf16}\n",
       "c.yaml:1:23: training.precision: 'bf16' comes in a later version; available: fp32, fp64"},
      {"validation: {attack: {name: square}}\n",
       "c.yaml:1:29: validation.attack.name: 'square' comes in a later version; available: fgsm, "
       "pgd, apgd"},
  });
}

TEST_F(ConfigErrors, WhatMethodsDoNotHave) {
  expect_messages({
      {"method: {name: standard, weight_perturbation: {gamma: 0.01}}\n",
       "c.yaml:1:47: method.weight_perturbation: method standard has no weight perturbation; set "
       "it "
       "to null"},
      {"method: {name: free, overfitting_check: {action: roll_back}}\n",
       "c.yaml:1:50: method.overfitting_check.action: method free has no attack to give more "
       "steps; "
       "set action to warn"},
      {"method: {name: free, attack: {steps: 3}}\n",
       "c.yaml:1:38: method.attack.steps: free makes its noise along the way, with one step a "
       "replay "
       "from where it was; of method.attack it takes step_size alone"},
      {"threat_model: {norm: l1, epsilon: 12}\nmethod: {name: apgd_at}\n",
       "c.yaml:1:22: threat_model.norm: apgd is there for linf and l2; use pgd for l1"},
      {"method: {name: fgsm_rs, attack: {name: fgsm}}\n",
       "c.yaml:1:40: method.attack.name: fgsm starts at the image itself, fgsm_rs at random; leave "
       "the key out, or take method pgd_at with this attack"},
      {"threat_model: {norm: l1, epsilon: 12}\nmethod: {name: n_fgsm}\n",
       "c.yaml:1:22: threat_model.norm: n_fgsm takes steps of pgd in linf or l2"},
      {"method: {name: pgd_at, attack: {start_radius: 2}}\n",
       "c.yaml:1:47: method.attack.start_radius: a start outside of the ball is for training "
       "with n_fgsm alone, found 2; the most is 1"},
      {"method: {name: n_fgsm}\nvalidation: {attack: {start_radius: 2}}\n",
       "c.yaml:2:37: validation.attack.start_radius: a start outside of the ball is for training "
       "with n_fgsm alone, found 2; the most is 1"},
      {"method:\n  start_epoch: 1\n"
       "  batch_norm_statistics: {clean_forward: batch, adversarial_forward: update}\n",
       "c.yaml:3:42: method.batch_norm_statistics.clean_forward: before method.start_epoch there "
       "is "
       "the clean forward alone, which must update the running statistics; set it to update, or "
       "start_epoch to 0"},
      {"validation: {attack: {name: apgd, step_size: 0.1}}\n",
       "c.yaml:1:46: validation.attack.step_size: apgd chooses its step sizes itself; remove the "
       "key, or use pgd"},
      {"validation: {attack: {name: apgd, keep: last}}\n",
       "c.yaml:1:41: validation.attack.keep: apgd keeps the best iterate of one run, untargeted, "
       "from the image or a uniform start; remove the key, or use pgd"},
      {"validation: {every: 0ep, patience: 2}\n",
       "c.yaml:1:36: validation.patience: without validation nothing gets better"},
      {"method: {overfitting_check: {fall: 0}}\n",
       "c.yaml:1:36: method.overfitting_check.fall: must be above 0, found 0"},
      {"method: {weight_perturbation: {gamma: 2}}\n",
       "c.yaml:1:39: method.weight_perturbation.gamma: must be at most 1, found 2"},
  });
}

TEST_F(ConfigErrors, TransformsThatMakeImagesOfAnotherSize) {
  expect_messages({
      {"data: {image_size: 32, transform: {train: [{name: resize, size: 16}, {name: center_crop, "
       "size: 64}]}}\n",
       "c.yaml:1:43: data.transform.train: makes images of 64x64, data.image_size is 32"},
      {"data: {image_size: 32, transform: {evaluation: [{name: center_crop, size: 32}, {name: "
       "resize, "
       "size: 16}]}}\n",
       "c.yaml:1:48: data.transform.evaluation: makes images of 16x16, data.image_size is 32"},
  });
}

TEST_F(ConfigErrors, CombinationsOfDataAndModel) {
  expect_messages({
      {"data: {validation: v, validation_split: 0.1}\n",
       "c.yaml:1:41: data.validation_split: there is data.validation, too: give one of the two, "
       "and "
       "null for the other"},
      {"data: {validation_split: 1}\n",
       "c.yaml:1:26: data.validation_split: must be below 1, found 1"},
      {"data: {extra: {fraction: 0.5}}\n",
       "c.yaml:1:15: data.extra: give the path of the extra data"},
      {"data: {extra: {path: p, fraction: 0}}\n",
       "c.yaml:1:35: data.extra.fraction: must be above 0, found 0"},
      {"data: {extra: {path: p, unlabelled: true}}\nmethod: {name: mart}\n",
       "c.yaml:1:37: data.extra.unlabelled: method mart needs labels; only the divergence of "
       "trades "
       "does without"},
      {"data: {extra: {path: p, unlabelled: true}}\ntraining: {mixup: 0.2}\n",
       "c.yaml:1:37: data.extra.unlabelled: mixup and cutmix need labels"},
      {"data: {format: cifar10}\n", "c.yaml:1:16: data.format: cifar10 has 10 classes, not 100"},
      {"data: {format: cifar100, channels: 1, normalization: none}\n",
       "c.yaml:1:36: data.channels: cifar100 has 3 channels"},
      {"data: {channels: 1}\n",
       "c.yaml:1:18: data.channels: normalization 'imagenet' is for 3 channels, data.channels is "
       "1"},
      {"data: {normalization: {mean: [0.5, 0.5, 0.5], std: [0.2]}}\n",
       "c.yaml:1:52: data.normalization.std: expected one number for each of the 3 channels, found "
       "1"},
      {"data: {validation: null}\n",
       "c.yaml:1:8: data.validation: there is no data to validate with; give it, or set "
       "validation.every to 0ep"},
      {"model: {architecture: digits_cnn}\n",
       "c.yaml:1:23: model.architecture: digits_cnn takes images of 1x8x8, data has 3x224x224"},
      {"model: {architecture: mnist_cnn, small_images: true}\n"
       "data: {channels: 1, image_size: 28, normalization: mnist}\n",
       "c.yaml:1:48: model.small_images: mnist_cnn has no other stem"},
      {"model: {initial_weights: net.onnx}\n",
       "c.yaml:1:26: model.initial_weights: expected a file of PyTorch (.pt, .pth) or safetensors "
       "(.safetensors), found 'net.onnx'"},
      {"model: {ignore_initial: [fc]}\n",
       "c.yaml:1:25: model.ignore_initial: there are no initial weights to leave parts out of; "
       "give model.initial_weights"},
      {"model: {initial_weights: net.pt, ignore_initial: fc}\n",
       "c.yaml:1:50: model.ignore_initial: expected a list, found 'fc'"},
  });
}

TEST_F(ConfigErrors, CombinationsOfAttacksAndMethods) {
  expect_messages({
      {"threat_model: {epsilon: 8}\n",
       "c.yaml:1:25: threat_model.epsilon: must be at most 1, found 8: images are in [0,1] and "
       "this is in the same unit, so that 1 is the most; did you mean '8/255'?"},
      {"threat_model: {epsilon: 1000}\n",
       "c.yaml:1:25: threat_model.epsilon: must be at most 1, found 1000: images are in [0,1] and "
       "this is in the same unit, so that 1 is the most"},
      {"method: {attack: {step_size: 2}}\n",
       "c.yaml:1:30: method.attack.step_size: must be at most 1, found 2: images are in [0,1] and "
       "this is in the same unit, so that 1 is the most; did you mean '2/255'?"},
      {"threat_model: {norm: l2, epsilon: 128}\ndata: {image_size: 32}\n",
       "c.yaml:1:35: threat_model.epsilon: must be at most 55.4, found 128: images are in [0,1], "
       "and no two are further apart than 55.4 in l2"},
      {"method: {name: mixed, attack: {name: fgsm, steps: 10}}\n",
       "c.yaml:1:51: method.attack.steps: fgsm takes one step, found 10; remove the key, or use "
       "pgd"},
      {"validation: {attack: {name: fgsm, step_size: 1/255}}\n",
       "c.yaml:1:46: validation.attack.step_size: the step of fgsm is epsilon (4/255), found "
       "1/255; remove the key, or use pgd with steps: 1"},
      {"method: {name: mixed, attack: {name: fgsm, random_start: uniform}}\n",
       "c.yaml:1:58: method.attack.random_start: fgsm starts at the image itself; remove the key, "
       "or use pgd with steps: 1"},
      {"method:\n  batch_norm_statistics: {clean_forward: batch}\n",
       "c.yaml:2:42: method.batch_norm_statistics.clean_forward: with method trades no forward "
       "updates the running statistics, which evaluation needs; set clean_forward to update"},
      {"method: {name: standard}\ntraining: {epochs: 1}\n"
       "# standard has no adversarial forward\n",
       "no error"},
      {"method:\n  name: standard\n"
       "  batch_norm_statistics: {clean_forward: batch, adversarial_forward: update}\n",
       "c.yaml:3:42: method.batch_norm_statistics.clean_forward: with method standard no forward "
       "updates the running statistics, which evaluation needs; set clean_forward to update"},
      {"method:\n  name: free\n"
       "  batch_norm_statistics: {attack: update, adversarial_forward: batch}\n",
       "c.yaml:3:64: method.batch_norm_statistics.adversarial_forward: with method free no forward "
       "updates the running statistics, which evaluation needs; set adversarial_forward to update"},
      {"method: {name: mixed, reference_order: true}\n",
       "c.yaml:1:40: method.reference_order: there is no reference order for mixed"},
      {"method: {name: pgd_at, reference_order: true}\ntraining: {accumulation: 2}\n",
       "c.yaml:1:41: method.reference_order: the reference order of pgd_at has no accumulation; "
       "set training.accumulation to 1"},
      {"method: {attack: {name: fgsm}}\n",
       "c.yaml:1:25: method.attack.name: the loss of the trades attack has no gradient at the "
       "clean "
       "image, so it would follow rounding errors; use pgd with random_start: normal or "
       "uniform"},
      {"method: {attack: {random_start: none}}\n",
       "c.yaml:1:33: method.attack.random_start: the loss of the trades attack has no gradient at "
       "the clean image, so it would follow rounding errors; use pgd with random_start: normal or "
       "uniform"},
      {"method: {attack: {target: random}}\n",
       "c.yaml:1:27: method.attack.target: the attack of trades maximises a divergence and has no "
       "target; remove the key"},
      {"validation: {attack: {restarts: 3, random_start: none}}\n",
       "c.yaml:1:33: validation.attack.restarts: without a random start all restarts are the same; "
       "set random_start, or restarts to 1"},
      {"validation: {attack: {name: fgsm, keep: best}}\n",
       "c.yaml:1:41: validation.attack.keep: fgsm has no such choice; remove the key, or use pgd "
       "with steps: 1"},
      {"training: {weight_average: {decay: 1}}\n",
       "c.yaml:1:36: training.weight_average.decay: must be below 1, found 1"},
  });
}

TEST_F(ConfigErrors, CombinationsOfTheTraining) {
  expect_messages({
      {"training: {global_batch_size: 64, batch_size_per_process: 8}\n",
       "c.yaml:1:59: training.batch_size_per_process: give either this or global_batch_size, and "
       "null for the other"},
      {"training: {global_batch_size: 4, accumulation: 8}\n",
       "c.yaml:1:48: training.accumulation: a batch of 4 cannot be cut into 8 micro-batches"},
      {"schedule: {milestones: [90ep, 75ep]}\n",
       "c.yaml:1:24: schedule.milestones: must increase, found 90ep before 75ep"},
      {"schedule: {milestones: [5ep, 5ep]}\n",
       "c.yaml:1:24: schedule.milestones: must increase, found 5ep before 5ep"},
      {"schedule: {milestones: [5ep, 9000up]}\n",
       "c.yaml:1:24: schedule.milestones: all must have one unit, found 5ep and 9000up"},
      {"optimizer: {name: adamw, nesterov: true}\n",
       "c.yaml:1:36: optimizer.nesterov: adamw has no Nesterov momentum"},
      {"optimizer: {momentum: 0, nesterov: true}\n",
       "c.yaml:1:36: optimizer.nesterov: Nesterov momentum needs momentum above 0"},
      {"validation: {attack: null}\n",
       "c.yaml:1:14: validation.attack: robust accuracy needs validation.attack; set "
       "checkpoint.best.metric to clean_accuracy"},
      {"data: {classes: 5}\ncheckpoint: {best: {metric: clean_top5_accuracy}}\n",
       "c.yaml:2:29: checkpoint.best.metric: top-5 accuracy is measured from 10 classes on, "
       "data.classes is 5"},
  });
}

TEST_F(ConfigErrors, Syntax) {
  expect_messages({
      {"run: {seed: 1\n", "c.yaml:2:1: YAML syntax: end of map flow not found"},
      {"run:\n  seed: 1\n name: x\n", "c.yaml:3:2: YAML syntax: end of map not found"},
      {"run: *nothing\n", "c.yaml:1:6: YAML syntax: the referenced anchor is not defined"},
      {"run: {seed: 1}\n---\nrun: {seed: 2}\n",
       "c.yaml:2:1: a second YAML document begins here; one file holds one configuration"},
      {", 1\nrun: {seed: 1}\n",
       "c.yaml:1:1: a second YAML document begins here; one file holds one configuration"},
      {"- run\n- data\n", "c.yaml:1:1: expected a map of sections, found a list"},
      {"just text\n", "c.yaml:1:1: expected a map of sections, found 'just text'"},
  });
}

TEST_F(ConfigErrors, CommandLine) {
  expect_override_messages({
      {"method.betta=4", "command line:1:1: method.betta: unknown key; did you mean 'beta'?"},
      {"threat_model.epsilon=8",
       "command line:1:22: threat_model.epsilon: must be at most 1, found 8: images are in [0,1] "
       "and this is in the same unit, so that 1 is the most; did you mean '8/255'?"},
      {"training.epochs", "command line:1:1: expected key=value, found 'training.epochs'"},
      {"=4", "command line:1:1: expected key=value, found '=4'"},
      {"training.epochs=",
       "command line:1:17: training.epochs: expected a whole number, found "
       "nothing"},
      {"method=trades", "command line:1:8: method: expected a map, found 'trades'"},
      {"method.beta.x=1", "command line:1:1: method.beta: expected a number, found a map"},
      {"method.attack={name: fgsm", "command line:1:15: YAML syntax: end of map flow not found"},
      {"method..beta=1", "command line:1:1: method.: unknown key"},
  });
}

TEST_F(ConfigErrors, AllAreReportedTogetherInOrder) {
  write("a.yaml", "method: {beta: -1, betta: 2}\nrun: {seed: x}\n");
  write("b.yaml", "data: {classes: 1, classes: 2}\n");
  EXPECT_EQ(error_of({"a.yaml", "b.yaml"}, {"training.epochs=2", "threat_model.epsilon=3"}),
            "a.yaml:1:16: method.beta: must be at least 0, found -1\n"
            "a.yaml:1:20: method.betta: unknown key; did you mean 'beta'?\n"
            "a.yaml:2:13: run.seed: expected a whole number from 0 to 2^64 - 1, found 'x'\n"
            "b.yaml:1:17: data.classes: must be at least 2, found 1\n"
            "b.yaml:1:20: data.classes: duplicate key, already set in line 1\n"
            "command line:2:22: threat_model.epsilon: must be at most 1, found 3: images are in "
            "[0,1] and this is in the same unit, so that 1 is the most; did you mean '3/255'?");
}

TEST_F(ConfigErrors, NothingIsSaidAboutAKeyThatCouldNotBeRead) {
  write("c.yaml", "data: {channels: gray, normalization: mnist}\n");
  EXPECT_EQ(error_of({"c.yaml"}),
            "c.yaml:1:18: data.channels: expected a whole number, found 'gray'");
}

TEST_F(ConfigErrors, FilesAndIncludes) {
  EXPECT_EQ(error_of({"absent.yaml"}),
            "absent.yaml: cannot open absent.yaml: No such file or directory");
  write("a.yaml", "run: {seed: 1}\ninclude: [b.yaml, sub/absent.yaml, {x: 7}]\n");
  write("b.yaml", "include: a.yaml\n");
  EXPECT_EQ(error_of({"a.yaml"}),
            "a.yaml:2:19: include: cannot open sub/absent.yaml: No such file or directory\n"
            "a.yaml:2:36: include: expected a file name or a list of them, found a map\n"
            "b.yaml:1:10: include: 'a.yaml' includes itself");
}

TEST_F(ConfigErrors, AliasesCannotBlowUp) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string inner = concat("*a", i - 1, ", ");
    std::string line = concat("a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) {
      line += inner;
    }
    text += line + "]\n";
  }
  write("c.yaml", text);
  EXPECT_NE(error_of({"c.yaml"}).find("nested too deeply or too large"), std::string::npos);
  write("c.yaml", concat("run: ", std::string(40, '['), std::string(40, ']'), "\n"));
  EXPECT_NE(error_of({"c.yaml"}).find("nested too deeply or too large"), std::string::npos);
  write("c.yaml", concat("run: ", std::string(100000, '['), "\n"));
  EXPECT_NE(error_of({"c.yaml"}), "no error");
}

}  // namespace
}  // namespace temper
