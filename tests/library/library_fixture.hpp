// SPDX-License-Identifier: Apache-2.0
// A library that notes what is asked of it, and fails where it is told to. Its handles are
// pointers, as most libraries' are, and its kernels use the workspace that a handle was given.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/current_stream.hpp"
#include "berth/handle_pool.hpp"

#include "sim/functions.hpp"
#include "support/simulation.hpp"

namespace berth::test {

inline CUcontext current_context() {
  CUcontext current = nullptr;
  REQUIRE(sim::berth_sim_cuCtxGetCurrent(&current) == CUDA_SUCCESS);
  return current;
}

/// What a library throws: a type that berth does not know.
struct LibraryFailure {
  std::string function;
};

/// Must outlive its pools. Safe from any thread.
class FakeLibrary {
 public:
  struct Context {
    Context(int number_, CUcontext made_in_) : number(number_), made_in(made_in_) {}

    int number;
    CUcontext made_in;
    std::optional<StreamRef> stream;
    void* workspace = nullptr;
    std::size_t workspace_bytes = 0;
    std::atomic<bool> in_use = false;
  };
  using Handle = Context*;

  /// Without a workspace, and without memory of its own.
  [[nodiscard]] HandlePoolOptions<Handle> options() {
    HandlePoolOptions<Handle> options;
    options.name = "fake";
    options.create = [this] { return create(); };
    options.destroy = [this](Handle handle) { destroy(handle); };
    options.bind = [this](Handle handle, StreamRef stream) { bind(handle, stream); };
    options.keeps_device_memory = false;
    return options;
  }
  [[nodiscard]] HandlePoolOptions<Handle> options_with_workspace(std::size_t bytes) {
    HandlePoolOptions<Handle> with = options();
    with.workspace_bytes = bytes;
    with.set_workspace = [this](Handle handle, void* workspace, std::size_t workspace_bytes) {
      set_workspace(handle, workspace, workspace_bytes);
    };
    return with;
  }

  /// The next call of "create", "bind", "set_workspace" or "destroy" throws LibraryFailure.
  void fail_next(const std::string& function) { failing = function; }

  [[nodiscard]] std::size_t live() const {
    const std::lock_guard lock(mutex_);
    return contexts_.size();
  }

  // Counts of calls, failed ones included.
  std::atomic<int> creates = 0;
  std::atomic<int> destroys = 0;
  std::atomic<int> binds = 0;
  std::atomic<int> workspaces_set = 0;
  std::string failing;               ///< of one thread
  std::function<void()> on_create;   ///< at the end of create(); may change itself
  std::function<void()> on_destroy;  ///< likewise of destroy()

 private:
  void enter(const std::string& function) {
    if (failing != function) return;
    failing.clear();
    throw LibraryFailure{function};
  }
  Handle create() {
    const int number = ++creates;
    enter("create");
    const CUcontext current = current_context();
    CHECK(current != nullptr);
    auto made = std::make_unique<Context>(number, current);
    const Handle handle = made.get();
    {
      const std::lock_guard lock(mutex_);
      contexts_.emplace(handle, std::move(made));
    }
    if (const auto action = on_create) action();
    return handle;
  }
  void destroy(Handle handle) {
    ++destroys;
    CHECK(current_context() == handle->made_in);
    CHECK_FALSE(handle->in_use);
    {
      const std::lock_guard lock(mutex_);
      CHECK(contexts_.erase(handle) == 1);
    }
    if (const auto action = on_destroy) action();
    enter("destroy");
  }
  void bind(Handle handle, StreamRef stream) {
    ++binds;
    CHECK(current_context() == handle->made_in);
    enter("bind");
    handle->stream = stream;
    handle->workspace = nullptr;  // as cublasSetStream does
  }
  void set_workspace(Handle handle, void* workspace, std::size_t bytes) {
    ++workspaces_set;
    CHECK(current_context() == handle->made_in);
    enter("set_workspace");
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
  }

  mutable std::mutex mutex_;
  std::map<Handle, std::unique_ptr<Context>> contexts_;
};

using FakeHandle = FakeLibrary::Handle;
using FakePool = HandlePool<FakeHandle>;
using FakeLease = HandleLease<FakeHandle>;

inline const Device kDevice = Device::cuda(0);

/// A simulated machine, a library on it, and the kernels that the library's functions launch.
struct LibraryTest : Simulation {
  explicit LibraryTest(const sim::Config& config = {}, RuntimeOptions options = {})
      : Simulation(config, std::move(options)) {}

  [[nodiscard]] Stream stream(Device device = kDevice) { return runtime->create_stream(device); }

  /// A kernel of the library, which writes to the handle's workspace.
  void submit(const FakeLease& lease) {
    const FakeHandle handle = lease.get();
    REQUIRE(handle->workspace != nullptr);
    submit_write(*handle->stream, handle->workspace, handle->workspace_bytes);
  }
  void submit_write(StreamRef stream, const void* data, std::size_t bytes) {
    const StreamGuard guard(stream);
    REQUIRE(simulator.launch(stream.native(), 1000,
                             {{CUdeviceptr{reinterpret_cast<std::uintptr_t>(data)}, bytes, true}}));
  }
  /// Runs all work, and whether some of it used memory out of order.
  [[nodiscard]] bool races() {
    simulator.run_all();
    return !simulator.take_findings().empty();
  }

  FakeLibrary library;
};

}  // namespace berth::test
