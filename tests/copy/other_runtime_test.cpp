// SPDX-License-Identifier: Apache-2.0
// Pinned memory that another Runtime of the process owns: it is reused, or unpinned, only once the
// copies that name it are done.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "support/death.hpp"
#include "support/errors.hpp"

namespace other_runtime_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config with_progress(sim::Progress progress) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  return config;
}

RuntimeOptions simulated() {
  RuntimeOptions options;
  options.driver = "sim";
  return options;
}

/// Two Runtimes: that of the copier, and one whose pinned memory is copied.
struct TwoRuntimes : CopyTest {
  explicit TwoRuntimes(sim::Progress progress = sim::Progress::manual)
      : CopyTest(with_progress(progress)), other(std::make_unique<Runtime>(simulated())) {}

  [[nodiscard]] Allocation block(std::size_t bytes) {
    return other->pinned_memory().allocate(bytes);
  }
  /// As many blocks as would be the freed one again sooner or later, filled with something else.
  [[nodiscard]] std::vector<Allocation> overwrite_what_is_free(std::size_t bytes) {
    std::vector<Allocation> blocks;
    for (int count = 0; count < 8; ++count) {
      blocks.push_back(block(bytes));
      std::ranges::fill(bytes_of(blocks.back()), static_cast<unsigned char>(0xEE));
    }
    return blocks;
  }
  /// Whether no work holds back what has been freed.
  [[nodiscard]] bool all_comes_free() const {
    other->pinned_memory().release_unused(std::chrono::nanoseconds(0));
    return other->pinned_memory().counters().bytes_active.current == 0;
  }
  static std::span<unsigned char> bytes_of(const Allocation& block) {
    return {static_cast<unsigned char*>(block.data()), block.bytes()};
  }

  std::unique_ptr<Runtime> other;
};

constexpr std::size_t kBytes = 10'000;

}  // namespace

TEST_CASE("a source that another Runtime has pinned is reused only once it has been read") {
  TwoRuntimes test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  const Bytes content = pattern(kBytes, 1);
  void* freed = nullptr;
  {
    const Allocation source = test.block(kBytes);
    freed = source.data();
    std::ranges::copy(content, TwoRuntimes::bytes_of(source).begin());
    test.copier.copy_async(device.data(), source.data(), kBytes, stream);
  }
  {
    const auto meanwhile = test.overwrite_what_is_free(kBytes);
    CHECK(
        std::ranges::none_of(meanwhile, [&](const Allocation& it) { return it.data() == freed; }));
  }
  CHECK_FALSE(test.all_comes_free());
  stream.ref().sync();
  CHECK((device.read() == content));
  CHECK(test.all_comes_free());
}

TEST_CASE("a target that another Runtime has pinned is reused only once it has been written") {
  TwoRuntimes test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  {
    const Allocation target = test.block(kBytes);
    test.copier.start(target.data(), device.data(), kBytes, stream);
  }
  const auto meanwhile = test.overwrite_what_is_free(kBytes);
  stream.ref().sync();
  for (const Allocation& block : meanwhile)
    CHECK(std::ranges::all_of(TwoRuntimes::bytes_of(block), [](int byte) { return byte == 0xEE; }));
}

