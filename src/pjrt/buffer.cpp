// SPDX-License-Identifier: Apache-2.0
#include "pjrt/buffer.hpp"

#include <exception>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"

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

PjrtBuffer::~PjrtBuffer() {
  if (native_ != nullptr) api_.destroy(buffer_destroy, {0, nullptr, native_});
}

void PjrtBuffer::own(pjrt::Buffer* native) {
  native_ = native;
  if (native == nullptr) refuse_nothing(api_, "buffer");
}

Event* PjrtBuffer::ready() const {
  ReadyEventArgs args{};
  args.buffer = native_;
  api_.call(ready_event, args);
  return args.event;
}

void refuse_nothing(const Api& api, const char* what) {
  throw BackendError(
      format_text("{}: the plug-in reported success and gave no {}", api.path(), what),
      static_cast<int>(Code::internal));
}

void when_both_ready(const Api& api, const char* function, Event* first, Event* second,
                     DeviceBackend::Done done) noexcept {
  if (second == nullptr) return api.when_ready(function, first, std::move(done));
  // Most plug-ins copy a small buffer at once, and what follows allocates memory.
  if (api.is_ready(first)) std::swap(first, second);
  const bool is_second_over = api.is_ready(second);
  std::exception_ptr failure = is_second_over ? api.await(function, second) : nullptr;
  if (is_second_over && failure == nullptr) return api.when_ready(function, first, std::move(done));
  DeviceBackend::Done end_first;
  DeviceBackend::Done end_second;
  try {
    const auto both = std::make_shared<Both>();
    const auto end = [both](std::exception_ptr ended) { both->end(std::move(ended)); };
    end_first = end;
    end_second = end;
    both->done = std::move(done);
  } catch (const std::bad_alloc&) {
    const std::exception_ptr first_failure = api.await(function, first);
    if (!is_second_over) failure = api.await(function, second);
    return done(first_failure != nullptr ? first_failure : failure);
  }
  if (is_second_over)
    end_second(failure);
  else
    api.when_ready(function, second, std::move(end_second));
  api.when_ready(function, first, std::move(end_first));
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
  manager_ = manager;
  if (manager == nullptr) refuse_nothing(api_, "transfer manager");
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
