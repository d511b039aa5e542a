// SPDX-License-Identifier: Apache-2.0
// Schedules work. Every operation waits for its predecessor on its stream and for tickets of
// earlier submissions, so there is no cycle, and unless a wait for a value is pending, some
// operation can always run. Guarded by sim::mutex. Functions that may release it are documented as
// such, and invalidate pointers into the state.
//
// scheduler.cpp        queues: submitting, running and finishing work
// scheduler_wait.cpp   the host waits, and what that makes run
// scheduler_timed.cpp  virtual time
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "sim/config.hpp"
#include "sim/lock.hpp"
#include "sim/random.hpp"
#include "sim/work/cost_model.hpp"
#include "sim/work/host_functions.hpp"
#include "sim/work/operation.hpp"
#include "sim/work/silence_watch.hpp"
#include "sim/work/stream.hpp"
#include "sim/work/timeline.hpp"
#include "sim/work/turns.hpp"
#include "sim/work/value_wait.hpp"

namespace berth::sim {

struct State;

class Scheduler {
 public:
  /// `silence_ms`: see SilenceWatch; only for modes in which calls run work.
  Scheduler(State& state, const Config& config, int silence_ms);

  /// The ticket that the next submission to `stream` will have.
  static Ticket next_ticket(const Stream& stream) { return {stream.handle, stream.submitted + 1}; }
  /// Queues `work` behind its stream, the default-stream rules and `after`. Runs it at once if the
  /// mode and the order permit, and it does not call the program: that is left to end_call().
  Ticket submit(Stream& stream, Work work, std::span<const Ticket> after) BERTH_REQUIRES(mutex);
  Ticket submit(Stream& stream, Work work, Ticket after = {}) BERTH_REQUIRES(mutex) {
    return submit(stream, std::move(work), {&after, 1});
  }
  /// Until release(), submissions are only queued, so that a group of operations is complete before
  /// any of them runs, and the lock is held. Waits without dependencies still complete at once.
  void hold() { held_ = true; }
  /// Work that waited for that runs in end_call().
  void release() BERTH_REQUIRES(mutex);

  bool done(const Ticket& ticket);
  /// Whether work that does not call the program runs before submit() returns.
  [[nodiscard]] bool runs_at_once() const { return progress_ == Progress::eager && busy_.empty(); }

  /// Runs what is needed, and returns once all of `awaited` is complete, which the host has then
  /// observed. May release the lock.
  void wait(const Awaited& awaited) BERTH_REQUIRES(mutex);
  /// Runs what is needed, and returns once `stream` has fewer than `limit` operations queued.
  /// Returns false and reports a finding about `call` if nothing has run for stall_ms. May release
  /// the lock.
  bool wait_for_room(Handle stream, std::size_t limit, const CallSite& call) BERTH_REQUIRES(mutex);
  /// A call has queried `ticket`, which is pending, and does not wait. If such queries have gone on
  /// for stall_ms and nothing has run: separates a stream that is blocked only by a channel;
  /// otherwise reports what blocks it, once.
  void note_pending_query(const Ticket& ticket);
  /// The work that must complete before `stream` is idle: its own work, and for the legacy stream
  /// that of the streams it waits for.
  Awaited work_of(Stream& stream);
  /// The work of `context`; 0 means of all contexts.
  Awaited work_in(Handle context);

  /// Every driver call begins here: the random mode runs a few operations, and virtual time
  /// advances by the cost of the call. May release the lock.
  void at_call(Function function) BERTH_REQUIRES(mutex) {
    ++calls_begun_;
    if (progress_ == Progress::random && !busy_.empty()) run_some();
    if (progress_ == Progress::timed) spend(call_ns(function));
  }
  /// Every driver call ends here: runs work that waited for a value which the call or the host has
  /// written, work behind it, and work that calls the program. May release the lock.
  void end_call() BERTH_REQUIRES(mutex) {
    const bool runs_unprompted = progress_ == Progress::eager && !busy_.empty();
    if (value_waits_ != 0 || runs_unprompted) run_eligible();
  }
  /// The host is busy for `ns` of virtual time. May release the lock.
  void spend(std::uint64_t ns) BERTH_REQUIRES(mutex);
  /// Runs the next operation of `stream` if it is eligible; if that is the end of a graph, an
  /// eligible operation of the graph. May release the lock.
  bool run_next(Stream& stream) BERTH_REQUIRES(mutex);
  /// Runs until nothing is pending. Returns the number of operations run. May release the lock.
  std::size_t run_all() BERTH_REQUIRES(mutex);

