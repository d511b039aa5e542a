// SPDX-License-Identifier: Apache-2.0
// The functions of the plug-in that create, fill, read and copy buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "pjrt/plugin/common.hpp"

namespace berth::pjrt {

inline std::shared_ptr<Content> new_content(Device& device, std::size_t bytes) {
  auto* const content = new Content;
  content->bytes.resize(bytes);
  *device.bytes_in_use += std::int64_t(bytes);
  return {content, [in_use = device.bytes_in_use](Content* freed) {
            *in_use -= std::int64_t(freed->bytes.size());
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
  const auto content = new_content(*args.device, bytes);
  const auto done = std::make_shared<Completion>();
  if (!gives_nothing(client, function)) args.buffer = new Buffer{&client, args.device, content};
  args.done_with_host_buffer = new Event{done, &client};
  run(client, function, content->filled, nullptr,
      [content, data = args.data, bytes] { std::memcpy(content->bytes.data(), data, bytes); });
  if (client.knobs.holds_source)
    held_ends.add([done] { done->end(Code::ok, ""); });
  else
    client.queue.post([done] { done->end(Code::ok, ""); });
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
  RETURN_IF_ERROR(refuse_beyond(*args.device, std::int64_t(from->bytes.size())));
  const auto to = new_content(*args.device, from->bytes.size());
  if (!gives_nothing(client, function)) args.copy = new Buffer{&client, args.device, to};
  // Not by assignment, which writes the size while another thread may read it.
  run(client, function, to->filled, from,
      [from, to] { std::ranges::copy(from->bytes, to->bytes.begin()); });
  return nullptr;
}

inline Error* call(const Function<ToHostArgs>& function, ToHostArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  Client& client = *args.source->client;
  RETURN_IF_ERROR(told_error(client, function));
  const auto from = args.source->content;
  if (args.target_bytes < from->bytes.size())
    return new_error(Code::invalid_argument, "the target is too small");
  const auto done = std::make_shared<Completion>();
  run(client, function, done, from, [from, target = args.target] {
    std::memcpy(target, from->bytes.data(), from->bytes.size());
  });
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
        std::memcpy(target, from->bytes.data() + offset, std::size_t(bytes));
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
  args.manager = new TransferManager{args.client, &device,
                                     new_content(device, std::size_t(args.shapes[0].dims[0]))};
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
        std::memcpy(to->bytes.data() + offset, data, std::size_t(bytes));
      });
  if (args.is_last) client.queue.post([to] { to->filled->end(Code::ok, ""); });
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
  if (!args.client->mapped.emplace(args.data, args.bytes).second)
    return new_error(Code::already_exists, "the memory is mapped");
  ++live.mappings;
  return nullptr;
}

inline Error* call(const Function<DmaUnmapArgs>& function, DmaUnmapArgs& args) {
  RETURN_IF_ERROR(check_size(function, args));
  RETURN_IF_ERROR(told_error(*args.client, function));
  const std::lock_guard lock(args.client->mutex);
  if (args.client->mapped.erase(args.data) == 0)
    return new_error(Code::not_found, "the memory is not mapped");
  --live.mappings;
  return nullptr;
}

}  // namespace berth::pjrt
