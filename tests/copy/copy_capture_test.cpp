// SPDX-License-Identifier: Apache-2.0
// Copies on a stream that is being captured.
#include <cstddef>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/copy_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"

namespace copy_capture_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 100'000;

bool is_pageable(Kind kind) {
  return kind == Kind::pageable;
}

sim::Config two_devices() {
  sim::Config config;
  config.devices = 2;
  return config;
}

}  // namespace

TEST_CASE("on a captured stream a copy is captured, or refused if it involves the host") {
  for (const Kind to : kKinds) {
    for (const Kind from : kKinds) {
      if (to == Kind::peer && (is_host(from) || from == Kind::peer || from == Kind::managed))
        continue;  // another stream's
      if (from == Kind::peer && (is_host(to) || to == Kind::managed)) continue;
      CAPTURE(name_of(to));
      CAPTURE(name_of(from));
      CopyTest test(two_devices());
      const Stream stream = test.stream();
      Buffer target(test, to, kBytes);
      Buffer source(test, from, kBytes);
      const Bytes before = pattern(kBytes, 1);
      target.write(before);
      source.write(pattern(kBytes, 2));
      const bool by_host = is_pageable(to) || is_pageable(from) || (is_host(to) && is_host(from));

      begin_capture(stream);
      const auto copy = [&] {
        test.copier.copy_async(target.data(), source.data(), kBytes, stream);
      };
      if (by_host) {
        CHECK(contains(message_of<StreamCaptured>(copy), "by the host"));
        CHECK(test.copier.counters().bytes_copied == 0);
      } else {
        copy();
      }
      const CapturedGraph graph(stream);
      CHECK(graph.nodes() == (by_host ? 0 : 1));
      CHECK(target.read() == before);
      const Bytes later = pattern(kBytes, 3);
      source.write(later);
      graph.launch();
      stream.ref().sync();
      CHECK(target.read() == (by_host ? before : later));

      // The next copy works, in either case.
      target.write(before);
      test.copier.copy(target.data(), source.data(), kBytes, stream);
      CHECK(target.read() == later);
    }
  }
}

TEST_CASE("copies on the legacy stream are refused while a blocking stream is captured") {
  CopyTest test(two_devices());
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(0));
  const Stream captured =
      test.runtime->create_stream(Device::cuda(0), {.blocks_with_legacy_default = true});
  Buffer device(test, Kind::device, kBytes);
  Buffer other(test, Kind::device, kBytes);
  Buffer pinned(test, Kind::pinned, kBytes);
  Buffer registered(test, Kind::registered, kBytes);
  Buffer managed(test, Kind::managed, kBytes);
  Buffer pageable(test, Kind::pageable, kBytes);
  begin_capture(captured, CU_STREAM_CAPTURE_MODE_RELAXED);
  for (Buffer* const there : {&other, &pinned, &registered, &managed, &pageable}) {
    for (const std::size_t bytes : {std::size_t{100}, kBytes}) {
      const CopyRange ranges[] = {{device.data(), there->data(), bytes}};
      message_of<StreamCaptured>(
          [&] { test.copier.copy_async(device.data(), there->data(), bytes, legacy); });
      message_of<StreamCaptured>(
          [&] { test.copier.copy_async(there->data(), device.data(), bytes, legacy); });
      message_of<StreamCaptured>(
          [&] { test.copier.start(device.data(), there->data(), bytes, legacy); });
      message_of<StreamCaptured>([&] { test.copier.start_batch(ranges, legacy); });
      message_of<StreamCaptured>([&] {
        test.copier.start_rows({device.data(), 10}, {there->data(), 20}, 5, bytes / 20, legacy);
      });
    }
  }
  message_of<StreamCaptured>([&] { test.copier.fill_async(device.data(), 1, kBytes, legacy); });
  message_of<StreamCaptured>([&] { test.copier.fill_async(managed.data(), 1, kBytes, legacy); });
  const CapturedGraph graph(captured);  // it is valid
  test.copier.copy_async(device.data(), pinned.data(), kBytes, legacy);
  legacy.sync();
}

}  // namespace copy_capture_test
