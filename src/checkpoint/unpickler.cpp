#include "checkpoint/unpickler.h"

#include <bit>
#include <limits>
#include <map>
#include <optional>

#include "checkpoint/pickle_object.h"
#include "temper/core/error.h"

namespace temper {
namespace {

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const StorageLoader& load_storage)
      : rest_(bytes), builder_(load_storage) {}

  Value run() {
    for (char code = take_code(); code != '.'; code = take_code()) {
      if (!run_constant(code) && !run_container(code) && !run_memo(code) && !run_global(code)) {
        throw DataError(concat("its pickle uses operation ",
                               static_cast<int>(static_cast<unsigned char>(code)),
                               ", which plain data does not need"));
      }
    }
    return to_value(*pop());
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      throw DataError("its pickle ends too early");
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  char take_code() { return take(1).front(); }

  std::uint64_t take_number(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view bytes = take(count);
    for (std::size_t i = 0; i < count; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }

  // Two's complement, little-endian.
  std::int64_t take_signed(std::size_t count) {
    if (count > 8) {
      throw DataError("its pickle holds an integer of more than 64 bits");
    }
    if (count == 0) {
      return 0;
    }
    const int unused = static_cast<int>(64 - 8 * count);
    return static_cast<std::int64_t>(take_number(count) << unused) >> unused;
  }

  double take_double() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) {
      bits = (bits << 8) | static_cast<unsigned char>(byte);
    }
    return std::bit_cast<double>(bits);
  }

  std::string take_line() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      throw DataError("its pickle ends too early");
    }
    const std::string line(take(end));
    take(1);
    return line;
  }

  void push(PickleObject* object) { stack_.push_back(object); }
  void push_value(Value value) { push(builder_.leaf(std::move(value))); }

  PickleObject* pop() {
    PickleObject* top = peek();
    stack_.pop_back();
    return top;
  }

  PickleObject* peek() {
    // Marks bound what an operation may take.
    if (stack_.empty() || (!marks_.empty() && stack_.size() == marks_.back())) {
      throw DataError("its pickle takes more than it put");
    }
    return stack_.back();
  }

  PickleItems pop_to_mark() {
    if (marks_.empty()) {
      throw DataError("its pickle takes more than it put");
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    PickleItems items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_tuple(std::size_t count) {
    PickleItems items(count);
    for (std::size_t i = count; i-- > 0;) {
      items[i] = pop();
    }
    push(builder_.sequence(PickleObject::Kind::kTuple, std::move(items)));
  }

  bool run_constant(char code) {
    switch (static_cast<unsigned char>(code)) {
      case 0x80:  // protocol
        take(1);
        return true;
      case 0x95:  // frame
        take(8);
        return true;
      case 'N':
        push_value({});
        return true;
      case 0x88:
        push_value(true);
        return true;
      case 0x89:
        push_value(false);
        return true;
      case 'J':
        push_value(take_signed(4));
        return true;
      case 'K':
        push_value(take_number(1));
        return true;
      case 'M':
        push_value(take_number(2));
        return true;
      case 0x8a:
        push_value(take_signed(take_number(1)));
        return true;
      case 'G':
        push_value(take_double());
        return true;
      case 'X':
        push_value(take(take_number(4)));
        return true;
      case 0x8c:
        push_value(take(take_number(1)));
        return true;
      case 0x8d:
        push_value(take(take_number(8)));
        return true;
      default:
        return false;
    }
  }

  bool run_container(char code) {
    using Kind = PickleObject::Kind;
    switch (static_cast<unsigned char>(code)) {
      case '}':
        push(builder_.sequence(Kind::kDict, {}));
        return true;
      case ']':
        push(builder_.sequence(Kind::kList, {}));
        return true;
      case ')':
        push(builder_.sequence(Kind::kTuple, {}));
        return true;
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case 't':
        push(builder_.sequence(Kind::kTuple, pop_to_mark()));
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple(static_cast<unsigned char>(code) - 0x84U);
        return true;
      case 'a': {
        PickleObject* item = pop();
        extend(*peek(), Kind::kList, {item});
        return true;
      }
      case 'e': {
        const PickleItems items = pop_to_mark();
        extend(*peek(), Kind::kList, items);
        return true;
      }
      case 's': {
        PickleObject* value = pop();
        PickleObject* key = pop();
        extend(*peek(), Kind::kDict, {key, value});
        return true;
      }
      case 'u': {
        const PickleItems items = pop_to_mark();
        extend(*peek(), Kind::kDict, items);
        return true;
      }
      default:
        return false;
    }
  }

  bool run_memo(char code) {
    switch (static_cast<unsigned char>(code)) {
      case 'q':
        memo_[take_number(1)] = peek();
        return true;
      case 'r':
        memo_[take_number(4)] = peek();
        return true;
      case 0x94:
        memo_[memo_.size()] = peek();
        return true;
      case 'h':
        recall(take_number(1));
        return true;
      case 'j':
        recall(take_number(4));
        return true;
      default:
        return false;
    }
  }

  void recall(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) {
      throw DataError("its pickle refers to something it did not store");
    }
    push(found->second);
  }

  bool run_global(char code) {
    switch (static_cast<unsigned char>(code)) {
      case 'c': {
        const std::string module = take_line();
        push(builder_.global(module, take_line()));
        return true;
      }
      case 0x93: {
        const std::string name = to_value(*pop()).as_string();
        push(builder_.global(to_value(*pop()).as_string(), name));
        return true;
      }
      case 'Q':
        push(builder_.storage(*pop()));
        return true;
      case 'R': {
        PickleObject* arguments = pop();
        push(builder_.call(*pop(), *arguments));
        return true;
      }
      case 'b':  // attributes of an OrderedDict, such as a state dict's _metadata, are not needed
        pop();
        if (peek()->kind != PickleObject::Kind::kDict) {
          throw DataError("its pickle sets attributes of something else than a dict");
        }
        return true;
      default:
        return false;
    }
  }

  std::string_view rest_;
  PickleBuilder builder_;
  PickleItems stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, PickleObject*> memo_;
};

}  // namespace

Value unpickle(std::string_view bytes, const StorageLoader& load_storage) {
  return Unpickler(bytes, load_storage).run();
}

}  // namespace temper
