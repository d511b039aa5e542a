// SPDX-License-Identifier: Apache-2.0
// Copies of managed memory: by the device on a stream, by the host without one.
#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "support/errors.hpp"

namespace managed_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config two_devices() {
  sim::Config config;
  config.devices = 2;
  config.progress = sim::Progress::random;
  return config;
}

}  // namespace

TEST_CASE("managed memory is copied on a stream of any device, but for another device's memory") {
  CopyTest test(two_devices());
  Buffer managed(test, Kind::managed, 100'001);
  Buffer pageable(test, Kind::pageable, 100'001);
  Buffer back(test, Kind::managed, 100'001);
  Buffer peer(test, Kind::peer, 100'001);
  pageable.write(pattern(100'001, 3));
  for (const int device : {0, 1}) {
    CAPTURE(device);
    const Stream stream = test.stream(device);
    managed.write(pattern(100'001, 99));
    test.copier.copy_async(managed.data(), pageable.data(), 100'001, stream);
    test.copier.copy(back.data(), managed.data(), 100'001, stream);
    CHECK((back.read() == pattern(100'001, 3)));
    CHECK(back.guards_hold());
  }
  const Stream first = test.stream(0);
  CHECK(contains(message_of<InvalidArgument>(
                     [&] { test.copier.copy_async(peer.data(), managed.data(), 100'001, first); }),
                 "cuda:1"));
}

TEST_CASE("without a stream the host copies managed memory as host memory") {
  CopyTest test(two_devices());
  Buffer managed(test, Kind::managed, 1000);
  Buffer pageable(test, Kind::pageable, 1000);
  test.stream().ref().sync();  // a context is there, which could take it for device memory
  pageable.write(pattern(1000, 3));
  test.copier.copy(managed.data(), pageable.data(), 1000);
  CHECK((managed.read() == pattern(1000, 3)));
}

TEST_CASE("managed memory is filled") {
  CopyTest test(two_devices());
  Buffer managed(test, Kind::managed, 1000);
  const Stream stream = test.stream(1);
  test.copier.fill_async(managed.data(), 0x5C, 1000, stream);
  stream.ref().sync();
  CHECK((managed.read() == Bytes(1000, 0x5C)));
  CHECK(managed.guards_hold());
}

}  // namespace managed_copy_test
