// SPDX-License-Identifier: Apache-2.0
#include "buffer/buffer_state.hpp"

#include <utility>

#include "base/fork.hpp"
#include "buffer/buffer_set.hpp"

namespace berth {

BufferState::BufferState(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner,
                         Device device, std::size_t bytes)
    : set_(std::move(set)), owner_(owner), device_(device), bytes_(bytes) {
  set_->add(*this);
}

BufferState::~BufferState() {
  if (!set_->is_here()) {
    keep_until_exit(std::move(memory_));
    return;
  }
  ready_ = {};  // may wait for the end of the filling
  set_->remove(*this);
}

void BufferState::fill(std::unique_ptr<DeviceBackend::Buffer> buffer, Transfer ready) noexcept {
  BERTH_CHECK(memory_->buffer == nullptr && (buffer != nullptr) == (bytes_ > 0));
  memory_->buffer = std::move(buffer);
  ready_ = std::move(ready);
  set_->count_created(device_);
}

DeviceWork& BufferState::work() const {
  return set_->works().of(device_, owner_);
}

void BufferState::require_open() const {
  set_->require_open();
}

}  // namespace berth
