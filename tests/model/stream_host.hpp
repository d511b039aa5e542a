// SPDX-License-Identifier: Apache-2.0
// What a random program of streams does on the host: current streams of threads, questions, waits
// and callbacks, each of which must say no more than the work that the model knows to be done.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "model/stream_orders.hpp"

namespace berth::test {

class StreamHost : public StreamOrders {
 public:
  /// Without callbacks a seed is one run: their thread calls the driver whenever it comes to it.
  StreamHost(std::uint64_t seed, sim::Progress progress, StreamPoolOptions pool, bool callbacks)
      : StreamOrders(seed, progress, pool), callbacks_(callbacks) {}
  ~StreamHost() override {
    runtime_.completions().finish();  // callbacks count here
    for (std::size_t thread = 0; thread < kThreads; ++thread) close_guards(thread);
  }

 protected:
  // Current streams and devices.

  void open_guard(std::size_t thread) {
    std::vector<OpenGuard>& guards = guards_[thread];
    if (guards.size() >= 5) return;
    OpenGuard guard{{}, {}, random_.below(kDevices), {}};
    if (random_.below(3) > 0) {
      const NamedStream stream = some_stream(thread);
      if (is_own(stream)) return;
      guard.device = stream.device;
      guard.stream = stream;
    }
    on(thread, [&] {
      if (guard.stream) {
        guard.of_stream = std::make_unique<StreamGuard>(guard.stream->ref);
      } else {
        guard.of_device = std::make_unique<DeviceGuard>(runtime_.devices(), named(guard.device));
      }
    });
    guards.push_back(std::move(guard));
    check_current(thread);
  }
  void close_guard(std::size_t thread) {
    std::vector<OpenGuard>& guards = guards_[thread];
    if (guards.empty()) return;
    on(thread, [&] { guards.pop_back(); });
    check_current(thread);
  }
  void close_guards(std::size_t thread) {
    while (!guards_[thread].empty()) close_guard(thread);
  }
  void check_current(std::size_t thread) {
    const std::vector<OpenGuard>& guards = guards_[thread];
    on(thread, [&] {
      CUcontext current = nullptr;
      CHECK(sim::berth_sim_cuCtxGetCurrent(&current) == CUDA_SUCCESS);
      CHECK(current == (guards.empty() ? nullptr : contexts_[guards.back().device]));
      for (std::size_t device = 0; device < kDevices; ++device) {
        const auto innermost = std::ranges::find_if(
            guards.rbegin(), guards.rend(),
            [&](const OpenGuard& guard) { return guard.stream && guard.device == device; });
        const StreamRef expected = innermost == guards.rend()
                                       ? runtime_.default_stream(named(device))
                                       : innermost->stream->ref;
        CHECK(runtime_.current_stream(named(device)) == expected);
      }
    });
  }

  // The host asks and waits.

  void ask_event(std::size_t thread) {
    if (events_.empty()) return;
    const HeldEvent& held = events_[random_.below(events_.size())];
    if (!held.mark) return;
    bool is_done = false;
    on(thread, [&] { is_done = held.ref().is_done(); });
    if (is_done) learn_done(*held.mark);
    const HeldEvent& other = events_[random_.below(events_.size())];
    if (!is_done || !other.mark || other.device != held.device) return;
    on(thread, [&] {
      if (!other.ref().is_done()) return;
      if (held.timing && other.timing) {
        static_cast<void>(elapsed_ms(held.ref(), other.ref()));
      } else {
        message_of<InvalidArgument>([&] { return elapsed_ms(held.ref(), other.ref()); });
      }
    });
  }
  void ask_stream(std::size_t thread) {
    const NamedStream stream = some_stream(thread);
    bool is_done = false;
    on(thread, [&] { is_done = stream.ref.is_done(); });
    if (is_done) learn_done(order_.mark(stream.lane));
  }
  void wait_on_host(std::size_t thread) {
    if (random_.below(2) == 0) {
      const NamedStream stream = some_stream(thread);
      on(thread, [&] {
        stream.ref.sync();
        CHECK(stream.ref.is_done());
      });
      ++stream_syncs_;
      learn_done(order_.mark(stream.lane));
    } else if (!events_.empty()) {
      const HeldEvent& held = events_[random_.below(events_.size())];
      if (!held.mark) return;
      on(thread, [&] {
        held.ref().sync();
        CHECK(held.ref().is_done());
      });
      ++event_syncs_;
      learn_done(*held.mark);
    }
  }
  void learn_done(const Before& mark) {
    CHECK_MESSAGE(order_.is_done(mark), "said to be done before its work");
    order_.host_sees(Before(mark));
  }
  /// Waits for everything, callbacks included.
  void settle() {
    for (const CUcontext context : contexts_) {
      const RawContext raw(context);
      REQUIRE(sim::berth_sim_cuCtxSynchronize() == CUDA_SUCCESS);
    }
    order_.host_sees_all();
    while (callbacks_pending()) std::this_thread::yield();
    CHECK(runtime_.completions().outstanding() == 0);
    const std::lock_guard lock(callbacks_mutex_);
    CHECK(callbacks_in_order_);
    CHECK_MESSAGE(callbacks_in_time_, "a callback was called before the work it waits for");
  }

  // Callbacks.

  void ask_for_callback(std::size_t thread) {
    if (!callbacks_) return;
    const NamedStream stream = some_stream(thread);
    const std::uint64_t turn = ++callback_turns_[stream.lane];
    ++callbacks_submitted_;
    on(thread, [&] {
      runtime_.completions().when_done(
          stream.ref, [this, lane = stream.lane, turn,
                       mark = order_.mark(stream.lane)](const std::exception_ptr& failure) {
            called(lane, turn, order_.is_done(mark) && !failure);
          });
    });
  }
  void called(Lane lane, std::uint64_t turn, bool is_in_time) {
    {
      const std::lock_guard lock(callbacks_mutex_);
      if (++callbacks_of_[lane] != turn) callbacks_in_order_ = false;
      if (!is_in_time) callbacks_in_time_ = false;
    }
    ++callbacks_called_;
  }

 private:
  struct OpenGuard {
    std::unique_ptr<StreamGuard> of_stream;
    std::unique_ptr<DeviceGuard> of_device;
    std::size_t device;
    std::optional<NamedStream> stream;
  };
  [[nodiscard]] bool is_own(const NamedStream& stream) const {
    return std::ranges::any_of(
        own_, [&](const OwnStream& own) { return own.stream.lane == stream.lane; });
  }

  const bool callbacks_;
  std::array<std::vector<OpenGuard>, kThreads> guards_;
  std::map<Lane, std::uint64_t> callback_turns_;
  std::mutex callbacks_mutex_;
  std::map<Lane, std::uint64_t> callbacks_of_;
  bool callbacks_in_order_ = true;
  bool callbacks_in_time_ = true;
};

}  // namespace berth::test
