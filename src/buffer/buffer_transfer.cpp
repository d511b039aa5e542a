// SPDX-License-Identifier: Apache-2.0
#include "buffer/buffer_transfer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "buffer/buffer_set.hpp"

namespace berth {
namespace {

/// How long a waiting thread watches a transfer before it sleeps: the time of the copy at 8 GB/s,
/// and a little more. Waking a thread would add some 10 us to a transfer that ends within it.
std::chrono::microseconds watch_time(std::size_t bytes) {
  constexpr std::size_t kMicrosecondsMax = 200;
  return std::chrono::microseconds(std::min(50 + bytes / 8192, kMicrosecondsMax));
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of another type";
  }
}

}  // namespace

BufferTransfer::BufferTransfer(std::shared_ptr<BufferSet> set, TransferName name, std::size_t bytes,
                               TransferOptions options)
    : TransferState(bytes),
      set_(std::move(set)),
      name_(name),
      options_(std::move(options)),
      has_notice_(options_.on_done != nullptr || options_.keep_alive != nullptr) {
  set_->begin_transfer(has_notice_);
}

BufferTransfer::~BufferTransfer() = default;

/// One call of a backend. Shared by the copies of its `Done`. Not begun at first.
class BufferTransfer::Operation {
 public:
  Operation(std::shared_ptr<BufferTransfer> transfer, std::size_t bytes, std::shared_ptr<Part> part)
      : transfer_(std::move(transfer)), bytes_(bytes), part_(std::move(part)) {}
  ~Operation() {
    if (has_ended_) return;
    try {
      throw BackendError(transfer_->name_.text() + ": the backend has dropped the operation", 0);
    } catch (...) {
      end(std::current_exception());
    }
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// It is counted: from here on the destructor ends it.
  void begin() noexcept { has_ended_ = false; }
  void end(std::exception_ptr failure) noexcept {
    if (has_ended_.exchange(true)) return;
    transfer_->end_operation(bytes_, std::move(failure), std::move(part_));
  }

 private:
  const std::shared_ptr<BufferTransfer> transfer_;
  const std::size_t bytes_;
  std::shared_ptr<Part> part_;  ///< taken by the thread that has set has_ended_
  std::atomic<bool> has_ended_ = true;
};

DeviceBackend::Done BufferTransfer::add_operation(std::size_t bytes, std::shared_ptr<Part> part) {
  const auto operation = std::make_shared<Operation>(shared_from_this(), bytes, part);
  DeviceBackend::Done done = [operation](std::exception_ptr failure) {
    operation->end(std::move(failure));
  };
  // Nothing fails after this.
  if (part != nullptr) {
    const bool was_busy = part->is_busy.exchange(true);
    BERTH_CHECK(!was_busy);  // or two operations would use its memory
  }
  {
    const MutexLock lock(mutex_);
    BERTH_CHECK(operations_ > 0);  // the starter or a task, or the transfer would be over already
    ++operations_;
  }
  operation->begin();
  return done;
}

void BufferTransfer::own() noexcept {
  const MutexLock lock(mutex_);
  waits_at_end_ = options_.keep_alive == nullptr;
}

void BufferTransfer::begin_task() noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(operations_ > 0);
  ++operations_;
  has_part_tasks_ = true;
}

void BufferTransfer::note_failure(std::exception_ptr failure) noexcept {
  bool wakes = false;
  {
    const MutexLock lock(mutex_);
    if (failure_ != nullptr) return;
    failure_ = std::move(failure);
    is_stopped_ = true;
    wakes = has_part_tasks_;
  }
  if (wakes) set_->works().wake();
}

