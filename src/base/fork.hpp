// SPDX-License-Identifier: Apache-2.0
// Detection of forked children. fork() copies one thread and all memory: locks that other threads
// held stay locked forever, and CUDA does not work in the child.
#pragma once

#include <cstddef>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

namespace berth {

/// What a user does about an error in a forked child.
inline constexpr std::string_view kForkAdvice =
    "Start a new process (exec, or \"spawn\"), or fork before CUDA is initialized";

/// Identifies the process that created an object.
/// Threads  Immutable.
class ForkOrigin {
 public:
  ForkOrigin() : generation_(current_) {}
  /// Whether this is still that process, and not a forked child.
  [[nodiscard]] bool is_here() const { return generation_ == current_; }
  /// Errors  NotSupported in a forked child: `what` belongs to the parent.
  void require_here(std::string_view what) const {
    if (!is_here()) refuse(what);
  }

 private:
  [[noreturn]] static void refuse(std::string_view what);

  static int current_;  ///< the number of forks between the first process and this one
  static const bool is_prepared_;
  const int generation_;
};

/// Objects that are never destroyed, in a list that leak checkers find.
struct KeptUntilExit {
  const KeptUntilExit* next = nullptr;
  static void add(KeptUntilExit& kept) noexcept;
};

/// Keeps the object of an owner such as std::unique_ptr: a forked child cannot destroy it, because
/// its destructor would wait for threads of the parent. It stays until the process ends, and leak
/// checkers find it reachable, unless there is no memory for the list.
/// Threads  Safe from any thread: a child may have started threads.
template <class Owner>
void keep_until_exit(Owner owner) noexcept {
  static_assert(std::is_nothrow_move_constructible_v<Owner>);
  struct Kept : KeptUntilExit {
    explicit Kept(Owner&& owner_) noexcept : owner(std::move(owner_)) {}
    const Owner owner;
  };
  if (auto* const kept = new (std::nothrow) Kept(std::move(owner)))
    return KeptUntilExit::add(*kept);
  alignas(Owner) std::byte never_destroyed[sizeof(Owner)];
  new (never_destroyed) Owner(std::move(owner));
}

/// Calls `prepare` before each fork() of this process, `parent` and `child` after it, on the thread
/// that forks. For the whole life of the process.
void at_fork(void (*prepare)(), void (*parent)(), void (*child)());

}  // namespace berth
