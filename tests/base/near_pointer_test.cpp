// SPDX-License-Identifier: Apache-2.0
#include "base/near_pointer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <sys/mman.h>
#include <type_traits>

#include <doctest/doctest.h>

#include "support/death.hpp"

namespace near_pointer_test {

using namespace berth;
using namespace berth::test;

namespace {

struct Record {
  std::uint32_t value = 0;
  NearPointer<Record> next{};
};

/// Address space without memory, but for the pages that a test touches.
class Space {
 public:
  explicit Space(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(data_ != MAP_FAILED);
  }
  ~Space() { munmap(data_, bytes_); }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  [[nodiscard]] Record* at(std::size_t offset) const {
    return reinterpret_cast<Record*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

}  // namespace

TEST_CASE("a near pointer takes 4 bytes and can be a member of a union") {
  static_assert(sizeof(NearPointer<Record>) == 4);
  static_assert(std::is_trivially_default_constructible_v<NearPointer<Record>>);
  static_assert(std::is_trivially_destructible_v<NearPointer<Record>>);
  static_assert(!std::is_copy_constructible_v<NearPointer<Record>>);
  union Either {
    NearPointer<Record> pointer;
    std::uint32_t number;
  };
  Either either{};
  CHECK(either.pointer == nullptr);
}

TEST_CASE("a near pointer is null when value-initialized and after null was assigned") {
  Record record;
  Record other;
  CHECK(record.next.get() == nullptr);
  CHECK(record.next == nullptr);
  record.next = &other;
  CHECK(record.next != nullptr);
  record.next = nullptr;
  CHECK(record.next == nullptr);
}

TEST_CASE("a near pointer points to addresses before and behind itself") {
  Record records[3];
  for (std::uint32_t index = 0; index < 3; ++index) records[index].value = index;
  records[1].next = &records[2];
  CHECK(records[1].next == &records[2]);
  CHECK(records[1].next->value == 2);
  records[1].next = &records[0];
  CHECK(records[1].next->value == 0);
  Record* const plain = records[1].next;
  CHECK(plain == &records[0]);
  records[1].next = &records[1];  // its own record: four bytes before itself
  CHECK(records[1].next == &records[1]);
}

TEST_CASE("copying a near pointer copies the address and not the distance") {
  Record records[5];
  records[0].next = &records[3];
  records[4].next = records[0].next;
  CHECK(records[4].next == &records[3]);
  records[1].next = records[2].next;
  CHECK(records[1].next == nullptr);
  NearPointer<Record>& same = records[0].next;
  records[0].next = same;
  CHECK(records[0].next == &records[3]);
}

TEST_CASE("a near pointer reaches almost 8 GiB in both directions") {
  constexpr std::size_t kReach = (std::size_t{8} << 30) - 4096;
  const Space space(2 * kReach + 8192);
  Record* const low = space.at(0);
  Record* const middle = space.at(kReach);
  Record* const high = space.at(2 * kReach);
  middle->next = low;
  CHECK(middle->next == low);
  middle->next = high;
  CHECK(middle->next == high);
  low->next = middle;
  high->next = low->next;
  CHECK(high->next == middle);
}

#ifndef NDEBUG
TEST_CASE("assigning an address out of reach, or one that looks like null, stops the process") {
  constexpr std::size_t kTooFar = std::size_t{9} << 30;
  const Space space(kTooFar + 4096);
  CHECK(stops_the_process([&] { space.at(0)->next = space.at(kTooFar); }));
  CHECK(stops_the_process([&] { space.at(kTooFar)->next = space.at(0); }));
  CHECK(stops_the_process([&] { space.at(64)->next = space.at(66); }));
  Record record;
  CHECK(stops_the_process([&] { record.next = reinterpret_cast<Record*>(&record.next); }));
  CHECK_FALSE(stops_the_process([&] { space.at(0)->next = space.at(4096); }));
}
#endif

}  // namespace near_pointer_test
