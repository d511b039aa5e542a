// SPDX-License-Identifier: Apache-2.0
// Planned faults of calls: rules separated by ";", of which the first that applies is used.
//
//   rule      when=what
//   when      FUNCTION          every call of it; * is any function but cuInit
//             FUNCTION@N        its Nth call, from 1, refused ones included
//             FUNCTION@N+       its Nth and every later one
//             FUNCTION%P        each with a chance of P percent, by the configuration's seed
//   what      out_of_memory     a name of CUDA's without CUDA_ERROR_: the call does nothing, and
//                               says so
//             slow:N            the call takes N ns of virtual time longer, and is otherwise as
//                               ever
//             memory:BYTES      from now on every device is that small, or as small as is in use
//             lost:DEVICE       the device, by slot, is gone: every call that needs it fails from
//                               now on
//
// Example: "cuMemCreate@3=out_of_memory;cuEventRecord%0.1=unknown;*@5000=lost:1"
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/functions.hpp"

namespace berth::sim {

struct Fault {
  enum class Kind { refused, slow, less_memory, lost };
  Kind kind = Kind::refused;
  CUresult code = CUDA_SUCCESS;  ///< of a failing call
  std::uint64_t amount = 0;      ///< ns, bytes, or the slot of the device
};

struct FaultRule {
  std::optional<Function> function;  ///< nullopt: any
  std::uint64_t first = 1;
  std::uint64_t last = UINT64_MAX;
  double percent = 100;
  Fault fault;
};

class FaultPlan {
 public:
  /// Empty text is a plan without faults.
  /// Errors InvalidArgument that names the rule and the accepted values.
  static FaultPlan parse(std::string_view text);
  /// The text that parse() read.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<FaultRule>& rules() const { return rules_; }

  bool operator==(const FaultPlan& other) const { return text_ == other.text_; }

 private:
  std::string text_;
  std::vector<FaultRule> rules_;
};

}  // namespace berth::sim
