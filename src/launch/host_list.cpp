#include "launch/host_list.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::size_t kMostHosts = 65536;
constexpr std::size_t kMostDigits = 9;

[[noreturn]] void refuse(std::string_view kind, std::string_view text, std::string_view why) {
  throw ConfigError(concat("cannot read the ", kind, " '", text, "': ", why));
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::uint32_t> read_number(std::string_view text) {
  std::uint32_t value = 0;
  if (!is_number(text) || text.size() > kMostDigits) {
    return std::nullopt;
  }
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

class HostListParser {
 public:
  explicit HostListParser(std::string_view text) : text_(text) {}

  std::vector<std::string> parse() {
    std::size_t begin = 0;
    bool inside = false;
    for (std::size_t i = 0; i <= text_.size(); ++i) {
      const char sign = i < text_.size() ? text_[i] : ',';
      if (sign == '[' || sign == ']') {
        if (inside == (sign == '[')) {
          fail("its brackets do not match");
        }
        inside = sign == '[';
      } else if (sign == ',' && (!inside || i == text_.size())) {
        if (inside) {
          fail("its brackets do not match");
        }
        add(text_.substr(begin, i - begin));
        begin = i + 1;
      }
    }
    return std::move(hosts_);
  }

 private:
  [[noreturn]] void fail(std::string_view why) const { refuse("host list", text_, why); }

  // One element of the list: literal text and bracket groups in turn.
  void add(std::string_view element) {
    if (element.empty()) {
      fail("a name is empty");
    }
    std::vector<std::string> names = {""};
    while (!element.empty()) {
      const std::size_t open = element.find('[');
      for (std::string& name : names) {
        name += element.substr(0, open);
      }
      if (open == std::string_view::npos) {
        break;
      }
      const std::size_t close = element.find(']');
      names = product(names, element.substr(open + 1, close - open - 1));
      element.remove_prefix(close + 1);
    }
    limit(hosts_.size() + names.size());
    hosts_.insert(hosts_.end(), names.begin(), names.end());
  }

  [[nodiscard]] std::vector<std::string> product(const std::vector<std::string>& names,
                                                 std::string_view group) const {
    const std::vector<std::string> numbers = expand(group);
    limit(names.size() * numbers.size());
    std::vector<std::string> result;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) {
        result.push_back(name + number);
      }
    }
    return result;
  }

  // "1,08-11": numbers keep the zeros of a range's first one.
  [[nodiscard]] std::vector<std::string> expand(std::string_view group) const {
    std::vector<std::string> result;
    for (const std::string& part : split(group, ',')) {
      const std::size_t dash = part.find('-');
      const std::string first_text = part.substr(0, dash);
      const auto first = read_number(first_text);
      const auto last = dash == std::string::npos ? first : read_number(part.substr(dash + 1));
      if (!first || !last || *last < *first) {
        fail(concat("'", part, "' is no range of numbers"));
      }
      limit(result.size() + std::size_t{*last - *first} + 1);
      for (std::uint32_t number = *first; number <= *last; ++number) {
        const std::string digits = std::to_string(number);
        const std::size_t zeros =
            digits.size() < first_text.size() ? first_text.size() - digits.size() : 0;
        result.push_back(std::string(zeros, '0') + digits);
      }
    }
    return result;
  }

  void limit(std::size_t hosts) const {
    if (hosts > kMostHosts) {
      fail(concat("it names more than ", kMostHosts, " hosts"));
    }
  }

  std::string_view text_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> parse_host_list(std::string_view text) {
  return HostListParser(text).parse();
}

std::vector<int> parse_task_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    const std::size_t open = part.find('(');
    const auto tasks = read_number(std::string_view(part).substr(0, open));
    std::optional<std::uint32_t> nodes = 1;
    if (open != std::string::npos) {
      const bool whole = part.substr(open, 2) == "(x" && part.back() == ')';
      nodes = whole ? read_number(part.substr(open + 2, part.size() - open - 3)) : std::nullopt;
    }
    if (!tasks || !nodes || *nodes == 0) {
      refuse("task list", text, concat("'", part, "' is no number of tasks"));
    }
    if (counts.size() + *nodes > kMostHosts) {
      refuse("task list", text, concat("it names more than ", kMostHosts, " nodes"));
    }
    counts.insert(counts.end(), *nodes, static_cast<int>(*tasks));
  }
  return counts;
}

}  // namespace temper
