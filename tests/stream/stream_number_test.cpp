// SPDX-License-Identifier: Apache-2.0
// Which streams berth owns, and their numbers.
#include <cuda.h>

#include <cstdint>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include <doctest/doctest.h>

#include "berth/stream.hpp"

#include "support/scarce_memory.hpp"
#include "support/tapped_device.hpp"

namespace stream_number_test {

using namespace berth;
using namespace berth::test;

namespace {

std::uint64_t number_of(StreamRef stream) {
  return stream.context().stream_number(stream.native());
}

}  // namespace

TEST_CASE("each stream that berth owns has a unique number") {
  TappedDevice device;
  std::set<std::uint64_t> numbers{0, 1};
  std::set<CUstream> handles;
  bool is_handle_reused = false;
  for (int round = 0; round < 50; ++round) {
    const Stream first = device.stream();
    const Stream second = device.stream();
    for (const StreamRef stream : {first.ref(), second.ref()}) {
      CHECK(numbers.insert(number_of(stream)).second);
      CHECK(number_of(stream) == number_of(stream));
      is_handle_reused |= !handles.insert(stream.native()).second;
    }
  }
  if (!is_handle_reused) MESSAGE("the driver gave no handle twice");
}

TEST_CASE("a foreign stream has no number, and the legacy default stream has its own") {
  TappedDevice device;
  DeviceContext& context = device.context;
  CHECK(context.stream_number(nullptr) == 1);
  CHECK(context.stream_number(CU_STREAM_LEGACY) == 1);
  CHECK(context.stream_number(CU_STREAM_PER_THREAD) == 0);
  CHECK(context.stream_number(reinterpret_cast<CUstream>(std::uintptr_t{0x1234560})) == 0);
}

TEST_CASE("a stream keeps its number when its owner moves") {
  TappedDevice device;
  Stream stream = device.stream();
  const std::uint64_t number = number_of(stream);
  Stream moved = std::move(stream);
  CHECK(number_of(moved) == number);
  Stream other = device.stream();
  const StreamRef gone = other;
  other = std::move(moved);
  CHECK(number_of(other) == number);
  CHECK(number_of(gone) == 0);
}

TEST_CASE("a released stream loses its number, and an adopted stream gets a new one") {
  TappedDevice device;
  Stream stream = device.stream();
  const StreamRef ref = stream;
  const std::uint64_t number = number_of(ref);
  CHECK(stream.release() == ref.native());
  CHECK(number_of(ref) == 0);
  const Stream adopted = Stream::adopt(ref);
  CHECK(number_of(ref) > number);
}

TEST_CASE("a stream has its number until its observers have been notified") {
  struct Observer : StreamObserver {
    void stream_retiring(DeviceContext& context, CUstream stream) noexcept override {
      number = context.stream_number(stream);
    }
    std::uint64_t number = 0;
  };
  TappedDevice device;
  Observer observer;
  std::optional<Stream> stream = device.stream();
  const StreamRef ref = *stream;
  const std::uint64_t number = number_of(ref);
  ref.context().add_observer(observer);
  stream.reset();
  ref.context().remove_observer(observer);
  CHECK(observer.number == number);
  CHECK(number_of(ref) == 0);
}

TEST_CASE("a stream that cannot be registered for lack of memory is destroyed") {
  TappedDevice device;
  const Stream first = device.stream();  // the device is in use
  DeviceContext& context = device.context;
  const std::size_t before = device.simulator.live().streams;
  std::size_t refused = 0;
  for (std::size_t granted = 0; granted < 100; ++granted) {
    bool is_made = false;
    try {
      const ScarceMemory scarce(granted);
      const Stream stream(context, {});
      is_made = true;
    } catch (const std::exception&) {  // the driver's part, or berth's
      ++refused;
    }
    REQUIRE(device.simulator.live().streams == before);
    if (is_made) break;
  }
  CHECK(refused > 0);
}

TEST_CASE("a stream adopted while memory is short counts as foreign") {
  TappedDevice device;
  Stream made = device.stream();
  const StreamRef ref = made;
  made.release();
  std::uint64_t number = 1;
  {
    std::optional<Stream> adopted;
    {
      const ScarceMemory scarce(0);
      adopted.emplace(Stream::adopt(ref));
      number = number_of(ref);
    }
  }
  CHECK(number == 0);
}

TEST_CASE("a stream that is owned again under the same handle has another number") {
  OwnedStreams owned;
  int place = 0;
  auto* const handle = reinterpret_cast<CUstream>(&place);
  owned.add(handle);
  const std::uint64_t first = owned.number_of(handle);
  owned.add(handle);  // others have destroyed the first one
  CHECK(owned.number_of(handle) > first);
  owned.remove(handle);
  CHECK(owned.number_of(handle) == OwnedStreams::kNotOwned);
}

}  // namespace stream_number_test
