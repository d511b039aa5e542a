// SPDX-License-Identifier: Apache-2.0
// A program of random copies of every shape between buffers of every kind, against arrays that are
// copied at once. It uses several streams, and before one takes over it waits for the one that
// worked last: so the program has one order, and the arrays follow it. Several programs may run at
// once, each in a thread, on one copier and the same streams.
//
// What a copy that is cancelled leaves in its target is not known, nor what is copied from there,
// until it is written again; all beside it is.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "berth/error.hpp"

#include "copy/copy_fixture.hpp"
#include "copy/copy_model.hpp"
#include "model/random_program.hpp"

namespace berth::test {

class CopyProgram final : public RandomProgram {
 public:
  static constexpr std::size_t kStreamsOfDevice = 2;

  /// Of cuda:0 and cuda:1.
  using Streams = std::array<std::array<Stream, kStreamsOfDevice>, 2>;
  static Streams make_streams(CopyTest& test) {
    return {{{test.stream(0), test.stream(0)}, {test.stream(1), test.stream(1)}}};
  }

  CopyProgram(CopyTest& test, const Streams& streams, std::size_t buffer_bytes, std::uint64_t seed)
      : RandomProgram(seed),
        test_(test),
        streams_(streams),
        bytes_(buffer_bytes),
        last_(streams[0][0]) {
    for (const Kind kind : kKinds) {
      for (int copy = 0; copy < 2; ++copy) {
        Model& model = models_.emplace_back(test, kind, bytes_);
        write(model);
      }
    }
  }

  void step() {
    static constexpr Operation<CopyProgram> kOperations[] = {
        {4, "copy", &CopyProgram::copy},
        {2, "copy rows", &CopyProgram::copy_rows},
        {2, "copy a batch", &CopyProgram::copy_batch},
        {1, "copy from what goes", &CopyProgram::copy_from_what_goes},
        {1, "wait for one", &CopyProgram::wait_for_one},
        {1, "fill", &CopyProgram::fill},
        {1, "copy through what goes", &CopyProgram::copy_through_what_goes},
        {1, "settle", &CopyProgram::settle},
        {1, "change host memory", &CopyProgram::change_host_memory},
    };
    do_one_of(kOperations);
  }
  void finish() { settle(); }

  /// Waits for everything and compares everything.
  void settle() {
    last_.sync();
    for (Transfer& transfer : doomed_) {
      transfer.cancel();
      try {
        transfer.wait();
      } catch (const Cancelled&) {
        continue;  // the others had come to their end
      }
    }
    doomed_.clear();
    for (const Transfer& transfer : transfers_) {
      transfer.wait();
      CHECK_MESSAGE(transfer.bytes_done() == transfer.bytes(), "not all bytes are done");
    }
    transfers_.clear();
    for (Model& model : models_) model.compare();
    for (const auto& [block, content] : kept_) {
      const auto* const data = static_cast<const unsigned char*>(block.data());
      CHECK_MESSAGE(std::equal(content.begin(), content.end(), data),
                    "a block was written by an earlier copy");
    }
    kept_.clear();
  }
  /// After finish(), and after CompletionQueue::finish().
  void check_ends() const {
    CHECK_MESSAGE(ends_ == ends_expected_, "not each transfer has called back once");
  }
  [[nodiscard]] std::uint64_t bytes_copied() const { return bytes_copied_; }

 private:
  using Model = ModelBuffer;
  using Range = ModelRange;

  void write(Model& model) { model.write(pattern(bytes_, random_.below(1000))); }

  const Stream& take_over(int device) {
    const Stream& next = streams_[std::size_t(device)][random_.below(kStreamsOfDevice)];
    if (!(next.ref() == last_)) {
      next.ref().wait(test_.runtime->record(last_));
      last_ = next;
    }
    return next;
  }

  /// What a copy does to the arrays. `arrives`: false where it is to be cancelled.
  void follow(const Range& range, bool source_stays, bool arrives) {
    follow_bytes(range, arrives);
    bytes_copied_ += range.bytes;
    if (host_only(range)) return;
    if (range.from->kind != Kind::pageable || source_stays) range.from->is_read = true;
    range.to->is_written = true;
  }

  TransferOptions options() {
    TransferOptions options;
    if (random_.below(3) != 0) options.priority = -static_cast<int>(random_.below(3));
    if (random_.one_in(4)) options.keep_alive = std::make_shared<int>(1);
    if (random_.one_in(4)) {
      ++ends_expected_;
      options.on_done = [this](std::exception_ptr) { ++ends_; };
    }
    return options;
  }

  /// A copy may be cancelled at once, later, or at the next settling.
  void keep(Transfer transfer, bool is_doomed) {
    if (!is_doomed) {
      transfers_.push_back(std::move(transfer));
      return;
    }
    if (random_.below(2) == 0) transfer.cancel();
    doomed_.push_back(std::move(transfer));
  }

