// SPDX-License-Identifier: Apache-2.0
#include "sim/check/memory_names.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"

namespace berth::sim {
namespace {

/// Callers may pass any number of bytes.
std::uint64_t end_of(std::uint64_t start, std::uint64_t bytes) {
  return start + std::min(bytes, std::numeric_limits<std::uint64_t>::max() - start);
}

}  // namespace

void MemoryNames::set(std::uint64_t start, std::uint64_t bytes, std::string_view name) {
  if (bytes == 0 || (name.empty() && parts_.empty())) return;
  const std::uint64_t end = end_of(start, bytes);
  split(start);
  split(end);
  parts_.erase(parts_.lower_bound(start), parts_.lower_bound(end));
  if (!name.empty()) parts_.insert_or_assign(start, Part{end, start, on_one_line(name)});
}

void MemoryNames::split(std::uint64_t at) {
  const auto after = parts_.lower_bound(at);
  if (after == parts_.begin()) return;
  Part& part = std::prev(after)->second;
  if (part.end <= at) return;
  parts_.emplace_hint(after, at, part);
  part.end = at;
}

std::map<std::uint64_t, MemoryNames::Part>::const_iterator MemoryNames::first_from(
    std::uint64_t start) const {
  const auto after = parts_.upper_bound(start);
  if (after == parts_.begin()) return after;
  const auto before = std::prev(after);
  return before->second.end > start ? before : after;
}

std::vector<std::string> MemoryNames::find(std::uint64_t start, std::uint64_t bytes,
                                           std::size_t count) const {
  std::vector<std::string> names;
  const std::uint64_t end = end_of(start, bytes);
  for (auto part = first_from(start); part != parts_.end() && part->first < end; ++part) {
    if (names.size() == count) break;
    if (std::ranges::find(names, part->second.name) == names.end())
      names.push_back(part->second.name);
  }
  return names;
}

std::string MemoryNames::describe(std::uint64_t start, std::uint64_t bytes) const {
  std::vector<std::string> names = find(start, bytes, 3);
  if (names.empty()) return "";
  if (names.size() > 1) {
    const bool has_more = names.size() > 2;
    if (has_more) names.pop_back();
    return format_text(" ({}{})", join_texts(names, ", "), has_more ? " and more" : "");
  }
  const auto part = first_from(start);
  if (part->first > start || part->second.named_from == start)
    return format_text(" ({})", names.front());
  return format_text(" ({} + {})", names.front(), start - part->second.named_from);
}

}  // namespace berth::sim
