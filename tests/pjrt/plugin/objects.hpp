// SPDX-License-Identifier: Apache-2.0
// The objects of a PJRT plug-in for tests. Every object is counted while it lives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pjrt/pjrt_functions.hpp"
#include "pjrt/plugin/machine.hpp"

namespace berth::pjrt {

/// Numbers of live objects, for leak checks.
struct Live {
  std::atomic<int> errors = 0;
  std::atomic<int> events = 0;
  std::atomic<int> clients = 0;
  std::atomic<int> buffers = 0;
  std::atomic<int> managers = 0;
  std::atomic<int> topologies = 0;
  std::atomic<int> mappings = 0;

  [[nodiscard]] int sum() const {
    return errors + events + clients + buffers + managers + topologies + mappings;
  }
};
inline Live live;

/// Counts one object from its construction to its destruction.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

struct Error {
  Code code;
  std::string message;
  Counted counted{live.errors};
};

inline Error* new_error(Code code, std::string message) {
  return new Error{code, std::move(message)};
}

/// What the events of one operation share: the operation has not been started, or it is left to the
/// machine, or it is over.
class Completion {
 public:
  using Callback = std::function<void()>;

  /// The operation is over, or it is once `work` is done.
  void end(Code code, std::string text, Started work = nullptr) {
    std::vector<Callback> calls;
    {
      const std::lock_guard lock(mutex_);
      is_started_ = true;
      code_ = code;
      message_ = std::move(text);
      work_ = std::move(work);
      calls.swap(callbacks_);
      changed_.notify_all();
    }
    for (const Callback& call : calls) call();
  }
  /// Calls `callback` once the machine has the operation, or it is over.
  void when_started(Callback callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_started_) return callbacks_.push_back(std::move(callback));
    }
    callback();
  }
  [[nodiscard]] bool is_started() {
    const std::lock_guard lock(mutex_);
    return is_started_;
  }
  [[nodiscard]] bool is_over() {
    if (!is_started()) return false;
    try {
      return work_ == nullptr || work_->is_done();
    } catch (const MachineError& failure) {
      fail(failure);
      return true;
    }
  }
  void wait() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_started_; });
    }
    try {
      if (work_ != nullptr) work_->wait();
    } catch (const MachineError& failure) {
      fail(failure);
    }
  }
  // Once it is started.
  [[nodiscard]] Code code() {
    const std::lock_guard lock(mutex_);
    return code_;
  }
  [[nodiscard]] std::string message() {
    const std::lock_guard lock(mutex_);
    return message_;
  }
  [[nodiscard]] Started work() const { return work_; }
  /// Null if it succeeded. The caller owns it. Requires the end.
  [[nodiscard]] Error* error() {
    return code() == Code::ok ? nullptr : new_error(code(), message());
  }

 private:
  void fail(const MachineError& failure) {
    const std::lock_guard lock(mutex_);
    code_ = failure.code;
    message_ = failure.what();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_started_ = false;
  Code code_ = Code::ok;
  std::string message_;
  Started work_;  ///< not changed after the start
  std::vector<Callback> callbacks_;
};

/// What is known of an event beyond its end.
struct EventUse {
  std::atomic<bool> is_in_call = false;
  std::atomic<bool> is_destroyed = false;
};

struct Event {
  std::shared_ptr<Completion> completion;
  Client* client;
  Counted counted{live.events};
  std::shared_ptr<EventUse> use = std::make_shared<EventUse>();
};

/// The memory of a buffer.
struct Content {
  std::shared_ptr<Storage> storage;
  Started source_read;  ///< by the filling from host memory, once it is started
  std::shared_ptr<Completion> filled = std::make_shared<Completion>();
};

struct Buffer {
  Client* client;
  Device* device;
  std::shared_ptr<Content> content;
  Counted counted{live.buffers};
};

