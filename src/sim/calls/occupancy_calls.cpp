// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Occupancy".
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/call.hpp"
#include "sim/calls/launch_attributes.hpp"
#include "sim/work/kernel_limits.hpp"

namespace berth::sim {
namespace {

constexpr unsigned kPortableClusterMax = 8;
constexpr unsigned kClusterMax = 16;

CUresult count_blocks(Function name, int* blocks, CUfunction function, int threads,
                      std::size_t shared_bytes, unsigned flags) {
  Call call(name, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  if (call.state().functions.find(to_handle(function)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Occupancy occupancy(call.state(), call.context().device);
  if (blocks == nullptr || !occupancy.is_block(threads)) return CUDA_ERROR_INVALID_VALUE;
  *blocks = occupancy.blocks(threads, shared_bytes);
  return CUDA_SUCCESS;
}

/// The block size with the most threads on a multiprocessor; of several, the largest. Without the
/// simulator's lock, because `shared_bytes_of` is a function of the program.
CUresult suggest_block(Function name, int* grid, int* block, CUfunction function,
                       CUoccupancyB2DSize shared_bytes_of, std::size_t shared_bytes,
                       int threads_limit, unsigned flags) {
  std::optional<Occupancy> occupancy;
  {
    Call call(name, Needs::context);
    if (call.refusal() != CUDA_SUCCESS) return call.refusal();
    if (grid == nullptr || block == nullptr || threads_limit < 0) return CUDA_ERROR_INVALID_VALUE;
    if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
    if (call.state().functions.find(to_handle(function)) == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    occupancy.emplace(call.state(), call.context().device);
  }
  const int limit =
      threads_limit == 0 ? occupancy->threads_max : std::min(threads_limit, occupancy->threads_max);
  int most = 0;
  *grid = *block = 0;
  // From the limit down, by whole warps behind it.
  for (int threads = limit; threads > 0;
       threads = (threads - 1) / occupancy->warp * occupancy->warp) {
    const std::size_t shared = shared_bytes_of == nullptr ? shared_bytes : shared_bytes_of(threads);
    const int blocks = occupancy->blocks(threads, shared);
    if (blocks * threads <= most) continue;
    most = blocks * threads;
    *block = threads;
    *grid = blocks * occupancy->multiprocessors;
  }
  return CUDA_SUCCESS;
}

/// The blocks of a cluster: the product of the launch attribute; 1 without it, 0 if it is invalid.
unsigned cluster_blocks(const CUlaunchConfig& config) {
  const CUlaunchAttribute* const found =
      find_attribute(config, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  if (found == nullptr) return 1;
  const auto& size = found->value.clusterDim;
  const bool is_small = size.x <= kClusterMax && size.y <= kClusterMax && size.z <= kClusterMax;
  return is_small ? size.x * size.y * size.z : 0;
}

unsigned cluster_max(const DeviceFunction& function, int slot) {
  const auto set =
      function.settings.find({slot, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED});
  const bool is_portable = set == function.settings.end() || set->second == 0;
  return is_portable ? kPortableClusterMax : kClusterMax;
}

/// The threads of a block of `config`; 0 if there is no such block.
int threads_of(const CUlaunchConfig& config, const Occupancy& occupancy) {
  const auto most = static_cast<unsigned>(occupancy.threads_max);
  if (config.blockDimX > most || config.blockDimY > most || config.blockDimZ > most) return 0;
  const auto threads = std::uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ;
  return threads <= most ? static_cast<int>(threads) : 0;
}

/// Implements a call about clusters: `body(fitting, size_max)` gets the blocks of the launch that
/// run on the device at the same time, and the largest cluster of the kernel.
template <class Body>
CUresult about_clusters(Function name, const int* answer, CUfunction function,
                        const CUlaunchConfig* config, const Body& body) {
  Call call(name, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const int slot = call.context().device;
  const DeviceFunction* const found = call.state().functions.find(to_handle(function));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (answer == nullptr || !is_complete(config)) return CUDA_ERROR_INVALID_VALUE;
  const Occupancy occupancy(call.state(), slot);
  const int threads = threads_of(*config, occupancy);
  if (threads == 0) return CUDA_ERROR_INVALID_VALUE;
  return body(occupancy.all_blocks(threads, config->sharedMemBytes), cluster_max(*found, slot));
}

}  // namespace

CUresult berth_sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                               int threads,
                                                               std::size_t shared_bytes) {
  return count_blocks(Function::k_cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks, function,
                      threads, shared_bytes, 0);
}

CUresult berth_sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int threads, std::size_t shared_bytes, unsigned flags) {
  return count_blocks(Function::k_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks,
                      function, threads, shared_bytes, flags);
}

CUresult berth_sim_cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                    CUoccupancyB2DSize shared_bytes_of,
                                                    std::size_t shared_bytes, int threads_limit) {
  return suggest_block(Function::k_cuOccupancyMaxPotentialBlockSize, grid, block, function,
                       shared_bytes_of, shared_bytes, threads_limit, 0);
}

CUresult berth_sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                             CUfunction function,
                                                             CUoccupancyB2DSize shared_bytes_of,
                                                             std::size_t shared_bytes,
                                                             int threads_limit, unsigned flags) {
  return suggest_block(Function::k_cuOccupancyMaxPotentialBlockSizeWithFlags, grid, block, function,
                       shared_bytes_of, shared_bytes, threads_limit, flags);
}

// 0 if so many blocks do not fit even without shared memory.
CUresult berth_sim_cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* shared_bytes,
                                                           CUfunction function, int blocks,
                                                           int threads) {
  Call call(Function::k_cuOccupancyAvailableDynamicSMemPerBlock, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (call.state().functions.find(to_handle(function)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Occupancy occupancy(call.state(), call.context().device);
  if (shared_bytes == nullptr || blocks <= 0 || !occupancy.is_block(threads))
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t share = occupancy.shared_per_multiprocessor / static_cast<unsigned>(blocks);
  const bool fits = blocks <= occupancy.blocks(threads, 0) && share > occupancy.shared_reserved;
  *shared_bytes =
      fits ? std::min(occupancy.shared_max, share - occupancy.shared_reserved) : std::size_t{0};
  return CUDA_SUCCESS;
}

// How clusters lie on the multiprocessors of a device is not known: as if each could span any.
CUresult berth_sim_cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                                const CUlaunchConfig* config) {
  return about_clusters(Function::k_cuOccupancyMaxActiveClusters, clusters, function, config,
                        [&](std::uint64_t fitting, unsigned size_max) {
                          const unsigned size = cluster_blocks(*config);
                          if (size == 0 || size > size_max) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
                          *clusters = static_cast<int>(fitting / size);
                          return CUDA_SUCCESS;
                        });
}

CUresult berth_sim_cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function,
                                                      const CUlaunchConfig* config) {
  return about_clusters(Function::k_cuOccupancyMaxPotentialClusterSize, size, function, config,
                        [&](std::uint64_t fitting, unsigned size_max) {
                          *size = static_cast<int>(std::min<std::uint64_t>(size_max, fitting));
                          return CUDA_SUCCESS;
                        });
}

}  // namespace berth::sim
