#include "recipe/tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper::recipe {
namespace {

// Aliases can make a small file an endless or an exponentially large tree.
constexpr int kMaxDepth = 32;
constexpr int kMaxNodes = 100'000;

class TreeReader {
 public:
  explicit TreeReader(Problems& problems) : problems_(problems) {}

  void read_file_into(Node& root, const std::filesystem::path& path, const Place* included_from);
  void apply_override(Node& root, const std::string& text, int source, int number);

 private:
  std::optional<Node> parse(const std::string& text, Place start);
  Node convert(const YAML::Node& yaml, const Place& start, const Place& fallback,
               const std::string& path, int depth);
  void convert_map(const YAML::Node& yaml, const Place& start, const std::string& path, int depth,
                   Node& node);
  void read_includes(Node& root, Node& content, const std::filesystem::path& path);

  Problems& problems_;
  std::vector<std::filesystem::path> open_files_;
  int nodes_ = 0;
};

std::string child_path(const std::string& path, const std::string& key) {
  return path.empty() ? key : concat(path, '.', key);
}

// `start` is where the text begins; only its first line may begin behind column 1.
Place place_of(const YAML::Mark& mark, const Place& start, const Place& fallback) {
  if (mark.is_null()) {
    return fallback;
  }
  return {start.source, start.line + mark.line, mark.column + (mark.line == 0 ? start.column : 1)};
}

// Skips a document and remembers where it begins.
class DocumentStart : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { start = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  YAML::Mark start = YAML::Mark::null_mark();
};

// Where a second document begins. YAML::Load ignores all behind the first one, and YAML::LoadAll
// never returns when a document begins with a comma.
std::optional<YAML::Mark> second_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStart document;
  if (parser.HandleNextDocument(document) && parser.HandleNextDocument(document)) {
    return document.start;
  }
  return std::nullopt;
}

