// SPDX-License-Identifier: Apache-2.0
// Copies of missing memory: freed device memory, and pages that are unmapped or protected. The copy
// fails with an error and copies nothing, and the next copy succeeds.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/process_memory.hpp"
#include "copy/copy_fixture.hpp"
#include "support/errors.hpp"

namespace missing_memory_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 3_MiB;

/// Pages of which the last is not there, or not to be touched. They lie far below where the kernel
/// puts other mappings, so that nothing else comes to lie in the hole.
class Pages {
 public:
  explicit Pages(bool unmaps) : bytes_mapped_(unmaps ? kBytes - 4096 : kBytes) {
    void* const far_below = reinterpret_cast<void*>(std::uintptr_t{0x2000'0000'0000});
    void* const pages =
        mmap(far_below, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    data_ = static_cast<unsigned char*>(pages);
    unsigned char* const last = data_ + kBytes - 4096;
    const int done = unmaps ? munmap(last, 4096) : mprotect(last, 4096, PROT_NONE);
    REQUIRE(done == 0);
  }
  ~Pages() { munmap(data_, bytes_mapped_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] unsigned char* data() const { return data_; }

 private:
  std::size_t bytes_mapped_;  // without the hole, which may be another's by then
  unsigned char* data_ = nullptr;
};

/// Memory of a device that the driver has back.
unsigned char* freed_memory(CopyTest& test) {
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  CUdeviceptr address = 0;
  REQUIRE(sim::berth_sim_cuMemAlloc(&address, kBytes) == CUDA_SUCCESS);
  REQUIRE(sim::berth_sim_cuMemFree(address) == CUDA_SUCCESS);
  return reinterpret_cast<unsigned char*>(address);
}

void refused(const unsigned char* missing, const std::function<void()>& copy) {
  const std::string message = message_of<InvalidArgument>(copy);
  CHECK(contains(message, fmt::format("{} with", fmt::ptr(missing))));
  CHECK(contains(message, "this process cannot"));
  CHECK(contains(message, "accepted: existing memory"));
}

/// `missing` as either side of every kind of copy of all of it.
void check_refused(CopyTest& test, unsigned char* missing) {
  const Stream stream = test.stream();
  Copier& copier = test.copier;
  const Bytes content = pattern(kBytes, 1);
  Buffer there(test, Kind::device, kBytes);
  Buffer host(test, Kind::pageable, kBytes);
  there.write(content);
  host.write(content);
  refused(missing, [&] { copier.start(there.data(), missing, kBytes, stream); });
  refused(missing, [&] { copier.start(missing, there.data(), kBytes, stream); });
  refused(missing, [&] { copier.start(host.data(), missing, kBytes, stream); });
  refused(missing, [&] { copier.copy_async(there.data(), missing, kBytes, stream); });
  refused(missing, [&] { copier.copy(host.data(), missing, kBytes); });
  refused(missing, [&] { copier.copy(missing, host.data(), kBytes); });
  refused(missing, [&] {
    copier.start_rows({there.data(), 1000}, {missing, 4096}, 1000, kBytes / 4096, stream);
  });
  const CopyRange ranges[] = {{there.data(), host.data(), 1000},
                              {there.data() + 2000, missing, kBytes - 2000}};
  message_of<InvalidArgument>([&] { copier.start_batch(ranges, stream); });
  CHECK(copier.counters().bytes_copied == 0);
  CHECK((there.read() == content));
  CHECK((host.read() == content));
  there.write(Bytes(kBytes, 0));
  copier.start(there.data(), host.data(), kBytes, stream).wait();
  CHECK((there.read() == content));
}

}  // namespace

TEST_CASE("freed device memory is refused by every kind of copy") {
  CopyTest test;
  unsigned char* const missing = freed_memory(test);
  CHECK_FALSE(is_readable(missing));
  check_refused(test, missing);
}

TEST_CASE("host memory with an unmapped or protected end is refused") {
  for (const bool unmaps : {true, false}) {
    CAPTURE(unmaps);
    CopyTest test;
    const Pages pages(unmaps);
    CHECK(is_readable(pages.data() + kBytes - 4097));
    CHECK_FALSE(is_readable(pages.data() + kBytes - 4096));
    const unsigned char* const missing = pages.data() + kBytes - 4096;
    CHECK(are_readable(missing - 4097, 4097));
    CHECK_FALSE(are_readable(missing - 1, 2));
    CHECK_FALSE(are_readable(missing - 4097, 4098));
    CHECK_FALSE(are_readable(missing, 4097));
    check_refused(test, pages.data());
  }
}

TEST_CASE("a read-only mapping is refused as a target and accepted as a source") {
  CopyTest test;
  const Stream stream = test.stream();
  Copier& copier = test.copier;
  Buffer there(test, Kind::device, kBytes);
  const Bytes content = pattern(kBytes, 1);
  there.write(content);
  Bytes host(kBytes, 2);
  void* const pages =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  auto* const data = static_cast<unsigned char*>(pages);
  REQUIRE(mprotect(data + kBytes - 4096, 4096, PROT_READ) == 0);
  CHECK(is_readable(data + kBytes - 1));
  CHECK_FALSE(is_writable(data + kBytes - 1));
  CHECK(is_writable(data + kBytes - 4097));
  const auto refused_target = [&](const std::function<void()>& copy) {
    CHECK(contains(message_of<InvalidArgument>(copy), "this process cannot write it at"));
  };
  unsigned char* const end = data + kBytes - 100;
  refused_target([&] { copier.copy(end, there.data(), 100, stream); });
  refused_target([&] { copier.copy(data, there.data(), kBytes, stream); });
  refused_target([&] { copier.copy_async(end, there.data(), 100, stream); });
  refused_target([&] { copier.start(data, there.data(), kBytes, stream); });
  refused_target([&] { copier.start(data, host.data(), kBytes, stream); });
  refused_target([&] {
    copier.start_rows({data, 4096}, {there.data(), 4096}, 4096, kBytes / 4096, stream);
  });
  const CopyRange ranges[] = {{host.data(), there.data(), 100}, {end, there.data() + 100, 100}};
  refused_target([&] { copier.start_batch(ranges, stream); });
  const CopyRange neighbors[] = {{end - 4096, there.data(), 100}, {end, there.data() + 100, 100}};
  refused_target([&] { copier.start_batch(neighbors, stream); });
  refused_target([&] { copier.copy(data, host.data(), kBytes); });
  CHECK(copier.counters().bytes_copied == 0);
  CHECK((host == Bytes(kBytes, 2)));
  copier.copy(there.data(), data, kBytes, stream);
  copier.copy(host.data(), data, kBytes);
  CHECK((host == Bytes(kBytes, 0)));
  munmap(pages, kBytes);
}

TEST_CASE("one unmapped range is found among thousands in a batch") {
  CopyTest test;
  const Stream stream = test.stream();
  Buffer there(test, Kind::device, 8_MiB);
  Buffer host(test, Kind::pageable, 8_MiB);
  unsigned char* const missing = freed_memory(test);
  std::vector<CopyRange> ranges;
  for (std::size_t offset = 0; offset < 8_MiB; offset += 2048)
    ranges.push_back({there.data() + offset, host.data() + offset, 1024});
  ranges[3000].source = missing;
  refused(missing, [&] { test.copier.start_batch(ranges, stream); });
  CHECK(test.copier.counters().bytes_copied == 0);
  ranges[3000].source = host.data() + 3000 * 2048;
  test.copier.start_batch(ranges, stream).wait();
  CHECK(test.copier.counters().bytes_copied == ranges.size() * 1024);
}

TEST_CASE("is_readable() and is_writable() accept any address and preserve errno") {
  const unsigned char here[16] = {};
  for (const unsigned char& byte : here) CHECK(is_readable(&byte));
  CHECK_FALSE(is_readable(nullptr));
  const auto* const last = reinterpret_cast<const void*>(~std::uintptr_t{0});
  CHECK_FALSE(is_readable(last));
  unsigned char there[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (unsigned char& byte : there) CHECK(is_writable(&byte));
  for (std::size_t index = 0; index < 16; ++index) CHECK(there[index] == index + 1);
  CHECK_FALSE(is_writable(nullptr));
  CHECK_FALSE(is_writable(last));
  errno = ERANGE;
  static_cast<void>(is_readable(here));
  static_cast<void>(is_readable(last));
  static_cast<void>(is_writable(there));
  static_cast<void>(is_writable(last));
  const int after = errno;
  CHECK(after == ERANGE);
}

}  // namespace missing_memory_test
