// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>

#include "base/format.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

struct berth_handle_pool {
  HandlePool<void*> pool;
};

struct berth_handle_lease {
  HandleLease<void*> lease;
};

namespace {

void check_code(const std::string& library, const char* function, int code) {
  if (code != 0) throw CallbackFailed(format_text("{}: {}() returned {}", library, function, code));
}

HandlePoolOptions<void*> to_options(const berth_handle_pool_options& from) {
  check_flags(from.flags, BERTH_HANDLES_KEEP_NO_DEVICE_MEMORY | BERTH_HANDLES_WAIT_FOR_OTHERS,
              "options.flags");
  const std::string name = &require(from.name, "options.name");
  if (from.create == nullptr) refuse_null("options.create");
  if (from.bind == nullptr) refuse_null("options.bind");
  HandlePoolOptions<void*> options;
  options.name = name;
  options.create = [=] {
    void* handle = nullptr;
    check_code(name, "create", from.create(from.user, &handle));
    return handle;
  };
  if (from.destroy != nullptr) {
    options.destroy = [=](void*& handle) {
      check_code(name, "destroy", from.destroy(from.user, handle));
    };
  }
  options.bind = [=](void*& handle, StreamRef stream) {
    check_code(name, "bind", from.bind(from.user, handle, from_stream(stream)));
  };
  if (from.set_workspace != nullptr) {
    options.set_workspace = [=](void*& handle, void* workspace, std::size_t bytes) {
      check_code(name, "set_workspace", from.set_workspace(from.user, handle, workspace, bytes));
    };
  }
  options.workspace_bytes = from.workspace_bytes;
  options.keeps_device_memory = (from.flags & BERTH_HANDLES_KEEP_NO_DEVICE_MEMORY) == 0;
  options.handles_max = from.handles_max;
  const bool waits = (from.flags & BERTH_HANDLES_WAIT_FOR_OTHERS) != 0;
  options.on_shortage = waits ? HandleShortage::wait : HandleShortage::fail;
  return options;
}

HandlePool<void*>& to_pool(berth_handle_pool* pool) {
  return require(pool, "pool").pool;
}

}  // namespace

berth_status berth_handle_pool_create(berth_runtime* runtime,
                                      const berth_handle_pool_options* options,
                                      berth_handle_pool** pool) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    HandlePoolOptions<void*> chosen = to_options(read_struct(options, "options"));
    auto& out = require(pool, "pool");
    out = new berth_handle_pool{HandlePool<void*>(owner, std::move(chosen))};
  });
}

void berth_handle_pool_destroy(berth_handle_pool* pool) {
  delete pool;
}

berth_status berth_handle_pool_acquire(berth_handle_pool* pool, berth_stream stream,
                                       berth_handle_lease** lease, void** handle) {
  return guarded([&] {
    HandlePool<void*>& from = to_pool(pool);
    const StreamRef bound = to_stream(stream);
    auto& lease_out = require(lease, "lease");
    auto& handle_out = require(handle, "handle");
    lease_out = new berth_handle_lease{from.acquire(bound)};
    handle_out = lease_out->lease.get();
  });
}

void berth_handle_lease_release(berth_handle_lease* lease) {
  delete lease;
}

berth_status berth_handle_pool_trim(berth_handle_pool* pool, std::size_t* destroyed) {
  return guarded([&] {
    HandlePool<void*>& trimmed = to_pool(pool);
    auto& out = require(destroyed, "destroyed");
    out = trimmed.trim();
  });
}

berth_status berth_handle_pool_retire_stream(berth_handle_pool* pool, berth_stream stream) {
  return guarded([&] {
    HandlePool<void*>& of = to_pool(pool);
    of.retire_stream(to_stream(stream));
  });
}

berth_status berth_handle_pool_get_counters(berth_handle_pool* pool,
                                            berth_handle_counters* counters) {
  return guarded([&] {
    const HandlePool<void*>& asked = to_pool(pool);
    auto& out = require_struct(counters, "counters");
    const HandleCounters counted = asked.counters();
    write_struct({.struct_size = 0,
                  .created = counted.created,
                  .binds = counted.binds,
                  .live = counted.live,
                  .idle = counted.idle},
                 out);
  });
}
