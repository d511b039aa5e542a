// SPDX-License-Identifier: Apache-2.0
// Copies that are refused or are no-ops, fills, and options.
#include <cstddef>
#include <cstdint>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"

namespace copy_refusals_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config three_devices() {
  sim::Config config;
  config.devices = 3;
  return config;
}

bool same(const CopyCounters& a, const CopyCounters& b) {
  return a.copies_direct == b.copies_direct && a.copies_staged == b.copies_staged &&
         a.copies_host == b.copies_host && a.bytes_copied == b.bytes_copied &&
         a.staging_waits == b.staging_waits;
}

}  // namespace

TEST_CASE("0 bytes are a no-op for any pointers") {
  CopyTest test(three_devices());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 100);
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.copier.copy_async(nullptr, nullptr, 0, stream);
  test.copier.copy_async(device.data(), nullptr, 0, stream);
  test.copier.copy_async(device.data(), device.data(), 0, stream);
  test.copier.fill_async(nullptr, 1, 0, stream);
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK(same(test.copier.counters(), CopyCounters{}));
}

TEST_CASE("a fill of freed or host memory is refused, and the error names the kind of memory") {
  CopyTest test(three_devices());
  const Stream stream = test.stream();
  const auto refusal = [&](void* data) {
    return message_of<InvalidArgument>([&] { test.copier.fill_async(data, 1, 100, stream); });
  };
  DeviceAllocator& memory = test.runtime->memory(Device::cuda(0));
  void* const freed = memory.allocate_raw(100, stream);
  memory.deallocate(freed);
  memory.trim();
  Buffer pageable(test, Kind::pageable, 100);
  for (void* const data : {freed, static_cast<void*>(pageable.data())}) {
    CHECK(contains(refusal(data),
                   "is no memory of a device, but host memory, which no stream "
                   "fills, or memory that was freed; accepted: memory of a device"));
  }
  Buffer pinned(test, Kind::pinned, 100);
  CHECK(contains(refusal(pinned.data()), "but pinned host memory, which no stream fills"));
}

