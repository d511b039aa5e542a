// SPDX-License-Identifier: Apache-2.0
// Leases of handles of any type. Calls of the library, the allocator or the driver are made without
// the lock, on handles that are on lease, which no other thread accesses.
#include "berth/detail/handle_store.hpp"

#include <exception>
#include <utility>
#include <vector>

#include "berth/device_guard.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/check_choice.hpp"
#include "base/condition_variable.hpp"
#include "base/fork.hpp"
#include "base/format.hpp"
#include "base/mutex.hpp"
#include "device/device_context.hpp"
#include "library/handle_list.hpp"
#include "stream/capture.hpp"
#include "stream/unchecked.hpp"

namespace berth::detail {
namespace {

using Item = HandleStore::Item;

/// The scope of each call of the library.
class LibraryScope {
 public:
  explicit LibraryScope(DeviceContext& context) : guard_(context), relaxed_(context.driver()) {}

 private:
  const DeviceGuard guard_;
  const RelaxedCapture relaxed_;
};

HandleStoreOptions checked(HandleStoreOptions options) {
  const auto refuse = [](const std::string& problem) {
    throw InvalidArgument("HandlePoolOptions::" + problem);
  };
  if (options.name.empty()) refuse("name is empty; accepted: the library's name, as \"cuBLAS\"");
  if (!options.create) refuse("create is null; accepted: a function");
  if (!options.bind) refuse("bind is null; accepted: a function");
  if ((options.workspace_bytes > 0) != bool(options.set_workspace)) {
    refuse(format_text("workspace_bytes is {}, and set_workspace is {}; accepted: both, or neither",
                       options.workspace_bytes, options.set_workspace ? "a function" : "null"));
  }
  check_choice("HandlePoolOptions::on_shortage", options.on_shortage, {"wait", "fail"});
  return options;
}

}  // namespace

struct BERTH_HIDDEN HandleStore::State final : StreamObserver {
  /// A handle that was idle.
  struct Taken {
    Item* item;            ///< null: a new handle will take the place
    bool is_bound;         ///< to the requested stream, including the workspace
    bool keeps_workspace;  ///< its workspace is ordered on that stream
  };

  State(HandleStoreParts parts_, HandleStoreOptions options_)
      : parts(std::move(parts_)), options(checked(std::move(options_))) {}
  ~State() override;

  /// Names the pool and the device; without memory for that, the pool.
  template <class E>
  void report_failed(Severity severity, const DeviceContext& context, std::string_view what,
                     const E& error) const noexcept {
    const Driver& driver = context.driver();
    try {
      driver.report(severity, name(context), what, error);
    } catch (const std::bad_alloc&) {
      driver.report(severity, options.name, what, error);
    }
  }
  [[nodiscard]] std::string name(const DeviceContext& context) const {
    return format_text("{} handles of {}", options.name, context.device().to_string());
  }
  /// Errors  NotSupported: in a forked child.
  void require_here() const {
    if (!origin.is_here()) origin.require_here(options.name + " handles");
  }
  bool require_usable(StreamRef stream) const;
  HandleList& list_of(DeviceContext& context) BERTH_REQUIRES(mutex);
  HandleList* find_list(const DeviceContext& context) BERTH_REQUIRES(mutex);
  Taken take(StreamRef stream, bool is_captured) BERTH_EXCLUDES(mutex);
  Item& create(DeviceContext& context) BERTH_EXCLUDES(mutex);
  void prepare(const Taken& taken, StreamRef stream, bool is_captured) BERTH_EXCLUDES(mutex);
  Allocation& provide_workspace(const Taken& taken, StreamRef stream, bool is_captured);
  bool mark(Item& item) noexcept BERTH_EXCLUDES(mutex);
  void put_back(Item& item) noexcept BERTH_EXCLUDES(mutex);
  void remove(Item& item) noexcept BERTH_EXCLUDES(mutex);
  std::size_t trim() noexcept BERTH_EXCLUDES(mutex);
  void destroy(Item& item) noexcept BERTH_EXCLUDES(mutex);
  void stream_retiring(DeviceContext& context, CUstream stream) noexcept override;

