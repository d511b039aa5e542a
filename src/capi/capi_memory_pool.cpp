// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>

#include "capi/capi_allocator.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_memory_pool_scope {
  PoolScope scope;
};

namespace {

MemoryPool& to_pool(berth_allocator* pool) {
  if (auto* const found = as_kind<MemoryPool>(to_allocator(pool, "pool"))) return *found;
  throw InvalidArgument(
      "\"pool\" is an allocator that is part of the runtime; accepted: what "
      "berth_memory_pool_create() gave");
}

std::optional<MemoryAmount> to_pool_limit(std::size_t bytes) {
  return bytes == 0 ? std::nullopt : std::optional<MemoryAmount>(bytes);
}

}  // namespace

berth_status berth_memory_pool_create(berth_runtime* runtime, berth_device device,
                                      const berth_memory_pool_options* options,
                                      berth_allocator** pool) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    const auto from = read_struct(options, "options");
    auto& out = require(pool, "pool");
    check_flags(from.flags, BERTH_MEMORY_POOL_FOR_GRAPHS, "options.flags");
    const MemoryPoolOptions to{
        .name = &require(from.name, "options.name"),
        .limits = {.reserved_bytes_max = to_pool_limit(from.reserved_bytes_max),
                   .reserved_bytes_soft_max = to_pool_limit(from.reserved_bytes_soft_max)},
        .for_graphs = (from.flags & BERTH_MEMORY_POOL_FOR_GRAPHS) != 0};
    auto made = std::make_unique<MemoryPool>(owner.memory(to_device(device)).create_pool(to));
    out = from_allocator(*made.release());
  });
}

berth_status berth_memory_pool_close(berth_allocator* pool) {
  return guarded([&] { delete &to_pool(pool); });
}

berth_status berth_memory_pool_sleep(berth_allocator* pool, bool keep_content,
                                     std::size_t* bytes_released) {
  return guarded([&] {
    MemoryPool& sleeper = to_pool(pool);
    auto& out = require(bytes_released, "bytes_released");
    out = sleeper.sleep(keep_content ? SleepContent::keep : SleepContent::discard);
  });
}

berth_status berth_memory_pool_wake(berth_allocator* pool) {
  return guarded([&] { to_pool(pool).wake(); });
}

berth_status berth_memory_pool_scope_enter(berth_allocator* pool, berth_memory_pool_scope** scope) {
  return guarded([&] {
    const MemoryPool& target = to_pool(pool);
    auto& out = require(scope, "scope");
    out = new berth_memory_pool_scope{PoolScope::on_this_thread(target)};
  });
}

berth_status berth_memory_pool_scope_enter_stream(berth_allocator* pool, berth_stream stream,
                                                  berth_memory_pool_scope** scope) {
  return guarded([&] {
    const MemoryPool& target = to_pool(pool);
    auto& out = require(scope, "scope");
    out = new berth_memory_pool_scope{PoolScope::on_stream(target, to_stream(stream))};
  });
}

void berth_memory_pool_scope_leave(berth_memory_pool_scope* scope) {
  delete scope;
}
