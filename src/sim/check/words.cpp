// SPDX-License-Identifier: Apache-2.0
#include "sim/check/words.hpp"

#include <algorithm>
#include <cstring>

namespace berth::sim {
namespace {

constexpr std::size_t kLargestWord = sizeof(std::uint64_t);

bool has_value(std::uint64_t read, std::uint64_t written, unsigned bytes) {
  const std::uint64_t differ = read ^ written;
  return bytes >= kLargestWord ? differ == 0 : (differ & ((1ULL << (bytes * 8)) - 1)) == 0;
}

}  // namespace

void Words::note(const std::byte* where, std::uint64_t value, unsigned bytes, const Clock& before) {
  std::deque<Written>& written = words_[where];
  written.push_back({value, bytes, before});
  if (written.size() > kRemembered) written.pop_front();
}

void Words::note_write(const Use& write, const Clock& before, std::span<const std::byte> data) {
  // Host memory is stored at its address.
  const bool is_host = write.address == reinterpret_cast<std::uint64_t>(data.data());
  if (!is_host || write.bytes > kLargestWord || data.size() != write.bytes) return;
  std::uint64_t value = 0;
  std::memcpy(&value, data.data(), data.size());  // x86-64 and AArch64 are little-endian
  note(data.data(), value, static_cast<unsigned>(data.size()), before);
}

const Clock* Words::find(const std::byte* where, std::optional<std::uint64_t> value) const {
  const auto word = words_.find(where);
  if (word == words_.end()) return nullptr;
  const std::deque<Written>& written = word->second;
  if (!value) return &written.back().before;
  const auto found = std::find_if(written.rbegin(), written.rend(), [&](const Written& one) {
    return has_value(*value, one.value, one.bytes);
  });
  if (found != written.rend()) return &found->before;
  return written.size() == kRemembered ? &written.front().before : nullptr;
}

void Words::forget(std::span<const std::byte> data) {
  words_.erase(words_.lower_bound(data.data()), words_.lower_bound(data.data() + data.size()));
}

}  // namespace berth::sim
