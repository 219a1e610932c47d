#pragma once
// Where records go. A sink is used by one thread of one rank.

#include <memory>
#include <vector>

#include "temper/metrics/record.h"

namespace temper {

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;

  // Each call leaves the output complete: what was written survives a kill. Throws SystemError.
  virtual void write(const TrainRecord& record) = 0;
  virtual void write(const ValidationRecord& record) = 0;
  virtual void write(const Event& event) = 0;
};

// Passes each record to all of its sinks, in order.
class SinkList final : public Sink {
 public:
  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }

  void write(const TrainRecord& record) override { write_all(record); }
  void write(const ValidationRecord& record) override { write_all(record); }
  void write(const Event& event) override { write_all(event); }

 private:
  template <typename Record>
  void write_all(const Record& record) {
    for (const std::unique_ptr<Sink>& sink : sinks_) {
      sink->write(record);
    }
  }

  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace temper
