#include "dist/collective_checker.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "dist/checksum.h"
#include "dist/process_group.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// A message is a checksum of what must agree, and as much of the whole description as fits.
constexpr std::int64_t kMessageBytes = 512;
constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);

constexpr std::string_view kLeft = ", after which it left";

at::Tensor pack(const CollectiveRecord& record, const std::string& text) {
  CollectiveRecord compared = record;
  compared.phase.clear();  // a name for people
  const std::uint64_t sum = fnv1a(to_string(compared));
  at::Tensor message = at::zeros({kMessageBytes}, at::kByte);
  auto* bytes = message.mutable_data_ptr<std::uint8_t>();
  std::memcpy(bytes, &sum, kChecksumBytes);
  const std::size_t room = static_cast<std::size_t>(kMessageBytes) - kChecksumBytes - 1;
  std::memcpy(bytes + kChecksumBytes, text.data(), std::min(text.size(), room));
  return message;
}

std::uint64_t checksum_of(const at::Tensor& message) {
  std::uint64_t sum = 0;
  std::memcpy(&sum, message.const_data_ptr<std::uint8_t>(), kChecksumBytes);
  return sum;
}

std::string text_of(const at::Tensor& message) {
  return reinterpret_cast<const char*>(  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
      message.const_data_ptr<std::uint8_t>() + kChecksumBytes);
}

std::string read_text(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> value = store.get(key);
  return {value.begin(), value.end()};
}

std::string key_of(int rank) { return concat("last/", rank); }

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> numbers;
  for (const int rank : ranks) {
    numbers.push_back(concat(rank));
  }
  return concat(ranks.size() > 1 ? "ranks " : "rank ", join(numbers, ", "));
}

// "rank 0 is about to run A; ranks 1, 2 are about to run B"
std::string mismatch_text(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    groups[texts[rank]].push_back(static_cast<int>(rank));
  }
  std::vector<std::string> parts(texts.size());
  for (const auto& [text, ranks] : groups) {
    parts[static_cast<std::size_t>(ranks.front())] =
        concat(ranks_text(ranks), ranks.size() > 1 ? " are" : " is", " about to run ", text);
  }
  std::erase(parts, "");
  return concat("the ranks are about to run different collectives, none was run: ",
                join(parts, "; "));
}

}  // namespace

CollectiveChecker::CollectiveChecker(c10::intrusive_ptr<c10d::Store> store,
                                     c10::intrusive_ptr<c10d::ProcessGroupGloo> group,
                                     std::chrono::milliseconds timeout,
                                     std::shared_ptr<CollectiveObserver> next)
    : store_(std::move(store)),
      group_(std::move(group)),
      timeout_(timeout),
      next_(std::move(next)) {}

// So that ranks which still wait learn that nothing will come.
CollectiveChecker::~CollectiveChecker() {
  try {
    publish(concat(last_.empty() ? "-1 none" : last_, kLeft));
    group_->shutdown();
  } catch (const std::exception&) {  // nobody is left to tell
  }
}

void CollectiveChecker::publish(const std::string& text) {
  last_ = text;
  store_->set(key_of(group_->getRank()), std::vector<std::uint8_t>(text.begin(), text.end()));
}

// The messages of all ranks, in their order.
std::vector<at::Tensor> CollectiveChecker::exchange(const at::Tensor& message) {
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int rank = 0; rank < group_->getSize(); ++rank) {
    outputs[0].push_back(at::zeros({kMessageBytes}, at::kByte));
  }
  std::vector<at::Tensor> inputs{message};
  c10d::AllgatherOptions options;
  options.timeout = timeout_;
  group_->allgather(outputs, inputs, options)->wait();
  return outputs[0];
}

void CollectiveChecker::before_collective(const CollectiveRecord& record) {
  const std::string text = to_string(record);
  publish(concat(record.sequence, " ", text));
  std::vector<at::Tensor> messages;
  try {
    messages = exchange(pack(record, text));
  } catch (const std::exception& error) {
    if (is_communication_error(error)) {
      throw_missing(record, text, error);
    }
    throw;
  }
  std::vector<std::string> texts;
  bool equal = true;
  for (const at::Tensor& message : messages) {
    equal = equal && checksum_of(message) == checksum_of(messages.front());
    texts.push_back(text_of(message));
  }
  if (!equal) {
    throw CollectiveMismatchError(mismatch_text(texts));
  }
  if (next_ != nullptr) {
    next_->before_collective(record);
  }
}

// A rank that came has published this collective or a later one.
void CollectiveChecker::throw_missing(const CollectiveRecord& record, const std::string& text,
                                      const std::exception& error) {
  std::vector<std::string> absent;
  for (int rank = 0; rank < group_->getSize(); ++rank) {
    const std::string key = key_of(rank);
    std::string last = store_->check({key}) ? read_text(*store_, key) : "-1 none";
    const std::size_t space = last.find(' ');
    std::int64_t sequence = -1;
    std::from_chars(last.data(), last.data() + space, sequence);
    if (sequence < record.sequence) {
      absent.push_back(
          concat("rank ", rank, ", whose last collective was ", last.substr(space + 1)));
    }
  }
  const std::string_view what = error.what();
  throw LostPeerError(concat("not all ranks came to ", text, ", so it was not run; missing: ",
                             absent.empty()
                                 ? "none as far as the store tells, but a connection broke"
                                 : join(absent, "; "),
                             " (", what.substr(0, what.find('\n')), ")"));
}

}  // namespace temper
