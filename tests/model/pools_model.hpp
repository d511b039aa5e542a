// SPDX-License-Identifier: Apache-2.0
// What a naive model knows of a device with private pools, and what must hold of it at every
// moment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "model/allocator_program.hpp"
#include "support/allocator_checks.hpp"
#include "support/second_thread.hpp"
#include "support/simulation.hpp"

namespace berth::test {

inline constexpr std::size_t kGranuleBytes = 2_MiB;
inline constexpr std::size_t kRequestMax = 8_MiB;
inline constexpr std::size_t kPoolsMax = 5;

/// What the model knows of a pool; of the device's own it knows the same.
struct PoolModel {
  std::string name;
  std::vector<MemoryPool> handles;
  std::size_t scopes = 0;
  bool is_device = false;
  bool for_graphs = false;
  bool is_asleep = false;
  bool forgets = false;  ///< content is undefined after waking
  std::optional<std::size_t> limit;
  std::optional<EventLease> last_launch;  ///< of a graph that uses the pool

  [[nodiscard]] bool is_open() const { return is_device || !handles.empty() || scopes > 0; }
};
using PoolPointer = std::shared_ptr<PoolModel>;

struct LiveBlock : ProgramBlock {
  PoolPointer pool;
  std::optional<unsigned char> value;  ///< of every byte, once pending work is done
};

struct Scope {
  std::unique_ptr<PoolScope> scope;
  PoolPointer pool;
  StreamPointer stream;  ///< null: a thread's
  bool of_second_thread = false;
};

/// What random programs differ in.
struct Machine {
  std::size_t device_bytes;
  bool has_pools;  ///< or only the device's own
  bool virtual_memory;
  CrossStreamReuse reuse;
};

class PoolsModel : public AllocatorProgram {
 public:
  PoolsModel(std::uint64_t seed, const Machine& machine)
      : AllocatorProgram(seed, machine.device_bytes, options(machine)), machine_(machine) {
    device_->is_device = true;
  }
  ~PoolsModel() { second_.end(); }

 protected:
  static RuntimeOptions options(const Machine& machine) {
    RuntimeOptions options;
    options.device_allocator.virtual_memory = machine.virtual_memory;
    options.device_allocator.cross_stream_reuse = machine.reuse;
    if (machine.has_pools) options.device_allocator.segment_bytes = 6_MiB;
    return options;
  }

  [[nodiscard]] LiveBlock& some_block() { return live_[random_.below(live_.size())]; }
  /// A private pool that a handle refers to; null where there is none.
  [[nodiscard]] PoolPointer some_pool() {
    std::vector<PoolPointer> pools;
    for (const PoolPointer& pool : pools_) {
      if (!pool->handles.empty()) pools.push_back(pool);
    }
    return pools.empty() ? nullptr : pools[random_.below(pools.size())];
  }
  [[nodiscard]] static bool is_usable(const LiveBlock& block) { return !block.pool->is_asleep; }
  [[nodiscard]] static bool is_readable(const LiveBlock& block) {
    return is_usable(block) && block.value.has_value();
  }

  /// On this thread or on the other one.
  template <class Action>
  void run(bool on_second_thread, const Action& action) {
    if (on_second_thread) {
      second_.run(action);
    } else {
      action();
    }
  }

