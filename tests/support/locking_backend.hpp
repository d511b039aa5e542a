// SPDX-License-Identifier: Apache-2.0
// A backend that has one lock: each of its functions takes the lock, and operations report their
// end under it.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "berth/device_backend.hpp"

namespace berth::test {

/// Threads  Safe from any thread.
class LockingBackend final : public DeviceBackend {
 public:
  /// Outlives the backend.
  struct Lock {
    std::recursive_mutex mutex;  ///< operations may end within the call that starts them
    std::atomic<int> calls_from_done = 0;
  };

  LockingBackend(std::unique_ptr<DeviceBackend> inner, std::shared_ptr<Lock> lock)
      : inner_(std::move(inner)), lock_(std::move(lock)) {}

  [[nodiscard]] std::string name() const override {
    const Call call(*lock_);
    return inner_->name();
  }
  [[nodiscard]] int count() const override {
    const Call call(*lock_);
    return inner_->count();
  }
  [[nodiscard]] DeviceDescription describe(int index) const override {
    const Call call(*lock_);
    return inner_->describe(index);
  }
  [[nodiscard]] BackendMemory memory(int index) const override {
    const Call call(*lock_);
    return inner_->memory(index);
  }
  [[nodiscard]] std::unique_ptr<Buffer> create_buffer(int index, std::span<const std::byte> content,
                                                      Done done) override {
    const Call call(*lock_);
    return locked(inner_->create_buffer(index, content, locked(std::move(done))));
  }
  [[nodiscard]] Begun begin_buffer(int index, std::size_t bytes) override {
    const Call call(*lock_);
    Begun begun = inner_->begin_buffer(index, bytes);
    return {locked(std::move(begun.buffer)),
            std::make_unique<LockedFilling>(std::move(begun.filling), lock_)};
  }
  void read(const Buffer& source, std::size_t offset, std::span<std::byte> target,
            Done done) override {
    const Call call(*lock_);
    inner_->read(inner_of(source), offset, target, locked(std::move(done)));
  }
  [[nodiscard]] bool reads_parts() const override {
    const Call call(*lock_);
    return inner_->reads_parts();
  }
  [[nodiscard]] std::unique_ptr<Buffer> copy(const Buffer& source, int index, Done done) override {
    const Call call(*lock_);
    return locked(inner_->copy(inner_of(source), index, locked(std::move(done))));
  }
  [[nodiscard]] bool map_host_memory(std::span<std::byte> memory) override {
    const Call call(*lock_);
    return inner_->map_host_memory(memory);
  }
  void unmap_host_memory(std::byte* memory) override {
    const Call call(*lock_);
    inner_->unmap_host_memory(memory);
  }

 private:
  inline static thread_local int in_done_ = 0;

  class Call {
   public:
    explicit Call(Lock& lock) : lock_(lock.mutex) {
      if (in_done_ > 0) ++lock.calls_from_done;
    }

   private:
    const std::lock_guard<std::recursive_mutex> lock_;
  };

  struct LockedBuffer final : Buffer {
    LockedBuffer(std::unique_ptr<Buffer> inner_, std::shared_ptr<Lock> lock_)
        : inner(std::move(inner_)), lock(std::move(lock_)) {}
    ~LockedBuffer() override {
      const Call call(*lock);
      inner = nullptr;
    }
    std::unique_ptr<Buffer> inner;
    const std::shared_ptr<Lock> lock;
  };

  struct LockedFilling final : Filling {
    LockedFilling(std::unique_ptr<Filling> inner_, std::shared_ptr<Lock> lock_)
        : inner(std::move(inner_)), lock(std::move(lock_)) {}
    ~LockedFilling() override {
      const Call call(*lock);
      inner = nullptr;
    }
    void write(std::size_t offset, std::span<const std::byte> content, bool is_last,
               Done done) override {
      const Call call(*lock);
      inner->write(offset, content, is_last, under(lock, std::move(done)));
    }
    std::unique_ptr<Filling> inner;
    const std::shared_ptr<Lock> lock;
  };

  static const Buffer& inner_of(const Buffer& buffer) {
    return *static_cast<const LockedBuffer&>(buffer).inner;
  }
  [[nodiscard]] std::unique_ptr<Buffer> locked(std::unique_ptr<Buffer> buffer) const {
    return std::make_unique<LockedBuffer>(std::move(buffer), lock_);
  }
  [[nodiscard]] Done locked(Done done) const { return under(lock_, std::move(done)); }
  static Done under(std::shared_ptr<Lock> lock, Done done) {
    return [lock = std::move(lock), done = std::move(done)](std::exception_ptr failure) {
      const std::lock_guard held(lock->mutex);
      // Long enough for another thread to ask for the lock, with what locks it has.
      for (int turn = 0; turn < 20; ++turn) std::this_thread::yield();
      ++in_done_;
      done(std::move(failure));
      --in_done_;
    };
  }

  const std::unique_ptr<DeviceBackend> inner_;
  const std::shared_ptr<Lock> lock_;
};

}  // namespace berth::test
