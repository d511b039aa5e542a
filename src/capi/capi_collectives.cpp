// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"
#include "capi/capi_transfer.hpp"

using namespace berth;
using namespace berth::capi;

namespace {

std::vector<Shard> to_shards(const berth_shard* shards, std::size_t count) {
  const std::span given = require_array(shards, count, "shards");
  std::vector<Shard> converted;
  converted.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    const berth_shard& shard = given[index];
    converted.push_back(
        {shard.data, shard.bytes, to_stream_at(shard.stream, "shards", index, ".stream")});
  }
  return converted;
}

}  // namespace

berth_status berth_scatter_start(berth_runtime* runtime, const void* source, std::size_t bytes,
                                 berth_stream stream, const berth_shard* shards, std::size_t count,
                                 const berth_transfer_options* options, berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.collectives().scatter(source, bytes, to_stream(stream), to_shards(shards, count),
                                       std::move(chosen));
  });
}

berth_status berth_gather_start(berth_runtime* runtime, void* target, std::size_t bytes,
                                berth_stream stream, const berth_shard* shards, std::size_t count,
                                const berth_transfer_options* options, berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.collectives().gather(target, bytes, to_stream(stream), to_shards(shards, count),
                                      std::move(chosen));
  });
}

berth_status berth_broadcast_start(berth_runtime* runtime, const void* source, std::size_t bytes,
                                   berth_stream stream, const berth_shard* shards,
                                   std::size_t count, const berth_transfer_options* options,
                                   berth_transfer** transfer) {
  return start_transfer(runtime, options, transfer, [&](Runtime& owner, TransferOptions chosen) {
    return owner.collectives().broadcast(source, bytes, to_stream(stream), to_shards(shards, count),
                                         std::move(chosen));
  });
}