TEST_CASE("a stream of another Runtime is refused") {
  CopyTest test(three_devices());
  RuntimeOptions options;
  options.driver = "sim";
  Runtime other(options);
  const Stream stream = other.create_stream(Device::cuda(0));
  const Stream own = test.stream();
  Buffer device(test, Kind::device, 100);
  Buffer pinned(test, Kind::pinned, 100);
  const auto says = [](const std::string& message) {
    return contains(message, "a stream of cuda:0 of another Runtime");
  };
  CHECK(says(message_of<InvalidArgument>(
      [&] { test.copier.copy_async(device.data(), pinned.data(), 100, stream); })));
  CHECK(says(message_of<InvalidArgument>(
      [&] { test.copier.copy_async(pinned.data(), device.data(), 100, stream); })));
  const std::string fill =
      message_of<InvalidArgument>([&] { test.copier.fill_async(device.data(), 1, 100, stream); });
  CHECK(says(fill));
  CHECK(contains(fill, "whose Runtime::stream() wraps any handle"));
  for (const CopyStreams& streams : {CopyStreams{stream, own}, CopyStreams{own, stream}}) {
    const std::string joined = message_of<InvalidArgument>(
        [&] { test.copier.start(device.data(), pinned.data(), 100, streams); });
    CHECK(says(joined));
    CHECK(contains(joined, "the two streams of a copy"));
  }
  // Neither side is memory of one device.
  Buffer managed(test, Kind::managed, 100'000);
  std::vector<unsigned char> host(100'000);
  CHECK(says(message_of<InvalidArgument>(
      [&] { test.copier.copy_async(managed.data(), host.data(), 100, stream); })));
  CHECK(says(message_of<InvalidArgument>(
      [&] { test.copier.start(host.data(), managed.data(), 100'000, stream); })));
  const TransferOptions told{.on_done = [](std::exception_ptr) {}};
  CHECK(says(message_of<InvalidArgument>(
      [&] { test.copier.start(host.data(), host.data() + 50'000, 50'000, stream, told); })));
  CHECK(says(message_of<InvalidArgument>(
      [&] { test.runtime->completions().when_done(stream, [](std::exception_ptr) {}); })));
  const Stream joined = other.create_stream(Device::cuda(0));
  CHECK(says(message_of<InvalidArgument>([&] { test.runtime->join(stream, {joined}); })));
  const Stream elsewhere = other.create_stream(Device::cuda(1));
  CHECK_FALSE(contains(message_of<InvalidArgument>([&] {
                         test.copier.copy_async(device.data(), pinned.data(), 100, elsewhere);
                       }),
                       "Runtime"));
  CHECK(same(test.copier.counters(), CopyCounters{}));
}

TEST_CASE("null, overlapping and wrapping ranges are refused, and nothing is copied") {
  CopyTest test(three_devices());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 10'000);
  Buffer pinned(test, Kind::pinned, 10'000);
  Buffer pageable(test, Kind::pageable, 10'000);
  const Bytes content = pattern(10'000, 1);
  device.write(content);
  pinned.write(content);
  pageable.write(content);
  for (Buffer* const buffer : {&device, &pinned, &pageable}) {
    unsigned char* const data = buffer->data();
    message_of<InvalidArgument>([&] { test.copier.copy_async(nullptr, data, 1, stream); });
    message_of<InvalidArgument>([&] { test.copier.copy_async(data, nullptr, 1, stream); });
    message_of<InvalidArgument>([&] { test.copier.copy_async(data, data, 10'000, stream); });
    message_of<InvalidArgument>([&] { test.copier.copy_async(data, data, 1, stream); });
    message_of<InvalidArgument>([&] { test.copier.copy_async(data + 1, data, 2, stream); });
    message_of<InvalidArgument>([&] { test.copier.copy_async(data, data + 1, 9'999, stream); });
    message_of<InvalidArgument>([&] { test.copier.copy_async(data, data + 1, 2, stream); });
    message_of<InvalidArgument>([&] { test.copier.copy(data + 4'999, data, 5'000, stream); });
  }
  auto* const edge = reinterpret_cast<unsigned char*>(UINTPTR_MAX - 10);
  message_of<InvalidArgument>([&] { test.copier.copy_async(edge, pinned.data(), 100, stream); });
  message_of<InvalidArgument>([&] { test.copier.copy_async(pinned.data(), edge, 100, stream); });
  message_of<InvalidArgument>(
      [&] { test.copier.copy_async(device.data(), pinned.data(), SIZE_MAX, stream); });
  const std::string fill =
      message_of<InvalidArgument>([&] { test.copier.fill_async(nullptr, 1, 1, stream); });
  CHECK(contains(fill, "the target of a fill"));
  stream.ref().sync();
  CHECK((device.read() == content));
  CHECK((pinned.read() == content));
  CHECK((pageable.read() == content));
  CHECK(same(test.copier.counters(), CopyCounters{}));
}

TEST_CASE("a copy without a stream copies host memory and touches no unused device") {
  CopyTest test(three_devices());
  const Bytes content = pattern(10'000, 3);
  Bytes target(10'000);
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.copier.copy(target.data(), content.data(), content.size());
  CHECK((target == content));
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK(test.copier.counters().copies_host == 1);
  CHECK(test.copier.counters().bytes_copied == content.size());

  const Buffer device(test, Kind::device, 10'000);
  const Buffer pinned(test, Kind::pinned, 10'000);
  test.copier.copy(pinned.data(), content.data(), content.size());
  CHECK((pinned.read() == content));
  for (const Buffer* const buffer : {&device, &pinned}) {
    message_of<InvalidArgument>([&] { test.copier.copy(buffer->data(), nullptr, 1); });
    message_of<InvalidArgument>([&] { test.copier.copy(buffer->data(), buffer->data() + 1, 10); });
  }
  const std::string message =
      message_of<InvalidArgument>([&] { test.copier.copy(target.data(), device.data(), 10); });
  CHECK(contains(message, "cuda:0"));
  message_of<InvalidArgument>([&] { test.copier.copy(device.data(), target.data(), 10); });
  CHECK(test.copier.counters().copies_host == 2);
}

TEST_CASE("a forked child copies host memory") {
  CopyTest test;
  const Buffer device(test, Kind::device, 100);
  const Bytes content = pattern(1000, 4);
  CHECK(exit_code_of([&] {
          Bytes target(1000);
          test.copier.copy(target.data(), content.data(), content.size());
          _exit(target == content ? 0 : 1);
          return 2;
        }) == 0);
}

TEST_CASE("neighboring ranges of one block are copied") {
  CopyTest test(three_devices());
  const Stream stream = test.stream();
  for (const Kind kind : {Kind::device, Kind::pinned, Kind::pageable}) {
    CAPTURE(name_of(kind));
    Buffer buffer(test, kind, 10'000);
    Bytes content = pattern(10'000, 2);
    buffer.write(content);
    test.copier.copy(buffer.data() + 5'000, buffer.data(), 5'000, stream);
    std::copy_n(content.begin(), 5'000, content.begin() + 5'000);
    CHECK((buffer.read() == content));
    test.copier.copy(buffer.data(), buffer.data() + 7'000, 3'000, stream);
    std::copy_n(content.begin() + 7'000, 3'000, content.begin());
    CHECK((buffer.read() == content));
  }
}

TEST_CASE("a stream that belongs to neither side's device is rejected") {
  CopyTest test(three_devices());
  const Stream zero = test.stream(0);
  const Stream one = test.stream(1);
  const Stream two = test.stream(2);
  Buffer device(test, Kind::device, 1000);
  Buffer peer(test, Kind::peer, 1000);
  Buffer pinned(test, Kind::pinned, 1000);
  Buffer pageable(test, Kind::pageable, 1000);
  const auto refused = [&](void* target, const void* source, const Stream& stream) {
    const std::string message =
        message_of<InvalidArgument>([&] { test.copier.copy_async(target, source, 1000, stream); });
    CHECK(contains(message, stream.ref().device().to_string()));
  };
  refused(device.data(), peer.data(), two);
  refused(peer.data(), device.data(), two);
  refused(device.data(), pinned.data(), one);
  refused(pinned.data(), device.data(), one);
  refused(device.data(), pageable.data(), two);
  refused(pageable.data(), peer.data(), zero);
  const std::string elsewhere =
      message_of<InvalidArgument>([&] { test.copier.fill_async(device.data(), 1, 1000, one); });
  CHECK(contains(elsewhere, "a stream of cuda:1 cannot fill memory of cuda:0"));
  for (const Buffer* const host : {&pinned, &pageable}) {
    const std::string message =
        message_of<InvalidArgument>([&] { test.copier.fill_async(host->data(), 1, 1000, zero); });
    CHECK(contains(message, "host memory"));
    CHECK(contains(message, "accepted: memory of a device"));
  }
  CHECK(same(test.copier.counters(), CopyCounters{}));
  test.copier.copy(device.data(), pinned.data(), 1000, zero);
}

TEST_CASE("fill_async sets every byte of its range and none beside it") {
  CopyTest test(three_devices());
  const Stream stream = test.stream();
  for (const Kind kind : {Kind::device, Kind::foreign_device}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, std::size_t{511}, 1_MiB + 1}) {
      CAPTURE(bytes);
      Buffer buffer(test, kind, bytes);
      test.copier.fill_async(buffer.data(), 0, bytes, stream);
      stream.ref().sync();
      CHECK((buffer.read() == Bytes(bytes, 0)));
      test.copier.fill_async(buffer.data(), 255, bytes, stream);
      stream.ref().sync();
      CHECK((buffer.read() == Bytes(bytes, 255)));
      CHECK(buffer.guards_hold());
    }
  }
}

TEST_CASE("options of the copier out of range are refused by name") {
  const sim::Simulator simulator{sim::Config{}};
  const auto refusal = [](CopierOptions copier) {
    RuntimeOptions options = CopyTest::with(copier);
    options.read_environment = false;  // which sets the gates when the suite runs without them
    options.driver = "sim";
    return message_of<InvalidArgument>([&] {
      Runtime runtime(options);
      return &runtime.copier();
    });
  };
  for (const std::size_t slot : {std::size_t{0}, std::size_t{4096}, 64_KiB - 4096, 64_KiB + 1,
                                 64_KiB + 512, 1_MiB + 2048, 1_GiB + 4096, ~std::size_t{4095}}) {
    CAPTURE(slot);
    CHECK(
        contains(refusal({.staging_slot_bytes = slot, .staging_slots = 4}), "staging_slot_bytes"));
  }
  for (const std::size_t slots : {std::size_t{0}, std::size_t{1}, std::size_t{65537}}) {
    CAPTURE(slots);
    CHECK(
        contains(refusal({.staging_slot_bytes = 64_KiB, .staging_slots = slots}), "staging_slots"));
  }
  for (const std::size_t threads : {std::size_t{0}, std::size_t{65}}) {
    CAPTURE(threads);
    CHECK(contains(refusal({.workers = threads}), "CopierOptions::workers"));
    CHECK(contains(refusal({.file_workers = threads}), "CopierOptions::file_workers"));
  }
  CHECK(contains(refusal({.staging_on_shortage = StagingShortage(3)}),
                 "staging_on_shortage is 3; accepted: share, grow, fall_back"));
  CHECK(contains(refusal({.gates = CopyGates(255)}), "gates is 255; accepted: automatic, on, off"));
}

TEST_CASE("each copy is counted by the path that it took" * needs_gates()) {
  CopyTest test(three_devices());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 1000);
  Buffer other(test, Kind::foreign_device, 1000);
  Buffer pinned(test, Kind::pinned, 1000);
  Buffer pageable(test, Kind::pageable, 1000);
  test.copier.copy(device.data(), pinned.data(), 1000, stream);
  test.copier.copy(other.data(), device.data(), 900, stream);
  test.copier.copy(device.data(), pageable.data(), 800, stream);
  test.copier.copy(pageable.data(), device.data(), 700, stream);
  test.copier.copy(pageable.data(), pinned.data(), 600, stream);
  const CopyCounters counters = test.copier.counters();
  CHECK(counters.copies_direct == 2);
  CHECK(counters.copies_staged == 2);
  CHECK(counters.copies_host == 1);
  CHECK(counters.bytes_copied == 4000);
  CHECK(same(test.runtime->statistics().copies, counters));
}

}  // namespace copy_refusals_test
