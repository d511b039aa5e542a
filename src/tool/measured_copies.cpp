// SPDX-License-Identifier: Apache-2.0
#include "tool/measured_copies.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "tool/byte_pattern.hpp"
#include "tool/fastest_run.hpp"
#include "tool/host_buffer.hpp"

namespace berth::tool {
namespace {

/// One end of a copy.
class CopyEnd {
 public:
  CopyEnd(Runtime& runtime, std::size_t bytes, bool pinned)
      : host_(pinned ? HostBuffer(runtime.pinned_memory(), bytes) : HostBuffer(bytes)) {}
  CopyEnd(Runtime& runtime, std::size_t bytes, Device device)
      : block_(runtime.memory(device).allocate(bytes, runtime.default_stream(device))) {}

  [[nodiscard]] void* data() { return host_ ? host_->bytes().data() : block_.data(); }

 private:
  std::optional<HostBuffer> host_;
  Allocation block_;
};

class CopyMeasurement {
 public:
  CopyMeasurement(Runtime& runtime, const CopyDevices& devices, const CopyCase& what)
      : runtime_(runtime),
        what_(what),
        peer_(devices.peer),
        stream_(runtime.streams(devices.device).acquire()),
        source_(what.direction == CopyDirection::in ? host() : on(devices.device)),
        target_(what.direction == CopyDirection::out
                    ? host()
                    : on(what.direction == CopyDirection::peer ? devices.peer : devices.device)) {
    for (const Device device : {devices.device, devices.peer})
      runtime.default_stream(device).sync();  // which orders the allocation of the ends
  }

  double seconds(int repeats) {
    return fastest_seconds(repeats, [this] { run(); });
  }

  /// Copies a pattern to a target that has a different content.
  std::uint64_t bytes_different() {
    HostBuffer sent(what_.bytes);
    HostBuffer received(what_.bytes);
    const std::span<std::byte> expected = sent.bytes();
    const std::span<std::byte> got = received.bytes();
    fill_pattern(expected, what_.bytes);
    std::ranges::transform(expected, got.begin(), [](std::byte byte) { return ~byte; });
    move(target_.data(), got.data());
    move(source_.data(), expected.data());
    run();
    move(got.data(), target_.data());
    return tool::bytes_different(got, expected);
  }

 private:
  CopyEnd host() { return {runtime_, what_.bytes, what_.pinned}; }
  CopyEnd on(Device device) { return {runtime_, what_.bytes, device}; }

  void move(void* target, const void* source) {
    const bool to_peer = what_.direction == CopyDirection::peer && target == target_.data();
    const bool from_peer = what_.direction == CopyDirection::peer && source == target_.data();
    if (!to_peer && !from_peer) return runtime_.copier().copy(target, source, what_.bytes, stream_);
    runtime_.copier().copy(target, source, what_.bytes, runtime_.default_stream(peer_));
  }
  void run() {
    runtime_.copier().start(target_.data(), source_.data(), what_.bytes, stream_).wait();
  }

  Runtime& runtime_;
  const CopyCase what_;
  const Device peer_;
  StreamLease stream_;
  CopyEnd source_;
  CopyEnd target_;
};

}  // namespace

std::string_view name_of(CopyDirection direction) {
  constexpr std::string_view kNames[] = {"in", "out", "within", "peer"};
  return kNames[static_cast<std::size_t>(direction)];
}

bool is_of_host(CopyDirection direction) {
  return direction == CopyDirection::in || direction == CopyDirection::out;
}

std::string rate_text(double bytes_per_second) {
  return fmt::format("{:.3g}", bytes_per_second / 1e9);
}

MeasuredCopy measure_copy(Runtime& runtime, const CopyDevices& devices, const CopyCase& what,
                          int repeats, bool check) {
  CopyMeasurement measurement(runtime, devices, what);
  MeasuredCopy result{.what = what, .checked = check};
  if (check) result.bytes_different = measurement.bytes_different();
  result.seconds = measurement.seconds(repeats);
  return result;
}

}  // namespace berth::tool
