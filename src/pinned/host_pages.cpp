// SPDX-License-Identifier: Apache-2.0
// Source: Linux manual pages mmap(2), madvise(2), mbind(2); /sys/devices/system/node/online.
#include "pinned/host_pages.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "base/host_room.hpp"

namespace berth {
namespace {

constexpr std::size_t kHugePage = 2_MiB;
constexpr std::size_t kChunk = 4_MiB;
/// Compaction can take a minute per gigabyte. If a chunk takes longer than this, small pages are
/// faster.
constexpr std::chrono::milliseconds kChunkTimeMax{100};
/// Values of the kernel that older headers lack.
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
constexpr int kPreferred = 1;       // MPOL_PREFERRED

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void touch_one_by_one(std::byte* pages, std::size_t bytes) {
  const std::size_t step = page_bytes();
  for (std::size_t offset = 0; offset < bytes; offset += step) {
    static_cast<volatile std::byte*>(pages)[offset] = std::byte{0};
  }
}

class Prefault {
 public:
  Prefault(std::byte* pages, std::size_t bytes) : pages_(pages), bytes_(bytes) {}

  /// Touches chunk after chunk until none is left, beside other threads.
  void run() noexcept {
    for (;;) {
      const std::size_t offset = next_.fetch_add(kChunk, std::memory_order_relaxed);
      if (offset >= bytes_ || failed_) return;
      const auto began = std::chrono::steady_clock::now();
      touch(pages_ + offset, std::min(kChunk, bytes_ - offset));
      if (std::chrono::steady_clock::now() - began > kChunkTimeMax) huge_ = false;
    }
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void touch(std::byte* chunk, std::size_t bytes) noexcept {
    if (!huge_) madvise(chunk, bytes, MADV_NOHUGEPAGE);
    if (madvise(chunk, bytes, kPopulateWrite) == 0) return;
    if (errno == ENOMEM) {
      failed_ = true;
      return;
    }
    touch_one_by_one(chunk, bytes);  // an old kernel, or a signal came in between
  }

  std::byte* const pages_;
  const std::size_t bytes_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> huge_ = true;
  std::atomic<bool> failed_ = false;
};

}  // namespace

void* map_host_pages(std::size_t bytes) noexcept {
  try {
    if (bytes > host_room_bytes()) return nullptr;
  } catch (const std::exception&) {
    return nullptr;  // the process cannot map more memory
  }
  const std::size_t wanted = align_up(bytes, page_bytes());
  const std::size_t spare = bytes >= kHugePage ? kHugePage : 0;  // for alignment to a huge page
  void* const mapped =
      mmap(nullptr, wanted + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(mapped);
  if (spare == 0) return first;
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t in_front = align_up(address, kHugePage) - address;
  if (in_front > 0) munmap(first, in_front);
  if (in_front < spare) munmap(first + in_front + wanted, spare - in_front);
  madvise(first + in_front, wanted, MADV_HUGEPAGE);
  return first + in_front;
}

void unmap_host_pages(void* pages, std::size_t bytes) noexcept {
  munmap(pages, align_up(bytes, page_bytes()));
}

bool prefer_node(void* pages, std::size_t bytes, int node) noexcept {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 16> nodes{};
  const auto bit = static_cast<std::size_t>(node);
  if (node < 0 || bit >= nodes.size() * kBits) return false;
  nodes[bit / kBits] = 1UL << (bit % kBits);
  return syscall(SYS_mbind, pages, align_up(bytes, page_bytes()), kPreferred, nodes.data(),
                 nodes.size() * kBits + 1, 0U) == 0;
}

std::optional<int> only_host_node() noexcept {
  try {
    std::ifstream file("/sys/devices/system/node/online");
    std::string text;
    if (!(file >> text)) return std::nullopt;
    int node = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), node);
    const bool is_one = error == std::errc{} && end == text.data() + text.size();
    return is_one ? std::optional(node) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool prefault(void* pages, std::size_t bytes, unsigned threads) noexcept {
  Prefault work(static_cast<std::byte*>(pages), bytes);
  const std::size_t chunks = (bytes + kChunk - 1) / kChunk;
  std::vector<std::thread> helpers;
  try {
    helpers.reserve(threads);
    while (helpers.size() + 1 < std::min<std::size_t>(threads, chunks)) {
      helpers.emplace_back([&work] { work.run(); });
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): those that there are will do
  }
  work.run();
  for (std::thread& helper : helpers) helper.join();
  return !work.failed();
}

}  // namespace berth
