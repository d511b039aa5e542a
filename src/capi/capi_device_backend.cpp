// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "berth/device_backend.h"

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/json_writer.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"
#include "capi/capi_file.hpp"
#include "capi/capi_transfer.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_buffer {
  berth::DeviceBuffer buffer;
};

struct berth_host_mapping {
  berth::HostMapping mapping;
};

namespace {

PjrtOption to_option(const berth_pjrt_option& option) {
  const std::string name = &require(option.name, "options[].name");
  switch (option.type) {
    case BERTH_PJRT_INT64:
      return {name, option.integer};
    case BERTH_PJRT_BOOL:
      return {name, option.integer != 0};
    case BERTH_PJRT_FLOAT:
      return {name, static_cast<float>(option.number)};
    case BERTH_PJRT_STRING:
      return {name, std::string(&require(option.text, "options[].text"))};
    default:
      throw InvalidArgument(
          format_text("\"options[].type\" is {}; accepted: BERTH_PJRT_INT64, BERTH_PJRT_BOOL, "
                      "BERTH_PJRT_FLOAT, BERTH_PJRT_STRING",
                      option.type));
  }
}

std::vector<PjrtOption> to_options(const berth_pjrt_option* options, std::size_t count) {
  if (count > 0) require(options, "options");
  std::vector<PjrtOption> chosen;
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(to_option(options[i]));
  return chosen;
}

std::uint64_t or_max(const std::optional<std::uint64_t>& value) {
  return value.value_or(std::numeric_limits<std::uint64_t>::max());
}

struct WriteAttribute {
  JsonWriter& json;
  void operator()(double value) const { json.value(value); }
  void operator()(const std::vector<std::int64_t>& values) const {
    json.begin_array();
    for (const std::int64_t value : values) json.value(value);
    json.end_array();
  }
  template <class Value>
  void operator()(const Value& value) const {
    json.value(value);
  }
};

void write_attributes(JsonWriter& json, const std::vector<DeviceAttribute>& attributes) {
  json.begin_object();
  for (const DeviceAttribute& attribute : attributes) {
    json.key(attribute.name);
    std::visit(WriteAttribute{json}, attribute.value);
  }
  json.end_object();
}

std::string json_of(const DeviceDescription& description) {
  JsonWriter json;
  json.begin_object().field("name", description.name).field("kind", description.kind);
  json.key("memory_bytes");
  if (description.memory_bytes) {
    json.value(*description.memory_bytes);
  } else {
    json.null();
  }
  write_attributes(json.key("attributes"), description.attributes);
  return std::move(json.end_object()).take();
}

/// `create` receives the runtime and the options, and returns the buffer.
template <class Create>
berth_status create_buffer(berth_runtime* runtime, const berth_transfer_options* options,
                           berth_buffer** buffer, const Create& create) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(buffer, "buffer");
    const std::shared_ptr<Ownership> ownership = to_ownership(options);
    auto created = std::make_unique<berth_buffer>();
    created->buffer = create(owner, to_transfer_options(options, ownership));
    if (ownership != nullptr) ownership->set_started();
    created->buffer.ready().detach();  // berth_buffer_free() does not wait
    out = created.release();
  });
}

}  // namespace

berth_status berth_pjrt_register(berth_runtime* runtime, const char* type, const char* path,
                                 const berth_pjrt_option* options, size_t option_count) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    require(type, "type");
    require(path, "path");
    owner.register_pjrt(type, path, to_options(options, option_count));
  });
}

berth_status berth_pjrt_register_topology(berth_runtime* runtime, const char* type,
                                          const char* path, const char* topology,
                                          const berth_pjrt_option* options, size_t option_count) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    require(type, "type");
    require(path, "path");
    require(topology, "topology");
    const PjrtPlugin plugin{type, path, to_options(options, option_count)};
    const DeviceType registered = DeviceType::register_name(type);
    owner.devices().require_no_backend(registered);  // before the plug-in is loaded
    owner.register_backend(registered, open_pjrt_topology(plugin, topology));
  });
}

berth_status berth_device_type_get_device_count(berth_runtime* runtime, int type, int* count) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(count, "count");
    out = devices.count(to_device_type(type, "type"));
  });
}

berth_status berth_device_type_get_backend(berth_runtime* runtime, int type, char** name) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(name, "name");
    out = to_owned_text(devices.backend_name(to_device_type(type, "type")));
  });
}

