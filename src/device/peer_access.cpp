// SPDX-License-Identifier: Apache-2.0
#include "device/peer_access.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "device/device_context.hpp"

namespace berth {

void PeerAccess::enable(DeviceContext& user) {
  BERTH_CHECK(&user != &owner_);
  const Driver& driver = owner_.driver();
  driver.require_here();
  const CUcontext context = owner_.primary();
  const MutexLock lock(mutex_);
  if (std::ranges::find(users_, &user) != users_.end()) return;
  const CUresult enabled = driver.try_ctx_enable_peer_access(context, 0u);
  // The program may have enabled access itself.
  if (enabled != CUDA_SUCCESS && enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    driver.raise(DriverCall::ctx_enable_peer_access, enabled);
  for (MappedMemory* memory : memory_) memory->grant_access(user);
  users_.push_back(&user);
}

void PeerAccess::add(MappedMemory& memory) {
  owner_.driver().require_here();
  const MutexLock lock(mutex_);
  BERTH_CHECK(std::ranges::find(memory_, &memory) == memory_.end());
  for (DeviceContext* user : users_) memory.grant_access(*user);
  memory_.push_back(&memory);
}

void PeerAccess::remove(MappedMemory& memory) noexcept {
  if (!owner_.driver().is_here()) return;
  const MutexLock lock(mutex_);
  std::erase(memory_, &memory);
}

bool PeerAccess::is_empty() {
  const MutexLock lock(mutex_);
  return memory_.empty();
}

}  // namespace berth
