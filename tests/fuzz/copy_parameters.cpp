// SPDX-License-Identifier: Apache-2.0
#include "fuzz/copy_parameters.hpp"

#include <algorithm>

namespace berth::fuzz {
namespace {

/// A rectangle whose numbers are all below these fits into what it starts in.
constexpr std::size_t kPitchMax = 512;
constexpr std::size_t kRowsMax = 8;
constexpr std::size_t kExtentMax = 2 * kRowsMax * kPitchMax;

CUmemorytype draw_type(Turn& turn) {
  constexpr CUmemorytype kTypes[] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_DEVICE,
                                     CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY};
  return kTypes[turn.bytes.byte() % std::size(kTypes)];
}

}  // namespace

Read<CUDA_MEMCPY2D> Rectangle::draw(Turn& turn) const {
  CUDA_MEMCPY2D copy{};
  const bool is_null = turn.bytes.byte() >= kNull;
  copy.dstMemoryType = draw_type(turn);
  copy.srcMemoryType = draw_type(turn);
  const std::uint64_t to = copy_address.draw(turn).number;
  const std::uint64_t from = copy_address.draw(turn).number;
  copy.dstDevice = to;
  copy.dstHost = Bits{to};
  copy.srcDevice = from;
  copy.srcHost = Bits{from};
  copy.WidthInBytes = turn.bytes.byte() % (kPitchMax / 2);
  copy.Height = turn.bytes.byte() % kRowsMax;
  copy.dstPitch = kPitchMax / 2 + turn.bytes.byte();
  copy.srcPitch = kPitchMax / 2 + turn.bytes.byte();
  copy.dstXInBytes = turn.bytes.byte() % 8;
  copy.srcY = turn.bytes.byte() % kRowsMax;
  if (turn.room && *turn.room < kExtentMax) copy.WidthInBytes = 0;
  if (turn.room || turn.bytes.byte() < kHostile) return {copy, is_null};
  std::size_t* const wrong[] = {&copy.WidthInBytes, &copy.Height,      &copy.dstPitch,
                                &copy.srcPitch,     &copy.dstXInBytes, &copy.srcXInBytes,
                                &copy.dstY,         &copy.srcY};
  *wrong[turn.bytes.byte() % std::size(wrong)] = number(0).draw(turn).number;
  return {copy, is_null};
}

ArrayIn<CUdeviceptr> Destinations::draw(Turn& turn) const {
  ArrayIn<CUdeviceptr> drawn{{}, turn.bytes.byte() >= kNull};
  for (std::size_t i = 0; i < kCopiesMax; ++i) {
    turn.room.reset();
    turn.natural = 0;
    drawn.elements[i] = copy_address.draw(turn).number;
    turn.sources[i] = copy_address.draw(turn).number;
    turn.sizes[i] = size.draw(turn).number;
  }
  return drawn;
}

ArrayIn<CUdeviceptr> Sources::draw(Turn& turn) const {
  ArrayIn<CUdeviceptr> drawn{{}, turn.bytes.byte() >= kNull};
  std::copy(turn.sources.begin(), turn.sources.end(), drawn.elements.begin());
  return drawn;
}

ArrayIn<std::size_t> Sizes::draw(Turn& turn) const {
  ArrayIn<std::size_t> drawn{{}, turn.bytes.byte() >= kNull};
  std::copy(turn.sizes.begin(), turn.sizes.end(), drawn.elements.begin());
  return drawn;
}

ArrayIn<CUmemcpyAttributes> CopyAttributes::draw(Turn& turn) const {
  ArrayIn<CUmemcpyAttributes> drawn{{}, turn.bytes.byte() >= kNull};
  for (CUmemcpyAttributes& attributes : drawn.elements) {
    const std::uint8_t choice = turn.bytes.byte();
    const unsigned order = choice < kHostile ? 1U + choice % 3 : 0;
    attributes.srcAccessOrder = static_cast<CUmemcpySrcAccessOrder>(order);
    attributes.flags = choice >= kNull ? choice : choice % 2;
  }
  return drawn;
}

ArrayIn<std::size_t> Firsts::draw(Turn& turn) const {
  ArrayIn<std::size_t> drawn{{0, 1}, turn.bytes.byte() >= kNull};
  for (std::size_t& first : drawn.elements) first ^= number(0).draw(turn).number;
  return drawn;
}

ArrayIn<CUpointer_attribute> PointerAttributes::draw(Turn& turn) const {
  ArrayIn<CUpointer_attribute> drawn{{}, turn.bytes.byte() >= kNull};
  for (CUpointer_attribute& attribute : drawn.elements)
    attribute = static_cast<CUpointer_attribute>(1 + turn.bytes.byte() % 31);
  return drawn;
}

void** AttributePlaces::Drawn::value() {
  for (std::size_t i = 0; i < kCopiesMax; ++i)
    if (places[i] != nullptr) places[i] = &results[i];
  return is_null ? nullptr : places.data();
}

AttributePlaces::Drawn AttributePlaces::draw(Turn& turn) const {
  Drawn drawn{{}, {}, turn.bytes.byte() >= kNull};
  for (void*& place : drawn.places) place = turn.bytes.byte() >= kNull ? nullptr : &place;
  return drawn;
}

StreamCallback::Drawn StreamCallback::draw(Turn& turn) const {
  if (turn.bytes.byte() >= kNull || !turn.real_time) return {nullptr};
  return {[](CUstream, CUresult, void*) {}};
}

}  // namespace berth::fuzz
