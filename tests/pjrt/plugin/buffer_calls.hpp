// SPDX-License-Identifier: Apache-2.0
// The functions of the plug-in that create, fill, read and copy buffers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "pjrt/plugin/common.hpp"

namespace berth::pjrt {

/// Memory of a device; null and an error if there is none.
inline std::shared_ptr<Content> new_content(Device& device, std::size_t bytes, Error*& error) {
  auto content = std::make_unique<Content>();
  try {
    content->storage = device.client->machine->allocate(device.description.id, bytes);
  } catch (const MachineError& refusal) {
    error = new_error(refusal.code, refusal.what());
    return nullptr;
  }
  *device.bytes_in_use += std::int64_t(bytes);
  return {content.release(), [in_use = device.bytes_in_use](Content* freed) {
            *in_use -= std::int64_t(freed->storage->bytes());
            delete freed;
          }};
}

inline Error* refuse_beyond(const Device& device, std::int64_t bytes) {
  if (*device.bytes_in_use + bytes <= device.client->knobs.memory_bytes) return nullptr;
  return new_error(Code::resource_exhausted, "no room for " + std::to_string(bytes) + " bytes");
}

inline Error* call(const Function<BufferFromHostArgs>& function, BufferFromHostArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  Client& client = *args.client;
  RETURN_IF_ERROR(told_error(client, function));
  RETURN_IF_ERROR(refuse_beyond(*args.device, args.dims[0]));
  const auto bytes = static_cast<std::size_t>(args.dims[0]);
  Error* error = nullptr;
  const auto content = new_content(*args.device, bytes, error);
  if (content == nullptr) return error;
  const auto done = std::make_shared<Completion>();
  if (!gives_nothing(client, function)) args.buffer = new Buffer{&client, args.device, content};
  args.done_with_host_buffer = new Event{done, &client};
  run(client, function, content->filled, nullptr, [content, data = args.data, bytes] {
    const Storage::Write started = content->storage->write(0, data, bytes);
    content->source_read = started.source_read;
    return started.done;
  });
  const auto end_use = [content, done] {
    content->filled->when_started(
        [content, done] { done->end(Code::ok, "", content->source_read); });
  };
  if (client.knobs.holds_source)
    held_ends.add(end_use);
  else
    end_use();
  return nullptr;
}

inline Error* call(const Function<BufferArgs>& function, BufferArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  if (args.buffer->client->knobs.leaks)
    leaked.keep(args.buffer);
  else
    delete args.buffer;
  return nullptr;
}

inline Error* call(const Function<CopyToDeviceArgs>& function, CopyToDeviceArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  Client& client = *args.source->client;
  RETURN_IF_ERROR(told_error(client, function));
  if (args.device == args.source->device)
    return new_error(Code::invalid_argument, "the buffer is on this device");
  const auto from = args.source->content;
  const std::size_t bytes = from->storage->bytes();
  RETURN_IF_ERROR(refuse_beyond(*args.device, std::int64_t(bytes)));
  Error* error = nullptr;
  const auto to = new_content(*args.device, bytes, error);
  if (to == nullptr) return error;
  if (!gives_nothing(client, function)) args.copy = new Buffer{&client, args.device, to};
  run(client, function, to->filled, from,
      [from, to] { return to->storage->copy_from(*from->storage); });
  return nullptr;
}

inline Error* call(const Function<ToHostArgs>& function, ToHostArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  Client& client = *args.source->client;
  RETURN_IF_ERROR(told_error(client, function));
  const auto from = args.source->content;
  const std::size_t bytes = from->storage->bytes();
  if (args.target_bytes < bytes)
    return new_error(Code::invalid_argument, "the target is too small");
  const auto done = std::make_shared<Completion>();
  run(client, function, done, from,
      [from, target = args.target, bytes] { return from->storage->read(0, target, bytes); });
  args.event = event_of(client, function, done);
  return nullptr;
}

inline Error* call(const Function<ReadyEventArgs>& function, ReadyEventArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.buffer->client, function));
  args.event = event_of(*args.buffer->client, function, args.buffer->content->filled);
  return nullptr;
}

inline Error* call(const Function<RawToHostArgs>& function, RawToHostArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  Client& client = *args.source->client;
  RETURN_IF_ERROR(told_error(client, function));
  if (client.knobs.no_raw_reads) return new_error(Code::unimplemented, "no raw reads");
  const auto from = args.source->content;
  const auto done = std::make_shared<Completion>();
  run(client, function, done, from,
      [from, target = args.target, offset = args.offset, bytes = args.bytes] {
        return from->storage->read(std::size_t(offset), target, std::size_t(bytes));
      });
  args.event = event_of(client, function, done);
  return nullptr;
}

inline Error* call(const Function<CreateAsyncArgs>& function, CreateAsyncArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.client, function));
  if (args.client->knobs.no_parts) return new_error(Code::unimplemented, "no parts");
  RETURN_IF_ERROR(refuse_beyond(*args.memory->device, args.shapes[0].dims[0]));
  if (gives_nothing(*args.client, function)) return nullptr;
  Device& device = *args.memory->device;
  Error* error = nullptr;
  auto content = new_content(device, std::size_t(args.shapes[0].dims[0]), error);
  if (content == nullptr) return error;
  args.manager = new TransferManager{args.client, &device, std::move(content)};
  return nullptr;
}

inline Error* call(const Function<ManagerDestroyArgs>& function, ManagerDestroyArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  delete args.manager;
  return nullptr;
}

inline Error* call(const Function<TransferDataArgs>& function, TransferDataArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  Client& client = *args.manager->client;
  RETURN_IF_ERROR(told_error(client, function));
  const auto to = args.manager->content;
  const auto done = std::make_shared<Completion>();
  run(client, function, done, nullptr,
      [to, data = args.data, offset = args.offset, bytes = args.bytes] {
        return to->storage->write(std::size_t(offset), data, std::size_t(bytes)).done;
      });
  if (args.is_last)
    client.queue.post([to] { to->filled->end(Code::ok, "", to->storage->written()); });
  args.done = event_of(client, function, done);
  return nullptr;
}

inline Error* call(const Function<RetrieveBufferArgs>& function, RetrieveBufferArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  Client& client = *args.manager->client;
  RETURN_IF_ERROR(told_error(client, function));
  if (!gives_nothing(client, function))
    args.buffer = new Buffer{&client, args.manager->device, args.manager->content};
  return nullptr;
}

inline Error* call(const Function<SetBufferErrorArgs>& function, SetBufferErrorArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  args.manager->content->filled->end(args.code, std::string(args.message, args.message_bytes));
  return nullptr;
}

inline Error* call(const Function<DmaMapArgs>& function, DmaMapArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.client, function));
  const std::lock_guard lock(args.client->mutex);
  if (args.client->mapped.contains(args.data))
    return new_error(Code::already_exists, "the memory is mapped");
  try {
    args.client->machine->map(args.data, args.bytes);
  } catch (const MachineError& refusal) {
    return new_error(refusal.code, refusal.what());
  }
  args.client->mapped.emplace(args.data, args.bytes);
  ++live.mappings;
  return nullptr;
}

inline Error* call(const Function<DmaUnmapArgs>& function, DmaUnmapArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.client, function));
  const std::lock_guard lock(args.client->mutex);
  if (args.client->mapped.erase(args.data) == 0)
    return new_error(Code::not_found, "the memory is not mapped");
  args.client->machine->unmap(args.data);
  --live.mappings;
  return nullptr;
}

}  // namespace berth::pjrt
