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
  bool is_late = false;        ///< operations wait for run_next()
  bool can_fill = true;        ///< buffers can be written in parts
  bool refuses_parts = false;  ///< but no part is written
  bool reports_memory = true;
  bool drops = false;          ///< operations are dropped without a result
  bool gives_nothing = false;  ///< operations succeed, and there is no buffer
  std::string refusal;         ///< calls throw BackendError with this text
  std::string failure;         ///< operations fail with this text

  std::atomic<int> buffers_live = 0;
  std::atomic<int> fillings_live = 0;
  std::atomic<int> backends_live = 0;
  std::atomic<int> parts_written = 0;

  /// The oldest pending operation, which is no longer pending; empty if there is none.
  std::function<void()> take_next() {
    const std::lock_guard lock(mutex);
    if (pending.empty()) return {};
    std::function<void()> next = std::move(pending.front());
    pending.pop_front();
    return next;
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

class FakeBackend final : public DeviceBackend {
 public:
  using Bytes = std::vector<std::byte>;

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

  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int /*index*/,
                                                      std::span<const std::byte> content,
                                                      Done done) override {
    refuse_if_told();
    auto buffer = std::make_unique<FakeBuffer>(machine_, content.size());
    start(std::move(done), [bytes = buffer->bytes, content] {
      std::copy(content.begin(), content.end(), bytes->begin());
    });
    return given(std::move(buffer));
  }
  [[nodiscard]] Begun begin_buffer(int /*index*/, std::size_t bytes) override {
    refuse_if_told();
    if (!machine_->can_fill) return {};
    auto buffer = std::make_unique<FakeBuffer>(machine_, bytes);
    auto filling = std::make_unique<FakeFilling>(*this, buffer->bytes);
    return {given(std::move(buffer)), std::move(filling)};
  }
  void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
            Done done) override {
    refuse_if_told();
    start(std::move(done), [bytes = bytes_of(source), offset, target] {
      std::copy_n(bytes->begin() + std::ptrdiff_t(offset), target.size(), target.begin());
    });
  }
  [[nodiscard]] std::unique_ptr<Buffer> copy(const Buffer& source, int /*index*/,
                                             Done done) override {
    refuse_if_told();
    auto buffer = std::make_unique<FakeBuffer>(machine_, bytes_of(source)->size());
    start(std::move(done), [from = bytes_of(source), to = buffer->bytes] { *to = *from; });
    return given(std::move(buffer));
  }

 private:
  struct FakeBuffer final : Buffer {
    FakeBuffer(std::shared_ptr<FakeMachine> machine_, std::size_t size)
        : machine(std::move(machine_)), bytes(std::make_shared<Bytes>(size)) {
      ++machine->buffers_live;
    }
    ~FakeBuffer() override { --machine->buffers_live; }
    const std::shared_ptr<FakeMachine> machine;
    const std::shared_ptr<Bytes> bytes;  ///< shared with pending operations
  };

  struct FakeFilling final : Filling {
    FakeFilling(FakeBackend& backend_, std::shared_ptr<Bytes> bytes_)
        : backend(backend_), bytes(std::move(bytes_)) {
      ++backend.machine_->fillings_live;
    }
    ~FakeFilling() override { --backend.machine_->fillings_live; }
    void write(std::size_t offset, std::span<const std::byte> content, bool /*is_last*/,
               Done done) override {
      backend.refuse_if_told();
      if (backend.machine_->refuses_parts) throw BackendError("fake: no part", 13);
      ++backend.machine_->parts_written;
      backend.start(std::move(done), [to = bytes, offset, content] {
        std::copy(content.begin(), content.end(), to->begin() + std::ptrdiff_t(offset));
      });
    }
    FakeBackend& backend;
    const std::shared_ptr<Bytes> bytes;
  };

  static std::shared_ptr<Bytes> bytes_of(const Buffer& buffer) {
    return static_cast<const FakeBuffer&>(buffer).bytes;
  }
  [[nodiscard]] std::unique_ptr<Buffer> given(std::unique_ptr<Buffer> buffer) const {
    return machine_->gives_nothing ? nullptr : std::move(buffer);
  }
  void refuse_if_told() const {
    if (!machine_->refusal.empty()) throw BackendError("fake: " + machine_->refusal, 13);
  }
  void start(Done done, std::function<void()> work) {
    auto operation = [machine = machine_, done = std::move(done), work = std::move(work)] {
      if (machine->drops) return;
      if (machine->failure.empty()) {
        work();
        return done(nullptr);
      }
      done(std::make_exception_ptr(BackendError("fake: " + machine->failure, 14)));
    };
    if (!machine_->is_late) return operation();
    const std::lock_guard lock(machine_->mutex);
    machine_->pending.emplace_back(std::move(operation));
  }

  const std::shared_ptr<FakeMachine> machine_;
};

}  // namespace berth::test