  [[nodiscard]] PoolPointer pool_of_request(const StreamPointer& stream, bool on_second) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (scope->stream ? scope->stream == stream : scope->of_second_thread == on_second)
        return scope->pool;
    }
    return device_;
  }

  void add(Allocation memory, PoolPointer pool, StreamPointer stream, unsigned char value) {
    ++allocations_;
    CHECK(memory_.owns(memory.data()));
    for (const LiveBlock& other : live_) {
      CHECK_FALSE(
          overlap(memory.data(), memory.bytes(), other.memory.data(), other.memory.bytes()));
    }
    live_.push_back({{std::move(memory), std::move(stream), nullptr}, std::move(pool), value});
  }

  /// Whether a request succeeds however fragmented memory is: every live block spoils at most one
  /// granule more than its bytes fill, and every other granule can be had, but for those of pools
  /// for graphs.
  [[nodiscard]] bool fits_for_certain(std::size_t bytes, const PoolModel& pool) const {
    if (!machine_.virtual_memory || pool.is_asleep) return false;
    std::size_t of_pool = granules(bytes);
    std::size_t of_device = granules(bytes);
    for (const LiveBlock& block : live_) {
      const std::size_t spoiled = granules(block.memory.bytes());
      if (block.pool.get() == &pool) of_pool += spoiled;
      if (!block.pool->is_asleep && !block.pool->for_graphs) of_device += spoiled;
    }
    for (const PoolPointer& other : pools_) {
      if (other->for_graphs) of_device += reserved_before_.at(other.get()) / kGranuleBytes;
    }
    // A closed pool for graphs with live blocks is not in reach of the model.
    if (std::ranges::any_of(live_, [](const LiveBlock& block) {
          return block.pool->for_graphs && !block.pool->is_open();
        }))
      return false;
    return of_pool * kGranuleBytes <= pool.limit.value_or(machine_.device_bytes) &&
           of_device * kGranuleBytes <= limit_.value_or(machine_.device_bytes);
  }
  [[nodiscard]] static std::size_t granules(std::size_t bytes) { return bytes / kGranuleBytes + 2; }

  void remember_reserved() {
    reserved_before_.clear();
    reserved_before_sum_ = memory_.counters().bytes_reserved.current;
    for (const MemorySnapshot& snapshot : memory_.pool_snapshots()) {
      reserved_before_sum_ += snapshot.counters.bytes_reserved.current;
    }
    for (const PoolPointer& pool : pools_) reserved_before_[pool.get()] = reserved(*pool);
  }
  [[nodiscard]] static std::size_t reserved(const PoolModel& pool) {
    return pool.handles.empty() ? 0 : pool.handles.front().counters().bytes_reserved.current;
  }

  void check() {
    check_whole(memory_);
    const std::vector<MemorySnapshot> snapshots = memory_.pool_snapshots();
    std::uint64_t reserved_sum = memory_.counters().bytes_reserved.current;
    std::uint64_t requested_sum = memory_.counters().bytes_requested.current;
    for (const MemorySnapshot& snapshot : snapshots) {
      for (const std::string& line : find_discrepancies(snapshot)) FAIL(line);
      reserved_sum += snapshot.counters.bytes_reserved.current;
      requested_sum += snapshot.counters.bytes_requested.current;
    }
    CHECK(reserved_sum == simulation_.simulator.device_bytes_used(0));
    if (reserved_sum > reserved_before_sum_)
      CHECK(reserved_sum <= limit_.value_or(machine_.device_bytes));
    std::map<const PoolModel*, std::uint64_t> requested;
    std::map<const PoolModel*, std::size_t> blocks;
    std::uint64_t requested_live = 0;
    for (const LiveBlock& block : live_) {
      requested[block.pool.get()] += block.memory.bytes();
      ++blocks[block.pool.get()];
      requested_live += block.memory.bytes();
    }
    CHECK(requested_sum == requested_live);
    check_counters(memory_.counters());
    CHECK(memory_.counters().bytes_requested.current == requested[device_.get()]);
    CHECK(memory_.counters().blocks_allocated.current == blocks[device_.get()]);
    if (!machine_.has_pools) {  // a pool that is closed takes its counts with it
      CHECK(memory_.counters().allocations == allocations_);
      CHECK(memory_.counters().frees == frees_);
      CHECK(memory_.counters().out_of_memory == failures_);
    }
    for (const PoolPointer& pool : pools_) {
      if (pool->handles.empty()) continue;
      const MemoryPool& handle = pool->handles.front();
      handle.validate();
      const MemoryCounters counters = handle.counters();
      check_counters(counters);
      CHECK(handle.is_asleep() == pool->is_asleep);
      CHECK(counters.bytes_requested.current == requested[pool.get()]);
      CHECK(counters.blocks_allocated.current == blocks[pool.get()]);
      const auto before = reserved_before_.find(pool.get());
      const std::size_t reserved = counters.bytes_reserved.current;
      if (before == reserved_before_.end()) continue;
      if (reserved > before->second) CHECK(reserved <= pool->limit.value_or(machine_.device_bytes));
      if (pool->for_graphs && !pool->is_asleep) CHECK(reserved >= before->second);
    }
    check_list_of_pools(snapshots);
    std::erase_if(pools_, [&](const PoolPointer& pool) {
      return !pool->is_open() && blocks[pool.get()] == 0;
    });
  }
  void check_counters(const MemoryCounters& counters) const {
    CHECK(counters.frees_reclaimed + counters.blocks_pending.current == counters.frees_deferred);
    CHECK(counters.bytes_reserved.current <= machine_.device_bytes);
    if (machine_.reuse < CrossStreamReuse::behind_waits) CHECK(counters.stream_waits_inserted == 0);
  }
  /// Every pool that is open or has live blocks is shown, oldest first.
  void check_list_of_pools(const std::vector<MemorySnapshot>& snapshots) const {
    auto shown = snapshots.begin();
    for (const PoolPointer& pool : pools_) {
      const bool must_show =
          pool->is_open() ||
          std::ranges::any_of(live_, [&](const LiveBlock& block) { return block.pool == pool; });
      if (!must_show) continue;
      shown = std::find_if(shown, snapshots.end(), [&](const MemorySnapshot& snapshot) {
        return snapshot.allocator == "cuda:0/" + pool->name;
      });
      if (shown == snapshots.end()) FAIL("not shown: ", pool->name);
      ++shown;
    }
  }

  void check_trimmed() const {
    if (!machine_.virtual_memory) return;
    std::map<const PoolModel*, std::size_t> needed;
    for (const LiveBlock& block : live_) {
      needed[block.pool.get()] += granules(block.memory.bytes()) * kGranuleBytes;
    }
    CHECK(memory_.counters().bytes_reserved.current <= needed[device_.get()]);
    for (const PoolPointer& pool : pools_) {
      if (pool->for_graphs || pool->handles.empty()) continue;
      CHECK(pool->handles.front().counters().bytes_reserved.current <= needed[pool.get()]);
    }
  }

  const Machine machine_;
  SecondThread second_;
  PoolPointer device_ = std::make_shared<PoolModel>();
  std::vector<PoolPointer> pools_;  ///< oldest first, until closed and empty
  std::vector<Scope> scopes_;       ///< oldest first
  std::vector<LiveBlock> live_;
  std::map<const PoolModel*, std::size_t> reserved_before_;
  std::uint64_t reserved_before_sum_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace berth::test
