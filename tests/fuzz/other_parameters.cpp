// SPDX-License-Identifier: Apache-2.0
#include "fuzz/other_parameters.hpp"

#include "sim/functions.hpp"

namespace berth::fuzz {
namespace {

constexpr char kUntouchedByte = '\x7F';
constexpr std::size_t kMargin = 16;
constexpr std::size_t kLargestRecordWords = 8;

int draw_device(Turn& turn) {
  const std::uint8_t choice = turn.bytes.byte();
  return choice < kHostile ? choice % 2 : static_cast<std::int8_t>(choice);
}

void calls_the_driver(void*) {
  CUevent event = nullptr;
  BERTH_CHECK(sim::berth_sim_cuEventCreate(&event, 0) == CUDA_ERROR_NOT_PERMITTED);
}

}  // namespace

TextOut::Drawn::Drawn(Turn& turn) : is_null_(turn.bytes.byte() >= kNull) {
  constexpr std::size_t capacities[] = {96, 96, 256, 0, 1, 13, 40, 41};
  capacity_ = capacities[turn.bytes.byte() % std::size(capacities)];
  text_.assign(capacity_ + kMargin, kUntouchedByte);
  turn.capacity = capacity_;
}

void TextOut::Drawn::after(Turn& turn, bool succeeded) const {
  const auto end = text_.begin() + static_cast<std::ptrdiff_t>(capacity_);
  const auto untouched = [](char c) { return c == kUntouchedByte; };
  BERTH_CHECK(std::all_of(end, text_.end(), untouched));
  if (!succeeded || is_null_) return;
  BERTH_CHECK(std::find(text_.begin(), end, '\0') != end);
  turn.things.texts.emplace_back(text_.data());
}

Number::Drawn Capacity::draw(Turn& turn) const {
  const std::int64_t below_zero = -std::int64_t{turn.bytes.byte()};
  const bool lies = is_signed && turn.capacity == 0;
  return {lies ? static_cast<std::uint64_t>(below_zero) : turn.capacity};
}

TextIn::Drawn TextIn::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  const std::vector<std::string>& known = turn.things.texts;
  if (choice >= kNull) return {std::nullopt};
  if (choice >= kHostile) return {std::string(turn.bytes.rest())};
  if (choice >= 0x40 && !known.empty()) return {known[choice % known.size()]};
  const auto function =
      static_cast<sim::Function>(turn.bytes.byte() % static_cast<unsigned>(sim::Function::count));
  return {std::string(sim::function_name(function)) + (choice % 2 == 0 ? "" : "_v2")};
}

ArrayOut::Drawn::Drawn(Turn& turn, std::optional<Kind> kind)
    : slots_(kArrayRoom * (kind ? 1 : kLargestRecordWords)),
      kind_(kind),
      is_null_(turn.bytes.byte() >= kHostile) {
  turn.capacity = kArrayRoom;
}

void ArrayOut::Drawn::after(Turn& turn, bool succeeded) const {
  if (!succeeded || !kind_) return;
  for (const std::uint64_t handle : slots_)
    if (handle != 0) turn.things.add(*kind_, {handle, 0});
}

HandlesIn::Drawn HandlesIn::draw(Turn& turn) const {
  Drawn drawn;
  for (std::size_t left = turn.bytes.byte() % 4; left != 0; --left)
    drawn.handles.push_back(draw_handle(turn, kind));
  turn.capacity = drawn.handles.size();
  return drawn;
}

Number::Drawn HandlesCount::draw(Turn& turn) const {
  const bool far_too_large = turn.bytes.byte() >= kNull;
  return {far_too_large ? UINT64_MAX - turn.capacity : turn.capacity};
}

void BorrowedNodes::Drawn::after(Turn& turn, bool succeeded) {
  Result::after(turn, succeeded);
  const auto untouched = Result(turn).as<const CUgraphNode*>();
  const auto nodes = as<const CUgraphNode*>();
  if (succeeded && !is_null() && nodes != untouched) turn.borrowed = nodes;
}

void BorrowedCount::Drawn::after(Turn& turn, bool succeeded) {
  Result::after(turn, succeeded);
  if (!succeeded || is_null() || turn.borrowed == nullptr) return;
  for (std::size_t i = 0; i < as<std::size_t>(); ++i)
    turn.things.add(Kind::node, {reinterpret_cast<std::uint64_t>(turn.borrowed[i]), 0});
}

Location::Drawn Location::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  CUmemLocation drawn{};
  drawn.type = choice >= kHostile ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  drawn.id = draw_device(turn);
  return {drawn, choice >= kNull};
}

