// SPDX-License-Identifier: Apache-2.0
#include "sim/physical_memory.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kPoisonBytes = 4_KiB;
constexpr int kPoison = 0xA5;

}  // namespace

const PhysicalBlock::Piece& PhysicalBlock::piece_at(std::uint64_t offset) const {
  const auto after = std::upper_bound(
      pieces.begin(), pieces.end(), offset,
      [](std::uint64_t at, const Piece& piece) { return at < piece.block_offset; });
  return *std::prev(after);
}

PhysicalMemory::PhysicalMemory(std::uint64_t bytes, std::uint64_t granularity, bool poison)
    : bytes_total_(bytes),
      granularity_(granularity),
      poison_(poison),
      limit_(bytes),
      extents_(0, align_down(bytes, granularity)) {}

PhysicalMemory::~PhysicalMemory() {
  if (data_ != nullptr) munmap(data_, bytes_total_);
  if (file_ >= 0) close(file_);
}

bool PhysicalMemory::open() {
  if (data_ != nullptr) return true;
  if (file_ < 0) file_ = memfd_create("berth-simulated-device", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes_total_)) != 0) return false;
  void* data =
      mmap(nullptr, bytes_total_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (data == MAP_FAILED) return false;
  // A granule touched here must not cost the system more than its pages.
  madvise(data, bytes_total_, MADV_NOHUGEPAGE);
  data_ = static_cast<std::byte*>(data);
  return true;
}

std::uint64_t PhysicalMemory::bytes_free() const {
  const std::uint64_t usable = std::min(limit_, bytes_total_);
  return std::min(usable - std::min(usable, bytes_used_), extents_.free_bytes());
}

bool PhysicalMemory::allocate(PhysicalBlock& block) {
  BERTH_CHECK(is_aligned(block.bytes, granularity_) && block.bytes != 0);
  if (block.bytes > bytes_free() || !open()) return false;
  std::uint64_t offset = 0;
  for (const Extent& extent : extents_.allocate_scattered(block.bytes)) {
    block.pieces.push_back({offset, extent.start, extent.bytes});
    offset += extent.bytes;
  }
  BERTH_CHECK(offset == block.bytes);
  bytes_used_ += block.bytes;
  if (poison_) std::memset(data(block.pieces.front().device_offset), kPoison, kPoisonBytes);
  block.written = poison_;
  return true;
}

void PhysicalMemory::release(const PhysicalBlock& block) {
  for (const PhysicalBlock::Piece& piece : block.pieces) {
    if (block.written)
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(piece.device_offset), static_cast<off_t>(piece.bytes));
    extents_.release(piece.device_offset, piece.bytes);
  }
  bytes_used_ -= block.bytes;
}

}  // namespace berth::sim
