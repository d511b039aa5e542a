// SPDX-License-Identifier: Apache-2.0
#include "workloads/busy_program.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <random>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "berth/error.hpp"

#include "workloads/replay.hpp"

namespace berth::bench {
namespace {

using Ids = std::unordered_set<std::int64_t>;

/// One draw of splitmix64, for decisions that must not depend on earlier ones.
std::uint64_t hash(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::vector<std::int32_t> users_of(const Trace& trace) {
  std::vector<std::int32_t> users;
  for (const auto& [key, value] : trace.header) {
    if (key != "users") continue;
    std::istringstream words(value);
    for (std::string word; words >> word;) {
      std::int32_t stream = 0;
      const char* const end = word.data() + word.size();
      const auto [rest, problem] = std::from_chars(word.data(), end, stream);
      if (problem != std::errc() || rest != end || stream < 0)
        throw InvalidArgument(
            fmt::format("{}: users: \"{}\" is no stream; accepted: numbers of streams, with spaces",
                        trace.name, word));
      users.push_back(stream);
    }
  }
  return users;
}

Ids completed_ids(const Trace& trace) {
  Ids ids;
  for (const TraceEvent& event : trace.events)
    if (event.op == TraceOp::free_completed) ids.insert(event.id);
  return ids;
}

class Builder {
 public:
  Builder(BusyProgram& program, const Trace& trace, const BusyOptions& options)
      : program_(program),
        trace_(trace),
        options_(options),
        users_(options.other_uses == OtherUses::none ? std::vector<std::int32_t>{}
                                                     : users_of(trace)),
        completed_(completed_ids(trace)),
        random_(options.seed) {}

  void build() {
    number_streams();
    for (const TraceEvent& event : trace_.events) add(event);
    move_last_frees();
  }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;

  // All streams must be known before the first dependency is drawn.
  void number_streams() {
    for (const TraceEvent& event : trace_.events) {
      if (event.op != TraceOp::init_alloc && event.op != TraceOp::alloc) continue;
      stream_number({event.device, event.stream});
      for (const std::int32_t user : users_) stream_number({event.device, user});
    }
    program_.streams = numbers_.size();
  }
  std::uint32_t stream_number(Key key) {
    return numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

  void add(const TraceEvent& event) {
    switch (event.op) {
      case TraceOp::init_alloc:
      case TraceOp::alloc:
        if (event.bytes > 0) allocate(event);
        break;
      case TraceOp::free:
        free(event, BusyOperation::kNone);
        break;
      case TraceOp::free_requested:
        if (!users_.empty()) {
          const auto user = static_cast<std::size_t>(event.id) % users_.size();
          free(event, stream_number({event.device, users_[user]}));
        } else if (!completed_.contains(event.id)) {
          free(event, BusyOperation::kNone);
        }
        break;
      case TraceOp::free_completed:
        if (users_.empty()) free(event, BusyOperation::kNone);
        break;
      default:
        break;
    }
  }
  void allocate(const TraceEvent& event) {
    BusyOperation operation{.bytes = event.bytes,
                            .slot = take_slot(),
                            .stream = stream_number({event.device, event.stream}),
                            .allocates = true};
    if (options_.dependencies && program_.streams > 1 && random_() % kDependencyInterval == 0) {
      const auto away = static_cast<std::uint32_t>(1 + random_() % (program_.streams - 1));
      operation.other_stream =
          (operation.stream + away) % static_cast<std::uint32_t>(program_.streams);
    }
    live_.emplace(event.id, operation);
    program_.operations.push_back(operation);
  }
  void free(const TraceEvent& event, std::uint32_t user) {
    const auto block = live_.find(event.id);
    if (block == live_.end()) return;  // of a request of 0 bytes
    BusyOperation operation = block->second;
    operation.allocates = false;
    operation.other_stream = user;
    program_.operations.push_back(operation);
    free_slots_.push_back(operation.slot);
    live_.erase(block);
  }
  std::uint32_t take_slot() {
    if (free_slots_.empty()) return static_cast<std::uint32_t>(program_.slots++);
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  void move_last_frees() {
    auto& operations = program_.operations;
    const auto is_last = [](const BusyOperation& operation) {
      return !operation.allocates && operation.other_stream == BusyOperation::kNone;
    };
    const auto last = std::find_if_not(operations.rbegin(), operations.rend(), is_last).base();
    program_.last_frees.assign(last, operations.end());
    operations.erase(last, operations.end());
    std::vector<BusyOperation> left;
    for (auto& [id, operation] : live_) {
      operation.allocates = false;
      operation.other_stream = BusyOperation::kNone;
      left.push_back(operation);
    }
    std::ranges::sort(left, {}, &BusyOperation::slot);
    program_.last_frees.insert(program_.last_frees.end(), left.begin(), left.end());
  }

  BusyProgram& program_;
  const Trace& trace_;
  const BusyOptions& options_;
  const std::vector<std::int32_t> users_;
  const Ids completed_;
  std::mt19937_64 random_;
  std::map<Key, std::uint32_t> numbers_;
  std::unordered_map<std::int64_t, BusyOperation> live_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace

BusyProgram::BusyProgram(const Trace& trace, const BusyOptions& options)
    : name(trace_name(trace)),
      seed(options.seed),
      persist(options.persist),
      threads(options.threads) {
  Builder(*this, trace, options).build();
}

bool BusyProgram::persists(int pass, std::size_t index) const {
  return persist &&
         hash(hash(seed + static_cast<std::uint64_t>(pass)) + index) % kPersistInterval == 0;
}

std::vector<std::size_t> turns_of(const BusyProgram& program) {
  std::vector<std::size_t> begins = {0};
  if (program.threads == 1) return begins;
  std::mt19937_64 random(program.seed + 1);
  for (;;) {
    const std::size_t begin = begins.back() + 1 + random() % kTurnMax;
    if (begin >= program.operations.size()) return begins;
    begins.push_back(begin);
  }
}

}  // namespace berth::bench
