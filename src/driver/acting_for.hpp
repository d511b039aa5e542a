// SPDX-License-Identifier: Apache-2.0
// While it exists, observations of its thread count only for an object, for the simulated driver's
// race detector (driver/sim_abi.hpp): if a thread of berth observes the end of a copy, that does
// not order the copy for a program that has not waited for it. No effect on hardware.
#pragma once

#include "driver/driver.hpp"

namespace berth {

/// Threads  The thread that created it.
class ActingFor {
 public:
  ActingFor(const Driver& driver, const void* object)
      : driver_(driver), former_(driver.sim_host_acts_for(object)) {}
  ~ActingFor() { driver_.sim_host_acts_for(former_); }
  ActingFor(const ActingFor&) = delete;
  ActingFor& operator=(const ActingFor&) = delete;

 private:
  const Driver& driver_;
  const void* const former_;
};

}  // namespace berth
