// SPDX-License-Identifier: Apache-2.0
#include "collective/broadcast_copies.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "copy/direct/direct_transfer.hpp"
#include "copy/direct/driver_copies.hpp"
#include "device/device_context.hpp"
#include "stream/unchecked.hpp"

namespace berth {
namespace {

/// Pieces submitted for one link of a chain before the next link. Changing the current context
/// costs two driver calls.
constexpr std::size_t kBatch = 4;

/// Slices are aligned to lines of device memory.
constexpr std::size_t kSliceAlignment = 512;

std::optional<EventRef> no_mark() {
  return std::nullopt;
}

}  // namespace

/// The copies to one shard from its neighbor, and their Transfer.
class BroadcastCopies::Link {
 public:
  /// `bytes`: the size of the shard.
  Link(BroadcastCopies& copies, const CollectiveSide& from, const CollectiveSide& to,
       std::size_t bytes, CollectiveWork& work)
      : events_(copies.events_(to.stream.context())),
        piece_bytes_(copies.piece_bytes_),
        from_(from),
        to_(to),
        transfer_(std::make_shared<DirectTransfer>(bytes)) {
    work.parts.emplace_back(transfer_);
    work.bytes_forwarded.push_back(bytes);
    if (from.device() != to.device()) copies.links_.open(*to.device(), *from.device());
  }

  [[nodiscard]] DeviceContext& context() const { return to_.stream.context(); }

  /// Copies [offset, offset + bytes) once the neighbor has received it, and returns a mark behind
  /// the copy. Within a ContextScope of context().
  EventRef take(std::size_t offset, std::size_t bytes, const std::optional<EventRef>& ready) {
    BERTH_CHECK(offset < to_.bytes && bytes <= to_.bytes - offset);  // the driver checks no ends
    if (ready && from_.stream != to_.stream) to_.stream.wait(*ready);
    for (std::size_t done = 0; done < bytes; done += piece_bytes_) {
      const std::size_t at = offset + done;
      submit_linear(to_.data + at, from_.data + at, std::min(piece_bytes_, bytes - done),
                    {to_.kind.device, from_.kind.device}, to_.stream);
    }
    EventLease mark = events_.acquire();
    record_unchecked(mark, to_.stream);
    const EventRef ref = mark;
    transfer_->add_step(std::move(mark), bytes);
    return ref;
  }

 private:
  EventPool& events_;
  const std::size_t piece_bytes_;
  const CollectiveSide& from_;
  const CollectiveSide& to_;
  const std::shared_ptr<DirectTransfer> transfer_;
};

// One and a half times the piece size of other copies, because a link between devices is faster
// than a link to the host. Each piece is submitted once for each device, and submission must not
// take longer than the copy.
BroadcastCopies::BroadcastCopies(Collectives::EventPools events, std::size_t piece_bytes)
    : events_(std::move(events)), piece_bytes_(piece_bytes + piece_bytes / 2) {}

void BroadcastCopies::chain(const CollectiveSide& source, ShardRow row, CollectiveWork& work) {
  std::vector<Link> links;
  links.reserve(row.size());
  const CollectiveSide* from = &source;
  for (const CollectiveSide& to : row) {
    links.emplace_back(*this, *from, to, to.bytes, work);
    if (from != &source) work.reads.push_back({.of = from->stream, .by = to.stream});
    from = &to;
  }
  const std::size_t batch_bytes = kBatch * piece_bytes_;
  for (std::size_t offset = 0; offset < source.bytes; offset += batch_bytes) {
    const std::size_t end = std::min(source.bytes, offset + batch_bytes);
    std::vector<std::optional<EventRef>> ready(kBatch, no_mark());  // the source has all bytes
    for (Link& link : links) {
      const ContextScope scope(link.context());
      std::size_t at = offset;
      for (std::size_t piece = 0; at < end; ++piece, at += piece_bytes_) {
        // A device forwards what it has received; only the source has all bytes from the start.
        BERTH_CHECK(ready[piece].has_value() == (&link != &links.front()));
        ready[piece] = link.take(at, std::min(piece_bytes_, end - at), ready[piece]);
      }
    }
  }
}

void BroadcastCopies::ring(ShardRow row, const FetchSlices& fetch, CollectiveWork& work) {
  const std::size_t count = row.size();
  BERTH_CHECK(count > 1);  // a member fetches from another one
  const std::size_t bytes = row.front().bytes;
  const std::size_t slice_bytes = align_up((bytes + count - 1) / count, kSliceAlignment);
  const auto begin_of = [&](std::size_t slice) { return std::min(bytes, slice * slice_bytes); };
  const auto bytes_of = [&](std::size_t slice) { return begin_of(slice + 1) - begin_of(slice); };
  const auto before = [&](std::size_t member) { return (member + count - 1) % count; };
  BERTH_CHECK(begin_of(count) == bytes);  // the slices are the whole

  std::vector<Slice> slices;
  for (std::size_t member = 0; member < count && bytes_of(member) > 0; ++member)
    slices.push_back({&row[member], begin_of(member), bytes_of(member)});
  fetch(slices);

  std::vector<Link> links;
  links.reserve(count);
  std::vector<EventLease> fetched;
  std::vector<std::optional<EventRef>> ready(count, no_mark());  // the last slice of each member
  for (std::size_t member = 0; member < count; ++member) {
    const CollectiveSide& to = row[member];
    const CollectiveSide& from = row[before(member)];
    fetched.push_back(events_(to.stream.context()).acquire());
    record_unchecked(fetched.back(), to.stream);
    ready[member] = fetched.back();
    links.emplace_back(*this, from, to, bytes - bytes_of(member), work);
    work.reads.push_back({.of = from.stream, .by = to.stream});
  }
  for (std::size_t round = 1; round < count; ++round) {
    const std::vector<std::optional<EventRef>> last = ready;
    for (std::size_t member = 0; member < count; ++member) {
      const std::size_t slice = (member + count - round) % count;
      if (bytes_of(slice) == 0) continue;
      const ContextScope scope(links[member].context());
      ready[member] = links[member].take(begin_of(slice), bytes_of(slice), last[before(member)]);
    }
  }
}

}  // namespace berth
