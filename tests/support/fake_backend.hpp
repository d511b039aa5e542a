// SPDX-License-Identifier: Apache-2.0
// A backend over host memory. Its operations end at once, or when the test requests it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/error.hpp"

namespace berth::test {

/// The state of a FakeBackend, which a Runtime owns, that a test reads and sets.
/// Threads  Settings are changed while no operation is starting.
struct FakeMachine {
  int devices = 2;
  std::atomic<bool> is_late = false;  ///< operations wait for run_next()
  std::atomic<int> late_device = -1;  ///< only those of this device wait
  bool can_fill = true;               ///< buffers can be written in parts
  bool can_read_parts = true;         ///< buffers can be read in parts
  bool can_map = false;               ///< host memory can be mapped
  bool refuses_parts = false;         ///< but no part is written
  bool reports_memory = true;
  bool drops = false;          ///< operations are dropped without a result
  bool ends_twice = false;     ///< operations report their end twice
  bool gives_nothing = false;  ///< operations succeed, and there is no buffer
  std::string refusal;         ///< calls throw BackendError with this text
  std::string failure;         ///< operations fail with this text
  int buffers_max = 1 << 30;   ///< more are refused
  std::string map_failure;     ///< host memory is not mapped, for this reason
  /// Called first for each part that is to be written, and each range that is to be read.
  std::function<void(int device, std::span<const std::byte> host)> on_part;
  std::function<void()> on_map;    ///< called before memory is mapped, or not
  std::function<void()> on_unmap;  ///< called before memory is unmapped

  std::atomic<int> buffers_live = 0;
  std::atomic<int> fillings_live = 0;
  std::atomic<int> backends_live = 0;
  std::atomic<int> parts_written = 0;
  std::atomic<int> whole_created = 0;
  std::atomic<int> ranges_read = 0;
  std::atomic<int> maps_made = 0;
  std::atomic<int> maps_live = 0;

  /// The oldest pending operation, which is no longer pending; empty if there is none.
  std::function<void()> take_next() {
    const std::lock_guard lock(mutex);
    if (pending.empty()) return {};
    std::function<void()> next = std::move(pending.front());
    pending.pop_front();
    return next;
  }
  /// The same for the newest one.
  std::function<void()> take_last() {
    const std::lock_guard lock(mutex);
    if (pending.empty()) return {};
    std::function<void()> last = std::move(pending.back());
    pending.pop_back();
    return last;
  }
  /// Runs the oldest pending operation; false if there is none.
  bool run_next() {
    const std::function<void()> next = take_next();
    if (next != nullptr) next();
    return next != nullptr;
  }
  void run_all() {
    while (run_next()) {
    }
  }
  [[nodiscard]] std::size_t pending_count() const {
    const std::lock_guard lock(mutex);
    return pending.size();
  }
  /// Returns once that many operations are pending.
  void await_pending(std::size_t count) const {
    while (pending_count() < count) std::this_thread::yield();
  }

  mutable std::mutex mutex;
  std::deque<std::function<void()>> pending;  ///< guarded by mutex
};

/// The bytes of a buffer, and the end of their filling, behind which they are read.
/// Threads  Safe from any thread.
class FakeContent {
 public:
  using End = std::function<void(std::exception_ptr failure)>;

  explicit FakeContent(std::size_t size) : bytes(size) {}

  /// Calls `end` once the bytes are there, or will not be.
  void when_filled(End end) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_filled_) return waiting_.push_back(std::move(end));
    }
    end(failure_);
  }
  /// The first call counts.
  void end_filling(std::exception_ptr failure) {
    std::vector<End> ends;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(is_filled_, true)) return;
      failure_ = std::move(failure);
      ends.swap(waiting_);
    }
    for (const End& end : ends) end(failure_);
  }
  void begin_part(bool is_last) {
    const std::lock_guard lock(mutex_);
    ++parts_;
    has_last_ |= is_last;
  }
  void end_part(std::exception_ptr failure) {
    bool is_over = failure != nullptr;
    {
      const std::lock_guard lock(mutex_);
      is_over |= --parts_ == 0 && has_last_;
    }
    if (is_over) end_filling(std::move(failure));
  }
  /// No part follows.
  void end_parts() {
    {
      const std::lock_guard lock(mutex_);
      if (has_last_) return;
    }
    end_filling(std::make_exception_ptr(BackendError("fake: not filled to the end", 16)));
  }

  std::vector<std::byte> bytes;

 private:
  std::mutex mutex_;
  bool is_filled_ = false;
  std::exception_ptr failure_;  ///< set before is_filled_
  std::vector<End> waiting_;
  int parts_ = 0;
  bool has_last_ = false;
};

class FakeBackend final : public DeviceBackend {
 public:
  using Content = std::shared_ptr<FakeContent>;

  explicit FakeBackend(std::shared_ptr<FakeMachine> machine) : machine_(std::move(machine)) {
    ++machine_->backends_live;
  }
  ~FakeBackend() override { --machine_->backends_live; }

