// SPDX-License-Identifier: Apache-2.0
// Before a thread blocks for a device, it does the host work that the device work depends on.
#include "device/host_progress.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/pinned_allocator.hpp"

#include "memory/source/arena.hpp"
#include "memory/source/whole_segments.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait.hpp"
#include "stream/wait_after_failure.hpp"
#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace host_progress_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Does something when it is asked to, and notes for what.
class CountedProgress final : public HostProgress {
 public:
  explicit CountedProgress(
      DeviceContext& context, std::function<void()> action = [] {})
      : context_(context), action_(std::move(action)) {
    context_.host_progress().add(*this);
  }
  ~CountedProgress() override { context_.host_progress().remove(*this); }
  CountedProgress(const CountedProgress&) = delete;
  CountedProgress& operator=(const CountedProgress&) = delete;

  void make_progress(DeviceContext& context, CUstream stream) noexcept override {
    if (&context == &context_) streams.push_back(stream);
    action_();
  }
  void make_progress(DeviceContext& context) noexcept override {
    devices += &context == &context_ ? 1 : 100;
    action_();
  }

  std::vector<CUstream> streams;
  int devices = 0;

 private:
  DeviceContext& context_;
  const std::function<void()> action_;
};

}  // namespace

TEST_CASE_FIXTURE(TappedDevice, "every wait does the host work first") {
  const Stream stream = this->stream();
  const SharedEvent mark = record(stream);
  bool is_done = false;
  CountedProgress share(context, [&] { is_done = true; });
  const auto wait = [&](DriverCall call, const std::function<void()>& what) {
    is_done = false;
    bool was_done = false;
    tap.before(call, [&] { was_done = is_done; });
    const ContextScope scope(context);
    what();
    CHECK(was_done);
  };
  wait(DriverCall::stream_synchronize, [&] { stream.ref().sync(); });
  wait(DriverCall::stream_synchronize, [&] { sync_unchecked(stream); });
  wait(DriverCall::stream_synchronize, [&] { wait_after_failure(StreamRef(stream)); });
  CHECK(share.streams == std::vector<CUstream>(3, stream.ref().native()));
  CHECK(share.devices == 0);
  wait(DriverCall::event_synchronize, [&] { mark->ref().sync(); });
  wait(DriverCall::event_synchronize, [&] { wait_after_failure(mark->ref()); });
  wait(DriverCall::ctx_synchronize, [&] { wait_for(context); });
  wait(DriverCall::ctx_synchronize, [&] { CHECK(try_wait_for(context) == CUDA_SUCCESS); });
  CHECK(share.streams.size() == 3);
  CHECK(share.devices == 4);
}

TEST_CASE_FIXTURE(TappedDevice, "calls that may wait implicitly do the host work first") {
  constexpr std::size_t kGranule = 2_MiB;
  bool is_done = false;
  CountedProgress share(context, [&] { is_done = true; });
  const auto call = [&](DriverCall called, const std::function<void()>& what) {
    CAPTURE(kDriverCallNames[std::size_t(called)]);
    is_done = false;
    bool was_called = false;
    tap.before(called, [&] {
      was_called = true;
      CHECK(is_done);
    });
    what();
    CHECK(was_called);
  };
  {
    DeviceSegments segments(context, 20_MiB, 64_MiB);
    SegmentSource::Growth growth;
    growth.bytes = 20_MiB;
    call(DriverCall::mem_alloc, [&] { CHECK(segments.obtain(growth)); });
    call(DriverCall::mem_free, [&] { segments.give_back_growth(growth); });
  }
  {
    Arena arena(context, 16 * kGranule, kGranule);
    call(DriverCall::mem_create, [&] { CHECK(arena.map(arena.address(), kGranule)); });
    call(DriverCall::mem_unmap, [&] { arena.unmap(arena.address(), kGranule); });
  }
  for (const unsigned prefault_threads : {0U, 1U}) {
    PinnedAllocator pinned(registry, {.prefault_threads = prefault_threads});
    const bool registers = prefault_threads > 0;
    Allocation memory;
    call(registers ? DriverCall::mem_host_register : DriverCall::mem_host_alloc,
         [&] { memory = pinned.allocate(1_MiB); });
    memory.reset();
    call(registers ? DriverCall::mem_host_unregister : DriverCall::mem_free_host,
         [&] { pinned.trim(0); });
  }
  PinnedAllocator pinned(registry, {});
  std::vector<std::byte> pages(1_MiB);
  call(DriverCall::mem_host_register, [&] { pinned.register_raw(pages.data(), pages.size()); });
  call(DriverCall::mem_host_unregister, [&] { pinned.unregister(pages.data()); });
  CHECK(share.streams.empty());
}

TEST_CASE_FIXTURE(TappedDevice, "a wait observes the effect of its host work") {
  std::uint32_t* word = nullptr;
  const Stream stream = this->stream();
  const ContextScope scope(context);
  driver.mem_host_alloc(reinterpret_cast<void**>(&word), sizeof *word, 0u);
  std::atomic_ref flag(*word);
  flag = 0;
  driver.stream_wait_value32(stream.ref().native(), reinterpret_cast<CUdeviceptr>(word), 1u,
                             unsigned{CU_STREAM_WAIT_VALUE_GEQ});
  {
    CountedProgress share(context, [&] { flag = 1; });
    stream.ref().sync();
  }
  driver.mem_free_host(word);
}

TEST_CASE_FIXTURE(TappedDevice,
                  "the removal of host work waits for its running call, and no call follows") {
  const Stream stream = this->stream();
  std::promise<void> is_called;
  std::promise<void> may_return;
  std::atomic<bool> has_returned = false;
  auto share = std::make_unique<CountedProgress>(context, [&] {
    is_called.set_value();
    may_return.get_future().wait();
    has_returned = true;
  });
  CountedProgress other(context);
  auto waiter = std::async(std::launch::async, [&] { stream.ref().sync(); });
  is_called.get_future().wait();
  auto remover = std::async(std::launch::async, [&] {
    share.reset();
    CHECK(has_returned);
  });
  may_return.set_value();
  remover.get();
  waiter.get();
  CHECK(other.streams.size() == 1);
  stream.ref().sync();  // a promise that is kept twice would throw
  CHECK(other.streams.size() == 2);
}

}  // namespace host_progress_test
