// SPDX-License-Identifier: Apache-2.0
#include "pjrt/buffer.hpp"

#include <type_traits>

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

}  // namespace berth::pjrt
