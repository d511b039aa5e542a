// SPDX-License-Identifier: Apache-2.0
// The creation of buffers, and copies that involve several.
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "berth/copier.hpp"
#include "berth/device_buffer.hpp"
#include "berth/device_registry.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "buffer/buffer_operations.hpp"
#include "buffer/file_filling.hpp"
#include "buffer/host_copies.hpp"
#include "buffer/host_mapping.hpp"
#include "copy/copy_arguments.hpp"
#include "copy/operand/open_file.hpp"

namespace berth {
namespace {

/// Named in error messages.
constexpr const char* kMappedName = "memory to map";

using HostBlock = std::shared_ptr<std::byte[]>;

HostBlock host_block(std::size_t bytes) {
  return std::make_shared_for_overwrite<std::byte[]>(bytes);
}

/// `options`, which also keep `block`.
TransferOptions keeping(TransferOptions options, const HostBlock& block) {
  if (options.keep_alive == nullptr) {
    options.keep_alive = block;
  } else {
    options.keep_alive = keep_all(block, std::move(options.keep_alive));
  }
  return options;
}

}  // namespace

class BERTH_HIDDEN DeviceBuffers::Impl {
 public:
  Impl(const DeviceRegistry& registry, const OwnHostMemory& own, Copier& copier, ReportSink sink)
      : registry_(registry),
        copier_(copier),
        set_(std::make_shared<BufferSet>(
            [&registry, own](const void* data, std::size_t bytes, const char* name) {
              berth::require_host_memory(registry, own, data, bytes, name);
            },
            std::move(sink))) {}
  ~Impl() {
    set_->close();
    if (!set_->is_here()) keep_until_exit(set_);  // its threads are the parent's
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::shared_ptr<BufferState> create(Device device, const void* source, std::size_t bytes,
                                      TransferOptions options) {
    if (bytes > 0) check_range(source, bytes, kSourceName);
    const std::size_t part_bytes = part_bytes_of(options, bytes);
    return create(device, bytes, std::move(options),
                  [&](const BufferState& state, const auto& transfer) {
                    set_->require_host_memory(source, bytes, kSourceName);
                    HostFills fills(transfer, part_bytes);
                    auto buffer = fills.add(state, source);
                    fills.post();
                    return buffer;
                  });
  }

  std::shared_ptr<BufferState> create(Device device, const FileRange& source,
                                      TransferOptions options) {
    const OpenFile& file = source.file.open_file();
    file.require(OpenFile::Use::reading);
    if (source.bytes > 0) file.check_range(source.offset, source.bytes);
    if (source.bytes == 0) return create(device, nullptr, 0, std::move(options));
    const RegisteredBackend& owner = registry_.backend(device);
    const Device resolved = registry_.resolve(device);
    set_->require_open();
    DeviceBackend::Begun begun = owner.backend->begin_buffer(resolved.ordinal(), source.bytes);
    if (begun.filling == nullptr) {
      const HostBlock block = host_block(source.bytes);
      source.file.read({block.get(), source.bytes}, source.offset);
      return create(device, block.get(), source.bytes, keeping(std::move(options), block));
    }
    return fill_from_file(owner, resolved, source, std::move(begun), std::move(options));
  }

  std::shared_ptr<BufferState> create(Device device, const DeviceBuffer& from,
                                      TransferOptions options) {
    const BufferState& source = require_buffer(from.state_);
    source.require_open();
    const RegisteredBackend& owner = registry_.backend(device);
    if (source.bytes() == 0 || &source.backend() != owner.backend.get()) {
      const HostBlock block = read_all(from, 0, source.bytes());
      return create(device, block.get(), source.bytes(), keeping(std::move(options), block));
    }
    return create(device, source.bytes(), std::move(options),
                  [&](const BufferState& state, const auto& transfer) {
                    auto buffer =
                        require_given(owner.backend->copy(source.buffer(), state.device().ordinal(),
                                                          transfer->add_operation(source.bytes())),
                                      state);
                    set_->count_copied(state.device(), source.bytes());
                    return buffer;
                  });
  }

  std::shared_ptr<BufferState> create(Device device, const void* source, std::size_t bytes,
                                      StreamRef stream, TransferOptions options) {
    static_cast<void>(registry_.backend(device));
    if (bytes > 0) check_range(source, bytes, kSourceName);
    const HostBlock block = host_block(bytes);
    copier_.copy(block.get(), source, bytes, stream);
    return create(device, block.get(), bytes, keeping(std::move(options), block));
  }

  Transfer copy(void* target, const DeviceBuffer& source, std::size_t offset, std::size_t bytes,
                StreamRef stream, TransferOptions options) {
    const HostBlock block = read_all(source, offset, bytes);
    return copier_.start(target, block.get(), bytes, stream, keeping(std::move(options), block));
  }

  std::vector<DeviceBuffer> scatter(const void* source, std::size_t bytes,
                                    std::span<const BufferShard> shards, TransferOptions options) {
    require_sum(kScatterNames, bytes, shards, &BufferShard::bytes);
    if (bytes > 0) check_range(source, bytes, kSourceName);
    const std::size_t part_bytes = part_bytes_of(options, bytes);
    std::vector<std::shared_ptr<BufferState>> states;
    for (const BufferShard& shard : shards) {
      states.push_back(std::make_shared<BufferState>(set_, registry_.backend(shard.device),
                                                     registry_.resolve(shard.device), shard.bytes));
    }
    std::vector<std::unique_ptr<DeviceBackend::Buffer>> filled(shards.size());
    std::vector<DeviceBuffer> buffers;
    buffers.reserve(shards.size());
    const Transfer ready = run_transfer(
        set_, TransferName{"scattering, first to a buffer of", states[0]->device()}, bytes,
        std::move(options), [&](const std::shared_ptr<BufferTransfer>& transfer) {
          if (bytes > 0) set_->require_host_memory(source, bytes, kSourceName);
          const auto* from = static_cast<const std::byte*>(source);
          HostFills fills(transfer, part_bytes);
          for (std::size_t index = 0; index < states.size(); ++index) {
            const BufferState& state = *states[index];
            if (state.bytes() == 0) continue;
            filled[index] = fills.add(state, from);
            from += state.bytes();
          }
          BERTH_CHECK(from == static_cast<const std::byte*>(source) + bytes);
          fills.post();
          transfer->finish();
        });
    for (std::size_t index = 0; index < states.size(); ++index) {
      states[index]->fill(std::move(filled[index]), ready);
      buffers.push_back(DeviceBuffer(std::move(states[index])));
    }
    return buffers;
  }

  Transfer gather(void* target, std::size_t bytes, std::span<const DeviceBuffer* const> sources,
                  TransferOptions options) {
    for (const DeviceBuffer* const source : sources) {
      if (source == nullptr) detail::refuse_empty("buffer");
      const BufferState& state = require_buffer(source->state_);
      state.require_open();
      if (state.set() != set_) {
        throw InvalidArgument(
            format_text("gather: a buffer of {} belongs to another Runtime, which is not accepted",
                        state.device().to_string()));
      }
    }
    require_sum(kGatherNames, bytes, sources, &DeviceBuffer::bytes);
    if (bytes > 0) check_range(target, bytes, kTargetName);
    const std::size_t part_bytes = part_bytes_of(options, bytes);
    return run_transfer(set_, TransferName{"gathering, first a buffer of", sources[0]->device()},
                        bytes, std::move(options),
                        [&](const std::shared_ptr<BufferTransfer>& transfer) {
                          if (bytes > 0) set_->require_host_memory(target, bytes, kTargetName);
                          auto* to = static_cast<std::byte*>(target);
                          HostReads reads(transfer, part_bytes);
                          for (const DeviceBuffer* const source : sources) {
                            const BufferState& state = *source->state_;
                            if (state.bytes() == 0) continue;
                            reads.add(state, 0, {to, state.bytes()});
                            to += state.bytes();
                          }
                          BERTH_CHECK(to == static_cast<std::byte*>(target) + bytes);
                          reads.post();
                          transfer->finish();
                        });
  }

  std::unique_ptr<HostMappingState> map_host_memory(Device device, void* data, std::size_t bytes) {
    const RegisteredBackend& owner = registry_.backend(device);
    set_->require_open();
    if (bytes == 0) return nullptr;
    check_range(data, bytes, kMappedName);
    set_->require_host_memory(data, bytes, kMappedName);
    return std::make_unique<HostMappingState>(set_, owner,
                                              std::span(static_cast<std::byte*>(data), bytes));
  }

  std::size_t trim() {
    set_->require_open();
    return set_->works().trim();
  }

  [[nodiscard]] BufferCounters counters(Device device) const {
    static_cast<void>(registry_.backend(device));
    return set_->counters(registry_.resolve(device));
  }

 private:
  /// `begin(state, transfer)` begins the operations and returns the backend's buffer, which is not
  /// null, or throws. It is called only if there are bytes, which it counts.
  template <class Begin>
  std::shared_ptr<BufferState> create(Device device, std::size_t bytes, TransferOptions options,
                                      const Begin& begin) {
    const RegisteredBackend& owner = registry_.backend(device);
    const Device resolved = registry_.resolve(device);
    const auto state = std::make_shared<BufferState>(set_, owner, resolved, bytes);
    std::unique_ptr<DeviceBackend::Buffer> buffer;
    Transfer ready =
        run_transfer(set_, TransferName{"filling a buffer of", resolved}, bytes, std::move(options),
                     [&](const std::shared_ptr<BufferTransfer>& transfer) {
                       if (bytes > 0) buffer = begin(*state, transfer);
                       transfer->finish();
                     });
    state->fill(std::move(buffer), std::move(ready));
    return state;
  }

  std::shared_ptr<BufferState> fill_from_file(const RegisteredBackend& owner, Device device,
                                              const FileRange& source, DeviceBackend::Begun begun,
                                              TransferOptions options) {
    const auto state = std::make_shared<BufferState>(set_, owner, device, source.bytes);
    begun.buffer = require_given(std::move(begun.buffer), *state);
    Transfer ready =
        run_transfer(set_, TransferName{"filling a buffer of", device}, source.bytes,
                     std::move(options), [&](const std::shared_ptr<BufferTransfer>& transfer) {
                       auto filling = std::make_shared<FileFilling>(
                           transfer, *state, std::move(begun.filling), source);
                       state->work().files().start();
                       set_->count_written(device, source.bytes);
                       PartTask::post(std::move(filling));
                       transfer->finish();
                     });
    state->fill(std::move(begun.buffer), std::move(ready));
    return state;
  }

  static HostBlock read_all(const DeviceBuffer& source, std::size_t offset, std::size_t bytes) {
    const HostBlock block = host_block(bytes);
    source.read(block.get(), offset, bytes, {.keep_alive = block}).wait();
    return block;
  }

  const DeviceRegistry& registry_;
  Copier& copier_;
  const std::shared_ptr<BufferSet> set_;
};

DeviceBuffers::DeviceBuffers(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                             HostAllocator& host, Copier& copier, ReportSink sink)
    : impl_(
          std::make_unique<Impl>(registry, OwnHostMemory{pinned, host}, copier, std::move(sink))) {}

DeviceBuffers::~DeviceBuffers() = default;

DeviceBuffer DeviceBuffers::create(Device device, const void* source, std::size_t bytes,
                                   TransferOptions options) {
  return DeviceBuffer(impl_->create(device, source, bytes, std::move(options)));
}

DeviceBuffer DeviceBuffers::create(Device device, const FileRange& source,
                                   TransferOptions options) {
  return DeviceBuffer(impl_->create(device, source, std::move(options)));
}

DeviceBuffer DeviceBuffers::create(Device device, const DeviceBuffer& source,
                                   TransferOptions options) {
  return DeviceBuffer(impl_->create(device, source, std::move(options)));
}

DeviceBuffer DeviceBuffers::create(Device device, const void* source, std::size_t bytes,
                                   StreamRef stream, TransferOptions options) {
  return DeviceBuffer(impl_->create(device, source, bytes, stream, std::move(options)));
}

Transfer DeviceBuffers::copy(void* target, const DeviceBuffer& source, std::size_t offset,
                             std::size_t bytes, StreamRef stream, TransferOptions options) {
  return impl_->copy(target, source, offset, bytes, stream, std::move(options));
}

std::vector<DeviceBuffer> DeviceBuffers::scatter(const void* source, std::size_t bytes,
                                                 std::span<const BufferShard> shards,
                                                 TransferOptions options) {
  return impl_->scatter(source, bytes, shards, std::move(options));
}

Transfer DeviceBuffers::gather(void* target, std::size_t bytes,
                               std::span<const DeviceBuffer* const> sources,
                               TransferOptions options) {
  return impl_->gather(target, bytes, sources, std::move(options));
}

Transfer DeviceBuffers::gather(void* target, std::size_t bytes,
                               std::span<const DeviceBuffer> sources, TransferOptions options) {
  std::vector<const DeviceBuffer*> pointers;
  for (const DeviceBuffer& source : sources) pointers.push_back(&source);
  return impl_->gather(target, bytes, pointers, std::move(options));
}

HostMapping DeviceBuffers::map_host_memory(Device device, void* data, std::size_t bytes) {
  return HostMapping(impl_->map_host_memory(device, data, bytes));
}

std::size_t DeviceBuffers::trim() {
  return impl_->trim();
}

BufferCounters DeviceBuffers::counters(Device device) const {
  return impl_->counters(device);
}

}  // namespace berth
