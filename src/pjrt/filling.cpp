// SPDX-License-Identifier: Apache-2.0
#include "pjrt/filling.hpp"

#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "pjrt/given.hpp"

namespace berth::pjrt {

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