  Range some_range(std::size_t bytes_max) {
    Model& from = models_[random_.below(models_.size())];
    Model& to = models_[random_.below(models_.size())];
    const std::size_t bytes = random_.size_up_to(bytes_max);
    Range range{&to, random_.below(bytes_ - bytes + 1), &from, random_.below(bytes_ - bytes + 1),
                bytes};
    if (&from == &to && overlaps(range.target, bytes, range.source, bytes)) {
      range.bytes = bytes / 2;
      range.source = random_.below(bytes_ - 2 * range.bytes + 1);
      range.target = range.source + range.bytes;
      if (random_.below(2) == 0) std::swap(range.source, range.target);
    }
    return range;
  }
  /// Whose stream a copy is submitted to.
  int device_for(const Range& range) {
    const auto device = static_cast<int>(random_.below(2));
    return may_copy(device, range.from->kind, range.to->kind) ? device : 1 - device;
  }

  void copy() {
    const Range range = some_range(bytes_);
    if (must_settle(range)) settle();
    void* const target = range.to->buffer.data() + range.target;
    const void* const source = range.from->buffer.data() + range.source;
    const Stream& stream = take_over(device_for(range));
    switch (random_.below(4)) {
      case 0:
        test_.copier.copy(target, source, range.bytes, stream);
        follow(range, false, true);
        break;
      case 1:
        test_.copier.copy_async(target, source, range.bytes, stream);
        follow(range, false, true);
        break;
      default:
        const bool is_doomed = random_.one_in(6);
        keep(test_.copier.start(target, source, range.bytes, stream, options()), is_doomed);
        follow(range, true, !is_doomed || host_only(range));
    }
  }

  void copy_rows() {
    const std::size_t rows = random_.size_up_to(64);
    const std::size_t row_bytes = random_.size_up_to(bytes_ / rows / 2);
    const std::size_t room = bytes_ / rows - row_bytes;
    const auto pitch = [&] {
      return row_bytes + (random_.below(3) == 0 ? 0 : random_.below(room + 1));
    };
    std::size_t to_pitch = pitch();
    std::size_t from_pitch = random_.below(3) == 0 ? to_pitch : pitch();
    const auto offset = [&](std::size_t of) { return random_.below(bytes_ - rows * of + 1); };
    Range first{&models_[random_.below(models_.size())], offset(to_pitch),
                &models_[random_.below(models_.size())], offset(from_pitch), row_bytes};
    if (first.to == first.from) {  // other columns
      to_pitch = from_pitch = bytes_ / rows;
      first.source = random_.below(to_pitch - 2 * row_bytes + 1);
      first.target = first.source + row_bytes;
      if (random_.below(2) == 0) std::swap(first.source, first.target);
    }
    if (must_settle(first)) settle();
    const Stream& stream = take_over(device_for(first));
    const bool is_doomed = random_.one_in(8);
    keep(test_.copier.start_rows({first.to->buffer.data() + first.target, to_pitch},
                                 {first.from->buffer.data() + first.source, from_pitch}, row_bytes,
                                 rows, stream, options()),
         is_doomed);
    for (std::size_t row = 0; row < rows; ++row) {
      Range range = first;
      range.target += row * to_pitch;
      range.source += row * from_pitch;
      follow(range, true, !is_doomed || host_only(first));
    }
  }

  /// Ranges that `device` may copy, and the host. Neighbors often adjoin, on one side or on both.
  std::vector<Range> some_batch(int device) {
    std::vector<Range> batch;
    const std::size_t count = random_.size_up_to(60);
    const std::size_t bytes_max = random_.below(3) == 0 ? bytes_ / 4 : std::size_t{9000};
    for (std::size_t tries = 0; tries < 4 * count && batch.size() < count; ++tries) {
      Range next = some_range(bytes_max);
      if (!batch.empty() && random_.below(3) != 0) {
        const Range& last = batch.back();
        next.to = last.to;
        next.from = last.from;
        next.target = last.target + last.bytes + random_.below(2) * random_.below(50);
        next.source = last.source + last.bytes + random_.below(2) * random_.below(50);
      }
      if (next.target + next.bytes > bytes_ || next.source + next.bytes > bytes_) continue;
      if (!may_copy(device, next.from->kind, next.to->kind)) continue;
      if (meet(next, next) ||
          std::ranges::any_of(batch, [&](const Range& other) { return meet(next, other); }))
        continue;
      batch.push_back(next);
    }
    return batch;
  }

  void copy_batch() {
    const int device = static_cast<int>(random_.below(2));
    const std::vector<Range> batch = some_batch(device);
    if (std::ranges::any_of(batch, must_settle)) settle();
    std::vector<CopyRange> copies;
    for (const Range& range : batch)
      copies.push_back({range.to->buffer.data() + range.target,
                        range.from->buffer.data() + range.source, range.bytes});
    const Stream& stream = take_over(device);
    const bool is_doomed = random_.one_in(6);
    keep(test_.copier.start_batch(copies, stream, options()), is_doomed);
    for (const Range& range : batch) follow(range, true, !is_doomed || host_only(range));
  }

