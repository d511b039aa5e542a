// SPDX-License-Identifier: Apache-2.0
#include "sim/work/channels.hpp"

#include <charconv>
#include <optional>
#include <string>

#include "base/env.hpp"
#include "sim/device/context.hpp"
#include "sim/work/stream.hpp"

namespace berth::sim {
namespace {

/// The value of CUDA_DEVICE_MAX_CONNECTIONS; a value out of range is ignored.
std::optional<int> count_from_environment() {
  const std::string text = env("CUDA_DEVICE_MAX_CONNECTIONS").value_or("");
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  if (!is_number || count < 1 || count > kConnectionsMax) return std::nullopt;
  return count;
}

}  // namespace

Channels::Channels(const Config& config)
    : count_(config.connections ? *config.connections
                                : count_from_environment().value_or(kConnectionsDefault)),
      by_seed_(config.connections && config.progress == Progress::random),
      random_(config.seed) {}

void Channels::assign(Context& context, Stream& stream) {
  if (count_ == 0) return;
  const auto count = static_cast<std::uint64_t>(count_);
  const std::uint64_t chosen = by_seed_ ? random_.below(count) : context.channels_dealt++ % count;
  stream.channel = static_cast<int>(chosen);
}

}  // namespace berth::sim
