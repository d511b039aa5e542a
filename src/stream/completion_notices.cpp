// SPDX-License-Identifier: Apache-2.0
#include "stream/completion_notices.hpp"

#include <unordered_map>

#include "base/check.hpp"
#include "base/mutex.hpp"
#include "base/per_process.hpp"

namespace berth {
namespace {

struct Notices {
  Mutex mutex;
  std::uint64_t last BERTH_GUARDED_BY(mutex) = 0;
  std::unordered_map<std::uint64_t, NoticeTarget*> targets BERTH_GUARDED_BY(mutex);
};

constinit PerProcess<Notices> notices;

}  // namespace

std::uint64_t register_notice(NoticeTarget& target) {
  Notices& all = notices.get();
  const MutexLock lock(all.mutex);
  const bool is_new = all.targets.emplace(all.last + 1, &target).second;
  BERTH_CHECK(is_new);
  return ++all.last;
}

void unregister_notice(std::uint64_t number) noexcept {
  Notices* const all = notices.find();
  if (all == nullptr) return;
  const MutexLock lock(all->mutex);
  all->targets.erase(number);
}

void CUDA_CB deliver_notice(void* number) noexcept {
  const std::uint64_t given = reinterpret_cast<std::uintptr_t>(number);
  Notices* const all = notices.find();
  if (all == nullptr) return;
  const MutexLock lock(all->mutex);  // held during the call, so that the target is not destroyed
  const auto found = all->targets.find(given);
  if (found != all->targets.end()) found->second->notice(given);
}

}  // namespace berth
