// SPDX-License-Identifier: Apache-2.0
#include "pjrt/buffer.hpp"

#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

#include "berth/error.hpp"

namespace berth::pjrt {
namespace {

/// The end of two operations.
struct Both {
  std::mutex mutex;
  int left = 2;
  std::exception_ptr failure;
  DeviceBackend::Done done;

  void end(std::exception_ptr ended) {
    {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::move(ended);
      if (--left > 0) return;
    }
    done(failure);
  }
};

}  // namespace

PjrtBuffer::PjrtBuffer(const Api& api, pjrt::Buffer* native, int device, std::size_t bytes)
    : api_(api), native_(native), device_(device), bytes_(bytes) {
  if (native == nullptr) {
    throw BackendError(api.path() + ": the plug-in reported success and gave no buffer",
                       static_cast<int>(Code::internal));
  }
}

PjrtBuffer::~PjrtBuffer() {
  api_.destroy(buffer_destroy, {0, nullptr, native_});
}

Event* PjrtBuffer::ready() const {
  ReadyEventArgs args{};
  args.buffer = native_;
  api_.call(ready_event, args);
  return args.event;
}

void when_both_ready(const Api& api, const char* function, Event* first, Event* second,
                     DeviceBackend::Done done) {
  if (second == nullptr) return api.when_ready(function, first, std::move(done));
  const auto both = std::make_shared<Both>();
  both->done = std::move(done);
  const auto end = [both](std::exception_ptr failure) { both->end(std::move(failure)); };
  api.when_ready(function, first, end);
  api.when_ready(function, second, end);
}

PjrtFilling::PjrtFilling(const Api& api, TransferManager* manager, Event* ready)
    : api_(api), manager_(manager), ready_(ready) {}

PjrtFilling::~PjrtFilling() {
  if (ready_ != nullptr) {
    constexpr std::string_view kReason = "the buffer was not filled to its end";
    api_.destroy(set_buffer_error,
                 {0, nullptr, manager_, 0, Code::aborted, kReason.data(), kReason.size()});
    api_.destroy(event_destroy, {0, nullptr, ready_});
  }
  api_.destroy(manager_destroy, {0, nullptr, manager_});
}

void PjrtFilling::write(std::size_t offset, std::span<const std::byte> content, bool is_last,
                        DeviceBackend::Done done) {
  TransferDataArgs args{};
  args.manager = manager_;
  args.data = content.data();
  args.offset = static_cast<std::int64_t>(offset);
  args.bytes = static_cast<std::int64_t>(content.size());
  args.is_last = is_last;
  api_.call(transfer_data, args);
  Event* const ready = is_last ? std::exchange(ready_, nullptr) : nullptr;
  when_both_ready(api_, transfer_data.name, args.done, ready, std::move(done));
}

}  // namespace berth::pjrt
