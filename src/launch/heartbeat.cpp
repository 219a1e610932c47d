#include "temper/launch/heartbeat.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "launch/shared_page.h"
#include "temper/core/error.h"

namespace temper {
namespace {

int number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  int value = -1;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), value).ec != std::errc() ||
      value < 0) {
    throw ConfigError(concat("environment variable ", name, "='", text == nullptr ? "" : text,
                             "' is not what Temper's launcher sets; unset ", kPageVariable));
  }
  return value;
}

using PhaseText = std::array<char, sizeof(BeatLine::phase)>;

}  // namespace

std::int64_t monotonic_nanoseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Beat read_beat(const BeatLine& line) {
  Beat beat;
  // A rank that was killed in mid-write leaves an odd sequence forever: then take what is there.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::uint64_t before = line.sequence.load(std::memory_order_acquire);
    std::array<std::uint64_t, 4> words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = line.phase[i].load(std::memory_order_relaxed);
    }
    beat.update = line.update.load(std::memory_order_relaxed);
    beat.nanoseconds = line.nanoseconds.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const auto text = std::bit_cast<PhaseText>(words);
    const std::string_view phase(text.data(), ::strnlen(text.data(), text.size()));
    beat.phase = phase.empty() ? "start" : std::string(phase);
    beat.whole = before % 2 == 0 && line.sequence.load(std::memory_order_relaxed) == before;
    if (beat.whole) {
      break;
    }
  }
  return beat;
}

SharedPage::SharedPage(int ranks) : bytes_(static_cast<std::size_t>(ranks) * sizeof(RankSlot)) {
  descriptor_ = ::memfd_create("temper-ranks", MFD_CLOEXEC);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) {
    throw_errno("cannot create the ranks' shared memory");
  }
  map();
}

SharedPage SharedPage::from_descriptor(int descriptor) {
  SharedPage page;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw_errno(
        concat("cannot read the launcher's shared memory (", kPageVariable, "=", descriptor, ")"));
  }
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  page.descriptor_ = descriptor;
  page.bytes_ = static_cast<std::size_t>(status.st_size);
  page.map();
  return page;
}

void SharedPage::map() {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    throw_errno("cannot map the ranks' shared memory");
  }
  slots_ = static_cast<RankSlot*>(memory);
}

SharedPage::SharedPage(SharedPage&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      slots_(std::exchange(other.slots_, nullptr)) {}

SharedPage::~SharedPage() {
  if (slots_ != nullptr) {
    ::munmap(slots_, bytes_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Heartbeat::Page::Page() : own_(std::make_unique<RankSlot>()), slot_(own_.get()) {}

Heartbeat::Page::Page(SharedPage shared, int rank)
    : shared_(std::make_unique<SharedPage>(std::move(shared))), slot_(&shared_->slot(rank)) {}

Heartbeat Heartbeat::from_environment() {
  if (std::getenv(kPageVariable) == nullptr) {
    return Heartbeat();
  }
  const int rank = number_from_environment("RANK");
  SharedPage shared = SharedPage::from_descriptor(number_from_environment(kPageVariable));
  require(rank < shared.ranks(), "rank ", rank, " of ", shared.ranks());
  return Heartbeat(std::make_unique<Page>(std::move(shared), rank));
}

Heartbeat::Heartbeat() : page_(std::make_unique<Page>()) {}
Heartbeat::Heartbeat(std::unique_ptr<Page> page) : page_(std::move(page)) {}
Heartbeat::Heartbeat(Heartbeat&& other) noexcept = default;
Heartbeat& Heartbeat::operator=(Heartbeat&& other) noexcept = default;
Heartbeat::~Heartbeat() = default;

void Heartbeat::set(std::string_view phase, std::uint64_t update) {
  PhaseText text{};
  std::copy_n(phase.begin(), std::min(phase.size(), kPhaseLength), text.begin());
  const auto words = std::bit_cast<std::array<std::uint64_t, 4>>(text);
  BeatLine& line = page_->slot().beat;
  const std::uint64_t sequence = line.sequence.load(std::memory_order_relaxed);
  line.sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i) {
    line.phase[i].store(words[i], std::memory_order_relaxed);
  }
  line.update.store(update, std::memory_order_relaxed);
  line.nanoseconds.store(monotonic_nanoseconds(), std::memory_order_relaxed);
  line.sequence.store(sequence + 2, std::memory_order_release);
  if (observer_) {
    observer_(phase, update);
  }
}

void Heartbeat::set_phase(std::string_view phase) {
  set(phase, page_->slot().beat.update.load(std::memory_order_relaxed));
}

void Heartbeat::touch() noexcept {
  page_->slot().beat.nanoseconds.store(monotonic_nanoseconds(), std::memory_order_relaxed);
}

CollectiveProgress& Heartbeat::collective() const { return page_->slot().collective; }

void Heartbeat::set_loader_bytes(std::int64_t bytes) noexcept {
  page_->slot().beat.loader_bytes.store(bytes, std::memory_order_relaxed);
}

Beat Heartbeat::beat() const { return read_beat(page_->slot().beat); }

}  // namespace temper
