// SPDX-License-Identifier: Apache-2.0
#include "fuzz/parameters.hpp"

namespace berth::fuzz {
namespace {

constexpr std::byte kUntouched{0xEE};

}  // namespace

std::uint64_t draw_handle(Turn& turn, Kind kind) {
  const std::uint8_t choice = turn.bytes.byte();
  if (choice < kHostile) return turn.things.live(kind, choice).value;
  const std::size_t which = choice & 7;
  switch ((choice >> 3) & 7) {
    case 0:
    case 1:
      return turn.things.gone(kind, which).value;
    case 2: {
      const auto other =
          (static_cast<std::size_t>(kind) + 1 + which) % static_cast<std::size_t>(Kind::count);
      return turn.things.live(static_cast<Kind>(other), turn.bytes.byte()).value;
    }
    case 3:
      return 0;
    case 4:
    case 5:
      return which & 3;  // CU_STREAM_LEGACY and CU_STREAM_PER_THREAD among them
    default:
      return turn.bytes.number();
  }
}

Number::Drawn Number::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  if (choice < kHostile || is_enumerator) return {values[choice % count]};
  constexpr std::uint64_t kHostileNumbers[] = {UINT64_MAX, 1,  0x80000000,
                                               0x7fffffff, 64, 1ULL << 63};
  const std::size_t which = choice & 7;
  return {which < std::size(kHostileNumbers) ? kHostileNumbers[which] : turn.bytes.number(4)};
}

Result::Result(Turn& turn, std::optional<Kind> kind, bool uncertain)
    : kind_(kind), uncertain_(uncertain), is_null_(turn.bytes.byte() >= kNull) {
  bytes_.fill(kUntouched);
  before_ = bytes_;
}

void Result::after(Turn& turn, bool succeeded) {
  const bool may_be_written = (succeeded || uncertain_) && !is_null_;
  const std::size_t from = may_be_written ? used_ : 0;
  BERTH_CHECK(std::equal(bytes_.begin() + static_cast<std::ptrdiff_t>(from), bytes_.end(),
                         before_.begin() + static_cast<std::ptrdiff_t>(from)));
  if (!succeeded || is_null_ || !kind_) return;
  const auto handle = as<std::uint64_t>();
  if (uncertain_ && bytes_ == before_) return;
  BERTH_CHECK(handle != 0 && bytes_ != before_);
  turn.things.add(*kind_, {handle, turn.size});
}

}  // namespace berth::fuzz