berth_status berth_device_type_get_attributes(berth_runtime* runtime, int type, char** json) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(json, "json");
    JsonWriter writer;
    write_attributes(writer, devices.backend_attributes(to_device_type(type, "type")));
    out = to_owned_text(std::move(writer).take());
  });
}

berth_status berth_device_type_get_problem(berth_runtime* runtime, int type, char** problem) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(problem, "problem");
    out = to_owned_text(devices.backend_problem(to_device_type(type, "type")));
  });
}

berth_status berth_device_type_explain(berth_runtime* runtime, int type, char** json) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(json, "json");
    JsonWriter writer;
    writer.begin_array();
    for (const DeviceExplanation& each : devices.explain(to_device_type(type, "type"))) {
      writer.begin_object().key("logical");
      if (each.logical) {
        writer.value(std::int64_t{*each.logical});
      } else {
        writer.null();
      }
      writer.field("physical", std::int64_t{each.physical}).field("sentence", each.sentence);
      writer.end_object();
    }
    out = to_owned_text(std::move(writer.end_array()).take());
  });
}

berth_status berth_device_describe(berth_runtime* runtime, berth_device device, char** json) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(json, "json");
    out = to_owned_text(json_of(devices.describe(to_device(device))));
  });
}

berth_status berth_device_get_backend_memory(berth_runtime* runtime, berth_device device,
                                             berth_backend_memory* memory) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require_struct(memory, "memory");
    const BackendMemory reported = devices.device_memory(to_device(device));
    write_struct({.struct_size = 0,
                  .bytes_used = or_max(reported.bytes_used),
                  .bytes_used_peak = or_max(reported.bytes_used_peak),
                  .bytes_limit = or_max(reported.bytes_limit),
                  .bytes_reserved = or_max(reported.bytes_reserved),
                  .bytes_reserved_peak = or_max(reported.bytes_reserved_peak),
                  .largest_free_block_bytes = or_max(reported.largest_free_block_bytes),
                  .allocations = or_max(reported.allocations)},
                 out);
  });
}

berth_status berth_buffer_create(berth_runtime* runtime, berth_device device, const void* source,
                                 size_t bytes, const berth_transfer_options* options,
                                 berth_buffer** buffer) {
  return create_buffer(runtime, options, buffer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.buffers().create(to_device(device), source, bytes, std::move(chosen));
  });
}

berth_status berth_buffer_create_from_file(berth_runtime* runtime, berth_device device,
                                           berth_file* source, uint64_t offset, size_t bytes,
                                           const berth_transfer_options* options,
                                           berth_buffer** buffer) {
  return create_buffer(runtime, options, buffer, [&](Runtime& owner, TransferOptions chosen) {
    const FileRange range{require(source, "source").file, offset, bytes};
    return owner.buffers().create(to_device(device), range, std::move(chosen));
  });
}

berth_status berth_buffer_create_copy(berth_runtime* runtime, berth_device device,
                                      berth_buffer* source, const berth_transfer_options* options,
                                      berth_buffer** buffer) {
  return create_buffer(runtime, options, buffer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.buffers().create(to_device(device), require(source, "source").buffer,
                                  std::move(chosen));
  });
}

berth_status berth_buffer_create_on_stream(berth_runtime* runtime, berth_device device,
                                           const void* source, size_t bytes, berth_stream stream,
                                           const berth_transfer_options* options,
                                           berth_buffer** buffer) {
  return create_buffer(runtime, options, buffer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.buffers().create(to_device(device), source, bytes, to_stream(stream),
                                  std::move(chosen));
  });
}

void berth_buffer_free(berth_buffer* buffer) {
  delete buffer;
}

berth_status berth_buffer_get_device(berth_buffer* buffer, berth_device* device) {
  return guarded([&] {
    const DeviceBuffer& asked = require(buffer, "buffer").buffer;
    require(device, "device") = from_device(asked.device());
  });
}

berth_status berth_buffer_get_bytes(berth_buffer* buffer, size_t* bytes) {
  return guarded([&] {
    const DeviceBuffer& asked = require(buffer, "buffer").buffer;
    require(bytes, "bytes") = asked.bytes();
  });
}

berth_status berth_buffer_get_transfer(berth_buffer* buffer, berth_transfer** transfer) {
  return guarded([&] {
    const DeviceBuffer& asked = require(buffer, "buffer").buffer;
    auto& out = require(transfer, "transfer");
    out = new berth_transfer{asked.ready()};
  });
}