void BufferTransfer::end_operation(std::size_t bytes, std::exception_ptr failure,
                                   std::shared_ptr<Part> part) noexcept {
  // What a task must know before it finds its part free.
  if (failure != nullptr) {
    note_failure(std::move(failure));
    bytes = 0;
  }
  if (part != nullptr) {
    add_bytes_done(std::exchange(bytes, 0));
    TaskThread& thread = part->thread;
    const bool was_busy = part->is_busy.exchange(false);
    BERTH_CHECK(was_busy);  // or another operation would use its memory by now
    part = nullptr;
    thread.wake();
  }
  bool has_notice = false;
  bool reports = false;
  {
    const MutexLock lock(mutex_);
    BERTH_CHECK(operations_ > 0 && bytes <= this->bytes() - bytes_done_);
    bytes_done_ += bytes;
    if (--operations_ > 0) return;
    has_notice = has_notice_ && !is_withdrawn_;
    reports = is_abandoned_ && !has_notice;
    if (options_.on_done != nullptr) is_told_ = true;
    // Last: withdraw() may destroy the options when it sees this.
    BERTH_CHECK(!is_over_);
    is_over_.store(true, std::memory_order_release);
  }
  // Without the lock, which a thread that wakes up needs at once.
  over_.notify_all();
  if (reports) report_unless_told();
  // After this, no thread waits for this transfer.
  const std::shared_ptr<BufferSet> set = set_;
  if (has_notice) return set->post(shared_from_this());
  set->end_transfer();
}

void BufferTransfer::run() noexcept {
  BERTH_CHECK(is_over_);
  TransferOptions options = std::move(options_);
  if (options.on_done != nullptr) {
    try {
      options.on_done(failure());
    } catch (...) {
      set_->report([&] {
        return format_text("on_done of {}: {}", name_.text(), text_of(std::current_exception()));
      });
    }
  }
  options = {};
  bool reports = false;
  {
    const MutexLock lock(mutex_);
    reports = is_abandoned_;
  }
  if (reports) report_unless_told();
  const std::shared_ptr<BufferSet> set = set_;
  set->end_transfer();
}

void BufferTransfer::withdraw() noexcept {
  {
    const MutexLock lock(mutex_);
    is_withdrawn_ = true;
    is_told_ = true;
  }
  finish();
  wait();
  options_ = {};
}

bool BufferTransfer::goes_on() const {
  const MutexLock lock(mutex_);
  if (is_cancelled_) throw Cancelled(format_text("{} was cancelled", name_.text()));
  return failure_ == nullptr;
}

void BufferTransfer::add_bytes_done(std::size_t bytes) noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(bytes <= this->bytes() - bytes_done_);
  bytes_done_ += bytes;
}

bool BufferTransfer::is_done() {
  const MutexLock lock(mutex_);
  return operations_ == 0;
}

void BufferTransfer::wait() {
  using Time = std::chrono::steady_clock;
  if (is_over_.load(std::memory_order_acquire)) return;
  const Time::time_point end = Time::now() + watch_time(bytes());
  while (Time::now() < end) {
    std::this_thread::yield();
    if (is_over_.load(std::memory_order_acquire)) return;
  }
  const MutexLock lock(mutex_);
  while (operations_ > 0) over_.wait(mutex_);
}

std::exception_ptr BufferTransfer::failure() const {
  const MutexLock lock(mutex_);
  if (operations_ > 0) return nullptr;
  if (failure_ != nullptr) is_told_ = true;
  return failure_;
}

std::size_t BufferTransfer::bytes_done() {
  const MutexLock lock(mutex_);
  return bytes_done_;
}

void BufferTransfer::cancel() noexcept {
  bool wakes = false;
  {
    const MutexLock lock(mutex_);
    is_cancelled_ = true;
    is_stopped_ = true;
    wakes = has_part_tasks_;
  }
  if (wakes) set_->works().wake();
}

void BufferTransfer::abandon() noexcept {
  {
    const MutexLock lock(mutex_);
    while (waits_at_end_ && operations_ > 0) over_.wait(mutex_);
    is_abandoned_ = true;
    if (operations_ > 0) return;
  }
  report_unless_told();
}

void BufferTransfer::detach() noexcept {
  const MutexLock lock(mutex_);
  waits_at_end_ = false;
}

void BufferTransfer::report_unless_told() noexcept {
  std::exception_ptr failure;
  {
    const MutexLock lock(mutex_);
    if (is_told_ || failure_ == nullptr) return;
    is_told_ = true;
    failure = failure_;
  }
  set_->report([&] { return format_text("{} failed: {}", name_.text(), text_of(failure)); });
}

}  // namespace berth