void merge(Node& base, Node over) {
  if (base.kind != Node::Kind::kMap || over.kind != Node::Kind::kMap) {
    base = std::move(over);
    return;
  }
  base.place = over.place;
  for (Entry& entry : over.entries) {
    if (Entry* old = base.find(entry.key)) {
      old->place = entry.place;
      merge(old->value, std::move(entry.value));
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
}

std::optional<Node> TreeReader::parse(const std::string& text, Place start) {
  try {
    if (const std::optional<YAML::Mark> second = second_document(text)) {
      problems_.add(place_of(*second, start, start), "",
                    "a second YAML document begins here; one file holds one configuration");
      return std::nullopt;
    }
    nodes_ = 0;
    return convert(YAML::Load(text), start, start, "", 0);
  } catch (const YAML::ParserException& error) {
    problems_.add(place_of(error.mark, start, start), "", concat("YAML syntax: ", error.msg));
  } catch (const YAML::Exception& error) {
    problems_.add(start, "", concat("YAML: ", error.what()));
  }
  return std::nullopt;
}

Node TreeReader::convert(const YAML::Node& yaml, const Place& start, const Place& fallback,
                         const std::string& path, int depth) {
  Node node;
  node.place = place_of(yaml.Mark(), start, fallback);
  if (depth > kMaxDepth || ++nodes_ > kMaxNodes) {
    if (depth > kMaxDepth || nodes_ == kMaxNodes + 1) {
      problems_.add(node.place, "", "nested too deeply or too large");
    }
    return node;
  }
  if (yaml.IsMap()) {
    convert_map(yaml, start, path, depth, node);
  } else if (yaml.IsSequence()) {
    node.kind = Node::Kind::kList;
    for (const YAML::Node& item : yaml) {
      node.items.push_back(convert(item, start, node.place, path, depth + 1));
    }
  } else if (yaml.IsScalar()) {
    node.kind = Node::Kind::kScalar;
    node.text = yaml.Scalar();
    node.quoted = yaml.Tag() == "!";
  } else {
    // An empty value has the place of the next token.
    node.place = fallback;
  }
  return node;
}

void TreeReader::convert_map(const YAML::Node& yaml, const Place& start, const std::string& path,
                             int depth, Node& node) {
  node.kind = Node::Kind::kMap;
  for (const auto& pair : yaml) {
    const Place place = place_of(pair.first.Mark(), start, node.place);
    if (!pair.first.IsScalar()) {
      problems_.add(place, path, "a key must be a word");
      continue;
    }
    const std::string& key = pair.first.Scalar();
    Node value = convert(pair.second, start, place, child_path(path, key), depth + 1);
    if (const Entry* first = node.find(key)) {
      problems_.add(place, child_path(path, key),
                    concat("duplicate key, already set in line ", first->place.line));
      continue;
    }
    node.entries.push_back({key, place, std::move(value)});
  }
}

void TreeReader::read_includes(Node& root, Node& content, const std::filesystem::path& path) {
  Entry* entry = content.find("include");
  if (entry == nullptr) {
    return;
  }
  Node& value = entry->value;
  std::vector<Node> names =
      value.kind == Node::Kind::kList ? value.items : std::vector<Node>{value};
  for (const Node& name : names) {
    if (name.kind != Node::Kind::kScalar || name.text.empty()) {
      problems_.add(name.place, "include",
                    concat("expected a file name or a list of them, found ", found_text(name)));
      continue;
    }
    read_file_into(root, (path.parent_path() / name.text).lexically_normal(), &name.place);
  }
  std::erase_if(content.entries, [](const Entry& other) { return other.key == "include"; });
}

void TreeReader::read_file_into(Node& root, const std::filesystem::path& path,
                                const Place* included_from) {
  std::error_code ignored;
  const std::filesystem::path identity = std::filesystem::weakly_canonical(path, ignored);
  if (std::ranges::find(open_files_, identity) != open_files_.end()) {
    problems_.add(*included_from, "include", concat("'", path.string(), "' includes itself"));
    return;
  }
  std::string text;
  try {
    text = read_file(path);
  } catch (const std::runtime_error& error) {
    const Place place =
        included_from != nullptr ? *included_from : Place{problems_.add_source(path.string())};
    problems_.add(place, included_from != nullptr ? "include" : "", error.what());
    return;
  }
  const int source = problems_.add_source(path.string());
  std::optional<Node> content = parse(text, {source, 1, 1});
  if (!content || content->kind == Node::Kind::kNull) {
    return;
  }
  if (content->kind != Node::Kind::kMap) {
    problems_.add(content->place, "",
                  concat("expected a map of sections, found ", found_text(*content)));
    return;
  }
  open_files_.push_back(identity);
  read_includes(root, *content, path);
  open_files_.pop_back();
  merge(root, std::move(*content));
}

void TreeReader::apply_override(Node& root, const std::string& text, int source, int number) {
  const Place place{source, number, 1};
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    problems_.add(place, "", concat("expected key=value, found '", text, "'"));
    return;
  }
  std::optional<Node> value =
      parse(text.substr(equals + 1), {source, number, static_cast<int>(equals) + 2});
  if (!value) {
    return;
  }
  Node* node = &root;
  for (const std::string& key : split(text.substr(0, equals), '.')) {
    if (node->kind != Node::Kind::kMap) {
      *node = Node{.kind = Node::Kind::kMap, .place = place, .entries = {}};
    }
    Entry* entry = node->find(key);
    if (entry == nullptr) {
      entry = &node->entries.emplace_back(Entry{key, place, Node{.place = place, .entries = {}}});
    }
    entry->place = place;
    node = &entry->value;
  }
  *node = std::move(*value);
}

}  // namespace

Entry* Node::find(std::string_view key) {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

std::string found_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kScalar:
      break;
  }
  return concat("'", node.text, "'");
}

Node read_tree(const std::vector<std::filesystem::path>& files,
               const std::vector<std::string>& overrides, Problems& problems) {
  Node root{.kind = Node::Kind::kMap, .entries = {}};
  TreeReader reader(problems);
  for (const std::filesystem::path& file : files) {
    reader.read_file_into(root, file, nullptr);
  }
  const int source = problems.add_source(std::string(kCommandLine));
  int number = 0;
  for (const std::string& text : overrides) {
    reader.apply_override(root, text, source, ++number);
  }
  return root;
}

}  // namespace temper::recipe
