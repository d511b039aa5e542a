// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_memory_pool.hpp"

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

struct berth_pool_checkpoint {
  PoolCheckpoint checkpoint;
};

namespace {

MemoryPool& to_pool(berth_memory_pool* pool) {
  return require(pool, "pool").pool;
}

std::optional<MemoryAmount> to_pool_limit(std::size_t bytes) {
  return bytes == 0 ? std::nullopt : std::optional<MemoryAmount>(bytes);
}

SleepContent to_content(bool keep_content) {
  return keep_content ? SleepContent::keep : SleepContent::discard;
}

}  // namespace

berth_status berth_memory_pool_create(berth_runtime* runtime, berth_device device,
                                      const berth_memory_pool_options* options,
                                      berth_memory_pool** pool) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    const auto from = read_struct(options, "options");
    auto& out = require(pool, "pool");
    check_flags(
        from.flags,
        BERTH_MEMORY_POOL_FOR_GRAPHS | BERTH_MEMORY_POOL_CONTIGUOUS | BERTH_MEMORY_POOL_FABRIC,
        "options.flags");
    const MemoryPoolOptions to{
        .name = &require(from.name, "options.name"),
        .limits = {.bytes_reserved_max = to_pool_limit(from.bytes_reserved_max),
                   .bytes_reserved_soft_max = to_pool_limit(from.bytes_reserved_soft_max)},
        .for_graphs = (from.flags & BERTH_MEMORY_POOL_FOR_GRAPHS) != 0,
        .contiguous = (from.flags & BERTH_MEMORY_POOL_CONTIGUOUS) != 0,
        .fabric = (from.flags & BERTH_MEMORY_POOL_FABRIC) != 0};
    out = new berth_memory_pool{owner.memory(to_device(device)).create_pool(to)};
  });
}

void berth_memory_pool_close(berth_memory_pool* pool) {
  delete pool;
}

berth_status berth_memory_pool_get_allocator(berth_memory_pool* pool, berth_allocator** allocator) {
  return guarded([&] {
    MemoryPool& asked = to_pool(pool);
    require(allocator, "allocator") = from_allocator(asked);
  });
}

berth_status berth_memory_pool_get_name(berth_memory_pool* pool, const char** name) {
  return guarded([&] {
    const MemoryPool& asked = to_pool(pool);
    require(name, "name") = asked.name().c_str();
  });
}

berth_status berth_memory_pool_sleep(berth_memory_pool* pool, bool keep_content,
                                     std::size_t* bytes_released) {
  return guarded([&] {
    MemoryPool& sleeper = to_pool(pool);
    auto& out = require(bytes_released, "bytes_released");
    out = sleeper.sleep(to_content(keep_content));
  });
}

berth_status berth_memory_pool_wake(berth_memory_pool* pool) {
  return guarded([&] { to_pool(pool).wake(); });
}

berth_status berth_memory_pool_is_asleep(berth_memory_pool* pool, bool* is_asleep) {
  return guarded([&] {
    const MemoryPool& asked = to_pool(pool);
    require(is_asleep, "is_asleep") = asked.is_asleep();
  });
}

berth_status berth_memory_pool_checkpoint(berth_memory_pool* pool,
                                          berth_pool_checkpoint** checkpoint) {
  return guarded([&] {
    const MemoryPool& source = to_pool(pool);
    auto& out = require(checkpoint, "checkpoint");
    out = new berth_pool_checkpoint{source.checkpoint()};
  });
}

void berth_pool_checkpoint_destroy(berth_pool_checkpoint* checkpoint) {
  delete checkpoint;
}

berth_status berth_memory_pool_restore(berth_memory_pool* pool,
                                       const berth_pool_checkpoint* checkpoint,
                                       berth_restored_block visit, void* user) {
  return guarded([&] {
    MemoryPool& restored = to_pool(pool);
    const RestoredBlocks blocks = restored.restore(require(checkpoint, "checkpoint").checkpoint);
    if (visit == nullptr) return;
    for (void* const data : blocks.freed) visit(user, data, BERTH_RESTORED_FREED);
    for (void* const data : blocks.allocated) visit(user, data, BERTH_RESTORED_ALLOCATED);
    for (void* const data : blocks.kept) visit(user, data, BERTH_RESTORED_KEPT);
  });
}

berth_status berth_memory_pools_sleep(berth_runtime* runtime, berth_device device, const char* name,
                                      bool keep_content, std::size_t* bytes_released) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    const char* const pools = &require(name, "name");
    auto& out = require(bytes_released, "bytes_released");
    out = owner.memory(to_device(device)).sleep(pools, to_content(keep_content));
  });
}

berth_status berth_memory_pools_wake(berth_runtime* runtime, berth_device device,
                                     const char* name) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    owner.memory(to_device(device)).wake(&require(name, "name"));
  });
}

berth_status berth_memory_pool_scope_enter(berth_memory_pool* pool,
                                           berth_memory_pool_scope** scope) {
  return guarded([&] {
    const MemoryPool& target = to_pool(pool);
    auto& out = require(scope, "scope");
    out = new berth_memory_pool_scope{PoolScope::on_this_thread(target)};
  });
}

berth_status berth_memory_pool_scope_enter_stream(berth_memory_pool* pool, berth_stream stream,
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
