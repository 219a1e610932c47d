#include "temper/dist/collective_log.h"

#include "temper/core/text.h"

namespace temper {

std::string to_string(const CollectiveRecord& record) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : record.shape) {
    sizes.push_back(concat(size));
  }
  std::string text = concat("#", record.sequence, " ", record.operation,
                            record.root < 0 ? "" : concat(" from rank ", record.root), " ",
                            record.dtype, " [", join(sizes, ", "), "]");
  if (!record.purpose.empty()) {
    text += " for " + record.purpose;
  }
  text += concat(" at update ", record.update);
  return record.phase.empty() ? text : concat(text, ", phase ", record.phase);
}

void CollectiveLog::before_collective(const CollectiveRecord& record) {
  const std::scoped_lock lock(mutex_);
  records_.push_back(record);
}

std::size_t CollectiveLog::size() const {
  const std::scoped_lock lock(mutex_);
  return records_.size();
}

std::vector<CollectiveRecord> CollectiveLog::records(std::size_t first) const {
  const std::scoped_lock lock(mutex_);
  const std::size_t begin = first < records_.size() ? first : records_.size();
  return {records_.begin() + static_cast<std::ptrdiff_t>(begin), records_.end()};
}

}  // namespace temper