  void fill() {
    Model& model = models_[random_.below(models_.size())];
    if (is_host(model.kind)) return;
    const std::size_t bytes = random_.size_up_to(bytes_);
    const std::size_t offset = random_.below(bytes_ - bytes + 1);
    const unsigned char value = random_.byte();
    test_.copier.fill_async(model.buffer.data() + offset, value, bytes,
                            take_over(device_of(model.kind)));
    model.expect(offset, Bytes(bytes, value));
  }

  /// The host writes memory that nothing under way uses.
  void change_host_memory() {
    Model& model = models_[random_.below(models_.size())];
    if (is_host(model.kind) && !model.is_read && !model.is_written) write(model);
  }

  /// Whichever it is: a thread that waits does its share, and its stream's order stays.
  void wait_for_one() {
    if (transfers_.empty()) return;
    std::swap(transfers_[random_.below(transfers_.size())], transfers_.back());
    transfers_.back().wait();
    CHECK_MESSAGE(transfers_.back().failure() == nullptr, "a transfer has failed");
    transfers_.pop_back();
  }

  Model& some_device_model() {
    for (;;) {
      Model& model = models_[random_.below(models_.size())];
      if (!is_host(model.kind)) return model;
    }
  }

  /// Pieces of `bytes`, which the ranges of a batch may be.
  std::vector<CopyRange> pieces(unsigned char* target, unsigned char* source, std::size_t bytes) {
    std::vector<CopyRange> copies;
    const std::size_t piece = 1 + random_.below(9000);
    for (std::size_t at = 0; at < bytes; at += piece)
      copies.push_back({target + at, source + at, std::min(piece, bytes - at)});
    return copies;
  }

  /// A source that is freed right after the call, by its owner or by the one it was handed to.
  void copy_from_what_goes() {
    Model& to = some_device_model();
    const Bytes content = pattern(random_.size_up_to(bytes_), random_.below(1000));
    const std::size_t at = random_.below(bytes_ - content.size() + 1);
    unsigned char* const target = to.buffer.data() + at;
    const Stream& stream = take_over(device_of(to.kind));
    if (random_.below(2) == 0) {
      auto owner = std::make_shared<Bytes>(content);
      unsigned char* const source = owner->data();
      switch (random_.below(3)) {
        case 0:
          test_.copier.copy_async(target, source, content.size(), stream);
          std::fill(owner->begin(), owner->end(), static_cast<unsigned char>(0xEE));
          break;
        case 1:
          test_.copier.start(target, source, content.size(), stream,
                             {.keep_alive = std::move(owner)});
          break;
        default:
          test_.copier.start_batch(pieces(target, source, content.size()), stream,
                                   {.keep_alive = std::move(owner)});
      }
    } else {
      const Allocation block = test_.runtime->pinned_memory().allocate(content.size());
      auto* const source = static_cast<unsigned char*>(block.data());
      std::copy(content.begin(), content.end(), source);
      if (random_.below(2) == 0)
        test_.copier.start(target, source, content.size(), stream);
      else
        test_.copier.start_batch(pieces(target, source, content.size()), stream);
    }
    to.expect(at, content);
    bytes_copied_ += content.size();
    write_a_fresh_block();
  }

  /// Memory that is the target of one copy, the source of another, and freed right after.
  void copy_through_what_goes() {
    Model& from = some_device_model();
    const std::size_t bytes = random_.size_up_to(bytes_);
    const std::size_t source = random_.below(bytes_ - bytes + 1);
    const int device = device_of(from.kind);
    const Stream& stream = take_over(device);
    unsigned char* const data = from.buffer.data() + source;
    if (random_.below(2) == 0) {
      const Allocation block = test_.runtime->pinned_memory().allocate(bytes);
      if (random_.below(2) == 0)
        test_.copier.start(block.data(), data, bytes, stream);
      else
        test_.copier.start_batch(pieces(static_cast<unsigned char*>(block.data()), data, bytes),
                                 stream);
      bytes_copied_ += bytes;
    } else {
      const Allocation block = test_.runtime->memory(Device::cuda(device)).allocate(bytes, stream);
      test_.copier.start(block.data(), data, bytes, stream);
      test_.copier.fill_async(data, 0x11, bytes, stream);
      test_.copier.start_batch(pieces(data, static_cast<unsigned char*>(block.data()), bytes),
                               stream);
      bytes_copied_ += 2 * bytes;
    }
    write_a_fresh_block();
  }

  /// A block that may be where another has just been freed; nobody else writes it.
  void write_a_fresh_block() {
    Bytes content = pattern(random_.size_up_to(bytes_), random_.below(1000));
    Allocation block = test_.runtime->pinned_memory().allocate(content.size());
    std::copy(content.begin(), content.end(), static_cast<unsigned char*>(block.data()));
    kept_.emplace_back(std::move(block), std::move(content));
  }

  CopyTest& test_;
  const Streams& streams_;
  const std::size_t bytes_;
  StreamRef last_;
  std::deque<Model> models_;
  std::vector<Transfer> transfers_;
  std::vector<Transfer> doomed_;
  std::vector<std::pair<Allocation, Bytes>> kept_;
  std::uint64_t bytes_copied_ = 0;
  std::atomic<int> ends_ = 0;
  int ends_expected_ = 0;
};

}  // namespace berth::test
