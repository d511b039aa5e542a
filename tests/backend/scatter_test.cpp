// SPDX-License-Identifier: Apache-2.0
// Scatter and gather of the buffers of backends.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_buffer.hpp"

#include "backend/backend_fixture.hpp"

namespace scatter_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("host memory is scattered to devices of several backends, and gathered") {
  BackendFixture fixture;
  fixture.register_fake("fake2");
  const Device other = Device::of(DeviceType::register_name("fake2"), 1);
  const auto content = numbered_bytes(1000);
  std::atomic<int> calls = 0;
  const BufferShard shards[] = {
      {fixture.device(0), 500}, {other, 0}, {other, 499}, {fixture.device(1), 1}};
  const std::vector<DeviceBuffer> parts = fixture.buffers().scatter(
      content.data(), 1000, shards, {.on_done = [&](const std::exception_ptr&) { ++calls; }});
  REQUIRE(parts.size() == 4);
  std::size_t begin = 0;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    CHECK(parts[index].device() == shards[index].device);
    REQUIRE(parts[index].bytes() == shards[index].bytes);
    CHECK(parts[index].ready().bytes_done() == 1000);
    const auto part = content_of(parts[index]);
    CHECK(std::equal(part.begin(), part.end(), content.begin() + std::ptrdiff_t(begin)));
    begin += part.size();
  }
  while (calls == 0) std::this_thread::yield();
  CHECK(calls == 1);

  std::vector<std::byte> back(1000);
  fixture.buffers().gather(back.data(), 1000, parts).wait();
  CHECK(are_equal(back, content));
  const DeviceBuffer* const again[] = {&parts[3], &parts[3]};
  fixture.buffers().gather(back.data(), 2, again).wait();
  CHECK(back[1] == content[999]);
  CHECK(fixture.buffers().counters(other).bytes_written == 499);
  CHECK(fixture.buffers().counters(other).bytes_read == 499 * 2);
}

TEST_CASE("an operation whose end the backend reports twice ends once") {
  BackendFixture fixture;
  fixture.machine->is_late = true;
  fixture.machine->ends_twice = true;
  const auto content = numbered_bytes(100);
  const BufferShard shards[] = {{fixture.device(0), 60}, {fixture.device(1), 40}};
  const std::vector<DeviceBuffer> parts = fixture.buffers().scatter(content.data(), 100, shards);
  CHECK(fixture.machine->run_next());
  CHECK_FALSE(parts[0].ready().is_done());
  CHECK(parts[0].ready().bytes_done() == 60);
  CHECK(fixture.machine->run_next());
  CHECK(parts[0].ready().is_done());
  CHECK(parts[0].ready().bytes_done() == 100);
}

TEST_CASE("a scatter or gather ends with its last part, and reports the first failure") {
  BackendFixture fixture;
  const auto content = numbered_bytes(100);
  const BufferShard shards[] = {{fixture.device(0), 60}, {fixture.device(1), 40}};
  fixture.machine->is_late = true;
  std::vector<DeviceBuffer> parts = fixture.buffers().scatter(content.data(), 100, shards);
  CHECK(fixture.machine->run_next());
  CHECK_FALSE(parts[0].ready().is_done());
  CHECK(parts[0].ready().bytes_done() == 60);
  CHECK(fixture.machine->run_next());
  CHECK(parts[0].ready().is_done());
  std::vector<std::byte> back(100);
  const Transfer gathered = fixture.buffers().gather(back.data(), 100, parts);
  fixture.machine->failure = "told to";
  fixture.machine->run_all();
  CHECK(contains(message_of<BackendError>([&] {
                   gathered.wait();
                   return 0;
                 }),
                 "told to"));
  fixture.machine->failure.clear();
  fixture.machine->is_late = false;
  fixture.machine->refusal = "no room";
  message_of<BackendError>([&] { return fixture.buffers().scatter(content.data(), 100, shards); });
  message_of<BackendError>([&] { return fixture.buffers().gather(back.data(), 100, parts); });
  CHECK(fixture.machine->buffers_live == 2);
}

TEST_CASE("a scatter or gather is refused if its parts do not make up the whole") {
  BackendFixture fixture;
  const auto content = numbered_bytes(100);
  std::vector<std::byte> back(100);
  const auto scatter = [&](std::vector<BufferShard> shards) {
    return message_of<InvalidArgument>(
        [&] { return fixture.buffers().scatter(content.data(), 100, shards); });
  };
  const Device first = fixture.device(0);
  CHECK(scatter({}) == "a scatter without targets; accepted: one or more");
  for (const std::size_t bytes : {std::size_t{49}, std::size_t{51}, ~std::size_t{0} - 49})
    CHECK(contains(scatter({{first, 50}, {first, bytes}}),
                   "the source of a scatter has 100 B, and its targets have"));
  CHECK(contains(scatter({{first, 50}, {fixture.device(7), 50}}), "fake:7: no such device"));
  CHECK(contains(scatter({{Device::cpu(), 100}}), "cpu has no backend"));
  CHECK(contains(
      message_of<InvalidArgument>([&] {
        return fixture.buffers().scatter(nullptr, 100, std::vector<BufferShard>{{first, 100}});
      }),
      "source"));
  CHECK(fixture.machine->buffers_live == 0);

  std::vector<DeviceBuffer> parts;
  const auto gather = [&](std::size_t bytes) {
    return message_of<InvalidArgument>(
        [&] { return fixture.buffers().gather(back.data(), bytes, parts); });
  };
  CHECK(gather(0) == "a gather without sources; accepted: one or more");
  parts.push_back(fixture.buffers().create(first, content.data(), 100));
  CHECK(contains(gather(99), "the target of a gather has 99 B, and its sources have 100 B"));
  parts.emplace_back();
  CHECK(contains(gather(100), "buffer object is empty"));
  Runtime another{{.driver = "sim"}};
  another.register_backend("fake", std::make_unique<FakeBackend>(fixture.machine));
  parts[1] = another.buffers().create(first, content.data(), 1);
  CHECK(contains(gather(101), "gather: a buffer of fake:0 belongs to another Runtime"));
  parts.clear();
}

}  // namespace scatter_test