  // For SilenceWatch.
  /// Changes with every call and submission.
  [[nodiscard]] std::uint64_t requests() const { return calls_begun_ + submissions_; }
  /// Whether a thread waits in a call, which runs work, or computes for a kernel.
  [[nodiscard]] bool is_in_call() const { return waiting_ != 0 || !computing_.empty(); }
  [[nodiscard]] bool is_idle() const { return busy_.empty(); }
  /// Runs one operation that may run, as the mode chooses. False if there is none. May release the
  /// lock.
  bool run_one() BERTH_REQUIRES(mutex);
  /// The earliest wait for a value, other than of a kernel that polls, that only the host can end,
  /// by writing the value; null if there is none, or if a function of the program runs. The host
  /// may write at any time, so that the next answer may differ.
  Stream* blocked_wait();
  /// The wait at the head of `blocked` has blocked work for too long, and the program makes no
  /// call: separates a stream that is blocked only by a channel; otherwise reports the wait once,
  /// and it goes on.
  void report_silence(Stream& blocked) BERTH_REQUIRES(mutex);

  /// The streams with pending work, in no order.
  [[nodiscard]] std::span<const Stream* const> busy() const { return busy_; }
  /// The number of pending operations that use memory.
  [[nodiscard]] std::uint64_t unrun_uses() const;
  /// Queued waits for values of memory.
  [[nodiscard]] std::size_t value_waits() const { return value_waits_; }
  /// Calls `function` on the thread of host functions, which then has observed all of `done`.
  /// Nothing waits for the call.
  void call_on_host(CUhostFn function, void* data, Clock done) BERTH_REQUIRES(mutex) {
    host_functions_.start(0, {.function = function, .data = data}, CUDA_SUCCESS, std::move(done));
  }
  /// The calling thread has observed that all of `done` is complete.
  void host_sees(const Clock& done) BERTH_REQUIRES(mutex);
  /// Called by the thread of host functions when the function at the head of `stream` has returned.
  void finish_host_function(Handle stream) BERTH_REQUIRES(mutex);
  /// Stops the threads that run work. Must be the last call.
  void stop() BERTH_EXCLUDES(mutex);

  /// Removes the stream once it is idle.
  void destroy(Stream& stream);
  /// Removes the idle stream.
  void remove(Stream& stream);

  /// In virtual time; in other modes every operation takes a microsecond.
  [[nodiscard]] std::uint64_t now_ns() const { return timeline_.now_ns(); }
  [[nodiscard]] std::uint64_t operations_run() const { return operations_run_; }
  /// The number of operations that have run and of functions of the program that have returned.
  /// Constant if there is no progress.
  [[nodiscard]] std::uint64_t steps() const { return operations_run_ + functions_returned_; }
  /// The stream whose host function runs, or else one whose stand-in for a kernel computes; 0 if
  /// there is none.
  [[nodiscard]] Handle running_function() const {
    const Handle running = host_functions_.running_for();
    return running != 0 || computing_.empty() ? running : computing_.front();
  }
  [[nodiscard]] std::uint64_t order_hash() const { return order_hash_; }
  /// The number of checks whether the head of a stream is eligible.
  [[nodiscard]] std::uint64_t heads_examined() const { return heads_examined_; }

  /// Pending work of the stream takes its turn by the new priority.
  void set_priority(Stream& stream, int priority);

