// SPDX-License-Identifier: Apache-2.0
// The plug-ins of the process, each of which is initialized once.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"
#include "pjrt/api.hpp"

namespace berth::pjrt {

/// The lock is not held while a plug-in initializes itself, which may take long: the callback of
/// another plug-in may need it.
/// Threads  Safe from any thread.
class OpenedPlugins {
 public:
  /// The plug-in of a table, as soon as no other thread initializes it. Null: there is none. The
  /// caller then initializes it, as the one of `number`, and calls end().
  /// Errors  NotSupported: in a forked child. std::bad_alloc.
  [[nodiscard]] const Api* find_or_begin(const Table& table, std::size_t& number)
      BERTH_EXCLUDES(mutex_);
  /// The initialization has succeeded; or it has failed, for null: the next thread tries again.
  void end(std::size_t number, std::unique_ptr<const Api> api) noexcept BERTH_EXCLUDES(mutex_);
  /// Null: there is none, or it is not initialized.
  [[nodiscard]] const Api* of_number(std::size_t number) BERTH_EXCLUDES(mutex_);

 private:
  struct Plugin {
    const Table* table;  ///< of a library that stays loaded
    std::unique_ptr<const Api> api;
    bool is_beginning = false;
  };

  const ForkOrigin origin_;
  Mutex mutex_;
  ConditionVariable ended_;
  std::vector<Plugin> all_ BERTH_GUARDED_BY(mutex_);  ///< by number
};

/// Never destroyed, because a plug-in may call back at any time.
OpenedPlugins& opened_plugins();

}  // namespace berth::pjrt
