// SPDX-License-Identifier: Apache-2.0
// The blocks that the other process has shared.
#include <optional>
#include <poll.h>
#include <utility>

#include "berth/device_pick.hpp"
#include "berth/device_registry.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "share/await_socket.hpp"
#include "share/connection_state.hpp"

namespace berth {

std::vector<SharedBlock> MemoryConnection::Impl::receive(Time deadline) {
  origin_.require_here("a memory connection");
  for (;;) {
    std::vector<SharedBlock> blocks;
    int socket = -1;
    {
      const MutexLock lock(mutex_);
      if (is_ended_) return {};
      if (arrived_.empty()) pump();
      import_arrived(blocks);
      if (!blocks.empty() || !socket_.is_open()) return blocks;
      socket = socket_.number();
    }
    if (!await_socket(socket, POLLIN, ended_.number(), deadline)) return {};
  }
}

void MemoryConnection::Impl::import_arrived(std::vector<SharedBlock>& blocks) {
  while (!arrived_.empty()) {
    ShareMessage& message = arrived_.front();
    try {
      import(message, blocks);
    } catch (...) {
      if (!blocks.empty()) return;  // the next call reports it
      for (const BlockRecord& block : message.blocks) add_release(block.number);
      arrived_.pop_front();
      throw;
    }
    arrived_.pop_front();
  }
}

void MemoryConnection::Impl::import(ShareMessage& message, std::vector<SharedBlock>& blocks) {
  if (message.descriptors.size() < message.segments.size()) {
    std::string shortage = descriptor_shortage();
    if (shortage.empty()) shortage = "this process had no file descriptor left (RLIMIT_NOFILE)";
    message.descriptors.clear();  // because the program may need descriptors to handle the error
    throw Exhausted("blocks of another process cannot be received: " + shortage);
  }
  const Device device = device_of(message.uuid);
  DeviceContext& context = registry_.context(device);
  std::vector<std::shared_ptr<SharedBlock::Segment>> segments;
  for (std::size_t index = 0; index < message.segments.size(); ++index) {
    segments.push_back(segment_of(message.segments[index], message.descriptors[index], context));
  }
  blocks.reserve(blocks.size() + message.blocks.size());
  for (const BlockRecord& record : message.blocks) {
    BERTH_CHECK(record.segment < segments.size());
    SharedBlock& block = blocks.emplace_back();
    block.segment_ = segments[record.segment];
    const std::size_t segment_bytes = block.segment_->memory().bytes();
    BERTH_CHECK(record.offset < segment_bytes && record.bytes <= segment_bytes - record.offset);
    block.data_ = reinterpret_cast<void*>(block.segment_->memory().address() + record.offset);
    block.bytes_ = record.bytes;
    block.device_ = device;
    block.number_ = record.number;
  }
}

std::shared_ptr<SharedBlock::Segment> MemoryConnection::Impl::segment_of(
    const SegmentRecord& record, Descriptor& descriptor, DeviceContext& context) {
  std::erase_if(segments_, [](const auto& each) { return each.second.expired(); });
  const auto known = segments_.find(record.address);
  auto segment = known != segments_.end() ? known->second.lock() : nullptr;
  if (segment == nullptr) {
    segment = std::make_shared<SharedBlock::Segment>(shared_from_this(), context,
                                                     std::move(descriptor), record.bytes);
    segments_[record.address] = segment;
  }
  const ImportedSegment& memory = segment->memory();
  if (memory.bytes() == record.bytes && &memory.context() == &context) return segment;
  socket_.shut_down();
  throw FileError("the socket of a memory connection: a segment has changed");
}

Device MemoryConnection::Impl::device_of(const std::string& uuid) const {
  try {
    return find_device(registry_, uuid);
  } catch (const InvalidArgument&) {
    throw NotSupported(format_text(
        "another process shares memory of the device {}, which this process does not see",
        quoted(uuid)));
  }
}

void MemoryConnection::Impl::add_release(std::uint64_t number) noexcept {
  BERTH_CHECK(blocks_here_ > 0 && releases_.size() < releases_.capacity());
  --blocks_here_;
  releases_.push_back(number);
}

void MemoryConnection::Impl::give_back(std::uint64_t number) noexcept {
  const MutexLock lock(mutex_);
  add_release(number);
  try {
    send_releases();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next call sends it
  }
}

}  // namespace berth