berth_status berth_buffer_read(berth_buffer* buffer, void* target, size_t offset, size_t bytes,
                               const berth_transfer_options* options, berth_transfer** transfer) {
  return guarded([&] {
    const DeviceBuffer& source = require(buffer, "buffer").buffer;
    start_detached(options, transfer, [&](TransferOptions chosen) {
      return source.read(target, offset, bytes, std::move(chosen));
    });
  });
}

berth_status berth_buffer_read_to_file(berth_buffer* buffer, berth_file* target,
                                       uint64_t target_offset, size_t offset, size_t bytes,
                                       const berth_transfer_options* options,
                                       berth_transfer** transfer) {
  return guarded([&] {
    const DeviceBuffer& source = require(buffer, "buffer").buffer;
    const FileRange range{require(target, "target").file, target_offset, bytes};
    start_detached(options, transfer, [&](TransferOptions chosen) {
      return source.read(range, offset, std::move(chosen));
    });
  });
}

berth_status berth_buffer_copy(berth_runtime* runtime, void* target, berth_buffer* source,
                               size_t offset, size_t bytes, berth_stream stream,
                               const berth_transfer_options* options, berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.buffers().copy(target, require(source, "source").buffer, offset, bytes,
                                to_stream(stream), std::move(chosen));
  });
}

berth_status berth_buffer_scatter(berth_runtime* runtime, const void* source, size_t bytes,
                                  const berth_buffer_shard* shards, size_t shard_count,
                                  const berth_transfer_options* options, berth_buffer** buffers) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    static_cast<void>(require_array(shards, shard_count, "shards"));
    require(buffers, "buffers");
    std::vector<BufferShard> chosen;
    std::vector<std::unique_ptr<berth_buffer>> created;
    for (size_t i = 0; i < shard_count; ++i) {
      chosen.push_back({to_device(shards[i].device, "shards[].device"), shards[i].bytes});
      created.push_back(std::make_unique<berth_buffer>());
    }
    const std::shared_ptr<Ownership> ownership = to_ownership(options);
    std::vector<DeviceBuffer> filled =
        owner.buffers().scatter(source, bytes, chosen, to_transfer_options(options, ownership));
    BERTH_CHECK(filled.size() == shard_count);
    if (ownership != nullptr) ownership->set_started();
    filled.front().ready().detach();  // berth_buffer_free() does not wait
    for (size_t i = 0; i < shard_count; ++i) {
      created[i]->buffer = std::move(filled[i]);
      buffers[i] = created[i].release();
    }
  });
}

berth_status berth_buffer_gather(berth_runtime* runtime, void* target, size_t bytes,
                                 berth_buffer* const* sources, size_t source_count,
                                 const berth_transfer_options* options, berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    static_cast<void>(require_array(sources, source_count, "sources"));
    std::vector<const DeviceBuffer*> buffers;
    for (size_t i = 0; i < source_count; ++i)
      buffers.push_back(&require(sources[i], "sources[]").buffer);
    return owner.buffers().gather(target, bytes, std::span<const DeviceBuffer* const>(buffers),
                                  std::move(chosen));
  });
}

berth_status berth_host_mapping_create(berth_runtime* runtime, berth_device device, void* data,
                                       size_t bytes, berth_host_mapping** mapping) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(mapping, "mapping");
    auto created = std::make_unique<berth_host_mapping>();
    created->mapping = owner.buffers().map_host_memory(to_device(device), data, bytes);
    out = created.release();
  });
}

void berth_host_mapping_free(berth_host_mapping* mapping) {
  delete mapping;
}

berth_status berth_buffer_trim(berth_runtime* runtime, size_t* bytes_released) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(bytes_released, "bytes_released");
    out = owner.buffers().trim();
  });
}

berth_status berth_buffer_get_counters(berth_runtime* runtime, berth_device device,
                                       berth_buffer_counters* counters) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require_struct(counters, "counters");
    const BufferCounters counted = owner.buffers().counters(to_device(device));
    write_struct({.struct_size = 0,
                  .buffers_live = counted.buffers_live,
                  .bytes_live = counted.bytes_live,
                  .bytes_live_peak = counted.bytes_live_peak,
                  .buffers_created = counted.buffers_created,
                  .bytes_written = counted.bytes_written,
                  .bytes_read = counted.bytes_read,
                  .bytes_copied = counted.bytes_copied,
                  .staging_bytes = counted.staging_bytes},
                 out);
  });
}