  const ForkOrigin origin;
  const HandleStoreParts parts;
  const HandleStoreOptions options;
  mutable Mutex mutex;
  ConditionVariable came_back;  ///< or a place was cancelled
  std::vector<std::unique_ptr<HandleList>> lists BERTH_GUARDED_BY(mutex);
  std::uint64_t created BERTH_GUARDED_BY(mutex) = 0;
  std::uint64_t binds BERTH_GUARDED_BY(mutex) = 0;
};

HandleStore::State::~State() {
  for (const auto& list : lists) list->context().remove_observer(*this);
  trim();
  for (const auto& list : lists) {
    if (list->live_count() > 0) {
      list->context().driver().report(Severity::error, [&] {
        return format_text("{}: {} still on lease, never destroyed", name(list->context()),
                           list->live_count());
      });
    }
    list->abandon(options.abandon);
  }
}

/// Whether the stream is captured; not queried if that does not matter.
bool HandleStore::State::require_usable(StreamRef stream) const {
  require_here();
  if (stream.is_per_thread_default()) {
    throw InvalidArgument(format_text(
        "{} cannot be bound to the per-thread default stream, which is a different stream on "
        "each thread; accepted: any other stream",
        name(stream.context())));
  }
  if (!options.keeps_device_memory && !options.set_workspace) return false;
  if (!is_capturing(stream)) return false;
  if (stream.is_legacy_default()) refuse_captured(stream, "used by a handle");
  if (!options.keeps_device_memory) return true;
  throw StreamCaptured(format_text(
      "{} keep device memory, which a graph would use at each launch while other leases use "
      "the handle; accepted for captured work: a handle of its own, or "
      "HandlePoolOptions::keeps_device_memory=false if they keep none",
      name(stream.context())));
}

HandleList* HandleStore::State::find_list(const DeviceContext& context) {
  for (const auto& list : lists) {
    if (&list->context() == &context) return list.get();
  }
  return nullptr;
}

HandleList& HandleStore::State::list_of(DeviceContext& context) {
  if (HandleList* const list = find_list(context)) return *list;
  if (&parts.context(context.device()) != &context) {
    throw InvalidArgument(format_text(
        "{} cannot be bound to a stream of another Runtime; accepted: streams of the pool's own",
        name(context)));
  }
  lists.reserve(lists.size() + 1);
  auto list = std::make_unique<HandleList>(context);
  context.add_observer(*this);
  return *lists.emplace_back(std::move(list));
}

HandleStore::State::Taken HandleStore::State::take(StreamRef stream, bool is_captured) {
  const MutexLock lock(mutex);
  HandleList& list = list_of(stream.context());
  for (;;) {
    if (!is_captured) {
      if (Item* const bound = list.take_bound(stream)) return {bound, true, true};
    }
    if (Item* const item = list.take_any()) {
      const bool keeps_workspace = item->workspace_stream == stream;
      item->stream.reset();
      if (!keeps_workspace && !is_captured) item->workspace_stream.reset();
      return {item, false, keeps_workspace};
    }
    if (options.handles_max == 0 || list.count() < options.handles_max) break;
    if (options.on_shortage == HandleShortage::fail) {
      throw Exhausted(format_text(
          "{}: all {} are on lease; accepted: as many at once as HandlePoolOptions::handles_max",
          name(stream.context()), options.handles_max));
    }
    came_back.wait(mutex);
  }
  list.reserve_place();
  BERTH_CHECK(options.handles_max == 0 || list.count() <= options.handles_max);
  return {nullptr, false, false};
}

/// Creates a handle in the place that take() has reserved.
Item& HandleStore::State::create(DeviceContext& context) {
  try {
    auto item = std::make_unique<Item>(context);
    const LibraryScope scope(context);
    item->handle = options.create();
    const MutexLock lock(mutex);
    ++created;
    return find_list(context)->add(std::move(item));
  } catch (...) {
    const MutexLock lock(mutex);
    find_list(context)->give_up_place();
    came_back.notify_all();
    throw;
  }
}

Allocation& HandleStore::State::provide_workspace(const Taken& taken, StreamRef stream,
                                                  bool is_captured) {
  Item& item = *taken.item;
  DeviceAllocator& memory = parts.memory(stream.device());
  BERTH_CHECK(!item.captured_workspace);  // it ends with its lease
  if (is_captured) {
    item.captured_workspace = memory.allocate(options.workspace_bytes, stream);
    if (memory.is_for_graphs(item.captured_workspace.data())) return item.captured_workspace;
    item.captured_workspace.reset();
    throw InvalidArgument(
        format_text("{}: a workspace for captured work must come from a pool for graphs; accepted: "
                    "a PoolScope of a pool that was made with MemoryPoolOptions::for_graphs",
                    name(stream.context())));
  }
  if (!taken.keeps_workspace) {
    item.workspace.reset();  // first, so that the new one may reuse the memory
    item.workspace = memory.allocate(options.workspace_bytes, stream);
    const MutexLock lock(mutex);
    item.workspace_stream = stream;
  }
  return item.workspace;
}

/// If this fails, the lease ends: after a failure to obtain memory or an order, the handle is
/// returned to the pool; after a failure of the library, the handle is destroyed.
void HandleStore::State::prepare(const Taken& taken, StreamRef stream, bool is_captured) {
  Item& item = *taken.item;
  Allocation* workspace = nullptr;
  try {
    if (options.set_workspace) workspace = &provide_workspace(taken, stream, is_captured);
    if (item.last_work) stream.wait(*item.last_work);
  } catch (...) {
    put_back(item);
    throw;
  }
  try {
    const LibraryScope scope(stream.context());
    options.bind(item.handle, stream);
    if (workspace != nullptr)
      options.set_workspace(item.handle, workspace->data(), workspace->bytes());
  } catch (...) {
    remove(item);
    throw;
  }
  const MutexLock lock(mutex);
  ++binds;
  if (!is_captured) item.stream = stream;
}

/// Marks the work of a lease that ends. False if that fails.
bool HandleStore::State::mark(Item& item) noexcept {
  DeviceContext& context = item.context;
  try {
    std::optional<StreamRef> stream;
    {
      const MutexLock lock(mutex);
      stream = item.stream;
    }
    const ContextScope scope(context);
    if (!stream || is_capturing_in_scope(*stream)) return false;
    if (!item.last_work) item.last_work.emplace(parts.events(context.device()).acquire());
    record_unchecked(*item.last_work, *stream);
    return true;
  } catch (const Error& error) {
    report_failed(Severity::warning, context, ": the end of a lease could not be marked", error);
  } catch (const std::exception&) {  // std::bad_alloc
  }
  return false;
}

void HandleStore::State::put_back(Item& item) noexcept {
  const MutexLock lock(mutex);
  find_list(item.context)->put_back(item);
  came_back.notify_all();
}

void HandleStore::State::remove(Item& item) noexcept {
  std::unique_ptr<Item> removed;
  {
    const MutexLock lock(mutex);
    removed = find_list(item.context)->remove(item);
    came_back.notify_all();
  }
  destroy(*removed);
}

std::size_t HandleStore::State::trim() noexcept {
  std::unique_ptr<Item> removed;
  {
    const MutexLock lock(mutex);
    for (const auto& list : lists) removed = list->remove_idle(std::move(removed));
  }
  std::size_t destroyed = 0;
  for (; removed != nullptr; removed = std::move(removed->next)) {
    destroy(*removed);
    ++destroyed;
  }
  return destroyed;
}

/// The scope queries the driver before the library is called, because the library may crash after
/// the driver has shut down.
void HandleStore::State::destroy(Item& item) noexcept {
  DeviceContext& context = item.context;
  const Driver& driver = context.driver();
  bool is_called = false;
  try {
    const LibraryScope scope(context);
    is_called = true;
    options.destroy(item.handle);
  } catch (const std::exception& error) {  // an Error, too
    report_failed(Severity::error, context, ": destroying one", error);
  } catch (...) {
    driver.report(Severity::error,
                  [&] { return name(context) + ": destroying one: an exception of another type"; });
  }
  if (!is_called) options.abandon(item.handle);
}

void HandleStore::State::stream_retiring(DeviceContext& context, CUstream stream) noexcept {
  if (!origin.is_here()) return;
  const MutexLock lock(mutex);
  if (HandleList* const list = find_list(context)) list->retire_stream(StreamRef(context, stream));
}

HandleStore::HandleStore(HandleStoreParts parts, HandleStoreOptions options)
    : state_(new State(std::move(parts), std::move(options))) {}

HandleStore::~HandleStore() {
  // In a forked child the state may be inconsistent, and destroying a condition variable waits for
  // its waiters.
  if (!state_->origin.is_here()) keep_until_exit(std::move(state_));
}

HandleStore::Held HandleStore::acquire(StreamRef stream) {
  const bool is_captured = state_->require_usable(stream);
  State::Taken taken = state_->take(stream, is_captured);
  if (taken.item == nullptr) taken.item = &state_->create(stream.context());
  if (!taken.is_bound) state_->prepare(taken, stream, is_captured);
  return {taken.item, taken.item->handle};
}

void HandleStore::give_back(Item& item) noexcept {
  if (!state_->origin.is_here()) return;
  item.captured_workspace.reset();
  if (!state_->options.keeps_device_memory || state_->mark(item)) {
    state_->put_back(item);
  } else {
    state_->remove(item);
  }
}

std::size_t HandleStore::trim() {
  state_->require_here();
  return state_->trim();
}

void HandleStore::retire_stream(StreamRef stream) noexcept {
  state_->stream_retiring(stream.context(), stream.native());
}

HandleCounters HandleStore::counters() const {
  state_->require_here();
  const MutexLock lock(state_->mutex);
  HandleCounters counters{.created = state_->created, .binds = state_->binds, .live = 0, .idle = 0};
  for (const auto& list : state_->lists) {
    counters.live += list->live_count();
    counters.idle += list->idle_count();
  }
  return counters;
}

}  // namespace berth::detail
