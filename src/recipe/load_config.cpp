#include "temper/recipe/load_config.h"

#include "recipe/check_config.h"
#include "recipe/read_config.h"
#include "recipe/tree.h"
#include "temper/core/text.h"

namespace temper {

LoadedConfig load_config(const std::vector<std::filesystem::path>& files,
                         const std::vector<std::string>& overrides,
                         const MoreChoices& more_choices) {
  recipe::Problems problems;
  recipe::Node tree = recipe::read_tree(files, overrides, problems);
  LoadedConfig loaded;
  Config& config = loaded.config;
  config.run.name = files.empty() ? "run" : files.back().stem().string();
  recipe::Places places;
  recipe::read_config(tree, config, places, problems, more_choices);
  recipe::resolve_config(config, places);
  recipe::check_config(config, places, problems);
  problems.throw_if_any();
  for (const auto& [path, place] : places) {
    loaded.origin[path] = problems.origin_text(place);
  }
  loaded.notices = recipe::unused_keys(config, places, problems);
  return loaded;
}

NormalizationConfig read_normalization(const std::string& printed) {
  recipe::Problems problems;
  recipe::Node saved = recipe::read_tree({}, {concat("config=", printed)}, problems);
  problems.throw_if_any();
  recipe::Node part{.kind = recipe::Node::Kind::kMap, .entries = {}};
  recipe::Entry* data = saved.find("config")->value.find("data");
  if (recipe::Entry* key = data != nullptr ? data->value.find("normalization") : nullptr) {
    part.entries.push_back({"data", {}, {.kind = recipe::Node::Kind::kMap, .entries = {*key}}});
  }
  Config read;
  recipe::Places places;
  recipe::read_config(part, read, places, problems);
  problems.throw_if_any();
  return read.data.normalization;
}

}  // namespace temper
