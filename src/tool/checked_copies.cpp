// SPDX-License-Identifier: Apache-2.0
#include "tool/checked_copies.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "tool/byte_pattern.hpp"
#include "tool/host_buffer.hpp"

namespace berth::tool {
namespace {

constexpr std::uint8_t kOtherBytes = 0xEE;

class CopyCheck {
 public:
  CopyCheck(Runtime& runtime, const CheckedCopiesOptions& options)
      : runtime_(runtime), options_(options), devices_(std::size_t(runtime.devices().count())) {
    for (std::size_t lane = 0; lane < options.lanes; ++lane)
      streams_.push_back(runtime.streams(device_of(lane)).acquire());
    result_.streams = streams_.size();
  }

  void round(std::size_t number) {
    std::vector<HostBuffer> targets;
    for (std::size_t lane = 0; lane < options_.lanes; ++lane)
      targets.push_back(host_buffer((lane & 2) != 0));
    std::vector<Transfer> arriving;  // destroyed before the targets, also if one fails
    for (std::size_t lane = 0; lane < options_.lanes; ++lane)
      arriving.push_back(send(lane, number, targets[lane].bytes()));
    for (const Transfer& transfer : arriving) transfer.wait();
    sync_streams();
    for (std::size_t lane = 0; lane < options_.lanes; ++lane)
      compare(targets[lane].bytes(), seed(lane, number));
  }

  [[nodiscard]] const CheckedCopiesResult& result() const { return result_; }

 private:
  [[nodiscard]] HostBuffer host_buffer(bool is_pinned) const {
    if (is_pinned) return {runtime_.pinned_memory(), options_.bytes};
    return HostBuffer(options_.bytes);
  }
  [[nodiscard]] Device device_of(std::size_t lane) const {
    return Device::cuda(int(lane % devices_));
  }
  [[nodiscard]] static std::uint64_t seed(std::size_t lane, std::size_t round) {
    return round << 32 | lane;
  }
  /// The lane whose stream continues; on the neighboring device in odd rounds.
  [[nodiscard]] std::size_t partner(std::size_t lane, std::size_t round) const {
    return (lane + (round % 2 == 1 ? 1 : devices_)) % options_.lanes;
  }

  void sync_streams() const {
    for (const StreamLease& stream : streams_) stream->sync();
  }

  Transfer send(std::size_t lane, std::size_t round, std::span<std::byte> target) {
    const StreamRef first = streams_[lane];
    const StreamRef second = streams_[partner(lane, round)];
    Allocation near = upload(first, (lane & 1) != 0, seed(lane, round));
    second.wait(runtime_.record(first));
    const Allocation far = runtime_.memory(second.device()).allocate(options_.bytes, second);
    copy(far.data(), near.data(), second);
    release_after(near, first, second);
    reuse(first);
    ++result_.copies;
    Transfer arrives = runtime_.copier().start(target.data(), far.data(), options_.bytes, second);
    note_pending();
    return arrives;
  }

  /// Starts a copy to the device, and destroys its source as early as permitted.
  Allocation upload(StreamRef stream, bool from_pinned, std::uint64_t pattern) {
    HostBuffer source = host_buffer(from_pinned);
    fill_pattern(source.bytes(), pattern);
    Allocation block = runtime_.memory(stream.device()).allocate(options_.bytes, stream);
    copy(block.data(), source.bytes().data(), stream);
    if (!source.is_pinned()) std::memset(source.bytes().data(), kOtherBytes, source.bytes().size());
    return block;
  }

  /// Frees a block of `owner` that `user` still reads.
  void release_after(Allocation& block, StreamRef owner, StreamRef user) {
    if (user.device() == owner.device())
      block.record_stream(user);
    else
      owner.wait(runtime_.record(user));
    block.reset();
  }

  /// Takes a block of the same size, most likely the one just freed, and fills it.
  void reuse(StreamRef stream) {
    const Allocation block = runtime_.memory(stream.device()).allocate(options_.bytes, stream);
    runtime_.copier().fill_async(block.data(), kOtherBytes, options_.bytes, stream);
  }

  void copy(void* target, const void* source, StreamRef stream) {
    runtime_.copier().copy_async(target, source, options_.bytes, stream);
    ++result_.copies;
  }

  void note_pending() {
    const auto pending = std::ranges::count_if(
        streams_, [](const StreamLease& stream) { return !stream->is_done(); });
    result_.streams_pending_peak = std::max(result_.streams_pending_peak, std::size_t(pending));
  }

  void compare(std::span<const std::byte> got, std::uint64_t pattern) {
    expected_.resize(got.size());
    fill_pattern(expected_, pattern);
    result_.bytes_compared += got.size();
    result_.bytes_different += bytes_different(got, expected_);
  }

  Runtime& runtime_;
  const CheckedCopiesOptions& options_;
  std::size_t devices_;
  std::vector<StreamLease> streams_;
  std::vector<std::byte> expected_;
  CheckedCopiesResult result_;
};

}  // namespace

CheckedCopiesResult check_copies(Runtime& runtime, const CheckedCopiesOptions& options) {
  CopyCheck check(runtime, options);
  for (std::size_t round = 0; round < options.rounds; ++round) {
    check.round(round);
    if (options.on_progress) options.on_progress(round + 1);
  }
  return check.result();
}

}  // namespace berth::tool
