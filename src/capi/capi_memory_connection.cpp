// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <limits>
#include <mutex>
#include <vector>

#include "berth/memory_connection.h"

#include "base/check.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"
#include "capi/capi_memory_pool.hpp"

using namespace berth;
using namespace berth::capi;

/// Blocks arrive many at a time, and are returned one by one.
/// Threads  Safe from any thread.
struct berth_memory_connection {
  berth_memory_connection(const Runtime& runtime, int socket)
      : connection(runtime.connect_memory(socket)) {}

  MemoryConnection connection;
  std::mutex mutex;
  std::deque<SharedBlock> received;  ///< guarded by `mutex`
};

struct berth_shared_block {
  SharedBlock block;
};

namespace {

MemoryConnection& to_connection(berth_memory_connection* connection) {
  return require(connection, "connection").connection;
}

std::chrono::milliseconds to_timeout(std::uint64_t milliseconds) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(milliseconds, kMost)));
}

}  // namespace

berth_status berth_memory_connection_open(berth_runtime* runtime, int socket,
                                          berth_memory_connection** connection) {
  return guarded([&] {
    const Runtime& owner = to_runtime(runtime);
    auto& out = require(connection, "connection");
    out = new berth_memory_connection(owner, socket);
  });
}

void berth_memory_connection_close(berth_memory_connection* connection) {
  delete connection;
}

void berth_memory_connection_end(berth_memory_connection* connection) {
  if (connection != nullptr) connection->connection.end();
}

berth_status berth_memory_connection_share(berth_memory_connection* connection,
                                           berth_memory_pool* pool, void* const* blocks,
                                           size_t count, uint64_t timeout_ms, size_t* shared) {
  return guarded([&] {
    MemoryConnection& giver = to_connection(connection);
    MemoryPool& from = require(pool, "pool").pool;
    static_cast<void>(require_array(blocks, count, "blocks"));
    auto& out = require(shared, "shared");
    out = 0;
    std::vector<Allocation> owned;
    owned.reserve(count);
    const auto leave = [&] {  // blocks that are not shared stay with the caller
      for (Allocation& block : owned) {
        if (block.release() == nullptr) ++out;
      }
    };
    try {
      for (size_t index = 0; index < count; ++index) owned.push_back(from.adopt(blocks[index]));
      giver.share(from, owned, to_timeout(timeout_ms));
    } catch (...) {
      leave();
      throw;
    }
    leave();
    BERTH_CHECK(out == count);  // or the caller would have a block that is freed
  });
}

berth_status berth_memory_connection_reclaim(berth_memory_connection* connection, size_t* freed) {
  return guarded([&] {
    MemoryConnection& giver = to_connection(connection);
    auto& out = require(freed, "freed");
    out = giver.reclaim();
  });
}

berth_status berth_memory_connection_get_blocks_shared(berth_memory_connection* connection,
                                                       size_t* blocks) {
  return guarded([&] {
    const MemoryConnection& giver = to_connection(connection);
    require(blocks, "blocks") = giver.blocks_shared();
  });
}

berth_status berth_memory_connection_is_open(berth_memory_connection* connection, bool* is_open) {
  return guarded([&] {
    const MemoryConnection& asked = to_connection(connection);
    require(is_open, "is_open") = asked.is_open();
  });
}

berth_status berth_memory_connection_receive(berth_memory_connection* connection,
                                             uint64_t timeout_ms, berth_shared_block** block) {
  return guarded([&] {
    berth_memory_connection& taker = require(connection, "connection");
    auto& out = require(block, "block");
    auto next = std::make_unique<berth_shared_block>();
    {
      const std::lock_guard lock(taker.mutex);
      if (!taker.received.empty()) {
        next->block = std::move(taker.received.front());
        taker.received.pop_front();
        BERTH_CHECK(next->block);
      }
    }
    if (!next->block) {
      std::vector<SharedBlock> blocks = taker.connection.receive(to_timeout(timeout_ms));
      if (blocks.empty()) {
        out = nullptr;
        return;
      }
      next->block = std::move(blocks.front());
      const std::lock_guard lock(taker.mutex);
      std::move(std::next(blocks.begin()), blocks.end(), std::back_inserter(taker.received));
    }
    out = next.release();
  });
}

berth_status berth_shared_block_get(const berth_shared_block* block, void** data, size_t* bytes,
                                    berth_device* device) {
  return guarded([&] {
    const SharedBlock& asked = require(block, "block").block;
    auto& of_data = require(data, "data");
    auto& of_bytes = require(bytes, "bytes");
    auto& of_device = require(device, "device");
    of_data = asked.data();
    of_bytes = asked.bytes();
    of_device = from_device(asked.device());
  });
}

void berth_shared_block_return(berth_shared_block* block) {
  delete block;
}
