// SPDX-License-Identifier: Apache-2.0
// What a stream pool must give, by its contract: which streams exist, and how many leases each has.
// It does not know what threads keep, and need not: a stream without a lease can be had by
// everyone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>

#include <doctest/doctest.h>

#include "berth/stream_pool.hpp"

namespace berth::test {

class StreamPoolModel {
 public:
  explicit StreamPoolModel(StreamPoolOptions options) : options_(options) {}

  /// What another lease of a clamped priority has to be.
  enum class Next { alone, shared, waits, fails };
  [[nodiscard]] Next next(int priority) const {
    if (streams_left(priority) > 0) return Next::alone;
    switch (options_.on_shortage) {
      case StreamShortage::share:
        return Next::shared;
      case StreamShortage::wait:
        return Next::waits;
      default:
        return Next::fails;
    }
  }
  /// How many more leases of a priority get a stream of their own.
  [[nodiscard]] std::size_t streams_left(int priority) const {
    const auto found = priorities_.find(priority);
    if (found == priorities_.end()) return options_.streams_max;
    const Streams& streams = found->second;
    const auto leased = std::size_t(
        std::ranges::count_if(streams.leases, [](const auto& each) { return each.second > 0; }));
    return std::max(options_.streams_max, streams.created - streams.captured.size()) - leased;
  }

  /// A lease that `thread` was given; `created`: what the pool says that it has created by now.
  void acquired(std::size_t thread, int priority, CUstream_st* stream, std::size_t created) {
    Streams& streams = priorities_[priority];
    const Next expected = next(priority);
    std::size_t& leases = streams.leases[stream];
    if (expected == Next::alone) {
      CHECK_MESSAGE(leases == 0, "two leases share a stream below the bound");
    } else {
      CHECK(expected == Next::shared);
      CHECK(leases > 0);
      for (const auto& [other, count] : streams.leases)
        CHECK_MESSAGE((leases <= count || count == 0), "another stream has fewer leases");
    }
    if (last_back_ && last_back_->thread == thread && last_back_->priority == priority &&
        expected == Next::alone && streams.created <= kSurelyKept)
      CHECK_MESSAGE(stream == last_back_->stream, "not what the thread gave back just before");
    last_back_.reset();
    CHECK_FALSE(streams.captured.contains(stream));
    ++leases;
    ++live_;
    CHECK_FALSE(is_of_another(priority, stream));
    saw_created(priority, created);
  }
  void gave_back(std::size_t thread, int priority, CUstream_st* stream) {
    std::size_t& leases = priorities_.at(priority).leases.at(stream);
    REQUIRE(leases > 0);
    --live_;
    last_back_.reset();
    if (--leases == 0) last_back_ = {thread, priority, stream};
  }
  /// As gave_back(), within a capture that the stream is part of: nobody has it until
  /// capture_ended().
  void gave_back_captured(int priority, CUstream_st* stream) {
    Streams& streams = priorities_.at(priority);
    std::size_t& leases = streams.leases.at(stream);
    REQUIRE(leases == 1);
    --live_;
    --leases;
    streams.captured.insert(stream);
    streams.captured_peak = std::max(streams.captured_peak, streams.captured.size());
    last_back_.reset();
  }
  void capture_ended() {
    for (auto& [priority, streams] : priorities_) streams.captured.clear();
  }
  /// Something may have happened since.
  void forget_last() { last_back_.reset(); }
  /// Streams were taken and given back unseen, up to the bound.
  void bound_was_reached(int priority, std::size_t created_in_all) {
    last_back_.reset();
    saw_created(priority, created_in_all);
    CHECK(created(priority) >= options_.streams_max);
  }

  [[nodiscard]] std::size_t live() const { return live_; }
  [[nodiscard]] std::size_t created() const {
    std::size_t sum = 0;
    for (const auto& [priority, streams] : priorities_) sum += streams.created;
    return sum;
  }
  [[nodiscard]] std::size_t created(int priority) const {
    const auto found = priorities_.find(priority);
    return found == priorities_.end() ? 0 : found->second.created;
  }

 private:
  /// So many of one priority a thread keeps, so that what it gave back last is on top.
  static constexpr std::size_t kSurelyKept = 4;

  struct GivenBack {
    std::size_t thread;
    int priority;
    CUstream_st* stream;
  };
  struct Streams {
    std::map<CUstream_st*, std::size_t> leases;  ///< of every stream that was ever seen
    std::set<CUstream_st*> captured;
    std::size_t created = 0;
    std::size_t captured_peak = 0;
  };

  [[nodiscard]] bool is_of_another(int priority, CUstream_st* stream) const {
    return std::ranges::any_of(priorities_, [&](const auto& each) {
      return each.first != priority && each.second.leases.contains(stream);
    });
  }
  void saw_created(int priority, std::size_t created_in_all) {
    Streams& streams = priorities_[priority];
    REQUIRE(created_in_all >= created());
    streams.created += created_in_all - created();
    CHECK(streams.created >= streams.leases.size());
    CHECK(streams.created <= options_.streams_max + streams.captured_peak);
  }

  const StreamPoolOptions options_;
  std::map<int, Streams> priorities_;
  std::size_t live_ = 0;
  std::optional<GivenBack> last_back_;  ///< where nothing happened since
};

}  // namespace berth::test
