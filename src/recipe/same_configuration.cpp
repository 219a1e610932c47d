#include "recipe/same_configuration.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>

#include "recipe/resume_rules.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// A name that ends with a dot stands for all keys below.
constexpr std::array<std::string_view, 14> kMayDiffer = {"logging.",
                                                         "run.name",
                                                         "run.output",
                                                         "data.format",
                                                         "data.train",
                                                         "data.validation",
                                                         "data.test",
                                                         "data.extra.path",
                                                         "data.extra.format",
                                                         "data.workers",
                                                         "data.cache",
                                                         "data.memory_limit",
                                                         "model.initial_weights",
                                                         "distributed.timeout"};

bool may_differ(const std::string& key) {
  return std::ranges::any_of(kMayDiffer, [&](std::string_view name) {
    return name.ends_with('.') ? key.starts_with(name) : key == name;
  });
}

std::string text_of(const std::string& value) { return value.empty() ? "(not set)" : value; }

std::string ranks_text(const std::vector<std::string>& ranks) {
  constexpr std::size_t kMostNamed = 8;
  const std::size_t named = std::min(kMostNamed, ranks.size());
  return concat(ranks.size() == 1 ? "rank " : "ranks ", join(std::span(ranks).first(named), ", "),
                named < ranks.size() ? concat(" and ", ranks.size() - named, " more") : "");
}

std::string rank_key(int rank) { return concat("configuration/", rank); }

}  // namespace

std::string configuration_difference(const std::vector<std::string>& configurations) {
  struct Difference {
    std::string on_main_rank;
    std::map<std::string, std::vector<std::string>> ranks_of_value;
  };
  std::map<std::string, Difference> differences;
  for (std::size_t rank = 1; rank < configurations.size(); ++rank) {
    if (configurations[rank] == configurations[0]) {
      continue;
    }
    for (const ConfigChange& change : config_changes(configurations[0], configurations[rank])) {
      if (!may_differ(change.key)) {
        Difference& difference = differences[change.key];
        difference.on_main_rank = change.before;
        difference.ranks_of_value[change.now].push_back(std::to_string(rank));
      }
    }
  }
  std::string text;
  for (const auto& [key, difference] : differences) {
    text += concat("\n  ", key, ": ", text_of(difference.on_main_rank), " on rank 0");
    for (const auto& [value, ranks] : difference.ranks_of_value) {
      text += concat(", ", text_of(value), " on ", ranks_text(ranks));
    }
  }
  return text;
}

void require_same_configuration(Store& store, int rank, int world_size,
                                const std::string& configuration,
                                std::chrono::milliseconds timeout) {
  constexpr const char* kVerdict = "configuration/verdict";
  store.set(rank_key(rank), configuration);
  if (rank == 0) {
    std::vector<std::string> keys;
    for (int peer = 0; peer < world_size; ++peer) {
      keys.push_back(rank_key(peer));
    }
    if (!store.wait(keys, timeout)) {
      throw LostPeerError("a rank has ended before it told its configuration");
    }
    std::vector<std::string> configurations;
    for (const std::string& key : keys) {
      configurations.push_back(store.get(key));
    }
    store.set(kVerdict, configuration_difference(configurations));
  }
  const std::vector<std::string> verdict = {kVerdict};
  if (!store.wait(verdict, timeout)) {
    throw LostPeerError("rank 0 has ended before it had compared the configurations");
  }
  if (const std::string difference = store.get(kVerdict); !difference.empty()) {
    throw ConfigError(concat("the ranks have different configurations:", difference,
                             "\nGive all ranks the same files and overrides"));
  }
}

}  // namespace temper
