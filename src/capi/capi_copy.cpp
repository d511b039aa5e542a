// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

berth_status berth_copy_async(berth_runtime* runtime, void* target, const void* source,
                              std::size_t bytes, berth_stream stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    owner.copier().copy_async(target, source, bytes, to_stream(stream));
  });
}

berth_status berth_copy_async_between(berth_runtime* runtime, void* target, const void* source,
                                      std::size_t bytes, berth_stream target_stream,
                                      berth_stream source_stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    owner.copier().copy_async(target, source, bytes, to_copy_streams(target_stream, source_stream));
  });
}

berth_status berth_copy_sync(berth_runtime* runtime, void* target, const void* source,
                             std::size_t bytes, berth_stream stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    owner.copier().copy(target, source, bytes, to_stream(stream));
  });
}

berth_status berth_copy_sync_between(berth_runtime* runtime, void* target, const void* source,
                                     std::size_t bytes, berth_stream target_stream,
                                     berth_stream source_stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    owner.copier().copy(target, source, bytes, to_copy_streams(target_stream, source_stream));
  });
}

berth_status berth_copy_host(berth_runtime* runtime, void* target, const void* source,
                             std::size_t bytes) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    owner.copier().copy(target, source, bytes);
  });
}

berth_status berth_fill_async(berth_runtime* runtime, void* target, std::uint8_t value,
                              std::size_t bytes, berth_stream stream) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    owner.copier().fill_async(target, value, bytes, to_stream(stream));
  });
}

berth_status berth_copy_get_counters(berth_runtime* runtime, berth_copy_counters* counters) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require_struct(counters, "counters");
    const CopyCounters counted = owner.copier().counters();
    write_struct({.struct_size = 0,
                  .copies_direct = counted.copies_direct,
                  .copies_staged = counted.copies_staged,
                  .copies_host = counted.copies_host,
                  .bytes_copied = counted.bytes_copied,
                  .staging_waits = counted.staging_waits,
                  .copies_by_driver = counted.copies_by_driver,
                  .staging_bytes = counted.staging_bytes},
                 out);
  });
}
