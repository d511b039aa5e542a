// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES, by CUDA's rules. A pure function: no driver, no environment.
// Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace berth {

struct VisibleDevices {
  /// Indices into the devices given, in the order of the entries: position N is `cuda:N`.
  std::vector<std::size_t> devices;
  /// One line that names the entry that CUDA does not accept, and what it accepts; empty where
  /// every entry is fine. Entries that hide all devices on purpose ("" and "-1") are fine.
  std::string problem;
};

/// What `text` (nullopt: not set) makes visible of the devices whose UUIDs are given in CUDA's
/// order.
///
/// Entries are separated by commas; each is an ordinal, or a UUID ("GPU-..." or a prefix of one
/// that fits a single device). Spaces before an ordinal and whatever follows its digits are
/// skipped, as strtol does and CUDA with it. The first invalid entry ends the list, and so does the
/// first that is not of the first one's kind, ordinal or UUID; a device named twice empties it. MIG
/// entries are not resolved: the list ends there without a problem.
VisibleDevices resolve_visible_devices(const std::optional<std::string>& text,
                                       const std::vector<std::string>& uuids);

}  // namespace berth
