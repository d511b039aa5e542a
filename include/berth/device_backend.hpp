// SPDX-License-Identifier: Apache-2.0
// The extension point for devices other than CUDA devices: TPUs and other accelerators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

/// One fact about a device, such as its coordinates in a mesh or its number of cores, or about a
/// backend.
struct DeviceAttribute {
  std::string name;
  std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>> value;
};

/// Properties of a device that do not change. Unknown text is empty.
struct DeviceDescription {
  std::string name;                           ///< for people, "TPU_0(process=0,(0,0,0,0))"
  std::string kind;                           ///< the model, "TPU v5 lite"
  std::optional<std::uint64_t> memory_bytes;  ///< total memory
  std::vector<DeviceAttribute> attributes;
};

/// Memory of a device at one moment, as its backend reports it. nullopt: not reported.
struct BackendMemory {
  std::optional<std::uint64_t> bytes_used;
  std::optional<std::uint64_t> bytes_used_peak;
  std::optional<std::uint64_t> bytes_limit;  ///< the most that may be used
  std::optional<std::uint64_t> bytes_reserved;
  std::optional<std::uint64_t> bytes_reserved_peak;
  std::optional<std::uint64_t> largest_free_block_bytes;
  std::optional<std::uint64_t> allocations;  ///< since the start
};

/// The devices of one type, implemented by the program or by a library and passed to
/// Runtime::register_backend(). The parts of berth that need streams or addresses serve only CUDA
/// devices; all others serve every backend.
///
/// The memory of such a device is a set of opaque buffers. A buffer is filled when it is created
/// and does not change afterwards. It has no address, it is not divided, and no stream orders its
/// use: each operation reports its own end.
///
/// create_buffer(), Filling::write(), read() and copy() start an operation and may return before
/// its end. Each call either throws and has no effect, or calls `done` exactly once, on any thread
/// and possibly before it returns. `done` never throws and returns quickly. It may be called under
/// a lock of the backend: berth does not call the backend from it.
///
/// Order     An operation may start while earlier operations on its buffer are pending: the backend
///           orders a read or a copy after the filling of its source. If the filling fails, the
///           read or copy fails too. A Buffer may be destroyed while operations on it are pending:
///           the backend then frees its memory at their end.
/// Errors    BackendError with the code of the backend. OutOfMemory: the device has no memory left.
///           NotSupported: the backend cannot do it.
/// Threads   Every function must be safe from any thread. None is called in a forked child.
/// Lifetime  berth destroys the backend once all its buffers are destroyed, and every operation has
///           called `done`.
class BERTH_API DeviceBackend {
 public:
  /// `failure`: null if the operation succeeded.
  using Done = std::function<void(std::exception_ptr failure)>;

  /// A buffer. Its destructor frees the memory, and does not wait for operations.
  class Buffer {
   public:
    Buffer() = default;
    virtual ~Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
  };

  /// Writes the content of one buffer in parts.
  /// Threads  One at a time. If it is destroyed before the last write, the filling has failed.
  ///          Writes may be pending then, which still use their content and call `done`.
  class Filling {
   public:
    Filling() = default;
    virtual ~Filling() = default;
    Filling(const Filling&) = delete;
    Filling& operator=(const Filling&) = delete;

    /// Writes `content` at `offset`. Parts do not overlap, and together are the whole buffer.
    /// `is_last`: no further call follows. `content` stays valid and unchanged until `done`.
    virtual void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
                       Done done) = 0;
  };

  /// The result of begin_buffer().
  struct Begun {
    std::unique_ptr<Buffer> buffer;    ///< not null if `filling` is not null
    std::unique_ptr<Filling> filling;  ///< null: the backend cannot write a buffer in parts
  };

  DeviceBackend() = default;
  virtual ~DeviceBackend() = default;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  /// The implementation and its version, one line, for errors and statistics.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Facts about the implementation, such as the version of its interface. Read once, when the
  /// backend is registered. The default has none.
  [[nodiscard]] virtual std::vector<DeviceAttribute> attributes() const { return {}; }

  // `index` is from 0 to count(), exclusive: N of `tpu:N`. berth checks it before it calls.

  /// Number of devices. Read once, when the backend is registered.
  [[nodiscard]] virtual int count() const = 0;
  /// Read once for each device, when the backend is registered.
  [[nodiscard]] virtual DeviceDescription describe(int index) const = 0;
  /// The default reports nothing.
  [[nodiscard]] virtual BackendMemory memory(int /*index*/) const { return {}; }

  // Sizes are in bytes and never 0.

  /// Creates a buffer on a device and fills it with `content`, which stays valid and unchanged
  /// until `done`. `done`: the buffer is filled, and `content` is no longer read. A result that is
  /// null, here and in copy(), is an error of the backend, which berth reports as BackendError.
  [[nodiscard]] virtual std::unique_ptr<Buffer> create_buffer(int index,
                                                              std::span<const std::byte> content,
                                                              Done done) = 0;
  /// Creates a buffer of this size that is then written in parts. The default does not support
  /// that.
  [[nodiscard]] virtual Begun begin_buffer(int /*index*/, std::size_t /*bytes*/) { return {}; }
  /// Reads [offset, offset + target.size()) of a buffer into host memory, which stays valid until
  /// `done`.
  virtual void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
                    Done done) = 0;
  /// Whether read() reads a part of a buffer at the cost of that part, as far as is known. If
  /// false, a copy to a file reads the whole buffer once, and a copy with
  /// TransferOptions::part_bytes is made by one read. The result may change to false during a copy.
  /// The rest is then copied in this way: to a file by one read of the whole buffer, and with
  /// part_bytes by one read of the rest. Called on the thread that starts a copy, and on berth
  /// threads before each part. Returns immediately.
  [[nodiscard]] virtual bool reads_parts() const { return true; }
  /// Creates a buffer on a device of the same backend with the content of `source`. `done`: it is
  /// filled.
  [[nodiscard]] virtual std::unique_ptr<Buffer> copy(const Buffer& source, int index,
                                                     Done done) = 0;

  /// Prepares host memory for transfers by all devices of the backend: the device then reads and
  /// writes it itself. It overlaps no other such memory. Operations that are started before this
  /// returns do not use the mapping: they may be pending when it ends. Returns false if the backend
  /// maps no memory, as the default does.
  [[nodiscard]] virtual bool map_host_memory(std::span<std::byte> /*memory*/) { return false; }
  /// Ends the mapping of map_host_memory() that starts at `memory`. No operation that uses the
  /// mapping is pending, and none begins on the memory before this returns: so this must not wait
  /// for a call that begins one. The default does nothing.
  virtual void unmap_host_memory(std::byte* /*memory*/) {}
};

}  // namespace berth
