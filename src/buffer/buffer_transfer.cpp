// SPDX-License-Identifier: Apache-2.0
#include "buffer/buffer_transfer.hpp"

#include <atomic>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "buffer/buffer_set.hpp"

namespace berth {
namespace {

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
      has_task_(options_.on_done != nullptr || options_.keep_alive != nullptr),
      waits_at_end_(options_.keep_alive == nullptr) {
  set_->begin_transfer(has_task_);
}

BufferTransfer::~BufferTransfer() = default;

/// One call of a backend. Shared by the copies of its `Done`.
class BufferTransfer::Operation {
 public:
  Operation(std::shared_ptr<BufferTransfer> transfer, std::size_t bytes)
      : transfer_(std::move(transfer)), bytes_(bytes) {}
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

  void end(std::exception_ptr failure) noexcept {
    if (!has_ended_.exchange(true)) transfer_->end_operation(bytes_, std::move(failure));
  }

 private:
  const std::shared_ptr<BufferTransfer> transfer_;
  const std::size_t bytes_;
  std::atomic<bool> has_ended_ = false;
};

DeviceBackend::Done BufferTransfer::add_operation(std::size_t bytes) {
  {
    const MutexLock lock(mutex_);
    ++operations_;
  }
  // From here on its destructor ends the operation that was counted.
  std::shared_ptr<Operation> operation;
  try {
    operation = std::make_shared<Operation>(shared_from_this(), bytes);
  } catch (...) {
    end_operation(0, nullptr);
    throw;
  }
  return [operation](std::exception_ptr failure) { operation->end(std::move(failure)); };
}

void BufferTransfer::end_operation(std::size_t bytes, std::exception_ptr failure) noexcept {
  bool has_task = false;
  bool reports = false;
  {
    const MutexLock lock(mutex_);
    if (failure == nullptr) bytes_done_ += bytes;
    if (failure != nullptr && failure_ == nullptr) {
      failure_ = std::move(failure);
      changed_.notify_one();
    }
    if (--operations_ > 0) return;
    has_task = has_task_ && !is_withdrawn_;
    reports = is_abandoned_ && !has_task;
    if (options_.on_done != nullptr) is_told_ = true;
  }
  // Without the lock, which a thread that wakes up needs at once.
  over_.notify_all();
  if (reports) report_unless_told();
  // After this, no thread waits for this transfer.
  const std::shared_ptr<BufferSet> set = set_;
  if (has_task) return set->post(shared_from_this());
  set->end_transfer();
}

void BufferTransfer::run() noexcept {
  TransferOptions options = std::move(options_);
  if (options.on_done != nullptr) {
    try {
      options.on_done(failure());
    } catch (...) {
      set_->report(
          format_text("on_done of {}: {}", name_.text(), text_of(std::current_exception())));
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

bool BufferTransfer::wait_for_part(const std::atomic<bool>& is_busy) {
  const MutexLock lock(mutex_);
  while (is_busy && !is_cancelled_ && failure_ == nullptr) changed_.wait(mutex_);
  if (is_cancelled_) throw Cancelled(format_text("{} was cancelled", name_.text()));
  return failure_ == nullptr;
}

void BufferTransfer::add_bytes_done(std::size_t bytes) noexcept {
  const MutexLock lock(mutex_);
  bytes_done_ += bytes;
}

void BufferTransfer::end_part(std::atomic<bool>& is_busy) noexcept {
  {
    const MutexLock lock(mutex_);
    is_busy = false;
  }
  changed_.notify_one();
}

bool BufferTransfer::is_done() {
  const MutexLock lock(mutex_);
  return operations_ == 0;
}

void BufferTransfer::wait() {
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
  {
    const MutexLock lock(mutex_);
    is_cancelled_ = true;
  }
  changed_.notify_one();
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
  set_->report(format_text("{} failed: {}", name_.text(), text_of(failure)));
}

}  // namespace berth
