// SPDX-License-Identifier: Apache-2.0
// Why devices are visible or not: what the driver shows, held against what CUDA_VISIBLE_DEVICES
// means by the rules. The driver is always right about what is visible; the rules say why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "berth/device_registry.hpp"

#include "device/physical_devices.hpp"
#include "device/visible_devices.hpp"

namespace berth {

/// The environment, as it was when CUDA read it.
struct VisibilityVariables {
  std::optional<std::string> visible;  ///< CUDA_VISIBLE_DEVICES
  std::optional<std::string> order;    ///< CUDA_DEVICE_ORDER
};

/// What is known of the driver that shows, or does not show, the devices.
struct VisibilitySource {
  bool all_known = false;      ///< hidden devices are known too
  int driver_version = 0;      ///< as cuDriverGetVersion says it
  std::string driver_problem;  ///< empty if the driver works
  /// What keeps this process from each physical device; empty if nothing is known to.
  std::vector<std::string> node_faults;
};

/// Refers to the list it is made of.
/// Threads  Immutable.
class Visibility {
 public:
  Visibility(const DeviceList& list, VisibilityVariables variables, VisibilitySource source);

  /// One line on what is wrong with CUDA_VISIBLE_DEVICES, or on the driver showing something else
  /// than it says; empty if nothing is wrong, or nothing can be said.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// One sentence on each device, and behind it on each of its instances. `remark` goes into all of
  /// them.
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
  /// Why the driver may show less than the variable says, beside a change of the variable.
  [[nodiscard]] std::string why_withheld() const;

  const DeviceList& list_;
  const VisibilityVariables variables_;
  const VisibilitySource source_;
  std::vector<std::size_t> order_;                   ///< from CUDA's order to list_.devices
  std::vector<std::vector<std::size_t>> instances_;  ///< of each of those, in list_.instances
  Machine machine_;
  VisibleDevices by_rule_;
  bool agrees_ = false;  ///< the driver shows what the rules say
  std::string problem_;
};

}  // namespace berth