/// Buffers that clients were told to leak.
class Leaked {
 public:
  void keep(Buffer* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.emplace_back(buffer);
  }
  void free() {
    const std::lock_guard lock(mutex_);
    buffers_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};
inline Leaked leaked;

struct TransferManager {
  Client* client;
  Device* device;
  std::shared_ptr<Content> content;
  Counted counted{live.managers};
};

/// A device, and also the only memory of it.
struct Description {
  int id = 0;
  std::string name;
  std::string kind = "test device";
  std::vector<std::int64_t> coordinates;
  std::string lie;
  std::vector<char> attributes;  ///< NamedValues, which may be longer than berth knows
  std::size_t attribute_count = 0;
};
struct Memory {
  Device* device;
};
struct Device {
  Client* client = nullptr;
  Description description;
  Memory memory{this};
  /// Shared with buffers, which may be leaked beyond the end of the client.
  std::shared_ptr<std::atomic<std::int64_t>> bytes_in_use =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

struct Topology {
  std::vector<std::unique_ptr<Description>> owned;
  std::vector<Description*> descriptions;
  std::string label = "test";
  Counted counted{live.topologies};
};

/// Runs tasks in their order on a thread, or at once.
class Queue {
 public:
  explicit Queue(bool is_late) {
    if (is_late) thread_ = std::thread([this] { loop(); });
  }
  ~Queue() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void post(std::function<void()> task) {
    if (!thread_.joinable()) return task();
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

 private:
  void loop() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_ending_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_ending_ = false;
  std::thread thread_;
};

/// Calls back for operations that the machine still runs: on a thread that asks for them.
class CallbackThread {
 public:
  CallbackThread() = default;
  ~CallbackThread() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  /// Calls `callback` once the operation, which is started, is over.
  void when_over(std::shared_ptr<Completion> completion, std::function<void()> callback) {
    if (completion->is_over()) return callback();
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
    waiting_.emplace_back(std::move(completion), std::move(callback));
    changed_.notify_all();
  }

 private:
  using Waiting = std::pair<std::shared_ptr<Completion>, std::function<void()>>;

  void loop() {
    std::deque<Waiting> asked;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_ending_ || !asked.empty() || !waiting_.empty(); });
        if (asked.empty() && waiting_.empty()) return;
        for (Waiting& each : waiting_) asked.push_back(std::move(each));
        waiting_.clear();
      }
      // Each question is a call of the driver, which lets work progress.
      Waiting next = std::move(asked.front());
      asked.pop_front();
      if (next.first->is_over())
        next.second();
      else
        asked.push_back(std::move(next));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool is_ending_ = false;
  std::thread thread_;
};

/// What the create options of a client ask for.
struct Knobs {
  std::int64_t devices = 2;
  std::int64_t memory_bytes = 1 << 30;  ///< of each device; a buffer beyond it is refused
  bool memory_stats = true;
  bool simulated = false;     ///< the devices are those of the simulated driver
  bool late = false;          ///< operations are started later, on a thread
  bool no_raw_reads = false;  ///< Buffer_CopyRawToHost is unimplemented
  bool no_parts = false;      ///< transfer managers are unimplemented
  bool throws = false;        ///< a client is not created, but an exception is thrown
  bool holds_source = false;  ///< a source is in use until the release of what is held
  bool leaks = false;         ///< what should be freed is kept
  float scale = 1;            ///< reported as an attribute
  std::string gives_nothing;  ///< the function that reports success without an object
  std::string holds;          ///< the function whose event is not ready before the release
  /// How Event_OnReady calls back: "twice", "never", "and refuses", "slow", "of nothing" too, or
  /// "after the end" or "after a refusal": when the test says so; or "alone": no function but
  /// those that free an event, and those of errors, may be called in a callback.
  std::string callback;
  std::string lie;         ///< what is wrong with what is described
  std::string fail;        ///< the function, without "PJRT_", that returns an error
  std::string fail_event;  ///< the function whose event has an error
  std::int64_t fail_code = static_cast<int>(Code::internal);
  std::int64_t dies_after = -1;                       ///< calls until every call fails; -1: never
  std::int64_t attribute_bytes = sizeof(NamedValue);  ///< what each attribute says of its size
};

/// What clients do when a test says so.
class Held {
 public:
  void add(std::function<void()> act) {
    const std::lock_guard lock(mutex_);
    acts_.push_back(std::move(act));
  }
  void release() {
    std::vector<std::function<void()>> released;
    {
      const std::lock_guard lock(mutex_);
      released.swap(acts_);
    }
    for (const auto& act : released) act();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> acts_;
};
inline Held held_ends;       ///< of operations
inline Held held_callbacks;  ///< of events

struct Client {
  explicit Client(Knobs knobs_);

  const Knobs knobs;
  const std::shared_ptr<Machine> machine;
  std::vector<std::unique_ptr<Device>> owned;
  std::vector<Device*> devices;
  std::mutex mutex;
  std::map<const void*, std::size_t> mapped;  ///< guarded by mutex; left at the end: leaked
  CallbackThread callbacks;
  Queue queue;  ///< ends before what its tasks use
  Counted counted{live.clients};
};

}  // namespace berth::pjrt
