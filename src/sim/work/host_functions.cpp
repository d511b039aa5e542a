// SPDX-License-Identifier: Apache-2.0
#include "sim/work/host_functions.hpp"

#include "sim/device/context.hpp"
#include "sim/work/scheduler.hpp"

namespace berth::sim {

void HostFunctions::start(Handle stream, const HostFunctionWork& work, CUresult status,
                          Clock done) {
  entries_.push_back({stream, work, status, std::move(done)});
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  wake_.notify_one();
}

void HostFunctions::stop() {
  {
    MutexLock lock(mutex);
    stopping_ = true;
    entries_.clear();
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void HostFunctions::loop() {
  this_thread().in_host_function = true;
  for (;;) {
    mutex.lock();
    while (entries_.empty() && !stopping_) wake_.wait(mutex);
    if (stopping_) {
      mutex.unlock();
      return;
    }
    const Entry entry = std::move(entries_.front());
    entries_.pop_front();
    runs_ = true;
    running_for_ = entry.stream;
    scheduler_.host_sees(entry.done);
    mutex.unlock();

    if (entry.work.callback != nullptr)
      entry.work.callback(entry.work.stream, entry.status, entry.work.data);
    else
      entry.work.function(entry.work.data);

    MutexLock lock(mutex);
    runs_ = false;
    running_for_ = 0;
    if (!stopping_ && entry.stream != 0) scheduler_.finish_host_function(entry.stream);
  }
}

}  // namespace berth::sim