 private:
  bool may_run(const Stream& stream);
  /// Whether pending work may run, or runs in virtual time.
  bool has_runnable();
  /// Whether no finding has said yet that the head of `blocked` does not end. One does now.
  static bool is_first_report(Stream& blocked);
  /// A dependency of `operation` that is pending, or null.
  const Ticket* obstacle_of(Operation& operation);
  /// Determines whether the head of `stream` is eligible, and places the stream among the eligible
  /// ones, or with the stream that its head waits for.
  void place(Stream& stream);
  /// The head of `stream` begins to run.
  void leave_place(Stream& stream);
  /// Places the streams that waited for completed work of `stream`.
  void wake_waiters(Stream& stream);
  /// Whether `operation` waits for a value that is not in memory yet.
  bool lacks_value(const Stream& stream, const Operation& operation);
  void add_default_stream_order(const Stream& stream, std::vector<Ticket>& waits_for);
  /// Orders `operation`, the next of `stream`, after the waits of its channel.
  void add_channel_order(const Stream& stream, Operation& operation);
  /// The waits of the channel of `stream`, which has one.
  ChannelWaits& waits_beside(const Stream& stream);
  /// `operation`, the next of `stream`, waits for a value or for work of another stream.
  void note_wait(Stream& stream, const Operation& operation);
  void enter_order(Stream& stream, Operation& operation);
  void enqueue(Stream& stream, Operation&& operation) BERTH_REQUIRES(mutex);
  /// Runs (in virtual time: begins) all eligible work that the mode runs without a call.
  void run_eligible() BERTH_REQUIRES(mutex);
  void run_some() BERTH_REQUIRES(mutex);
  Stream* any_runnable();
  /// Runs the eligible head of `stream`. Releases the lock if the head calls the program: it waits
  /// for a host function for a limited time, because the caller may hold a lock that this needs.
  void start(Stream& stream) BERTH_REQUIRES(mutex);
  /// The kernel at the head of `stream` computes, in this thread and without the lock.
  void compute(Stream& stream) BERTH_REQUIRES(mutex);
  void call(Stream& stream, const HostFunctionWork& work, CUresult status) BERTH_REQUIRES(mutex);
  void perform(Stream& stream, const Operation& operation);
  void complete_head(Stream& stream);
  void leave_busy(Stream& stream);

  void wait_for(const Ticket& ticket) BERTH_REQUIRES(mutex);
  /// Runs work that `ticket` may depend on; false if only another thread can.
  bool run_for(const Ticket& ticket) BERTH_REQUIRES(mutex);
  /// The end of a chain of dependencies.
  struct Need {
    Stream* stream;   ///< what its head comes after is done
    Stream* delayed;  ///< the last on the way whose head has only its channel in the way; or null
  };
  Need needed_by(Ticket ticket);
  /// Whether only the host can unblock it, by writing the value that it waits for, or by returning
  /// from the function that runs.
  bool needs_host(const Need& need);
  /// Releases the lock until something may have changed.
  void pause() BERTH_REQUIRES(mutex);
  /// The same. If a value or a function of the program has blocked `ticket` for too long, resolves
  /// the stall.
  void sleep(const Ticket& ticket, Stall& stall) BERTH_REQUIRES(mutex);
  /// `need` has blocked `ticket` for too long, and nothing has run: separates a stream that is
  /// blocked only by a channel; otherwise fails the wait for a value, or reports the function.
  void resolve_stall(const Ticket& ticket, const Need& need) BERTH_REQUIRES(mutex);
  /// For a wait for a value: the channel that blocks it, or that blocks work that may write the
  /// value. Without a delayed stream if there is no such channel.
  Need delay_of(const Need& need);
  /// Reports that a channel blocks `need`, and removes its stream from the channel.
  void separate(const Need& need);
  void detach_from_channel(Stream& stream);
  /// A chain, with an eligible head, of a graph that `launcher` has launched; null if there is
  /// none.
  Stream* runnable_chain(const Stream& launcher);

  /// Virtual time: assigns free engines to eligible heads, by priority.
  void begin_ready() BERTH_REQUIRES(mutex);
  void begin(Stream& stream, const Demand& demand);
  /// Virtual time: advances to the next completion, and performs the operation. False if none has
  /// begun.
  bool end_next() BERTH_REQUIRES(mutex);

  State& state_;
  const Progress progress_;
  Random random_;
  std::vector<Stream*> busy_;   // those with a queue, in an order that eager and manual mode ignore
  std::vector<Stream*> ready_;  // those in Place::ready, except in virtual time
  std::vector<Stream*> at_value_;  // those in Place::at_value
  std::vector<Stream*> open_;      // scratch: those of at_value_ whose memory has the value
  Turns turns_;                    // virtual time: those in Place::ready
  std::uint64_t heads_examined_ = 0;
  bool held_ = false;
  bool watches_exit_ = false;  ///< work that uses memory has been pending
  std::uint64_t submissions_ = 0;
  std::uint64_t calls_begun_ = 0;
  std::uint64_t operations_run_ = 0;
  std::uint64_t functions_returned_ = 0;
  std::uint64_t order_hash_ = 0xcbf29ce484222325;
  Timeline timeline_;
  ConditionVariable finished_;
  int waiting_ = 0;
  std::size_t value_waits_ = 0;
  HostFunctions host_functions_;
  std::vector<Handle> computing_;  // streams whose heads are Stream::computing
  ValueWatch value_watch_;
  SilenceWatch silence_watch_;
  PollInterval pause_interval_;
  Stall pending_queries_;
};

}  // namespace berth::sim
