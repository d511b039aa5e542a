// SPDX-License-Identifier: Apache-2.0
#include "fuzz/memory_parameters.hpp"

#include <cstring>
#include <sys/mman.h>

#include "berth/bytes.hpp"

namespace berth::fuzz {
namespace {

constexpr std::size_t kBuffers = 3;
constexpr std::size_t kBufferBytes = 64_KiB;
/// The simulator gives the addresses of a larger reservation back to the system when it ends.
constexpr std::uint64_t kOutsized = 1_GiB;
/// More than a process has, so that no memory of the host is that large.
constexpr std::uint64_t kMoreThanAll = 1ULL << 48;

/// Pageable memory, page-aligned; never given back, so that graphs may refer to it.
std::byte* buffer(std::size_t which) {
  static auto* const start =
      static_cast<std::byte*>(mmap(nullptr, kBuffers * kBufferBytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  BERTH_CHECK(start != MAP_FAILED);
  return start + which % kBuffers * kBufferBytes;
}

/// A place in `thing`, or right behind it.
std::uint64_t inside(Turn& turn, const Thing& thing) {
  if (thing.value == 0) return 0;
  const std::uint8_t choice = turn.bytes.byte();
  const std::uint64_t offsets[] = {1,
                                   4,
                                   511,
                                   4096,
                                   turn.granule(),
                                   thing.bytes / 2,
                                   thing.bytes - 1,
                                   thing.bytes,
                                   thing.bytes + 1};
  const std::size_t which = choice % (std::size(offsets) + 1);
  std::uint64_t offset = 0;
  if (choice >= 0x80) offset = which < std::size(offsets) ? offsets[which] : turn.bytes.number(3);
  turn.natural = offset < thing.bytes ? thing.bytes - offset : 0;
  return thing.value + offset;
}

/// Without meaning anywhere: null, the first page, the end of all addresses, none of this
/// machine's.
std::uint64_t no_address(Turn& turn) {
  const std::uint64_t made_up = turn.bytes.number();
  switch (turn.bytes.byte() & 3) {
    case 0:
      return 0;
    case 1:
      return made_up % 4096;
    case 2:
      return UINT64_MAX - made_up % 8192;
    default:
      return made_up | 1ULL << 63;
  }
}

std::uint64_t in_buffer(Turn& turn) {
  const std::uint8_t choice = turn.bytes.byte();
  const std::uint64_t offset = choice < 0x80 ? 0 : turn.bytes.number(2) % kBufferBytes;
  const std::uint64_t left = kBufferBytes - offset;
  turn.natural = turn.natural == 0 ? left : std::min(turn.natural, left);
  turn.room = std::min(turn.room.value_or(left), left);
  return reinterpret_cast<std::uint64_t>(buffer(choice)) + offset;
}

/// A place in pinned or managed memory that is there, and no bytes behind it, which may not be
/// readable; null otherwise: elsewhere it may belong to anybody by now.
std::uint64_t on_host(Turn& turn, const Thing& thing) {
  const std::uint64_t address = inside(turn, thing);
  if (turn.simulator.peek(address, 1).empty()) return 0;
  turn.room = std::min(turn.room.value_or(turn.natural), turn.natural);
  return address;
}

}  // namespace

Address::Drawn Address::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  if (choice >= kNull) return {ends, makes, no_address(turn)};
  const std::size_t which = choice & 15;
  Thing thing = turn.things.live(kind, which);
  if (choice >= kHostile) thing = turn.things.gone(kind, which);
  if (choice >= kHostile + 0x10)
    thing = turn.things.live(choice & 16 ? Kind::memory : Kind::mapping, which);
  return {ends, makes, inside(turn, thing)};
}

void Address::Drawn::after(Turn& turn, bool succeeded) const {
  if (!succeeded) return;
  if (ends) turn.things.end(*ends, address);
  if (makes) turn.things.add(*makes, {address, turn.size});
}

Number::Drawn CopyAddress::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  const std::size_t which = choice & 15;
  if (choice >= kNull) return {no_address(turn)};
  if (choice >= kHostile) {
    const Kind kind = choice & 16 ? Kind::memory : Kind::mapping;
    const Thing thing = turn.things.gone(kind, which);
    return {thing.bytes < kOutsized && !thing.on_host ? inside(turn, thing) : 0};
  }
  switch (choice >> 5) {
    case 0:
    case 1: {
      const Thing memory = turn.things.live(Kind::memory, which);
      return {memory.on_host ? on_host(turn, memory) : inside(turn, memory)};
    }
    case 2:
      return {inside(turn, turn.things.live(Kind::mapping, which))};
    case 3:
      return {on_host(turn, turn.things.live(Kind::pinned, which))};
    default:
      return {in_buffer(turn)};
  }
}

Address::Drawn HostAddress::draw(Turn& turn) const {
  constexpr Kind made = Kind::registration;
  const std::uint8_t choice = turn.bytes.byte();
  if (choice < kHostile) return {{}, made, in_buffer(turn)};
  if (choice >= kNull) return {{}, made, no_address(turn)};
  return {{}, made, inside(turn, turn.things.live(Kind::memory, choice))};
}

Number::Drawn Size::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  const std::uint64_t granule = turn.granule();
  const std::uint64_t natural = turn.natural;
  const std::uint64_t fresh[] = {granule, 512,         2 * granule, 1,
                                 4096,    3 * granule, 100,         granule / 2 + 1};
  const std::uint64_t wrong[] = {
      natural / 2,       natural + 1, natural - 1, 1,          2,
      granule,           2 * granule, 0,           UINT64_MAX, UINT64_MAX - natural,
      UINT64_MAX - 4095, 1ULL << 40,  1ULL << 46,  1ULL << 63};
  if (choice < 0x80) {
    turn.size = natural != 0 ? natural : fresh[choice % std::size(fresh)];
  } else {
    const std::size_t which = choice % (std::size(wrong) + 2);
    turn.size = which < std::size(wrong) ? wrong[which] : turn.bytes.number(3);
  }
  if (turn.room && turn.size > *turn.room && turn.size < kMoreThanAll) turn.size %= *turn.room + 1;
  return {turn.size};
}

void MadeMemory::Drawn::after(Turn& turn, bool succeeded) {
  Result::after(turn, succeeded);
  if (!succeeded || is_null()) return;
  const Thing fresh{as<std::uint64_t>(), turn.size, on_host};
  BERTH_CHECK(fresh.value != 0 && fresh.value + fresh.bytes >= fresh.value);
  turn.things.add(kind, fresh);
}

void clear_buffers() {
  std::memset(buffer(0), 0, kBuffers * kBufferBytes);
}

}  // namespace berth::fuzz
