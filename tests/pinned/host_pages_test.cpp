// SPDX-License-Identifier: Apache-2.0
#include "pinned/host_pages.hpp"

#include <array>
#include <cstddef>
#include <fstream>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "base/host_room.hpp"
#include "support/temporary_folder.hpp"

namespace host_pages_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Pages {
  explicit Pages(std::size_t size) : bytes(size), data(map_host_pages(size)) {
    REQUIRE(data != nullptr);
  }
  ~Pages() { unmap_host_pages(data, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// How many pages of the range the system has in memory.
  [[nodiscard]] std::size_t resident() const {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> in_memory((bytes + page - 1) / page);
    REQUIRE(mincore(data, bytes, in_memory.data()) == 0);
    std::size_t count = 0;
    for (const unsigned char flags : in_memory) count += flags & 1U;
    return count;
  }

  const std::size_t bytes;
  void* const data;
};

bool is_mapped(void* data) {
  unsigned char in_memory = 0;
  return mincore(data, 1, &in_memory) == 0;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("prefault touches every page, whatever the number of threads") {
  for (const std::size_t bytes : {4_KiB, 1_MiB, 9_MiB, 17_MiB + 4_KiB}) {
    for (const unsigned threads : {1U, 2U, 7U, 128U}) {
      CAPTURE(bytes);
      CAPTURE(threads);
      const Pages pages(bytes);
      CHECK(pages.resident() == 0);
      CHECK(prefault(pages.data, bytes, threads));
      CHECK(pages.resident() == bytes / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    }
  }
}

TEST_CASE("pages read as 0 and can be written from end to end") {
  const Pages pages(5_MiB);
  CHECK(prefault(pages.data, pages.bytes, 4));
  auto* const bytes = static_cast<volatile unsigned char*>(pages.data);
  CHECK(int{bytes[0]} + int{bytes[pages.bytes / 2]} + int{bytes[pages.bytes - 1]} == 0);
  bytes[0] = 7;
  bytes[pages.bytes - 1] = 7;
  CHECK(int{bytes[0]} + int{bytes[pages.bytes - 1]} == 14);
}

TEST_CASE("large ranges start at a huge page, and all of them goes back") {
  void* const data = map_host_pages(6_MiB);
  REQUIRE(data != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(data) % 2_MiB == 0);
  unmap_host_pages(data, 6_MiB);
  CHECK_FALSE(is_mapped(data));
  CHECK_FALSE(is_mapped(static_cast<std::byte*>(data) + 6_MiB - 4_KiB));
}

TEST_CASE("more pages than the machine has are refused at once") {
  CHECK(map_host_pages(std::size_t{1} << 46) == nullptr);
}

TEST_CASE("pages are bound to an existing NUMA node if the system permits it") {
  const Pages pages(1_MiB);
  if (!prefer_node(pages.data, pages.bytes, 0)) {
    MESSAGE("skipped: the system refuses to bind memory here");
    return;
  }
  int policy = -1;
  std::array<unsigned long, 16> nodes{};
  constexpr unsigned long kOfAddress = 2;  // MPOL_F_ADDR
  REQUIRE(syscall(SYS_get_mempolicy, &policy, nodes.data(), 1024UL, pages.data, kOfAddress) == 0);
  CHECK(policy == 1);  // MPOL_PREFERRED
  CHECK(nodes[0] == 1);
}

TEST_CASE("binding to an invalid node is refused and leaves the pages usable") {
  const Pages pages(1_MiB);
  for (const int node : {-1, 1023, 1024, 1'000'000}) {
    CAPTURE(node);
    CHECK_FALSE(prefer_node(pages.data, pages.bytes, node));
  }
  CHECK(prefault(pages.data, pages.bytes, 2));
}

TEST_CASE("host_room_bytes() is the smaller of the room of machine and control group") {
  const TemporaryFolder folder;
  const std::string group = folder.path();
  const std::string meminfo = group + "/meminfo";
  write(meminfo, "MemTotal:  900 kB\nMemFree:  10 kB\nMemAvailable:   500 kB\n");
  CHECK(host_room_bytes(meminfo, group) == 500_KiB);
  write(group + "/memory.current", "307200\n");
  CHECK(host_room_bytes(meminfo, group) == 500_KiB);
  write(group + "/memory.max", "max\n");
  CHECK(host_room_bytes(meminfo, group) == 500_KiB);
  write(group + "/memory.max", "409600\n");
  CHECK(host_room_bytes(meminfo, group) == 100_KiB);
  write(group + "/memory.stat", "anon 5\ninactive_file 204800\nactive_file 7\n");
  CHECK(host_room_bytes(meminfo, group) == 300_KiB);
  write(group + "/memory.max", "1024\n");
  CHECK(host_room_bytes(meminfo, group) == 0);
  CHECK(host_room_bytes(group + "/none", group + "/none") ==
        std::numeric_limits<std::size_t>::max());
}

}  // namespace host_pages_test