TEST_CASE("a batch waits with every block of another Runtime, packed or not") {
  for (const std::size_t bytes : {std::size_t{600}, std::size_t{20'000}}) {
    CAPTURE(bytes);
    TwoRuntimes test;
    const Stream stream = test.stream();
    Buffer from(test, Kind::device, 4 * bytes);
    Buffer to(test, Kind::device, 4 * bytes);
    const Bytes content = pattern(4 * bytes, 2);
    {
      std::vector<Allocation> targets;
      std::vector<Allocation> sources;
      std::vector<CopyRange> ranges;
      for (std::size_t part = 0; part < 4; ++part) {
        targets.push_back(test.block(bytes));
        ranges.push_back({targets.back().data(), from.data() + part * bytes, bytes});
        sources.push_back(test.block(bytes));
        std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(part * bytes), bytes,
                    TwoRuntimes::bytes_of(sources.back()).begin());
        ranges.push_back({to.data() + part * bytes, sources.back().data(), bytes});
      }
      test.copier.start_batch(ranges, stream).detach();
    }
    std::vector<Allocation> meanwhile;
    for (int round = 0; round < 4; ++round) {
      for (Allocation& block : test.overwrite_what_is_free(bytes))
        meanwhile.push_back(std::move(block));
    }
    stream.ref().sync();
    CHECK((to.read() == content));
    for (const Allocation& block : meanwhile)
      CHECK(
          std::ranges::all_of(TwoRuntimes::bytes_of(block), [](int byte) { return byte == 0xEE; }));
  }
}

TEST_CASE("a registration of another Runtime ends once the copies that name it are done") {
  TwoRuntimes test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  Bytes source = pattern(kBytes, 3);
  const Bytes content = source;
  test.log.submit(stream, "earlier");
  {
    const HostRegistration pinned =
        test.other->pinned_memory().register_memory(source.data(), source.size());
    test.copier.copy_async(device.data(), source.data(), kBytes, stream);
    CHECK_FALSE(test.log.is_done("earlier"));
  }
  CHECK(test.log.is_done("earlier"));
  CHECK((device.read() == content));
}

TEST_CASE("free pinned memory of another Runtime is refused") {
  TwoRuntimes test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  void* freed = nullptr;
  {
    const Allocation block = test.block(kBytes);
    freed = block.data();
  }
  const std::string message = message_of<InvalidArgument>(
      [&] { test.copier.copy_async(device.data(), freed, kBytes, stream); });
  CHECK(contains(message, "is in free pinned memory"));
  CHECK(test.copier.counters().bytes_copied == 0);
}

TEST_CASE("a Runtime can be destroyed before the pinned memory of another one that it copied") {
  TwoRuntimes test(sim::Progress::random);
  std::vector<Allocation> targets;
  {
    Runtime copying(simulated());
    const Stream stream = copying.create_stream(Device::cuda(0));
    const Allocation device = copying.memory(Device::cuda(0)).allocate(kBytes, stream);
    targets.push_back(test.block(kBytes));
    copying.copier().copy_async(targets.back().data(), device.data(), kBytes, stream);
    stream.ref().sync();
  }
  targets.clear();
  test.other->pinned_memory().validate();
  CHECK(test.all_comes_free());
}

TEST_CASE("memory of another Runtime that a graph reads is not reused") {
  TwoRuntimes test;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kBytes);
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  void* freed = nullptr;
  REQUIRE(sim::berth_sim_cuStreamBeginCapture(stream.ref().native(),
                                              CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  {
    const Allocation source = test.block(kBytes);
    freed = source.data();
    test.copier.copy_async(device.data(), source.data(), kBytes, stream);
  }
  const auto meanwhile = test.overwrite_what_is_free(kBytes);
  CHECK(std::ranges::none_of(meanwhile, [&](const Allocation& it) { return it.data() == freed; }));
  CUgraph graph = nullptr;
  REQUIRE(sim::berth_sim_cuStreamEndCapture(stream.ref().native(), &graph) == CUDA_SUCCESS);
  REQUIRE(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("alone: an allocator of the program outlives its Runtime" * doctest::skip()) {
  default_abort();
  CopyTest test;
  const HostAllocator own(test.runtime->devices(), {});
  test.runtime.reset();
}

TEST_CASE("an allocator that outlives its Runtime stops the process, and the program learns why") {
  const std::string name = "alone: an allocator of the program outlives its Runtime";
  CHECK(contains(last_words_of_case(name).value_or("it continues"),
                 "an allocator, a Copier or a HandlePool of the program outlives the Runtime"));
}

}  // namespace other_runtime_test
