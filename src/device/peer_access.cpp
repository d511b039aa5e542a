// SPDX-License-Identifier: Apache-2.0
#include "device/peer_access.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/check.hpp"
#include "device/device_context.hpp"

namespace berth {

void PeerAccess::enable(DeviceContext& user) {
  BERTH_CHECK(&user != &owner_);
  const Driver& driver = owner_.driver();
  driver.require_here();
  const CUcontext context = owner_.primary();
  {
    const MutexLock lock(mutex_);
    const auto known = std::ranges::find(users_, &user, &User::context);
    if (known != users_.end() && known->has_all) return;
  }
  const CUresult enabled = driver.try_ctx_enable_peer_access(context, 0u);
  // The program may have enabled access itself.
  if (enabled != CUDA_SUCCESS && enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    driver.raise(DriverCall::ctx_enable_peer_access, enabled);
  const auto entry = begin_call(user);
  try {
    grant_all(user);
  } catch (...) {
    end_call(entry, false);
    throw;
  }
  end_call(entry, true);
}

std::list<PeerAccess::User>::iterator PeerAccess::begin_call(DeviceContext& user) {
  const MutexLock lock(mutex_);
  auto entry = std::ranges::find(users_, &user, &User::context);
  if (entry == users_.end()) entry = users_.insert(users_.end(), {&user});
  ++entry->calls;
  return entry;
}

void PeerAccess::end_call(std::list<User>::iterator user, bool has_all) noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(user->calls > 0);
  --user->calls;
  user->has_all |= has_all;
  if (user->calls == 0 && !user->has_all) users_.erase(user);
}

void PeerAccess::grant_all(DeviceContext& user) BERTH_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mutex_);
  const auto end_call = [this](Memory& memory) {
    BERTH_CHECK(memory.calls > 0);
    if (--memory.calls == 0) returned_.notify_all();
  };
  for (auto entry = memory_.begin(); entry != memory_.end(); ++entry) {
    if (entry->is_ending) continue;
    ++entry->calls;
    lock.unlock();
    try {
      entry->memory->grant_access(user);
    } catch (...) {
      lock.lock();
      end_call(*entry);
      throw;
    }
    lock.lock();
    end_call(*entry);
  }
}

void PeerAccess::add(MappedMemory& memory) {
  owner_.driver().require_here();
  std::vector<DeviceContext*> users;
  {
    const MutexLock lock(mutex_);
    BERTH_CHECK(std::ranges::find(memory_, &memory, &Memory::memory) == memory_.end());
    for (const User& user : users_) users.push_back(user.context);
    memory_.push_back({&memory});
  }
  try {
    for (DeviceContext* user : users) memory.grant_access(*user);
  } catch (...) {
    remove(memory);
    throw;
  }
}

void PeerAccess::remove(MappedMemory& memory) noexcept {
  if (!owner_.driver().is_here()) return;
  const MutexLock lock(mutex_);
  const auto entry = std::ranges::find(memory_, &memory, &Memory::memory);
  if (entry == memory_.end()) return;
  entry->is_ending = true;
  while (entry->calls > 0) returned_.wait(mutex_);
  memory_.erase(entry);
}

bool PeerAccess::is_empty() {
  const MutexLock lock(mutex_);
  return memory_.empty();
}

}  // namespace berth
