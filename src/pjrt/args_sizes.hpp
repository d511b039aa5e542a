// SPDX-License-Identifier: Apache-2.0
// The sizes of structs that a plug-in accepts. A plug-in refuses a struct that is shorter than the
// one it was compiled with, and may refuse one that is longer. It then says which size it expects,
// and gets that size from then on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "pjrt/pjrt_functions.hpp"

namespace berth::pjrt {

/// The longest struct that a plug-in can ask for.
inline constexpr std::size_t kArgsBytesMax = 1024;
/// Added to a struct if the plug-in does not say how long its own is: more than any struct has
/// grown between two known versions.
inline constexpr std::size_t kGrowthBytes = 128;

/// One call of a function of the table, whatever its arguments.
struct ArgsCall {
  std::size_t slot;
  const char* name;
  const void* address;
  std::size_t args_bytes;    ///< up to and including the last member that berth knows
  std::size_t needed_bytes;  ///< up to and including the last member that berth needs
  Error* (*invoke)(const void* address, void* args);
};

/// Calls with a struct of `bytes`. What is behind the known members is zero, which means "not
/// given".
Error* call_with_size(const ArgsCall& call, void* args, std::size_t bytes);

/// The size to try after a refusal; nullopt if the refusal is not about the size.
/// OpenXLA's text is "Unexpected PJRT_Client_Create_Args size: expected 96, got 88". Any other text
/// is no reason, unless `is_newer`: the plug-in is of a later version than berth's structs.
std::optional<std::size_t> size_after_refusal(const ArgsCall& call, std::string_view text,
                                              std::size_t given, bool is_newer);

/// Sizes that differ from those of berth's structs, by slot.
/// Threads  Safe from any thread.
class ArgsSizes {
 public:
  [[nodiscard]] std::size_t of(const ArgsCall& call) const noexcept {
    const std::size_t learned = sizes_[call.slot].load(std::memory_order_relaxed);
    return learned == 0 ? call.args_bytes : learned;
  }
  void learn(const ArgsCall& call, std::size_t bytes) noexcept {
    sizes_[call.slot].store(static_cast<std::uint16_t>(bytes), std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint16_t>, kSlotsMax> sizes_{};  ///< 0: as berth knows it
};

}  // namespace berth::pjrt
