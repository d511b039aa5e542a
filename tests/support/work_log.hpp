// SPDX-License-Identifier: Apache-2.0
// Work on a stream that accesses no memory: host functions that record when they run.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/current_stream.hpp"

#include "sim/functions.hpp"

namespace berth::test {

/// Must outlive the work. Safe from any thread.
class WorkLog {
 public:
  /// Submits work to `stream` that appends `name` when it runs.
  void submit(StreamRef stream, std::string name) {
    Entry* entry = nullptr;
    {
      const std::lock_guard lock(mutex_);
      entry = &entries_.emplace_back(Entry{this, std::move(name)});
    }
    REQUIRE(sim::berth_sim_cuCtxPushCurrent(context_of(stream)) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuLaunchHostFunc(stream.native(), &run, entry) == CUDA_SUCCESS);
    CUcontext popped = nullptr;
    REQUIRE(sim::berth_sim_cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  }

  /// The names of the work that has run, in the order in which it ran.
  [[nodiscard]] std::vector<std::string> done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  [[nodiscard]] bool is_done(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    for (const std::string& done : done_) {
      if (done == name) return true;
    }
    return false;
  }

 private:
  struct Entry {
    WorkLog* log;
    std::string name;
  };
  static void CUDA_CB run(void* data) {
    const Entry& entry = *static_cast<const Entry*>(data);
    const std::lock_guard lock(entry.log->mutex_);
    entry.log->done_.push_back(entry.name);
  }

  /// Looked up once for each device, so that later submissions make no call of berth.
  CUcontext context_of(StreamRef stream) {
    const std::lock_guard lock(mutex_);
    CUcontext& context = contexts_[&stream.context()];
    if (context == nullptr) {
      const StreamGuard guard(stream);
      REQUIRE(sim::berth_sim_cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    }
    return context;
  }

  mutable std::mutex mutex_;
  std::map<const DeviceContext*, CUcontext> contexts_;
  std::deque<Entry> entries_;
  std::vector<std::string> done_;
};

}  // namespace berth::test
