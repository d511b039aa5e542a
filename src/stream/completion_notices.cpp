// SPDX-License-Identifier: Apache-2.0
#include "stream/completion_notices.hpp"

#include <unordered_map>

#include "base/check.hpp"
#include "base/mutex.hpp"

namespace berth {
namespace {

struct Notices {
  Mutex mutex;
  std::uint64_t last BERTH_GUARDED_BY(mutex) = 0;
  std::unordered_map<std::uint64_t, NoticeTarget*> targets BERTH_GUARDED_BY(mutex);
};

/// Never destroyed: a host function may run while the process exits.
Notices& notices() {
  static Notices* const all = new Notices;
  return *all;
}

}  // namespace

std::uint64_t register_notice(NoticeTarget& target) {
  Notices& all = notices();
  const MutexLock lock(all.mutex);
  const bool is_new = all.targets.emplace(all.last + 1, &target).second;
  BERTH_CHECK(is_new);
  return ++all.last;
}

void unregister_notice(std::uint64_t number) noexcept {
  Notices& all = notices();
  const MutexLock lock(all.mutex);
  all.targets.erase(number);
}

void CUDA_CB deliver_notice(void* number) noexcept {
  const std::uint64_t given = reinterpret_cast<std::uintptr_t>(number);
  Notices& all = notices();
  const MutexLock lock(all.mutex);  // held during the call, so that the target is not destroyed
  const auto found = all.targets.find(given);
  if (found != all.targets.end()) found->second->notice(given);
}

}  // namespace berth