  [[nodiscard]] std::string name() const override { return "fake 1.0"; }
  [[nodiscard]] int count() const override { return machine_->devices; }
  [[nodiscard]] DeviceDescription describe(int index) const override {
    DeviceDescription described;
    described.name = "fake device " + std::to_string(index);
    described.kind = "fake v1";
    described.memory_bytes = 1 << 30;
    described.attributes = {{"coords", std::vector<std::int64_t>{index, 0, 0}},
                            {"num_cores", std::int64_t{2}}};
    return described;
  }
  [[nodiscard]] BackendMemory memory(int /*index*/) const override {
    BackendMemory memory;
    if (machine_->reports_memory) {
      memory.bytes_used = 1000;
      memory.bytes_limit = 5000;
    }
    return memory;
  }

  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int index, std::span<const std::byte> content,
                                                      Done done) override {
    refuse_if_told();
    ++machine_->whole_created;
    auto buffer = std::make_unique<FakeBuffer>(machine_, index, content.size());
    fill(index, nullptr, buffer->content, std::move(done), [to = buffer->content, content] {
      std::copy(content.begin(), content.end(), to->bytes.begin());
    });
    return given(std::move(buffer));
  }
  [[nodiscard]] Begun begin_buffer(int index, std::size_t bytes) override {
    refuse_if_told();
    if (!machine_->can_fill) return {};
    auto buffer = std::make_unique<FakeBuffer>(machine_, index, bytes);
    auto filling = std::make_unique<FakeFilling>(*this, index, buffer->content);
    return {given(std::move(buffer)), std::move(filling)};
  }
  void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
            Done done) override {
    const int index = static_cast<const FakeBuffer&>(source).index;
    note_part(index, target);
    refuse_if_told();
    ++machine_->ranges_read;
    start(index, content_of(source), std::move(done), [from = content_of(source), offset, target] {
      std::copy_n(from->bytes.begin() + std::ptrdiff_t(offset), target.size(), target.begin());
    });
  }
  [[nodiscard]] bool reads_parts() const override { return machine_->can_read_parts; }
  [[nodiscard]] std::unique_ptr<Buffer> copy(const Buffer& source, int index, Done done) override {
    refuse_if_told();
    const Content from = content_of(source);
    auto buffer = std::make_unique<FakeBuffer>(machine_, index, from->bytes.size());
    fill(index, from, buffer->content, std::move(done),
         [from, to = buffer->content] { to->bytes = from->bytes; });
    return given(std::move(buffer));
  }
  [[nodiscard]] bool map_host_memory(std::span<std::byte> /*memory*/) override {
    if (machine_->on_map != nullptr) machine_->on_map();
    if (!machine_->can_map) return false;
    ++machine_->maps_made;
    if (!machine_->map_failure.empty()) throw BackendError("fake: " + machine_->map_failure, 15);
    ++machine_->maps_live;
    return true;
  }
  void unmap_host_memory(std::byte* /*memory*/) override {
    if (machine_->on_unmap != nullptr) machine_->on_unmap();
    --machine_->maps_live;
  }

 private:
  struct FakeBuffer final : Buffer {
    FakeBuffer(std::shared_ptr<FakeMachine> machine_, int index_, std::size_t size)
        : machine(std::move(machine_)),
          index(index_),
          content(std::make_shared<FakeContent>(size)) {
      if (machine->buffers_live >= machine->buffers_max) throw BackendError("fake: no room", 8);
      ++machine->buffers_live;
    }
    ~FakeBuffer() override { --machine->buffers_live; }
    const std::shared_ptr<FakeMachine> machine;
    const int index;
    const Content content;  ///< shared with pending operations
  };

  struct FakeFilling final : Filling {
    FakeFilling(FakeBackend& backend_, int index_, Content target_)
        : backend(backend_), index(index_), target(std::move(target_)) {
      ++backend.machine_->fillings_live;
    }
    ~FakeFilling() override {
      target->end_parts();
      --backend.machine_->fillings_live;
    }
    void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
               Done done) override {
      backend.note_part(index, content);
      backend.refuse_if_told();
      if (backend.machine_->refuses_parts) throw BackendError("fake: no part", 13);
      ++backend.machine_->parts_written;
      target->begin_part(is_last);
      auto end = [to = target, done = std::move(done)](std::exception_ptr failure) {
        to->end_part(failure);
        done(std::move(failure));
      };
      try {
        backend.start(index, nullptr, std::move(end), [to = target, offset, content] {
          std::copy(content.begin(), content.end(), to->bytes.begin() + std::ptrdiff_t(offset));
        });
      } catch (...) {
        target->end_part(std::current_exception());
        throw;
      }
    }
    FakeBackend& backend;
    const int index;
    const Content target;
  };

  static Content content_of(const Buffer& buffer) {
    return static_cast<const FakeBuffer&>(buffer).content;
  }
  [[nodiscard]] std::unique_ptr<Buffer> given(std::unique_ptr<Buffer> buffer) const {
    return machine_->gives_nothing ? nullptr : std::move(buffer);
  }
  void refuse_if_told() const {
    if (!machine_->refusal.empty()) throw BackendError("fake: " + machine_->refusal, 13);
  }
  void note_part(int index, std::span<const std::byte> host) const {
    if (machine_->on_part != nullptr) machine_->on_part(index, host);
  }
  /// Fills `target`, behind the filling of `source` if there is one.
  void fill(int index, Content source, Content target, Done done, std::function<void()> work) {
    start(
        index, std::move(source),
        [target, done = std::move(done)](std::exception_ptr failure) {
          target->end_filling(failure);
          done(std::move(failure));
        },
        std::move(work));
  }
  void start(int index, Content source, Done done, std::function<void()> work) {
    auto run = [machine = machine_, done = std::move(done),
                work = std::move(work)](std::exception_ptr before) {
      if (machine->drops) return;
      if (!machine->failure.empty())
        before = std::make_exception_ptr(BackendError("fake: " + machine->failure, 14));
      if (before == nullptr) work();
      if (before == nullptr && machine->ends_twice) done(nullptr);
      done(std::move(before));
    };
    auto operation = [source = std::move(source), run = std::move(run)] {
      if (source == nullptr) return run(nullptr);
      source->when_filled(run);
    };
    if (!machine_->is_late && machine_->late_device != index) return operation();
    const std::lock_guard lock(machine_->mutex);
    machine_->pending.emplace_back(std::move(operation));
  }

  const std::shared_ptr<FakeMachine> machine_;
};

}  // namespace berth::test
