// SPDX-License-Identifier: Apache-2.0
// The messages of a MemoryConnection. Each is one packet of a SOCK_SEQPACKET socket:
//
//   share    a header, a record for each segment, a record for each block; with the segments'
//            descriptors, in the order of their records
//   release  a header, the number of each block
//
// Both processes run on one machine, so numbers have its byte order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace berth {

/// The description of a segment for the other process.
struct SegmentRecord {
  std::uint64_t address;  ///< in the process that shares it; identifies it while it has blocks
  std::uint64_t bytes;
};

/// The same of a block.
struct BlockRecord {
  std::uint64_t number;   ///< of the block on this connection
  std::uint64_t segment;  ///< index into the segments of the message
  std::uint64_t offset;   ///< in the segment
  std::uint64_t bytes;
};

struct ShareMessage {
  std::string uuid;  ///< of the device, as DeviceInfo::uuid
  std::vector<SegmentRecord> segments;
  std::vector<BlockRecord> blocks;
  std::vector<Descriptor> descriptors;  ///< of the segments
};

/// One of the two is not empty.
struct Message {
  std::optional<ShareMessage> share;
  std::vector<std::uint64_t> released;
  bool lacks_descriptors = false;  ///< the process could not open all of them
};

/// The maximum of one message.
inline constexpr std::size_t kSegmentsMax = 64;
inline constexpr std::size_t kBlocksMax = 1024;

/// A socket of messages.
/// Threads  One call at a time.
class MessageSocket {
 public:
  /// Errors  InvalidArgument: no connected SOCK_SEQPACKET socket of AF_UNIX. It is not closed then.
  explicit MessageSocket(int socket);

  enum class Sent { yes, full, closed };
  /// Never waits.
  /// Errors  FileError, Exhausted.
  Sent send(const ShareMessage& message);
  Sent send_released(std::span<const std::uint64_t> numbers);

  /// The next message; nullopt if there is none. Never waits.
  /// Errors  FileError: a malformed message, or the system refuses. The socket is shut down then.
  std::optional<Message> receive();

  /// False once either end has been shut down.
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] int number() const { return socket_.number(); }
  /// Ends the connection. The descriptor stays open, because another thread may be waiting for it;
  /// that thread wakes.
  void shut_down();

 private:
  Sent send(std::span<const std::byte> packet, std::span<const Descriptor> descriptors);

  Descriptor socket_;
  bool is_open_ = true;
  std::vector<std::byte> packet_;  ///< room for the largest message
};

}  // namespace berth
