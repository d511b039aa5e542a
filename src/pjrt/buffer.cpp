// SPDX-License-Identifier: Apache-2.0
#include "pjrt/buffer.hpp"

#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "pjrt/given.hpp"

namespace berth::pjrt {

NativeBuffer::~NativeBuffer() {
  if (buffer_ != nullptr) api_.destroy(buffer_destroy, {0, nullptr, buffer_});
}

void NativeBuffer::own(pjrt::Buffer* buffer) {
  BERTH_CHECK(buffer_ == nullptr);
  buffer_ = buffer;
  if (buffer == nullptr) refuse_nothing(api_, "buffer");
}

Event* NativeBuffer::ready() const {
  BERTH_CHECK(buffer_ != nullptr);
  ReadyEventArgs args{};
  args.buffer = buffer_;
  api_.call(ready_event, args);
  return args.event;
}

bool NativeShare::drop_unless_last() noexcept {
  static constinit Mutex mutex;  // of all buffers; never destroyed
  static_assert(std::is_trivially_destructible_v<Mutex>);
  const MutexLock lock(mutex);
  if (buffer_.use_count() == 1) return false;
  buffer_ = nullptr;
  return true;
}

void NativeShare::drop() noexcept {
  if (!drop_unless_last()) buffer_ = nullptr;  // no other thread has it
}

PjrtFilling::~PjrtFilling() {
  if (ready_ != nullptr) {
    constexpr std::string_view kReason = "the buffer was not filled to its end";
    api_.destroy(set_buffer_error,
                 {0, nullptr, manager_, 0, Code::aborted, kReason.data(), kReason.size()});
    api_.destroy(event_destroy, {0, nullptr, ready_});
  }
  if (manager_ != nullptr) api_.destroy(manager_destroy, {0, nullptr, manager_});
}

void PjrtFilling::own(TransferManager* manager) {
  BERTH_CHECK(manager_ == nullptr);
  manager_ = manager;
  if (manager == nullptr) refuse_nothing(api_, "transfer manager");
}

void PjrtFilling::write(std::size_t offset, std::span<const std::byte> content, bool is_last,
                        DeviceBackend::Done done) {
  BERTH_CHECK(ready_ != nullptr);  // no write follows the last
  TransferDataArgs args{};
  args.manager = manager_;
  args.data = content.data();
  args.offset = static_cast<std::int64_t>(offset);
  args.bytes = static_cast<std::int64_t>(content.size());
  args.is_last = is_last;
  api_.require_single_ends();
  api_.call(transfer_data, args);
  Event* const ready = is_last ? std::exchange(ready_, nullptr) : nullptr;
  watch_.when_both_ready(transfer_data.name, args.done, ready, std::move(done));
}

}  // namespace berth::pjrt
