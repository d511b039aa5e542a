// SPDX-License-Identifier: Apache-2.0
// Kinds of parameters: device code, names of kernels, configurations of launches.
#pragma once

#include <cuda.h>

#include <string>

#include "fuzz/parameters.hpp"

namespace berth::fuzz {

/// What a module is made of: PTX with two kernels, a fat binary as far as that is looked at, other
/// text, or null.
struct DeviceCode {
  struct Drawn {
    std::string code;
    bool is_null;
    [[nodiscard]] const void* value() const { return is_null ? nullptr : code.c_str(); }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr DeviceCode device_code{};

/// Of that PTX, or another.
struct KernelName {
  struct Drawn {
    const char* name;
    [[nodiscard]] const char* value() const { return name; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr KernelName kernel_name{};

struct LaunchConfiguration {
  struct Drawn {
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    bool is_null;
    [[nodiscard]] const CUlaunchConfig* value() {
      config.attrs = config.numAttrs == 0 ? nullptr : &attribute;
      return is_null ? nullptr : &config;
    }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr LaunchConfiguration launch_configuration{};

}  // namespace berth::fuzz
