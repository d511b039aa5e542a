// SPDX-License-Identifier: Apache-2.0
#include "pjrt/client.hpp"

#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "pjrt/buffer.hpp"
#include "pjrt/description.hpp"
#include "pjrt/filling.hpp"
#include "pjrt/given.hpp"
#include "pjrt/named_value.hpp"

namespace berth::pjrt {
namespace {

std::string text(const Api& api, const Function<ClientTextArgs>& function, Client* client) {
  ClientTextArgs args{};
  args.client = client;
  api.call(function, args);
  return std::string(require_text(api, function.name, args.text, args.text_bytes));
}

std::optional<std::uint64_t> known(std::int64_t value, bool is_set = true) {
  return is_set && value >= 0 ? std::optional(static_cast<std::uint64_t>(value)) : std::nullopt;
}

std::optional<std::uint64_t> known(const MaybeCount& count) {
  return known(count.value, count.is_set);
}

std::int64_t dimension(std::size_t bytes) {
  if (bytes <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()))
    return static_cast<std::int64_t>(bytes);
  throw InvalidArgument(format_text("a buffer of {} B; accepted: less than 2^63 B", bytes));
}

const PjrtBuffer& native_of(const DeviceBackend::Buffer& buffer) {
  return static_cast<const PjrtBuffer&>(buffer);
}

bool is_not_supported(const std::exception_ptr& failure) {
  if (failure == nullptr) return false;
  try {
    std::rethrow_exception(failure);
  } catch (const NotSupported&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

PjrtClient::PjrtClient(const Api& api, const std::vector<PjrtOption>& options)
    : api_(api), watch_(std::in_place, api), has_raw_reads_(api.has(raw_to_host)) {
  const std::vector<NamedValue> values = to_named_values(options);
  ClientCreateArgs args{};
  args.options = values.data();
  args.option_count = values.size();
  api_.call(client_create, args);
  client_ = args.client;
  if (client_ == nullptr) refuse_nothing(api_, "client");
  try {
    read_devices();
  } catch (...) {
    api_.destroy(client_destroy, {0, nullptr, client_});
    throw;
  }
}

PjrtClient::~PjrtClient() {
  watch_.reset();  // which may still ask for an event
  api_.destroy(client_destroy, {0, nullptr, client_});
}

void PjrtClient::read_devices() {
  ClientDevicesArgs args{};
  args.client = client_;
  api_.call(client_devices, args);
  const auto given = require_objects(api_, client_devices.name, args.devices, args.device_count);
  devices_.assign(given.begin(), given.end());
}

std::string PjrtClient::name() const {
  return name_of(api_, text(api_, client_platform_name, client_),
                 text(api_, client_platform_version, client_));
}

std::vector<DeviceAttribute> PjrtClient::attributes() const {
  return attributes_of(api_);
}

DeviceDescription PjrtClient::describe(int index) const {
  DeviceDescriptionArgs args{};
  args.device = device(index);
  api_.call(device_description, args);
  if (args.description == nullptr) refuse_nothing(api_, "description of a device");
  DeviceDescription described = pjrt::describe(api_, args.description);
  DeviceNumberArgs hardware{};
  hardware.device = device(index);
  api_.call(device_hardware_id, hardware);
  described.attributes.insert(described.attributes.begin() + 2,
                              {"local_hardware_id", std::int64_t{hardware.number}});
  if (described.memory_bytes) return described;
  try {
    described.memory_bytes = memory(index).bytes_limit;
  } catch (const berth::Error& error) {  // a device whose statistics fail can be used all the same
    described.attributes.push_back({"memory_stats_error", std::string(error.what())});
  }
  return described;
}

BackendMemory PjrtClient::memory(int index) const {
  MemoryStatsArgs args{};
  args.device = device(index);
  try {
    api_.call(memory_stats, args);
  } catch (const NotSupported&) {
    return {};
  }
  return {.bytes_used = known(args.bytes_in_use),
          .bytes_used_peak = known(args.bytes_in_use_peak),
          .bytes_limit = known(args.bytes_limit),
          .bytes_reserved = known(args.bytes_reserved),
          .bytes_reserved_peak = known(args.bytes_reserved_peak),
          .largest_free_block_bytes = known(args.largest_free_block_bytes),
          .allocations = known(args.allocations)};
}

Memory* PjrtClient::memory_of(int index) const {
  DeviceMemoryArgs args{};
  args.device = device(index);
  api_.call(device_memory, args);
  if (args.memory == nullptr) refuse_nothing(api_, "memory of a device");
  return args.memory;
}

std::unique_ptr<DeviceBackend::Buffer> PjrtClient::create_buffer(int index,
                                                                 std::span<const std::byte> content,
                                                                 Done done) {
  api_.require_single_ends();
  const std::int64_t bytes = dimension(content.size());
  BufferFromHostArgs args{};
  args.client = client_;
  args.data = content.data();
  args.element_type = kElementU8;
  args.dims = &bytes;
  args.dim_count = 1;
  args.host_buffer_semantics = kUntilTransferCompletes;
  args.device = device(index);
  auto buffer = std::make_unique<PjrtBuffer>(api_, index, content.size());
  api_.call(buffer_from_host, args);
  try {
    buffer->native()->own(args.buffer);
    watch_->when_both_ready(buffer_from_host.name, buffer->native()->ready(),
                            args.done_with_host_buffer, std::move(done));
    return buffer;
  } catch (...) {
    // The plug-in may still read the content.
    if (args.done_with_host_buffer != nullptr)
      static_cast<void>(watch_->await(buffer_from_host.name, args.done_with_host_buffer));
    throw;
  }
}

DeviceBackend::Begun PjrtClient::begin_buffer(int index, std::size_t bytes) {
  api_.require_single_ends();
  if (!api_.has(create_async) || !api_.has(transfer_data) || !api_.has(retrieve_buffer) ||
      !api_.has(set_buffer_error) || !api_.has(manager_destroy)) {
    return {};
  }
  const std::int64_t dims = dimension(bytes);
  ShapeSpec shape{offsetof(ShapeSpec, element_type) + sizeof(int), nullptr, &dims, 1, kElementU8};
  CreateAsyncArgs args{};
  args.client = client_;
  args.shapes = &shape;
  args.shape_count = 1;
  args.memory = memory_of(index);
  auto buffer = std::make_unique<PjrtBuffer>(api_, index, bytes);
  auto filling = std::make_unique<PjrtFilling>(*watch_);
  try {
    api_.call(create_async, args);
  } catch (const NotSupported&) {
    return {};
  }
  filling->own(args.manager);
  RetrieveBufferArgs retrieved{};
  retrieved.manager = args.manager;
  api_.call(retrieve_buffer, retrieved);
  buffer->native()->own(retrieved.buffer);
  filling->expect(buffer->native()->ready());
  return {std::move(buffer), std::move(filling)};
}

void PjrtClient::read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
                      Done done) {
  api_.require_single_ends();
  const PjrtBuffer& buffer = native_of(source);
  BERTH_CHECK(offset <= buffer.bytes() && target.size() <= buffer.bytes() - offset);
  const bool is_whole = offset == 0 && target.size() == buffer.bytes();
  if (is_whole) return read_whole(buffer.native(), target.data(), std::move(done));
  if (!try_read_raw(buffer, offset, target, done))
    read_part_of_whole(buffer.native(), offset, target, std::move(done));
}

/// Follows a raw read of a part. Some plug-ins report by its event that they do not implement it:
/// then the part is read from the whole buffer.
class PjrtClient::PartRead final : public Task, public std::enable_shared_from_this<PartRead> {
 public:
  PartRead(PjrtClient& client, NativeShare source, std::size_t offset, std::span<std::byte> target,
           Done done)
      : client_(client),
        source_(std::move(source)),
        offset_(offset),
        target_(target),
        done_(std::move(done)) {}

  /// May be called by the plug-in: does not call it.
  void end(std::exception_ptr failure) noexcept {
    is_unread_ = is_not_supported(failure);
    if (is_unread_) client_.has_raw_reads_ = false;
    failure_ = std::move(failure);
    if (!is_unread_ && source_.drop_unless_last()) return done_(std::move(failure_));
    client_.watch_->run_later(shared_from_this());
  }

 private:
  void run() noexcept override {
    NativeShare source = std::move(source_);
    if (is_unread_) {
      try {
        return client_.read_part_of_whole(std::move(source), offset_, target_, done_);
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    source.drop();
    done_(std::move(failure_));
  }

  PjrtClient& client_;
  NativeShare source_;
  const std::size_t offset_;
  const std::span<std::byte> target_;
  const Done done_;
  std::exception_ptr failure_;
  bool is_unread_ = false;
};

bool PjrtClient::try_read_raw(const PjrtBuffer& buffer, std::size_t offset,
                              std::span<std::byte> target, const Done& done) {
  if (!has_raw_reads_.load(std::memory_order_relaxed)) return false;
  const auto read = std::make_shared<PartRead>(*this, buffer.native(), offset, target, done);
  // Allocated before the plug-in begins to write the target.
  Done end = [read](std::exception_ptr failure) { read->end(std::move(failure)); };
  RawToHostArgs args{};
  args.source = buffer.native()->get();
  args.target = target.data();
  args.offset = static_cast<std::int64_t>(offset);
  args.bytes = static_cast<std::int64_t>(target.size());
  if (Error* const error = api_.try_call(raw_to_host, args)) {
    if (api_.code_of(error) != Code::unimplemented) api_.raise(raw_to_host.name, error);
    api_.drop(error);
    has_raw_reads_ = false;
    return false;
  }
  watch_->when_ready(raw_to_host.name, args.event, std::move(end));
  return true;
}

void PjrtClient::read_part_of_whole(NativeShare source, std::size_t offset,
                                    std::span<std::byte> target, Done done) {
  const auto whole = std::make_shared_for_overwrite<std::byte[]>(source->bytes());
  read_whole(std::move(source), whole.get(),
             [whole, offset, target, done = std::move(done)](std::exception_ptr failure) {
               if (failure == nullptr)
                 std::memcpy(target.data(), whole.get() + offset, target.size());
               done(std::move(failure));
             });
}

void PjrtClient::read_whole(NativeShare source, std::byte* target, Done done) {
  ToHostArgs args{};
  args.source = source->get();
  args.target = target;
  args.target_bytes = source->bytes();
  api_.call(to_host, args);
  source.drop();
  watch_->when_ready(to_host.name, args.event, std::move(done));
}

std::unique_ptr<DeviceBackend::Buffer> PjrtClient::copy(const Buffer& source, int index,
                                                        Done done) {
  api_.require_single_ends();
  const PjrtBuffer& from = native_of(source);
  if (from.device() == index) {
    // The ABI refuses a copy to the same device.
    const auto content = std::make_shared_for_overwrite<std::byte[]>(from.bytes());
    ToHostArgs args{};
    args.source = from.native()->get();
    args.target = content.get();
    args.target_bytes = from.bytes();
    api_.call(to_host, args);
    if (const std::exception_ptr failure = watch_->await(to_host.name, args.event))
      std::rethrow_exception(failure);
    return create_buffer(index, {content.get(), from.bytes()},
                         [content, done = std::move(done)](std::exception_ptr failure) {
                           done(std::move(failure));
                         });
  }
  CopyToDeviceArgs args{};
  args.source = from.native()->get();
  args.device = device(index);
  auto buffer = std::make_unique<PjrtBuffer>(api_, index, from.bytes());
  api_.call(copy_to_device, args);
  buffer->native()->own(args.copy);
  watch_->when_ready(copy_to_device.name, buffer->native()->ready(), std::move(done));
  return buffer;
}

bool PjrtClient::map_host_memory(std::span<std::byte> memory) {
  api_.require_single_ends();
  if (!api_.has(dma_map) || !api_.has(dma_unmap)) return false;
  DmaMapArgs args{};
  args.client = client_;
  args.data = memory.data();
  args.bytes = memory.size();
  api_.call(dma_map, args);
  return true;
}

void PjrtClient::unmap_host_memory(std::byte* memory) {
  DmaUnmapArgs args{};
  args.client = client_;
  args.data = memory;
  api_.call(dma_unmap, args);
}

}  // namespace berth::pjrt