ValueIn::Drawn ValueIn::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  return {choice < kHostile ? choice % 2 : turn.bytes.number(), choice >= kNull};
}

Read<CUmemPoolProps> PoolProperties::draw(Turn& turn) const {
  CUmemPoolProps properties{};
  const auto [drawn, is_null] = location.draw(turn);
  const std::uint8_t choice = turn.bytes.byte();
  const bool wrong = choice >= kHostile;
  properties.location = drawn;
  properties.allocType =
      wrong && choice % 4 == 0 ? CU_MEM_ALLOCATION_TYPE_INVALID : CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes =
      wrong && choice % 4 == 1 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  properties.reserved[5] = wrong && choice % 4 == 2 ? 1 : 0;
  properties.maxSize = choice % 8 == 1 ? turn.bytes.number(3) : 0;
  return {properties, is_null};
}

void DescriptorOut::Drawn::after(Turn& turn, bool succeeded) {
  Result::after(turn, succeeded);
  if (!succeeded || is_null()) return;
  const int descriptor = as<int>();
  BERTH_CHECK(descriptor > 0);
  turn.things.add(Kind::descriptor, {static_cast<std::uint64_t>(descriptor), 0});
}

Read<CUmemAllocationProp> AllocationProperties::draw(Turn& turn) const {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const std::uint8_t choice = turn.bytes.byte();
  properties.location.id = draw_device(turn);
  if (choice < kHostile) {
    if (choice % 4 == 3) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return {properties, false};
  }
  switch (choice & 7) {
    case 0:
      properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
      break;
    case 1:
      properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
      break;
    case 2:
      properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
      break;
    case 3:
      properties.allocFlags.compressionType = turn.bytes.byte();
      break;
    case 4:
      properties.allocFlags.usage = turn.bytes.byte();
      break;
    default:
      return {properties, true};
  }
  return {properties, false};
}

AccessList::Drawn AccessList::draw(Turn& turn) const {
  constexpr CUmemAccess_flags kFlags[] = {
      CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READ,
      CU_MEM_ACCESS_FLAGS_PROT_NONE, static_cast<CUmemAccess_flags>(2)};
  const std::uint8_t choice = turn.bytes.byte();
  constexpr std::size_t counts[] = {1, 2, 1, 0};
  Drawn drawn{{}, choice >= kNull};
  for (CUmemAccessDesc& access : drawn.list) {
    const std::uint8_t how = turn.bytes.byte();
    access.location.type =
        how >= kHostile ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = draw_device(turn);
    access.flags = kFlags[how % std::size(kFlags)];
  }
  turn.capacity = counts[choice % std::size(counts)];
  return drawn;
}

Instantiation::Drawn Instantiation::draw(Turn& turn) const {
  constexpr cuuint64_t kFlags[] = {0, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
                                   CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                                   CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, 0x10};
  const std::uint8_t choice = turn.bytes.byte();
  Drawn drawn{{}, choice >= kNull};
  drawn.params.flags = kFlags[choice % std::size(kFlags)];
  drawn.params.hUploadStream = Bits{draw_handle(turn, Kind::stream)};
  return drawn;
}

CUDA_MEM_ALLOC_NODE_PARAMS* GraphAllocation::Drawn::value() {
  params.accessDescs = access.value();
  return is_null ? nullptr : &params;
}

void GraphAllocation::Drawn::after(Turn& turn, bool succeeded) const {
  if (succeeded) turn.things.add(Kind::memory, {params.dptr, params.bytesize});
}

GraphAllocation::Drawn GraphAllocation::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  Drawn drawn{{}, access_list.draw(turn), choice >= kNull};
  drawn.params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  drawn.params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, draw_device(turn)};
  drawn.params.accessDescCount = choice % 3;
  drawn.params.bytesize = choice % 5 == 0 ? std::uint64_t{choice} << 36 : choice * 100U;
  if (choice >= kHostile) drawn.params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  return drawn;
}

CaptureMode::Drawn CaptureMode::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  return {static_cast<CUstreamCaptureMode>(choice % 4), choice >= kNull};
}

HostFunction::Drawn HostFunction::draw(Turn& turn) const {
  const std::uint8_t choice = turn.bytes.byte();
  if (choice >= kNull || !turn.real_time) return {nullptr};
  if (choice >= 0x80) return {&calls_the_driver};
  return {[](void*) {}};
}

}  // namespace berth::fuzz
