// SPDX-License-Identifier: Apache-2.0
// Messages, and the blocks that this process has shared.
#include "share/connection_state.hpp"

#include <algorithm>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "berth/device_registry.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "share/await_socket.hpp"

namespace berth {
namespace {

constexpr const char* kName = "a memory connection";

[[noreturn]] void refuse_ended() {
  throw FileError("the other process has ended the memory connection");
}

/// The properties of a block that can be shared.
MemoryProperties shareable(DevicePool& pool, const Allocation& block) {
  const auto found = pool.properties(block.data());
  if (!found) {
    throw InvalidArgument(format_text("{} is no live block of {}; accepted: blocks of that pool",
                                      static_cast<const void*>(block.data()), pool.name()));
  }
  if (!found->is_contiguous) {
    throw InvalidArgument(
        format_text("{} cannot be shared: its blocks consist of granules; accepted: a pool with "
                    "MemoryPoolOptions::contiguous",
                    pool.name()));
  }
  if (found->is_exportable) return *found;
  throw NotSupported(format_text(
      "{} cannot be shared: {} has no memory that is exported by descriptors (virtual memory, and "
      "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)",
      pool.name(), pool.device().to_string()));
}

Descriptor make_event() {
  Descriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (made.is_open()) return made;
  const std::string shortage = descriptor_shortage();
  throw Exhausted(format_text("{} cannot be made: {}", kName,
                              shortage.empty() ? "eventfd() failed" : shortage));
}

}  // namespace

MemoryConnection::Impl::Impl(const DeviceRegistry& registry, int socket)
    : registry_(registry), ended_(make_event()), socket_(socket) {}

MemoryConnection::Impl::~Impl() {
  const MutexLock lock(mutex_);
  for (const ShareMessage& message : arrived_) blocks_here_ -= message.blocks.size();
  BERTH_CHECK(blocks_here_ == 0);  // SharedBlocks keep this alive until give_back()
}

std::size_t MemoryConnection::Impl::blocks_shared() const {
  origin_.require_here(kName);
  const MutexLock lock(mutex_);
  return shared_.size() + returned_.size();
}

bool MemoryConnection::Impl::is_open() const {
  origin_.require_here(kName);
  const MutexLock lock(mutex_);
  return socket_.is_open() && !is_ended_;
}

void MemoryConnection::Impl::share(DevicePool& pool, std::span<Allocation> blocks, Time deadline) {
  origin_.require_here(kName);
  std::vector<MemoryProperties> properties;
  properties.reserve(blocks.size());
  for (const Allocation& block : blocks) properties.push_back(shareable(pool, block));
  for (std::size_t done = 0; done < blocks.size();) {
    int socket = -1;
    {
      const MutexLock lock(mutex_);
      pump();
      const std::size_t count =
          share_some(pool, std::span(properties).subspan(done), blocks.subspan(done));
      done += count;
      if (count > 0) continue;
      socket = socket_.number();
    }
    if (!await_socket(socket, POLLOUT | POLLIN, ended_.number(), deadline)) {
      throw Exhausted(format_text(
          "{} of {} blocks are not shared: the other process does not receive, and its queue is "
          "full; accepted: a longer timeout",
          blocks.size() - done, blocks.size()));
    }
  }
}

ShareMessage MemoryConnection::Impl::pack(const DevicePool& pool,
                                          std::span<const MemoryProperties> properties,
                                          std::span<const Allocation> blocks) {
  ShareMessage message;
  message.uuid = registry_.info(pool.device()).uuid;
  std::map<const void*, std::size_t> known;  // segments of the message
  for (std::size_t index = 0; index < std::min(blocks.size(), kBlocksMax); ++index) {
    const MemoryProperties& of_block = properties[index];
    const auto start = reinterpret_cast<std::uintptr_t>(of_block.segment);
    auto segment = known.find(of_block.segment);
    if (segment == known.end()) {
      if (known.size() == kSegmentsMax) break;
      segment = known.try_emplace(of_block.segment, known.size()).first;
      message.segments.push_back({start, of_block.segment_bytes});
      message.descriptors.push_back(pool.export_segment(of_block));
    }
    message.blocks.push_back(
        {.number = next_number_ + index,
         .segment = segment->second,
         .offset = reinterpret_cast<std::uintptr_t>(blocks[index].data()) - start,
         .bytes = blocks[index].bytes()});
  }
  return message;
}

std::size_t MemoryConnection::Impl::share_some(const DevicePool& pool,
                                               std::span<const MemoryProperties> properties,
                                               std::span<Allocation> blocks) {
  if (is_ended_) throw FileError("this process has ended the memory connection");
  if (!socket_.is_open()) refuse_ended();
  driver_ = &registry_.context(pool.device()).driver();
  const ShareMessage message = pack(pool, properties, blocks);
  const std::size_t count = message.blocks.size();
  Blocks sent;  // made first, because nothing may fail once the message is sent
  for (const BlockRecord& block : message.blocks) sent.try_emplace(sent.end(), block.number);
  switch (socket_.send(message)) {
    case MessageSocket::Sent::full:
      return 0;
    case MessageSocket::Sent::closed:
      refuse_ended();
    case MessageSocket::Sent::yes:
      break;
  }
  for (auto& [number, block] : sent) {
    BERTH_CHECK(number - next_number_ < count);
    block = std::move(blocks[number - next_number_]);
    BERTH_CHECK(block.data() != nullptr);  // the other process has it now, so it must not be freed
  }
  next_number_ += count;
  shared_.merge(sent);
  BERTH_CHECK(sent.empty());
  return count;
}

std::size_t MemoryConnection::Impl::reclaim() {
  origin_.require_here(kName);
  Blocks freed;  // destroyed without the lock
  const MutexLock lock(mutex_);
  pump();
  freed.swap(returned_);
  return freed.size();
}

void MemoryConnection::Impl::end() noexcept {
  Blocks freed;  // destroyed without the lock
  const MutexLock lock(mutex_);
  if (is_ended_) return;
  is_ended_ = true;
  const std::uint64_t once = 1;
  BERTH_CHECK(::write(ended_.number(), &once, sizeof once) == sizeof once);
  try {
    pump();
  } catch (const std::exception& error) {  // a malformed message, or std::bad_alloc
    if (driver_ != nullptr) driver_->report(Severity::warning, kName, " ends", error);
  }
  const std::size_t left = shared_.size();
  if (left > 0) {
    BERTH_CHECK(driver_ != nullptr);  // of the blocks
    driver_->report(Severity::warning, [&] {
      return format_text("{} ends, and frees {} blocks that the other process has not returned",
                         kName, left);
    });
  }
  freed.swap(returned_);
  freed.merge(shared_);
  BERTH_CHECK(shared_.empty());  // no number is in both
}

void MemoryConnection::Impl::pump() {
  while (std::optional<Message> message = socket_.receive()) {
    try {
      enter(std::move(*message));
    } catch (...) {  // its blocks cannot be returned one by one
      socket_.shut_down();
      throw;
    }
  }
  if (socket_.is_open()) return send_releases();
  returned_.merge(shared_);
  releases_.clear();
}

void MemoryConnection::Impl::enter(Message message) {
  for (const std::uint64_t number : message.released) {
    if (auto block = shared_.extract(number)) {
      const bool is_new = returned_.insert(std::move(block)).inserted;
      BERTH_CHECK(is_new);
    }
  }
  if (!message.share) return;
  const std::size_t count = message.share->blocks.size();
  releases_.reserve(releases_.size() + blocks_here_ + count);
  arrived_.push_back(std::move(*message.share));
  blocks_here_ += count;
}

void MemoryConnection::Impl::send_releases() {
  while (!releases_.empty()) {
    const std::size_t count = std::min(releases_.size(), kBlocksMax);
    if (socket_.send_released(std::span(releases_).last(count)) != MessageSocket::Sent::yes) return;
    releases_.resize(releases_.size() - count);
  }
}

}  // namespace berth
