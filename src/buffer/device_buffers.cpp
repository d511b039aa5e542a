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

#include "base/fork.hpp"
#include "base/format.hpp"
#include "buffer/buffer_operations.hpp"
#include "buffer/file_filling.hpp"
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
  struct Both {
    HostBlock block;
    std::shared_ptr<const void> owner;
  };
  options.keep_alive = std::make_shared<const Both>(Both{block, std::move(options.keep_alive)});
  return options;
}

/// What a backend gave for a buffer that has bytes.
/// Errors  BackendError: null.
std::unique_ptr<DeviceBackend::Buffer> require_given(std::unique_ptr<DeviceBackend::Buffer> buffer,
                                                     const RegisteredBackend& owner,
                                                     Device device) {
  if (buffer != nullptr) return buffer;
  throw BackendError(
      format_text("the backend of {} ({}) gave no buffer", device.to_string(), owner.name), 0);
}

/// Checks the sizes of the parts of a scatter or gather.
template <class Parts, class BytesOf>
void require_sum(const char* name, const Parts& parts, const BytesOf& bytes_of, std::size_t bytes) {
  if (parts.empty()) throw InvalidArgument(format_text("{}: no parts; accepted: some", name));
  std::size_t left = bytes;
  bool fits = true;
  for (const auto& part : parts) {
    fits = fits && bytes_of(part) <= left;
    if (fits) left -= bytes_of(part);
  }
  if (fits && left == 0) return;
  throw InvalidArgument(format_text(
      "{}: the {} parts do not add up to {} B; accepted: parts that add up to the whole", name,
      parts.size(), bytes));
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
    return create(device, bytes, &BufferSet::count_written, std::move(options),
                  [&](BufferState& state, const auto& transfer) {
                    set_->require_host_memory(source, bytes, kSourceName);
                    return start_filling(state, source, *transfer);
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
    begun.buffer = require_given(std::move(begun.buffer), owner, resolved);
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
    return create(device, source.bytes(), &BufferSet::count_copied, std::move(options),
                  [&](BufferState& state, const auto& transfer) {
                    return owner.backend->copy(source.buffer(), state.device().ordinal(),
                                               transfer->add_operation(source.bytes()));
                  });
  }

  std::shared_ptr<BufferState> create(Device device, const void* source, std::size_t bytes,
                                      StreamRef stream, TransferOptions options) {
    static_cast<void>(registry_.backend(device));
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
    require_sum(
        "scatter", shards, [](const BufferShard& shard) { return shard.bytes; }, bytes);
    if (bytes > 0) check_range(source, bytes, kSourceName);
    set_->require_open();
    std::vector<std::shared_ptr<BufferState>> states;
    for (const BufferShard& shard : shards) {
      states.push_back(std::make_shared<BufferState>(set_, registry_.backend(shard.device),
                                                     registry_.resolve(shard.device), shard.bytes));
    }
    std::vector<std::unique_ptr<DeviceBackend::Buffer>> filled(shards.size());
    const Transfer ready = run_transfer(
        set_, TransferName{"scattering, first to a buffer of", states[0]->device()}, bytes,
        std::move(options), [&](const std::shared_ptr<BufferTransfer>& transfer) {
          if (bytes > 0) set_->require_host_memory(source, bytes, kSourceName);
          const auto* from = static_cast<const std::byte*>(source);
          for (std::size_t index = 0; index < states.size(); ++index) {
            const BufferState& state = *states[index];
            if (state.bytes() == 0) continue;
            filled[index] = require_given(start_filling(state, from, *transfer),
                                          registry_.backend(state.device()), state.device());
            set_->count_written(state.device(), state.bytes());
            from += state.bytes();
          }
          transfer->finish();
        });
    std::vector<DeviceBuffer> buffers;
    buffers.reserve(states.size());
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
    require_sum(
        "gather", sources, [](const DeviceBuffer* source) { return source->bytes(); }, bytes);
    if (bytes > 0) check_range(target, bytes, kTargetName);
    return run_transfer(set_, TransferName{"gathering, first a buffer of", sources[0]->device()},
                        bytes, std::move(options),
                        [&](const std::shared_ptr<BufferTransfer>& transfer) {
                          if (bytes > 0) set_->require_host_memory(target, bytes, kTargetName);
                          auto* to = static_cast<std::byte*>(target);
                          for (const DeviceBuffer* const source : sources) {
                            const BufferState& state = *source->state_;
                            if (state.bytes() == 0) continue;
                            start_reading(state, 0, {to, state.bytes()}, *transfer);
                            to += state.bytes();
                          }
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

  [[nodiscard]] BufferCounters counters(Device device) const {
    static_cast<void>(registry_.backend(device));
    return set_->counters(registry_.resolve(device));
  }

 private:
  using Count = void (BufferSet::*)(Device device, std::size_t bytes);

  /// `begin(state, transfer)` begins the operations and returns the backend's buffer, or throws. It
  /// is called only if there are bytes, which `count` then counts.
  template <class Begin>
  std::shared_ptr<BufferState> create(Device device, std::size_t bytes, Count count,
                                      TransferOptions options, const Begin& begin) {
    const RegisteredBackend& owner = registry_.backend(device);
    const Device resolved = registry_.resolve(device);
    set_->require_open();
    const auto state = std::make_shared<BufferState>(set_, owner, resolved, bytes);
    std::unique_ptr<DeviceBackend::Buffer> buffer;
    Transfer ready =
        run_transfer(set_, TransferName{"filling a buffer of", resolved}, bytes, std::move(options),
                     [&](const std::shared_ptr<BufferTransfer>& transfer) {
                       if (bytes > 0) {
                         buffer = require_given(begin(*state, transfer), owner, resolved);
                         (set_.get()->*count)(resolved, bytes);
                       }
                       transfer->finish();
                     });
    state->fill(std::move(buffer), std::move(ready));
    return state;
  }

  std::shared_ptr<BufferState> fill_from_file(const RegisteredBackend& owner, Device device,
                                              const FileRange& source, DeviceBackend::Begun begun,
                                              TransferOptions options) {
    const auto state = std::make_shared<BufferState>(set_, owner, device, source.bytes);
    Transfer ready = run_transfer(
        set_, TransferName{"filling a buffer of", device}, source.bytes, std::move(options),
        [&](const std::shared_ptr<BufferTransfer>& transfer) {
          auto filling = std::make_shared<FileFilling>(transfer, std::move(begun.filling), source);
          set_->start_work();
          set_->count_written(device, source.bytes);
          set_->post_work(std::move(filling));  // which finishes the transfer
        });
    state->fill(std::move(begun.buffer), std::move(ready));
    return state;
  }

  /// Starts to fill a buffer that has bytes.
  static std::unique_ptr<DeviceBackend::Buffer> start_filling(const BufferState& state,
                                                              const void* source,
                                                              BufferTransfer& transfer) {
    return state.backend().create_buffer(
        state.device().ordinal(), std::span(static_cast<const std::byte*>(source), state.bytes()),
        transfer.add_operation(state.bytes()));
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

BufferCounters DeviceBuffers::counters(Device device) const {
  return impl_->counters(device);
}

}  // namespace berth
