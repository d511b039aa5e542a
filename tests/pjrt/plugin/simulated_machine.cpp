// SPDX-License-Identifier: Apache-2.0
// The devices of the plug-in as devices of the simulated CUDA driver, which judges how berth uses
// them. Each operation has a stream of its own, behind the operations that its memory requires, so
// that the driver may run it at any time that is legal. Pinned host memory is copied by the driver;
// other memory by a host function of the stream, late, through pinned memory of the plug-in.
//
// Nothing waits or asks for work unless the user of the plug-in does: the driver would take that
// for an order that the user has established.
#include <cuda.h>

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "pjrt/plugin/driver_session.hpp"

namespace berth::pjrt {
namespace {

/// What a stream has to do up to an event.
class DriverWork final : public Work {
 public:
  /// Behind the work of `stream` so far, whose context is current.
  DriverWork(std::shared_ptr<Session> session, int device, CUstream stream)
      : session_(std::move(session)), device_(device) {
    check(session_->call.event_create(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    check(session_->call.event_record(event_, stream), "cuEventRecord");
    session_->add(event_);
  }
  ~DriverWork() override {
    if (session_->has_ended()) return;
    session_->remove(event_);
    const Current current(*session_, device_);
    check(session_->call.event_destroy(event_), "cuEventDestroy");
  }

  bool is_done() override {
    if (session_->has_ended()) return true;
    const CUresult result = session_->call.event_query(event_);
    if (result != CUDA_ERROR_NOT_READY) check(result, "cuEventQuery");
    return result == CUDA_SUCCESS;
  }
  void wait() override {
    if (!session_->has_ended())
      check(session_->call.event_synchronize(event_), "cuEventSynchronize");
  }
  void order_before(CUstream stream) const {
    check(session_->call.stream_wait_event(stream, event_, 0), "cuStreamWaitEvent");
  }

 private:
  const std::shared_ptr<Session> session_;
  const int device_;
  CUevent event_ = nullptr;
};

using Works = std::vector<std::shared_ptr<DriverWork>>;

/// A stream of a device for one operation.
class Submission {
 public:
  Submission(const std::shared_ptr<Session>& session, int device, const Works& after)
      : session_(session), device_(device), current_(*session, device) {
    check(session_->call.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (const auto& work : after) work->order_before(stream_);
  }
  /// The driver keeps the stream until its work is done.
  ~Submission() { session_->call.stream_destroy(stream_); }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  [[nodiscard]] CUstream stream() const { return stream_; }
  void copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    check(session_->call.memcpy_async(to, from, bytes, stream_), "cuMemcpyAsync");
  }
  /// Copies bytes of the host when the stream comes to it.
  void copy_by_host(void* to, const void* from, std::size_t bytes) {
    using Task = std::function<void()>;
    auto task = std::make_unique<Task>([=] { std::memcpy(to, from, bytes); });
    check(session_->call.launch_host_func(
              stream_, [](void* user) { (*std::unique_ptr<Task>(static_cast<Task*>(user)))(); },
              task.get()),
          "cuLaunchHostFunc");
    static_cast<void>(task.release());
  }
  [[nodiscard]] std::shared_ptr<DriverWork> record() {
    return std::make_shared<DriverWork>(session_, device_, stream_);
  }

 private:
  const std::shared_ptr<Session>& session_;
  const int device_;
  const Current current_;
  CUstream stream_ = nullptr;
};

template <class T>
std::optional<T> attribute(const Session& session, CUpointer_attribute which, CUdeviceptr address) {
  T value{};
  if (session.call.pointer_get_attribute(&value, which, address) != CUDA_SUCCESS)
    return std::nullopt;
  return value;
}

CUdeviceptr address_of(const void* data) {
  return reinterpret_cast<CUdeviceptr>(data);
}

/// Whether all of a range of host memory is one piece of pinned memory.
bool is_pinned(const Session& session, const void* data, std::size_t bytes) {
  const CUdeviceptr begin = address_of(data);
  const auto type = attribute<unsigned>(session, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, begin);
  const auto start = attribute<CUdeviceptr>(session, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, begin);
  const auto size = attribute<std::size_t>(session, CU_POINTER_ATTRIBUTE_RANGE_SIZE, begin);
  return type == CU_MEMORYTYPE_HOST && start && size && begin - *start + bytes <= *size;
}

class DeviceStorage final : public Storage {
 public:
  DeviceStorage(std::shared_ptr<Session> session, int device, std::size_t bytes)
      : Storage(bytes), session_(std::move(session)), device_(device) {
    Submission submission(session_, device_, {});
    check(session_->call.mem_alloc_async(&memory_, bytes, submission.stream()), "cuMemAllocAsync");
    allocated_ = submission.record();
    writes_ = {allocated_};
  }
  ~DeviceStorage() override {
    if (session_->has_ended()) return;
    Works uses = writes_;
    uses.insert(uses.end(), reads_.begin(), reads_.end());
    const Submission submission(session_, device_, uses);
    check(session_->call.mem_free_async(memory_, submission.stream()), "cuMemFreeAsync");
  }

  Write write(std::size_t offset, const void* source, std::size_t bytes) override {
    Submission submission(session_, device_, {allocated_});  // parts do not overlap
    Write started;
    if (is_pinned(*session_, source, bytes)) {
      submission.copy(memory_ + offset, address_of(source), bytes);
    } else {
      void* const stage = session_->stage(bytes);
      submission.copy_by_host(stage, source, bytes);
      started.source_read = submission.record();
      submission.copy(memory_ + offset, address_of(stage), bytes);
    }
    started.done = add(writes_, submission);
    if (started.source_read == nullptr) started.source_read = started.done;
    return started;
  }

  Started read(std::size_t offset, void* target, std::size_t bytes) override {
    Submission submission(session_, device_, all_writes());
    if (is_pinned(*session_, target, bytes)) {
      submission.copy(address_of(target), memory_ + offset, bytes);
    } else {
      void* const stage = session_->stage(bytes);
      submission.copy(address_of(stage), memory_ + offset, bytes);
      submission.copy_by_host(target, stage, bytes);
    }
    return add(reads_, submission);
  }

  Started copy_from(Storage& other) override {
    auto& source = static_cast<DeviceStorage&>(other);
    Works after = source.all_writes();
    after.push_back(allocated_);
    Submission submission(session_, device_, after);
    check(session_->call.memcpy_peer_async(memory_, session_->context(device_), source.memory_,
                                           session_->context(source.device_), bytes(),
                                           submission.stream()),
          "cuMemcpyPeerAsync");
    const auto done = add(writes_, submission);
    source.add_read(done);
    return done;
  }

  Started written() override { return Submission(session_, device_, all_writes()).record(); }

 private:
  std::shared_ptr<DriverWork> add(Works& works, Submission& submission) {
    auto done = submission.record();
    const std::lock_guard lock(mutex_);
    works.push_back(done);
    return done;
  }
  void add_read(std::shared_ptr<DriverWork> read) {
    const std::lock_guard lock(mutex_);
    reads_.push_back(std::move(read));
  }
  Works all_writes() {
    const std::lock_guard lock(mutex_);
    return writes_;
  }

  const std::shared_ptr<Session> session_;
  const int device_;
  CUdeviceptr memory_ = 0;
  std::shared_ptr<DriverWork> allocated_;
  std::mutex mutex_;
  Works writes_;  ///< guarded by mutex, as reads_
  Works reads_;
};

class SimulatedMachine final : public Machine {
 public:
  SimulatedMachine(ResolveDriver* resolve, int devices)
      : session_(std::make_shared<Session>(resolve, devices)) {}
  ~SimulatedMachine() override { session_->end(); }

  std::shared_ptr<Storage> allocate(int device, std::size_t bytes) override {
    return std::make_shared<DeviceStorage>(session_, device, bytes);
  }
  std::optional<Usage> usage(int device) override {
    const Current current(*session_, device);
    std::size_t free = 0;
    std::size_t total = 0;
    check(session_->call.mem_get_info(&free, &total), "cuMemGetInfo");
    return Usage{std::int64_t(total - free), std::int64_t(total)};
  }
  void map(void* data, std::size_t bytes) override {
    const Current current(*session_, 0);
    const CUresult result =
        session_->call.mem_host_register(data, bytes, CU_MEMHOSTREGISTER_PORTABLE);
    const bool is_pinned_by_others =
        result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && is_pinned(*session_, data, bytes);
    if (is_pinned_by_others) return;
    check(result, "cuMemHostRegister");
    const std::lock_guard lock(mutex_);
    registered_.insert(data);
  }
  void unmap(void* data) override {
    {
      const std::lock_guard lock(mutex_);
      if (registered_.erase(data) == 0) return;
    }
    const Current current(*session_, 0);
    check(session_->call.mem_host_unregister(data), "cuMemHostUnregister");
  }

 private:
  const std::shared_ptr<Session> session_;
  std::mutex mutex_;
  std::set<void*> registered_;  ///< guarded by mutex
};

}  // namespace

std::shared_ptr<Machine> make_simulated_machine(ResolveDriver* resolve, int devices) {
  if (resolve == nullptr) throw MachineError(Code::failed_precondition, "no simulated driver");
  return std::make_shared<SimulatedMachine>(resolve, devices);
}

}  // namespace berth::pjrt
