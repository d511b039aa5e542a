// SPDX-License-Identifier: Apache-2.0
#include "berth/memory_connection.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "share/connection_state.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

std::chrono::steady_clock::time_point deadline_of(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() +
         std::clamp(timeout, std::chrono::milliseconds(0), kLongest);
}

}  // namespace

SharedBlock& SharedBlock::operator=(SharedBlock&& other) noexcept {
  if (this == &other) return *this;
  reset();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  device_ = other.device_;
  number_ = other.number_;
  segment_ = std::move(other.segment_);
  return *this;
}

void SharedBlock::reset() noexcept {
  if (data_ == nullptr) return;
  data_ = nullptr;
  bytes_ = 0;
  BERTH_CHECK(segment_ != nullptr);
  const std::shared_ptr<MemoryConnection::Impl> connection = segment_->connection();
  if (!connection->is_here()) return keep_until_exit(std::move(segment_));
  {
    DeviceContext& context = segment_->memory().context();
    const ContextScope scope(context, std::nothrow);
    wait_for_or_report(context);
  }
  segment_.reset();  // before the other process may reuse its addresses
  connection->give_back(number_);
}

MemoryConnection::MemoryConnection(const DeviceRegistry& registry, int socket)
    : impl_(std::make_shared<Impl>(registry, socket)) {}

MemoryConnection::~MemoryConnection() {
  if (impl_ == nullptr) return;  // moved from
  if (impl_->is_here())
    impl_->end();
  else
    keep_until_exit(std::move(impl_));
}

void MemoryConnection::share(MemoryPool& pool, std::span<Allocation> blocks,
                             std::chrono::milliseconds timeout) {
  impl_->share(pool.pool(), blocks, deadline_of(timeout));
}

std::size_t MemoryConnection::reclaim() {
  return impl_->reclaim();
}

std::size_t MemoryConnection::blocks_shared() const {
  return impl_->blocks_shared();
}

std::vector<SharedBlock> MemoryConnection::receive(std::chrono::milliseconds timeout) {
  return impl_->receive(deadline_of(timeout));
}

bool MemoryConnection::is_open() const {
  return impl_->is_open();
}

void MemoryConnection::end() noexcept {
  if (impl_ != nullptr && impl_->is_here()) impl_->end();
}

}  // namespace berth
