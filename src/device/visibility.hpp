// SPDX-License-Identifier: Apache-2.0
// The reasons why devices are visible or not: the driver's devices, compared with the meaning of
// CUDA_VISIBLE_DEVICES by the rules. The driver decides which devices are visible; the rules
// explain why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "berth/device_registry.hpp"

#include "device/physical_devices.hpp"
#include "device/visible_devices.hpp"

namespace berth {

/// The environment at the time when CUDA read it.
struct VisibilityVariables {
  std::optional<std::string> visible;  ///< CUDA_VISIBLE_DEVICES
  std::optional<std::string> order;    ///< CUDA_DEVICE_ORDER
};

/// What follows "there are no CUDA devices" if CUDA_VISIBLE_DEVICES, which is `visible`, may be the
/// reason; empty if it is not set.
std::string all_hidden_hint(const std::optional<std::string>& visible);

/// The known facts about the driver that shows the devices.
struct VisibilitySource {
  bool all_known = false;      ///< hidden devices are known too
  int driver_version = 0;      ///< from cuDriverGetVersion
  std::string driver_problem;  ///< empty if the driver works
  /// The reason why this process cannot open each physical device; empty if none is known.
  std::vector<std::string> node_faults;
};

/// Refers to its list.
/// Threads  Immutable.
class Visibility {
 public:
  Visibility(const DeviceList& list, VisibilityVariables variables, VisibilitySource source);

  /// The problem with CUDA_VISIBLE_DEVICES, or the difference between the driver's devices and the
  /// variable, in one line; empty if there is none, or none is known.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// One sentence for each device, followed by one for each of its instances. `remark` becomes part
  /// of all sentences.
  [[nodiscard]] std::vector<DeviceExplanation> explain(const std::string& remark) const;

 private:
  [[nodiscard]] const DeviceInfo& info(const Place& place) const;
  [[nodiscard]] std::vector<Place> places_shown() const;
  void find_problem();

  [[nodiscard]] std::string claim(const DeviceInfo& info, const Place& place) const;
  [[nodiscard]] std::string why_visible(int ordinal, const Place& place) const;
  [[nodiscard]] std::string why_hidden(const DeviceInfo& info, const Place& place) const;
  [[nodiscard]] std::string why_not_reached(const VisibleEntry& entry) const;
  [[nodiscard]] std::string described(const VisibleEntry& entry) const;
  [[nodiscard]] std::string variable() const;
  [[nodiscard]] std::string mig_limit() const;
  /// The possible reason, other than a change of the variable, why the driver shows fewer devices
  /// than the variable names.
  [[nodiscard]] std::string why_withheld() const;

  const DeviceList& list_;
  const VisibilityVariables variables_;
  const VisibilitySource source_;
  std::vector<std::size_t> order_;                   ///< from CUDA's order to list_.devices
  std::vector<std::vector<std::size_t>> instances_;  ///< of each of those, in list_.instances
  Machine machine_;
  VisibleDevices by_rule_;
  bool agrees_ = false;  ///< the driver follows the rules
  std::string problem_;
};

}  // namespace berth
