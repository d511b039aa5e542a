// SPDX-License-Identifier: Apache-2.0
// The staged copies of one stream, in its order. The device gets to one after the other, so that of
// each lane only the first has to be looked at, however many there are.
#pragma once

#include <list>
#include <memory>

#include "base/mutex.hpp"

namespace berth {

class StagedCopy;

struct CopyLane {
  /// Held while a copy joins the lane and is submitted, so that the order of the lane is the
  /// stream's.
  Mutex submission;

  // Guarded by the lock of the HostWork that has all copies of the lane.
  std::list<std::shared_ptr<StagedCopy>> copies;           ///< under way, oldest first
  std::list<std::shared_ptr<CopyLane>>::iterator place{};  ///< among lanes with copies
};

}  // namespace berth
